"""One forward pass of one replica: its kernels, each with work, roof and time."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.catalog.records import DenseFfn, Ffn, Gqa, Mixer, Mla, MoeFfn
from roofline.ops import Real, ceil, where
from roofline.physics import attention, collectives, elementwise
from roofline.physics.efficiency import link_roof, roof
from roofline.physics.ffn import experts
from roofline.physics.linear import gemm
from roofline.physics.plan import Deployment, Plan, Precision
from roofline.physics.work import Kernel, LinkRoof, Roof, Work, collective_time, kernel_time

__all__ = ["WEIGHT_BEARING", "Pass", "crossings", "decode_pass", "prefill_pass", "rank_batch"]

_ACTIVATION_NBYTES = 2.0  # 16-bit activations travel between kernels and GPUs

#: Kinds of kernel whose traffic is mostly weights: they turn compute-bound as the batch grows.
WEIGHT_BEARING = ("gemm", "moe")


@dataclass(frozen=True, slots=True)
class Pass:
    """The kernels of one forward pass in the order in which a layer runs them."""

    kernels: tuple[Kernel, ...]

    @property
    def time(self) -> Real:
        """Time of the pass: every kernel after the other [s]."""
        return sum(kernel.time for kernel in self.kernels)

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
        """What most of the time is spent waiting for: the bound with the largest share of the pass."""
        names = ("compute", "memory", "latency", "exponentials", "link")
        shares = dict.fromkeys(names, 0.0)
        for kernel in self.kernels:
            bound, time = kernel.terms.bound, kernel.time
            if type(bound) is str:
                shares[bound] = shares[bound] + time
            else:
                shares = {name: share + where(bound == name, time, 0.0) for name, share in shares.items()}
        best, largest = names[0], shares[names[0]]
        for name in names[1:]:
            best, largest = (
                where(shares[name] > largest, name, best),
                where(shares[name] > largest, shares[name], largest),
            )
        return best


def rank_batch(batch: Real, dp: int) -> Real:
    """Sequences that one data-parallel rank runs.

    Args:
        batch: sequences of the replica [sequences].
        dp: data-parallel degree [1].

    Returns:
        The fullest rank's share [sequences].

    >>> rank_batch(9, 4)
    3.0
    """
    return batch if dp == 1 else ceil(batch / dp)


def crossings(plan: Plan, domain: int) -> int:
    """Stage hand-overs that leave a scale-up domain, stages laid out one after the other.

    Args:
        plan: parallel degrees.
        domain: GPUs of one scale-up domain [1].

    Returns:
        Hand-overs [1].

    >>> crossings(Plan(tp=4, pp=4), 8)
    1
    """
    stage = plan.tp * plan.dp
    return sum(position * stage // domain != (position - 1) * stage // domain for position in range(1, plan.pp))


def prefill_pass(deployment: Deployment, batch: Real, new: Real, cached: Real = 0.0) -> Pass:
    """Pass over prompts: `new` tokens of each sequence after `cached` ones.

    Args:
        deployment: model, GPU, plan, precision and basis.
        batch: prompts that one replica prefills together [sequences].
        new: tokens computed per prompt [tokens].
        cached: tokens of each prompt whose KV is cached already [tokens].

    Returns:
        The kernels of the fullest rank.
    """
    builder = _Builder(deployment, batch, new)
    for count, mixer in deployment.model.mixers:
        if isinstance(mixer, Mla):
            builder.mla_prefill(count, mixer, new, cached)
        else:
            builder.gqa(count, mixer, "attention_prefill", attention.gqa_prefill, new, cached)
    return builder.finish()


def decode_pass(deployment: Deployment, batch: Real, context: Real, steps: Real = 1.0) -> Pass:
    """Mean pass of `steps` decode steps, one token per sequence each, that begin at `context`.

    Args:
        deployment: model, GPU, plan, precision and basis.
        batch: sequences that one replica advances together [sequences].
        context: tokens in the KV cache before the first of the steps [tokens].
        steps: decode steps averaged over [1].

    Returns:
        The kernels of the fullest rank, their attention at the mean length.
    """
    builder = _Builder(deployment, batch, 1.0)
    for count, mixer in deployment.model.mixers:
        if isinstance(mixer, Mla):
            builder.mla_decode(count, mixer, steps, context)
        else:
            builder.gqa(count, mixer, "attention_decode", attention.gqa_decode, steps, context)
    return builder.finish()


class _Builder:
    """Collects the kernels of one pass; the arithmetic lives in the modules that it calls."""

    def __init__(self, deployment: Deployment, batch: Real, new: Real) -> None:
        self.deployment = deployment
        self.precision: Precision = deployment.precision
        self.sequences = rank_batch(batch, deployment.plan.dp)
        self.tokens = self.sequences * new  # of the fullest data-parallel rank
        self.pooled = batch * new  # of all of them: what the experts see
        self.kernels: list[Kernel] = []
        self.roofs: dict[tuple[str, str, str], Roof] = {}
        self._elementwise("embedding", 1, self._embedding())
        layers = deployment.model.layers
        self._elementwise("norm", layers * deployment.model.norms, self._norm(self.tokens))

    # --- mixers -------------------------------------------------------------------------------

    def gqa(self, count: int, mixer: Gqa, kind: str, work_of: object, new: Real, cached: Real) -> None:
        """Grouped-query attention with its projections."""
        tp, hidden = self.deployment.plan.tp, self.deployment.model.hidden
        width = mixer.heads / tp * mixer.head_dim + attention.kv_values(mixer, tp)
        tag = _tag(mixer)
        self._gemm("qkv" + tag, count, width, hidden, "linear", mixer.qkv_bias)
        norms = (2 * mixer.head_dim if mixer.qk_norm else 0) + (mixer.heads // tp if mixer.sinks else 0)
        self._rope(tag, count, mixer, norms)
        work = work_of(mixer, self.sequences, new, cached, self.precision.kv_nbytes, tp)  # type: ignore[operator]
        self.kernels.append(self._attention_kernel("attention" + tag, count, kind, work))
        self._gemm("o" + tag, count, hidden, mixer.heads / tp * mixer.v_head_dim, "linear", mixer.o_bias)
        self._all_reduce("attention all-reduce" + tag, count)

    def mla_prefill(self, count: int, mixer: Mla, new: Real, cached: Real) -> None:
        """Multi-head latent attention over prompts: expanded per head, or absorbed where that is faster."""
        tp, precision = self.deployment.plan.tp, self.precision
        self._mla_down(count, mixer)
        width = mixer.heads / tp * (mixer.nope + mixer.v)
        expand = gemm(self.sequences * (cached + new), width, mixer.kv_rank, precision.sections["linear"])
        scores = attention.mla_prefill(mixer, self.sequences, new, cached, tp)
        expanded = [
            self._gemm_kernel("kv_b", count, expand, "linear"),
            self._attention_kernel("attention", count, "mla_prefill", scores),
        ]
        if type(cached) in (float, int) and cached == 0.0:  # no prefix: nothing to re-expand
            self.kernels += expanded
        else:
            latent = attention.mla_extend(mixer, self.sequences, new, cached, precision.kv_nbytes, tp)
            absorbed = self._absorbed(count, mixer, latent)
            with_prefix = where(cached > 0.0, sum(kernel.time for kernel in expanded), 0.0)
            is_absorbed = sum(kernel.time for kernel in absorbed) < with_prefix
            self.kernels += [kernel._replace(count=where(is_absorbed, 0, count)) for kernel in expanded]
            self.kernels += [kernel._replace(count=where(is_absorbed, count, 0)) for kernel in absorbed]
        self._mla_out(count, mixer)

    def mla_decode(self, count: int, mixer: Mla, steps: Real, context: Real) -> None:
        """Multi-head latent attention of one token per sequence, absorbed."""
        tp, nbytes = self.deployment.plan.tp, self.precision.kv_nbytes
        self._mla_down(count, mixer)
        latent = attention.mla_decode(mixer, self.sequences, steps, context, nbytes, tp)
        self.kernels += self._absorbed(count, mixer, latent)
        self._mla_out(count, mixer)

    def _mla_down(self, count: int, mixer: Mla) -> None:
        """Projections to the query and KV latents (replicated over tp) and of the queries."""
        tp, hidden = self.deployment.plan.tp, self.deployment.model.hidden
        latent = mixer.kv_rank + mixer.rope
        query = mixer.heads / tp * (mixer.nope + mixer.rope)
        if mixer.q_rank is None:
            self._gemm("q, kv_a", count, query + latent, hidden, "linear")
        else:
            self._gemm("q_a, kv_a", count, mixer.q_rank + latent, hidden, "linear")
            self._gemm("q_b", count, query, mixer.q_rank, "linear")
        if mixer.q_rank is not None:
            self._elementwise("q latent norm", count, elementwise.latent_norm(self.tokens, mixer.q_rank))
        self._elementwise("kv latent norm", count, elementwise.latent_norm(self.tokens, mixer.kv_rank))
        self._rope("", count, mixer, (mixer.q_rank or 0) + mixer.kv_rank)

    def _mla_out(self, count: int, mixer: Mla) -> None:
        tp = self.deployment.plan.tp
        self._gemm("o", count, self.deployment.model.hidden, mixer.heads / tp * mixer.v, "linear")
        self._all_reduce("attention all-reduce", count)

    def _absorbed(self, count: int, mixer: Mla, latent: Work) -> list[Kernel]:
        """Attention in the latent, with the multiplications into and out of it, on 16-bit activations."""
        nbytes, tp = self.precision.sections["linear"].weight_nbytes, self.deployment.plan.tp
        wide = self.precision.wide_peak
        into = attention.mla_absorb(mixer, self.tokens, mixer.nope, nbytes, tp)
        out = attention.mla_absorb(mixer, self.tokens, mixer.v, nbytes, tp)
        return [
            self._kernel("absorb k", "gemm", "bf16", wide, count, into),
            self._attention_kernel("attention, absorbed", count, "mla_decode", latent),
            self._kernel("absorb v", "gemm", "bf16", wide, count, out),
        ]

    # --- feed-forward networks, head ----------------------------------------------------------

    def finish(self) -> Pass:
        """Add what follows the mixers, and close the pass."""
        for count, ffn in self.deployment.model.ffns:
            self._ffn(count, ffn)
        model, plan = self.deployment.model, self.deployment.plan
        self._elementwise("final norm", 1, self._norm(self.sequences))
        columns = _shard(model.vocab, plan.tp)
        self._add_gemm("head", 1, gemm(self.sequences, columns, model.hidden, self.precision.sections["head"]), "head")
        if plan.tp > 1:
            logits = _ACTIVATION_NBYTES * self.sequences * model.vocab
            self._collective(
                "logits all-gather", "all_gather", 1, collectives.all_gather_bytes(logits, plan.tp), plan.tp
            )
        self._elementwise("sample", 1, elementwise.sample(self.sequences, model.vocab))
        if plan.pp > 1:
            self._hand_over(plan)
        return Pass(tuple(self.kernels))

    def _hand_over(self, plan: Plan) -> None:
        """Activations from stage to stage, some of them to another scale-up domain."""
        sent = collectives.p2p_bytes(self._stream_bytes())
        far = crossings(plan, self.deployment.gpu.link.domain)
        if plan.pp - 1 - far:
            self._collective("stage hand-over", "p2p", plan.pp - 1 - far, sent, 2)
        if far:
            domain = self.deployment.gpu.link.domain
            self._collective("stage hand-over, network", "p2p", far, sent, domain + 1)

    def _ffn(self, count: int, ffn: Ffn) -> None:
        plan, hidden = self.deployment.plan, self.deployment.model.hidden
        if isinstance(ffn, DenseFfn):
            self._dense("", count, ffn.width, ffn.gated, ffn.bias)
            self._all_reduce("ffn all-reduce", count)
            return
        self._add_gemm(
            "router",
            count,
            gemm(self.tokens, ffn.experts, hidden, self.precision.sections["router"], ffn.router_bias),
            "router",
        )
        self._elementwise("top-k", count, elementwise.top_k(self.tokens, ffn.experts))
        spread = plan.dp > 1
        if spread:
            self._dispatch(count, ffn)
        scheme = self.precision.sections["experts"]
        work = experts(ffn, hidden, self.tokens, self.pooled, plan, self.deployment.skew, scheme)
        self.kernels.append(self._kernel("experts", "moe", scheme.key, scheme.peak, count, work))
        if ffn.shared_width:
            self._dense("shared ", count, ffn.shared_width, ffn.gated)
            self._elementwise("shared add", count, elementwise.add(self.tokens, hidden))
        if spread:
            self._combine(count, ffn)
        else:
            self._all_reduce("experts all-reduce", count)

    def _dense(self, name: str, count: int, full_width: int, gated: bool, bias: bool = False) -> None:
        hidden, width = self.deployment.model.hidden, full_width / self.deployment.plan.tp
        halves = 2 if gated else 1
        self._gemm(name + ("gate, up" if gated else "up"), count, halves * width, hidden, "linear", bias)
        self._elementwise(name + "activation", count, elementwise.activation(self.tokens, width, gated))
        self._gemm(name + "down", count, hidden, width, "linear", bias)

    def _dispatch(self, count: int, ffn: MoeFfn) -> None:
        """Send tokens to the ranks that hold their experts."""
        plan = self.deployment.plan
        hidden = self.deployment.model.hidden
        if plan.ep > 1:
            nbytes = self.precision.sections["experts"].activation_nbytes
            held = self.tokens / plan.tp * ffn.top_k * hidden * nbytes
            self._collective("dispatch", "moe_dispatch", count, collectives.all_to_all_bytes(held, plan.ep), plan.ep)
        if plan.expert_tp > 1:
            gathered = self._pooled_bytes(ffn)
            sent = collectives.all_gather_bytes(gathered, plan.expert_tp)
            self._collective("experts all-gather", "all_gather", count, sent, plan.expert_tp)

    def _combine(self, count: int, ffn: MoeFfn) -> None:
        """Bring the experts' results back and add them."""
        plan, hidden = self.deployment.plan, self.deployment.model.hidden
        if plan.expert_tp > 1:
            sent = collectives.reduce_scatter_bytes(self._pooled_bytes(ffn), plan.expert_tp)
            self._collective("experts reduce-scatter", "reduce_scatter", count, sent, plan.expert_tp)
        if plan.ep > 1:
            held = self.tokens / plan.tp * ffn.top_k * hidden * _ACTIVATION_NBYTES
            self._collective("combine", "moe_combine", count, collectives.all_to_all_bytes(held, plan.ep), plan.ep)
        if plan.tp > 1:
            sent = collectives.all_gather_bytes(self._stream_bytes(), plan.tp)
            self._collective("ffn all-gather", "all_gather", count, sent, plan.tp)

    def _pooled_bytes(self, ffn: MoeFfn) -> Real:
        """Size of the tokens that the ranks sharing one expert hold together [B]."""
        plan = self.deployment.plan
        copies = ffn.top_k / plan.ep if plan.ep > 1 else 1.0
        return _ACTIVATION_NBYTES * self.pooled * self.deployment.model.hidden * copies

    # --- adding kernels -----------------------------------------------------------------------

    def _gemm(self, name: str, count: Real, columns: Real, inner: Real, section: str, bias: bool = False) -> None:
        self._add_gemm(name, count, gemm(self.tokens, columns, inner, self.precision.sections[section], bias), section)

    def _add_gemm(self, name: str, count: Real, work: Work, section: str) -> None:
        self.kernels.append(self._gemm_kernel(name, count, work, section))

    def _gemm_kernel(self, name: str, count: Real, work: Work, section: str) -> Kernel:
        scheme = self.precision.sections[section]
        return self._kernel(name, "gemm", scheme.key, scheme.peak, count, work)

    def _attention_kernel(self, name: str, count: Real, kind: str, work: Work) -> Kernel:
        return self._kernel(name, kind, self.precision.kv_key, self.precision.attention_peak, count, work)

    def _rope(self, tag: str, count: int, mixer: Mixer, norm_values: int) -> None:
        values = attention.kv_values(mixer, self.deployment.plan.tp)
        work = elementwise.rope_append(self.tokens, values, self.precision.kv_nbytes, norm_values)
        self._elementwise("rope, append" + tag, count, work)

    def _norm(self, tokens: Real) -> Work:
        return elementwise.norm_add(tokens, self.deployment.model.hidden)

    def _embedding(self) -> Work:
        nbytes = self.precision.sections["embed"].weight_nbytes
        return elementwise.embedding(self.tokens, self.deployment.model.hidden, nbytes)

    def _elementwise(self, name: str, count: int, work: Work) -> None:
        self.kernels.append(self._kernel(name, "elementwise", "bf16", self.precision.wide_peak, count, work))

    def _stream_bytes(self) -> Real:
        """Size of the residual stream of this rank's tokens [B]."""
        return _ACTIVATION_NBYTES * self.tokens * self.deployment.model.hidden

    def _all_reduce(self, name: str, count: int) -> None:
        ranks = self.deployment.plan.tp
        if ranks > 1:
            sent = collectives.all_reduce_bytes(self._stream_bytes(), ranks)
            self._collective(name, "all_reduce", count, sent, ranks)

    def _collective(self, name: str, collective: str, count: int, sent: Real, ranks: int) -> None:
        under: LinkRoof = link_roof(self.deployment.gpu, self.deployment.basis, collective, ranks)
        work = Work(link_bytes=sent)
        self.kernels.append(Kernel(name, collective, "bf16", count, work, under, collective_time(work, under)))

    def _kernel(self, name: str, kind: str, key: str, peak: str, count: Real, work: Work) -> Kernel:
        under = self.roofs.get((kind, key, peak))
        if under is None:
            under = roof(self.deployment.gpu, self.deployment.basis, kind, key, peak)
            self.roofs[kind, key, peak] = under
        return Kernel(name, kind, key, count, work, under, kernel_time(work, under))


def _tag(mixer: Gqa) -> str:
    if mixer.window is not None:
        return f" (window {mixer.window})"
    return f" (chunk {mixer.chunk})" if mixer.chunk is not None else ""


def _shard(width: int, tp: int) -> float:
    """Columns of a vocabulary-wide matrix on one GPU, padded to whole columns."""
    return float(-(-width // tp))
