"""Adapters and weights in host memory, in words: what they take, and what they cost in a decode step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, figure_text
from roofline.physics.memory import offloaded_bytes
from roofline.physics.plan import ALL_LINEAR, OF_ATTENTION, Adapters, Offload
from roofline.specs.gpu import ADAPTERS, HOST_LINK

if TYPE_CHECKING:
    from roofline.physics.passes import Pass

_WORDS = {ALL_LINEAR: "all linear layers", OF_ATTENTION: "attention"}
_DENSE = "all linear layers but routed experts"


def adapters_text(adapters: Adapters) -> str:
    """Text that means these adapters, such as ``8:16``.

    >>> adapters_text(Adapters(8, 16, 8, 16, "attention"))
    '8:16:attention'
    """
    of = "" if adapters.targets == ALL_LINEAR else f":{adapters.targets}"
    return f"{adapters.number}:{adapters.rank}{of}"


def offload_text(offload: Offload) -> str:
    """The offload in a few words, such as ``40 GB of experts in host memory``."""
    size = "" if offload.size is None else f"{figure_text(offload.size, 'B')} of "
    return f"{size}{_what(offload)} in host memory"


def _what(offload: Offload) -> str:
    """What stays in host memory."""
    return "tables" if offload.is_tables else "experts" if offload.is_experts else "weights"


def side_weight_facts(prediction: Any) -> dict[str, tuple[str, ...]]:
    """What adapters and weights in host memory take, and their part of a decode step."""
    deployment = prediction.deployment
    facts: dict[str, tuple[str, ...]] = {}
    adapters, offload = deployment.adapters, deployment.offload
    if adapters is not None:
        each = "1 adapter" if adapters.number == 1 else f"{adapters.number} adapters"
        slots = "" if adapters.slots == adapters.number else f" in {adapters.slots} slots"
        of = _WORDS.get(adapters.targets, _DENSE)
        taken = f"{figure_text(prediction.memory.adapters, 'B')} per GPU"
        facts["adapters"] = (
            f"{each} of rank {adapters.rank} on {of}{slots}: {taken}",
            _part(prediction, lambda kernel: kernel.part == ADAPTERS),
        )
    if offload is not None:
        moved = figure_text(offloaded_bytes(deployment), "B")
        facts["offload"] = (
            f"{moved} of {_what(offload)} per GPU in host memory",
            _part(prediction, lambda kernel: kernel.kind is HOST_LINK),
        )
    return facts


def _part(prediction: Any, belongs: Any) -> str:
    """The time of some kernels in a decode step, or in the prefill where there is none."""
    name, passed = ("prefill", prediction.prefill) if prediction.tpot is None else ("a decode step", prediction.decode)
    return f"; {figure_text(_time_of(passed, belongs), 's')} of {name}"


def _time_of(passed: Pass, belongs: Any) -> Real:
    return sum(kernel.time for kernel in passed.kernels if belongs(kernel))
