"""What a user can hand over: arguments, command lines, files and texts, most of them plausible, some of them absurd.

Every kind is a strategy of hypothesis, so that what fails is shrunk. The tests of this folder draw a few inputs of
each; `long_run.py` draws as many as time allows.
"""

import copy
import json
import random
import re
from functools import cache

import click
import yaml
from configurations import IDS, LATENT, LLAMA, MOE, config_of
from hypothesis import strategies as st
from measurements.test_kernel_table import TABLE
from measurements.test_results import FILES, FOLDER
from spec_texts import CALIBRATION, ENGINE, FULL_GPU, GPU, MIXED_MODEL, MODEL, WORKLOAD, paths

from roofline.cli.main import cli
from roofline.specs.gpu import SHAPES

SPECIFICATIONS = {
    "gpu": (GPU, FULL_GPU), "model": (MODEL, MIXED_MODEL), "calibration": (CALIBRATION,), "engine": (ENGINE,),
    "workload": (WORKLOAD,),
}  # fmt: skip
MODELS = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-120b")
GPUS = ("h100-sxm", "b200", "mi300x", "l40s", "gb200-nvl72", "tpu-v6e")

#: Option -> values that make sense somewhere, as Python or the shell would have them.
PLAUSIBLE = {
    "isl": (1, 100, 1024, "4k", 32768, 10**6), "osl": (1, 2, 128, "1k", 5000), "prefix": (0, 1, 64, 900, "50%", "100%"),
    "batch": (1, 8, 512), "concurrency": (1, 16, 1000, 0.5), "request_rate": (0.1, 2, 50), "num_prompts": (1, 10, 1000),
    "cache_hit": (0, 0.3, "60%", 1), "cache_tier": ("hbm", "host", "nvme", "network"),
    "cache_bandwidth": ("12GB/s", "1 TB/s"), "cache_size": ("500GB", "1 MB", "1GiB"),
    "working_set": ("2TB", "2TB:zipf0.9", "1GB:zipf2"), "isl_cv": (0, 0.5, "50%", 3), "osl_cv": (0, 0.3, "80%", 2),
    "lengths": ("lognormal", "uniform"), "cold_start": ("1%:2s", "0.5:10ms", "100%:1s"),
    "arrivals": ("poisson", "idc:1s=1.4,10s=3.9", "idc:100ms=9"), "turns": (1, 2, 20, "1k"), "think": (0, "5s", "20ms"),
    "router": ("random", "round-robin", "least-busy", "prefix"), "system": (0, 100, "2k"),
    "grow": ("in:800,out:300", "in:1,out:1", "in:4k,out:1"),
    "images": (0, 1, 8), "image_size": ("1024x768", 448, "99x"), "video_frames": (0, 1, 64),
    "audio": ("30s", 0, "2 min"), "encode": ("h100", "l40s:x2"),
    "derate": ("bandwidth:5%,peak:3%", "link:90%", "peak:0%"), "tp": (1, 2, 4, 8, 64), "pp": (1, 2, 5), "ep": (1, 2, 8),
    "dp": (1, 2, 8), "cp": (1, 2, 4, 16), "dcp": (1, 2, 4, 8), "num_gpus": (1, 8, 64, 10000),
    "quantization": ("fp8", "bf16", "int4", "nvfp4", "awq", "w8a8"),
    "weights": ("fp8", "int4", "mxfp4", "bf16"), "kv_cache_dtype": ("fp8", "bf16", "int8"),
    "compute": ("bf16", "fp8", "fp4"), "routing": ("uniform", 0.5, 1, "0.66"), "basis": ("ideal", "calibrated"),
    "engine": ("none", "vllm", "sglang", "trtllm", "generic"), "network": (0, 0.02, "20ms", "1 s"),
    "max_num_batched_tokens": (1, 512, "8k"), "max_num_seqs": (1, 64, "1k"), "gpu_memory_utilization": (0.5, "90%", 1),
    "eplb": (0, 8, 32, "64"), "two_batch_overlap": (True, False), "all_to_all": ("direct", "per-node", "deepep:4"),
    "max_model_len": (1, 4096, "128k"), "draft": ("mtp", "eagle", "ngram", "llama-3.1-8b"), "draft_tokens": (1, 3, 8),
    "lora": ("8:16", "1:64", "0:8", "4:16:attention", "100:8:dense"), "max_loras": (1, 8, "1k"),
    "max_lora_rank": (16, 64, "256"), "offload": ("4GB", "40", "experts", "experts:10GiB", "tables", 0, 1e9),
    "offload_bandwidth": ("50GB/s", "1 TB/s"), "cpu_bandwidth": ("80GB/s", 4e10),
    "acceptance": (0.8, ".9,.8", "2.8 tokens", 0, 1, "deepseek-r1-mtp"),
    "measured": ("tpot=20", "ttft=500,batch=8", "tpot=9,concurrency=4,isl=1000"),
    "slo": ("ttft:300", "ttft:1s@p95,tpot:25", "e2el:8s@p99", "p99:2x", "ttft:1"), "allow_oversize": (True, False),
    "set": ("memory.bandwidth=12TB/s", "peak.bf16=2PFLOP/s,memory.usable=100GB", "h100-sxm.scale_up.domain=64"),
    "power_cap": ("500W", "70%", 300, "1 kW"), "kwh_price": (0.12, "0.3 USD/kWh", 0), "pue": (1, 1.3, "2"),
    "reduce": ("best:ttft", "top:2:e2el:gpu", "frontier:ttft,output_tok_s_gpu", "histogram:tpot:1,9", "share"),
    "jobs": (1, 0, "x"), "dask": ("nowhere",), "keys": ("ttft_ms", "gpu,tpot_ms,reason", "gpu,"),
    "price_file": ("no-such.csv",), "gpu_price": (2.5, "2-4", "3/h"),
    "assume": ("llama", "mixtral"), "share": (0.5, "95%", 0.999),
    "workload": ("8k1k", "1k1k"), "p99_within": ("2x", 3), "headroom": (0, "20%"),
    "api_price": ("in:0.5,out:1.5", "in:1,out:2,cached:0.1"), "kv_link": ("nvlink", "rdma", "pcie", "50 GB/s"),
    "baseline": ("bf16", "fp8", "int4"), "requests": (1, 20, 200), "seed": (0, 7), "top": (1, 5), "spare": (0, 3),
    "family": ("llama", "qwen"), "vendor": ("NVIDIA", "AMD"), "ttft": ("300", "1s"), "tpot": ("20", "5ms"),
    "e2el": ("10s",), "max_gpus": (8, 16), "min_size": ("7B", 10**9), "max_size": ("70B",),
    "objective": ("cost", "throughput"), "have": ("16xh100", "16xh100,8xl40s", "1xb200"),
    "spend": (20, "40k/month", "3"), "growth": (2, "1.5x", "50%"), "start_up": (0, "5m", 60), "every": (True, False),
    "rate_by_hour": ("8:5,12:20,20:8", "0:1,23:9", "1:1"), "own": ("price:30k,years:4,power:1000,kwh:0.1,hosting:0.2",),
    "to": ("vllm", "sglang", "trtllm", "vllm@0.25"), "emit": ("vllm", "sglang@0.5", "trtllm", "dynamo", "vllm@0.25"),
    "over": ("max-num-batched-tokens", "max-num-seqs", "max_num_seqs"), "values": ("2k,4k", "16,64", (16, 64), 512),
    "limit": ("tpot", "ttft_p95"), "at_slo": ("tpot", "ttft_p95"), "claim": (2, "3x"), "x": ("ttft", "tok_s_user"),
    "y": ("e2el", "output_tok_s_gpu"), "against": ("concurrency", "request_rate", "batch"),
    "fail_above": ("ttft:+10%",), "unknown": ("bandwidth", "batch", "isl"),
    "prefill_engine": ("vllm", "sglang"), "decode_engine": ("trtllm", "x"),
    "prefill_gpu_price": (2.5, "2-4"), "decode_gpu_price": (1, "3/h"), "generation": ("hopper", "x"),
    "status": ("shipping", "announced"), "moe": (True, False), "min_parameters": (1e9,), "max_parameters": (7e10,),
    "disaggregate": (True, False), "layerwise": (True, False), "enforce_eager": (True, False),
    "statistic": ("mean", "p99"),
}  # fmt: skip
_LETTERS = st.characters(exclude_characters="\0/.~")  # no argument holds a zero; nothing outside of the folder is named
_WORDS = st.text(_LETTERS, max_size=6)
_NUMERALS = ("", " ", "0", "-1", "3", "1e3", "1.5", "nan", "inf", "-inf", "1e400", "1e-300", "9" * 400, "1_0", "\u0662")
_PIECES = (
    *"0123456789.,:;-+x@%/*=() \t\n",
    *"1e3 1e400 1e-320 nan inf k K m p95 p99 ms s us tokens ttft tpot e2el tp ep fp8 h100 in out cached zipf".split(),  # noqa: SIM905
    *"GB GiB TB GB/s Gbit/s Gb/s TFLOP/s TOP/s Texp/s GHz W USD/h B T isl batch \u0661 \u00e9".split(),  # noqa: SIM905
    "9" * 40,
)

odd_texts = (
    st.sampled_from((*_NUMERALS, "50%", "nan%", "8k1k", "ttft:nan", "tpot=", "None", "-", "--", "=1+1")) | _WORDS
)
odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**7),
    st.floats(),
    st.sampled_from(
        (10**400, -(10**30), 1e-300, 1e308, b"1", 1j, [], [1, 2], [[1]], {}, {"ttft": 1}, (1, 2), {3}, object)
    ),
    odd_texts,
)
#: Short texts of the grammars: numbers with units, sizes, ranges, limits, pools, prices, rates.
texts = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=7).map("".join),
    st.sampled_from([text for each in PLAUSIBLE.values() for text in each if isinstance(text, str)]).flatmap(
        lambda text: edited(text)  # noqa: PLW0108  defined below
    ),
    st.text(max_size=12),
)


def values(name):
    """A value of an option: mostly one that makes sense, now and then anything."""
    return _mostly(st.sampled_from(PLAUSIBLE[name]), odd_values)


@st.composite
def options(draw, names, most=6):
    """Some of these options with values."""
    chosen = draw(st.lists(st.sampled_from(sorted(names)), max_size=most, unique=True))
    return {name: draw(values(name)) for name in chosen}


def named(known):
    """A name of the catalog, now and then another."""
    return _mostly(st.sampled_from(known), odd_values)


def _mostly(plausible, odd, times=7):
    """Seven plausible values for an odd one."""
    return st.integers(0, times).flatmap(lambda number: plausible if number else odd)


@cache
def _commands():
    """Each command with its parameters."""
    context = click.Context(cli)
    return {name: cli.get_command(context, name).params for name in cli.list_commands(context)}


@st.composite
def command_lines(draw, files=()):
    """A command, some of its own options with values, and files for commands that read or write one."""
    command = draw(st.sampled_from(sorted(_commands())))
    parameters = _commands()[command]
    arguments = [command]
    by_name = {each.name: each for each in parameters}
    if "model" in by_name and draw(st.integers(0, 19)):
        arguments += ["-m", draw(st.sampled_from(MODELS) | _WORDS)]
    for side in ("prefill", "decode"):
        if side in by_name:
            arguments += [f"--{side}", draw(st.sampled_from(("b200:tp8", "h100:tp8:fp8x2", "x")))]
    if "gpu" in by_name:  # every GPU of the catalog would take seconds
        arguments += ["-g", draw(st.sampled_from((*GPUS, "h100,b200", "2xh100", "b200:tp4:fp8x2")) | _WORDS)]
    own = [each for each in parameters if isinstance(each, click.Option)]
    for option in draw(st.lists(st.sampled_from(own), max_size=6)) if own else ():
        if option.name not in ("model", "gpu", "prefill", "decode"):
            arguments += draw(_worded(option, files))
    for argument in parameters:
        if isinstance(argument, click.Argument):
            arguments += draw(st.lists(_words_of(argument, files), min_size=0, max_size=2))
    return arguments


@st.composite
def _worded(draw, option, files):
    """An option with its value, as words of a command line."""
    name = draw(st.sampled_from(option.opts))
    return [name] if option.is_flag else [name, draw(_words_of(option, files))]


def _words_of(parameter, files):
    """Words that may stand for a parameter."""
    if isinstance(parameter.type, click.Choice):
        return st.sampled_from(tuple(parameter.type.choices)) | odd_texts
    if type(parameter.type).__name__ == "PathName":
        return st.sampled_from((*files, "out.csv", "out.xlsx", "out.json", "out.png", "none/out.csv", "", "-"))
    plausible = st.sampled_from([str(value) for value in PLAUSIBLE.get(parameter.name, ("1", *MODELS, *GPUS))])
    return _mostly(plausible, odd_texts)


# --- documents ---------------------------------------------------------------------------------

_ODD_ITEMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(),
    st.sampled_from((10**9, 10**400, "", "x", "64", "12.5", "inf", "1 GB", "=1+1", [], [0], [None], [{}], {}, {"a": 1},
                     {"value": "1 B"})),
)  # fmt: skip


@st.composite
def damaged(draw, documents, most=3):
    """A document after some changes: a key lost or misspelt, a value replaced, negated, multiplied or put in a list."""
    document = json.loads(json.dumps(draw(documents), default=str))
    for _ in range(draw(st.integers(0, most))):
        places = list(paths(document))
        if not places:
            break
        *where, last = draw(st.sampled_from(places))
        parent = document
        for key in where:
            parent = parent[key]
        _change(
            parent,
            last,
            draw(st.sampled_from((*["scale"] * 6, "drop", "drop", "misspell", "alter", "wrap", *["replace"] * 5))),
            draw,
        )
    return document


def _change(parent, last, how, draw):
    value = parent[last]
    if how == "drop":
        del parent[last]
    elif how == "misspell" and isinstance(parent, dict):
        parent[str(last)[:-1] + "x"] = parent.pop(last)
    elif how == "scale" and isinstance(value, (int, float, str)):
        parent[last] = _scaled(value, draw(st.sampled_from((1, 2, 0.5, 0.9, 3))))
    elif how == "wrap":
        parent[last] = [value]
    elif how == "alter" and type(value) in (int, float):
        parent[last] = draw(st.sampled_from((0, -1, 2, 7, 10**6, 0.5))) * value
    elif how == "alter" and isinstance(value, str):
        parent[last] = draw(edited(value))
    else:
        parent[last] = copy.deepcopy(draw(_ODD_ITEMS))  # a later change may be one of what is in it


def _scaled(value, times):
    """A number, or that at the beginning of a text, made larger or smaller; a yes turned into a no."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return re.sub(r"^\d+(\.\d+)?(?= |$)", lambda number: f"{float(number[0]) * times:g}", value)
    try:
        return type(value)(value * times)
    except OverflowError:  # 10**400 halved is no float
        return value


@st.composite
def edited(draw, text, most=4):
    """A text after some edits: a part deleted, doubled or replaced."""
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, len(text)))
        end = min(start + draw(st.integers(0, 8)), len(text))
        piece = draw(
            st.sampled_from(
                (*_PIECES, "\0", "\ufeff", "{", "}", "[", "]", '"', "&a ", "*a", "- ", "!!int ", "#", "null")
            )
        )
        text = draw(
            st.sampled_from((text[:start] + text[end:], text[:end] + text[start:], text[:start] + piece + text[end:]))
        )
    return text


def documents_of(kind):
    """Specifications of a kind: as YAML after changes of its fields, or of its letters."""
    whole = st.sampled_from(SPECIFICATIONS[kind])
    fields = damaged(whole.map(yaml.safe_load)).map(lambda document: yaml.safe_dump(document, allow_unicode=True))
    return st.one_of(fields, fields, whole.flatmap(lambda text: edited(text, most=2)))


@cache
def _configuration(name):
    small = {"llama": LLAMA, "moe": MOE, "latent": LATENT}
    return small[name] if name in small else config_of(name)[0]


#: Configurations of models: published ones and small ones, after changes of their fields.
configurations = damaged(st.sampled_from(("llama", "moe", "latent", *IDS)).map(_configuration))
#: What lies beside some of them on the hub, after changes of its fields, or nothing.
besides = st.none() | damaged(st.sampled_from(IDS).map(lambda name: config_of(name)[1] or {}))
#: Configurations as texts, damaged in their letters, too.
configuration_texts = configurations.map(json.dumps).flatmap(lambda text: edited(text, most=2))


@cache
def _result(name):
    return (FOLDER / name).read_text(encoding="utf-8")


@st.composite
def result_texts(draw):
    """Result files of benchmark tools after changes of their fields or letters."""
    text = _result(draw(st.sampled_from(FILES)))
    if text.startswith(("{", "[")) and draw(st.booleans()):
        is_lines = text.startswith("{") and "\n{" in text.strip()
        lines = [line for line in text.splitlines() if line] if is_lines else [text]
        text = "\n".join(json.dumps(draw(damaged(st.just(json.loads(line))))) for line in lines)
    return draw(edited(text))


@st.composite
def kernel_tables(draw):
    """Tables of timed kernels: rows of every kind, after changes of some cells or letters."""
    kind, numbers = draw(st.sampled_from(sorted(SHAPES))), random.Random(draw(st.integers(0, 99)))
    columns = ["gpu", "kind", "dtype", *SHAPES[kind], "latency_us"]
    start = [draw(st.sampled_from(("h100-sxm", "h100-sxm", "b200"))), kind, draw(st.sampled_from(("bf16", "fp8", "x")))]
    rows = [
        [*start, *(str(2 ** numbers.randrange(1, 13)) for _ in columns[3:])]
        for _ in range(draw(st.sampled_from((1, 3, 30))))
    ]
    for _ in range(draw(st.integers(0, 2))):
        draw(st.sampled_from(rows))[draw(st.integers(3, len(columns) - 1))] = draw(odd_texts)
    made = "\n".join(",".join(row) for row in [columns, *rows])
    return draw(st.sampled_from((made, made, TABLE)).flatmap(lambda text: edited(text, most=1)))


@st.composite
def workbooks(draw):
    """Models, GPUs and options of a workbook."""
    models = draw(st.lists(st.sampled_from(MODELS), min_size=1, max_size=2) | named(MODELS))
    gpus = draw(st.lists(st.sampled_from(GPUS), min_size=1, max_size=2) | st.sampled_from(GPUS))
    lengths = ("isl", "osl", "batch", "prefix", "slo", "network", "routing", "engine", "spare", "assume")
    plans = ("tp", "pp", "ep", "dp", "quantization", "kv_cache_dtype", "basis")
    return models, gpus, draw(options((*lengths, *plans), most=3))
