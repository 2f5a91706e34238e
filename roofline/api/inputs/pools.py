"""Pools of GPUs as callers write them: the GPU, and what its text states of the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import name_or_record, scalar
from roofline.catalog import find
from roofline.errors import BadInput, shown
from roofline.grammar.pools import DEGREES, Pool, is_pool, pool_of_text, pool_text
from roofline.records import NamedTuple
from roofline.specs.gpu import Gpu

__all__ = ["POOLED", "GpuChoice", "Opened", "choice", "choice_of_formats", "fixed_count", "gpu_of", "opened", "pool_of"]

#: Options of `predict` that a pool may state.
POOLED = (*DEGREES, "quantization")

_OPEN = {"pp": 1, "ep": 1, "dp": 1}  # defaults of `predict`, which state nothing


class GpuChoice(NamedTuple):
    """A GPU, and the options of a question with what its pool states."""

    gpu: Any  # name or record; a pool where replicas of a plan that is still open are stated
    options: dict[str, Any]
    pool: Pool | None = None  # None where nothing but the GPU is named

    @property
    def text(self) -> str:
        """What was asked for, as a caller may write it."""
        if self.pool is not None:
            return pool_text(self.pool)
        return self.gpu.name if isinstance(self.gpu, Gpu) else str(self.gpu)


def pool_of(gpu: Any, specs: str | None = None) -> Pool | None:
    """The pool that a caller names.

    Args:
        gpu: name, alias or path of a GPU, a pool such as ``8xh100`` or ``b200:tp4:fp8x2``, or a record [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The pool; None where only a GPU is named: the exact name of one in the catalog is never a pool.

    Raises:
        BadInput: a part of the text that is neither plan, format nor replicas.
    """
    if isinstance(gpu, (Pool, Gpu)):
        return gpu if isinstance(gpu, Pool) else None
    text = scalar(gpu)
    if not isinstance(text, str) or not is_pool(text) or find.is_gpu_name(text, specs):
        return None
    return pool_of_text(text)


def gpu_of(gpu: Any, specs: str | None = None) -> Gpu:
    """The record of the GPU that a caller names, alone or in a pool.

    Args:
        gpu: as `pool_of` takes it [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The record.

    Raises:
        UnknownName: no such GPU.
        BadInput: as `pool_of` raises.
    """
    if isinstance(gpu, Gpu):
        return gpu
    pool = pool_of(gpu, specs)
    return find.load_gpu(name_or_record("gpu", gpu) if pool is None else pool.gpu, specs)


def choice(gpu: Any, options: Mapping[str, Any], question: str | None = None) -> GpuChoice:
    """A GPU, and options with what its pool states: plan, format, GPUs in all or replicas.

    Args:
        gpu: as `pool_of` takes it [text].
        options: keyword arguments of `predict`; `specs` among them.
        question: one that counts GPUs itself or shows one replica, and so refuses a number of them; None for others
            [text].

    Returns:
        The choice.

    Raises:
        BadInput: an option and the pool state the same thing differently, or a number of GPUs where none belongs.
    """
    pool = pool_of(gpu, options.get("specs"))
    if pool is None:
        return GpuChoice(name_or_record("gpu", gpu), dict(options))
    if question is not None:
        _refuse_count(pool, question)
    merged = dict(options)
    for name, value in pool.options.items():
        stated = options.get(name)
        if stated not in (None, _OPEN.get(name), value):
            raise BadInput(
                f"{name} is stated twice: {value} in {pool_text(pool)!r}, and {name} = {shown(stated)}; leave one out"
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
    """What a pool and the options beside it state of a deployment."""

    gpu: str
    tp: int | None
    pp: int
    ep: int
    dp: int
    num_gpus: int | None
    quantization: str | None
    copies: int | None  # replicas of a plan that is still open


def opened(pool: Pool, **stated: Any) -> Opened:
    """A pool beside the options of `predict` that it may state, too.

    Args:
        pool: as a caller named it.
        stated: tp, pp, ep, dp, num_gpus and quantization, by name.

    Returns:
        What both state.

    Raises:
        BadInput: they state the same thing differently.
    """
    found = choice(pool, stated)
    rest = {name: found.options[name] for name in ("tp", "pp", "ep", "dp", "num_gpus", "quantization")}
    if isinstance(found.gpu, Pool):
        return Opened(found.gpu.gpu, **rest, copies=found.gpu.replicas)
    return Opened(pool.gpu, **rest, copies=None)


def fixed_count(pool: Pool, options: Mapping[str, Any]) -> int:
    """GPUs of all replicas of a pool whose plan is known.

    Args:
        pool: with replicas.
        options: keyword arguments of `predict` with tp.

    Returns:
        The number [1].

    Raises:
        BadInput: another number of GPUs is stated, or degrees that are no whole numbers.
    """
    each = 1
    for name in ("tp", "pp", "dp"):
        degree = scalar(options.get(name, 1))
        if type(degree) is not int:
            raise BadInput(f"{name} = {shown(degree)} must be a single whole number beside {pool_text(pool)!r}")
        each *= degree
    count, stated = (pool.replicas or 1) * each, scalar(options.get("num_gpus"))
    if stated not in (None, count):
        raise BadInput(
            f"num_gpus is stated twice: {pool.replicas} replicas of {each} GPUs in {pool_text(pool)!r}, and "
            f"num_gpus = {shown(stated)}; leave one out"
        )
    return count


def choice_of_formats(gpu: Any, options: Mapping[str, Any], question: str) -> GpuChoice:
    """As `choice`, for a question that goes through number formats itself.

    Args:
        gpu: as `pool_of` takes it [text].
        options: keyword arguments of `predict`.
        question: what it is called [text].

    Returns:
        The choice.

    Raises:
        BadInput: the pool states a format, or as `choice` raises.
    """
    found = choice(gpu, options)
    if found.pool is not None and found.pool.quantization is not None:
        raise BadInput(
            f"{question} goes through the number formats itself: leave {found.pool.quantization} out of {found.text!r}"
        )
    return found


def _refuse_count(pool: Pool, question: str) -> None:
    """Refuse GPUs in all, and replicas, where a question has no place for them."""
    counted = f"{pool.num_gpus}x" if pool.num_gpus is not None else f"x{pool.replicas}" if pool.replicas else None
    if counted is not None:
        plain = pool_text(
            Pool(pool.gpu, **{name: pool.options[name] for name in (*DEGREES, "quantization") if name in pool.options})
        )
        raise BadInput(f"{question}: leave {counted} out of {pool_text(pool)!r} and write {plain}")
