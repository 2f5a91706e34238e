"""Time of one step of an engine, for simulators that schedule requests themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from roofline.numbers.arrays import Array
from roofline.numbers.operations import Real, maximum
from roofline.numbers.quantity import NANO
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.questions.inputs.options import understood
from roofline.questions.predict import predicted
from roofline.serving.load.equations import server_of
from roofline.serving.load.server import DECODE_FIRST, PROMPTS_FIRST, Server, attention_time
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import Gpu
from roofline.specs.load import OPTIONS, Burst
from roofline.specs.model import Model
from roofline.support.errors import BadInput
from roofline.support.records import replace

if TYPE_CHECKING:
    from roofline.numbers.operations import Numbers
    from roofline.questions.inputs.signatures import Case

#: Options that describe requests, which a step states one by one.
_OF_REQUESTS = ("isl", "osl", "prefix", "slo", "p99_within", *OPTIONS)


@overload
def step_time(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    prefill: Sequence[tuple[float, float]] = (),
    decode: Sequence[float] = (),
    **options: Unpack[Case],
) -> float: ...
@overload
def step_time(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    prefill: Array,
    decode: Array | Sequence[float] = (),
    **options: Unpack[Case],
) -> Array: ...
@overload
def step_time(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    prefill: Sequence[tuple[float, float]] = (),
    decode: Array,
    **options: Unpack[Case],
) -> Array: ...
@understood
def step_time(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    prefill: Iterable[Iterable[float]] | Numbers = (),
    decode: Iterable[float] | Numbers = (),
    **options: Unpack[Case],
) -> float | Array:
    """Time of one step of an engine: the latency model of a discrete-event simulator.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options, which saves most of the time.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        prefill: chunks of prompts that the step computes, each as (new tokens, tokens of the prompt that are cached);
            array of shape (..., chunks, 2) for many steps, in which chunks of no tokens are left out [tokens].
        decode: cached tokens of each sequence that gains a token, one or more; array of shape (..., sequences) for
            many steps, in which NaN stands for no sequence [tokens].
        options: those of a deployment, as in `predict`: plan, formats, engine, basis; without lengths, load and limits.

    Returns:
        Time [s], host included; an array of the leading shape for arrays. It is that of one data-parallel rank, with
        the others equally full. An empty step takes no time. Chunks share one call of attention, whose launch and
        longest walk over keys count once.

    Raises:
        BadInput: an impossible number, or chunks beside sequences under an engine that computes prompts in passes of
            their own, as SGLang does: ask for each.
        RooflineError: as `predict` raises.

    >>> import numpy as np
    >>> import roofline as rl
    >>> p = rl.predict("llama-3.1-8b", "h100-sxm", engine="vllm")
    >>> alone, both = rl.step_time(p, decode=[1000] * 8), rl.step_time(p, prefill=[(512, 0)], decode=[1000] * 8)
    >>> 0.005 < alone < both < 0.03
    True
    >>> rl.step_time(p, decode=np.array([[1000.0, np.nan], [1000.0, 2000.0]])).shape
    (2,)
    """
    refused = [name for name in options if name in _OF_REQUESTS]
    if refused:
        raise BadInput(f"a step states its requests one by one; leave out {', '.join(refused)}")
    if not isinstance(model, Prediction):
        options = {"isl": 1, "osl": 1, **options}
    prediction = predicted("step_time", model, gpu, options)
    chunks, contexts = _numbers("prefill", prefill, 2), _numbers("decode", decode, 1)
    if chunks.shape[-1] != 2:
        raise BadInput("prefill needs pairs of new and cached tokens, such as [(512, 0)]")
    server = server_of(prediction.deployment, replace(prediction.workload, load=Burst(), lengths=None))
    if server.engine.scheduler == PROMPTS_FIRST and (chunks[..., 0] > 0.0).any() and (contexts >= 0.0).any():
        raise BadInput(
            f"{server.engine.name} computes prompts in passes of their own; ask for prefill and decode apart, or for "
            f"an engine of the other kind ({DECODE_FIRST})"
        )
    return _time(server, chunks, contexts)


def _numbers(name: str, given: Any, depth: int) -> Array:
    """Numbers of a step: an array with at least so many axes."""
    try:
        numbers = np.array(given if hasattr(given, "__array__") else [*given], float)
    except (TypeError, ValueError) as error:
        shape = "pairs of numbers" if depth == 2 else "numbers"
        raise BadInput(f"{name} needs {shape}, alike in every step: {error}") from None
    if not numbers.size:
        numbers = np.empty((0, 2) if depth == 2 else (0,))
    if numbers.ndim < depth:
        raise BadInput(f"{name} needs {'pairs of numbers, such as [(512, 0)]' if depth == 2 else 'a list of numbers'}")
    if (numbers < 0.0).any() or np.isinf(numbers).any() or (depth == 2 and np.isnan(numbers).any()):
        raise BadInput(f"{name} needs numbers of tokens, none negative")
    return numbers


def _time(server: Server, chunks: Array, contexts: Array) -> float | Array:
    """Time of many steps, or of one, which floats answer sooner."""
    shape = np.broadcast_shapes(chunks.shape[:-2], contexts.shape[:-1])
    if not shape:
        return _one_step(server, [(new, cached) for new, cached in chunks.tolist() if new], contexts.tolist())
    ranks = server.deployment.plan.dp * 1.0
    new, cached = chunks[..., 0], chunks[..., 1]
    tokens = np.broadcast_to(new.sum(-1), shape)
    is_there = ~np.isnan(contexts)
    sequences = np.broadcast_to(is_there.sum(-1).astype(float), shape)
    decodes, step = sequences > 0.0, np.zeros(shape)
    if decodes.any():  # attention adds up: the mean of steps in which all contexts are alike
        many = np.maximum(is_there.sum(-1, keepdims=True), 1)
        alike = decode_pass(server.deployment, ranks * many, np.where(is_there, contexts, 1.0)).time
        step = step + np.where(decodes, np.where(is_there, alike / many, 0.0).sum(-1), 0.0)
    if tokens.any():
        length, count = np.maximum(tokens, 1.0), np.maximum((new > 0.0).sum(-1), 1.0)
        work, once = _attention(server, count[..., None], np.maximum(new, 1.0), cached)
        attention = np.where(new > 0.0, work, 0.0).sum(-1) + np.where(new > 0.0, once, 0.0).max(-1, initial=0.0)
        before = np.where(new > 0.0, new * cached, 0.0).sum(-1) / length
        more = _beside(server, np.maximum(sequences, 1.0), length, attention)
        prompts = np.where(decodes, more, _alone(server, count, length, before, attention))
        step = step + np.where(tokens > 0.0, prompts, 0.0)
    return step


def _one_step(server: Server, chunks: list[tuple[float, float]], contexts: list[float]) -> float:
    contexts = [context for context in contexts if not isnan(context)]
    step = _decode_step(server, contexts) if contexts else 0.0
    if not chunks:
        return step
    tokens = sum(new for new, _ in chunks)
    count = len(chunks) * 1.0
    works, onces = zip(*(_attention(server, count, new, cached) for new, cached in chunks), strict=True)
    attention = sum(works) + max(onces)
    if contexts:
        return float(step + _beside(server, len(contexts) * 1.0, tokens, attention))
    before = sum(new * cached for new, cached in chunks) / tokens
    return float(_alone(server, count, tokens, before, attention))


def _attention(server: Server, count: Real, new: Real, cached: Real) -> tuple[Real, Real]:
    """Attention of one of so many chunks [s]: what it adds to their call, and what a call takes once."""
    deployment, many = server.deployment, maximum(count, 2.0)
    alone = attention_time(deployment, cached, new)
    adds = (attention_time(deployment, cached, new, many) - alone) / (many - 1.0)
    return adds, alone - adds


def _decode_step(server: Server, contexts: list[float]) -> float:
    """Mean of steps in which all contexts are alike: at the mean context, where time is linear in it."""
    sequences = float(len(contexts) * server.deployment.plan.dp)
    short, mean, long = min(contexts), sum(contexts) / len(contexts), max(contexts)
    step: float = decode_pass(server.deployment, sequences, mean).time
    if short == long:
        return step
    ends = [decode_pass(server.deployment, sequences, context).time for context in (short, long)]
    between: float = ends[0] + (mean - short) / (long - short) * (ends[1] - ends[0])
    if abs(between - step) <= NANO * step:
        return step
    return float(decode_pass(server.deployment, sequences, np.array(contexts)).time.mean())


def _beside(server: Server, sequences: Real, tokens: Real, attention: Real) -> Real:
    """Time that chunks add to a step of sequences, which reads the weights anyway [s]."""
    engine = server.engine
    shared = maximum(server.linear(sequences, tokens) - server.linear(sequences, 0.0), 0.0)
    return engine.prefill_slowdown * (shared + attention) + engine.prefill


def _alone(server: Server, prompts: Real, tokens: Real, before: Real, attention: Real) -> Real:
    """Time of a step of chunks alone; `before`: mean cached tokens before a new one [s]."""
    deployment, each = server.deployment, tokens / prompts
    together = prefill_pass(deployment, prompts * deployment.plan.dp, each, before).time
    return together - attention_time(deployment, before, each, prompts) + attention
