"""Warnings: shapes beyond calibrations or a model's context, and assumed constants."""

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

# Largest shapes among the timed kernels (accuracy/kernel_rows.py).
_FITTED_TOKENS = _FITTED_CONTEXT = 128 * KIBI  # in one prefill pass; in the cache
_FITTED_BATCH = 2 * KIBI
_BEYOND_CONTEXT = "isl + osl exceeds the "  # begins a warning that may not wait for --notes
#: Begins a note on rates that are below the specification.
DERATED = "derated: "
_OFTEN = 10  # calls after which it pays to check whether any kernel at all is assumed


def is_within(deployment: Deployment, workload: Workload) -> bool:
    """Whether a case, or every case of an array, is well within all limits; then `beyond` need not run."""
    isl, osl, batch = largest_of(workload.isl), largest_of(workload.osl), largest_of(workload.batch)
    if not type(isl) is type(osl) is type(batch) is float:
        return False  # pragma: no cover - for numbers of other kinds: so far nobody asks about any
    tokens, length = isl * batch, isl + osl
    longest = deployment.model.max_context
    fits = tokens <= _FITTED_TOKENS and length <= _FITTED_CONTEXT and batch <= _FITTED_BATCH
    return fits and (longest is None or length <= longest)


def beyond(deployment: Deployment, workload: Workload) -> Iterator[tuple[Real, str]]:
    """Whether each limit on lengths and batch is exceeded, and the warning for it."""
    length = workload.isl + workload.osl
    if deployment.basis != "ideal":
        computed = workload.isl - (0.0 if is_a_mixture(workload.cache) else workload.prefix)
        tokens = computed / chunks(computed, deployment.effective_engine.max_num_batched_tokens) * workload.batch
        message = f"more than {_FITTED_TOKENS:,} prompt tokens in one pass: beyond the timed attention kernels"
        yield tokens > _FITTED_TOKENS, message
        yield (
            length > _FITTED_CONTEXT,
            f"context beyond {_FITTED_CONTEXT:,} tokens: longer than any timed decode kernel",
        )
        message = f"batch beyond {_FITTED_BATCH:,} sequences: larger than any timed decode kernel"
        yield workload.batch > _FITTED_BATCH * deployment.plan.dp, message
    model = deployment.model
    if model.max_context is not None:
        message = f"{_BEYOND_CONTEXT}{model.max_context}-token context of {model.short_name}"
        yield length > model.max_context, message


def is_pressing(text: str) -> bool:
    """Whether a warning belongs on the first screen: the model cannot serve such requests as asked.

    >>> is_pressing("h100-sxm: isl + osl exceeds the 131072-token context of llama-3.1-8b"), is_pressing("tp = 4: ...")
    (True, False)
    """
    return _BEYOND_CONTEXT in text


def assumed_kernels(deployment: Deployment, *passes: Pass) -> tuple[str, ...]:
    """Dtype and kind of kernels with assumed constants; none on a generic basis, where all stand in for others."""
    return _assumed(deployment, (kernel for passed in passes for kernel in passed.kernels))


def _assumed(deployment: Deployment, kernels: Iterable[Kernel]) -> tuple[str, ...]:
    if deployment.basis == "generic":
        return ()
    names = dict.fromkeys(
        kernel.kind.name if kernel.kind.is_collective else f"{kernel.dtype} {kernel.kind.name}"
        for kernel in kernels
        if not kernel.roof.efficiency.is_measured and not kernel.kind.is_minor
    )
    return tuple(names)


def assumptions(deployment: Deployment, *passes: Pass) -> list[str]:
    """Warning about kernels with assumed constants, if any matter."""
    calls = deployment.memo.get(assumptions, 0)
    deployment.memo[assumptions] = calls + 1
    if calls == _OFTEN and not _assumed(deployment, every_kernel(deployment)):
        deployment.memo[assumptions] = -math.inf
    kernels = assumed_kernels(deployment, *passes) if calls >= 0 else ()
    if not kernels:
        return []
    generation = deployment.gpu.generation
    return [f"assumed, not measured on {generation}: {', '.join(kernels)} (see its calibration file)"]
