"""Context parallelism: the tokens of one sequence on several GPUs, in a prompt (cp) and in the cache (dcp)."""

from __future__ import annotations

from roofline.numbers.operations import Real, above, minimum
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.equation import Work
from roofline.physics.kernels import Span, pairs
from roofline.physics.plan import Plan
from roofline.specs.gpu import ALL_GATHER, ALL_REDUCE, CONTEXT, REDUCE_SCATTER
from roofline.specs.model import Gqa, Mla
from roofline.support.records import NamedTuple

_LSE_NBYTES = 4.0  # the log of the softmax's sum is fp32, one for each query head


def zigzag_pairs(new: Real, cached: Real, ranks: Real, rank: Real, mixer: Gqa | Mla) -> Real:
    r"""Query-key pairs of one rank among those that share a prompt: it has a chunk of the head and one of the tail.

    .. math:: \text{pairs}\left(\frac{N}{2 n},\ P + \frac{r N}{2 n}\right)
              + \text{pairs}\left(\frac{N}{2 n},\ P + \frac{(2 n - 1 - r) N}{2 n}\right)

    Those of all ranks sum to the pairs of the whole prompt. Without a window every rank has as many.

    Args:
        new: tokens N of the prompt computed now [tokens].
        cached: tokens P already in the cache [tokens].
        ranks: n, that share the prompt [1].
        rank: r, from 0 to n - 1 [1].
        mixer: attention whose `window`, `chunk` or `indexer` limits what a token sees.

    Returns:
        Pairs [1].

    Source:
        Load-balanced sharding of "Context Parallelism for Scalable Million-Token Inference", arXiv:2411.01783, section
        3.2; zigzag of SGLang, docs/advanced_features/prefill_cp.

    >>> mixer = Gqa(heads=1, kv_heads=1, head_dim=1, v_head_dim=1)
    >>> [zigzag_pairs(8.0, 0.0, 2, rank, mixer) for rank in (0, 1)], pairs(8.0, 0.0, mixer)
    ([18.0, 18.0], 36.0)
    """
    chunk = new / (2.0 * ranks)
    head = pairs(chunk, cached + rank * chunk, mixer)
    return head + pairs(chunk, cached + (2.0 * ranks - 1.0 - rank) * chunk, mixer)


def split_work(work: Work, ranks: Real, queries: Real) -> Work:
    r"""Work of prompt attention on one of the ranks that share the prompt, from that of the whole prompt.

    .. math:: F / n,\quad X / n,\quad Q - \left(1 - \frac{1}{n}\right) Q_q

    Args:
        work: of the whole prompt on one rank.
        ranks: n, that share the prompt [1].
        queries: traffic Q_q of queries and outputs, of which each rank has its share [B].

    Returns:
        The work [FLOP, B]: every rank reads the keys and values of all tokens.

    Valid:
        Chunks of head and tail, so that all ranks have as many pairs; windows add a little to the first rank's.

    Source:
        Arithmetic over `zigzag_pairs`.
    """
    return work._replace(
        flop=work.flop / ranks,
        exponentials=work.exponentials / ranks,
        activation_bytes=work.activation_bytes - (1.0 - 1.0 / ranks) * queries,
    )


def shard_work(work: Work, ranks: Real) -> Work:
    r"""Work of decode attention over one of the shards of the cache, from that over all of it.

    .. math:: F / n,\quad Q_{kv} / n,\quad d_s / n

    Args:
        work: of the queries of all ranks that share the cache, over all of it.
        ranks: n, that share the cached tokens of a sequence [1].

    Returns:
        The work [FLOP, B]; queries and outputs are those of all ranks.

    Valid:
        Tokens are dealt one by one, so that shards differ by one token at most.

    Source:
        vLLM pull request 23734 (interleaved cache of a decode context parallel group); Helix, arXiv:2507.07120.
    """
    return work._replace(
        flop=work.flop / ranks,
        kv_bytes=work.kv_bytes / ranks,
        exponentials=work.exponentials / ranks,
        serial_depth=work.serial_depth / ranks,
    )


def partial_bytes(tokens: Real, heads: Real, width: Real, ranks: Real) -> Real:
    r"""Queries, or partial outputs, of all ranks that share the cache.

    .. math:: 2\, T\, n\, h\, w

    Args:
        tokens: T, of the step [tokens].
        heads: query heads h of one rank [1].
        width: values w of a head [1].
        ranks: n, of tensor parallelism that share the cache [1].

    Returns:
        Bytes in 16 bits [B].

    Source:
        vLLM blog, "Efficient Decode Context Parallelism", 2026-07-27: all-gather of the queries, attention over the own
        shard, all-gather of the sums and reduce-scatter of the outputs.

    >>> partial_bytes(1.0, 16, 512, 8)
    131072.0
    """
    return ACTIVATION_NBYTES * tokens * ranks * heads * width


def exchanged_bytes(new: Real, cached: Real, shared: Shared) -> Real:
    r"""What ranks that share prompts exchange for one layer: new keys and values, and cached ones or the queries.

    .. math:: 2 f N + \min\left(w P,\ (2 (w_q + w_o) + 4) h N\right)

    Args:
        new: tokens N of all prompts computed now [tokens].
        cached: tokens P that are in the caches of the ranks [tokens].
        shared: values f of the keys and values of a new token, bytes w of a cached one, h heads with queries of w_q
            and outputs of w_o values.

    Returns:
        Bytes, gathered on every rank [B].

    Valid:
        An engine that chooses the smaller exchange. Queries that go to the cached tokens come back as partial outputs.

    Source:
        Pass-KV and pass-Q of "Context Parallelism for Scalable Million-Token Inference", arXiv:2411.01783, algorithm 1.

    >>> exchanged_bytes(100.0, 1e6, Shared(heads=2, query=64, output=64, fresh=128, cached_nbytes=256.0))
    77600.0
    """
    fresh = ACTIVATION_NBYTES * shared.fresh * new
    if not shared.is_sharded:
        return fresh
    queries = (ACTIVATION_NBYTES * (shared.query + shared.output) + _LSE_NBYTES) * shared.heads * new
    return fresh + minimum(shared.cached_nbytes * cached, queries, "queries or cached tokens are the smaller exchange")


class Shared(NamedTuple):
    """What attention exchanges with the ranks that hold other tokens."""

    heads: Real  # query heads of this rank
    query: Real  # values of a query, of one head
    output: Real  # values of an output of attention, of one head
    fresh: Real  # values that a new token has for other ranks: keys and values, in 16 bits
    cached_nbytes: Real  # [B] of a cached token on this rank
    tag: str = ""
    is_sharded: bool = True  # whether ranks share the cached tokens; windows are kept whole
    gathers: bool = False  # prompts gather the cached tokens of other shards, and not the queries for them


def decode_tp(plan: Plan, shared: Shared, tp: Real) -> Real:
    """Degree that divides the heads of decode attention: ranks that share a cache have the queries of all of them."""
    return tp / plan.dcp if shared.is_sharded and plan.dcp != 1 else tp


def of_shard(plan: Plan, shared: Shared, work: Work) -> Work:
    """Work of decode attention on one rank; that of a layer whose cache is whole stays as it is."""
    return shard_work(work, plan.shards) if shared.is_sharded and plan.shards != 1 else work


def of_prompt(plan: Plan, work: Work, queries: Real) -> Work:
    """Work of prompt attention on one rank; `queries` [B] are those of the whole prompt, with their outputs."""
    return split_work(work, plan.cp, queries) if plan.cp != 1 else work


def add_before(assembly: Assembly, count: Real, shared: Shared, span: Span) -> None:
    """Add what attention needs of other ranks: keys and values of a prompt, queries of a decode step."""
    plan, tag = assembly.plan, shared.tag
    with assembly.serving(CONTEXT):
        if span.is_decode:
            if shared.is_sharded:
                _add_queries(assembly, count, shared, None)
            return
        cached = assembly.sequences * span.cached * shared.cached_nbytes
        if plan.cp != 1:
            tensor = exchanged_bytes(assembly.sequences * span.new, assembly.sequences * span.cached, shared)
            assembly.collective(f"KV all-gather{tag}", ALL_GATHER, count, tensor, plan.cp, stride=assembly.tp)
        if not shared.is_sharded or plan.dcp == 1:
            return
        has_cached = above(span.cached, 0.0)
        if shared.gathers:
            assembly.collective(f"cached KV all-gather{tag}", ALL_GATHER, count, cached, plan.dcp, has_cached)
        else:
            _add_queries(assembly, count, shared, has_cached)


def add_after(assembly: Assembly, count: Real, shared: Shared, span: Span) -> None:
    """Add the merge of partial outputs by the sums of their softmax."""
    plan = assembly.plan
    if not shared.is_sharded:
        return
    with assembly.serving(CONTEXT):
        if not span.is_decode:
            if plan.dcp != 1 and not shared.gathers:
                _add_merge(assembly, count, shared, above(span.cached, 0.0))
            return
        _add_merge(assembly, count, shared, None)
        if plan.cp == 1:
            return
        heads, tag, apart = shared.heads, shared.tag, assembly.tp
        sums = _LSE_NBYTES * assembly.tokens * heads * plan.cp
        outputs = partial_bytes(assembly.tokens, heads, shared.output, 1)
        assembly.collective(f"sums all-gather, prompt ranks{tag}", ALL_GATHER, count, sums, plan.cp, stride=apart)
        assembly.collective(f"outputs all-reduce, prompt ranks{tag}", ALL_REDUCE, count, outputs, plan.cp, stride=apart)


def _add_queries(assembly: Assembly, count: Real, shared: Shared, takes_place: Real | None) -> None:
    dcp = assembly.plan.dcp
    if dcp != 1:
        queries = partial_bytes(assembly.tokens, shared.heads, shared.query, dcp)
        assembly.collective(f"queries all-gather{shared.tag}", ALL_GATHER, count, queries, dcp, takes_place)


def _add_merge(assembly: Assembly, count: Real, shared: Shared, takes_place: Real | None) -> None:
    dcp = assembly.plan.dcp
    if dcp == 1:
        return
    sums = _LSE_NBYTES * assembly.tokens * shared.heads * dcp * dcp  # of all heads, from every shard
    outputs = partial_bytes(assembly.tokens, shared.heads, shared.output, dcp)
    weighing = Work(activation_bytes=2.0 * outputs + sums)
    assembly.elementwise(
        f"outputs, weighted{shared.tag}", count if takes_place is None else count * takes_place, weighing
    )
    assembly.collective(f"sums all-gather{shared.tag}", ALL_GATHER, count, sums, dcp, takes_place)
    assembly.collective(f"outputs reduce-scatter{shared.tag}", REDUCE_SCATTER, count, outputs, dcp, takes_place)
