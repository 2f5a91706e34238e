"""Memory of one GPU: weights, KV cache, activations and a reserve, against what is usable."""

from __future__ import annotations

from functools import reduce
from typing import Generic

from roofline.numbers.operations import Flag, Number, Real, ceil, comparable, floor, maximum, minimum, never, where
from roofline.physics.assembly import (
    ACTIVATION_NBYTES,
    altup_parameters,
    layer_input_parameters,
    local,
    lookup_parameters,
    rank_batch,
)
from roofline.physics.layers.kinds import (
    MIXER_KINDS,
    NETWORK_KINDS,
    cache_bytes,
    is_sharded,
    mixer_parameters,
    shard_bytes,
)
from roofline.physics.plan import Deployment, ModelQuantization, Offload, Plan
from roofline.physics.programs import figures_of
from roofline.specs.engine import OF_ALL, OF_FREE, StartUp
from roofline.specs.formats import number_format
from roofline.specs.model import Ffn, Gqa, Layer, MemoryFfn, Mixer, Model, MoeFfn, Relative, Stage
from roofline.support.records import NamedTuple, replace

#: Tokens whose activations are alive together: the largest prefill chunk
#: (default max_num_batched_tokens of vLLM, max_num_tokens of TensorRT-LLM).
CHUNK_TOKENS = 8192.0

_LOGIT_NBYTES = 4.0
_CAPTURED = 512.0  # [sequences] of the largest CUDA graph
_SIZES = 51.0  # of CUDA graphs up to that: 1, 2, 4, each 8 up to 256, each 16 up to 512


@comparable
class Memory(NamedTuple, Generic[Number, Flag]):
    """Memory of the fullest GPU of a replica."""

    weights: Number | float  # [B]
    kv_cache: Number | float  # [B]
    activations: Number | float  # [B]
    reserve: Number | float  # [B]
    usable: Number | float  # [B]
    prefixes: Number | float = 0.0  # [B] prompt cache
    adapters: Number | float = 0.0  # [B] slots of LoRA adapters

    @property
    def used(self) -> Number | float:
        """Sum, the reserve included [B]."""
        return self.weights + self.kv_cache + self.activations + self.reserve + self.prefixes + self.adapters

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
        Arithmetic; of an engine whose start is known, `start_up_memory`; of others the reserve is what their
        gpu_memory_utilization leaves (CUDA context, graphs, communication buffers, fragmentation).
    """
    if not type(batch) is type(length) is float:
        return Memory(*figures_of(_memory, deployment, batch, length))
    case, last = deployment.memo.get(memory, ((), None))  # callers ask whether a case fits, then how much it takes
    if case != (batch, length):
        last = Memory(*figures_of(_memory, deployment, batch, length))
        deployment.memo[memory] = (batch, length), last
    used: Memory = last
    return used


class Held(NamedTuple):
    """What the layers of the fullest stage hold on one GPU."""

    weights: Real  # [B] of the model and of its draft, without those in host memory
    sequence: Real  # [B] KV cache of one sequence
    token: Real  # [B] activations of one token at the widest point
    padding: Real = 0.0  # [B] by which kernels pad the experts
    layers: Real = 0.0  # of the stage with the most of them
    adapters: Real = 0.0  # [B] slots of adapters
    workspace: Real = 0.0  # [B] of the encoders of images and audio


def _held(deployment: Deployment, length: Real = 0.0) -> Held:
    """What the layers hold where sequences are so long [tokens]."""
    model, plan = deployment.model, deployment.plan
    weights, token = _deployed_weights(deployment), _token_bytes(model, plan)
    sequence = _sequence_bytes(deployment, length) + _draft_cache(deployment, length)
    adapters = _adapter_slots(deployment)
    workspace: Real = 0.0
    if deployment.media is not None:
        from roofline.physics.encoders import encoder_workspace

        workspace = encoder_workspace(deployment)
    if not deployment.engine.start_up:
        return Held(weights, sequence, token, adapters=adapters, workspace=workspace)
    layers = reduce(maximum, (stage.layers for stage in model.stages(plan.pp)))
    padding = _padding_bytes(deployment, start_up_rule(deployment))
    return Held(weights, sequence, token, padding, layers, adapters, workspace)


def _adapter_slots(deployment: Deployment) -> Real:
    """Memory that is set aside for adapters [B]."""
    if deployment.adapters is None:
        return 0.0
    from roofline.physics.adapters import adapter_bytes

    return adapter_bytes(deployment.model, deployment.plan, deployment.adapters)


def _memory(deployment: Deployment, batch: Real, length: Real) -> Memory:
    return memory_of(deployment, _held(deployment, length), batch, length)


def memory_of(deployment: Deployment, held: Held, batch: Real, length: Real) -> Memory:
    """As `memory`, from what the layers hold."""
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    kv_cache = rank_batch(batch, plan.dp) * plan.pp * held.sequence
    prefixes = deployment.prefix_cache / plan.num_gpus
    if deployment.engine.start_up:
        begun = start_up_of(deployment, held)
        reserve = gpu.memory - begun.weights - begun.activations - begun.kv_cache
        weights = begun.weights - held.adapters
        return Memory(weights, kv_cache, begun.activations, reserve, gpu.memory, prefixes, held.adapters)
    sequences = rank_batch(batch, plan.dp)
    return Memory(
        weights=held.weights,
        kv_cache=kv_cache,
        activations=_beside(_activations(model, plan, held.token, sequences, length, deployment.queries), held),
        reserve=(1.0 - deployment.engine.gpu_memory_utilization) * gpu.memory,
        usable=gpu.memory,
        prefixes=prefixes,
        adapters=held.adapters,
    )


class StartUpMemory(NamedTuple, Generic[Number]):
    """Memory of the fullest GPU of a replica when its engine has started."""

    total: Number | float  # [B] of the GPU, as its driver reports it
    weights: Number | float  # [B] adapters included
    activations: Number | float  # [B] of one pass over the token budget, or of the sampler
    graphs: Number | float  # [B] CUDA graphs
    other: Number | float  # [B] CUDA context, workspaces, communication buffers
    kv_cache: Number | float  # [B] left for the KV cache and cached prefixes; negative where nothing is


def start_up_memory(deployment: Deployment) -> StartUpMemory[float]:
    r"""Memory of the fullest GPU when the engine of a deployment has started.

    .. math:: KV = u M - W - A - O - G,\quad KV = u (M - C) - W - O,\quad KV = u (M - C - W - A - O - G)

    for a share u of all memory M (vLLM), of what is free before the weights W are loaded (SGLang), and of what is free
    after them (TensorRT-LLM), with the CUDA context C, workspaces O, activations A and CUDA graphs G.

    Args:
        deployment: model, GPU, plan, quantization and engine.

    Returns:
        Memory by use [B]; an estimate, but for the weights.

    Valid:
        Text models, with the memory of the GPU to themselves.

    Source:
        vLLM v0.33.0, v1/worker/gpu_worker.py, determine_available_memory; SGLang v0.5.23,
        mem_cache/kv_cache_configurator.py, _profile_available_bytes; TensorRT-LLM v1.2.1, _torch/pyexecutor/_util.py,
        KvCacheCreator; constants of engine_specs, fitted by accuracy/fit_start_up.py.
    """
    return StartUpMemory(*figures_of(_start_up_memory, deployment))


def start_up_rule(deployment: Deployment) -> StartUp:
    """How the engine divides the memory; that of one without overheads where none is known."""
    return deployment.engine.start_up[0] if deployment.engine.start_up else StartUp()


def _start_up_memory(deployment: Deployment) -> StartUpMemory[Real]:
    return start_up_of(deployment, _held(deployment))


def start_up_of(deployment: Deployment, held: Held) -> StartUpMemory[Real]:
    """As `start_up_memory`, from what the layers hold."""
    engine, plan, rule = deployment.engine, deployment.plan, start_up_rule(deployment)
    share, total = engine.gpu_memory_utilization, deployment.gpu.memory - rule.driver
    weights = held.weights + held.padding + held.adapters  # engines log adapters as part of the model
    graphs = _graph_bytes(deployment, rule, held.layers)
    activations = _beside(_budget_activations(deployment, rule, held.token), held)
    linked = where(plan.num_gpus > 1, rule.linked, 0.0)
    if rule.share_of == OF_ALL:
        counted = graphs if rule.counts_graphs else 0.0
        cache = share * total - weights - activations - rule.fixed - linked - counted
    elif rule.share_of == OF_FREE:
        cache = share * (total - rule.context - linked) - weights - rule.fixed
    else:
        cache = share * (total - rule.context - linked - weights - activations - rule.fixed - graphs)
    return StartUpMemory(total, weights, activations, graphs, rule.context + rule.fixed + linked, cache)


def _beside(nbytes: Real, held: Held) -> Real:
    """Bytes, and the workspace of encoders where there is one [B]."""
    return nbytes if type(held.workspace) is float and held.workspace == 0.0 else nbytes + held.workspace


def _padding_bytes(deployment: Deployment, rule: StartUp) -> Real:
    """What kernels of MXFP4 add to the experts, whose widths they pad [B]."""
    model, plan, scheme = deployment.model, deployment.plan, deployment.quantization.sections["experts"]
    is_padded = scheme.format == "mxfp4"
    if rule.padded_experts == 1 or never(is_padded) or not model.is_moe:
        return 0.0
    widths = [ffn.width / plan.expert_tp for _, ffn in model.ffns if isinstance(ffn, MoeFfn)]
    factors = (padding_factor(width, rule.padded_experts) for width in widths)
    experts = (stage_parameters(model, stage, plan.tp, plan.expert_ranks).experts for stage in model.stages(plan.pp))
    return where(
        is_padded, padding_bytes(reduce(maximum, experts), scheme.weight_nbytes, reduce(maximum, factors)), 0.0
    )


def padding_bytes(experts: Real, nbytes: Real, factor: Real) -> Real:
    """The same, from the parameters of the experts, their bytes each, and the factor on their width."""
    return experts * nbytes * (factor - 1.0)


def padding_factor(width: Real, padded: Real) -> Real:
    """Width of an expert in whole multiples of some number, over the width."""
    return padded * ceil(width / padded) / width


def _budget_activations(deployment: Deployment, rule: StartUp, token: Real) -> Real:
    """Activations of a pass over the token budget, of the compiler, or logits that the sampler copies: the most [B]."""
    engine, model = deployment.engine, deployment.model
    tokens = CHUNK_TOKENS if engine.max_num_batched_tokens is None else engine.max_num_batched_tokens
    sequences = tokens if engine.max_num_seqs is None else minimum(engine.max_num_seqs, tokens)
    passed = rule.activations * tokens * token
    streams = 2.0 * ACTIVATION_NBYTES * tokens * model.hidden
    compiled = rule.table * (ACTIVATION_NBYTES * model.vocab * model.hidden / deployment.plan.tp + streams)
    return maximum(maximum(passed, compiled), rule.sampler * _LOGIT_NBYTES * sequences * model.vocab)


def _graph_bytes(deployment: Deployment, rule: StartUp, layers: Real) -> Real:
    """CUDA graphs of all captured batch sizes [B]."""
    most = deployment.engine.max_num_seqs
    captured = _CAPTURED if most is None else minimum(2.0 * most, _CAPTURED)
    return rule.graph * layers * _SIZES * captured / _CAPTURED


def weight_bytes(model: Model, plan: Plan, quantization: ModelQuantization, redundant: Real | None = None) -> Real:
    """Weights of the fullest pipeline stage on one GPU.

    Args:
        model: the model.
        plan: parallel degrees.
        quantization: formats of the sections.
        redundant: slots for copies of experts in each layer, on all ranks; None for none [1].

    Returns:
        Bytes, block scales included [B].

    Source:
        Shapes of the checkpoints' tensors; block scales of docs/method.md, "Number formats".
    """
    stages = (
        stage_bytes(model, plan, quantization, stage, stage_parameters(model, stage, plan.tp, plan.expert_ranks))
        for stage in model.stages(plan.pp)
    )
    if redundant is not None:
        copies = (redundant_bytes(model, plan, quantization, stage, redundant) for stage in model.stages(plan.pp))
        stages = (held + more for held, more in zip(stages, copies, strict=True))
    return reduce(maximum, stages)


def redundant_bytes(model: Model, plan: Plan, quantization: ModelQuantization, stage: Stage, redundant: Real) -> Real:
    r"""Copies of experts on one GPU of a pipeline stage.

    .. math:: W_R = \sum_{layers} \frac{R}{ep} \cdot \frac{\text{bytes of an expert}}{tp_e}

    Args:
        model: the model.
        plan: parallel degrees; one rank (ep = 1) holds no copies.
        quantization: formats of the sections.
        stage: layers of the stage.
        redundant: slots R of each layer, on all ranks [1].

    Returns:
        Bytes, block scales included [B].

    Source:
        Arithmetic: R slots of a layer are spread over the ranks as its experts are.
    """
    nbytes: Real = 0.0
    for count, ffn in stage.ffns:
        if isinstance(ffn, MoeFfn):
            held = NETWORK_KINDS[MoeFfn].matrices.values(ffn, model.hidden, plan.tp, plan.expert_ranks)
            nbytes = nbytes + count * held["experts"] * redundant / ffn.experts
    return where(plan.ep > 1, nbytes * quantization.sections["experts"].weight_nbytes, 0.0)


def stage_bytes(model: Model, plan: Plan, quantization: ModelQuantization, stage: Stage, count: ParameterCount) -> Real:
    """Weights of a pipeline stage on one GPU [B], whose layers have so many parameters."""
    return _section_bytes(count, quantization) + _end_bytes(model, plan, quantization, stage)


def offloadable_bytes(deployment: Deployment, offload: Offload) -> Real:
    """Weights on one GPU of the fullest stage that may stay in host memory: layers, experts, or tables of n-grams.

    Args:
        deployment: model, plan and quantization.
        offload: what stays there.

    Returns:
        Bytes, without embeddings and LM head [B].

    Source:
        `stage_bytes`; vLLM offloads parameters of decoder layers alone, those that `cpu_offload_params` names.
    """
    model, plan, quantization = deployment.model, deployment.plan, deployment.quantization
    if offload.is_tables:
        return ngram_table_bytes(model, plan.tp, quantization.sections["embed"].weight_nbytes)
    counts = (stage_parameters(model, stage, plan.tp, plan.expert_ranks) for stage in model.stages(plan.pp))
    if offload.is_experts:
        counts = (ParameterCount(experts=count.experts) for count in counts)
    return reduce(maximum, (_section_bytes(count, quantization) for count in counts))


def offloaded_bytes(deployment: Deployment) -> Real:
    r"""Weights of one GPU that stay in host memory.

    .. math:: Q_h = \min(X, Q)

    Args:
        deployment: model, plan, quantization and offload, X bytes per GPU of the Q that may be.

    Returns:
        Bytes; zero without offload [B].

    Source:
        vLLM, model_executor/offloader/uva.py: parameters until their sum reaches `cpu_offload_gb`.
    """
    offload = deployment.offload
    if offload is None:
        return 0.0
    most = offloadable_bytes(deployment, offload)
    return most if offload.size is None else minimum(offload.size, most, "every weight that may is offloaded")


def kv_bytes_per_sequence(
    model: Model, plan: Plan, quantization: ModelQuantization, length: Real, full_length: Real = 0.0
) -> Real:
    """KV cache and recurrent state of one sequence on one GPU of the fullest pipeline stage.

    Args:
        model: the model.
        plan: parallel degrees.
        quantization: format of the cache.
        length: tokens of the sequence [tokens].
        full_length: share of the sequence that windowed and chunked layers keep at least (`Engine.full_length_kv`) [1].

    Returns:
        Bytes [B].

    Valid:
        Whole KV blocks need a little more.

    Source:
        Sum over the layers of `cache_bytes`, of windowed and chunked layers the larger of that and the share of what
        the layer would keep without its limit.
    """
    nbytes, tp = quantization.kv_nbytes, plan.tp
    per_layer = {mixer: kept_bytes(mixer, length, nbytes, tp, full_length) for _, mixer in model.mixers}
    if plan.splits_context:
        per_layer = {
            mixer: shard_bytes(mixer, length, nbytes, tp, plan.shards) if is_sharded(mixer) else whole
            for mixer, whole in per_layer.items()
        }
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
    return _activations(model, plan, _token_bytes(model, plan), sequences, length, queries)


def _activations(model: Model, plan: Plan, token: Real, sequences: Real, length: Real, queries: Real) -> Real:
    tokens = minimum(sequences * length, CHUNK_TOKENS)
    logits = _LOGIT_NBYTES * sequences * queries * model.vocab / plan.tp
    return tokens * token + logits


def largest_batch(deployment: Deployment, length: Real) -> Real:
    """Largest batch of one replica that fits: the memory knee.

    .. math:: b_{max} = \\left\\lfloor \\frac{M - W - A - R - C}{pp\\, kv(length) + logits} \\right\\rfloor dp

    with activations A of a full chunk, or those of all sequences where they do not fill one, and the prompt cache C; of
    an engine whose start is known, what `start_up_memory` leaves.

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
    return (largest_of(deployment, _held(deployment, length), length),)


def largest_of(deployment: Deployment, held: Held, length: Real) -> Real:
    """As `largest_batch`, from what the layers hold."""
    model, gpu, plan, cache = deployment.model, deployment.gpu, deployment.plan, held.sequence
    if deployment.engine.start_up:
        left = start_up_of(deployment, held).kv_cache - deployment.prefix_cache / plan.num_gpus
        return plan.dp * maximum(floor(left / (plan.pp * cache)), 0.0)
    logits = _LOGIT_NBYTES * model.vocab / plan.tp
    per_sequence = plan.pp * cache + logits * deployment.queries
    per_token = held.token
    fixed = _beside(held.weights + deployment.prefix_cache / plan.num_gpus + held.adapters, held)
    free = deployment.engine.gpu_memory_utilization * gpu.memory - fixed
    full_chunk = maximum(floor((free - CHUNK_TOKENS * per_token) / per_sequence), 0.0)
    # Batches whose tokens do not fill a chunk need less for activations.
    partial_chunk = maximum(floor(free / (per_sequence + per_token * length)), 0.0)
    return plan.dp * maximum(full_chunk, minimum(partial_chunk, floor(CHUNK_TOKENS / length)))


def _deployed_weights(deployment: Deployment) -> Real:
    """Weights of the model and of the draft model [B]."""
    nbytes: Real | None = deployment.memo.get(_deployed_weights)
    if nbytes is None:
        redundant = deployment.spread.redundant
        offload, model = deployment.offload, deployment.model
        if offload is not None and offload.is_tables and model.ngrams is not None:  # which the first stage has
            model = replace(model, ngrams=replace(model.ngrams, rows=0))
        nbytes = weight_bytes(model, deployment.plan, deployment.quantization, redundant)
        nbytes = nbytes + _draft_weights(deployment)
        if offload is not None and not offload.is_tables:
            nbytes = nbytes - offloaded_bytes(deployment)
        if deployment.media is not None:
            from roofline.physics.encoders import encoder_bytes

            nbytes = nbytes + encoder_bytes(deployment)
        deployment.memo[_deployed_weights] = nbytes
    return nbytes


def kept_bytes(mixer: Mixer, length: Real, nbytes: Real, tp: Real, full_length: Real) -> Real:
    """KV cache of one sequence in a layer, of which at least a share is kept [B]."""
    read = cache_bytes(mixer, length, nbytes, tp)
    if not isinstance(mixer, (Gqa, Relative)) or (type(full_length) is float and full_length == 0.0):
        return read
    if isinstance(mixer, Relative):
        return maximum(read, full_length * cache_bytes(replace(mixer, window=None), length, nbytes, tp))
    if mixer.window is None and mixer.chunk is None:
        return read
    return maximum(read, full_length * cache_bytes(replace(mixer, window=None, chunk=None), length, nbytes, tp))


def _sequence_bytes(deployment: Deployment, length: Real) -> Real:
    """KV cache of one sequence as the engine keeps it [B]."""
    model, plan, share = deployment.model, deployment.plan, deployment.engine.full_length_kv
    return kv_bytes_per_sequence(model, plan, deployment.quantization, length, share)


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
    return 0.0 if draft is None else _sequence_bytes(draft, length)


def _token_bytes(model: Model, plan: Plan) -> Real:
    """Activations of one token at the widest point of a pass [B]."""
    widths = ((count, NETWORK_KINDS[type(ffn)].inner_width(ffn, model.hidden, plan)) for count, ffn in model.ffns)
    return token_bytes(model, reduce(maximum, (where(count > 0, width, 0.0) for count, width in widths)))


def token_bytes(model: Model, widest: Real) -> Real:
    """The same, from the values inside the widest network."""
    return ACTIVATION_NBYTES * (4.0 * model.hidden + widest)


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
        entry_bytes = (
            entry_bytes + _section_bytes(ngrams, quantization) + ngram_table_bytes(model, plan.tp, embed_nbytes)
        )
    first = where(stage.is_first, table * embed_nbytes + entry_bytes, 0.0)
    head = table * sections["head"].weight_nbytes
    head = where(model.tied, where(stage.is_first, 0.0, head), head)
    last = final_parameters(model) * sections["norm"].weight_nbytes + head
    return first + where(stage.is_last, last, 0.0)


# KV cache per token and state per sequence of a model, regardless of GPU and plan.

_LONG = 1 << 17  # tokens, where a model states no context limit


def kv_bytes_per_token(model: Model) -> Real:
    """KV cache [B] of one token in all layers, index keys included, in the model's own number format."""
    return _cached(model, 1.0)


def kv_growth_per_token(model: Model) -> Real:
    """KV cache [B] that one more token adds at the context limit, where windows are full."""
    length = float(model.max_context or _LONG)
    return _cached(model, length) - _cached(model, length - 1.0)


def state_bytes_per_sequence(model: Model) -> Real:
    """Recurrent state [B] of one sequence in all layers."""
    return sum(layers * cache_bytes(mixer, 0.0, 1.0) for layers, mixer in model.mixers)


def attends(model: Model) -> bool:
    """Whether any layer has a KV cache."""
    return any(MIXER_KINDS[type(mixer)].is_attention for _, mixer in model.mixers)


def _cached(model: Model, tokens: float) -> Real:
    """KV cache of one sequence, without recurrent states [B]."""
    nbytes = number_format(model.native["kv"]).nbytes
    return float(
        sum(
            count * (cache_bytes(mixer, tokens, nbytes) - cache_bytes(mixer, 0.0, nbytes))
            for count, mixer in model.mixers
            if MIXER_KINDS[type(mixer)].is_attention
        )
    )


# Parameters by section, of a whole model or on one rank.

#: What published counts of active parameters leave out, besides idle experts.
CONVENTIONS = ("all", "no-embedding", "no-embedding-no-head")


class ParameterCount(NamedTuple):
    """Parameters by the section whose number format they share."""

    linear: float = 0.0  # dense feed-forward networks
    attention: float = 0.0  # matrices of the mixers
    shared: float = 0.0  # shared experts, and projections to the latent of the routed ones
    experts: float = 0.0
    router: float = 0.0
    norm: float = 0.0  # norms, biases and sinks: kept in 16 bits
    embed: float = 0.0
    head: float = 0.0  # zero where the head shares the embedding

    @property
    def total(self) -> float:
        return 1.0 * sum(self)

    def plus(self, other: ParameterCount, times: Real = 1) -> ParameterCount:
        """Sum with `times` another count."""
        return ParameterCount(*(count + times * more for count, more in zip(self, other, strict=True)))


def parameters(model: Model) -> ParameterCount:
    """Parameters of a whole model, to the unit, without draft modules.

    Args:
        model: the model.

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    table = 1.0 * model.vocab * model.hidden
    ends = ParameterCount(norm=final_parameters(model), embed=table, head=0.0 if model.tied else table)
    count = ends.plus(entry_parameters(model)).plus(stage_parameters(model, model.stages(1)[0]))
    return count if model.ngrams is None else count.plus(ngram_parameters(model))


def entry_parameters(model: Model) -> ParameterCount:
    """Parameters before the first layer, besides the token embedding: other tables, preparation of layers' inputs.

    Args:
        model: the model.

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    inputs, norm = layer_input_parameters(model, of_layer=False)
    streams, _, _ = altup_parameters(model, of_layer=False)
    return ParameterCount(linear=inputs + streams, norm=norm, embed=lookup_parameters(model))


def final_parameters(model: Model) -> Real:
    """Parameters between the last layer and the LM head's matrix: a norm, stream weights, the head's bias.

    A norm between the embedding and the first layer counts here.

    Args:
        model: the model.

    Returns:
        The count [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    bias = where(model.head_bias, model.vocab, 0)
    return model.final_norms * _norm_values(model) + stream_parameters(model, is_head=True) + bias


def active_parameters(model: Model, convention: str = "no-embedding") -> float:
    """Parameters that one token uses: all but the idle experts and what a convention leaves out.

    Args:
        model: the model.
        convention: one of `CONVENTIONS`; publishers differ, and the input embedding does no arithmetic [text].

    Returns:
        The count [1].

    Source:
        Counts on model cards, which differ by `CONVENTIONS`.
    """
    count = parameters(model)
    idle = sum(
        layers * (ffn.experts - ffn.chosen) * _expert_values(ffn, model.hidden)
        for layers, ffn in model.ffns
        if isinstance(ffn, MoeFfn)
    )
    idle = idle + _idle_rows(model)
    tables = 0.0 if model.ngrams is None else ngram_parameters(model).embed  # of which a token reads a few rows
    ends = {"all": tables, "no-embedding": count.embed, "no-embedding-no-head": count.embed + count.head}
    excluded = ends[convention]
    if model.tied and convention == "no-embedding":
        excluded = lookup_parameters(model) + tables  # the token embedding is the head too
    return float(count.total - idle - excluded)


def _idle_rows(model: Model) -> Real:
    """Values of memories that a token does not read."""
    memories = [(layers, ffn) for layers, ffn in model.ffns if isinstance(ffn, MemoryFfn)]
    if not memories:
        return 0.0
    from roofline.physics.layers.memories import idle_memory

    return sum(layers * idle_memory(ffn) for layers, ffn in memories)


def stage_parameters(model: Model, stage: Stage, tp: Real = 1, expert_ranks: Real = 1) -> ParameterCount:
    """Parameters of the layers of a pipeline stage on one rank.

    KV projections are replicated where tp exceeds the KV heads; latent projections of MLA, the router and norms always
    are.

    Args:
        model: the model, for its width and norms.
        stage: its layers.
        tp: tensor-parallel degree [1].
        expert_ranks: ranks over which the experts are spread [1].

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    count = ParameterCount()
    for times, mixer in stage.mixers:
        count = count.plus(mixer_count(model, mixer, tp), times)
    for times, ffn in stage.ffns:
        count = count.plus(network_count(ffn, model.hidden, tp, expert_ranks), times)
    return count


def layer_parameters(model: Model, layer: Layer, tp: Real = 1, expert_ranks: Real = 1) -> ParameterCount:
    """Parameters of one layer on one rank.

    Args:
        model: the model, for its width and norms.
        layer: the layer.
        tp: tensor-parallel degree [1].
        expert_ranks: ranks over which the experts are spread [1].

    Returns:
        Counts by section [1].

    Source:
        Shapes of the checkpoints' tensors; checked against published totals in the tests.
    """
    return network_count(layer.ffn, model.hidden, tp, expert_ranks).plus(mixer_count(model, layer.mixer, tp))


def mtp_parameters(model: Model) -> Real:
    """Parameters of the draft modules for speculative decoding, which no total includes.

    Each has a layer like the last, norms of its two inputs and of its output, and a matrix that joins the hidden state
    with the embedding of the previous draft token. It shares the model's embedding and head.

    Args:
        model: the model.

    Returns:
        The count; zero without draft modules [1].

    Source:
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2.
    """
    last = layer_parameters(model, model.groups[-1].layers[-1]).total
    return model.mtp_layers * (last + 2.0 * model.hidden * model.hidden + 3.0 * _norm_values(model))


def stream_parameters(model: Model, *, is_head: bool = False) -> Real:
    """Parameters that mix the residual streams of a layer, or collapse them before the head.

    Args:
        model: the model with s streams; one stream is an ordinary residual connection without parameters.
        is_head: whether to count those before the head [bool].

    Returns:
        Per layer, twice s (2 + s) x s h weights with their biases and scales. With a gate of rank r, twice 2 r x s h
        and s x s h weights, and the part of norms over all streams that exceeds one stream [1].

    Source:
        Manifold-constrained hyper-connections of DeepSeek-V4, gated residuals of Qwen4Exp (transformers, 2026).
    """
    streams = model.streams
    if streams == 1 or (is_head and model.stream_average):
        return 0.0
    width = streams * model.hidden
    if model.stream_rank:
        gate = 2.0 * model.stream_rank * width + width - model.hidden
        return 1.0 * gate if is_head else 2.0 * (gate + streams * width)
    if is_head:
        return 1.0 * (streams * width + streams + 1)
    mixed = (2 + streams) * streams
    return 2.0 * (mixed * width + mixed + 3)


def ngram_parameters(model: Model, tp: Real = 1) -> ParameterCount:
    """Parameters of n-gram embeddings on one rank, which has its share of the tables' columns.

    Args:
        model: the model with s streams.
        tp: tensor-parallel degree [1].

    Returns:
        The tables; for each, one key per stream and one value, three norms and a convolution of k tokens over all
        streams. Zero where a model has none [1].

    Source:
        Per-layer embeddings of Qwen4Exp (transformers 5.23, 2026).
    """
    if model.ngrams is None:
        return ParameterCount()
    from roofline.physics.layers.memories import ngram_values

    linear, norm, embed = ngram_values(model, model.ngrams, tp)
    return ParameterCount(linear=linear, norm=norm, embed=embed)


def ngram_table_bytes(model: Model, tp: Real, embed_nbytes: Real) -> Real:
    """Tables of n-grams on one rank.

    Args:
        model: the model.
        tp: tensor-parallel degree [1].
        embed_nbytes: bytes per value of the embedding [B].

    Returns:
        Bytes; zero where a model has none [B].

    Source:
        `ngram_parameters`, `row_nbytes`.
    """
    if model.ngrams is None:
        return 0.0
    from roofline.physics.layers.memories import row_nbytes

    return ngram_parameters(model, tp).embed * row_nbytes(model.ngrams, embed_nbytes)


def _norm_values(model: Model) -> Real:
    """Values of one norm over the model width."""
    return model.hidden * where(model.norm_bias, 2, 1) if model.norm_weights else 0.0


def mixer_count(model: Model, mixer: Mixer, tp: Real) -> ParameterCount:
    """Parameters of a mixer, with the norms, stream weights and inputs of its layer."""
    matrices, small = mixer_parameters(mixer, model.hidden, tp)
    inputs, _ = layer_input_parameters(model, of_layer=True)
    laurel, router, scales = altup_parameters(model, of_layer=True)
    norms = model.norms * _norm_values(model) + stream_parameters(model)
    return ParameterCount(linear=inputs + laurel, attention=matrices, router=router, norm=small + norms + scales)


def network_count(ffn: Ffn, hidden: Real, tp: Real, expert_ranks: Real) -> ParameterCount:
    """Parameters of a feed-forward network on one rank."""
    return ParameterCount(**NETWORK_KINDS[type(ffn)].matrices.values(ffn, hidden, tp, expert_ranks))


def _expert_values(ffn: MoeFfn, hidden: Real) -> Real:
    """Parameters of one expert, biases included."""
    moe = NETWORK_KINDS[type(ffn)]
    matrices = (matrix for matrix in moe.matrices.whole(ffn, hidden) if matrix.copies is not None)
    return 1.0 * sum(local(matrix.columns, 1) * (local(matrix.inner, 1) + int(matrix.bias)) for matrix in matrices)
