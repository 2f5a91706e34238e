"""Cost figures of a prediction: server time by phase, and token prices."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic

from roofline.number_types import Number
from roofline.ops import Real, maximum, minimum
from roofline.quantity import HOUR
from roofline.records import NamedTuple, replace
from roofline.serving.cost import ByPhase, TokenPrices, token_prices, usd_per_m_output_tok
from roofline.serving.latency import Workload, prefill, steps_of_answer
from roofline.serving.prompt_cache import prompt_kinds
from roofline.serving.served import Served, lanes

if TYPE_CHECKING:
    from roofline.physics.forward import Pass
    from roofline.physics.plan import Deployment
    from roofline.serving.correction import Correction
    from roofline.serving.traffic.prompts import Prompt
    from roofline.serving.traffic.server import Server
    from roofline.specs.gpu import Price


class FullServer(NamedTuple):
    """A deployment at saturation."""

    request_rate: Real  # [1/s] saturation
    times: ByPhase  # [s] of a rank per request


def tokens_by_phase(deployment: Deployment, workload: Workload) -> ByPhase:
    """Mean tokens per request [tokens]; at least one prompt token is computed."""
    first, *others = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    computed = sum((kind.weight * kind.computed for kind in others), first.weight * first.computed)
    return ByPhase(computed, workload.isl - computed, workload.osl)


def full_server(deployment: Deployment, workload: Workload) -> FullServer:
    """Saturation of a deployment, and the time that each phase of a request takes then.

    Args:
        deployment: model, GPU, plan, quantization, basis, engine and replicas.
        workload: lengths; its load is ignored.

    Returns:
        Request rate of the whole deployment [1/s], and rank time per request [s].

    Source:
        docs/method.md, "A server under load": of each step D, b / (O - 1) requests end.
    """
    from roofline.serving.traffic.load import server_of
    from roofline.serving.traffic.prompts import prompt_of
    from roofline.serving.traffic.server import UNLIMITED
    from roofline.serving.traffic.slots import saturation

    server = replace(server_of(deployment, replace(workload, concurrency=None, request_rate=1.0)), users=UNLIMITED)
    prompt = prompt_of(server)
    saturated = saturation(server, prompt)
    output = server.steps_of() * saturated.step / saturated.sequences
    output = minimum(output, 1.0 / saturated.rate)
    prefilled = 1.0 / saturated.rate - output
    cached = _cached_time(server, prompt, 0.0, prefilled)
    return FullServer(saturated.rate * lanes(deployment), ByPhase(prefilled - cached, cached, output))


class Priced(Generic[Number]):
    """The part of a prediction about the cost of requests and tokens."""

    deployment: Deployment
    workload: Workload
    prefill: Pass
    decode: Pass
    served: Served | None
    correction: Correction

    if TYPE_CHECKING:

        @property
        def output_tok_s(self) -> Number: ...

        def _where_fits(self, time: Real) -> Real: ...

    @property
    def price(self) -> Price | None:
        """Rent of one GPU [USD/s], with its range and source; None if unknown."""
        return self.deployment.gpu.price

    @property
    def price_source(self) -> str | None:
        """Where the price comes from: ``given``, or the catalog with its date; None if unknown."""
        return None if self.price is None else self.price.source

    @property
    def usd_per_hour(self) -> float | None:
        """Typical rent of all GPUs [USD/h]; None where no price is known."""
        return None if self.price is None else self.price.typical * HOUR * self.deployment.num_gpus

    @property
    def usd_per_hour_range(self) -> tuple[float, float] | None:
        """Lowest and highest rent of all GPUs [USD/h]; None where no price is known."""
        if self.price is None:
            return None
        return self.price.low * HOUR * self.deployment.num_gpus, self.price.high * HOUR * self.deployment.num_gpus

    @property
    def usd_per_m_output_tok(self) -> Number | None:
        """Typical rent per output, GPUs busy all the time [USD per million output tokens].

        None where no price is known; `roofline.serving.cost` lists the assumptions.
        """
        if self.price is None:
            return None
        price: Number = usd_per_m_output_tok(self.price.typical * self.deployment.num_gpus, self.output_tok_s)
        return price

    @property
    def usd_per_request(self) -> Number | None:
        """Typical rent of all GPUs per request [USD]; None where no price is known."""
        if self.price is None:
            return None
        price: Number = self.price.typical * self.deployment.num_gpus / (self.output_tok_s / self.workload.osl)
        return price

    @cached_property
    def token_prices(self) -> TokenPrices | None:
        """Price per million tokens of each kind [USD], by the time each takes; None where no price is known."""
        if self.usd_per_request is None:
            return None
        return token_prices(self.usd_per_request, tokens_by_phase(self.deployment, self.workload), self.phase_times)

    @cached_property
    def phase_times(self) -> ByPhase:
        """Time that the phases of a request take on a busy server [s].

        For a burst, of all its requests; under a load, of one request on its rank.
        """
        times = self._burst_times() if self.served is None else self._load_times(self.served)
        first, later = self.correction.ttft, self.correction.tpot
        scaled = (first * times.input, first * times.cached, later * times.output)
        return ByPhase(*(self._where_fits(time) for time in scaled))

    def _burst_times(self) -> ByPhase:
        """Prefill without request and network time, and all decode steps of a burst [s]."""
        workload, host = self.workload, self.deployment.effective_engine
        output = steps_of_answer(self.deployment, workload.osl) * self.decode.time
        before = host.network + host.request
        prefilled = self.prefill.time - before
        uncached: Real = 0.0
        for kind in prompt_kinds(self.deployment, workload.isl, workload.prefix, workload.cache):
            alone = replace(workload, isl=kind.computed, prefix=0.0, cache=None)
            uncached = uncached + kind.weight * (prefill(self.deployment, alone).time - before)
        cached = maximum(prefilled - uncached, 0.0)
        return ByPhase(prefilled - cached, cached, output)

    def _load_times(self, under_load: Served) -> ByPhase:
        r"""Under a load: the time that a prompt adds to the steps of others, and a request's share of decode time.

        .. math:: t_s = (1 - p_0)\, p + p_0\, A,\quad t_o = \frac{(1 - \rho)\, B}{l},\quad
                  B = 1 - e^{-b}\ \text{or}\ 1 - (1 - q)^c

        A rank decodes in a share B of the time that prompts, rho, leave; l requests per second share it.
        """
        from roofline.serving.traffic.load import server_of
        from roofline.serving.traffic.prompts import prompt_of

        server = server_of(self.deployment, self.workload)
        prompt = prompt_of(server)
        prefilled = under_load.nobody * prompt.alone + (1.0 - under_load.nobody) * under_load.prompt
        rate = under_load.request_rate / lanes(self.deployment)
        busy = 1.0 - under_load.nobody
        if self.workload.concurrency is not None:
            users = maximum(self.workload.concurrency / lanes(self.deployment), 1.0)
            inside = maximum((1.0 - under_load.waiting_share) * users, 1.0)
            busy = 1.0 - (1.0 - minimum(rate * under_load.decode / inside, 1.0)) ** inside
        cached = _cached_time(server, prompt, under_load.nobody, prefilled)
        return ByPhase(prefilled - cached, cached, busy * (1.0 - under_load.rho) / rate)


def _cached_time(server: Server, prompt: Prompt, nobody: Real, prefilled: Real) -> Real:
    """Time of a prompt due to cached tokens [s]: attention to them."""
    from roofline.serving.traffic.prompts import prompt_of

    attention: Real = 0.0
    alone: Real = 0.0
    for kind in server.kinds:
        uncached = prompt_of(replace(server, isl=kind.computed, prefix=0.0, cache=None))
        attention, alone = attention + kind.weight * uncached.attention, alone + kind.weight * uncached.alone
    in_steps = server.engine.prefill_slowdown * (prompt.attention - attention)
    cached = (1.0 - nobody) * in_steps + nobody * (prompt.alone - alone)
    return minimum(maximum(cached, 0.0), prefilled)
