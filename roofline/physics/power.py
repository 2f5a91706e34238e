"""Electrical power of a GPU: of its kernels and passes, and what a power cap does to their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.numbers.operations import Real, maximum, minimum, where
from roofline.numbers.quantity import TERA
from roofline.physics.equation import Kernel, LinkRoof, Roof, Terms, Work, kernel_time
from roofline.specs.gpu import Gpu
from roofline.support.records import replace

# Constants, as shares of the board's power limit (TDP), fitted by accuracy/kernel_power.py on kernels of a B200, which
# the wheel aisimulate 0.13 states with their power (Apache-2.0, github.com/ai-dynamo/aiconfigurator).

#: Power between kernels, clocks up: the shortest kernels of that table draw 0.24, of an H200 0.18.
IDLE = 0.2
#: Names of the fitted constants, and their values: a kernel that runs; all tensor cores; HBM traffic; KV cache reads.
NAMES = ("busy", "compute", "memory", "kv_cache")
CONSTANTS = (0.27, 1.19, 0.96, 0.14)
#: Most that a board draws on average while it throttles at its limit.
MOST = 0.985
#: Standard deviation of ln(predicted / measured) over kernels of both engines of that table.
SIGMA = 0.33
#: Dynamic power goes with the clock to this power: C V^2 f, with the voltage V in proportion to the clock f.
CLOCK_LAW = 3.0
#: Least cap, over the TDP, for which that law is used.
LEAST_CAP = 0.25
#: Generations whose kernels' power was measured.
MEASURED = ("hopper", "blackwell")
#: Range of the 16-bit rate per watt of their boards; others are cut-down chips, or share the limit with a CPU.
_PER_WATT = (1.2 * TERA, 3.0 * TERA)  # [FLOP/s/W]
_CHANGES_SIDES = "a kernel reaches the power limit"


def is_measured(gpu: Gpu) -> bool:
    """Whether the power of such GPUs was measured; else it is bounded by the TDP."""
    peak = gpu.peaks.get("bf16")
    if gpu.power is None or peak is None or gpu.generation not in MEASURED:
        return False
    return bool(_PER_WATT[0] <= peak / gpu.power <= _PER_WATT[1])


def demand_parts(work: Work, roof: Roof | LinkRoof, terms: Terms) -> tuple[Real, Real, Real, Real]:
    """What the power of a kernel follows from, shares of what the GPU can do: running, FLOP, HBM, KV cache [1]."""
    time = where(terms.total > 0.0, terms.total, 1.0)  # an exchange may be hidden altogether
    busy = 1.0 - minimum(terms.latency / time, 1.0)
    if isinstance(roof, LinkRoof):
        return busy, 0.0, 0.0, 0.0
    full = roof.bandwidth * time
    compute = work.flop / (roof.peak * time)
    return busy, compute, (work.nbytes - work.kv_bytes) / full, work.kv_bytes / full


def demand(parts: Sequence[Any], constants: Sequence[Any] = CONSTANTS) -> Any:
    """Power that a kernel would draw without a limit, over the TDP [1]."""
    total: Any = IDLE
    for share, constant in zip(parts, constants, strict=True):
        if not (type(share) is float and share == 0.0):
            total = total + constant * share
    return total


def power_share(work: Work, roof: Roof | LinkRoof, terms: Terms) -> Real:
    r"""Mean power of a board while a kernel runs, over its TDP.

    .. math:: \frac{P}{P_{TDP}} = \min\left(i + e_r \left(1 - \frac{t_l}{t}\right) + e_c \frac{F}{t\,P_c}
              + e_m \frac{Q_w}{t\,W} + e_k \frac{Q_k}{t\,W},\ 0.985\right)

    Args:
        work: FLOP F, HBM traffic of KV caches Q_k and of everything else Q_w [FLOP, B].
        roof: peak P_c and HBM bandwidth W at the kernel's dtype [FLOP/s, B/s].
        terms: time t, and its part t_l of launch and serial depth [s].

    Returns:
        An estimate [1].

    Valid:
        GPUs of `MEASURED` generations, at the clocks of the timed kernels. Energy depends on the data: TensorRT-LLM's
        tables state a quarter to a third less for GEMMs and experts than vLLM's.

    Source:
        Fitted on a B200 by accuracy/kernel_power.py; errors in docs/method/power.md. That energy depends on the data:
        Gregersen, Patel and Choukse, arXiv:2409.18324.

    >>> from roofline.physics.equation import kernel_time
    >>> roof, work = Roof.ideal(peak=1e15, bandwidth=4e12), Work(weight_bytes=2e9)
    >>> round(power_share(work, roof, Terms(0.001, 0.0, 0.001, 0.0)), 3)  # 0.2 + 0.27 + 0.96 x 2e9 / 4e9
    0.95
    """
    return minimum(demand(demand_parts(work, roof, terms)), MOST, _CHANGES_SIDES)


def clock_under_cap(share: Real, cap: Real) -> Real:
    r"""Clock of the cores under a power cap, over that without one.

    .. math:: \varphi = \left(\frac{c - i}{\max(s, c) - i}\right)^{1/3}

    The board slows its cores until :math:`i + (s - i) \varphi^3 = c`.

    Args:
        share: power s of the kernel without the cap, over the TDP [1].
        cap: power cap c, over the TDP [1].

    Returns:
        The clock [1]; 1 for a kernel that draws less.

    Valid:
        Caps from about half of the TDP; below it voltages stop falling, and clocks fall faster than this.

    Source:
        Dynamic power C V^2 f with V in proportion to f: Chandrakasan et al., IEEE J. Solid-State Circuits 27(4), 1992.
        That prompts meet a cap and decode hardly does: Patel et al., arXiv:2308.12908; Ma et al., arXiv:2605.11999.

    >>> round(clock_under_cap(0.9, 0.55), 4)  # (0.35 / 0.7) ** (1 / 3)
    0.7937
    """
    limit = maximum(cap, LEAST_CAP, "a cap is the least")
    return ((limit - IDLE) / (maximum(share, limit, _CHANGES_SIDES) - IDLE)) ** (1.0 / CLOCK_LAW)


def capped(kernel: Kernel, cap: Real) -> Kernel:
    """A kernel under a power cap over the TDP: its cores slow down, the HBM does not."""
    roof, terms = kernel.roof, kernel.terms
    share = power_share(kernel.work, roof, terms)
    if isinstance(roof, LinkRoof):
        return kernel._replace(power=minimum(share, cap, _CHANGES_SIDES))
    clock, constants = clock_under_cap(share, cap), roof.efficiency
    slower = replace(
        constants,
        eta_c=constants.eta_c * clock,
        eta_x=constants.eta_x * clock,
        kappa=constants.kappa / clock,
        kappa_s=constants.kappa_s / clock,
        eps=constants.eps / clock,
    )
    roof = roof._replace(efficiency=slower)
    return kernel._replace(roof=roof, terms=kernel_time(kernel.work, roof), power=minimum(share, cap, _CHANGES_SIDES))
