"""Disaggregated serving: separate pools for prefill and decode, and the KV transfer between them."""

from __future__ import annotations

from roofline.ops import Real, maximum
from roofline.physics.memory import kv_bytes_per_sequence
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, dataclass

#: Links for KV transfers: the scale-up fabric, the network, the host's bus.
NVLINK, RDMA, PCIE_LINK = KV_LINKS = ("nvlink", "rdma", "pcie")

_SAME = 2.0**-40  # relative difference of rates that counts as none


@dataclass(frozen=True, slots=True)
class KvLink:
    """How KV caches move between the pools."""

    kind: str  # one of `KV_LINKS`, or `given`
    bandwidth: Real  # [B/s] per GPU and direction; infinite for instant transfers
    is_layerwise: bool = False  # each layer's KV is sent as soon as it is computed


@dataclass(frozen=True, slots=True)
class Pools:
    """A prefill deployment, a decode deployment and the link between them."""

    prefill: Deployment
    decode: Deployment
    link: KvLink

    @property
    def num_gpus(self) -> int:
        return self.prefill.num_gpus + self.decode.num_gpus


def kv_transfer_time(pools: Pools, tokens: Real) -> Real:
    r"""Time to move the KV cache of one sequence from a prefill rank to a decode rank.

    .. math:: t = \frac{1}{W} \max\left(k_d, \frac{g_d\, k_d}{g_p}\right)

    Every GPU of a decode rank receives the share k that it stores, replicated heads and latents included; the GPUs of
    the prefill rank share the sending evenly.

    Args:
        pools: both deployments and the link.
        tokens: of the sequence, its cached prefix included [tokens].

    Returns:
        Time [s]; with a pipeline, that of the fullest stage.

    Valid:
        Rates add over the GPUs of a rank; no compression, no message latency.

    Source:
        Patel et al., "Splitwise", ISCA 2024, section 4.3; Zhong et al., "DistServe", OSDI 2024, section 4.
    """
    sender, receiver = pools.prefill, pools.decode
    received = kv_bytes_per_sequence(receiver.model, receiver.plan, receiver.quantization, tokens)
    gpus = receiver.plan.tp * receiver.plan.pp
    sent = received * gpus / (sender.plan.tp * sender.plan.pp)
    return maximum(received, sent) / pools.link.bandwidth


def shown_transfer(link: KvLink, layers: Real, transfer: Real, prompt: Real) -> Real:
    r"""Transfer time that remains visible in the TTFT.

    .. math:: t' = \max\left(\frac{t}{L},\ t - \left(1 - \frac{1}{L}\right) A\right)

    where layers are sent while later ones are computed; otherwise all of it.

    Args:
        link: between the pools.
        layers: L, of the model [1].
        transfer: time t of the whole cache [s].
        prompt: time A to compute the prompt [s].

    Returns:
        Time [s].

    Valid:
        Layers of equal size.

    Source:
        Arithmetic of two stages that overlap; layer-wise transfer of Patel et al., "Splitwise", ISCA 2024, section 4.3.

    >>> shown_transfer(KvLink("rdma", 1e9, is_layerwise=True), 10.0, 0.5, 1.0)
    0.05
    """
    if not link.is_layerwise:
        return transfer
    return maximum(transfer / layers, transfer - (1.0 - 1.0 / layers) * prompt)


class PoolRatio(NamedTuple):
    """Numbers of replicas of both pools that keep each other busy."""

    prefill: int  # replicas
    decode: int  # replicas
    rate: float  # [1/s] at most
    rate_per_gpu: float  # [1/s]
    exact: float  # prefill replicas per decode replica at which neither pool waits for the other [1]
    exact_rate_per_gpu: float  # [1/s] at the exact ratio: an upper bound for whole numbers


def matched_ratio(prefill: Real, decode: Real) -> Real:
    r"""Prefill replicas per decode replica at which neither pool waits for the other.

    .. math:: \frac{n_p}{n_d} = \frac{X_d}{X_p}

    Args:
        prefill: capacity X_p of a prefill replica [1/s].
        decode: capacity X_d of a decode replica [1/s].

    Returns:
        Ratio [1].

    Source:
        Rate matching of the two phases: Zhong et al., "DistServe", OSDI 2024, section 4.1.

    >>> matched_ratio(2.0, 3.0)
    1.5
    """
    return decode / prefill


def matched_rate_per_gpu(prefill: Real, decode: Real, prefill_gpus: Real, decode_gpus: Real) -> Real:
    r"""Largest request rate per GPU at the matched ratio.

    .. math:: x = \frac{1}{g_p / X_p + g_d / X_d}

    Args:
        prefill: capacity X_p of a prefill replica [1/s].
        decode: capacity X_d of a decode replica [1/s].
        prefill_gpus: GPUs of a prefill replica, g_p [1].
        decode_gpus: GPUs of a decode replica, g_d [1].

    Returns:
        Upper bound of the rate with whole replicas [1/s].

    Source:
        `matched_ratio`.

    >>> matched_rate_per_gpu(2.0, 2.0, 1.0, 3.0)
    0.5
    """
    return 1.0 / (prefill_gpus / prefill + decode_gpus / decode)


def best_pool_ratio(prefill: float, decode: float, prefill_gpus: int, decode_gpus: int, most: int) -> PoolRatio | None:
    """Whole replicas within `most` GPUs with the highest rate per GPU; ties go to fewer GPUs; None if none fit.

    >>> best_pool_ratio(2.0, 3.0, 1, 1, 5)[:3]
    (3, 2, 6.0)
    """
    exact = matched_ratio(prefill, decode)
    bound = matched_rate_per_gpu(prefill, decode, prefill_gpus, decode_gpus)
    best: PoolRatio | None = None
    for receivers in range(1, (most - prefill_gpus) // decode_gpus + 1):
        room = (most - receivers * decode_gpus) // prefill_gpus
        for senders in {max(min(int(exact * receivers), room), 1), max(min(int(exact * receivers) + 1, room), 1)}:
            gpus = senders * prefill_gpus + receivers * decode_gpus
            rate = min(senders * prefill, receivers * decode)
            candidate = PoolRatio(senders, receivers, rate, min(rate / gpus, bound), exact, bound)
            if best is None or candidate.rate_per_gpu > best.rate_per_gpu * (1.0 + _SAME):
                best = candidate
    return best
