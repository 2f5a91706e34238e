"""What lies beyond the shapes that calibrations were fitted on, or that a model was made for, and what is assumed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from roofline.elements import largest_of
from roofline.ops import Real
from roofline.physics.forward import Pass, every_kernel
from roofline.physics.one_equation import Kernel
from roofline.physics.plan import Deployment
from roofline.quantity import KIBI
from roofline.serving.latency import Workload, chunks
from roofline.serving.prompt_cache import is_a_mixture

__all__ = ["assumed_kernels", "assumptions", "beyond", "is_within"]

# Largest shapes among the timed kernels (accuracy/kernel_rows.py).
_FITTED_TOKENS = _FITTED_CONTEXT = 128 * KIBI  # of one prefill pass; in the cache
_FITTED_BATCH = 2 * KIBI
_OFTEN = 10  # questions about assumptions, after which it pays to see whether there may be any


def is_within(deployment: Deployment, workload: Workload) -> bool:
    """Whether a case, or all cases of an array, are well within all limits, as nearly every one is.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        True where `beyond` need not be asked [bool].
    """
    isl, osl, batch = largest_of(workload.isl), largest_of(workload.osl), largest_of(workload.batch)
    if not type(isl) is type(osl) is type(batch) is float:
        return False
    tokens, length = isl * batch, isl + osl
    longest = deployment.model.max_context
    fits = tokens <= _FITTED_TOKENS and length <= _FITTED_CONTEXT and batch <= _FITTED_BATCH
    return fits and (longest is None or length <= longest)


def beyond(deployment: Deployment, workload: Workload) -> Iterator[tuple[Real, str]]:
    """Limits that lengths and batch of a case may exceed.

    Args:
        deployment: model, GPU, plan, precision and basis.
        workload: lengths and batch.

    Returns:
        Whether each is exceeded, and the sentence that says so [condition, text].
    """
    length = workload.isl + workload.osl
    if deployment.basis != "ideal":
        new = workload.isl - (0.0 if is_a_mixture(workload.cache) else workload.prefix)
        tokens = new / chunks(new, deployment.host.max_num_batched_tokens) * workload.batch
        said = f"more than {_FITTED_TOKENS:,} prompt tokens in one pass: beyond the timed attention kernels"
        yield tokens > _FITTED_TOKENS, said
        yield (
            length > _FITTED_CONTEXT,
            f"context beyond {_FITTED_CONTEXT:,} tokens: longer than any timed decode kernel",
        )
        said = f"batch beyond {_FITTED_BATCH:,} sequences: larger than any timed decode kernel"
        yield workload.batch > _FITTED_BATCH * deployment.plan.dp, said
    model = deployment.model
    if model.max_context is not None:
        said = f"isl + osl exceeds the {model.max_context}-token context of {model.short_name}"
        yield length > model.max_context, said


def assumed_kernels(deployment: Deployment, *passes: Pass) -> tuple[str, ...]:
    """Kernels whose constants were assumed instead of measured; element-wise passes and hand-overs always are.

    Args:
        deployment: whose passes they are; all constants of a generic basis stand in for others, and none is named.
        passes: prefill, decode or both.

    Returns:
        Dtype and kind of each, once [text].
    """
    return _assumed(deployment, (kernel for passed in passes for kernel in passed.kernels))


def _assumed(deployment: Deployment, kernels: Iterable[Kernel]) -> tuple[str, ...]:
    if deployment.basis == "generic":
        return ()
    found = dict.fromkeys(
        kernel.kind.name if kernel.kind.is_collective else f"{kernel.dtype} {kernel.kind.name}"
        for kernel in kernels
        if not kernel.roof.efficiency.is_measured and not kernel.kind.is_minor
    )
    return tuple(found)


def assumptions(deployment: Deployment, *passes: Pass) -> list[str]:
    """What an answer takes for granted, as sentences.

    Args:
        deployment: whose passes they are.
        passes: prefill, decode or both.

    Returns:
        One sentence at most [text].
    """
    asked = deployment.memo.get(assumptions, 0)
    deployment.memo[assumptions] = asked + 1
    if asked == _OFTEN and not _assumed(deployment, every_kernel(deployment)):
        deployment.memo[assumptions] = -math.inf
    found = assumed_kernels(deployment, *passes) if asked >= 0 else ()
    if not found:
        return []
    generation = deployment.gpu.generation
    return [f"assumed, not measured on {generation}: {', '.join(found)} (see its calibration file)"]
