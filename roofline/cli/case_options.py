"""Options of a case, one value each or lists of them."""

from __future__ import annotations

import click

from roofline.api.inputs.cache import TIERS
from roofline.api.inputs.case import BASES, PRESETS, engine_names
from roofline.api.predict import DEFAULT_ENGINE, DEFAULTS
from roofline.cli.values import (
    COUNT,
    COUNTS,
    DURATION,
    GPU_PRICE,
    MEASURED,
    NUMBER,
    NUMBERS,
    PREFIX,
    PREFIXES,
    RATIO,
    SHARE,
    SLO,
    WORKLOAD,
    suggested,
    suggested_words,
)

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
    click.option("--request-rate", "--rate", type=NUMBER, help="Requests per second, arriving at random (Poisson)."),
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
    click.option("--request-rate", "--rate", type=NUMBERS, help="Requests per second, arriving at random (Poisson)."),
    click.option("--prefix", type=PREFIXES, help="Prompt tokens already in the KV cache, or shares: 0,1k,80%."),
    click.option(*_TP, type=COUNTS, help="Tensor-parallel degrees.  [default: the smallest that serves the case]"),
    click.option("-q", "--quantization", type=suggested_words(PRESETS.keys), help="Number formats, e.g. bf16,fp8."),
)
