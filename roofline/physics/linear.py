"""Work of matrix multiplications with weights."""

from __future__ import annotations

from roofline.ops import Real, where
from roofline.physics.one_equation import Work
from roofline.physics.plan import Scheme

_OUTPUT_NBYTES = 2.0  # outputs are 16-bit
_QUANTISE_NBYTES = 3.0  # dynamic quantization reads 16-bit and writes 8-bit values


def gemm(rows: Real, columns: Real, inner: Real, scheme: Scheme, bias: bool = False) -> Work:
    r"""Work of rows x inner times inner x columns.

    .. math:: F = 2 m n k,\quad Q = w n k + a m k + 2 m n,\quad Q_s = 3 m k,\quad d = k

    Args:
        rows: tokens m [tokens].
        columns: outputs n on this GPU [1].
        inner: summed-over width k on this GPU [1].
        scheme: weight and activation bytes w, a [B], and whether activations are quantized.
        bias: whether a bias vector is read too [bool].

    Returns:
        The work [FLOP, B].

    Valid:
        Each operand is read and each result written once; re-reads hit the L2 cache.

    Source:
        Arithmetic; the terms d and Q_s are explained in docs/method.md.

    >>> gemm(1, 2, 3, Scheme("bf16", 2.0, 2.0, "bf16", "bf16")).flop
    12.0
    """
    return Work(
        flop=2.0 * rows * columns * inner,
        weight_bytes=columns * inner * scheme.weight_nbytes + (_OUTPUT_NBYTES * columns if bias else 0.0),
        activation_bytes=rows * inner * scheme.activation_nbytes + _OUTPUT_NBYTES * rows * columns,
        serial_bytes=where(scheme.dynamic, _QUANTISE_NBYTES * rows * inner, 0.0),
        depth=inner,
    )


def grouped_gemm(rows: Real, groups: Real, columns: Real, inner: Real, scheme: Scheme) -> Work:
    """Work of several multiplications of the same shape in one kernel, each with its own weights.

    Args:
        rows: tokens [tokens].
        groups: multiplications on this GPU [1].
        columns: outputs of each [1].
        inner: summed-over width of each [1].
        scheme: weight and activation bytes [B], and whether activations are quantized.

    Returns:
        The work [FLOP, B].

    Source:
        `gemm`, once per group; a tile still walks one inner width.
    """
    group = gemm(rows, columns, inner, scheme)
    return Work(
        flop=groups * group.flop,
        weight_bytes=groups * group.weight_bytes,
        activation_bytes=groups * group.activation_bytes,
        serial_bytes=groups * group.serial_bytes,
        depth=group.depth,
    )
