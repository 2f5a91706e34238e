"""Judges what `roofline check` finds wrong with one server, by faults that are hidden in simulations of it.

    python accuracy/judge_faults.py [--cases 20] [--seed N] [--pairs] [--biased] [--noise 0.03] [--workers 2]
    python accuracy/judge_faults.py --page     all of that, and docs/faults.md; takes a quarter of an hour

A server is simulated token by token with a hidden fault at three to five loads; the results of a benchmark are written
as `vllm bench serve` writes them, with what the server was thought to be; `rl.check` is asked. It sees no more than
that. Each fault is put into the simulation by other sizes, and where it can be by other means, than those which the
search tries (roofline/questions/faults.py). Takes some minutes.
"""

from __future__ import annotations

import argparse
import math
import pickle
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from prose import wrapped

import roofline as rl
from roofline.questions.diagnosis import HEALTHY, UNCLEAR
from roofline.serving.latency import Workload, lanes, lengths_by_law
from roofline.serving.load.equations import server_of
from roofline.serving.load.simulation import Arrivals, simulated
from roofline.specs.engine import KernelOverride
from roofline.specs.formats import number_format
from roofline.specs.load import Users

PAGE = Path(__file__).parent.parent / "docs" / "faults.md"
SEED = 20_291_700
GIGA, MICRO, MILLI = 1e9, 1e-6, 1e-3
#: Model, GPU and options of the servers.
SERVERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("llama-3.1-8b", "h100-sxm", {"tp": 1}),
    ("llama-3.1-8b", "a100-sxm-80gb", {"tp": 1}),
    ("llama-3.1-8b", "l40s", {"tp": 1, "quantization": "fp8"}),
    ("qwen3-32b", "h100-sxm", {"tp": 2}),
    ("qwen3-32b", "h100-sxm", {"tp": 1, "quantization": "fp8"}),
    ("llama-3.3-70b", "h100-sxm", {"tp": 4}),
    ("llama-3.3-70b", "h100-sxm", {"tp": 4, "quantization": "fp8"}),
    ("llama-3.3-70b", "b200", {"tp": 2, "quantization": "nvfp4"}),
    ("gpt-oss-120b", "h100-sxm", {"tp": 2}),
    ("gpt-oss-120b", "b200", {"tp": 1}),
    ("qwen3-235b-a22b-fp8", "h100-sxm", {"tp": 4, "ep": 4}),
    ("qwen3-235b-a22b-fp8", "h100-sxm", {"tp": 4, "ep": 4, "kv_cache_dtype": "fp8"}),
    ("deepseek-r1", "b200", {"tp": 8, "ep": 8}),
)
LENGTHS = ((512, 128), (1024, 256), (1024, 1024), (2048, 256), (4096, 256), (8192, 512))
USERS = (1, 2, 4, 8, 16, 32, 64, 128)
LEAST_EFFECT = 0.15  # of ln(figure with the fault / without) of the figure that it moves most


@dataclass
class Real:
    """A server as it is, and what the benchmark does to its figures."""

    deployment: Any
    prefix: float = 0.0  # of the prompt that is cached [tokens]
    pace: float = math.inf  # of the client [tokens/s]
    chunk: float = 0.0  # of the client for each token that it is sent [s]
    late: float = 0.0  # that the first request of each user waits [s]


def _engine(real: Real, **changes: Any) -> None:
    real.deployment = replace(real.deployment, engine=replace(real.deployment.engine, **changes))


def _kernels(real: Real, factors: dict[str, float]) -> None:
    more = tuple(KernelOverride(kind, compute=1.0 / factor, memory=1.0 / factor) for kind, factor in factors.items())
    _engine(real, tunings=(*real.deployment.engine.tunings, *more))


def _graphs(draw: random.Random, real: Real) -> str:
    launch = draw.uniform(7.0, 22.0) * MICRO
    _engine(real, launch_decode=launch, launch=max(launch, real.deployment.engine.launch))
    return f"launches of {launch / MICRO:.0f} us"


def _attention(draw: random.Random, real: Real, prompts: float, answers: float) -> str:
    _kernels(
        real, {"attention_prefill": prompts, "mla_prefill": prompts, "attention_decode": answers, "mla_decode": answers}
    )
    return f"attention x {prompts:.1f} in prompts, x {answers:.1f} in answers"


def _eager(draw: random.Random, real: Real) -> str:
    return _attention(draw, real, draw.uniform(4.0, 12.0), draw.uniform(2.5, 6.0))


def _backend(draw: random.Random, real: Real) -> str:
    factor = draw.uniform(1.4, 2.6)
    return _attention(draw, real, factor, factor * math.exp(draw.gauss(0.0, 0.1)))


def _chunk(draw: random.Random, real: Real) -> str:
    tokens = draw.choice((64, 128, 256, 512))
    _engine(real, max_num_batched_tokens=tokens)
    return f"{tokens} tokens a step"


def _slots(draw: random.Random, real: Real, most: float) -> str:
    slots = max(int(draw.uniform(0.15, 0.6) * most / float(lanes(real.deployment))), 1)
    _engine(real, max_num_seqs=slots)
    return f"{slots} slots"


def _link(real: Real, rate: float, late: float) -> str:
    gpu = real.deployment.gpu
    real.deployment = replace(real.deployment, gpu=replace(gpu, link=replace(gpu.link, bandwidth=rate)))
    _engine(real, all_reduce=real.deployment.engine.all_reduce + late)
    return f"{rate / GIGA:.0f} GB/s, {late / MICRO:.0f} us later"


def _clocks(draw: random.Random, real: Real) -> str:
    core, memory = draw.uniform(1.4, 2.5), draw.choice((1.0, 1.0, draw.uniform(1.0, 1.3)))
    gpu = real.deployment.gpu
    real.deployment = replace(
        real.deployment,
        gpu=replace(
            gpu, peaks={name: peak / core for name, peak in gpu.peaks.items()}, bandwidth=gpu.bandwidth / memory,
            exp_rate=gpu.exp_rate and gpu.exp_rate / core,
        ),
    )  # fmt: skip
    return f"SM clock / {core:.2f}, memory / {memory:.2f}"


def _kv(real: Real) -> str:
    held = real.deployment.quantization
    wide = number_format(held.sixteen_bit_peak)
    real.deployment = replace(
        real.deployment,
        quantization=held._replace(kv_format=wide.name, kv_nbytes=wide.nbytes, kv_key="bf16", attention_peak=held.sixteen_bit_peak),
    )  # fmt: skip
    return "16-bit KV"


def _experts(draw: random.Random, real: Real) -> str:
    if real.deployment.plan.ep > 1 and draw.random() < 0.5:
        skew = draw.uniform(4.0, 15.0)
        real.deployment = replace(real.deployment, routing_skew=real.deployment.routing_skew / skew)
        return f"skew x {skew:.0f}"
    factor = draw.uniform(1.5, 3.5)
    _kernels(real, {"moe": factor})
    return f"experts x {factor:.1f}"


def _client(draw: random.Random, real: Real, fastest: float) -> str:
    if draw.random() < 0.6:
        real.pace = draw.uniform(0.25, 0.75) * fastest
        return f"{real.pace:.0f} tokens/s"
    real.chunk = draw.uniform(0.2, 0.8) / fastest
    return f"{real.chunk / MICRO:.0f} us a token"


def _warm_up(draw: random.Random, real: Real) -> str:
    real.late = math.exp(draw.uniform(math.log(1.0), math.log(30.0)))
    return f"{real.late:.1f} s of warm-up"


#: Fault -> answers that are right.
FAULTS: dict[str, tuple[str, ...]] = {
    "CUDA graphs off": ("CUDA graphs off",),
    "eager attention": ("eager attention",),
    "prefix cache off": ("prefix cache off",),
    "prefix cache on": ("prompts cached",),
    "chunk too small": ("chunk too small",),
    "too few slots": ("too few slots",),
    "tp across sockets": ("tp across sockets",),
    "clocks throttled": ("clocks throttled",),
    "KV cache not quantised": ("KV cache not quantised",),
    "another attention backend": ("another attention backend",),
    "experts imbalanced": ("experts imbalanced",),
    "NCCL without NVLink": ("NCCL without NVLink",),
    "client at its limit": ("client at its limit",),
    "warm-up in the figures": ("warm-up in the figures",),
    "prompts repeated": ("prompts cached",),
}


#: Faults that one server cannot have at once.
APART = (
    {"prefix cache off", "prefix cache on"},
    {"prefix cache off", "prompts repeated"},
    {"tp across sockets", "NCCL without NVLink"},
    {"eager attention", "another attention backend"},
)


@dataclass(frozen=True)
class Case:
    """What was hidden, and what was found."""

    seed: int
    hidden: tuple[str, ...]
    what: str
    is_visible: bool  # a figure outside its 80 % range
    answer: str
    found: tuple[str, ...]
    seconds: float

    @property
    def first(self) -> bool:
        return bool(self.found) and any(self.found[0] in FAULTS[name] for name in self.hidden)

    @property
    def first_two(self) -> bool:
        return any(name in FAULTS[fault] for name in self.found[:2] for fault in self.hidden)

    @property
    def both(self) -> bool:
        """Whether everything that was hidden is among the first two."""
        return all(any(name in FAULTS[fault] for name in self.found[:2]) for fault in self.hidden)


def can_have(fault: str, prediction: Any) -> bool:
    """Whether a server can have a fault."""
    deployment = prediction.deployment
    ranks = deployment.plan.tp * deployment.plan.ep
    if fault in ("tp across sockets", "NCCL without NVLink"):
        return ranks > 1 and deployment.gpu.link.kind.startswith("nvlink")
    if fault == "KV cache not quantised":
        return deployment.quantization.kv_nbytes < 2.0
    if fault == "experts imbalanced":
        return deployment.model.is_moe
    return True


def put(fault: str, draw: random.Random, real: Real, isl: float, most: float, fastest: float) -> str:
    """Hide a fault in a server."""
    if fault == "prefix cache off":
        real.prefix = 0.0
        return "nothing of the prefix cached"
    if fault == "prefix cache on":
        real.prefix = float(round(draw.uniform(0.3, 0.85) * isl))
        return f"{real.prefix / isl:.0%} cached"
    if fault == "prompts repeated":
        real.prefix = float(max(round(draw.uniform(0.93, 0.99) * isl), 1))
        return f"{real.prefix / isl:.0%} cached"
    if fault == "too few slots":
        return _slots(draw, real, most)
    if fault == "tp across sockets":
        return _link(real, draw.uniform(6.0, 18.0) * GIGA, draw.uniform(20.0, 60.0) * MICRO)
    if fault == "NCCL without NVLink":
        return _link(real, draw.uniform(25.0, 60.0) * GIGA, draw.uniform(5.0, 25.0) * MICRO)
    if fault == "KV cache not quantised":
        return _kv(real)
    if fault == "client at its limit":
        return _client(draw, real, fastest)
    simple: dict[str, Callable[[random.Random, Real], str]] = {
        "CUDA graphs off": _graphs, "eager attention": _eager, "chunk too small": _chunk, "clocks throttled": _clocks,
        "another attention backend": _backend, "experts imbalanced": _experts, "warm-up in the figures": _warm_up,
    }  # fmt: skip
    return simple[fault](draw, real)


def measured(real: Real, isl: float, osl: float, users: int, prompts: int, seed: int) -> dict[str, float]:
    """What a benchmark of a server writes: mean, median and p99 [ms]."""
    ranks = float(lanes(real.deployment))
    spread = 0.3 / 3**0.5
    workload = Workload(isl=isl, osl=osl, load=Users(float(users)), prefix=real.prefix)
    own = max(round(users / ranks), 1)
    arrivals = Arrivals(
        max(round(prompts / ranks), own), users=own, is_burst=True, lengths=lengths_by_law("uniform", spread, spread), seed=seed
    )  # fmt: skip
    found = simulated(server_of(real.deployment, workload), arrivals)
    ttfts, tpots, e2els = [], [], []
    for place, one in enumerate(found):
        late = real.late if place < own else 0.0
        tpot = max(one.tpot, users / real.pace, one.tpot + real.chunk * users)
        ttft = one.ttft + late + real.chunk * users
        ttfts.append(ttft)
        tpots.append(tpot)
        e2els.append(ttft + (one.e2el - one.ttft) * tpot / one.tpot)
    rate = users / statistics.fmean(e2els)
    figures: dict[str, float] = {"request_throughput": rate}
    for name, values in (("ttft", ttfts), ("tpot", tpots), ("e2el", e2els)):
        ordered = sorted(values)
        figures[f"mean_{name}_ms"] = statistics.fmean(values) / MILLI
        figures[f"median_{name}_ms"] = statistics.median(values) / MILLI
        figures[f"p99_{name}_ms"] = ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)] / MILLI
    return figures


class Asked(NamedTuple):
    """A server as it is thought to be, and its loads."""

    model: str
    gpu: str
    options: dict[str, Any]
    engine: str
    isl: int
    osl: int
    prefix: int
    users: list[int]

    @property
    def text(self) -> str:
        where = f"{self.model} on {self.gpu} {self.options}, {self.engine}"
        return f"{where}, isl {self.isl}, osl {self.osl}, users {self.users}"

    def file(self, users: int, prompts: int, figures: dict[str, float]) -> dict[str, Any]:
        """A result as `vllm bench serve` writes it."""
        return {
            **figures, "model_id": self.model, "gpu": self.gpu, "backend": self.engine, "max_concurrency": users,
            "request_rate": "inf", "num_prompts": prompts, "completed": prompts,
            "total_input_tokens": self.isl * prompts, "total_output_tokens": self.osl * prompts, "prefix": self.prefix,
            **self.options,
        }  # fmt: skip


def asked(draw: random.Random, hidden: tuple[str, ...]) -> Asked:
    """A server, lengths and loads."""
    model, gpu, options = draw.choice(SERVERS)
    isl, osl = (round(length * math.exp(draw.uniform(-0.2, 0.2))) for length in draw.choice(LENGTHS))
    prefix = round(draw.uniform(0.4, 0.9) * isl) if "prefix cache off" in hidden else 0
    users = sorted(draw.sample(USERS, draw.choice((3, 4, 5))))
    return Asked(model, gpu, options, draw.choice(("vllm", "vllm", "sglang")), isl, osl, prefix, users)


def biased(draw: random.Random, real: Real) -> None:
    """A server that is not quite as predicted."""
    gpu, off, host = real.deployment.gpu, math.exp(draw.gauss(0.0, 0.05)), math.exp(draw.gauss(0.0, 0.25))
    peaks = {name: peak / off for name, peak in gpu.peaks.items()}
    real.deployment = replace(real.deployment, gpu=replace(gpu, bandwidth=gpu.bandwidth / off, peaks=peaks))
    names = ("request", "prefill", "step", "sequence", "arrival")
    _engine(real, **{name: getattr(real.deployment.engine, name) * host for name in names})


def hidden_in(
    draw: random.Random, hidden: tuple[str, ...], seed: int, *, is_biased: bool
) -> tuple[Asked, str, list[tuple[int, int, dict[str, float]]]] | None:
    """A server with its faults in words, and its runs: users, prompts and figures; None where the faults do nothing."""
    one = asked(draw, hidden)
    known = {"engine": one.engine, "isl": one.isl, "osl": one.osl, "prefix": one.prefix, **one.options}
    try:
        predictions = [rl.predict(one.model, one.gpu, concurrency=number, **known) for number in one.users]
    except rl.RooflineError:
        return None
    first = predictions[0]
    if any(number % float(lanes(first.deployment)) for number in one.users):
        return None
    if not all(can_have(fault, first) for fault in hidden):
        return None
    real = Real(first.deployment, float(one.prefix))
    if is_biased:
        biased(draw, real)
    plain = replace(real)
    fastest = max(float(p.served.concurrency) / float(p.tpot) for p in predictions)
    what = ", ".join(put(fault, draw, real, one.isl, max(one.users), fastest) for fault in hidden)
    runs, effect = [], 0.0
    try:
        for place, number in enumerate(one.users):
            prompts = max(number * 8, 40)
            case_of = (one.isl, one.osl, number, prompts, seed + place)
            after, before = measured(real, *case_of), measured(plain, *case_of)
            moved = [abs(math.log(after[f"mean_{name}_ms"] / before[f"mean_{name}_ms"])) for name in ("ttft", "tpot")]
            effect = max(effect, *moved)
            runs.append((number, prompts, after))
    except (rl.RooflineError, ValueError, ZeroDivisionError):
        return None
    return (one, what, runs) if not hidden or effect >= LEAST_EFFECT else None


def case(task: tuple[int, tuple[str, ...], bool, float]) -> Case:
    """A server with hidden faults, measured and checked."""
    seed, hidden, is_biased, noise = task
    draw = random.Random(seed)
    drawn = next((found for _ in range(400) if (found := hidden_in(draw, hidden, seed, is_biased=is_biased))), None)
    if drawn is None:
        raise RuntimeError(f"seed {seed}: no case of {hidden}")
    one, what, runs = drawn
    files = []
    for number, prompts, figures in runs:
        # One factor a metric and run: mean and median of the same requests are off alike.
        off = {name: math.exp(draw.gauss(0.0, noise)) for name in ("ttft", "tpot", "e2el", "request_throughput")}
        noisy = {key: value * off[next(name for name in off if name in key)] for key, value in figures.items()}
        files.append(one.file(number, prompts, noisy))
    started = time.perf_counter()
    checks = rl.check(files, statistic=draw.choice((None, "mean")))
    (found,) = checks.findings
    seconds = time.perf_counter() - started
    visible = any(run.inside(name) is False for run in checks for name in ("ttft", "tpot"))
    faults = tuple(each.fault for each in found.found)
    return Case(seed, hidden, f"{one.text}; {what}", visible, found.answer, faults, seconds)


def tasks(
    cases: int, seed: int, *, pairs: bool, biased: bool, noise: float
) -> list[tuple[int, tuple[str, ...], bool, float]]:
    """Seeds and faults of all cases."""
    names = list(FAULTS)
    listed: list[tuple[str, ...]] = []
    for number in range(cases):
        draw = random.Random(seed + number)
        for name in names:
            others = [each for each in names if {name, each} not in APART and FAULTS[each] != FAULTS[name]]
            listed.append((name, draw.choice(others)) if pairs else (name,))
    if not pairs:
        listed += [()] * (cases * 5)
    return [(seed + 1000 * place, hidden, biased, noise) for place, hidden in enumerate(listed)]


def report(cases: list[Case]) -> str:
    """The table of a judging."""
    lines = [
        "| hidden | cases | visible | first | first two | healthy | cannot tell | first instead |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    groups: dict[str, list[Case]] = defaultdict(list)
    for each in cases:
        for name in each.hidden or (HEALTHY,):
            groups[name].append(each)
    for name, own in groups.items():
        instead = Counter(each.found[0] if each.found else each.answer for each in own if not each.first)
        words = ", ".join(f"{key} {number}" for key, number in instead.most_common(4))
        counts = (
            len(own), sum(each.is_visible for each in own), sum(each.first for each in own),
            sum(each.first_two for each in own), sum(each.answer == HEALTHY for each in own),
            sum(each.answer == UNCLEAR for each in own),
        )  # fmt: skip
        lines.append(f"| {name} | {' | '.join(map(str, counts))} | {words if name != HEALTHY else ''} |")
    faulty = [each for each in cases if each.hidden]
    shown = [each for each in faulty if each.is_visible]
    for name, own in (("all", faulty), ("with a figure outside its range", shown)):
        if own:
            lines.append(
                f"\n{name}: {len(own)}; right first {sum(e.first for e in own) / len(own):.1%}, first two "
                f"{sum(e.first_two for e in own) / len(own):.1%} (everything: "
                f"{sum(e.both for e in own) / len(own):.1%}), called healthy "
                f"{sum(e.answer == HEALTHY for e in own) / len(own):.1%}"
            )
    lines.append(
        f"\nslowest check {max(each.seconds for each in cases):.1f} s, mean "
        f"{statistics.fmean(each.seconds for each in cases):.1f} s"
    )
    return "\n".join(lines)


#: Judgings of the page: title, cases of each fault, pairs, biased.
JUDGINGS = (
    ("One fault", 20, False, False),
    ("Two faults at once", 7, True, False),
    ("One fault, on a server that is itself off its prediction", 5, False, True),
)


def write_page(seed: int, workers: int) -> None:
    """Write docs/faults.md."""
    parts = [
        "# What is wrong with a server: judged on simulations\n",
        "Generated by `python accuracy/judge_faults.py --page`. A server is simulated token by token with a hidden "
        "fault, at three to five numbers of users from 1 to 128; the results are written as `vllm bench serve` writes "
        "them, every metric of a run multiplied by exp(N(0, 0.03)), and `roofline check` ([What is wrong with a "
        "server](measurements.md#what-is-wrong-with-a-server)) is asked. It sees what the server was thought to be, "
        "never the fault. Thirteen deployments from Llama-8B on one A100 to DeepSeek-R1 on eight B200, prompts of 400 "
        "to 10,000 tokens, answers of 100 to 1,250, whose lengths vary by 30 %; each fault moves a mean TTFT or TPOT "
        f"by 15 % or more at one load. Seeds from {seed}, which were not used while the method was written. `visible`: "
        "a figure lies outside its 80 % range; where none does, the server is usually called healthy, and only the "
        "ranking is left to judge. `first`: the right fault leads the list; where two are hidden, one of them does.\n",
    ]
    for number, (title, cases, pairs, is_biased) in enumerate(JUDGINGS):
        listed = tasks(cases, seed + 10_000_000 * number, pairs=pairs, biased=is_biased, noise=0.03)
        with ProcessPoolExecutor(workers) as pool:
            found = list(pool.map(case, listed, chunksize=4))
        parts += [f"## {title}\n", report(found), ""]
        wrong = [each for each in found if each.hidden and each.is_visible and not each.first_two]
        if wrong:
            parts.append("Not among the first two, though visible:\n")
            parts += [f"- {' and '.join(each.hidden)}: {each.what}; answered {each.answer}" for each in wrong]
            parts.append("")
    PAGE.write_text(wrapped("\n".join(parts).rstrip()), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--biased", action="store_true")
    parser.add_argument("--noise", type=float, default=0.03)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        write_page(options.seed, options.workers)
        return
    listed = tasks(options.cases, options.seed, pairs=options.pairs, biased=options.biased, noise=options.noise)
    with ProcessPoolExecutor(options.workers) as pool:
        found = list(pool.map(case, listed, chunksize=4))
    if options.keep:
        Path(options.keep).write_bytes(pickle.dumps(found))
    print(report(found))


if __name__ == "__main__":
    main()
