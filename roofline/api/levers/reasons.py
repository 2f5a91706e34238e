"""Why a lever moves an answer, in a sentence: the queue, the kernels, the rent."""

from __future__ import annotations

from roofline.analysis.difference import Difference, difference
from roofline.analysis.goodput import NOT_KNOWN, SATURATION, Goodput
from roofline.analysis.gpus import why_faster
from roofline.quantity import rounded, to_text
from roofline.records import NamedTuple
from roofline.serving.latency import time_per_token
from roofline.serving.prediction import Prediction
from roofline.specs.slo import key_text

_SAME = 0.005  # relative change below which a figure counts as the same
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
    if abs(kernels.prefill.speedup - 1.0) <= _SAME:
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
    if abs(kernels.decode.speedup - 1.0) <= _SAME:
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
    if counts[0] != counts[1] and abs(new.rate / counts[1] - old.rate / counts[0]) <= _SAME * old.rate:
        return f"each of {counts[1]} replicas answers {_what_replicas(counts[0])} did"
    was, is_now = _limit(old), _limit(new)
    first = f"{is_now} still binds" if was == is_now else f"{is_now} binds instead of {was}"
    if not old.rate:
        first = f"an idle server missed {was}" + (f" and now {is_now} binds" if new.rate else ", and does")
    in_steps = old.binding.startswith("tpot") and kernels.decode is not None
    passed, why = (kernels.decode, kernels.why_decode) if in_steps else (kernels.prefill, kernels.why_prefill)
    if passed is None or abs(passed.speedup - 1.0) <= _SAME:
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
    if abs(rates[1] - rates[0]) <= _SAME * rates[0]:
        return f"{rent} for {rounded(rates[1])} requests/s{where} as before"
    return f"{rent} for {rounded(rates[1])} requests/s{where} instead of {rounded(rates[0])}"


def _what_replicas(count: float) -> str:
    return "what the one" if count == 1 else f"what each of {count}"


def _limit(goodput: Goodput) -> str:
    if goodput.binding == NOT_KNOWN:
        return "a percentile that is not known beyond"
    return goodput.binding if goodput.binding == SATURATION else key_text(goodput.binding)
