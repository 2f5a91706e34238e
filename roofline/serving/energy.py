"""Power and energy of a deployment under its load: per GPU, per request, per token; and what the energy costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, comparable, figure_text, maximum, minimum
from roofline.numbers.quantity import HOUR, KILO, MEGA, rounded
from roofline.physics.assembly import rank_batch
from roofline.physics.power import IDLE, MOST, SIGMA, dynamic_energy, is_measured
from roofline.serving.latency import lanes, request_passes, steps_of_answer
from roofline.serving.verdict import spread
from roofline.specs.gpu import Electricity, Gpu
from roofline.specs.keys import Key, Keys
from roofline.specs.load import Burst
from roofline.support.records import NamedTuple, replace

if TYPE_CHECKING:
    from roofline.physics.passes import Pass
    from roofline.serving.prediction import Prediction

#: What the figures stand on.
MEASURED, BOUND = "measured-generation", "bound"
_WITHOUT = Electricity()
_JOULES_PER_KWH = KILO * HOUR


@comparable
class Energy(NamedTuple):
    """Power of one board, and energy of all boards of a deployment."""

    power: Real  # [W] mean under the load
    prefill_power: Real  # [W] while prompts are computed
    decode_power: Real  # [W] during a decode step
    per_request: Real  # [J]
    per_input_token: Real  # [J] of the prefill alone
    per_decode_token: Real  # [J] of the decode steps alone
    per_output_token: Real  # [J] of everything
    power_range: tuple[Real, Real] | None  # [W] 80 % interval; None for a bound
    basis: str


def power_limit(gpu: Gpu) -> float | None:
    """Power at which a board is limited: its TDP, or a cap below it [W]; None where it is not known."""
    if gpu.power is None or gpu.power_cap is None:
        return gpu.power
    return gpu.power * gpu.power_cap


def mean_share(dynamic: Real, period: Real, most: Real) -> Real:
    r"""Mean power of a board over its TDP.

    .. math:: \frac{P}{P_{TDP}} = \min\left(i + \frac{e}{T},\ c\right)

    Args:
        dynamic: energy e above idle, over the TDP, that the board spends in the period [s].
        period: T [s].
        most: limit c of the mean power, over the TDP [1].

    Returns:
        An estimate [1].

    Valid:
        A board that waits draws what it draws between kernels, clocks up; left alone for long it draws less.

    Source:
        Arithmetic: energies add up; `roofline.physics.power`.

    >>> mean_share(0.3, 1.0, 0.985)
    0.5
    """
    return minimum(IDLE + dynamic / period, most, "a board reaches the power limit")


def energy_of(prediction: Prediction[Any, Any, Any]) -> Energy | None:
    """Power and energy of a prediction; None on the ideal basis, and where the GPU states no power."""
    deployment = prediction.deployment
    gpu, limit = deployment.gpu, power_limit(deployment.gpu)
    if limit is None or gpu.power is None or prediction.basis == "ideal":
        return None
    at_once, passes = _in_step(prediction)
    times = [each.time for each in passes]
    boards = deployment.num_gpus / lanes(deployment)  # of one rank
    requests = prediction.output_tok_s / prediction.workload.osl  # [1/s] of the whole deployment
    if is_measured(gpu):
        most = MOST if gpu.power_cap is None else minimum(MOST, gpu.power_cap)
        dynamic = [each.figures(dynamic_energy)[0] for each in passes]
        shares = [mean_share(energy, time, most) for energy, time in zip(dynamic, times, strict=True)]
        steps = steps_of_answer(deployment, prediction.workload.osl)
        per_request = dynamic[0] / at_once[0] + steps * dynamic[1] / at_once[1]  # of one board, over the TDP [s]
        share = mean_share(per_request, lanes(deployment) / requests, most)
        low, high = spread(share, SIGMA)
        ends = gpu.power * maximum(low, minimum(share, _COLDEST)), gpu.power * maximum(minimum(high, most), share)
        power, basis = gpu.power * share, MEASURED
        prefilling, decoding = (gpu.power * each for each in shares)
    else:
        power = limit + 0.0 * requests  # NaN where a case of an array has no answer
        prefilling = decoding = power
        ends, basis = None, BOUND
    whole = power * deployment.num_gpus / requests
    return Energy(
        power,
        prefilling,
        decoding,
        whole,
        prefilling * times[0] * boards / (at_once[0] * prediction.workload.isl),
        decoding * times[1] * boards / (at_once[1] * deployment.tokens_per_step),
        whole / prediction.workload.osl,
        ends,
        basis,
    )


_COLDEST = 0.1  # of the TDP: a board with a model loaded and nothing to do


def _in_step(prediction: Prediction[Any, Any, Any]) -> tuple[tuple[Real, Real], tuple[Pass, Pass]]:
    """Sequences of a rank that share the prefill and a decode step [sequences], and both passes.

    Under a load every data-parallel rank computes a prompt of its own at the same time.
    """
    deployment, workload = prediction.deployment, prediction.workload
    dp = deployment.plan.dp
    if prediction.served is None:
        batch = rank_batch(workload.batch, dp)
        return (batch, batch), (prediction.prefill, prediction.decode)
    first = prediction.prefill
    if dp != 1:
        first, _ = request_passes(deployment, replace(workload, load=Burst(1.0 * dp)), None)
    return (1.0, rank_batch(prediction.served.batch, dp)), (first, prediction.decode)


def kwh_per_million(joules: Real, electricity: Electricity) -> Real:
    r"""Energy of a million tokens.

    .. math:: E = 10^6\, \frac{J\, \mathrm{PUE}}{3.6 \times 10^6}

    Args:
        joules: energy J of the boards per token [J].
        electricity: its `pue`, energy of the data centre over that of the boards [1].

    Returns:
        Energy [kWh].

    Source:
        Arithmetic; PUE as of ISO/IEC 30134-2, here of boards alone.

    >>> kwh_per_million(3.6, Electricity(pue=1.5))
    1.5
    """
    return MEGA * joules * electricity.pue / _JOULES_PER_KWH


# Keys of a row.


def _of(name: str, unit: str, meaning: str) -> Key[Any]:
    def value(prediction: Any) -> Any:
        energy = prediction.energy
        return None if energy is None else _finite(getattr(energy, name))

    return Key.number(unit, meaning, value)


def _end(place: int, meaning: str) -> Key[Any]:
    def value(prediction: Any) -> Any:
        energy = prediction.energy
        return None if energy is None or energy.power_range is None else _finite(energy.power_range[place])

    return Key.number("W", meaning, value)


def _finite(value: Any) -> Any:
    """A number, None for one that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def electricity_of(prediction: Any) -> Electricity:
    """PUE and price of energy, as stated."""
    return prediction.deployment.gpu.electricity or _WITHOUT


def _energy_figure(of: Callable[[Energy, Electricity, Any], Any]) -> Callable[[Any], Any]:
    def value(prediction: Any) -> Any:
        energy = prediction.energy
        return None if energy is None else _finite(of(energy, electricity_of(prediction), prediction))

    return value


def usd_of_energy(joules: Real, electricity: Electricity) -> Real | None:
    """Cost of energy of the boards [USD]; None without a price."""
    if electricity.usd_per_kwh is None:
        return None
    return joules * electricity.pue / _JOULES_PER_KWH * electricity.usd_per_kwh


def _cap(prediction: Any) -> float | None:
    gpu = prediction.deployment.gpu
    return None if gpu.power_cap is None else power_limit(gpu)


#: Keys of a row about power and energy; null on the ideal basis, and where a GPU states no power.
ENERGY_KEYS: Keys[Any] = {
    "power_w": _of("power", "W", "Mean board power of one GPU under the load; where `energy_basis` is bound, at most."),
    "power_low_w": _end(0, "Lower end of its 80 % interval."),
    "power_high_w": _end(1, "Upper end of its 80 % interval."),
    "prefill_power_w": _of("prefill_power", "W", "Board power of one GPU while a prompt is computed."),
    "decode_power_w": _of("decode_power", "W", "Board power of one GPU during a decode step."),
    "j_per_request": _of("per_request", "J", "Energy of all boards per request, idle time included."),
    "j_per_output_tok": _of("per_output_token", "J", "The same per output token; prompts included."),
    "j_per_input_tok": _of("per_input_token", "J", "Energy of the prefill alone, per prompt token."),
    "j_per_decode_tok": _of("per_decode_token", "J", "Energy of decode steps alone, per output token after the first."),
    "kwh_per_m_output_tok": Key.number(
        "kWh",
        "Energy per million output tokens, prompts and PUE included.",
        _energy_figure(lambda e, electricity, p: kwh_per_million(e.per_output_token, electricity)),
    ),
    "energy_usd_per_m_output_tok": Key.number(
        "USD",
        "Price of that energy, which no rent here includes or adds; null without `kwh_price`.",
        _energy_figure(lambda e, electricity, p: usd_of_energy(MEGA * e.per_output_token, electricity)),
    ),
    "energy_usd_per_hour": Key.number(
        "USD/h",
        "Price of the energy of all boards for an hour under this load, PUE included.",
        _energy_figure(
            lambda e, electricity, p: usd_of_energy(HOUR * e.power * p.deployment.num_gpus, electricity)
        ),
    ),
    "power_cap_w": Key.number("W", "Power to which each board is limited (`power_cap`); null without.", _cap),
    "energy_basis": Key.text(
        "measured-generation: the power of kernels of this generation was measured; bound: the TDP, nothing drew more.",
        lambda p: None if p.energy is None else p.energy.basis,
    ),
}


# What people read.


def energy_facts(prediction: Prediction[Any, Any, Any]) -> dict[str, tuple[str, ...]]:
    """Lines about energy, where a power cap, a PUE or a price of energy is stated."""
    gpu = prediction.deployment.gpu
    if gpu.power_cap is None and gpu.electricity is None:
        return {}
    energy = prediction.energy
    if energy is None:
        why = "the hardware limit has none" if gpu.power is not None else f"{gpu.name} states no power"
        return {"energy": (f"not known: {why}",)}
    most = "at most " if energy.basis == BOUND else ""
    parts = [f"{most}{figure_text(energy.power, 'W')} per GPU"]
    if energy.power_range is None:
        parts[0] += f", its TDP (no power of {gpu.generation} kernels was measured)"
    else:
        ends = "-".join(rounded(float(end)) for end in energy.power_range)
        parts[0] += f" (80 % {ends}), prefill {figure_text(energy.prefill_power, 'W')}"
        if prediction.tpot is not None:
            parts[0] += f", decode {figure_text(energy.decode_power, 'W')}"
    if gpu.power_cap is not None:
        parts.append(f"; capped at {figure_text(power_limit(gpu), 'W')}")
    electricity = electricity_of(prediction)
    kwh = kwh_per_million(energy.per_output_token, electricity)
    pue = "" if electricity.pue == 1.0 else f" at a PUE of {rounded(electricity.pue)}"
    usd = usd_of_energy(MEGA * energy.per_output_token, electricity)
    price = "" if usd is None else f", {rounded(float(usd))} USD beside the rent"
    per_token = f"{most}{figure_text(energy.per_output_token)} J per output token"
    each = f"{per_token}, {figure_text(energy.per_request)} J per request"
    parts.append(f"\n{each}; {rounded(float(kwh))} kWh/M out{pue}{price}")
    return {"energy": tuple(parts)}

