"""Options of a case: the decorators that add them, and their conversion to arguments of a question."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import click

from roofline.cli.options import (
    COUNT,
    COUNTS,
    DURATION,
    GPU_PRICE,
    MEASURED,
    NUMBER,
    PREFIX,
    PREFIXES,
    RATE,
    RATES,
    RATIO,
    SHARE,
    SLO,
    WORKLOAD,
    Command,
    gpu_option,
    model_option,
    specs_option,
    split_names,
    suggested,
    suggested_words,
)
from roofline.questions.inputs.arguments import plain_options, with_p99_within
from roofline.questions.inputs.case import BASES, PRESETS, TIERS, engine_names
from roofline.questions.predict import DEFAULT_ENGINE, DEFAULTS, LOADS

# Options of a case, one value each or lists of them.

# Long names of the same option in vLLM, SGLang, TensorRT-LLM and AIPerf, ours first; hyphens may be underscores.
_ISL = (
    "--isl", "--input-len", "--random-input-len", "--random-input", "--synthetic-input-tokens-mean",
    "--prompt-input-tokens-mean",
)  # fmt: skip
_OSL = (
    "--osl", "--output-len", "--random-output-len", "--random-output", "--output-tokens-mean",
    "--prompt-output-tokens-mean",
)  # fmt: skip
_USERS = ("-c", "--concurrency", "--max-concurrency", "--users")
_TP = ("--tp", "-tp", "--tensor-parallel-size", "--tp-size")
_PP = ("--pp", "-pp", "--pipeline-parallel-size", "--pp-size")
_EP = ("--ep", "--expert-parallel-size", "--ep-size", "--moe-expert-parallel-size")
_DP = ("--dp", "-dp", "--data-parallel-size", "--dp-size")

#: Options of a case, in the order in which they are added.
CASE = (
    click.option(*_ISL, type=COUNT, help=f"Prompt length in tokens, e.g. 4096 or 4k.  [default: {DEFAULTS['isl']}]"),
    click.option(*_OSL, type=COUNT, help=f"Output length in tokens.  [default: {DEFAULTS['osl']}]"),
    click.option("-b", "--batch", type=COUNT, help="Requests that start together on an idle server.  [default: 1]"),
    click.option(
        *_USERS,
        type=NUMBER,
        help="Concurrent users; each sends a new request as soon as the last one is answered.",
    ),
    click.option("--request-rate", "--rate", type=RATE, help="Requests per second, arriving at random (Poisson)."),
    click.option(
        "--num-prompts",
        "--num-requests",
        "--request-count",
        type=NUMBER,
        help="Requests in a benchmark run, its start included.  [default: steady state]",
    ),
    click.option("--prefix", type=PREFIX, default="0", help="Prompt tokens already in the KV cache, e.g. 1k or 80%."),
    click.option("--cache-hit", type=SHARE, help="Share of requests whose --prefix is cached.  [default: all]"),
    click.option("--cache-tier", type=click.Choice(TIERS), help="Where cached prefixes lie.  [default: hbm]"),
    click.option(
        "--cache-bandwidth", help="Bandwidth of that tier to one GPU, e.g. 12GB/s.  [default: the GPU's link]"
    ),
    click.option("--cache-size", help="Size of the cache of one replica, e.g. 500GB; in hbm taken from the batch."),
    click.option(
        "--working-set",
        help="All prefixes asked for, e.g. 2TB or 2TB:zipf0.9: sets the hit rate from --cache-size.",
    ),
    click.option(
        "--workload",
        type=WORKLOAD,
        help="Both lengths in one word, e.g. 8k1k; or a named workload with its SLO (see roofline workloads).",
    ),
    click.option("--isl-cv", type=SHARE, help="Spread of prompt lengths: standard deviation over mean, e.g. 0.5."),
    click.option("--osl-cv", type=SHARE, help="Spread of output lengths."),
    click.option(
        "--lengths", help="Distribution of both lengths: lognormal, uniform, or a trace.csv with columns isl and osl."
    ),
    click.option("--cold-start", help="Share of requests that hit a cold server, and the delay, e.g. 1%:2s."),
    click.option("--derate", help="Hardware lost to neighbours or virtualization, e.g. bandwidth:5%,peak:3%."),
    click.option(*_TP, type=COUNT, help="Tensor-parallel degree.  [default: the smallest that serves the case]"),
    click.option(*_PP, type=COUNT, default=1, show_default=True, help="Pipeline-parallel degree."),
    click.option(*_EP, type=COUNT, default=1, show_default=True, help="Expert-parallel degree."),
    click.option(*_DP, type=COUNT, default=1, show_default=True, help="Data-parallel degree of the attention."),
    click.option(
        "--num-gpus", "--total-gpus", type=COUNT, help="GPUs in all, split into replicas.  [default: one replica]"
    ),
    click.option(
        "-q",
        "--quantization",
        type=suggested("format", PRESETS.keys),
        help=f"Number formats: {', '.join(PRESETS)}; awq, gptq, w8a8, fp4 and the like are understood.",
    ),
    click.option(
        "--weights", "--weight-dtype", type=suggested("format", PRESETS.keys), help="Format of the weights alone."
    ),
    click.option("--kv-cache-dtype", metavar="DTYPE", help="Format of the KV cache, e.g. fp8."),
    click.option(
        "--compute", "--compute-dtype", metavar="DTYPE", help="Precision of the matrix multiplications, e.g. bf16."
    ),
    click.option("--routing", metavar="C", help="Expert routing: uniform, or a skew.  [default: 0.66]"),
    click.option(
        "--basis",
        type=click.Choice(BASES),
        default="calibrated",
        show_default=True,
        help="Calibrated on measured kernels, or ideal: the hardware limit.",
    ),
    click.option(
        "--engine",
        type=suggested("engine", engine_names),
        default=DEFAULT_ENGINE,
        show_default=True,
        help=f"Serving engine: {', '.join(engine_names())}, or the path of a profile of your own.",
    ),
    click.option(
        "--max-num-batched-tokens",
        "--max-num-tokens",
        "--chunked-prefill-size",
        type=COUNT,
        help="Token budget of a step.  [default: the engine's]",
    ),
    click.option(
        "--max-num-seqs",
        "--max-running-requests",
        "--max-batch-size",
        type=COUNT,
        help="Most sequences that run at once, per data-parallel rank.  [default: the engine's]",
    ),
    click.option(
        "--gpu-memory-utilization",
        "--mem-fraction-static",
        type=SHARE,
        help="Share of the GPU memory that the engine may use.  [default: the engine's, 0.92]",
    ),
    click.option(
        "--max-model-len",
        "--context-length",
        "--max-seq-len",
        type=COUNT,
        help="Longest request served, prompt and output.  [default: the model's]",
    ),
    click.option(
        "--draft",
        "--speculative-algorithm",
        help="Speculative decoding: mtp, eagle, ngram, or a smaller model that proposes tokens.",
    ),
    click.option(
        "--draft-tokens",
        "--num-speculative-tokens",
        "--speculative-num-steps",
        type=COUNT,
        help="Tokens proposed before each step.",
    ),
    click.option(
        "--acceptance",
        help="Share of proposed tokens kept: 0.8, .92,.86,.8 (one for each), '2.8 tokens' (per step), or "
        "deepseek-r1-mtp.",
    ),
    click.option("--network", type=DURATION, help="Round trip between client and server, e.g. 20ms.  [default: 0]"),
    click.option(
        "--measured",
        type=MEASURED,
        help="A measurement of yours in ms, e.g. tpot=12.3,batch=8; the answer is scaled to it.",
    ),
    click.option("--slo", "--goodput", type=SLO, help="Limits in ms, e.g. ttft:300@p95,tpot:25,e2el:8s@p99."),
    click.option("--p99-within", type=RATIO, help="Largest p99 as a multiple of the median, e.g. 2x."),
    click.option("--allow-oversize", is_flag=True, help="Predict even where the memory does not suffice."),
    click.option(
        "--gpu-price", type=GPU_PRICE, help="Rent in USD per GPU-hour, e.g. 2.5 or 2-4.  [default: the catalog's]"
    ),
    click.option("--assume", metavar="FAMILY", help="Read a config.json of an unknown family as this one, e.g. llama."),
)


#: Options of a case that take lists.
LISTS = (
    click.option(*_ISL, type=COUNTS, help="Prompt lengths in tokens, e.g. 500,2k,8k or 1k:32k:x2."),
    click.option(*_OSL, type=COUNTS, help="Output lengths in tokens."),
    click.option("-b", "--batch", type=COUNTS, help="Requests that start together on an idle server, e.g. 1:256:x2."),
    click.option(*_USERS, type=COUNTS, help="Concurrent users, e.g. 1:256:x4."),
    click.option("--request-rate", "--rate", type=RATES, help="Requests per second, arriving at random (Poisson)."),
    click.option("--prefix", type=PREFIXES, help="Prompt tokens already in the KV cache, or shares: 0,1k,80%."),
    click.option(*_TP, type=COUNTS, help="Tensor-parallel degrees.  [default: the smallest that serves the case]"),
    click.option("-q", "--quantization", type=suggested_words(PRESETS.keys), help="Number formats, e.g. bf16,fp8."),
)


# The options of a case: the decorators that add them, and their conversion to arguments of the API.

#: Options that questions have no use for which judge no limit and price nothing.
WITHOUT_LIMITS = ("slo", "p99_within", "gpu_price")


def case_options(
    function: Command,
    without: tuple[str, ...] = (),
    *,
    single: bool = False,
    of_loads: bool = False,
    of_pools: bool = False,
) -> Command:
    """Add the options of a case, which the command gets as keyword arguments of `predict` in `options`.

    `without` leaves out parameters, `single` takes one model and one GPU, `of_loads` is for questions about requests
    that arrive one by one, `of_pools` for commands that name GPUs in options of their own.
    """
    own_parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def command(models: tuple[str, ...], gpus: tuple[str, ...] = (), **case_values: Any) -> Any:
        models, gpus = split_names(models), split_names(gpus)
        own_options = {name: case_values.pop(name) for name in tuple(case_values) if name in own_parameters}
        is_loaded = of_loads or str(own_options.get("unknown", "")).replace("-", "_") in LOADS[1:]
        options = _arguments(case_values, of_loads=is_loaded, with_share="share" in own_parameters)
        return function(models=models, gpus=gpus, options=options, **own_options)

    with_specs = specs_option(_with_options(command, CASE, without))
    return model_option(with_specs if of_pools else gpu_option(with_specs, single=single), single=single)


def list_options(function: Command, without: tuple[str, ...] = ()) -> Command:
    """Add the options that take lists; goes inside a `case_options` without them."""
    return _with_options(function, LISTS, without)


def one_case(models: tuple[str, ...], gpus: tuple[str, ...]) -> tuple[str, str]:
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError("this command takes one case; give one model (-m) and one GPU (-g)")
    return models[0], gpus[0]


def _with_options(function: Command, options: Sequence[Command], without: tuple[str, ...]) -> Command:
    for option in reversed(options):
        function = option(function)
        parameters: list[click.Parameter] = vars(function)["__click_params__"]
        if parameters[-1].name in without:
            parameters.pop()
    return function


def _arguments(values: Mapping[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Keyword arguments of the API; options left out keep its defaults."""
    options = {name: value for name, value in values.items() if value is not None}
    within = options.pop("p99_within", None)
    workload = options.pop("workload", None)
    if workload is not None:
        if "isl" in options or "osl" in options:
            raise click.UsageError("--workload sets both lengths; leave out --isl and --osl")
        if isinstance(workload, str):
            options = _with_named_workload(workload, options, of_loads=of_loads, with_share=with_share)
        else:
            options["isl"], options["osl"] = workload
    if within is not None:
        options["slo"] = with_p99_within(options.get("slo"), within)
    return plain_options(options)


def _with_named_workload(workload: str, options: dict[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Options over those of a named workload."""
    from roofline.questions.listing import load_workload, workload_options

    named = load_workload(workload, options.get("specs"))
    is_loaded = of_loads or bool(set(LOADS[1:]) & set(options))
    stands_for: dict[str, Any] = dict(workload_options(named, loaded=is_loaded))
    if with_share:
        stands_for["share"] = named.share
    if options.get("prefix"):
        stands_for.pop("prefix")
    else:
        options.pop("prefix", None)
    return {**stands_for, **options}
