"""Weights beside those in GPU memory, as callers write them: LoRA adapters, and what stays in host memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.numbers.quantity import BILLION, GIBI, GIGA, MEGA, from_text, rounded, to_text
from roofline.physics.plan import ALL_LINEAR, TARGETS, Adapters, Deployment, Offload
from roofline.questions.inputs.arguments import scalar
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.written import whole_of_text
from roofline.support.errors import BadInput, shown
from roofline.support.records import replace

_EXPERTS = "experts"
_EXAMPLE_OF_LORA = "8:16 (8 adapters of rank 16), or 8:16:attention (all, attention or dense)"
_TABLES = "tables"
_EXAMPLE_OF_OFFLOAD = "40GB (per GPU), experts, experts:40GB, or tables (of n-grams)"
_MOST_ADAPTERS = 1_000_000
_MOST_RANK = 8192
_MOST_BYTES = BILLION * BILLION


def with_side_weights(
    deployment: Deployment,
    *,
    lora: Any = None,
    max_loras: Any = None,
    max_lora_rank: Any = None,
    offload: Any = None,
    offload_bandwidth: Any = None,
    cpu_bandwidth: Any = None,
) -> Deployment:
    """The deployment with its adapters, and with its weights in host memory; the same where there are none."""
    adapters = adapters_of(lora, max_loras, max_lora_rank)
    stays = offload_of(deployment.model, deployment.gpu, offload, offload_bandwidth, cpu_bandwidth)
    if adapters is None and stays is None:
        return deployment
    _check_together(deployment, adapters, stays)
    return replace(deployment, adapters=adapters, offload=stays)


def _check_together(deployment: Deployment, adapters: Adapters | None, stays: Offload | None) -> None:
    """Refuse what is not predicted together."""
    spread = deployment.spread
    if adapters is not None and spread.two_batches:
        raise BadInput("adapters in steps of two half batches are not predicted; leave out lora or two_batch_overlap")
    if adapters is not None and spread.redundant:
        raise BadInput("adapters of copied experts are not predicted; leave out lora, or give eplb = 0")
    if adapters is not None and deployment.model.late:
        raise BadInput(
            f"adapters of {deployment.model.short_name} are not predicted: its last layers skip most of a prompt; "
            "leave out lora"
        )
    if stays is not None and not stays.is_tables and (spread.redundant or spread.two_batches):
        raise BadInput(
            "experts in host memory have no copies, and no half batches, that were ever timed; leave out offload, or "
            "eplb and two_batch_overlap"
        )


# Adapters.


def adapters_of(lora: Any, max_loras: Any = None, max_lora_rank: Any = None) -> Adapters | None:
    """Adapters from their text; None without any.

    >>> adapters_of("8:16", max_lora_rank=64)
    Adapters(number=8, rank=16, slots=8, slot_rank=64, targets='all')
    >>> adapters_of("0:16") is None
    True
    """
    text = scalar(lora)
    if text is None:
        for name, value in (("max_loras", max_loras), ("max_lora_rank", max_lora_rank)):
            if scalar(value) is not None:
                raise BadInput(f"{name} is about adapters; state them as well: lora = {_EXAMPLE_OF_LORA}")
        return None
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) not in (2, 3):
        raise BadInput(f"lora = {shown(lora)} must be {_EXAMPLE_OF_LORA}")
    targets = parts[2].strip().lower() if len(parts) == len(TARGETS) else ALL_LINEAR
    if targets not in TARGETS:
        raise BadInput(f"lora = {shown(lora)}: {shown(parts[2])} is none of {', '.join(TARGETS)}")
    number, rank = (_count("lora", part, lora) for part in parts[:2])
    if rank < 1 or rank > _MOST_RANK or number > _MOST_ADAPTERS:
        raise BadInput(f"lora = {shown(lora)}: at most {_MOST_ADAPTERS:,} adapters, of rank 1 to {_MOST_RANK}")
    slots = _at_least("max_loras", max_loras, number, _MOST_ADAPTERS, "adapters that wait in host memory for a slot")
    slot_rank = _at_least("max_lora_rank", max_lora_rank, rank, _MOST_RANK, "adapters of a larger rank")
    return Adapters(number, rank, slots, slot_rank, targets) if number else None


def _count(name: str, text: str, whole: Any) -> int:
    try:
        return whole_of_text(text)
    except BadInput:
        raise BadInput(f"{name} = {shown(whole)} must be {_EXAMPLE_OF_LORA}") from None


def _at_least(name: str, value: Any, least: int, most: int, otherwise: str) -> int:
    """A whole number that covers the adapters; by default just so many."""
    count = scalar(value)
    if count is None:
        return least
    if isinstance(count, str):
        count = _count(name, count, value) if count.strip().isdecimal() else count
    if type(count) is not int or not 1 <= count <= most:
        raise BadInput(f"{name} = {shown(value)} must be a whole number between 1 and {most}")
    if count < least:
        raise BadInput(f"{name} = {count} is less than the {least} that lora states: {otherwise} are not predicted")
    return count


# Weights in host memory.


def offload_of(
    model: Model, gpu: Gpu, offload: Any, offload_bandwidth: Any = None, cpu_bandwidth: Any = None
) -> Offload | None:
    """What stays in host memory, from its text; None for nothing."""
    value = scalar(offload)
    rates = {
        name: _rate(name, scalar(given), gpu)
        for name, given in (("offload_bandwidth", offload_bandwidth), ("cpu_bandwidth", cpu_bandwidth))
    }
    if value is None:
        for name, rate in rates.items():
            if rate is not None:
                raise BadInput(f"{name} is about weights in host memory; state them as well: offload = 40GB")
        return None
    is_tables = isinstance(value, str) and value.strip().lower() == _TABLES
    size, is_experts = (None, False) if is_tables else _size(value, offload)
    if size == 0.0:
        return None
    if gpu.is_unified:
        raise BadInput(
            f"offload: CPU and GPU of {gpu.name} share one memory, so there is no other one to keep weights in; leave "
            "it out"
        )
    if is_experts and not model.is_moe:
        raise BadInput(f"offload = {shown(offload)}: {model.short_name} has no experts; give a size, such as 40GB")
    if is_tables and model.ngrams is None:
        raise BadInput(
            f"offload = {shown(offload)}: {model.short_name} has no tables of n-grams; give a size, such as 40GB"
        )
    if is_tables and rates["cpu_bandwidth"] is not None:
        raise BadInput("cpu_bandwidth: the CPU multiplies nothing of tables of n-grams; leave it out")
    if gpu.host_link is None and rates["offload_bandwidth"] is None:
        raise BadInput(
            f"offload: {gpu.name} states no host_link over which the weights would come; give offload_bandwidth, such "
            "as 50GB/s"
        )
    return Offload(size, is_experts, rates["offload_bandwidth"], rates["cpu_bandwidth"], is_tables)


def _size(value: Any, offload: Any) -> tuple[float | None, bool]:
    """Bytes per GPU, None for all; and whether experts alone stay in host memory."""
    if isinstance(value, str):
        text = value.strip()
        head, colon, rest = text.partition(":")
        is_experts = head.strip().lower() == _EXPERTS
        if is_experts and not colon:
            return None, True
        amount = (rest if is_experts else text).strip()
        try:
            size = float(amount) * GIBI if amount.replace(".", "", 1).isdecimal() else from_text(amount, "B")
        except BadInput as error:
            raise BadInput(f"offload = {shown(offload)} must be {_EXAMPLE_OF_OFFLOAD}: {error}") from None
        if size > _MOST_BYTES:
            raise BadInput(f"offload = {shown(offload)} is more than any host has")
        return size, is_experts
    if type(value) not in (int, float) or not 0.0 <= value <= _MOST_BYTES:
        raise BadInput(f"offload = {shown(offload)} must be {_EXAMPLE_OF_OFFLOAD}; a bare number is in bytes")
    if 0.0 < value < MEGA:
        raise BadInput(f"offload = {shown(offload)} is a number of bytes; write '{value:g}GiB' if that is meant")
    return float(value), False


def _rate(name: str, value: Any, gpu: Gpu) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = from_text(value.strip(), "B/s")
        except BadInput as error:
            raise BadInput(f"{name} = {shown(value)} must be a bandwidth, such as 50GB/s: {error}") from None
    if type(value) not in (int, float) or not value >= GIGA / 1000.0:
        raise BadInput(f"{name} = {shown(value)} must be a bandwidth, such as 50GB/s")
    if value > gpu.bandwidth:
        raise BadInput(
            f"{name} = {to_text(float(value), 'B/s')} exceeds the {to_text(float(gpu.bandwidth), 'B/s')} of the memory "
            f"of {gpu.name}; weights in host memory are read more slowly"
        )
    return float(value)


def side_weight_notes(deployment: Deployment) -> Iterator[str]:
    """What a reader of the figures should know about adapters and offloaded weights."""
    adapters, offload = deployment.adapters, deployment.offload
    if adapters is not None:
        yield (
            "kernels of LoRA adapters were not timed: they take the constants of 16-bit matrix multiplications; every "
            "request asks for one adapter, each as often as the others"
        )
        if adapters.slot_rank > adapters.rank:
            yield (
                f"max_lora_rank {adapters.slot_rank}: kernels compute this rank, of which adapters fill "
                f"{rounded(100.0 * adapters.rank / adapters.slot_rank)} %"
            )
    if offload is not None:
        what = "rows of tables" if offload.is_tables else "weights"
        yield f"{what} in host memory are read in every pass, and nothing overlaps with that"
        if offload.size is not None and offload.size > _may(deployment):
            most = to_text(_may(deployment), "B")
            yield f"offload: only {most} per GPU may leave its memory; embeddings and LM head stay"


def _may(deployment: Deployment) -> float:
    from roofline.physics.memory import offloadable_bytes

    assert deployment.offload is not None  # noqa: S101  # as who calls has seen
    return float(offloadable_bytes(deployment, deployment.offload))
