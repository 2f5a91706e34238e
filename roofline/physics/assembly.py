"""Kernels of a pass as they are collected, matrices and side inputs that they run over, and what a kind of layer is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from roofline.numbers.operations import Real, above, ceil, maximum, minimum, never, where
from roofline.physics import kernels
from roofline.physics.equation import (
    Kernel,
    LinkRoof,
    Roof,
    Work,
    collective_time,
    host_kernel,
    kernel_time,
    link_roof,
    roof,
    slowed,
    slowed_link,
    spread_out,
    tuned,
)
from roofline.physics.kernels import Span, gemm
from roofline.physics.plan import Deployment, ModelQuantization, Plan
from roofline.specs.gpu import ALL_REDUCE, ELEMENTWISE, GEMM, MOE, STATE_DECODE, KernelKind
from roofline.specs.model import Model
from roofline.support.records import NamedTuple, replace

# The kernels of one pass: work from the modules that count it, roofs from the GPU.

ACTIVATION_NBYTES = 2.0  # activations between kernels and GPUs are 16-bit

#: Where a prompt begins to have more tokens than its late layers compute.
FEWER_THAN_LAST = "a prompt has more tokens than its last layers compute"
_SINGLE_RANK = "a collective starts or ends at one rank"
_STATE_WRITES = 0.5  # share of a recurrent state's traffic: read once, written for each token that may be accepted


def rank_batch(batch: Real, dp: Real) -> Real:
    """Sequences that one data-parallel rank runs.

    Args:
        batch: sequences of the replica [sequences].
        dp: data-parallel degree [1].

    Returns:
        Sequences of the fullest rank [sequences].

    Source:
        Arithmetic: sequences are whole, and a step waits for the fullest rank.

    >>> rank_batch(9, 4)
    3.0
    """
    is_split = dp > 1
    if never(is_split):
        return batch
    return where(is_split, ceil(batch / dp, "a data-parallel rank gets one more sequence"), batch)


class Assembly:
    """Collects the kernels of one pass on the fullest rank; `count` is how often a kernel runs in the pass."""

    def __init__(
        self, deployment: Deployment, batch: Real, new: Real, queries: Real = 1.0, *, is_prompt: bool = False
    ) -> None:
        self.deployment = deployment
        self.queries = queries  # tokens per sequence that a decode step computes and samples
        self.model, self.plan, self.gpu = deployment.model, deployment.plan, deployment.gpu
        self.quantization: ModelQuantization = deployment.quantization
        self.tp, self.hidden = deployment.plan.tp, deployment.model.hidden
        self.batch = batch  # sequences of all data-parallel ranks
        self.sequences = rank_batch(batch, deployment.plan.dp)
        self.new = new  # tokens of each sequence
        self.tokens = self.sequences * new  # of the fullest data-parallel rank
        self.pooled = batch * new  # of all data-parallel ranks, which the experts share
        self.different: Real | None = None  # of them, where some are copies of each other
        if self.plan.cp != 1:  # ranks split prompts, and each computes all tokens of a decode step
            self.different = self.pooled
            self.tokens, self.pooled = (
                (self.tokens / self.plan.cp, self.pooled) if is_prompt else (self.tokens, self.pooled * self.plan.cp)
            )
        self.engine = deployment.effective_engine
        self.kernels: list[Kernel] = []
        self.decodes = False  # or computes prompts
        self._part, self._starts_hidden = "", False
        self._roofs: dict[tuple[KernelKind, str, str, bool, int], Roof] = deployment.memo.setdefault("roofs", {})
        self._link_roofs: dict[tuple[KernelKind, int], LinkRoof] = deployment.memo.setdefault("links", {})
        self._passes = deployment.passes

    @property
    def is_bound(self) -> Real:
        """Whether times are the hardware limit, for which the least arithmetic counts, not what engines run."""
        return self.deployment.basis == "ideal"

    @property
    def stream_bytes(self) -> Real:
        """One residual stream of this rank's tokens [B]."""
        return ACTIVATION_NBYTES * self.tokens * self.hidden

    @contextmanager
    def last_tokens(self, most: Real) -> Iterator[None]:
        """A context whose kernels compute only so many last tokens of each sequence; of a decode step, all."""
        whole = self.tokens, self.pooled, self.different
        share = minimum(self.new, 1.0 * most, FEWER_THAN_LAST) / self.new
        self.tokens, self.pooled = share * self.tokens, share * self.pooled
        self.different = None if self.different is None else share * self.different
        yield
        self.tokens, self.pooled, self.different = whole

    @contextmanager
    def serving(self, part: str) -> Iterator[None]:
        """A context whose kernels belong to a part of the model: the head, the router, ..."""
        self._part = part
        yield
        self._part = ""

    @contextmanager
    def beside(self, part: str) -> Iterator[None]:
        """A context whose kernels the engine may run on a second stream, so that they have no start of their own."""
        self._starts_hidden = part in self.engine.overlaps
        yield
        self._starts_hidden = False

    def gemm(self, name: str, count: Real, columns: Real, inner: Real, section: str, bias: bool = False) -> None:
        """Add this rank's tokens times a matrix: `columns` outputs on this GPU, each a sum over `inner` values."""
        self.matrix(name, count, gemm(self.tokens, columns, inner, self.quantization.sections[section], bias), section)

    def multiply(self, name: str, count: Real, matrix: Multiplication) -> None:
        """Add this rank's tokens times matrices of a layer."""
        self.gemm(name, count, matrix.columns, matrix.inner, matrix.section, matrix.bias)

    def matrix(self, name: str, count: Real, work: Work, section: str) -> None:
        """Add a multiplication whose work is known."""
        self.kernels.append(self.matrix_kernel(name, count, work, section))

    def matrix_kernel(self, name: str, count: Real, work: Work, section: str) -> Kernel:
        """A multiplication, not added."""
        scheme = self.quantization.sections[section]
        return self.kernel(name, GEMM, scheme.key, scheme.peak, count, work)

    def attention(self, name: str, count: Real, kind: KernelKind, work: Work) -> None:
        self.kernels.append(self.attention_kernel(name, count, kind, work))

    def attention_kernel(self, name: str, count: Real, kind: KernelKind, work: Work) -> Kernel:
        """Attention over the KV cache, not added."""
        return self.kernel(name, kind, self.quantization.kv_key, self.quantization.attention_peak, count, work)

    def sixteen_bit(self, name: str, count: Real, kind: KernelKind, work: Work) -> None:
        """Add a kernel that computes in 16 bits, regardless of the number format of the weights."""
        self.kernels.append(self.kernel(name, kind, "bf16", self.quantization.sixteen_bit_peak, count, work))

    def elementwise(self, name: str, count: Real, work: Work) -> None:
        self.sixteen_bit(name, count, ELEMENTWISE, work)

    def norm(self, name: str, count: Real, tokens: Real) -> None:
        self.elementwise(name, count, kernels.norm_add(tokens, self.hidden, self.model.streams))

    def all_reduce(self, name: str, count: Real) -> None:
        """Add an all-reduce of the residual stream over the tensor-parallel ranks, if there are several."""
        self.collective(name, ALL_REDUCE, count, self.stream_bytes, self.tp)

    def collective(
        self,
        name: str,
        collective: KernelKind,
        count: Real,
        tensor: Real,
        ranks: Real,
        takes_place: Real | None = None,
        stride: Real = 1,
    ) -> None:
        """Add a collective over a tensor [B], if `takes_place`; None: if there are several ranks.

        Its ranks are `stride` GPUs apart.
        """
        if takes_place is None:
            takes_place = above(ranks, 1, _SINGLE_RANK)
        if never(takes_place):
            return
        ranks, count = where(takes_place, ranks, 2), where(takes_place, count, 0)
        limits = self.slowed_link(self._link_roof(collective, ranks, stride))
        work = Work(link_bytes=kernels.sent_bytes(collective, tensor, ranks))
        terms = collective_time(work, limits)
        if collective is ALL_REDUCE and self.engine.all_reduce:
            extra = self.engine.all_reduce
            terms = terms._replace(total=terms.total + extra, latency=terms.latency + extra)
        self.kernels.append(self.within_power(Kernel(name, collective, "bf16", count, work, limits, terms, self._part)))

    def host(self, name: str, time: Real) -> None:
        """Add time [s] during which the GPU waits for the host, if any."""
        if not (type(time) is float and time == 0.0):
            self.kernels.append(host_kernel(name, time, self._part))

    def kernel(self, name: str, kind: KernelKind, key: str, peak: str, count: Real, work: Work) -> Kernel:
        """A kernel, not added; `key` is the dtype key of its calibration, `peak` the dtype at which it multiplies."""
        if kind.is_per_sequence and not (type(self.queries) is float and self.queries == 1.0):
            work = work.of_queries(self.queries, _STATE_WRITES if kind is STATE_DECODE else 0.0)
        place = int(self.decodes and self._passes is not None)
        limits = self._roofs.get((kind, key, peak, self._starts_hidden, place))
        if limits is None:
            limits = tuned(roof(self.gpu, self.deployment.basis, kind, key, peak), self.gpu, self.engine, kind, key)
            if self._passes is not None:
                limits = limits._replace(efficiency=slowed(limits.efficiency, self._passes[place]))
            launch = limits.efficiency.t0_ep
            if kind is MOE and launch is not None and not never(self.plan.ep > 1):
                launch = where(self.plan.ep > 1, launch, limits.efficiency.t0)
                limits = limits._replace(efficiency=replace(limits.efficiency, t0=launch))
            if self._starts_hidden:
                limits = limits._replace(efficiency=replace(limits.efficiency, t0=0.0))
            self._roofs[kind, key, peak, self._starts_hidden, place] = limits
        terms = kernel_time(work, limits)
        return self.within_power(Kernel(name, kind, key, count, work, limits, terms, self._part))

    def within_power(self, kernel: Kernel) -> Kernel:
        """The kernel, slower where it would draw more than a power cap."""
        cap = self.gpu.power_cap
        if cap is None or self.deployment.basis == "ideal":
            return kernel
        from roofline.physics.power import capped

        return capped(kernel, cap)

    def slowed_link(self, limits: LinkRoof) -> LinkRoof:
        """The roof of a collective with the factor of the pass, where servers told one."""
        if self._passes is None:
            return limits
        return limits._replace(efficiency=slowed_link(limits.efficiency, self._passes[int(self.decodes)]))

    def _link_roof(self, collective: KernelKind, ranks: Real, stride: Real) -> LinkRoof:
        if not (type(stride) is int and stride == 1):
            apart = spread_out(self.gpu, ranks, stride)
            if apart is not self.gpu:
                return link_roof(apart, self.deployment.basis, collective, ranks)
        if type(ranks) is not int:
            return link_roof(self.gpu, self.deployment.basis, collective, ranks)
        limits = self._link_roofs.get((collective, ranks))
        if limits is None:
            limits = self._link_roofs[collective, ranks] = link_roof(self.gpu, self.deployment.basis, collective, ranks)
        return limits


# Weight matrices of a layer as data, and how tensor parallelism shards them.


class Sharded(NamedTuple):
    """A width that tensor parallelism shards by heads, groups or channels."""

    number: Real  # of heads, groups or channels
    each: Real  # values of one
    of: str  # their name
    is_replicated: bool = False  # over ranks that exceed their number; else tp divides it


class Projection(NamedTuple):
    """One weight matrix of a layer."""

    name: str
    kernel: str  # multiplication that it is part of; matrices with the same input may be fused
    columns: Sharded | Real  # outputs; a plain number where every rank has all of them
    inner: Sharded | Real  # inputs of an output, likewise
    section: str = "attention"  # of the model; decides the number format
    bias: bool = False
    copies: Real = None  # experts with such a matrix each, spread over ranks; None: one matrix


class Multiplication(NamedTuple):
    """The fused matrices of one kernel, on one rank."""

    columns: Real
    inner: Real
    section: str
    bias: bool


def local(width: Sharded | Real, tp: Real) -> Real:
    r"""Part of a width on one rank.

    .. math:: \frac{n}{tp} w,\quad \max\left(\frac{n}{tp}, 1\right) w\ \text{(replicated beyond } n)

    Args:
        width: n heads of w values, or a number that is not sharded [1].
        tp: tensor-parallel degree [1].

    Returns:
        Values [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads where there are more ranks.

    >>> local(Sharded(8, 128, "KV heads", is_replicated=True), 16)
    128.0
    """
    if type(width) is not Sharded:
        return width
    return (replicated(width.number, tp, width.of) if width.is_replicated else width.number / tp) * width.each


def replicated(number: Real, tp: Real, of: str) -> Real:
    """Heads or groups on one rank; where there are more ranks, each is on several.

    Args:
        number: heads or groups of the layer [1].
        tp: tensor-parallel degree [1].
        of: their name [text].

    Returns:
        Heads or groups [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads likewise.

    >>> replicated(8, 16, "KV heads")
    1.0
    """
    return maximum(number / tp, 1.0, f"{of} start or stop being replicated")


class Matrices:
    """The matrices of a kind of layer, whole and on one rank; results for whole numbers are cached."""

    def __init__(self, declare: Callable[[Any, Real], Iterable[Projection]]) -> None:
        self._declare = declare  # yields the matrices of a record, at a model width
        self._cached_whole = lru_cache(maxsize=512)(self._whole)
        self._cached_rank = lru_cache(maxsize=2048)(self._rank)
        self._cached_values = lru_cache(maxsize=2048)(self._values)
        self._cached_widths = lru_cache(maxsize=512)(self._sharded_widths)

    def whole(self, record: Any, hidden: Real) -> tuple[Projection, ...]:
        """Matrices of a layer, which `record` specifies."""
        return self._cached_whole(record, hidden) if type(hidden) is int else self._whole(record, hidden)

    def on_rank(self, record: Any, hidden: Real, tp: Real) -> dict[str, Multiplication]:
        """Multiplications of a layer on one rank, by name, in the order of the matrices."""
        is_plain = type(hidden) is int and type(tp) is int
        return (self._cached_rank if is_plain else self._rank)(record, hidden, tp)

    def values(self, record: Any, hidden: Real, tp: Real = 1, expert_ranks: Real = 1) -> Mapping[str, Real]:
        """Parameters on one rank by section; biases count as `norm`, since both are 16-bit."""
        is_plain = type(hidden) is int and type(tp) is int and type(expert_ranks) is int
        return (self._cached_values if is_plain else self._values)(record, hidden, tp, expert_ranks)

    def sharded_widths(self, record: Any, hidden: Real) -> tuple[Sharded, ...]:
        """Heads, groups and channels that tensor parallelism shards, each once, in the order of the matrices."""
        return (self._cached_widths if type(hidden) is int else self._sharded_widths)(record, hidden)

    def _sharded_widths(self, record: Any, hidden: Real) -> tuple[Sharded, ...]:
        shards: dict[str, Sharded] = {}
        for matrix in self.whole(record, hidden):
            for width in (matrix.columns, matrix.inner):
                if isinstance(width, Sharded):
                    shards.setdefault(width.of, width)
        return tuple(shards.values())

    def _whole(self, record: Any, hidden: Real) -> tuple[Projection, ...]:
        return tuple(self._declare(record, hidden))

    def _rank(self, record: Any, hidden: Real, tp: Real) -> dict[str, Multiplication]:
        fused: dict[str, Multiplication] = {}
        for matrix in self.whole(record, hidden):
            before, columns = fused.get(matrix.kernel), local(matrix.columns, tp)
            fused[matrix.kernel] = (
                Multiplication(columns, local(matrix.inner, tp), matrix.section, matrix.bias)
                if before is None
                else before._replace(columns=before.columns + columns, bias=before.bias or matrix.bias)
            )
        return fused

    def _values(self, record: Any, hidden: Real, tp: Real, expert_ranks: Real) -> Mapping[str, Real]:
        count: dict[str, Real] = {}
        for matrix in self.whole(record, hidden):
            columns = local(matrix.columns, tp)
            if matrix.copies is not None:
                columns = matrix.copies / expert_ranks * columns
            count[matrix.section] = count.get(matrix.section, 0.0) + columns * local(matrix.inner, tp)
            if matrix.bias:
                count["norm"] = count.get("norm", 0.0) + columns
        return count


# Learned positions, per-layer inputs (Gemma's E models), alternating streams: what runs alongside the layers.

_SECTION = "linear"


def lookup_parameters(model: Model) -> Real:
    r"""Parameters of look-up tables besides the input embedding: positions and per-layer inputs.

    .. math:: \text{positions}\, H + \text{layer\_vocab}\, L\, w

    Args:
        model: the model, whose layers have inputs of width w.

    Returns:
        The count [1].

    Source:
        `wpe` of GPT-2, `embed_tokens_per_layer` of Gemma-3n and Gemma-4 in Hugging Face transformers.
    """
    rows = 0.0 if absent(model.positions) else 1.0 * model.positions * model.hidden
    if absent(model.layer_input):
        return rows
    return rows + 1.0 * model.layer_vocab * model.layers * model.layer_input


def layer_input_parameters(model: Model, *, of_layer: bool) -> tuple[Real, Real]:
    r"""Parameters that project per-layer inputs.

    .. math:: 2 H w\ \text{(a layer)},\quad H L w + w\ \text{(all together)}

    Args:
        model: the model, whose layers have inputs of width w.
        of_layer: whether to count those of one layer; else those that all layers share [bool].

    Returns:
        Of matrices, and of norms [1].

    Source:
        `per_layer_input_gate`, `per_layer_projection` and `per_layer_model_projection` of Gemma-3n and Gemma-4 in
        Hugging Face transformers.
    """
    width = model.layer_input
    if absent(width):
        return 0.0, 0.0
    return (2.0 * model.hidden * width, 0.0) if of_layer else (1.0 * model.hidden * model.layers * width, 1.0 * width)


def altup_parameters(model: Model, *, of_layer: bool) -> tuple[Real, Real, Real]:
    r"""Parameters of alternating streams, and of the learned residual connection.

    .. math:: 2 H r,\ n H + n^2 + n^3,\ 3 H\ \text{(a layer)},\quad 2 (n - 1) H^2\ \text{(all together)}

    Args:
        model: the model with n streams and a residual connection of rank r.
        of_layer: whether to count those of one layer; else those that all layers share [bool].

    Returns:
        Of matrices, of the router and its coefficients, and of norms and scales [1].

    Source:
        `Gemma3nTextAltUp` and `Gemma3nTextLaurelBlock` of Hugging Face transformers; Baykal et al., "Alternating
        Updates for Efficient Transformers", arXiv:2301.13310.
    """
    streams, hidden, rank = model.altup, model.hidden, model.laurel
    matrices, norm = (0.0, 0.0) if absent(rank) else (2.0 * hidden * rank, 1.0 * hidden)
    if not of_layer:
        return (0.0 if absent(streams) else 2.0 * (streams - 1) * hidden * hidden), 0.0, 0.0
    if absent(streams):
        return matrices, 0.0, norm
    return matrices, 1.0 * streams * hidden + streams**2 + streams**3, norm + 2.0 * hidden


def altup_mix(tokens: Real, hidden: Real, streams: Real) -> Work:
    r"""Work of predicting all streams before a layer, and of correcting them after it.

    .. math:: F = 2 n^2 H T + 2 n H T,\quad Q = 2 (5 n + 1) H T

    Args:
        tokens: tokens T of the pass [tokens].
        hidden: model width H [1].
        streams: their number n [1].

    Returns:
        The work [FLOP, B]: prediction reads and writes the streams; correction reads them, their predictions and the
        layer's output, and writes them.

    Source:
        `predict` and `correct` of `Gemma3nTextAltUp`, Hugging Face transformers; arXiv:2301.13310.
    """
    return Work(
        flop=2.0 * tokens * hidden * streams * (streams + 1),
        activation_bytes=ACTIVATION_NBYTES * tokens * hidden * (5.0 * streams + 1.0),
    )


def add_positions(assembly: Assembly) -> None:
    """Add learned positions: one row per token, added to its embedding."""
    nbytes = assembly.quantization.sections["embed"].weight_nbytes
    assembly.elementwise("positions", 1, kernels.embedding(assembly.tokens, assembly.hidden, nbytes))
    assembly.elementwise("positions, add", 1, kernels.add(assembly.tokens, assembly.hidden))


def add_layer_inputs(assembly: Assembly) -> None:
    """Add per-layer inputs: look-up, projection, and their gate and projection in every layer."""
    model, tokens = assembly.model, assembly.tokens
    width, layers = model.layer_input, model.layers
    nbytes = assembly.quantization.sections["embed"].weight_nbytes
    assembly.elementwise("layer inputs", 1, kernels.embedding(tokens, layers * width, nbytes))
    assembly.gemm("layer inputs, projection", 1, layers * width, assembly.hidden, _SECTION)
    assembly.elementwise("layer inputs, add", 1, kernels.add(tokens, layers * width))
    assembly.gemm("layer input, gate", layers, width, assembly.hidden, _SECTION)
    assembly.elementwise("layer input, activation", layers, kernels.activation(tokens, width, gated=True))
    assembly.gemm("layer input, projection", layers, assembly.hidden, width, _SECTION)


def add_altup(assembly: Assembly) -> None:
    """Add alternating streams and the learned residual connection."""
    model, tokens, hidden = assembly.model, assembly.tokens, assembly.hidden
    streams, layers = model.altup, model.layers
    if streams:
        assembly.gemm("streams, projection", 2 * (streams - 1), hidden, hidden, _SECTION)  # into the streams, and out
        assembly.gemm("stream router", 2 * layers, streams, hidden, "router")  # to predict, and to correct
        assembly.elementwise("stream mix", layers, altup_mix(tokens, hidden, streams))
    if model.laurel:
        assembly.gemm("laurel, down", layers, model.laurel, hidden, _SECTION)
        assembly.gemm("laurel, up", layers, hidden, model.laurel, _SECTION)
        assembly.elementwise("laurel, add", layers, kernels.add(tokens, hidden))


def absent(number: Real) -> bool:
    """Whether a number of a record is a plain zero."""
    return type(number) is int and not number


# Interface of a kind of layer: its matrices, its cache or state, and its kernels.


class MixerKind(NamedTuple):
    """A kind of mixer; the functions take the mixer's record."""

    matrices: Matrices
    vectors: Callable[[Any, Real], Real]  # (mixer, tp): values of norms, sinks, ... on one rank, without biases
    cache_bytes: Callable[[Any, Real, Real, Real], Real]  # (mixer, tokens, bytes per cached value, tp) [B]
    add_kernels: Callable[[Assembly, Real, Any, Span], None]  # (assembly, layers, mixer, span)
    reading: tuple[KernelKind, ...] = ()  # kernels that read the cache or state: in prefill, in decode
    is_idle: bool = False  # text-only requests skip the layer, its norms included

    @property
    def is_attention(self) -> bool:
        """Whether it has a KV cache."""
        return any(kind.is_attention for kind in self.reading)


class NetworkKind(NamedTuple):
    """A kind of feed-forward network; the functions take the network's record."""

    matrices: Matrices
    inner_width: Callable[[Any, Real, Plan], Real]  # (network, model width, plan): values per token inside, on one rank
    add_kernels: Callable[[Assembly, Real, Any], None]  # (assembly, layers, network)
