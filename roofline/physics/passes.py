"""One forward pass of one replica: its kernels, each with work, roof and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.numbers.operations import Real, ceil, floor, maximum, minimum, never, same, where
from roofline.physics import kernels
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly, absent, add_altup, add_layer_inputs, add_positions
from roofline.physics.equation import BOUNDS, Kernel, largest_of_terms
from roofline.physics.kernels import Span, gemm
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS
from roofline.physics.plan import Deployment, Plan
from roofline.physics.programs import Called, Recurring, recurring
from roofline.specs.gpu import ALL_GATHER, HEAD, HOST, P2P
from roofline.specs.model import DenseFfn, Group, Layer, Model
from roofline.support.errors import BadInput
from roofline.support.records import replace

#: Kernel that stands for the time by which the host launches slower than the GPU computes.
LAUNCHES = "host, launches"
_MOVES = "a stage moves to another domain"


class Pass:
    """The kernels of one forward pass, in the order in which a layer runs them, computed on first use.

    Figures such as `time`, of floats or arrays, come from a compiled program once a deployment has been asked for them
    often enough.
    """

    __slots__ = ("_figures", "_kernels", "_question")

    def __init__(self, kernels: tuple[Kernel, ...] | None, question: Recurring | Called | None = None) -> None:
        self._kernels = kernels
        self._question = question
        self._figures: dict[Callable[[Pass], tuple[Real, ...]], tuple[Real, ...]] = {}

    @classmethod
    def of(cls, make: Callable[..., tuple[Kernel, ...]], deployment: Deployment, *numbers: Real) -> Pass:
        """A pass whose kernels `make(deployment, *numbers)` computes on first use."""
        question = recurring(make, deployment, numbers)
        return cls(make(deployment, *numbers) if question is None else None, question)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        if self._kernels is None:
            self._kernels = () if self._question is None else self._question.compute()
        return self._kernels

    def figures(self, read: Callable[[Pass], tuple[Real, ...]]) -> tuple[Real, ...]:
        """`read` of this pass, by a compiled program where there is one; floats are kept, arrays would fill memory."""
        known = self._figures.get(read)
        if known is not None:
            return known
        figures = None if self._question is None else self._question.by_program(read, Pass)
        if figures is None:
            figures = read(self)
        if type(figures[0]) is float:
            self._figures[read] = figures
        return figures

    def __eq__(self, other: object) -> bool:
        return same(self.kernels, other.kernels) if isinstance(other, Pass) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.kernels)

    def __repr__(self) -> str:
        return f"Pass(kernels={self.kernels!r})"

    def __reduce__(self) -> tuple[type[Pass], tuple[tuple[Kernel, ...]]]:
        return Pass, (self.kernels,)

    @property
    def launches(self) -> Real:
        """Kernels that the host launches [1]."""
        return sum(kernel.count * kernel.kind.launches for kernel in self.kernels if kernel.kind is not HOST)

    @property
    def time(self) -> Real:
        """Time of the pass, one kernel after the other [s]."""
        return self.figures(_time)[0]

    @property
    def flop(self) -> Real:
        """Arithmetic of one GPU [FLOP]."""
        return sum(kernel.count * kernel.work.flop for kernel in self.kernels)

    @property
    def nbytes(self) -> Real:
        """HBM traffic of one GPU [B]."""
        return sum(kernel.count * kernel.work.nbytes for kernel in self.kernels)

    @property
    def bound(self) -> Real:
        """The bound with the largest share of the time."""
        return largest_of_terms(self.figures(_bound_times))


def _bound_times(passed: Pass) -> tuple[Real, ...]:
    """Time of the kernels of each bound [s]."""
    shares: dict[str, Real] = dict.fromkeys(BOUNDS, 0.0)
    for kernel in passed.kernels:
        terms, time = kernel.terms, kernel.time
        if type(terms.total) is float:
            shares[terms.bound] = shares[terms.bound] + time
            continue
        parts: dict[str, Real] = {"compute": time}  # all of it goes to the largest term
        largest = terms.compute
        for name in BOUNDS[1:]:
            term = getattr(terms, name)
            if type(term) is float and term == 0.0:
                continue
            is_smaller = largest >= term
            parts = {bound: where(is_smaller, part, 0.0) for bound, part in parts.items()}
            parts[name], largest = where(is_smaller, 0.0, time), maximum(largest, term)
        for name, part in parts.items():
            shares[name] = shares[name] + part
    return tuple(shares.values())


def _time(passed: Pass) -> tuple[Real, ...]:
    total: Real = 0.0
    for kernel in passed.kernels:
        total = total + kernel.time
    return (total,)


def dynamic_energy(passed: Pass) -> tuple[Real, ...]:
    r"""Energy of a pass beyond that of an idle board in the same time, over its power limit.

    .. math:: e = \sum_k n_k\, t_k \left(\frac{P_k}{P_{TDP}} - i\right)

    Args:
        passed: the pass; host time and waits add nothing.

    Returns:
        Energy over power: a time, of one GPU [s].

    Source:
        Arithmetic: energies of kernels add up.
    """
    from roofline.physics.power import IDLE, power_share

    total: Real = 0.0
    for kernel in passed.kernels:
        if kernel.kind is HOST:
            continue
        share = power_share(kernel.work, kernel.roof, kernel.terms) if kernel.power is None else kernel.power
        total = total + kernel.time * (share - IDLE)
    return (total,)


def crossings(plan: Plan, domain: Real) -> Real:
    """Hand-overs between pipeline stages that leave a scale-up domain; stages fill one domain after the other.

    Args:
        plan: parallel degrees.
        domain: GPUs of one scale-up domain [1].

    Returns:
        Hand-overs [1].

    Source:
        Arithmetic: stages fill one domain after the other.

    >>> crossings(Plan(tp=4, pp=4), 8)
    1.0
    """
    if never(plan.pp > 1):
        return 0.0
    crossed = floor((plan.pp - 1) * plan.tp * plan.token_ranks / domain, _MOVES)
    return minimum(plan.pp - 1, crossed, _MOVES)


def prefill_pass(deployment: Deployment, batch: Real, new: Real, cached: Real = 0.0) -> Pass:
    """Pass over prompts: `new` tokens of each sequence after `cached` ones.

    Args:
        deployment: model, GPU, plan, quantization and basis.
        batch: prompts that one replica prefills together [sequences].
        new: tokens computed per prompt [tokens].
        cached: tokens of each prompt whose KV is cached already [tokens].

    Returns:
        The kernels of the fullest rank.

    Valid:
        No overlap of communication or of the host with kernels.

    Source:
        docs/method.md, "A pass" and "Engines": kernels run one after the other, then the host.
    """
    return Pass.of(_prefill_kernels, deployment, batch, new, cached)


def _prefill_kernels(deployment: Deployment, batch: Real, new: Real, cached: Real) -> tuple[Kernel, ...]:
    assembly = Assembly(deployment, batch, new, is_prompt=True)
    add_model(assembly, Span(new, cached))
    if deployment.draft is not None:  # the draft model needs a cache of the prompt too
        assembly.kernels += _draft_kernels(deployment, batch, new, Span(new, cached)).kernels
    add_prefill_host(assembly)
    return tuple(assembly.kernels)


def decode_pass(deployment: Deployment, batch: Real, context: Real, steps: Real = 1.0) -> Pass:
    """Mean decode step while every sequence gains `steps` tokens after `context`: one per step, or several with drafts.

    With drafts, the draft model runs first, once per proposed token. The step then computes the next token and all
    proposals of each sequence; its attention reads the cache once.

    Args:
        deployment: model, GPU, plan, quantization, basis and draft.
        batch: sequences that one replica advances together [sequences].
        context: tokens in the KV cache before the first step [tokens].
        steps: tokens averaged over [1].

    Returns:
        The kernels of the fullest rank, with attention at the mean length.

    Valid:
        No overlap of communication or of the host with kernels.

    Source:
        docs/method.md, "A pass" and "Engines": kernels run one after the other, then the host.
    """
    return Pass.of(_decode_kernels, deployment, batch, context, steps)


def _decode_kernels(deployment: Deployment, batch: Real, context: Real, steps: Real) -> tuple[Kernel, ...]:
    assembly = Assembly(deployment, batch, deployment.queries, deployment.queries)
    assembly.decodes = True
    add_model(assembly, Span(steps, context, is_decode=True))
    if deployment.draft is not None:
        proposals = deployment.draft.tokens
        drafted = draft_pass(deployment, batch, context, steps).kernels
        assembly.kernels += [kernel._replace(count=proposals * kernel.count) for kernel in drafted]
    add_decode_host(assembly)
    return tuple(assembly.kernels)


def add_prefill_host(assembly: Assembly) -> None:
    """Add the time of the host in a pass over prompts, whose kernels are there."""
    _launch(assembly, assembly.engine.launch)
    assembly.host("host, prefill", assembly.engine.prefill)


def add_decode_host(assembly: Assembly) -> None:
    """Add the time of the host in a decode step, whose kernels are there."""
    engine = assembly.engine
    _launch(assembly, engine.launch_decode)
    time = engine.step + engine.layer * assembly.model.layers + engine.sequence * assembly.sequences
    assembly.host("host, decode step", time)


def _launch(assembly: Assembly, overhead: Real) -> None:
    """Add the time by which launching kernels, at `overhead` [s] each, takes longer than computing them."""
    if type(overhead) is float and overhead == 0.0:
        return
    passed = Pass(tuple(assembly.kernels))
    waiting = maximum(
        overhead * passed.launches - passed.time, 0.0, "the host launches kernels as fast as the GPU computes them"
    )
    assembly.host(LAUNCHES, waiting)


def every_kernel(deployment: Deployment) -> tuple[Kernel, ...]:
    """Kernels that prefill and decode passes may have at any length and batch, on the nodes of a graph."""
    from roofline.symbolic.graph import Graph

    numbers = tuple(map(Graph().input, ("batch", "tokens", "cached")))
    return *_prefill_kernels(deployment, *numbers), *_decode_kernels(deployment, *numbers)


def draft_pass(deployment: Deployment, batch: Real, context: Real, steps: Real = 1.0) -> Pass:
    """Mean pass that proposes one token per sequence, by a module of one layer or by a draft model.

    A module joins hidden states with the embedding of the last token, then runs its layer and the head.

    Args:
        deployment: draft, GPU, plan and basis.
        batch: sequences that one replica advances together [sequences].
        context: tokens in the KV cache before the first step [tokens].
        steps: tokens averaged over [1].

    Returns:
        The kernels of the fullest rank, without host time; none where drafts come from a search in the text.

    Valid:
        Proposals one after the other, each for the whole batch; no draft trees.

    Source:
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2; EAGLE-3, arXiv:2503.01840; Leviathan et al.,
        arXiv:2211.17192.
    """
    return _draft_kernels(deployment, batch, 1.0, Span(steps, context, is_decode=True))


def _draft_kernels(deployment: Deployment, batch: Real, new: Real, span: Span) -> Pass:
    """A pass of the draft model; empty where drafts take no computation."""
    drafting, draft = deployment.drafting, deployment.draft
    if drafting is None or draft is None:
        return Pass(())
    assembly = Assembly(drafting, batch, new, is_prompt=not span.is_decode)
    assembly.decodes = span.is_decode
    if draft.is_module:
        assembly.gemm("join", 1, drafting.model.hidden, draft.joined * drafting.model.hidden, "linear")
    add_model(assembly, span)
    return Pass(tuple(kernel._replace(name=f"draft, {kernel.name}") for kernel in assembly.kernels))


def add_model(assembly: Assembly, span: Span) -> None:
    """Add embedding, all layers (equal ones together), head and stage hand-overs."""
    model, plan = assembly.model, assembly.plan
    nbytes = assembly.quantization.sections["embed"].weight_nbytes
    assembly.elementwise("embedding", 1, kernels.embedding(assembly.tokens, assembly.hidden, nbytes))
    if model.positions:
        add_positions(assembly)
    if model.layer_input:
        add_layer_inputs(assembly)
    if model.altup or model.laurel:
        add_altup(assembly)
    _add_around_layers(assembly)
    if model.ngrams is not None:
        from roofline.physics.layers.memories import add_ngrams

        add_ngrams(assembly, model.ngrams)
    before = len(assembly.kernels)
    if assembly.deployment.spread.two_batches and plan.ep > 1 and plan.token_ranks > 1:  # else nothing is exchanged
        from roofline.physics.two_batches import add_layers

        add_layers(assembly, span)
    else:
        for count, mixer in model.mixers:
            MIXER_KINDS[type(mixer)].add_kernels(assembly, count, mixer, span)
        for count, ffn in model.ffns:
            NETWORK_KINDS[type(ffn)].add_kernels(assembly, count, ffn)
    if assembly.deployment.offload is not None:
        from roofline.physics.offload import read_from_host

        read_from_host(assembly, before, is_decode=span.is_decode)
    if assembly.deployment.adapters is not None:
        from roofline.physics.adapters import add_adapters

        add_adapters(assembly, assembly.deployment.adapters)
    _add_head(assembly)
    if not never(plan.pp > 1):
        _add_hand_over(assembly)


def _add_around_layers(assembly: Assembly) -> None:
    """Norms and mixes of residual streams; of layers that compute only the last tokens of a prompt, for those."""
    model, late = assembly.model, assembly.model.late
    count = model.layers * model.norms
    if absent(late):
        assembly.norm("norm", _norms(model), assembly.tokens)
        if model.streams > 1:
            _add_stream_mix(assembly, count)
        return
    few = late * model.norms
    assembly.norm("norm", _norms(model) - few, assembly.tokens)
    if model.streams > 1:
        _add_stream_mix(assembly, count - few)
    with assembly.last_tokens(model.last):
        assembly.norm("norm, last tokens", few, assembly.tokens)
        if model.streams > 1:
            _add_stream_mix(assembly, few, ", last tokens")


def _norms(model: Model) -> Real:
    """Norms of the residual stream in a pass, without the last one; skipped layers have none."""
    idle = sum(count for count, mixer in model.mixers if MIXER_KINDS[type(mixer)].is_idle)
    return (model.layers - idle) * model.norms + (model.final_norms - 1 if model.final_norms > 1 else 0)


def _add_stream_mix(assembly: Assembly, count: Real, of: str = "") -> None:
    """Hyper-connections: the weights that mix the residual streams, or a low-rank gate of them."""
    streams, rank = assembly.model.streams, assembly.model.stream_rank
    scheme, width = assembly.quantization.sections["router"], streams * assembly.hidden
    if not rank:
        assembly.matrix(
            "stream mix" + of, count, gemm(assembly.tokens, streams * (streams + 2), width, scheme), "router"
        )
        return
    assembly.matrix("stream gate, down" + of, count, gemm(assembly.tokens, rank + streams, width, scheme), "router")
    assembly.matrix("stream gate, up" + of, count, gemm(assembly.tokens, width, rank, scheme), "router")


def _add_head(assembly: Assembly) -> None:
    """Final norm, LM head at the last position of each sequence (at all verified positions with drafts), sampling."""
    model, tp = assembly.model, assembly.tp
    sequences = assembly.sequences * assembly.queries
    work = gemm(sequences, ceil(model.vocab / tp), model.hidden, assembly.quantization.sections["head"])
    logits = ACTIVATION_NBYTES * sequences * model.vocab
    with assembly.serving(HEAD):
        assembly.norm("final norm", 1, sequences)
        assembly.matrix("head", 1, work, "head")
        assembly.collective("logits all-gather", ALL_GATHER, 1, logits, tp)
        assembly.elementwise("sample", 1, kernels.sample(sequences, model.vocab))


def _add_hand_over(assembly: Assembly) -> None:
    """Hand activations from stage to stage: over the link, over PCIe beyond a bridge, or to another node."""
    plan, gpu = assembly.plan, assembly.gpu
    stream = assembly.stream_bytes * assembly.model.streams * (assembly.model.altup or 1)
    far = leaving = crossings(plan, gpu.node)
    if gpu.host_domain is not None:
        leaving = crossings(plan, gpu.link.domain)
        between = leaving - far
        assembly.collective("stage hand-over, PCIe", P2P, between, stream, gpu.link.domain + 1, between > 0.0)
    near = plan.pp - 1 - leaving
    assembly.collective("stage hand-over", P2P, near, stream, 2, near > 0.0)
    assembly.collective("stage hand-over, network", P2P, far, stream, gpu.node + 1, far > 0.0)


# Draft models for speculative decoding: MTP modules trained with the model, EAGLE heads over its hidden states.

_EAGLE_VOCAB = 32_000  # tokens that published EAGLE-3 heads choose from
#: What a module of one layer lacks, whatever the model has.
_PLAIN: dict[str, Any] = {
    "streams": 1, "stream_rank": 0, "stream_average": False, "mtp_layers": 0, "positions": 0, "layer_input": 0,
    "layer_vocab": 0, "altup": 0, "laurel": 0, "ngrams": None,
}  # fmt: skip
_DENSE_WIDTH = 4  # width of a head's network over the model's width, where the model has no dense layer


def mtp_module(model: Model) -> Model:
    """The module for multi-token prediction: a layer like the model's last, run once per draft token.

    Args:
        model: the model with draft modules.

    Returns:
        A model of that layer.

    Raises:
        BadInput: the model has no draft modules.

    Source:
        DeepSeek-V3 report, arXiv:2412.19437, section 2.2.
    """
    if not model.mtp_layers:
        raise BadInput(
            f"{model.short_name} has no MTP module to draft with; use draft = eagle, ngram, or the name of a smaller "
            "model"
        )
    return _one_layer_model(model, model.groups[-1].layers[-1], model.vocab)


def eagle_head(model: Model) -> Model:
    """An EAGLE head of one layer: attention like the model's last, and a dense FFN.

    Args:
        model: the target model.

    Returns:
        A model of that layer, with a vocabulary of at most 32,000 tokens.

    Valid:
        An estimate: heads differ. For a mixture of experts the head's network is as wide as a dense layer of the
        model, or four times the model's width.

    Source:
        EAGLE-3, arXiv:2503.01840, section 3; configurations of its published heads (one Llama layer, draft_vocab_size
        32000).
    """
    layers = [layer for group in model.groups for layer in group.layers]
    mixers = [layer.mixer for layer in layers if MIXER_KINDS[type(layer.mixer)].is_attention]
    networks = [layer.ffn for layer in layers if isinstance(layer.ffn, DenseFfn)]
    network = networks[-1] if networks else DenseFfn(_DENSE_WIDTH * model.hidden)
    return _one_layer_model(model, Layer((mixers or [layers[-1].mixer])[-1], network), min(model.vocab, _EAGLE_VOCAB))


def _one_layer_model(model: Model, layer: Layer, vocab: int) -> Model:
    return replace(model, groups=(Group(1, (layer,)),), vocab=vocab, **_PLAIN)
