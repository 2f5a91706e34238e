"""What may be wrong with a server or with its measurement: what each does, and what confirms and mends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from roofline.numbers.quantity import GIGA, MICRO, rounded, to_text
from roofline.questions.diagnosis import (
    Observed,
    cached,
    limited,
    predicted_figures,
    slower_kernels,
    uncached,
    with_engine,
    with_workload,
)
from roofline.serving.latency import lanes
from roofline.specs.engine import KernelOverride
from roofline.specs.formats import number_format
from roofline.specs.gpu import ATTENTION_DECODE, ATTENTION_PREFILL, MLA_DECODE, MLA_PREFILL, MOE
from roofline.specs.load import Burst
from roofline.support.records import NamedTuple, replace

#: Figures of a run that faults are judged by: mean times [s]; the median of TTFT [s]; the load that was met.
FIGURES = ("ttft", "tpot", "e2el", "ttft_median", "load")
#: Parts of an answer that a fault may be in.
PARTS = ("prefill", "decode", "queue", "host", "link", "experts", "cache", "drafts", "client")

#: Time of the host for a kernel without CUDA graphs [s]: 13 us of vLLM's compiled prompts, 24 us of programs without a
#: server (engine_specs), about 60 us of each counted kernel of vLLM 0.26 with --enforce-eager (ours, on an H100).
_LAUNCH, _LAUNCH_SIGMA = 30.0 * MICRO, 0.9
_PCIE, _SOCKETS = 40.0 * GIGA, 12.0 * GIGA  # [B/s] each way: PCIe 4 and 5 x16; over the link between sockets
_LINK_SIGMA = 0.6
_BACKEND, _EAGER, _ATTENTION_SIGMA = 1.7, 5.0, 0.5  # times as long as the attention that is expected
_THROTTLED, _THROTTLED_SIGMA = 1.5, 0.4  # times as long: clocks seldom fall to less than half
_ALL_REDUCE = 20.0 * MICRO  # [s] more of a small one through the host's memory
_EAGER_DECODE = 0.6  # exponent of the factor on decode steps, over that on prompts
_EAGERS = (4.0, 6.0, 9.0, 14.0)
_MOST_CACHED = 0.98  # share of a prompt


class Shown(NamedTuple):
    """Figures of a run, and the steady state that they are of, where a similar run may start."""

    values: dict[str, float]  # by `FIGURES`
    state: tuple[Any, ...] | None = None


class Supposed(NamedTuple):
    """A run, and what is supposed about it beyond what a deployment and a workload can say."""

    run: Observed
    drafted: float = 1.0  # tokens of a decode step, over those that are predicted [1]
    chunk: float = 0.0  # of the client for each sequence that a step reports [s]
    pace: float = math.inf  # tokens that the client takes at most [1/s]
    late: float = 0.0  # time that the first requests wait for the server to be warm [s]
    requests: float | None = None  # of the run
    in_step: bool = False  # whether its users stay in step

    @property
    def comes_at_once(self) -> bool:
        """Whether its prompts come in waves, each as a burst: users in step who all have a slot."""
        deployment = self.run.deployment
        slots, load = deployment.engine.max_num_seqs, self.run.workload.load
        users = load.users_on(float(lanes(deployment)) / deployment.plan.pp) if self.in_step else None
        return users is not None and (slots is None or float(users) <= slots)


def figures(supposed: Supposed, near: tuple[Any, ...] | None = None) -> Shown | None:
    """The figures of a run as it is supposed to be; None where there is no steady state.

    Args:
        supposed: the run.
        near: state of a similar run.
    """
    run = supposed.run._replace(near=near)
    users = run.workload.load.users_on(1.0) if not run.workload.load.is_burst else run.workload.load.batch
    if supposed.comes_at_once:
        run = run._replace(workload=replace(run.workload, load=Burst(users)), near=None)
    if supposed.drafted != 1.0:
        answer = max(run.workload.osl / supposed.drafted, 1.0)
        run = run._replace(workload=replace(run.workload, osl=answer))
    found = predicted_figures(run)
    if found is None:
        return None
    ttft, tpot, e2el = (float(found.values[name]) for name in ("ttft", "tpot", "e2el"))
    decode = e2el - ttft
    load, more = run.workload.load, max(supposed.run.workload.osl - 1.0, 0.0)
    tpot = decode / more if more > 0.0 and supposed.drafted != 1.0 else tpot
    rate = float(found.values.get("answered_rate", 0.0))
    flying = float(users) if users is not None else rate * e2el
    slowest = max(tpot, supposed.chunk * flying + tpot, flying / supposed.pace)
    decode, tpot, ttft = decode + (slowest - tpot) * more, slowest, ttft + supposed.chunk * flying
    median = ttft
    if supposed.late:
        share = 1.0 if supposed.requests is None else min(max(flying, 1.0) / supposed.requests, 1.0)
        ttft += share * supposed.late
        median += supposed.late if share > 0.5 else 0.0
    values = {"ttft": ttft, "tpot": tpot, "e2el": ttft + decode, "ttft_median": median, "load": float(load.amount)}
    return Shown(values, found.state)


class Form(NamedTuple):
    """One way in which a fault may show, with one number for its size."""

    moved: Callable[[Supposed, float], Supposed | None]  # None where the run cannot have it
    sizes: tuple[float, ...]  # to try; ascending, in units of `unit`
    text: Callable[[Sequence[Supposed], float], str]
    usual: float = 0.0  # size that is usual; 0: any is alike
    sigma: float = 1.0  # of ln(size / usual)
    unit: Callable[[Sequence[Supposed]], float] | None = None  # of the sizes, for some runs; None: 1

    def sizes_for(self, runs: Sequence[Supposed]) -> tuple[float, ...]:
        """Sizes to try on some runs."""
        unit = 1.0 if self.unit is None else self.unit(runs)
        return tuple(unit * size for size in self.sizes)

    def penalty(self, size: float) -> float:
        """Implausibility of a size, in variances."""
        return (math.log(size / self.usual) / self.sigma) ** 2 if self.usual > 0.0 else 0.0


class Fault(NamedTuple):
    """What may be wrong."""

    name: str
    part: str  # of `PARTS`
    confirm: str  # what to look at
    forms: tuple[Form, ...]
    flags: str = ""  # key of the engine's options that decide it; empty: none does
    rarity: float = 0.0  # how much less usual than others, in units of chi-square


def _of_run(move: Callable[[Observed, float], Observed | None], supposed: Supposed, size: float) -> Supposed | None:
    """A change that a deployment or a workload can say."""
    run = move(supposed.run, size)
    return None if run is None else supposed._replace(run=run)


def _engine_with(supposed: Supposed, **changes: Any) -> Supposed:
    return supposed._replace(run=with_engine(supposed.run, **changes))


def _deployed(supposed: Supposed, **changes: Any) -> Supposed:
    changed = replace(supposed.run.deployment, **changes)
    return supposed._replace(run=supposed.run._replace(deployment=changed))


def _workload_with(supposed: Supposed, **changes: Any) -> Supposed:
    return supposed._replace(run=with_workload(supposed.run, **changes))


def _launched(supposed: Supposed, size: float) -> Supposed | None:
    engine = supposed.run.deployment.engine
    if engine.launch_decode >= size:
        return None
    return _engine_with(supposed, launch_decode=size)


def _kernels_slower(kinds: Sequence[Any], supposed: Supposed, size: float) -> Supposed:
    slower = tuple(KernelOverride(kind.name, compute=1.0 / size, memory=1.0 / size) for kind in kinds)
    return _engine_with(supposed, tunings=(*supposed.run.deployment.engine.tunings, *slower))


def _experts_slower(supposed: Supposed, size: float) -> Supposed | None:
    return _kernels_slower((MOE,), supposed, size) if supposed.run.deployment.model.is_moe else None


def _skewed(supposed: Supposed, size: float) -> Supposed | None:
    deployment = supposed.run.deployment
    if not deployment.model.is_moe or deployment.plan.ep <= 1 or deployment.routing_skew is None:
        return None
    return _deployed(supposed, routing_skew=deployment.routing_skew / size)


def _chunked(supposed: Supposed, size: float) -> Supposed | None:
    present = supposed.run.deployment.engine.max_num_batched_tokens
    if present is not None and present <= size:
        return None
    return _engine_with(supposed, max_num_batched_tokens=round(size))._replace(in_step=False)  # which parts the users


def _linked(rate: bool, late: bool, supposed: Supposed, size: float) -> Supposed | None:
    """Ranks that reach each other at so many bytes a second, or so much later."""
    deployment = supposed.run.deployment
    plan, link = deployment.plan, deployment.gpu.link
    if plan.tp * plan.dp * plan.ep <= 1 or link.bandwidth <= size:
        return None
    found = supposed
    if rate:
        found = _deployed(found, gpu=replace(deployment.gpu, link=replace(link, bandwidth=size)))
    if late:
        found = _engine_with(found, all_reduce=deployment.engine.all_reduce + _ALL_REDUCE * math.sqrt(_PCIE / size))
    return found


def _without_nvlink(rate: bool, late: bool, supposed: Supposed, size: float) -> Supposed | None:
    if not supposed.run.deployment.gpu.link.kind.startswith("nvlink"):
        return None
    return _linked(rate, late, supposed, size)


def _clocked(supposed: Supposed, size: float) -> Supposed:
    """Slower units that multiply; the memory keeps its clock."""
    gpu = supposed.run.deployment.gpu
    peaks = {name: peak / size for name, peak in gpu.peaks.items()}
    return _deployed(
        supposed, gpu=replace(gpu, peaks=peaks, exp_rate=None if gpu.exp_rate is None else gpu.exp_rate / size)
    )


def _rated(supposed: Supposed, size: float) -> Supposed:
    """Slower units and memory; what a kernel needs to start stays."""
    found = _clocked(supposed, size)
    gpu = found.run.deployment.gpu
    return _deployed(found, gpu=replace(gpu, bandwidth=gpu.bandwidth / size))


def _wide_cache(supposed: Supposed, size: float) -> Supposed | None:  # noqa: ARG001  it has no size
    quantization = supposed.run.deployment.quantization
    wide = number_format(quantization.sixteen_bit_peak)
    if quantization.kv_nbytes >= wide.nbytes:
        return None
    return _deployed(
        supposed,
        quantization=quantization._replace(
            kv_format=wide.name, kv_nbytes=wide.nbytes, kv_key="bf16", attention_peak=quantization.sixteen_bit_peak
        ),
    )


def _wide_weights(supposed: Supposed, size: float) -> Supposed | None:  # noqa: ARG001  it has no size
    quantization = supposed.run.deployment.quantization
    wide = quantization.sections["embed"]
    narrow = {name for name, each in quantization.sections.items() if each.weight_nbytes < wide.weight_nbytes}
    if not narrow:
        return None
    sections = {name: wide if name in narrow else each for name, each in quantization.sections.items()}
    return _deployed(supposed, quantization=quantization._replace(sections=sections))


def _fewer_sent(supposed: Supposed, size: float) -> Supposed | None:
    load = supposed.run.workload.load
    return None if load.is_burst or load.amount <= 1.0 else _workload_with(supposed, load=load.scaled(size))


def _drafts_refused(supposed: Supposed, size: float) -> Supposed | None:
    return supposed._replace(drafted=1.0 / size) if supposed.run.deployment.draft is not None else None


def _drafting(supposed: Supposed, size: float) -> Supposed | None:
    return supposed._replace(drafted=size) if supposed.run.workload.osl > 1.0 else None


def _host_slower(names: Sequence[str], supposed: Supposed, size: float) -> Supposed:
    engine = supposed.run.deployment.engine
    return _engine_with(supposed, **{name: getattr(engine, name) * size for name in names})


def _host_longer(name: str, supposed: Supposed, size: float) -> Supposed:
    return _engine_with(supposed, **{name: getattr(supposed.run.deployment.engine, name) + size})


def _fastest(runs: Sequence[Supposed]) -> float:
    """Most tokens that a run would send to its client [1/s]."""
    rates = []
    for supposed in runs:
        shown = figures(supposed)
        if shown is not None:
            load, users = supposed.run.workload.load, supposed.run.workload.load.users_on(1.0)
            flying = load.batch if load.is_burst else users or float(load.amount) * shown.values["e2el"]
            rates.append(float(flying) / shown.values["tpot"] if shown.values["tpot"] > 0.0 else 1.0)
    return max(rates, default=1.0)


def _times(words: str, _: Sequence[Supposed], size: float) -> str:
    return f"{words} takes {rounded(size, 2)} times as long"


def _takes(words: str, _: Sequence[Supposed], size: float) -> str:
    return f"{words} takes about {to_text(size, 's', 2)}"


def _longer(words: str, _: Sequence[Supposed], size: float) -> str:
    return f"about {to_text(size, 's', 2)} more {words}"


def _limit(words: str, runs: Sequence[Supposed], size: float) -> str:
    ranks = float(lanes(runs[0].run.deployment)) if words == "requests" else 1.0
    return f"limited to about {rounded(max(size, 1.0) * ranks, 2)} {words}"


def _share(words: str, _: Sequence[Supposed], size: float) -> str:
    return f"about {rounded(100.0 * size, 2)} % {words}"


def _rate(words: str, _: Sequence[Supposed], size: float) -> str:
    return f"{words} about {to_text(size, 'B/s', 2)}"


def _plain(words: str, _: Sequence[Supposed], size: float) -> str:  # noqa: ARG001  it has no size
    return words


_HOST = ("request", "prefill", "step", "layer", "sequence", "arrival")
_PREFILLS, _DECODES = (ATTENTION_PREFILL, MLA_PREFILL), (ATTENTION_DECODE, MLA_DECODE)
_LINK_RATES = tuple(GIGA * rate for rate in (3.0, 6.0, 12.0, 24.0, 48.0, 96.0))
_SLOWER = (1.15, 1.3, 1.5, 1.8, 2.4, 4.0)


def _link_forms(moved: Any, usual: float) -> tuple[Form, ...]:
    text = partial(_rate, "the GPUs reach each other at")
    return tuple(
        Form(partial(moved, rate, late), _LINK_RATES, text, usual, _LINK_SIGMA)
        for rate, late in ((True, False), (True, True), (False, True))
    )


def _eager(supposed: Supposed, size: float) -> Supposed:
    """Scores that go through memory: prompts, whose scores grow with the square, suffer more than single queries."""
    return _kernels_slower(_DECODES, _kernels_slower(_PREFILLS, supposed, size), size**_EAGER_DECODE)


def _attention_forms(usual: float, sizes: tuple[float, ...], groups: Sequence[Sequence[Any]]) -> tuple[Form, ...]:
    words = {_PREFILLS: "attention of prompts", _DECODES: "attention of decode steps"}
    return tuple(
        Form(
            partial(_kernels_slower, kinds), sizes, partial(_times, words.get(tuple(kinds), "attention")), usual,
            _ATTENTION_SIGMA,
        )
        for kinds in groups
    )  # fmt: skip


#: Everything that is looked for.
FAULTS: tuple[Fault, ...] = (
    Fault(
        "CUDA graphs off",
        "host",
        "a log of a start with graphs says that they were captured",
        (
            Form(
                _launched,
                tuple(MICRO * size for size in (7.0, 11.0, 17.0, 26.0, 40.0, 65.0, 100.0)),
                partial(_takes, "the launch of a kernel"),
                _LAUNCH,
                _LAUNCH_SIGMA,
            ),
            Form(
                partial(_host_longer, "layer"),
                tuple(MICRO * size for size in (40.0, 80.0, 150.0, 300.0, 600.0)),
                partial(_longer, "of the host a layer"),
            ),
        ),
        flags="graphs",
    ),
    Fault(
        "host slow",
        "host",
        "one core at 100 % (top -H), logging or tracing on, other work on the machine",
        (
            Form(partial(_host_slower, _HOST), (1.6, 2.4, 4.0, 7.0, 12.0), partial(_times, "the host")),
            Form(
                partial(_host_longer, "step"),
                (0.0005, 0.0015, 0.004, 0.01, 0.025, 0.06),
                partial(_longer, "of the host a step"),
            ),
            Form(
                partial(_host_longer, "request"),
                (0.01, 0.03, 0.08, 0.2, 0.5),
                partial(_longer, "of the host a request"),
            ),
        ),
        flags="host",
    ),
    Fault(
        "another attention backend",
        "decode",
        "the log of the start names the backend of attention",
        _attention_forms(_BACKEND, (1.2, 1.5, 1.9, 2.4, 3.2), ((*_PREFILLS, *_DECODES), _DECODES)),
        flags="attention",
    ),
    Fault(
        "eager attention",
        "prefill",
        "the log of the start, or the model's configuration, says eager or SDPA in place of a fused kernel",
        (
            Form(_eager, _EAGERS, partial(_times, "attention of prompts"), _EAGER, _ATTENTION_SIGMA),
            *_attention_forms(_EAGER, _EAGERS, ((*_PREFILLS, *_DECODES),)),
        ),
        flags="attention",
    ),
    Fault(
        "prefix cache off",
        "cache",
        "the hit rate of the prefix cache in the log or in /metrics",
        (
            Form(
                partial(_of_run, uncached),
                (0.3, 0.5, 0.75, 1.0),
                partial(_share, "of the shared prefix is computed again"),
                1.0,
                0.5,
            ),
        ),
        flags="cache",
    ),
    Fault(
        "prompts cached",
        "cache",
        "the hit rate of the prefix cache in the log or in /metrics; another seed of the benchmark",
        (
            Form(
                partial(_of_run, cached),
                (0.1, 0.25, 0.45, 0.65, 0.85, _MOST_CACHED),
                partial(_share, "of the prompt was cached"),
            ),
        ),
        flags="cache",
    ),
    Fault(
        "chunk too small",
        "prefill",
        "the log of the start states the tokens of a step",
        (
            Form(
                _chunked,
                tuple(64.0 * 2.0**power for power in range(7)),
                partial(_limit, "tokens a step"),
            ),
        ),
        flags="chunk",
    ),
    Fault(
        "too few slots",
        "queue",
        "requests wait in /metrics while those that run stay at one number",
        (
            Form(
                partial(_of_run, limited),
                (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
                partial(_limit, "requests"),
            ),
        ),
        flags="batch limit",
    ),
    Fault(
        "NCCL without NVLink",
        "link",
        "nvidia-smi topo -m shows NV between the GPUs; NCCL_DEBUG=INFO names the transport",
        _link_forms(_without_nvlink, _PCIE),
        flags="all-reduces",
    ),
    Fault(
        "tp across sockets",
        "link",
        "nvidia-smi topo -m shows SYS between GPUs of one group",
        _link_forms(_linked, _SOCKETS),
        flags="all-reduces",
    ),
    Fault(
        "clocks throttled",
        "prefill",
        "nvidia-smi -q -d CLOCK,PERFORMANCE during the run; nvidia-smi -L for a MIG slice or another card",
        (
            Form(_clocked, _SLOWER, partial(_times, "arithmetic"), _THROTTLED, _THROTTLED_SIGMA),
            Form(_rated, _SLOWER, partial(_times, "all arithmetic and memory traffic"), _THROTTLED, _THROTTLED_SIGMA),
        ),
    ),
    Fault(
        "KV cache not quantised",
        "decode",
        "the log states the format of the KV cache, and how many tokens it holds: half of those expected",
        (Form(_wide_cache, (1.0,), partial(_plain, "the KV cache takes 16 bits a value")),),
        flags="cache format",
    ),
    Fault(
        "weights not quantised",
        "decode",
        "the log states the memory of the weights",
        (Form(_wide_weights, (1.0,), partial(_plain, "the weights take 16 bits")),),
        flags="linear layers",
    ),
    Fault(
        "experts imbalanced",
        "experts",
        "tokens of each expert or rank, from the statistics of the load balancer",
        (
            Form(_skewed, (2.0, 4.0, 8.0, 20.0), partial(_times, "the fullest rank's share")),
            Form(_experts_slower, _SLOWER, partial(_times, "the slowest rank of the experts"), 2.0, 0.5),
        ),
        flags="experts",
    ),
    Fault(
        "client at its limit",
        "client",
        "TTFT and ITL in the server's own /metrics; two clients that share the load",
        (
            Form(
                lambda supposed, size: supposed._replace(pace=size),
                (0.08, 0.15, 0.25, 0.4, 0.6, 0.85),
                lambda _, size: f"it takes about {rounded(size, 2)} tokens/s",
                unit=_fastest,
            ),
            Form(
                lambda supposed, size: supposed._replace(chunk=size),
                (0.15, 0.3, 0.6, 1.2, 2.5),
                partial(_longer, "of the client for each answer in flight"),
                unit=lambda runs: 1.0 / _fastest(runs),
            ),
            Form(_fewer_sent, (0.15, 0.3, 0.5, 0.7, 0.85), partial(_share, "of the stated load was sent")),
        ),
    ),
    Fault(
        "warm-up in the figures",
        "client",
        "the same run again on the warm server; TTFT of the first requests apart",
        (
            Form(
                lambda supposed, size: supposed._replace(late=size),
                (0.3, 1.0, 3.0, 8.0, 20.0, 60.0),
                partial(_takes, "the first pass of the server"),
            ),
        ),
    ),
    Fault(
        "drafts not stated",
        "drafts",
        "the log states the length that the target accepts",
        (Form(_drafting, (1.3, 1.7, 2.2, 3.0), lambda _, size: f"{rounded(size, 2)} tokens a step"),),
        flags="drafts",
        rarity=2.0,
    ),
    Fault(
        "drafts refused",
        "drafts",
        "the log states the length that the target accepts",
        (Form(_drafts_refused, (1.2, 1.5, 2.0, 3.0), partial(_times, "an accepted token")),),
        flags="drafts",
    ),
    Fault(
        "faster GPU, format or plan than stated",
        "decode",
        "nvidia-smi -L, and the arguments in the log of the start",
        (
            Form(partial(_of_run, slower_kernels), (0.3, 0.45, 0.6, 0.75, 0.88), partial(_times, "every kernel")),
            Form(_clocked, (0.3, 0.45, 0.6, 0.75, 0.88), partial(_times, "arithmetic")),
        ),
        flags="linear layers",
        rarity=2.0,
    ),
)
