"""Collecting the kernels of one pass: work from the modules that count it, roofs from the GPU."""

from __future__ import annotations

from roofline.ops import Real, above, ceil, never, where
from roofline.physics import collectives, elementwise
from roofline.physics.efficiency import link_roof, roof, tuned
from roofline.physics.linear import gemm
from roofline.physics.one_equation import Kernel, LinkRoof, Roof, Work, collective_time, host_kernel, kernel_time
from roofline.physics.plan import Deployment, Precision
from roofline.physics.projection import Multiplication
from roofline.records import replace
from roofline.specs.kernels import ALL_REDUCE, ELEMENTWISE, GEMM, MOE, STATE_DECODE, KernelKind

__all__ = ["ACTIVATION_NBYTES", "Assembly", "rank_batch"]

ACTIVATION_NBYTES = 2.0  # 16-bit activations travel between kernels and GPUs

_ALONE = "a collective starts or ends at one rank"
_STATE_WRITTEN = 0.5  # of the traffic of a recurrent state: read once, written for each token that may be kept


def rank_batch(batch: Real, dp: Real) -> Real:
    """Sequences that one data-parallel rank runs.

    Args:
        batch: sequences of the replica [sequences].
        dp: data-parallel degree [1].

    Returns:
        The fullest rank's share [sequences].

    Source:
        Arithmetic: sequences are whole, and a step waits for the fullest rank.

    >>> rank_batch(9, 4)
    3.0
    """
    several = dp > 1
    return (
        batch
        if never(several)
        else where(several, ceil(batch / dp, "a data-parallel rank gets one more sequence"), batch)
    )


class Assembly:
    """Kernels of one pass of the fullest rank; the arithmetic lives in the modules that it calls."""

    def __init__(self, deployment: Deployment, batch: Real, new: Real, queries: Real = 1.0) -> None:
        self.deployment = deployment
        self.queries = queries  # tokens of each sequence that a decode step computes and chooses
        self.model, self.plan, self.gpu = deployment.model, deployment.plan, deployment.gpu
        self.precision: Precision = deployment.precision
        self.tp, self.hidden = deployment.plan.tp, deployment.model.hidden
        self.sequences = rank_batch(batch, deployment.plan.dp)
        self.tokens = self.sequences * new  # of the fullest data-parallel rank
        self.pooled = batch * new  # of all of them: what the experts see
        self.engine = deployment.host
        self.kernels: list[Kernel] = []
        self._part = ""
        self._roofs: dict[tuple[KernelKind, str, str], Roof] = deployment.memo.setdefault("roofs", {})
        self._link_roofs: dict[tuple[KernelKind, int], LinkRoof] = deployment.memo.setdefault("links", {})

    @property
    def stream_bytes(self) -> Real:
        """Size of one residual stream of this rank's tokens [B]."""
        return ACTIVATION_NBYTES * self.tokens * self.hidden

    def serving(self, part: str) -> Assembly:
        """Mark the kernels that are added within this context as serving a part of the model.

        Args:
            part: the head, the router, ... [text].

        Returns:
            Itself, as the context.
        """
        self._part = part
        return self

    def __enter__(self) -> None:
        """Nothing but what `serving` did."""

    def __exit__(self, *_: object) -> None:
        """Kernels that follow serve no part by name."""
        self._part = ""

    def gemm(self, name: str, count: Real, columns: Real, inner: Real, section: str, bias: bool = False) -> None:
        """Add the multiplication of this rank's tokens with a matrix.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            columns: outputs on this GPU [1].
            inner: summed-over width on this GPU [1].
            section: section of the model that the matrix belongs to [text].
            bias: whether a bias is added [bool].
        """
        self.matrix(name, count, gemm(self.tokens, columns, inner, self.precision.sections[section], bias), section)

    def multiply(self, name: str, count: Real, matrix: Multiplication) -> None:
        """Add the multiplication of this rank's tokens with matrices of a layer.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            matrix: what is multiplied with, on this rank.
        """
        self.gemm(name, count, matrix.columns, matrix.inner, matrix.section, matrix.bias)

    def matrix(self, name: str, count: Real, work: Work, section: str) -> None:
        """Add a multiplication with weights whose work is known.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            work: what it does.
            section: section of the model that the weights belong to [text].
        """
        self.kernels.append(self.matrix_kernel(name, count, work, section))

    def matrix_kernel(self, name: str, count: Real, work: Work, section: str) -> Kernel:
        """A multiplication with weights, not added.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            work: what it does.
            section: section of the model that the weights belong to [text].

        Returns:
            The kernel.
        """
        scheme = self.precision.sections[section]
        return self.kernel(name, GEMM, scheme.key, scheme.peak, count, work)

    def attention(self, name: str, count: Real, kind: KernelKind, work: Work) -> None:
        """Add attention over the KV cache.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            kind: kind of kernel.
            work: what it does.
        """
        self.kernels.append(self.attention_kernel(name, count, kind, work))

    def attention_kernel(self, name: str, count: Real, kind: KernelKind, work: Work) -> Kernel:
        """Attention over the KV cache, not added.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            kind: kind of kernel.
            work: what it does.

        Returns:
            The kernel.
        """
        return self.kernel(name, kind, self.precision.kv_key, self.precision.attention_peak, count, work)

    def sixteen_bit(self, name: str, count: Real, kind: KernelKind, work: Work) -> None:
        """Add a kernel that computes in 16 bits whatever the weights are stored in.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            kind: kind of kernel.
            work: what it does.
        """
        self.kernels.append(self.kernel(name, kind, "bf16", self.precision.sixteen_bit_peak, count, work))

    def elementwise(self, name: str, count: Real, work: Work) -> None:
        """Add a pass that only reads and writes.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            work: what it does.
        """
        self.sixteen_bit(name, count, ELEMENTWISE, work)

    def norm(self, name: str, count: Real, tokens: Real) -> None:
        """Add norms of the residual stream.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
            tokens: tokens that are normalised [tokens].
        """
        self.elementwise(name, count, elementwise.norm_add(tokens, self.hidden, self.model.streams))

    def all_reduce(self, name: str, count: Real) -> None:
        """Add the sum of the residual stream over the tensor-parallel ranks, if there are several.

        Args:
            name: of the kernel [text].
            count: times it runs in the pass [1].
        """
        self.collective(name, ALL_REDUCE, count, self.stream_bytes, self.tp)

    def collective(
        self, name: str, collective: KernelKind, count: Real, tensor: Real, ranks: Real, taken: Real | None = None
    ) -> None:
        """Add a collective, if there is one: a rank alone has nobody to talk to.

        Args:
            name: of the kernel [text].
            collective: its kind.
            count: times it runs in the pass [1].
            tensor: size of what is summed, gathered, scattered, exchanged or handed over [B].
            ranks: GPUs that take part [1].
            taken: whether it takes place; None where there are several ranks [condition].
        """
        several = above(ranks, 1, _ALONE) if taken is None else taken
        if never(several):
            return
        ranks, count = where(several, ranks, 2), where(several, count, 0)
        under = self._link_roof(collective, ranks)
        work = Work(link_bytes=collectives.sent_bytes(collective, tensor, ranks))
        terms = collective_time(work, under)
        if collective is ALL_REDUCE and self.engine.all_reduce:
            more = self.engine.all_reduce
            terms = terms._replace(total=terms.total + more, latency=terms.latency + more)
        self.kernels.append(Kernel(name, collective, "bf16", count, work, under, terms, self._part))

    def host(self, name: str, time: Real) -> None:
        """Add time of the host during which the GPU waits, if there is any.

        Args:
            name: of what the host does [text].
            time: how long [s].
        """
        if type(time) is float and time == 0.0:
            return
        self.kernels.append(host_kernel(name, time))

    def kernel(self, name: str, kind: KernelKind, key: str, peak: str, count: Real, work: Work) -> Kernel:
        """A kernel under the roof of its kind and dtype, not added.

        Args:
            name: of the kernel [text].
            kind: kind of kernel.
            key: dtype key of its calibration [text].
            peak: dtype at which it multiplies [text].
            count: times it runs in the pass [1].
            work: what it does.

        Returns:
            The kernel.
        """
        if kind.is_per_sequence and not (type(self.queries) is float and self.queries == 1.0):
            work = work.of_queries(self.queries, _STATE_WRITTEN if kind is STATE_DECODE else 0.0)
        under = self._roofs.get((kind, key, peak))
        if under is None:
            under = tuned(roof(self.gpu, self.deployment.basis, kind, key, peak), self.gpu, self.engine, kind, key)
            spread = under.efficiency.t0_ep
            if kind is MOE and spread is not None and not never(self.plan.ep > 1):
                start = where(self.plan.ep > 1, spread, under.efficiency.t0)
                under = under._replace(efficiency=replace(under.efficiency, t0=start))
            self._roofs[kind, key, peak] = under
        return Kernel(name, kind, key, count, work, under, kernel_time(work, under), self._part)

    def _link_roof(self, collective: KernelKind, ranks: Real) -> LinkRoof:
        """Roof of a collective, the same for all that take place between as many ranks."""
        if type(ranks) is not int:
            return link_roof(self.gpu, self.deployment.basis, collective, ranks)
        under = self._link_roofs.get((collective, ranks))
        if under is None:
            under = self._link_roofs[collective, ranks] = link_roof(self.gpu, self.deployment.basis, collective, ranks)
        return under
