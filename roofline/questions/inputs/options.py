"""The options of a case: one table that the shell, Python, help and documents read.

A new option takes a row of `CASE` here, its type in `signatures.py`, and its parameter in `predict`, which acts on it.
A row says how the option is spelled, how a text becomes its value or several values, in which unit, what it means, and
what holds where it is left out. A question takes all of them but those that `QUESTIONS` refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from itertools import chain, product
from typing import Any, TypeVar, cast

from roofline.numbers.quantity import KIBI, from_text
from roofline.specs.arrivals import RANDOM, ROUTERS
from roofline.specs.engine import TIERS
from roofline.specs.load import LASTING, RUN
from roofline.specs.load import OPTIONS as OF_A_LOAD
from roofline.specs.workload import limits_of_text, ratio_of_text
from roofline.specs.written import (
    lengths_of_text,
    measured_of_text,
    number_of_text,
    numbers_of_text,
    prefix_of_text,
    prefixes_of_text,
    price_of_text,
    rate_of_text,
    rates_of_text,
    share_of_text,
    time_of_text,
    whole_of_text,
    wholes_of_text,
    words_of_text,
)
from roofline.support.errors import BadInput, did_you_mean, shown
from roofline.support.records import NamedTuple

#: What plans are ranked by: rent; worst latency over its limit, of what the budget allows; tokens per GPU.
OBJECTIVES = ("cost", "latency", "throughput")
#: Expert-parallel degree of as many ranks as there are: experts on all tp x dp of them.
ALL = "all"


# How texts become values.


class Value(NamedTuple):
    """Values of one kind; callers write them as texts or as what the text stands for."""

    name: str  # placeholder in help
    read: Callable[[str], Any] | None = None  # None: a text as it is
    names: str = ""  # of several, in help
    read_all: Callable[[str], list[Any]] | None = None  # None: one value alone
    in_shell: Callable[[str], Any] | None = None  # where a bare number means something else there
    choices: tuple[str, ...] = ()
    known: str = ""  # completed from these names: format, engine, workload
    is_joined: bool = False  # in the shell, an option that is repeated is one text, joined by commas


def _ranks_of_text(text: str) -> int | str:
    return ALL if text.strip().lower() == ALL else whole_of_text(text)


def _all_ranks_of_text(text: str) -> list[Any]:
    parts = (part.strip() for part in text.split(","))
    return list(chain(*([ALL] if part.lower() == ALL else wholes_of_text(part) for part in parts)))


def _workload_of_text(text: str) -> tuple[int, int] | str:
    name = text.strip()
    if "," in name and "/" not in name:
        raise BadInput(f"{shown(text)} is more than one workload; ask once for each (sweep takes lists of isl and osl)")
    return lengths_of_text(name) or name


def _format_of_text(text: str) -> str:
    if "," in text:
        raise BadInput(f"{shown(text)} is more than one format; ask once for each (quantize compares formats)")
    return text


FLAG = Value("")
COUNT = Value("n", whole_of_text, "n,n", wholes_of_text)  # 4096, 4k; 500,2k; 1:256:x2
NUMBER = Value("n", number_of_text, "x,x", numbers_of_text)  # 64, 12.5; 0.5,1; 0.5:8:x2
RATE = Value("n", rate_of_text, "x,x", rates_of_text)  # 4, 1800/min, 100k/h; 1:8:x2
PREFIX = Value("tokens|%", prefix_of_text, "tokens|%,...", prefixes_of_text)  # 1k, 80%
SHARE = Value("x|%", share_of_text)  # 0.5, 50%
TIME = Value("time", partial(time_of_text, needs_unit=True), in_shell=time_of_text)  # 20ms; in the shell bare in ms
LASTING_TIME = Value("time", partial(time_of_text, needs_unit=True))  # 30s
BYTES = Value("text", partial(from_text, dimension="B"), in_shell=str)
BYTES_PER_SECOND = Value("text", partial(from_text, dimension="B/s"), in_shell=str)
EXPERTS = Value("n|all", _ranks_of_text, "n,n|all", _all_ranks_of_text)  # 8, all
MEASUREMENT = Value("key=value", measured_of_text)  # tpot=12.3,batch=8
PRICE = Value("USD/h", price_of_text)  # 2.5, 2-4
POWER = Value("W|%", in_shell=str)  # 500W, 70%
KWH_PRICE = Value("USD/kWh", in_shell=str)
PUE = Value("x", in_shell=str)
SETTINGS = Value("figure=value", is_joined=True)  # memory.bandwidth=12TB/s; once for each figure
LIMITS = Value("key:ms", None, in_shell=limits_of_text)  # ttft:300@p95,tpot:25
RATIO = Value("Nx", None, in_shell=ratio_of_text)  # 2x
TEXT = Value("text")
DTYPE = Value("dtype")
DTYPES = Value("dtype", None, "word,word", words_of_text)
FORMAT = Value("format", None, "word,word", words_of_text, in_shell=_format_of_text, known="format")  # bf16,fp8
ENGINE = Value("engine", known="engine")
WORKLOAD = Value("8k1k|name", None, in_shell=_workload_of_text, known="workload")


# The table.


class Option(NamedTuple):
    """A keyword of `predict` and its flag; `{...}` in its help stands for names that the catalog knows."""

    name: str
    flags: tuple[str, ...]  # ours first, then the names of the same in other tools; hyphens may be underscores
    value: Value
    help: str
    default: str = ""  # what holds where it is left out
    unit: str = "1"
    each: str = ""  # help where it takes several values

    @property
    def names(self) -> Iterator[str]:
        """Names by which callers of Python may know it."""
        names = (flag.lstrip("-").replace("-", "_") for flag in self.flags if len(flag) > len("-q"))
        return iter(dict.fromkeys(names))


def _choice(*words: str) -> Value:
    return Value("|".join(words), choices=words)


_ISL = (
    "--isl", "--input-len", "--random-input-len", "--random-input", "--synthetic-input-tokens-mean",
    "--prompt-input-tokens-mean",
)  # fmt: skip
_OSL = (
    "--osl", "--output-len", "--random-output-len", "--random-output", "--output-tokens-mean",
    "--prompt-output-tokens-mean",
)  # fmt: skip

#: Group of the help -> options, the common ones first.
CASE: Mapping[str, tuple[Option, ...]] = {
    "Case": (
        Option("isl", _ISL, COUNT, "Prompt length in tokens, e.g. 4096 or 4k.", str(KIBI), "tokens",
               each="Prompt lengths in tokens, e.g. 500,2k,8k or 1k:32k:x2."),
        Option("osl", _OSL, COUNT, "Output length in tokens.", "128", "tokens", each="Output lengths in tokens."),
        Option("prefix", ("--prefix", "--prefix-prompt-length"), PREFIX,
               "Prompt tokens already in the KV cache, e.g. 1k or 80%.", "", "tokens",
               each="Prompt tokens already in the KV cache, or shares: 0,1k,80%."),
        Option("workload", ("--workload",), WORKLOAD,
               "Both lengths in one word, e.g. 8k1k; or a named workload with its SLO (see roofline workloads)."),
        Option("slo", ("--slo", "--goodput"), LIMITS, "Limits in ms, e.g. ttft:300@p95,tpot:25,e2el:8s@p99.", "", "s"),
        Option("p99_within", ("--p99-within",), RATIO, "Largest p99 as a multiple of the median, e.g. 2x."),
    ),
    "Load": (
        Option("concurrency", ("-c", "--concurrency", "--max-concurrency", "--users"), NUMBER,
               "Concurrent users; each sends a new request as soon as the last one is answered.", "", "requests",
               each="Concurrent users, e.g. 1:256:x4."),
        Option("request_rate", ("--request-rate", "--rate", "--qps", "--rps"), RATE,
               "Requests per second, arriving at random (Poisson); or 1800/min, 100k/h.", "", "1/s"),
        Option("batch", ("-b", "--batch", "--batch-size"), COUNT, "Requests that start together on an idle server.",
               "1", "sequences", each="Requests that start together on an idle server, e.g. 1:256:x2."),
        Option("num_prompts", ("--num-prompts", "--num-requests", "--request-count"), NUMBER,
               "Requests of a run of the users, its start included; alone: all queued at once (offline).",
               "steady state", "requests"),
        Option("isl_cv", ("--isl-cv",), SHARE, "Spread of prompt lengths: standard deviation over mean, e.g. 0.5."),
        Option("osl_cv", ("--osl-cv",), SHARE, "Spread of output lengths."),
        Option("lengths", ("--lengths",), TEXT,
               "Distribution of both lengths: lognormal, uniform, or a trace.csv with columns isl and osl."),
        Option("cold_start", ("--cold-start",), TEXT,
               "Share of requests that hit a cold server, and the delay, e.g. 1%:2s."),
        Option("arrivals", ("--arrivals",), TEXT,
               "How requests come: poisson, idc:1s=1.4,10s=3.9 (variance over mean of their number in 1 s and in "
               "10 s), or a trace.csv with a column timestamp.", "poisson"),
        Option("router", ("--router", "--routing-logic"), _choice(*ROUTERS),
               "Which replica gets a request: random, round-robin, least-busy (fewest in flight), or prefix (the one "
               "that keeps the prefix of the prompt).", RANDOM),
    ),
    "Images and audio": (
        Option("images", ("--images",), COUNT, "Images of a request, after its text; their tokens add to --isl.",
               "none"),
        Option("image_size", ("--image-size",), TEXT, "Width and height of an image or frame in pixels.", "1024x1024"),
        Option("video_frames", ("--video-frames",), COUNT, "Frames of a video in a request, of that size.", "none"),
        Option("audio", ("--audio",), LASTING_TIME, "Length of the audio in a request, e.g. 30s.", "none", "s"),
    ),
    "Sessions": (
        Option("turns", ("--turns",), COUNT, "Turns of a chat or an agent; each sends what was said before, and more."),
        Option("think", ("--think",), TIME, "Mean pause from an answer to the next turn, e.g. 5s.", "0", "s"),
        Option("grow", ("--grow",), TEXT, "Tokens that a turn adds: in:800,out:300; in place of --isl and --osl.", "",
               "tokens"),
        Option("system", ("--system-prompt",), COUNT,
               "Tokens that all sessions begin with, always cached, e.g. 2k; --system 2k is the same.", "0", "tokens"),
    ),
    "Prompt cache": (
        Option("cache_hit", ("--cache-hit",), SHARE, "Share of requests whose --prefix is cached.", "all"),
        Option("cache_tier", ("--cache-tier",), _choice(*TIERS), "Where cached prefixes are stored.", "hbm"),
        Option("cache_bandwidth", ("--cache-bandwidth",), BYTES_PER_SECOND,
               "Bandwidth of that tier to one GPU, e.g. 12GB/s.", "the GPU's link", "B/s"),
        Option("cache_size", ("--cache-size",), BYTES,
               "Size of the cache of one replica, e.g. 500GB; in hbm taken from the batch.", "", "B"),
        Option("working_set", ("--working-set",), TEXT,
               "Size of all prefixes in use, e.g. 2TB or 2TB:zipf0.9; sets the hit rate with --cache-size.", "", "B"),
    ),
    "Plan": (
        Option("tp", ("--tp", "-tp", "--tensor-parallel-size", "--tp-size"), COUNT, "Tensor-parallel degree.",
               "the smallest that serves the case", each="Tensor-parallel degrees."),
        Option("pp", ("--pp", "-pp", "--pipeline-parallel-size", "--pp-size"), COUNT, "Pipeline-parallel degree.", "1",
               each="Pipeline-parallel degrees."),
        Option("ep", ("--ep", "--expert-parallel-size", "--ep-size", "--moe-expert-parallel-size"), EXPERTS,
               "Expert-parallel degree; all: on every tp x dp x cp rank.", "1", each="Expert-parallel degrees."),
        Option("enable_expert_parallel", ("--enable-expert-parallel",), FLAG, "The same as --ep all."),
        Option("dp", ("--dp", "-dp", "--data-parallel-size", "--dp-size"), COUNT,
               "Data-parallel degree of the attention.", "1", each="Data-parallel degrees of the attention."),
        Option("eplb",
               ("--eplb", "--ep-num-redundant-experts", "--num-redundant-experts",
                "--eplb-config.num-redundant-experts"), COUNT,
               "Load balancing of the experts: slots for copies of popular ones, on all ranks; 0 only moves experts.",
               "none", "1"),
        Option("enable_eplb", ("--enable-eplb",), FLAG, "The same as --eplb 0, where no slots are given."),
        Option("two_batch_overlap", ("--two-batch-overlap", "--enable-two-batch-overlap", "--enable-dbo"), FLAG,
               "Each step as two half batches: one computes while the other exchanges tokens with the experts."),
        Option("all_to_all", ("--all-to-all", "--all2all-backend", "--moe-a2a-backend"),
               Value("way[:nodes]"),
               "How tokens reach experts: direct (each copy by itself), per-node (once to each node), or deepep "
               "(per-node for prompts); per-node:4 if experts of a token are on 4 nodes at most.", "direct"),
        Option("cp", ("--cp", "-pcp", "--prefill-context-parallel-size"), COUNT,
               "Ranks that split the tokens of each prompt; each has all weights of its tp rank but for experts.", "1",
               each="Ranks that split the tokens of each prompt."),
        Option("dcp", ("--dcp", "-dcp", "--decode-context-parallel-size", "--dcp-size"), COUNT,
               "Ranks of tp that split the KV cache of each sequence, where they would hold copies.", "1",
               each="Ranks of tp that split the KV cache of each sequence."),
        Option("num_gpus", ("--num-gpus", "--total-gpus"), COUNT, "GPUs in total, split into replicas.", "one replica"),
        Option("allow_oversize", ("--allow-oversize",), FLAG, "Predict even if the memory does not suffice."),
    ),
    "Speculation": (
        Option("draft", ("--draft", "--speculative-algorithm"), TEXT,
               "Speculative decoding: mtp, eagle, ngram, or a smaller model that proposes tokens."),
        Option("draft_tokens",
               ("--draft-tokens", "--num-speculative-tokens", "--speculative-num-steps",
                "--speculative-num-draft-tokens"), COUNT, "Tokens proposed before each step.", "", "tokens"),
        Option("acceptance", ("--acceptance",), TEXT,
               "Share of proposed tokens kept: 0.8, .92,.86,.8 (one for each), '2.8 tokens' (per step), or "
               "deepseek-r1-mtp."),
    ),
    "Adapters and host memory": (
        Option("lora", ("--lora",), TEXT,
               "LoRA adapters and their rank, e.g. 8:16; of fewer matrices 8:16:attention or 8:16:dense (no experts)."),
        Option("max_loras", ("--max-loras",), COUNT, "Slots for adapters in GPU memory.", "one for each adapter"),
        Option("max_lora_rank", ("--max-lora-rank",), COUNT, "Rank of a slot, which kernels compute.",
               "that of the adapters"),
        Option("offload", ("--offload", "--cpu-offload-gb"), TEXT,
               "Weights per GPU that stay in host memory: 40GB (40 means GiB), experts, experts:40GB, or tables.", "",
               "B"),
        Option("offload_bandwidth", ("--offload-bandwidth",), BYTES_PER_SECOND,
               "Bandwidth at which one GPU reads them, e.g. 50GB/s.", "the GPU's link", "B/s"),
        Option("cpu_bandwidth", ("--cpu-bandwidth",), BYTES_PER_SECOND,
               "Bandwidth of host memory, where the CPU multiplies them in decode, as llama.cpp does; e.g. 80GB/s.",
               "the GPU reads them", "B/s"),
    ),
    "Formats": (
        Option("quantization", ("-q", "--quantization", "--dtype"), FORMAT,
               "Number formats: {formats}; awq, gptq, w8a8, fp4 and the like are understood.",
               each="Number formats, e.g. bf16,fp8."),
        Option("weights", ("--weights", "--weight-dtype"), FORMAT, "Format of the weights alone."),
        Option("kv_cache_dtype", ("--kv-cache-dtype",), DTYPES, "Format of the KV cache, e.g. fp8.",
               each="Number formats of the KV cache."),
        Option("compute", ("--compute", "--compute-dtype"), DTYPE,
               "Precision of the matrix multiplications, e.g. bf16."),
    ),
    "Engine and hardware": (
        Option("engine", ("--engine", "--backend"), ENGINE,
               "Serving engine: {engines}, vllm@0.19 for a version, or the path of a profile of your own.", "generic"),
        Option("max_num_batched_tokens", ("--max-num-batched-tokens", "--max-num-tokens", "--chunked-prefill-size"),
               COUNT, "Token budget of a step.", "the engine's", "tokens"),
        Option("max_num_seqs", ("--max-num-seqs", "--max-running-requests", "--max-batch-size"), COUNT,
               "Most sequences that run at once, per data-parallel rank.", "the engine's", "sequences"),
        Option("gpu_memory_utilization", ("--gpu-memory-utilization", "--mem-fraction-static"), SHARE,
               "Share of the GPU memory that the engine may use.", "the engine's, 0.92"),
        Option("max_model_len", ("--max-model-len", "--context-length", "--max-seq-len"), COUNT,
               "Longest request served, prompt and output.", "the model's", "tokens"),
        Option("network", ("--network",), TIME, "Round trip between client and server, e.g. 20ms.", "0", "s"),
        Option("routing", ("--routing",), Value("c"), "Expert routing: uniform, or a skew.", "0.66"),
        Option("derate", ("--derate",), TEXT,
               "Rates lost to neighbours or virtualization, e.g. bandwidth:5%,peak:3%."),
        Option("set", ("--set",), SETTINGS,
               "A figure of hypothetical hardware, e.g. memory.bandwidth=12TB/s or h100-sxm.peak.fp8=2PFLOP/s."),
        Option("power_cap", ("--power-cap", "--power-limit"), POWER,
               "Power to which each GPU is limited, e.g. 500W or 70%.", "its TDP", "W"),
        Option("measured", ("--measured",), MEASUREMENT,
               "Your own measurement in ms, e.g. tpot=12.3,batch=8; the answer is scaled to it."),
        Option("basis", ("--basis",), _choice("calibrated", "ideal"),
               "Calibrated on measured kernels, or ideal: the hardware limit.", "calibrated"),
        Option("specs", ("--specs",), Value("path"), "Folder of your own GPU and model files.", "$ROOFLINE_SPECS"),
        Option("assume", ("--assume",), Value("family"),
               "Read a config.json of an unknown family as this one, e.g. llama."),
        Option("gpu_price", ("--gpu-price",), PRICE, "Rent in USD per GPU-hour, e.g. 2.5 or 2-4; or 1500/month.",
               "the catalog's", "USD/h"),
        Option("price_file", ("--price-file",), Value("path"),
               "A CSV of your rents: columns gpu and usd_per_hour, or price such as 1500/month."),
        Option("kwh_price", ("--kwh-price", "--electricity-price"), KWH_PRICE,
               "Price of energy in USD per kWh, e.g. 0.12; shown beside the rent.", "", "USD/kWh"),
        Option("pue", ("--pue",), PUE, "Energy of the data centre over that of the GPUs, e.g. 1.3.", "1"),
    ),
}  # fmt: skip

#: Options about weights beside those in GPU memory.
SIDE_WEIGHTS = tuple(option.name for option in CASE["Adapters and host memory"])
#: Options by name.
OPTIONS: Mapping[str, Option] = {option.name: option for options in CASE.values() for option in options}


# Which questions take which options.


class Question(NamedTuple):
    """What a question takes, by its name in the shell."""

    refused: Mapping[str, str] = {}  # option -> why; names of options in ticks, which each door writes its way
    each: bool = False  # answers a row for each of several values
    several: tuple[str, ...] = ()  # takes several values of these at once
    single: bool = False  # takes one model and one GPU
    needs_gpus: bool = False  # which, it must be told
    is_loaded: bool = False  # is about requests that arrive one by one
    names_gpus: bool = True  # in the option for them; else in options of its own
    helps: Mapping[str, str] = {}  # option -> help, where it differs
    kinds: Mapping[str, Value] = {}  # option -> values, where they differ
    only: tuple[str, ...] | None = None  # all that it takes; None: all that it does not refuse

    @property
    def taken(self) -> Iterator[Option]:
        """What it takes, in the order of the table."""
        names = OPTIONS if self.only is None else self.only
        return (option for name, option in OPTIONS.items() if name in names and name not in self.refused)


_TAKES_MORE = 8  # flag of a function with **options
_ONE = "a measurement is of one deployment only"
_NO_ENERGY = dict.fromkeys(("kwh_price", "pue"), "its rows state no energy; predict, plan and cost do")
_NO_LIMIT = {
    "slo": "it judges no limit",
    "p99_within": "it judges no limit",
    "gpu_price": "it prices nothing",
    "price_file": "it prices nothing",
    **_NO_ENERGY,
}
_FINDS = dict.fromkeys(OF_A_LOAD, "the load is the answer; predict takes a known one")
_FORMATS_TRIED = "it compares all formats; choose the reference with `baseline`"
_OF_A_POOL = "it belongs to a pool here, as in b200:tp4ep4x2"
_POISSON_POOLS = "its closed forms are of Poisson arrivals at both pools"
_NO_RUN = "a workbook holds bursts and steady loads; ask predict, or sweep for rows in a file"
_NOT_IN_CELLS = "a workbook has no cell for it; sweep writes rows to a file"
_ON_THE_PAGE = "it is chosen on the page itself"
_NOT_ON_THE_PAGE = "the page has no control for it; ask predict"
_MOST_PER_GPU = {"tp": "Tensor-parallel degree.  [default: the most requests per GPU]"}
_SEARCHED = "Tensor-parallel degree.  [default: searched]"
#: Options of which several values make rows that show the difference.
LISTED = (
    "isl", "osl", "prefix", "concurrency", "request_rate", "batch", "tp", "pp", "ep", "dp", "cp", "dcp", "num_gpus",
    "draft_tokens", "quantization", "weights", "kv_cache_dtype",
)  # fmt: skip
#: What a result may leave out, with helps and kinds of values where these differ from those of a case.
_STATED_OF_A_RUN = (
    "isl", "osl", "prefix", "concurrency", "request_rate", "batch", "num_prompts", "tp", "pp", "ep", "dp",
    "quantization", "kv_cache_dtype", "engine", "specs",
)  # fmt: skip
_OF_A_RUN = {
    "isl": "Mean prompt length [tokens].",
    "osl": "Mean answer length [tokens].",
    "prefix": "Cached prompt tokens, or a share such as 80%.",
    "concurrency": "Requests in flight on the deployment.",
    "request_rate": "Requests per second sent to the deployment.",
    "batch": "Requests that started together.",
    "num_prompts": "Requests of the run, its start included.",
    "tp": "Tensor-parallel degree.",
    "engine": "Engine that was measured: vllm, sglang, trtllm, none.",
}
_KINDS_OF_A_RUN: Mapping[str, Value] = {"isl": NUMBER, "osl": NUMBER, "batch": NUMBER, "ep": COUNT}
_IN_CELLS = (
    "isl", "osl", "prefix", "slo", "p99_within", "batch", *LASTING, "tp", "pp", "ep", "dp", "quantization",
    "kv_cache_dtype", "engine", "network", "routing", "basis", "specs", "assume",
)  # fmt: skip

#: Question -> what it takes.
QUESTIONS: Mapping[str, Question] = {
    "predict": Question(each=True),
    "ttft": Question(each=True),
    "tpot": Question(each=True),
    "knee": Question(
        {
            "request_rate": "a knee is a batch, or a number of users; under a rate the batch follows from it (solve "
            "for request_rate says the rate at which an SLO is just met)",
            "think": "a knee is of users in flight, and those who think are not",
        },
        each=True,
    ),
    "sweep": Question({"measured": _ONE}, several=LISTED),
    "plan": Question(
        {
            "num_gpus": "it finds how many are needed",
            "measured": "a measurement is of one deployment, and plan tries many",
            "allow_oversize": "what does not fit cannot meet an SLO",
        },
        each=True,
        several=(
            "quantization",
            "weights",
            "kv_cache_dtype",
            "tp",
            "pp",
            "ep",
            "dp",
            "cp",
            "dcp",
            "draft_tokens",
            "max_num_batched_tokens",
            "max_num_seqs",
        ),
        helps={
            "tp": _SEARCHED,
            "ep": "Expert-parallel degree.  [default: searched]",
            "dp": "Data-parallel degree of the attention.  [default: searched for mixtures of experts]",
            "quantization": "Number formats: {formats}. Of several the best is taken.",
            "max_num_batched_tokens": "Token budgets of a step; of several the best is taken.  [default: the engine's]",
            "max_num_seqs": "Most sequences that run at once; of several the best is taken.  [default: the engine's]",
        },
    ),
    "goodput": Question(
        {**_FINDS, "allow_oversize": "what does not fit serves nobody"}, each=True, is_loaded=True, helps=_MOST_PER_GPU
    ),
    "curve": Question(
        {
            **dict.fromkeys(OF_A_LOAD, "it varies the load itself"),
            "allow_oversize": "what does not fit serves nobody",
            **_NO_ENERGY,
        },
        needs_gpus=True,
        is_loaded=True,
        helps=_MOST_PER_GPU,
    ),
    "fits": Question(
        only=(
            "tp",
            "pp",
            "ep",
            "enable_expert_parallel",
            "dp",
            "eplb",
            "enable_eplb",
            "cp",
            "dcp",
            "num_gpus",
            "draft",
            "draft_tokens",
            "acceptance",
            "lora",
            "max_loras",
            "max_lora_rank",
            "offload",
            "offload_bandwidth",
            "cpu_bandwidth",
            "quantization",
            "weights",
            "kv_cache_dtype",
            "compute",
            "engine",
            "max_num_batched_tokens",
            "max_num_seqs",
            "gpu_memory_utilization",
            "max_model_len",
            "images",
            "image_size",
            "video_frames",
            "audio",
            "set",
            "specs",
            "assume",
        ),
        each=True,
        helps={
            "tp": "Tensor-parallel degree.  [default: 1; of a pool the smallest with which it starts]",
            "engine": "Engine that starts: vllm, sglang or trtllm, vllm@0.19 for a version.  [default: vllm]",
        },
    ),
    "budgets": Question(
        {
            "batch": "a burst on an idle server has no steps that others share",
            "measured": "a measurement is of one value of the setting",
            "allow_oversize": "what does not fit serves nobody",
        },
        single=True,
        is_loaded=True,
    ),
    "pareto": Question(
        {"measured": _ONE, "allow_oversize": "what does not fit cannot be on a frontier"},
        several=tuple(name for name in LISTED if name not in ("isl", "osl", "prefix")),
        needs_gpus=True,
        is_loaded=True,
        helps={
            "tp": "Tensor-parallel degrees.  [default: every plan within the scale-up domain]",
            "concurrency": "Concurrent users, e.g. 1:256:x2.  [default: from one to all slots taken]",
            "batch": "Requests that start together on an idle server, e.g. 1:256:x2.",
        },
    ),
    "cost": Question(each=True, is_loaded=True),
    "compare": Question({"measured": _ONE}, needs_gpus=True),
    "quantize": Question(
        {
            "quantization": _FORMATS_TRIED,
            "weights": _FORMATS_TRIED,
            "kv_cache_dtype": "each format is shown with a 16-bit and an 8-bit KV cache",
            "compute": "each format runs at the best rate of the GPU",
            "measured": _ONE,
        },
        single=True,
    ),
    "sensitivity": Question(_NO_LIMIT, single=True),
    "solve": Question({name: why for name, why in _NO_LIMIT.items() if name not in ("slo", "p99_within")}),
    "formula": Question(_NO_LIMIT, single=True),
    "levers": Question(
        {
            "batch": "a burst on an idle server has no queue and no percentiles",
            "num_prompts": "percentiles need a steady state",
            "measured": _ONE,
            "allow_oversize": "a lever that does not fit is listed with the reason",
        },
        single=True,
        is_loaded=True,
    ),
    "cache": Question(),
    "speculate": Question(
        {"num_prompts": "it compares steady states", "measured": _ONE, **_NO_LIMIT},
        single=True,
        several=tuple(name for name in OF_A_LOAD if name != RUN),
    ),
    "disaggregate": Question(
        {
            "batch": "a burst has no pools to fill; give users or a rate",
            **dict.fromkeys(("tp", "pp", "ep", "enable_expert_parallel", "dp", "cp", "dcp", "num_gpus"), _OF_A_POOL),
            "measured": _ONE,
            "allow_oversize": "a pool that does not fit serves nobody",
            "arrivals": _POISSON_POOLS,
            "router": _POISSON_POOLS,
            **_NO_ENERGY,
            **dict.fromkeys(("turns", "think", "grow", "system"), "its pools take a prefix that is always there"),
        },
        is_loaded=True,
        names_gpus=False,
    ),
    "check": Question(only=(*_STATED_OF_A_RUN, "basis"), helps=_OF_A_RUN, kinds=_KINDS_OF_A_RUN),
    "calibrate": Question(only=_STATED_OF_A_RUN, helps=_OF_A_RUN, kinds=_KINDS_OF_A_RUN),
    "sheet": Question(
        {
            **{name: _NOT_IN_CELLS for name in OPTIONS if name not in _IN_CELLS},
            RUN: _NO_RUN,
        },
        several=tuple(name for name in LISTED if name in _IN_CELLS and name not in LASTING),
        kinds={"ep": COUNT},
    ),
    "page": Question(
        {
            **{name: _ON_THE_PAGE for name in OPTIONS if name != "specs"},
            **dict.fromkeys(("eplb", "enable_eplb", "two_batch_overlap", "all_to_all"), _NOT_ON_THE_PAGE),
            **dict.fromkeys(SIDE_WEIGHTS, "the page has neither adapters nor weights in host memory; ask predict"),
        },
        only=("specs",),
    ),
}


def combinations(options: Mapping[str, Any], question: Question) -> list[dict[str, Any]]:
    """Options of each case: every combination of the values of lists but those that the question takes at once."""
    lists = {
        name: value
        for name, value in options.items()
        if name in LISTED and name not in question.several and isinstance(value, list)
    }
    return [{**options, **dict(zip(lists, values, strict=True))} for values in product(*lists.values())]


# How else callers spell options.

#: Name that a caller may use -> option.
SPELLINGS: Mapping[str, str] = {name: option.name for option in OPTIONS.values() for name in option.names}
#: Options that the shell alone has -> how Python says the same.
IN_PYTHON: Mapping[str, str] = {
    "workload": "write **rl.workload_options('chat'), or isl and osl",
    "p99_within": "state it in slo, as in slo='p99:2x'",
    "enable_expert_parallel": "write ep='all'",
    "enable_eplb": "write eplb=0, or the number of slots",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def understood(function: _Function) -> _Function:
    """Decorator: a question takes options under every name that callers know them by, such as `users`."""
    code = function.__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    of_a_case = [name for name in OPTIONS if name not in IN_PYTHON] if code.co_flags & _TAKES_MORE else []
    known = frozenset((*own, *of_a_case))

    @wraps(function)
    def question(*args: Any, **options: Any) -> Any:
        if not known.issuperset(options):
            options = _spelled(function.__name__, options, known)
        return function(*args, **options)

    return cast("_Function", question)


def _spelled(question: str, options: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Options under the names that a question knows them by; others are refused, with the nearest names."""
    names: dict[str, Any] = {}
    for name, value in options.items():
        plain = name if name in known else SPELLINGS.get(name, name)
        if plain not in known:
            raise TypeError(f"{question}() got an unexpected keyword argument {name!r}{_instead(name, known)}")
        if plain in names or (plain != name and plain in options):
            raise TypeError(f"{question}() got {plain} twice, as {name} too; keep one")
        names[plain] = value
    return names


def _instead(name: str, known: frozenset[str]) -> str:
    if name in IN_PYTHON:
        return f"; {IN_PYTHON[name]}"
    from difflib import get_close_matches

    return did_you_mean(get_close_matches(name, {*known, *SPELLINGS}, 3))
