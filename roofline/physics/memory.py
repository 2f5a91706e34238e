"""What one GPU must hold: weights, KV cache, activations and a reserve, against its usable memory."""

from __future__ import annotations

from functools import reduce
from typing import Generic

from roofline.number_types import Flag, Number
from roofline.ops import Real, comparable, floor, maximum, minimum, where
from roofline.physics.assembly import rank_batch
from roofline.physics.layers.kinds import NETWORK_KINDS, cache_bytes
from roofline.physics.parameters import (
    ParameterCount,
    entry_parameters,
    final_parameters,
    ngram_parameters,
    stage_parameters,
)
from roofline.physics.plan import Deployment, Plan, Precision
from roofline.physics.recurring import figures_of
from roofline.records import NamedTuple
from roofline.specs.layers import Stage
from roofline.specs.model import Model

__all__ = [
    "CHUNK_TOKENS",
    "Memory",
    "activation_bytes",
    "kv_bytes_per_sequence",
    "largest_batch",
    "memory",
    "weight_bytes",
]

#: Tokens whose activations are alive together: engines prefill in chunks of at most this many
#: (vLLM's and TensorRT-LLM's default max_num_batched_tokens / max_num_tokens of 8192).
CHUNK_TOKENS = 8192.0

_ACTIVATION_NBYTES = 2.0
_LOGIT_NBYTES = 4.0


@comparable
class Memory(NamedTuple, Generic[Number, Flag]):
    """Memory of the fullest GPU of a replica."""

    weights: Number | float  # [B]
    kv_cache: Number | float  # [B]
    activations: Number | float  # [B]
    reserve: Number | float  # [B]
    usable: Number | float  # [B]
    prefixes: Number | float = 0.0  # [B] cached for requests to come

    @property
    def used(self) -> Number | float:
        """All of it, the reserve included [B]."""
        return self.weights + self.kv_cache + self.activations + self.reserve + self.prefixes

    @property
    def used_fraction(self) -> Number | float:
        """Share of the usable memory [1]."""
        return self.used / self.usable

    @property
    def fits(self) -> Flag | bool:
        """Whether it is enough."""
        return self.used <= self.usable


def memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    """Memory of the fullest GPU while `batch` sequences of `length` tokens are in a step.

    Args:
        deployment: model, GPU, plan and precision.
        batch: sequences that one replica advances together; pp such batches are in flight [sequences].
        length: tokens that each sequence reaches, prompt and answer [tokens].

    Returns:
        The shares [B].

    Source:
        Arithmetic; the reserve is what the engine's gpu_memory_utilization leaves (CUDA context, graphs, buffers of
        communication, fragmentation).
    """
    if not type(batch) is type(length) is float:
        return Memory(*figures_of(_memory, deployment, batch, length))
    asked, last = deployment.memo.get(memory, ((), None))  # first whether a case fits, then how much it takes
    if asked != (batch, length):
        last = Memory(*figures_of(_memory, deployment, batch, length))
        deployment.memo[memory] = (batch, length), last
    found: Memory = last
    return found


def _memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    model, gpu, plan, precision = deployment.model, deployment.gpu, deployment.plan, deployment.precision
    sequences = rank_batch(batch, plan.dp) * plan.pp
    return Memory(
        weights=_all_weights(deployment),
        kv_cache=sequences * (kv_bytes_per_sequence(model, plan, precision, length) + _draft_cache(deployment, length)),
        activations=activation_bytes(model, plan, rank_batch(batch, plan.dp), length, deployment.queries),
        reserve=(1.0 - deployment.engine.gpu_memory_utilization) * gpu.memory,
        usable=gpu.memory,
        prefixes=_kept_prefixes(deployment),
    )


def weight_bytes(model: Model, plan: Plan, precision: Precision) -> Real:
    """Weights of the fullest pipeline stage on one GPU.

    Args:
        model: the model.
        plan: parallel degrees.
        precision: formats of the sections.

    Returns:
        Bytes, block scales included [B].

    Source:
        Shapes of the checkpoints' tensors; block scales of docs/method.md, "Number formats".
    """
    held = (
        _section_bytes(stage_parameters(model, stage, plan.tp, plan.expert_ranks), precision)
        + _end_bytes(model, plan, precision, stage)
        for stage in model.stages(plan.pp)
    )
    return reduce(maximum, held)


def kv_bytes_per_sequence(model: Model, plan: Plan, precision: Precision, length: Real) -> Real:
    """KV cache and recurrent state of one sequence on one GPU of the fullest pipeline stage.

    Args:
        model: the model.
        plan: parallel degrees.
        precision: format of the cache.
        length: tokens of the sequence [tokens].

    Returns:
        Bytes [B].

    Valid:
        Windowed and chunked layers keep what they can still read; blocks of the engine's pool and
        engines that keep everything need more.

    Source:
        Sum of `cache_bytes` over the layers.
    """
    nbytes, tp = precision.kv_nbytes, plan.tp
    kept = {mixer: cache_bytes(mixer, length, nbytes, tp) for _, mixer in model.mixers}
    held = (sum(count * kept[mixer] for count, mixer in stage.mixers) for stage in model.stages(plan.pp))
    return reduce(maximum, held)


def activation_bytes(model: Model, plan: Plan, sequences: Real, length: Real, queries: Real = 1.0) -> Real:
    """Activations alive at the widest point of a pass on one GPU.

    Four streams of the model width, the widest projection and its activation, routed copies of an
    MoE layer, and the logits of every sequence.

    Args:
        model: the model.
        plan: parallel degrees.
        sequences: sequences of this rank [sequences].
        length: tokens of each [tokens].
        queries: tokens of each whose logits a step computes [tokens].

    Returns:
        Bytes, an estimate [B].

    Valid:
        Prompts run in chunks of at most `CHUNK_TOKENS` tokens.

    Source:
        An estimate; chunks of 8192 tokens as vLLM's and TensorRT-LLM's defaults.
    """
    tokens = minimum(sequences * length, CHUNK_TOKENS)
    logits = _LOGIT_NBYTES * sequences * queries * model.vocab / plan.tp
    return tokens * _token_bytes(model, plan) + logits


def largest_batch(deployment: Deployment, length: Real) -> Real:
    """Largest batch of one replica that fits, the knee that memory sets.

    .. math:: b_{max} = \\left\\lfloor \\frac{M - W - A - R - C}{pp\\, kv(length) + logits} \\right\\rfloor dp

    with the activations A of a full chunk, or with their own where all sequences together do not fill one, and C kept
    for cached prefixes.

    Args:
        deployment: model, GPU, plan and precision.
        length: tokens that each sequence reaches [tokens].

    Returns:
        Whole sequences, zero where not even one fits [sequences].

    Valid:
        Prompts run in chunks of at most `CHUNK_TOKENS` tokens.

    Source:
        `memory`, solved for the batch.
    """
    return figures_of(_largest_batch, deployment, length)[0]


def _largest_batch(deployment: Deployment, length: Real) -> tuple[Real, ...]:
    model, gpu, plan, precision = deployment.model, deployment.gpu, deployment.plan, deployment.precision
    logits = _LOGIT_NBYTES * model.vocab / plan.tp
    kept = kv_bytes_per_sequence(model, plan, precision, length) + _draft_cache(deployment, length)
    one = plan.pp * kept + logits * deployment.queries
    per_token = _token_bytes(model, plan)
    held = _all_weights(deployment) + _kept_prefixes(deployment)
    free = deployment.engine.gpu_memory_utilization * gpu.memory - held
    packed = maximum(floor((free - CHUNK_TOKENS * per_token) / one), 0.0)
    # Batches whose tokens do not fill a chunk need less: solve again with their own activations.
    loose = maximum(floor(free / (one + per_token * length)), 0.0)
    return (plan.dp * maximum(packed, minimum(loose, floor(CHUNK_TOKENS / length))),)


def _all_weights(deployment: Deployment) -> Real:
    """Weights of the model and of what proposes tokens, counted once [B]."""
    known: Real | None = deployment.memo.get(_all_weights)
    if known is None:
        known = weight_bytes(deployment.model, deployment.plan, deployment.precision) + _draft_weights(deployment)
        deployment.memo[_all_weights] = known
    return known


def _draft_weights(deployment: Deployment) -> Real:
    """Weights of what proposes tokens, which the last pipeline stage holds; a module shares embedding and head [B]."""
    drafting, draft = deployment.drafting, deployment.draft
    if drafting is None or draft is None:
        return 0.0
    model, plan, precision = drafting.model, drafting.plan, drafting.precision
    if not draft.is_module:
        return weight_bytes(model, plan, precision)
    (stage,) = model.stages(1)
    joined = draft.joined * model.hidden * model.hidden * precision.sections["linear"].weight_nbytes
    return _section_bytes(stage_parameters(model, stage, plan.tp, plan.expert_ranks), precision) + joined


def _draft_cache(deployment: Deployment, length: Real) -> Real:
    """KV cache of one sequence in what proposes tokens [B]."""
    drafting = deployment.drafting
    return 0.0 if drafting is None else kv_bytes_per_sequence(drafting.model, drafting.plan, drafting.precision, length)


def _token_bytes(model: Model, plan: Plan) -> Real:
    """Activations of one token at the widest point of a pass [B]."""
    widths = ((count, NETWORK_KINDS[type(ffn)].inner_width(ffn, model.hidden, plan)) for count, ffn in model.ffns)
    widest = reduce(maximum, (where(count > 0, width, 0.0) for count, width in widths))
    return _ACTIVATION_NBYTES * (4.0 * model.hidden + widest)


def _kept_prefixes(deployment: Deployment) -> Real:
    """Share of one GPU in what is kept for cached prefixes [B]."""
    kept = deployment.prefix_cache
    return kept if type(kept) is float and kept == 0.0 else kept / deployment.plan.num_gpus


def _section_bytes(count: ParameterCount, precision: Precision) -> Real:
    sections = precision.sections
    routed = count.experts * sections["experts"].weight_nbytes + count.router * sections["router"].weight_nbytes
    dense = count.linear * sections["linear"].weight_nbytes + count.attention * sections["attention"].weight_nbytes
    shared = count.shared * sections["shared"].weight_nbytes
    return dense + shared + routed + count.norm * sections["norm"].weight_nbytes


def _end_bytes(model: Model, plan: Plan, precision: Precision, stage: Stage) -> Real:
    """Embeddings on the first stage, final norm and head on the last; a tied table is held once."""
    sections = precision.sections
    table = model.vocab * model.hidden / plan.tp
    entry = entry_parameters(model)
    beside = _section_bytes(entry, precision) + entry.embed * sections["embed"].weight_nbytes
    if model.ngrams is not None:
        ngrams = ngram_parameters(model, plan.tp)
        beside = beside + _section_bytes(ngrams, precision) + ngrams.embed * sections["embed"].weight_nbytes
    before = where(stage.is_first, table * sections["embed"].weight_nbytes + beside, 0.0)
    head = table * sections["head"].weight_nbytes
    kept = where(model.tied, where(stage.is_first, 0.0, head), head)
    after = final_parameters(model) * sections["norm"].weight_nbytes + kept
    return before + where(stage.is_last, after, 0.0)
