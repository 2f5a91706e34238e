"""The encoders of images, video and audio in an answer: their time, and what they take in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.numbers.operations import Real, figure_text
from roofline.numbers.quantity import percent_figure
from roofline.physics.encoders import encoder_bytes, encoder_workspace
from roofline.specs.gpu import ENCODER

if TYPE_CHECKING:
    from roofline.physics.passes import Pass
    from roofline.physics.plan import Deployment


def encoding_time(prefill: Pass) -> Real:
    """Time of a prefill in which images, video and audio are encoded [s].

    Args:
        prefill: the pass.

    Returns:
        Time [s], the host's launches of the encoder included.

    Source:
        Sum over the kernels of the encoder.
    """
    time: Real = 0.0
    for kernel in prefill.kernels:
        if kernel.part == ENCODER:
            time = time + kernel.time
    return time


def encoder_facts(deployment: Deployment, prefill: Pass) -> dict[str, tuple[str, ...]]:
    """What encoding takes of the TTFT and of the memory; nothing where requests are text."""
    media = deployment.media
    if media is None:
        return {}
    time = encoding_time(prefill)
    share = percent_figure(time / prefill.time)
    sequences = sum(part.sequences for part in media.parts)
    patches = sum(part.sequences * part.patches for part in media.parts)
    pieces = "" if sequences == 1 else f" in {sequences:,} sequences"
    weights, beside = encoder_bytes(deployment), encoder_workspace(deployment)
    return {
        "encoder": (
            f"{figure_text(time, 's')}, {share} % of the prefill of an idle server: {patches:,} patches{pieces}",
            f"; weights {figure_text(weights, 'B')}, workspace {figure_text(beside, 'B')} per GPU",
        )
    }
