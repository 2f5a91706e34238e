"""The bill of an answer: what phases take of a server's time, and what their tokens cost."""

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

__all__ = ["FullServer", "Priced", "full_server", "tokens_by_phase"]


class FullServer(NamedTuple):
    """What a deployment does at its saturation."""

    request_rate: Real  # [1/s] that can be answered at most
    times: ByPhase  # [s] of a rank's time for one request


def tokens_by_phase(deployment: Deployment, workload: Workload) -> ByPhase:
    """Tokens of the mean request, by what they are.

    Args:
        deployment: model, GPU and plan.
        workload: lengths, and how often a prefix is cached.

    Returns:
        Prompt tokens that are computed, at least one; those that are cached; output tokens [tokens].
    """
    kinds = prompt_kinds(deployment, workload.isl, workload.prefix, workload.cache)
    new = sum((kind.weight * kind.computed for kind in kinds[1:]), kinds[0].weight * kinds[0].computed)
    return ByPhase(new, workload.isl - new, workload.osl)


def full_server(deployment: Deployment, workload: Workload) -> FullServer:
    """The most that a deployment answers, and what phases take of its time then.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: lengths, of whatever load.

    Returns:
        Requests of the whole deployment [1/s], and times of a rank for one of them [s].

    Source:
        docs/method.md, "A server under load": a request ends with each (O - 1)/b of a step D.
    """
    from roofline.serving.traffic.load import server_of
    from roofline.serving.traffic.prompts import prompt_of
    from roofline.serving.traffic.server import UNLIMITED
    from roofline.serving.traffic.slots import saturation

    server = replace(server_of(deployment, replace(workload, concurrency=None, request_rate=1.0)), users=UNLIMITED)
    prompt = prompt_of(server)
    full = saturation(server, prompt)
    output = server.steps_of() * full.step / full.sequences
    output = minimum(output, 1.0 / full.rate)
    prefilled = 1.0 / full.rate - output
    cached = _of_cached(server, prompt, 0.0, prefilled)
    return FullServer(full.rate * lanes(deployment), ByPhase(prefilled - cached, cached, output))


class Priced(Generic[Number]):
    """The part of a prediction that asks what requests and their tokens cost."""

    deployment: Deployment
    workload: Workload
    prefill: Pass
    decode: Pass
    served: Served | None
    correction: Correction

    if TYPE_CHECKING:

        @property
        def output_tok_s(self) -> Number:
            """Output tokens per second of all replicas [1/s]."""

        def _where_fits(self, time: Real) -> Real: ...

    @property
    def price(self) -> Price | None:
        """Rent of one GPU, with its range and where it comes from [USD/s]; None where no price is known."""
        return self.deployment.gpu.price

    @property
    def price_source(self) -> str | None:
        """Where the price comes from: ``given``, or the catalog with its date; None where none is known."""
        return None if self.price is None else self.price.source

    @property
    def usd_per_hour(self) -> float | None:
        """Typical rental of all GPUs [USD/h]; None where no price is known."""
        return None if self.price is None else self.price.typical * HOUR * self.deployment.num_gpus

    @property
    def usd_per_hour_range(self) -> tuple[float, float] | None:
        """Lowest and highest rental of all GPUs [USD/h]; None where no price is known."""
        if self.price is None:
            return None
        return self.price.low * HOUR * self.deployment.num_gpus, self.price.high * HOUR * self.deployment.num_gpus

    @property
    def usd_per_m_output_tok(self) -> Number | None:
        """Typical rental of all GPUs, busy with such batches, over their output [USD per million output tokens].

        None where no price is known; `roofline.serving.cost` says what it assumes.
        """
        if self.price is None:
            return None
        found: Number = usd_per_m_output_tok(self.price.typical * self.deployment.num_gpus, self.output_tok_s)
        return found

    @property
    def usd_per_request(self) -> Number | None:
        """Typical rental of all GPUs over the requests that they answer [USD]; None where no price is known."""
        if self.price is None:
            return None
        each: Number = self.price.typical * self.deployment.num_gpus / (self.output_tok_s / self.workload.osl)
        return each

    @cached_property
    def token_prices(self) -> TokenPrices | None:
        """What a million tokens of each kind cost [USD]: phases share the rent by the time that they take.

        None where no price is known.
        """
        if self.usd_per_request is None:
            return None
        return token_prices(self.usd_per_request, tokens_by_phase(self.deployment, self.workload), self.phase_times)

    @cached_property
    def phase_times(self) -> ByPhase:
        """What the phases of a request take of a busy server [s]: its prompt, what is cached of it, and its answer.

        Of a burst the time of all requests; under a load that of one, on its rank.
        """
        times = self._burst_times() if self.served is None else self._load_times(self.served)
        first, later = self.correction.ttft, self.correction.tpot
        scaled = (first * times.input, first * times.cached, later * times.output)
        return ByPhase(*(self._where_fits(time) for time in scaled))

    def _burst_times(self) -> ByPhase:
        """Of a burst: its prefill, less what comes before it, and all of its decode steps."""
        workload, host = self.workload, self.deployment.host
        output = steps_of_answer(self.deployment, workload.osl) * self.decode.time
        before = host.network + host.request
        whole = self.prefill.time - before
        bare: Real = 0.0
        for kind in prompt_kinds(self.deployment, workload.isl, workload.prefix, workload.cache):
            alone = replace(workload, isl=kind.computed, prefix=0.0, cache=None)
            bare = bare + kind.weight * (prefill(self.deployment, alone).time - before)
        cached = maximum(whole - bare, 0.0)
        return ByPhase(whole - cached, cached, output)

    def _load_times(self, found: Served) -> ByPhase:
        r"""Under a load: what a prompt adds to the steps of others, and the request's part of the decode steps.

        .. math:: t_s = (1 - p_0)\, p + p_0\, A,\quad t_o = \frac{(1 - \rho)\, B}{l},\quad
                  B = 1 - e^{-b}\ \text{or}\ 1 - (1 - q)^c

        A rank decodes in a share B of the time, but for prompts, rho of it; l requests a second share that.
        """
        from roofline.serving.traffic.load import server_of
        from roofline.serving.traffic.prompts import prompt_of

        server = server_of(self.deployment, self.workload)
        prompt = prompt_of(server)
        prefilled = found.nobody * prompt.alone + (1.0 - found.nobody) * found.prompt
        rate = found.request_rate / lanes(self.deployment)
        busy = 1.0 - found.nobody
        if self.workload.concurrency is not None:
            users = maximum(self.workload.concurrency / lanes(self.deployment), 1.0)
            inside = maximum((1.0 - found.waiting_share) * users, 1.0)
            busy = 1.0 - (1.0 - minimum(rate * found.decode / inside, 1.0)) ** inside
        cached = _of_cached(server, prompt, found.nobody, prefilled)
        return ByPhase(prefilled - cached, cached, busy * (1.0 - found.rho) / rate)


def _of_cached(server: Server, prompt: Prompt, nobody: Real, prefilled: Real) -> Real:
    """What cached tokens take of the time of a prompt [s]: attention to them, which a shorter prompt would not have."""
    from roofline.serving.traffic.prompts import prompt_of

    attention: Real = 0.0
    alone: Real = 0.0
    for kind in server.kinds:
        bare = prompt_of(replace(server, isl=kind.computed, prefix=0.0, cache=None))
        attention, alone = attention + kind.weight * bare.attention, alone + kind.weight * bare.alone
    beside = server.engine.stretch * (prompt.attention - attention)
    cached = (1.0 - nobody) * beside + nobody * (prompt.alone - alone)
    return minimum(maximum(cached, 0.0), prefilled)
