"""Pools of GPUs in text, such as ``8xh100``: the GPU, and the options that the text states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import name_or_record, scalar
from roofline.catalog import find
from roofline.errors import BadInput, shown
from roofline.grammar.pools import DEGREES, Pool, is_pool, pool_of_text, pool_text
from roofline.records import NamedTuple
from roofline.specs.gpu import Gpu

#: Options of `predict` that a pool may state.
POOLED = (*DEGREES, "quantization")

_OPEN = {"pp": 1, "ep": 1, "dp": 1}  # defaults of `predict`, which a pool may replace


class GpuChoice(NamedTuple):
    """A GPU, and the options of a question including those its pool states."""

    gpu: Any  # name or record; a pool with replicas of a plan that is still open
    options: dict[str, Any]
    pool: Pool | None = None  # None for a GPU alone

    @property
    def text(self) -> str:
        """The pool or GPU, in the form that a caller may write."""
        if self.pool is not None:
            return pool_text(self.pool)
        return self.gpu.name if isinstance(self.gpu, Gpu) else str(self.gpu)


def pool_of(gpu: Any, specs: str | None = None) -> Pool | None:
    """The pool that a caller names; None for a GPU alone, such as any exact name in the catalog."""
    if isinstance(gpu, (Pool, Gpu)):
        return gpu if isinstance(gpu, Pool) else None
    text = scalar(gpu)
    if not isinstance(text, str) or not is_pool(text) or find.is_gpu_name(text, specs):
        return None
    return pool_of_text(text)


def gpu_of(gpu: Any, specs: str | None = None) -> Gpu:
    """The record of a GPU that is named alone or in a pool."""
    if isinstance(gpu, Gpu):
        return gpu
    pool = pool_of(gpu, specs)
    return find.load_gpu(name_or_record("gpu", gpu) if pool is None else pool.gpu, specs)


def is_open_pool(chosen: GpuChoice) -> bool:
    """Whether it is so many replicas of a plan that is still open."""
    return isinstance(chosen.gpu, Pool)


def choice(gpu: Any, options: Mapping[str, Any], question: str | None = None) -> GpuChoice:
    """A GPU, and options merged with its pool; a `question` that shows one replica refuses a number of GPUs."""
    pool = pool_of(gpu, options.get("specs"))
    if pool is None:
        return GpuChoice(name_or_record("gpu", gpu), dict(options))
    if question is not None:
        _refuse_count(pool, question)
    merged = dict(options)
    for name, value in pool.options.items():
        option = options.get(name)
        if option not in (None, _OPEN.get(name), value):
            raise BadInput(
                f"{name} is stated twice: {value} in {pool_text(pool)!r}, and {name} = {shown(option)}; leave one out"
            )
        merged[name] = value
    if pool.replicas is None:
        return GpuChoice(pool.gpu, merged, pool)
    count = merged.get("num_gpus")
    if merged.get("tp") is None:
        if count is not None:
            raise BadInput(
                f"num_gpus = {shown(count)} and {pool.replicas} replicas in {pool_text(pool)!r} leave the plan open; "
                f"state its tp, as in {pool.gpu}:tp4x{pool.replicas}, or leave one out"
            )
        return GpuChoice(Pool(pool.gpu, replicas=pool.replicas), merged, pool)
    return GpuChoice(pool.gpu, {**merged, "num_gpus": fixed_count(pool, merged)}, pool)


class Opened(NamedTuple):
    """Deployment options of a pool merged with those given separately."""

    gpu: str
    tp: int | None
    pp: int
    ep: int
    dp: int
    num_gpus: int | None
    quantization: str | None
    copies: int | None  # replicas, where the plan is still open


def opened(pool: Pool, **options: Any) -> Opened:
    chosen = choice(pool, options)
    rest = {name: chosen.options[name] for name in ("tp", "pp", "ep", "dp", "num_gpus", "quantization")}
    if isinstance(chosen.gpu, Pool):
        return Opened(chosen.gpu.gpu, **rest, copies=chosen.gpu.replicas)
    return Opened(pool.gpu, **rest, copies=None)


def fixed_count(pool: Pool, options: Mapping[str, Any]) -> int:
    """GPUs of all replicas of a pool whose plan is known."""
    per_replica = 1
    for name in ("tp", "pp", "dp"):
        degree = scalar(options.get(name, 1))
        if type(degree) is not int:
            raise BadInput(f"{name} = {shown(degree)} must be a single whole number beside {pool_text(pool)!r}")
        per_replica *= degree
    count, num_gpus = (pool.replicas or 1) * per_replica, scalar(options.get("num_gpus"))
    if num_gpus not in (None, count):
        raise BadInput(
            f"num_gpus is stated twice: {pool.replicas} replicas of {per_replica} GPUs in {pool_text(pool)!r}, and "
            f"num_gpus = {shown(num_gpus)}; leave one out"
        )
    return count


def choice_of_formats(gpu: Any, options: Mapping[str, Any], question: str) -> GpuChoice:
    """As `choice`, for a question that varies the number formats."""
    chosen = choice(gpu, options)
    quantization = None if chosen.pool is None else chosen.pool.quantization
    if quantization is not None:
        raise BadInput(
            f"{question} goes through the number formats itself: leave {quantization} out of {chosen.text!r}"
        )
    return chosen


def _refuse_count(pool: Pool, question: str) -> None:
    """Refuse a number of GPUs or replicas in a pool."""
    counted = f"{pool.num_gpus}x" if pool.num_gpus is not None else f"x{pool.replicas}" if pool.replicas else None
    if counted is not None:
        options = {name: value for name, value in pool.options.items() if name in POOLED}
        plain = pool_text(Pool(pool.gpu, **options))
        raise BadInput(f"{question}: leave {counted} out of {pool_text(pool)!r} and write {plain}")
