"""A pool of GPUs that encode images and audio apart from prompts and answers (EPD disaggregation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from roofline.numbers.operations import Real
from roofline.numbers.quantity import rounded, to_text
from roofline.physics.encoders import encoder_bytes, encoder_time, encoder_workspace
from roofline.physics.plan import Deployment
from roofline.questions.inputs.deployment import pool_of
from roofline.questions.predict import predict
from roofline.serving.load.mixtures import Component
from roofline.serving.load.pools import Pooled, Pools
from roofline.serving.load.rounds import queue_wait
from roofline.specs.model import Model
from roofline.specs.written import DEGREES, Pool, pool_text
from roofline.support.errors import BadInput, DoesNotFit, NoSteadyState, Overloaded
from roofline.support.records import NamedTuple, replace

_NBYTES = 2.0  # embeddings are 16-bit
_ROUNDS = 60  # of the rate that users leave and the wait that it causes
_SETTLED = 2.0**-30  # relative change of the wait
_FULL = 0.995  # utilization from which users only wait longer


class EncodePool(NamedTuple):
    """GPUs that only encode, before the prefill pool gets the embeddings."""

    deployment: Deployment
    encoding: float  # [s] of one request
    sending: float  # [s] of its embeddings
    wait: float = 0.0  # [s] for requests before it, mean
    rate: float = 0.0  # [1/s] at which that is

    @property
    def delay(self) -> float:
        """From the request to the end of the transfer, without the request's own host time [s]."""
        return self.wait + self.encoding + self.sending

    @property
    def num_gpus(self) -> int:
        return self.deployment.num_gpus

    @property
    def max_rate(self) -> float:
        """Requests per second that all replicas encode [1/s]."""
        return self.deployment.replicas / self.encoding

    @property
    def text(self) -> str:
        """The pool as text, such as ``h100-sxm:tp1x2``."""
        copies = self.deployment.replicas if self.deployment.replicas > 1 else None
        return pool_text(Pool(self.deployment.gpu.name, self.deployment.plan.tp, replicas=copies))

    def at(self, rate: float) -> EncodePool:
        """The pool at a request rate."""
        each = rate / self.deployment.replicas
        return self._replace(wait=float(queue_wait(each, self.encoding, self.encoding**2)), rate=rate)

    def spread(self, parts: Iterable[Component]) -> tuple[Component, ...]:
        """Times that include the mean wait, with its distribution in place of it: M/D/1, at least nothing."""
        each = self.rate / self.deployment.replicas
        variance = self.wait**2 + each * self.encoding**3 / (3.0 * (1.0 - min(each * self.encoding, _FULL)))
        return tuple(
            part._replace(least=part.least - self.wait, mean=part.mean + self.wait, variance=part.variance + variance)
            for part in parts
        )


def encode_pool(model: Model, pool: Any, options: Mapping[str, Any], bandwidth: Real) -> EncodePool:
    r"""The pool that a text names, idle.

    .. math:: t = \frac{2\, S\, D}{W}

    Args:
        model: whose towers it holds, and nothing else of it.
        pool: GPU with its tp and replicas, such as ``h100:x2``.
        options: of the case, with what a request holds.
        bandwidth: W of the link to the prefill pool [B/s].

    Returns:
        The pool; its embeddings, S tokens of the model's width D, take the time t to the prefill pool.

    Raises:
        BadInput: requests hold text alone, or the pool states what encoders have not.
        DoesNotFit: the towers need more memory than a GPU has.

    Source:
        Singh et al., "Efficiently serving large multimodal models using EPD disaggregation", arXiv:2501.05460; the
        encoder instances of vLLM (https://docs.vllm.ai/en/latest/features/disagg_encoder/).
    """
    parsed = pool_of(pool, options.get("specs"))
    stated = {} if parsed is None else parsed.options
    odd = [name for name in DEGREES[1:] if stated.get(name, 1) != 1]
    if odd:
        raise BadInput(f"encode pool: encoders have no {odd[0]}; write GPU, tp and replicas, such as h100:tp1x2")
    plan = {} if "tp" in stated else {"tp": 1}
    chosen = {name: value for name, value in options.items() if value is not None and name not in stated}
    deployment = predict(model, pool, **{**chosen, **plan, "allow_oversize": True}).deployment
    if deployment.media is None:
        raise BadInput("encode is a pool for images, video or audio; give images, video_frames or audio")
    need = encoder_bytes(deployment) + encoder_workspace(deployment)
    room = deployment.engine.gpu_memory_utilization * deployment.gpu.memory
    if need > room:
        needed, there = to_text(float(need), "B"), to_text(float(room), "B")
        raise DoesNotFit(f"encode pool: the encoders need {needed} per GPU, of {there}")
    merged = sum(part.merged for part in deployment.media.parts)
    sending = _NBYTES * merged * deployment.model.hidden / bandwidth
    return EncodePool(deployment, float(encoder_time(deployment, 1.0)), float(sending))


def behind(pools: Pools, pool: EncodePool) -> Pools:
    """Pools whose prompts begin when the encode pool has sent what they need."""
    prefill = pools.prefill
    engine = replace(prefill.engine, request=prefill.engine.request + pool.delay)
    return replace(pools, prefill=replace(prefill, engine=engine, media=None))


def with_encoding(
    pools: Pools, pool: EncodePool, answer: Callable[[Pools], Pooled], rate: float | None, users: float | None
) -> tuple[Pools, Pooled, EncodePool]:
    """Both pools behind the encode pool, their load, and the wait for it at the rate that they leave.

    `answer`: the load of two pools. `rate`: of an open loop [1/s]; `users`: of a closed one, of whom all but one may be
    before a request.
    """
    if rate is not None:
        if rate >= pool.max_rate:
            raise Overloaded(
                f"the encode pool answers at most {rounded(pool.max_rate)} requests/s; lower the rate, or give it more "
                "replicas"
            )
        pool = pool.at(rate)
        both = behind(pools, pool)
        return both, answer(both), pool
    seen = 1.0 if users is None else (users - 1.0) / users
    for _ in range(_ROUNDS):
        both = behind(pools, pool)
        load = answer(both)
        now = pool.at(min(seen * float(load.request_rate), _FULL * pool.max_rate))
        if abs(now.wait - pool.wait) <= _SETTLED * pool.delay:
            break
        pool = now._replace(wait=(now.wait + pool.wait) / 2.0)
    if float(load.request_rate) >= _FULL * pool.max_rate:
        raise NoSteadyState(
            f"the encode pool answers at most {rounded(pool.max_rate)} requests/s, which these users exceed; give it "
            "more replicas, or ask for fewer users"
        )
    return both, load, pool
