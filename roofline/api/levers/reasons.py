"""Why a lever moves an answer, in a sentence: the queue, the kernels, the rent."""

from __future__ import annotations

from roofline.analysis.difference import Difference, difference
from roofline.analysis.goodput import SATURATION, Goodput
from roofline.analysis.gpus import why_faster
from roofline.quantity import rounded, to_text
from roofline.records import NamedTuple
from roofline.serving.latency import time_per_token
from roofline.serving.prediction import Prediction
from roofline.specs.slo import key_text

__all__ = ["Kernels", "kernels_of", "reason_of"]

_SAME = 0.005  # relative; what moves less is said to stay
_WORTH = 0.02  # of a latency; what moves less is not said


class Kernels(NamedTuple):
    """Both passes of a changed case beside those of the case as it is."""

    prefill: Difference
    decode: Difference | None  # None for a single output token

    @property
    def why_prefill(self) -> str:
        """Which kernels make the prefill faster or slower."""
        return why_faster(self.prefill, "pass")

    @property
    def why_decode(self) -> str | None:
        """The same of a decode step."""
        return None if self.decode is None else why_faster(self.decode, "step")


def kernels_of(before: Prediction, after: Prediction) -> Kernels:
    """What the kernels of both passes have to do with a change.

    Args:
        before: the case as it is.
        after: the changed case.

    Returns:
        Differences of one prompt alone, and of a decode step of those that decode together.
    """
    step = None if before.tpot is None or after.tpot is None else difference(before.decode, after.decode)
    return Kernels(difference(before.prefill, after.prefill), step)


def reason_of(
    goal: str,
    before: tuple[Prediction, Goodput | None],
    after: tuple[Prediction, Goodput | None],
    kernels: Kernels,
) -> str:
    """Why a lever moves what is asked for.

    Args:
        goal: ttft, tpot, goodput or cost [text].
        before: the case as it is, and its goodput where there is an SLO.
        after: the changed case likewise.
        kernels: what their kernels have to do with it.

    Returns:
        A sentence [text].
    """
    if goal == "ttft":
        return "; ".join(_of_first_tokens(before[0], after[0], kernels))
    if goal == "tpot":
        return "; ".join(_of_steps(before[0], after[0], kernels))
    if goal == "goodput":
        return _of_goodput(before, after, kernels)
    rent = _of_cost(before, after)
    return "; ".join([rent, *([] if before[1] is None else [_of_goodput(before, after, kernels)])])


def _of_first_tokens(before: Prediction, after: Prediction, kernels: Kernels) -> list[str]:
    """The queue, and the prompt's own kernels."""
    said = []
    old, new = float(before.queue or 0.0), float(after.queue or 0.0)
    if abs(old - new) > _WORTH * float(before.ttft):
        said.append(f"queue {to_text(old, 's')} -> {to_text(new, 's')}")
    if abs(kernels.prefill.speedup - 1.0) <= _SAME:
        return [*said, "a prompt alone takes as long as before"]
    return [*said, f"prefill {kernels.why_prefill}"]


def _of_steps(before: Prediction, after: Prediction, kernels: Kernels) -> list[str]:
    """How many decode together, their kernels, and the prompts of others."""
    if kernels.decode is None:
        return ["an answer is one token"]
    said = []
    gains = [float(one.deployment.tokens_per_step) for one in (before, after)]
    if gains[0] != gains[1]:
        said.append(f"a step gains {rounded(gains[1])} tokens instead of {rounded(gains[0])}")
    old, new = float(before.decode_batch), float(after.decode_batch)
    if abs(new - old) > _WORTH * old:
        said.append(f"{rounded(new)} sequences decode together instead of {rounded(old)}")
    if abs(kernels.decode.speedup - 1.0) <= _SAME:
        said.append("a decode step takes as long as before")
    else:
        said.append(f"decode {kernels.why_decode}")
    stalls = [max(float(one.tpot or 0.0) - _own_time(one), 0.0) for one in (before, after)]
    if abs(stalls[1] - stalls[0]) > _WORTH * float(before.tpot or 1.0):
        less = "less" if stalls[1] < stalls[0] else "more"
        said.append(f"prompts of others hold a token up {to_text(abs(stalls[1] - stalls[0]), 's')} {less}")
    return said


def _own_time(found: Prediction) -> float:
    """Time per token of the decode steps alone [s]."""
    return float(time_per_token(found.deployment, found.workload.osl, found.decode.time))


def _of_goodput(
    before: tuple[Prediction, Goodput | None], after: tuple[Prediction, Goodput | None], kernels: Kernels
) -> str:
    """What binds, and the kernels of that latency."""
    old, new = before[1], after[1]
    if old is None or new is None:
        return ""
    counts = [one[0].deployment.replicas for one in (before, after)]
    if counts[0] != counts[1] and abs(new.rate / counts[1] - old.rate / counts[0]) <= _SAME * old.rate:
        return f"each of {counts[1]} replicas answers {_several(counts[0])} did"
    was, is_now = _limit(old), _limit(new)
    first = f"{is_now} still binds" if was == is_now else f"{is_now} binds instead of {was}"
    if not old.rate:
        first = f"an idle server missed {was}" + (f" and now {is_now} binds" if new.rate else ", and does")
    in_steps = old.binding.startswith("tpot") and kernels.decode is not None
    passed, why = (kernels.decode, kernels.why_decode) if in_steps else (kernels.prefill, kernels.why_prefill)
    if passed is None or abs(passed.speedup - 1.0) <= _SAME:
        return first
    gains = [float(one[0].deployment.tokens_per_step) for one in (before, after)]
    more = f" a step gains {rounded(gains[1])} tokens instead of {rounded(gains[0])};" if gains[0] != gains[1] else ""
    return f"{first};{more} {'decode' if in_steps else 'prefill'} {why}"


def _of_cost(before: tuple[Prediction, Goodput | None], after: tuple[Prediction, Goodput | None]) -> str:
    """The rent, and the requests that share it."""
    rents = [one[0].usd_per_hour for one in (before, after)]
    within = before[1] is not None and after[1] is not None
    rates = [float(one[1].rate if one[1] is not None else one[0].request_rate or 0.0) for one in (before, after)]
    if rents[0] is None or rents[1] is None:
        return "no rental price is known"
    rent = f"{rounded(rents[1])} USD/h" + ("" if rents[0] == rents[1] else f" instead of {rounded(rents[0])}")
    where = " within the SLO" if within else ""
    if abs(rates[1] - rates[0]) <= _SAME * rates[0]:
        return f"{rent} for {rounded(rates[1])} requests/s{where} as before"
    return f"{rent} for {rounded(rates[1])} requests/s{where} instead of {rounded(rates[0])}"


def _several(count: float) -> str:
    return "what the one" if count == 1 else f"what each of {count}"


def _limit(found: Goodput) -> str:
    return found.binding if found.binding == SATURATION else key_text(found.binding)
