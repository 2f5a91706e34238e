"""Power and energy of a deployment under its load: per GPU, per request, per token; and what the energy costs."""

from __future__ import annotations

from typing import Any

from roofline.numbers.operations import Real, comparable, figure_text, maximum, minimum
from roofline.numbers.quantity import HOUR, KILO, MEGA, rounded
from roofline.physics.assembly import rank_batch
from roofline.physics.passes import Pass, dynamic_energy
from roofline.physics.power import IDLE, MOST, SIGMA, is_measured
from roofline.serving.latency import lanes, request_passes, steps_of_answer
from roofline.serving.verdict import spread
from roofline.specs.gpu import Electricity, Gpu
from roofline.specs.load import Burst
from roofline.support.records import NamedTuple, replace

#: What the figures stand on.
MEASURED, BOUND = "measured-generation", "bound"
_WITHOUT = Electricity()
_JOULES_PER_KWH = KILO * HOUR
_COLDEST = 0.1  # of the TDP: a board with a model loaded and nothing to do


@comparable
class Energy(NamedTuple):
    """Power of one board, and energy of all boards of a deployment.

    >>> import roofline as rl
    >>> energy = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=16, kwh_price=0.12, pue=1.25).energy
    >>> energy.basis, 400 < energy.power < 700, energy.power_range[0] < energy.power < energy.power_range[1]
    ('measured-generation', True, True)
    >>> round(energy.kwh_per_m_output_tok / energy.per_output_token, 4)  # 1.25 x 1e6 / 3.6e6
    0.3472
    """

    power: Real  # [W] mean under the load
    prefill_power: Real  # [W] while prompts are computed
    decode_power: Real  # [W] during a decode step
    per_request: Real  # [J]
    per_input_token: Real  # [J] of the prefill alone
    per_decode_token: Real  # [J] of the decode steps alone
    per_output_token: Real  # [J] of everything
    power_range: tuple[Real, Real] | None  # [W] 80 % interval; None for a bound
    basis: str
    num_gpus: int
    cap: Real | None  # [W] to which each board is limited
    electricity: Electricity

    @property
    def kwh_per_m_output_tok(self) -> Real:
        """Energy of a million output tokens, PUE included [kWh]."""
        return kwh(MEGA * self.per_output_token, self.electricity)

    @property
    def usd_per_m_output_tok(self) -> Real | None:
        """Price of that energy [USD]; None without a price of energy."""
        return self._usd(self.kwh_per_m_output_tok)

    @property
    def usd_per_hour(self) -> Real | None:
        """Price of the energy of all boards for an hour under this load [USD/h]; None without a price of energy."""
        return self._usd(kwh(HOUR * self.power * self.num_gpus, self.electricity))

    def _usd(self, amount: Real) -> Real | None:
        price = self.electricity.usd_per_kwh
        return None if price is None else amount * price


def power_limit(gpu: Gpu) -> float | None:
    """Power at which a board is limited: its TDP, or a cap below it [W]; None where it is not known."""
    return gpu.power if gpu.power is None or gpu.power_cap is None else gpu.power * gpu.power_cap


def mean_share(spent: Real, period: Real, most: Real) -> Real:
    r"""Mean power of a board over its TDP.

    .. math:: \frac{P}{P_{TDP}} = \min\left(i + \frac{e}{T},\ c\right)

    Args:
        spent: energy e above idle, over the TDP, that the board spends in the period [s].
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
    return minimum(IDLE + spent / period, most, "a board reaches the power limit")


def kwh(joules: Real, electricity: Electricity) -> Real:
    r"""Energy that a data centre takes for the energy of its boards.

    .. math:: E = \frac{J\, \mathrm{PUE}}{3.6 \times 10^6}

    Args:
        joules: energy J of the boards [J].
        electricity: with its `pue`, energy of the data centre over that of the boards [1].

    Returns:
        Energy [kWh].

    Source:
        Arithmetic; PUE as in ISO/IEC 30134-2, but over boards alone: CPUs, fans and network belong to it here.

    >>> kwh(7.2e6, Electricity(pue=1.5))
    3.0
    """
    return joules * electricity.pue / _JOULES_PER_KWH


def energy_of(prediction: Any) -> Energy | None:
    """Power and energy of a prediction; None on the ideal basis, and where the GPU states no power."""
    deployment = prediction.deployment
    gpu, limit = deployment.gpu, power_limit(deployment.gpu)
    if limit is None or gpu.power is None or deployment.basis == "ideal":
        return None
    workload, ranks = prediction.workload, lanes(deployment)
    (prompts, sequences), (first, step) = _in_step(prediction)
    requests = prediction.output_tok_s / workload.osl  # [1/s] of the whole deployment
    if is_measured(gpu):
        most = MOST if gpu.power_cap is None else minimum(MOST, gpu.power_cap)
        of_first, of_step = first.figures(dynamic_energy)[0], step.figures(dynamic_energy)[0]
        per_request = of_first / prompts + steps_of_answer(deployment, workload.osl) * of_step / sequences
        share = mean_share(per_request, ranks / requests, most)
        low, high = spread(share, SIGMA)
        ends = gpu.power * maximum(low, minimum(share, _COLDEST)), gpu.power * maximum(minimum(high, most), share)
        power, basis = gpu.power * share, MEASURED
        prefilling = gpu.power * mean_share(of_first, first.time, most)
        decoding = gpu.power * mean_share(of_step, step.time, most)
    else:
        power = prefilling = decoding = limit + 0.0 * requests  # NaN where a case of an array has no answer
        ends, basis = None, BOUND
    boards = deployment.num_gpus / ranks  # of one rank
    whole = power * deployment.num_gpus / requests
    return Energy(
        power,
        prefilling,
        decoding,
        whole,
        prefilling * first.time * boards / (prompts * workload.isl),
        decoding * step.time * boards / (sequences * deployment.tokens_per_step),
        whole / workload.osl,
        ends,
        basis,
        deployment.num_gpus,
        None if gpu.power_cap is None else limit,
        gpu.electricity or _WITHOUT,
    )


def _in_step(prediction: Any) -> tuple[tuple[Real, Real], tuple[Pass, Pass]]:
    """Prompts and sequences of a rank that share a prefill and a decode step, and both passes.

    Under a load every data-parallel rank computes a prompt of its own at the same time.
    """
    deployment, workload, served = prediction.deployment, prediction.workload, prediction.served
    dp = deployment.plan.dp
    if served is None:
        batch = rank_batch(workload.batch, dp)
        return (batch, batch), (prediction.prefill, prediction.decode)
    first = prediction.prefill
    if dp != 1:
        first, _ = request_passes(deployment, replace(workload, load=Burst(1.0 * dp)), None)
    return (1.0, rank_batch(served.batch, dp)), (first, prediction.decode)


def energy_facts(prediction: Any) -> dict[str, tuple[str, ...]]:
    """Power and energy as parts of a text, by their label."""
    gpu, energy = prediction.deployment.gpu, prediction.energy
    if energy is None:
        why = f"{gpu.name} states no power" if gpu.power is None else "the hardware limit has none"
        return {"energy": (f"not known: {why}",)}
    most, power = "", f"{figure_text(energy.power, 'W')} per GPU"
    if energy.power_range is None:
        most, power = "at most ", f"at most {power}, its TDP: the power of such boards was not measured"
    else:
        power += f" (80 %: {' to '.join(figure_text(end, 'W') for end in energy.power_range)})"
        power += f", {figure_text(energy.prefill_power, 'W')} in prefill"
        power += "" if prediction.tpot is None else f", {figure_text(energy.decode_power, 'W')} in decode"
    if energy.cap is not None:
        power += f"; capped at {figure_text(energy.cap, 'W')}"
    joules = (
        f"{figure_text(energy.per_output_token)} J per output token, {figure_text(energy.per_request)} J per request"
    )
    cost = f"{figure_text(energy.kwh_per_m_output_tok)} kWh"
    if energy.usd_per_m_output_tok is not None:
        cost += f" and {rounded(float(energy.usd_per_m_output_tok))} USD, not part of the rent,"
    pue = energy.electricity.pue
    cost += " per million output tokens" + ("" if pue == 1.0 else f" with a PUE of {rounded(pue)}")
    return {"energy": (power, f"\n{most}{joules}; {cost}")}
