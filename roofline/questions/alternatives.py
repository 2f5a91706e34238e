"""What a lever changes a case into: smaller models, faster GPUs, split pools; why it helps, what quality it loses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from roofline.catalog import find
from roofline.numbers.quantity import rounded, to_text
from roofline.physics.equation import basis_of
from roofline.physics.memory import active_parameters, parameters
from roofline.physics.plan import Plan
from roofline.questions.disaggregate import Disaggregation
from roofline.questions.inputs.deployment import pool_of
from roofline.serving.capacity import NOT_KNOWN, Goodput
from roofline.serving.comparison import UNCHANGED, Difference, difference, why_faster
from roofline.serving.latency import time_per_token
from roofline.serving.prediction import Prediction
from roofline.specs.formats import FORMATS
from roofline.specs.gpu import ROUGH, Gpu
from roofline.specs.model import Model
from roofline.specs.workload import BETWEEN_TOKENS, binding_text
from roofline.specs.written import DEGREES, Pool, pool_text
from roofline.support.records import NamedTuple

# The next smaller model of a line, and the next GPU with more bandwidth, from the catalog.

#: Largest share of the total or active parameters of a smaller sibling [1].
SMALLER = 0.7
#: Least factor on the bandwidth that makes another GPU worthwhile [1].
MORE_BANDWIDTH = 1.2

_VERSION = re.compile(r"([a-z]*)(\d+)(?:\.\d+)?").fullmatch
_SIZE = re.compile(r"[ae]?\d+(?:\.\d+)?[bm]|\d+x\d+b").fullmatch


def line_of(model: Model) -> tuple[str, str]:
    """The line of a model: its family, and its name up to the major version.

    >>> import roofline as rl
    >>> line_of(rl.load_model("llama-3.3-70b")), line_of(rl.load_model("qwen3-32b"))
    (('llama', 'llama-3'), ('qwen3', 'qwen3'))
    """
    first, *rest = model.short_name.split("-")
    first_version = _VERSION(first)
    if first_version is not None:  # qwen2.5: the version is part of the word
        return model.family, f"{first_version[1]}{first_version[2]}"
    version = _VERSION(rest[0]) if rest and not _SIZE(rest[0]) else None
    return model.family, first if version is None else f"{first}-{version[1]}{version[2]}"


def smaller_sibling(model: Model, specs: str | None = None) -> Model | None:
    """The next smaller model of the same line in the catalog; None where there is none.

    It has the same family and major version, no more total and active parameters, and at most `SMALLER` of either.
    The largest such model wins; among equals the one with the same version and number format, else the latest, with
    the shortest name.

    >>> import roofline as rl
    >>> smaller_sibling(rl.load_model("llama-3.3-70b")).short_name
    'llama-3.1-8b'
    """
    total, active, line = parameters(model).total, active_parameters(model), line_of(model)
    best: tuple[tuple[float, bool, float, bool, int], Model] | None = None
    for entry in find.listed("model", specs):
        other: Model = entry.record
        if line_of(other) != line:
            continue
        its_total, its_active = parameters(other).total, active_parameters(other)
        if its_total > total or its_active > active:
            continue
        if its_total > SMALLER * total and its_active > SMALLER * active:
            continue
        version, own_version = _version(other), _version(model)
        place = (its_total, version == own_version, version, other.native == model.native, -len(other.short_name))
        if best is None or place > best[0]:
            best = place, other
    return None if best is None else best[1]


def wider_gpu(gpu: Gpu, dtype: str, specs: str | None = None) -> Gpu | None:
    """The next GPU of the same vendor with more HBM bandwidth; None where there is none.

    It ships, has a known rental price and timed kernels of its generation (where `gpu` has them), is no slower in the
    same dtype, joins at least as many GPUs by its scale-up link, and has at least `MORE_BANDWIDTH` times the bandwidth.
    Of those the one with the least bandwidth wins.

    >>> import roofline as rl
    >>> wider_gpu(rl.load_gpu("h100"), "fp8").name
    'h200-sxm'
    """
    best: tuple[tuple[float, bool, float], Gpu] | None = None
    is_timed = basis_of(gpu, "calibrated") not in ROUGH
    for entry in find.listed("gpu", specs):
        other: Gpu = entry.record
        basis = basis_of(other, "calibrated")
        if other.vendor != gpu.vendor or other.status != "shipping" or other.price is None:
            continue
        if (is_timed and basis in ROUGH) or other.node < gpu.node:
            continue
        if other.bandwidth < MORE_BANDWIDTH * gpu.bandwidth or other.peaks.get(dtype, 0.0) < gpu.peaks.get(dtype, 0.0):
            continue
        place = (other.bandwidth, basis != "calibrated", other.price.typical)
        if best is None or place < best[0]:
            best = place, other
    return None if best is None else best[1]


def _version(model: Model) -> float:
    """Version in a name, 3.1 of llama-3.1-8b; 0 without one."""
    for part in model.short_name.split("-"):
        match = re.fullmatch(r"[a-z]*(\d+(?:\.\d+)?)", part)
        if match is not None:
            return float(match[1])
    return 0.0


# The GPUs of a case as a prefill and a decode pool: ways to divide them, and why that moves an answer.

#: Options of `disaggregate` that name its pools.
POOLS = ("prefill", "decode")

_MOST_SPLITS = 7
_NOT_OF_POOLS = ("gpu", *DEGREES, "num_gpus", "gpu_price")
_HALF, _QUARTER = 2, 4


def split_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `disaggregate` for both pools, from those of `predict`."""
    shared = {name: value for name, value in options.items() if name not in _NOT_OF_POOLS}
    price = options.get("gpu_price")
    return shared if price is None else {**shared, **{f"{pool}_gpu_price": price for pool in POOLS}}


def splits(gpu: str | Gpu, plan: Plan, replicas: int) -> Iterator[tuple[str, dict[str, str]]]:
    """At most seven ways to divide the GPUs of a case into two pools of whole replicas: names and pools.

    A single replica is split into two or four with less tensor parallelism, if the plan has no other degree.

    >>> [name for name, _ in splits("h100", Plan(tp=2), 3)]
    ['pools of 1 + 2 at tp 2', 'pools of 2 + 1 at tp 2']
    """
    pool = pool_of(gpu)
    name = pool.gpu if pool is not None else gpu.name if isinstance(gpu, Gpu) else gpu
    degrees = {degree: getattr(plan, degree) for degree in DEGREES[1:] if getattr(plan, degree) > 1}
    divisions = [(plan.tp, int(replicas))]
    if replicas == 1:
        divisions = [] if degrees else [(plan.tp // less, less) for less in (_HALF, _QUARTER) if plan.tp % less == 0]
    ways = [(tp, first, count - first) for tp, count in divisions for first in range(1, count)]
    step = -(-len(ways) // _MOST_SPLITS) if ways else 1
    for tp, first, second in ways[::step]:
        pools = [
            pool_text(Pool(name, tp=tp, **degrees, replicas=copies if copies > 1 else None))
            for copies in (first, second)
        ]
        yield f"pools of {first} + {second} at tp {tp}", dict(zip(POOLS, pools, strict=True))


def reason_of_pools(
    goal: str, before: tuple[Prediction, Goodput | None], after: tuple[Disaggregation, Goodput | None]
) -> str:
    """Why two pools move a goal."""
    single, apart = before[0], after[0]
    then, plans = single.deployment.plan.tp, {pool: getattr(apart.pools, pool).plan.tp for pool in POOLS}
    if goal == "ttft":
        queue = f"queue {to_text(float(single.queue or 0.0), 's')} -> {to_text(apart.queue, 's')}"
        link = f"the KV cache adds {to_text(apart.transfer, 's')}"
        prompt = "" if plans["prefill"] == then else f"; a prompt runs at tp {plans['prefill']} instead of {then}"
        return f"{queue}; {link}{prompt}"
    if goal == "tpot":
        steps = "" if plans["decode"] == then else f"; they run at tp {plans['decode']} instead of {then}"
        return f"no prompt comes between decode steps{steps}"
    fullest = max(apart.utils, key=lambda part: apart.utils[part])
    part = fullest if fullest == "link" else f"{fullest} pool"
    if before[1] is None or after[1] is None:
        return f"the {part} is the fullest part, {100.0 * apart.util:.0f} % of what it can answer"
    rates = f"{rounded(after[1].rate)} requests/s within the SLO instead of {rounded(before[1].rate)}"
    return f"the {part} is the fullest part; {rates}"


# What a lever costs in answer quality, according to public evaluations.

#: For levers that change neither model nor formats.
SAME_ANSWERS = "the same answers"
#: For speculation with exact verification.
VERIFIED = "lossless: every draft is verified exactly (Leviathan et al., arXiv 2211.17192); relaxed acceptance is not"
#: For everything else.
CHECK = "check on your own data"

_AND = " + "  # joins the notes of combined levers
_FREE = (SAME_ANSWERS, VERIFIED)
_BETWEEN_4_AND_8_BIT = 0.75  # size of a value that separates 4-bit from 8-bit formats [B]
_STUDY = "Kurtic et al., arXiv 2411.02355"
_CARD = "huggingface.co/nvidia/DeepSeek-R1-FP4"
_KV = "docs.sglang.io/advanced_features/quantized_kv_cache.html"
_EIGHT = {
    "fp8": f"fp8 weights and activations: effectively lossless on Llama 3.1 8B to 405B ({_STUDY})",
    "int8": f"int8 weights and activations: 1-3 % lower scores on Llama 3.1, well tuned ({_STUDY})",
}
_FOUR = {
    "nvfp4": f"nvfp4: 0 to 1.2 points lower than fp8 on five benchmarks of DeepSeek-R1 ({_CARD}); {CHECK}",
    "int4": f"int4 weights: close to 8 bits on Llama 3.1 ({_STUDY}); {CHECK}",
}


def weights_quality(name: str) -> str:
    """What a number format of the weights costs in quality.

    Args:
        name: of the format.

    Returns:
        A phrase with its source.

    Source:
        Kurtic et al., "Give Me BF16 or Give Me Death?", arXiv 2411.02355, abstract; NVIDIA's model card of
        DeepSeek-R1-FP4, evaluation (MMLU 90.8 to 90.7, GSM8K 96.3 to 96.1, AIME 2024 80.0 to 80.0, GPQA Diamond 69.7
        to 69.2, MATH-500 95.4 to 94.2).

    >>> weights_quality("mxfp4")
    'mxfp4 weights: check on your own data'
    """
    kind = FORMATS[name].compute if FORMATS[name].nbytes > _BETWEEN_4_AND_8_BIT else None
    known = _EIGHT.get(kind or "") if kind is not None else _FOUR.get(FORMATS[name].kin or name)
    return f"{name} weights: {CHECK}" if known is None else known


def cache_quality(name: str) -> str:
    """What a number format of the KV cache costs in quality.

    Args:
        name: of the format.

    Returns:
        A phrase with its source.

    Source:
        SGLang documentation, "Quantized KV Cache": throughput gains, "may introduce minimal accuracy degradation".
    """
    return f"{name} KV cache: little is lost as a rule ({_KV}); {CHECK}"


def is_free(quality: str) -> bool:
    """Whether a lever is known to cost no quality."""
    return all(part in _FREE for part in quality.split(_AND))


def both_qualities(*qualities: str) -> str:
    """The quality notes of several levers, each once.

    >>> both_qualities(SAME_ANSWERS, "fp8 KV cache", SAME_ANSWERS)
    'fp8 KV cache'
    """
    parts = dict.fromkeys(part for quality in qualities for part in quality.split(_AND) if part != SAME_ANSWERS)
    return _AND.join(parts) or SAME_ANSWERS


# Why a lever moves an answer, in a sentence: the queue, the kernels, the rent.

_WORTH = 0.02  # share of a latency below which a change is not mentioned


class Kernels(NamedTuple):
    """Both passes of a changed case compared with those of the unchanged case."""

    prefill: Difference
    decode: Difference | None  # None for a single output token

    @property
    def why_prefill(self) -> str:
        """Which kernels make the prefill faster or slower."""
        return why_faster(self.prefill, "pass")

    @property
    def why_decode(self) -> str | None:
        """Which kernels make a decode step faster or slower."""
        return None if self.decode is None else why_faster(self.decode, "step")


def kernels_of(before: Prediction, after: Prediction) -> Kernels:
    """Both passes compared: the prefill of one prompt, and a decode step of the running batch."""
    step = None if before.tpot is None or after.tpot is None else difference(before.decode, after.decode)
    return Kernels(difference(before.prefill, after.prefill), step)


def reason_of(
    goal: str,
    before: tuple[Prediction, Goodput | None],
    after: tuple[Prediction, Goodput | None],
    kernels: Kernels,
) -> str:
    """Why a lever moves a goal."""
    if goal == "ttft":
        return "; ".join(_ttft_reasons(before[0], after[0], kernels))
    if goal == "tpot":
        return "; ".join(_tpot_reasons(before[0], after[0], kernels))
    if goal == "goodput":
        return _goodput_reason(before, after, kernels)
    rent = _cost_reason(before, after)
    return "; ".join([rent, *([] if before[1] is None else [_goodput_reason(before, after, kernels)])])


def _ttft_reasons(before: Prediction, after: Prediction, kernels: Kernels) -> list[str]:
    reasons = []
    old, new = float(before.queue or 0.0), float(after.queue or 0.0)
    if abs(old - new) > _WORTH * float(before.ttft):
        reasons.append(f"queue {to_text(old, 's')} -> {to_text(new, 's')}")
    if abs(kernels.prefill.speedup - 1.0) <= UNCHANGED:
        return [*reasons, "a prompt alone takes as long as before"]
    return [*reasons, f"prefill {kernels.why_prefill}"]


def _tpot_reasons(before: Prediction, after: Prediction, kernels: Kernels) -> list[str]:
    if kernels.decode is None:
        return ["an answer is one token"]
    reasons = []
    gains = [float(prediction.deployment.tokens_per_step) for prediction in (before, after)]
    if gains[0] != gains[1]:
        reasons.append(f"a step gains {rounded(gains[1])} tokens instead of {rounded(gains[0])}")
    old, new = float(before.decode_batch), float(after.decode_batch)
    if abs(new - old) > _WORTH * old:
        reasons.append(f"{rounded(new)} sequences decode together instead of {rounded(old)}")
    if abs(kernels.decode.speedup - 1.0) <= UNCHANGED:
        reasons.append("a decode step takes as long as before")
    else:
        reasons.append(f"decode {kernels.why_decode}")
    stalls = [max(float(prediction.tpot or 0.0) - _time_of_steps(prediction), 0.0) for prediction in (before, after)]
    if abs(stalls[1] - stalls[0]) > _WORTH * float(before.tpot or 1.0):
        less = "less" if stalls[1] < stalls[0] else "more"
        reasons.append(f"prompts of others hold a token up {to_text(abs(stalls[1] - stalls[0]), 's')} {less}")
    return reasons


def _time_of_steps(prediction: Prediction) -> float:
    """Time per token of decode steps without the prompts of others [s]."""
    return float(time_per_token(prediction.deployment, prediction.workload.osl, prediction.decode.time))


def _goodput_reason(
    before: tuple[Prediction, Goodput | None], after: tuple[Prediction, Goodput | None], kernels: Kernels
) -> str:
    """The limit that binds, and the kernels of that latency."""
    old, new = before[1], after[1]
    if old is None or new is None:
        return ""
    counts = [case[0].deployment.replicas for case in (before, after)]
    if counts[0] != counts[1] and abs(new.rate / counts[1] - old.rate / counts[0]) <= UNCHANGED * old.rate:
        each = "the one replica" if counts[1] == 1 else f"each of {counts[1]} replicas"
        return f"{each} answers {_what_replicas(counts[0])} did"
    was, is_now = _limit(old), _limit(new)
    first = f"{is_now} still binds" if was == is_now else f"{is_now} binds instead of {was}"
    if not old.rate:
        first = f"an idle server missed {was}" + (f" and now {is_now} binds" if new.rate else ", and does")
    in_steps = old.binding.startswith(BETWEEN_TOKENS) and kernels.decode is not None
    passed, why = (kernels.decode, kernels.why_decode) if in_steps else (kernels.prefill, kernels.why_prefill)
    if passed is None or abs(passed.speedup - 1.0) <= UNCHANGED:
        return first
    gains = [float(case[0].deployment.tokens_per_step) for case in (before, after)]
    more = f" a step gains {rounded(gains[1])} tokens instead of {rounded(gains[0])};" if gains[0] != gains[1] else ""
    return f"{first};{more} {'decode' if in_steps else 'prefill'} {why}"


def _cost_reason(before: tuple[Prediction, Goodput | None], after: tuple[Prediction, Goodput | None]) -> str:
    """The rent, and the requests that share it."""
    rents = [case[0].usd_per_hour for case in (before, after)]
    within = before[1] is not None and after[1] is not None
    rates = [float(case[1].rate if case[1] is not None else case[0].request_rate or 0.0) for case in (before, after)]
    if rents[0] is None or rents[1] is None:
        return "no rental price is known"
    rent = f"{rounded(rents[1])} USD/h" + ("" if rents[0] == rents[1] else f" instead of {rounded(rents[0])}")
    where = " within the SLO" if within else ""
    if abs(rates[1] - rates[0]) <= UNCHANGED * rates[0]:
        return f"{rent} for {rounded(rates[1])} requests/s{where} as before"
    return f"{rent} for {rounded(rates[1])} requests/s{where} instead of {rounded(rates[0])}"


def _what_replicas(count: float) -> str:
    return "what the one" if count == 1 else f"what each of {count}"


def _limit(goodput: Goodput) -> str:
    if goodput.binding == NOT_KNOWN:
        return "a percentile that is not known beyond"
    return binding_text(goodput.binding)
