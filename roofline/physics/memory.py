"""Memory of one GPU: weights, KV cache, activations and a reserve, against what is usable."""

from __future__ import annotations

from functools import reduce
from typing import Generic

from roofline.number_types import Flag, Number
from roofline.ops import Real, comparable, floor, maximum, minimum, where
from roofline.physics.assembly import ACTIVATION_NBYTES, rank_batch
from roofline.physics.layers.kinds import NETWORK_KINDS, cache_bytes
from roofline.physics.parameters import (
    ParameterCount,
    entry_parameters,
    final_parameters,
    ngram_parameters,
    stage_parameters,
)
from roofline.physics.plan import Deployment, ModelQuantization, Plan
from roofline.physics.recurring import figures_of
from roofline.records import NamedTuple
from roofline.specs.layers import Stage
from roofline.specs.model import Model

#: Tokens whose activations are alive together: the largest prefill chunk
#: (default max_num_batched_tokens of vLLM, max_num_tokens of TensorRT-LLM).
CHUNK_TOKENS = 8192.0

_LOGIT_NBYTES = 4.0


@comparable
class Memory(NamedTuple, Generic[Number, Flag]):
    """Memory of the fullest GPU of a replica."""

    weights: Number | float  # [B]
    kv_cache: Number | float  # [B]
    activations: Number | float  # [B]
    reserve: Number | float  # [B]
    usable: Number | float  # [B]
    prefixes: Number | float = 0.0  # [B] prompt cache

    @property
    def used(self) -> Number | float:
        """Sum, the reserve included [B]."""
        return self.weights + self.kv_cache + self.activations + self.reserve + self.prefixes

    @property
    def used_fraction(self) -> Number | float:
        """Share of the usable memory [1]."""
        return self.used / self.usable

    @property
    def fits(self) -> Flag | bool:
        return self.used <= self.usable


def memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    """Memory of the fullest GPU while `batch` sequences of `length` tokens are in a step.

    Args:
        deployment: model, GPU, plan and quantization.
        batch: sequences that one replica advances together; pp such batches are in flight [sequences].
        length: tokens that each sequence reaches, prompt and answer [tokens].

    Returns:
        Memory by use [B].

    Source:
        Arithmetic; the reserve is what the engine's gpu_memory_utilization leaves (CUDA context, graphs, communication
        buffers, fragmentation).
    """
    if not type(batch) is type(length) is float:
        return Memory(*figures_of(_memory, deployment, batch, length))
    case, last = deployment.memo.get(memory, ((), None))  # callers ask whether a case fits, then how much it takes
    if case != (batch, length):
        last = Memory(*figures_of(_memory, deployment, batch, length))
        deployment.memo[memory] = (batch, length), last
    used: Memory = last
    return used


def _memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    model, gpu, plan, quantization = deployment.model, deployment.gpu, deployment.plan, deployment.quantization
    sequences = rank_batch(batch, plan.dp) * plan.pp
    return Memory(
        weights=_all_weights(deployment),
        kv_cache=sequences
        * (kv_bytes_per_sequence(model, plan, quantization, length) + _draft_cache(deployment, length)),
        activations=activation_bytes(model, plan, rank_batch(batch, plan.dp), length, deployment.queries),
        reserve=(1.0 - deployment.engine.gpu_memory_utilization) * gpu.memory,
        usable=gpu.memory,
        prefixes=_prefix_bytes(deployment),
    )


def weight_bytes(model: Model, plan: Plan, quantization: ModelQuantization) -> Real:
    """Weights of the fullest pipeline stage on one GPU.

    Args:
        model: the model.
        plan: parallel degrees.
        quantization: formats of the sections.

    Returns:
        Bytes, block scales included [B].

    Source:
        Shapes of the checkpoints' tensors; block scales of docs/method.md, "Number formats".
    """
    stages = (
        _section_bytes(stage_parameters(model, stage, plan.tp, plan.expert_ranks), quantization)
        + _end_bytes(model, plan, quantization, stage)
        for stage in model.stages(plan.pp)
    )
    return reduce(maximum, stages)


def kv_bytes_per_sequence(model: Model, plan: Plan, quantization: ModelQuantization, length: Real) -> Real:
    """KV cache and recurrent state of one sequence on one GPU of the fullest pipeline stage.

    Args:
        model: the model.
        plan: parallel degrees.
        quantization: format of the cache.
        length: tokens of the sequence [tokens].

    Returns:
        Bytes [B].

    Valid:
        Windowed and chunked layers keep what they can still read; KV blocks, and engines that keep everything, need
        more.

    Source:
        Sum of `cache_bytes` over the layers.
    """
    nbytes, tp = quantization.kv_nbytes, plan.tp
    per_layer = {mixer: cache_bytes(mixer, length, nbytes, tp) for _, mixer in model.mixers}
    stages = (sum(count * per_layer[mixer] for count, mixer in stage.mixers) for stage in model.stages(plan.pp))
    return reduce(maximum, stages)


def activation_bytes(model: Model, plan: Plan, sequences: Real, length: Real, queries: Real = 1.0) -> Real:
    """Activations alive at the widest point of a pass on one GPU.

    Four streams of the model width, the widest projection and its activation, the routed copies of an MoE layer, and
    the logits of every sequence.

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
    """Largest batch of one replica that fits: the memory knee.

    .. math:: b_{max} = \\left\\lfloor \\frac{M - W - A - R - C}{pp\\, kv(length) + logits} \\right\\rfloor dp

    with activations A of a full chunk, or those of all sequences where they do not fill one, and the prompt cache C.

    Args:
        deployment: model, GPU, plan and quantization.
        length: tokens that each sequence reaches [tokens].

    Returns:
        Whole sequences; zero where not even one fits [sequences].

    Valid:
        Prompts run in chunks of at most `CHUNK_TOKENS` tokens.

    Source:
        `memory`, solved for the batch.
    """
    return figures_of(_largest_batch, deployment, length)[0]


def _largest_batch(deployment: Deployment, length: Real) -> tuple[Real, ...]:
    model, gpu, plan, quantization = deployment.model, deployment.gpu, deployment.plan, deployment.quantization
    logits = _LOGIT_NBYTES * model.vocab / plan.tp
    cache = kv_bytes_per_sequence(model, plan, quantization, length) + _draft_cache(deployment, length)
    per_sequence = plan.pp * cache + logits * deployment.queries
    per_token = _token_bytes(model, plan)
    fixed = _all_weights(deployment) + _prefix_bytes(deployment)
    free = deployment.engine.gpu_memory_utilization * gpu.memory - fixed
    full_chunk = maximum(floor((free - CHUNK_TOKENS * per_token) / per_sequence), 0.0)
    # Batches whose tokens do not fill a chunk need less for activations.
    partial_chunk = maximum(floor(free / (per_sequence + per_token * length)), 0.0)
    return (plan.dp * maximum(full_chunk, minimum(partial_chunk, floor(CHUNK_TOKENS / length))),)


def _all_weights(deployment: Deployment) -> Real:
    """Weights of the model and of the draft model [B]."""
    nbytes: Real | None = deployment.memo.get(_all_weights)
    if nbytes is None:
        nbytes = weight_bytes(deployment.model, deployment.plan, deployment.quantization) + _draft_weights(deployment)
        deployment.memo[_all_weights] = nbytes
    return nbytes


def _draft_weights(deployment: Deployment) -> Real:
    """Weights of the draft model, on the last pipeline stage; a module shares embedding and head [B]."""
    drafting, draft = deployment.drafting, deployment.draft
    if drafting is None or draft is None:
        return 0.0
    model, plan, quantization = drafting.model, drafting.plan, drafting.quantization
    if not draft.is_module:
        return weight_bytes(model, plan, quantization)
    (stage,) = model.stages(1)
    joined = draft.joined * model.hidden * model.hidden * quantization.sections["linear"].weight_nbytes
    return _section_bytes(stage_parameters(model, stage, plan.tp, plan.expert_ranks), quantization) + joined


def _draft_cache(deployment: Deployment, length: Real) -> Real:
    """KV cache of one sequence in the draft model [B]."""
    draft = deployment.drafting
    return 0.0 if draft is None else kv_bytes_per_sequence(draft.model, draft.plan, draft.quantization, length)


def _token_bytes(model: Model, plan: Plan) -> Real:
    """Activations of one token at the widest point of a pass [B]."""
    widths = ((count, NETWORK_KINDS[type(ffn)].inner_width(ffn, model.hidden, plan)) for count, ffn in model.ffns)
    widest = reduce(maximum, (where(count > 0, width, 0.0) for count, width in widths))
    return ACTIVATION_NBYTES * (4.0 * model.hidden + widest)


def _prefix_bytes(deployment: Deployment) -> Real:
    """Prompt cache on one GPU [B]."""
    nbytes = deployment.prefix_cache
    return nbytes if type(nbytes) is float and nbytes == 0.0 else nbytes / deployment.plan.num_gpus


def _section_bytes(count: ParameterCount, quantization: ModelQuantization) -> Real:
    sections = quantization.sections
    routed = count.experts * sections["experts"].weight_nbytes + count.router * sections["router"].weight_nbytes
    dense = count.linear * sections["linear"].weight_nbytes + count.attention * sections["attention"].weight_nbytes
    shared = count.shared * sections["shared"].weight_nbytes
    return dense + shared + routed + count.norm * sections["norm"].weight_nbytes


def _end_bytes(model: Model, plan: Plan, quantization: ModelQuantization, stage: Stage) -> Real:
    """Embeddings on the first stage, final norm and head on the last; a tied table is held once."""
    sections = quantization.sections
    table = model.vocab * model.hidden / plan.tp
    entry, embed_nbytes = entry_parameters(model), sections["embed"].weight_nbytes
    entry_bytes = _section_bytes(entry, quantization) + entry.embed * embed_nbytes
    if model.ngrams is not None:
        ngrams = ngram_parameters(model, plan.tp)
        entry_bytes = entry_bytes + _section_bytes(ngrams, quantization) + ngrams.embed * embed_nbytes
    first = where(stage.is_first, table * embed_nbytes + entry_bytes, 0.0)
    head = table * sections["head"].weight_nbytes
    head = where(model.tied, where(stage.is_first, 0.0, head), head)
    last = final_parameters(model) * sections["norm"].weight_nbytes + head
    return first + where(stage.is_last, last, 0.0)
