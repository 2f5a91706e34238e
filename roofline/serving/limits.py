"""What lies beyond the shapes that calibrations were fitted on, or beyond what a model was made for."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.quantity import KIBI
from roofline.serving.latency import Workload, chunks
from roofline.serving.prompt_cache import is_a_mixture

__all__ = ["beyond"]

# Largest shapes among the timed kernels (accuracy/kernel_rows.py).
_FITTED_TOKENS = _FITTED_CONTEXT = 128 * KIBI  # of one prefill pass; in the cache
_FITTED_BATCH = 2 * KIBI


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
