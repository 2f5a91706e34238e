"""The kernels of one pass: work from the modules that count it, roofs from the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from roofline.ops import Real, above, ceil, never, where
from roofline.physics import collectives, elementwise
from roofline.physics.efficiency import link_roof, roof, tuned
from roofline.physics.linear import gemm
from roofline.physics.one_equation import Kernel, LinkRoof, Roof, Work, collective_time, host_kernel, kernel_time
from roofline.physics.plan import Deployment, ModelQuantization
from roofline.physics.projection import Multiplication
from roofline.records import replace
from roofline.specs.kernels import ALL_REDUCE, ELEMENTWISE, GEMM, MOE, STATE_DECODE, KernelKind

ACTIVATION_NBYTES = 2.0  # activations between kernels and GPUs are 16-bit

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

    def __init__(self, deployment: Deployment, batch: Real, new: Real, queries: Real = 1.0) -> None:
        self.deployment = deployment
        self.queries = queries  # tokens per sequence that a decode step computes and samples
        self.model, self.plan, self.gpu = deployment.model, deployment.plan, deployment.gpu
        self.quantization: ModelQuantization = deployment.quantization
        self.tp, self.hidden = deployment.plan.tp, deployment.model.hidden
        self.sequences = rank_batch(batch, deployment.plan.dp)
        self.tokens = self.sequences * new  # of the fullest data-parallel rank
        self.pooled = batch * new  # of all data-parallel ranks, which the experts share
        self.engine = deployment.effective_engine
        self.kernels: list[Kernel] = []
        self._part = ""
        self._roofs: dict[tuple[KernelKind, str, str], Roof] = deployment.memo.setdefault("roofs", {})
        self._link_roofs: dict[tuple[KernelKind, int], LinkRoof] = deployment.memo.setdefault("links", {})

    @property
    def stream_bytes(self) -> Real:
        """One residual stream of this rank's tokens [B]."""
        return ACTIVATION_NBYTES * self.tokens * self.hidden

    @contextmanager
    def serving(self, part: str) -> Iterator[None]:
        """A context whose kernels belong to a part of the model: the head, the router, ..."""
        self._part = part
        yield
        self._part = ""

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
        self.elementwise(name, count, elementwise.norm_add(tokens, self.hidden, self.model.streams))

    def all_reduce(self, name: str, count: Real) -> None:
        """Add an all-reduce of the residual stream over the tensor-parallel ranks, if there are several."""
        self.collective(name, ALL_REDUCE, count, self.stream_bytes, self.tp)

    def collective(
        self, name: str, collective: KernelKind, count: Real, tensor: Real, ranks: Real, takes_place: Real | None = None
    ) -> None:
        """Add a collective over a tensor [B], if `takes_place`; None: if there are several ranks."""
        if takes_place is None:
            takes_place = above(ranks, 1, _SINGLE_RANK)
        if never(takes_place):
            return
        ranks, count = where(takes_place, ranks, 2), where(takes_place, count, 0)
        limits = self._link_roof(collective, ranks)
        work = Work(link_bytes=collectives.sent_bytes(collective, tensor, ranks))
        terms = collective_time(work, limits)
        if collective is ALL_REDUCE and self.engine.all_reduce:
            extra = self.engine.all_reduce
            terms = terms._replace(total=terms.total + extra, latency=terms.latency + extra)
        self.kernels.append(Kernel(name, collective, "bf16", count, work, limits, terms, self._part))

    def host(self, name: str, time: Real) -> None:
        """Add time [s] during which the GPU waits for the host, if any."""
        if not (type(time) is float and time == 0.0):
            self.kernels.append(host_kernel(name, time))

    def kernel(self, name: str, kind: KernelKind, key: str, peak: str, count: Real, work: Work) -> Kernel:
        """A kernel, not added; `key` is the dtype key of its calibration, `peak` the dtype at which it multiplies."""
        if kind.is_per_sequence and not (type(self.queries) is float and self.queries == 1.0):
            work = work.of_queries(self.queries, _STATE_WRITES if kind is STATE_DECODE else 0.0)
        limits = self._roofs.get((kind, key, peak))
        if limits is None:
            limits = tuned(roof(self.gpu, self.deployment.basis, kind, key, peak), self.gpu, self.engine, kind, key)
            launch = limits.efficiency.t0_ep
            if kind is MOE and launch is not None and not never(self.plan.ep > 1):
                launch = where(self.plan.ep > 1, launch, limits.efficiency.t0)
                limits = limits._replace(efficiency=replace(limits.efficiency, t0=launch))
            self._roofs[kind, key, peak] = limits
        return Kernel(name, kind, key, count, work, limits, kernel_time(work, limits), self._part)

    def _link_roof(self, collective: KernelKind, ranks: Real) -> LinkRoof:
        if type(ranks) is not int:
            return link_roof(self.gpu, self.deployment.basis, collective, ranks)
        limits = self._link_roofs.get((collective, ranks))
        if limits is None:
            limits = self._link_roofs[collective, ranks] = link_roof(self.gpu, self.deployment.basis, collective, ranks)
        return limits
