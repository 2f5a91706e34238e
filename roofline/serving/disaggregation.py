"""Prefill and decode on GPUs of their own: two pools, and the KV cache that moves from one to the other."""

from __future__ import annotations

from roofline.ops import Real, maximum
from roofline.physics.memory import kv_bytes_per_sequence
from roofline.physics.plan import Deployment
from roofline.records import NamedTuple, dataclass

__all__ = [
    "KV_LINKS",
    "NVLINK",
    "PCIE_LINK",
    "RDMA",
    "KvLink",
    "PoolRatio",
    "Pools",
    "best_pool_ratio",
    "kv_transfer_time",
    "matched_rate_per_gpu",
    "matched_ratio",
    "shown_transfer",
]

#: Links over which a KV cache may move from GPU to GPU: the scale-up fabric, the network, the host's bus.
NVLINK, RDMA, PCIE_LINK = KV_LINKS = ("nvlink", "rdma", "pcie")

_SAME = 2.0**-40  # relative, within which rates are equal


@dataclass(frozen=True, slots=True)
class KvLink:
    """How KV caches move between the pools."""

    kind: str  # one of `KV_LINKS`, or `given`
    bandwidth: Real  # [B/s] of one GPU and direction; infinite for no transfer at all
    is_layerwise: bool = False  # whether a layer's part is sent as soon as the layer is computed


@dataclass(frozen=True, slots=True)
class Pools:
    """A deployment that computes prompts, one that writes answers, and the link between them."""

    prefill: Deployment
    decode: Deployment
    link: KvLink

    @property
    def num_gpus(self) -> int:
        """GPUs of both pools."""
        return self.prefill.num_gpus + self.decode.num_gpus


def kv_transfer_time(pools: Pools, tokens: Real) -> Real:
    r"""Time in which the KV cache of one sequence moves from the GPUs of one rank to those of another.

    .. math:: t = \frac{1}{W} \max\left(k_d, \frac{g_d\, k_d}{g_p}\right)

    Every GPU of a decode rank receives the share k that it keeps, heads or latents that several of them keep once for
    each; the GPUs of the prefill rank share the sending evenly.

    Args:
        pools: both deployments and the link.
        tokens: of the sequence, its cached prefix included [tokens].

    Returns:
        Time; with a share of the layers on each stage of a pipeline, that of the fullest [s].

    Valid:
        Rates add over the GPUs of a rank; no compression, no latency of single messages.

    Source:
        Patel et al., "Splitwise", ISCA 2024, section 4.3; Zhong et al., "DistServe", OSDI 2024, section 4.
    """
    sender, receiver = pools.prefill, pools.decode
    kept = kv_bytes_per_sequence(receiver.model, receiver.plan, receiver.precision, tokens)
    gpus = receiver.plan.tp * receiver.plan.pp
    sent = kept * gpus / (sender.plan.tp * sender.plan.pp)
    return maximum(kept, sent) / pools.link.bandwidth


def shown_transfer(link: KvLink, layers: Real, transfer: Real, prompt: Real) -> Real:
    r"""What a transfer adds to the first token.

    .. math:: t' = \max\left(\frac{t}{L},\ t - \left(1 - \frac{1}{L}\right) A\right)

    where layers are sent while the next ones are computed; all of it where they are not.

    Args:
        link: between the pools.
        layers: L, of the model [1].
        transfer: t, of the whole cache [s].
        prompt: A, in which the prompt is computed [s].

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
    """How many replicas of both pools keep each other busy."""

    prefill: int  # replicas
    decode: int  # replicas
    rate: float  # [1/s] requests that they answer at most
    rate_per_gpu: float  # [1/s]
    exact: float  # prefill replicas per decode replica at which neither pool waits for the other [1]
    exact_rate_per_gpu: float  # [1/s] there, which no whole numbers exceed


def matched_ratio(prefill: Real, decode: Real) -> Real:
    r"""Prefill replicas per decode replica at which neither pool waits for the other.

    .. math:: \frac{n_p}{n_d} = \frac{X_d}{X_p}

    Args:
        prefill: requests per second that a prefill replica takes, X_p [1/s].
        decode: requests per second that a decode replica takes, X_d [1/s].

    Returns:
        The ratio [1].

    Source:
        Rate matching of the two phases: Zhong et al., "DistServe", OSDI 2024, section 4.1.

    >>> matched_ratio(2.0, 3.0)
    1.5
    """
    return decode / prefill


def matched_rate_per_gpu(prefill: Real, decode: Real, prefill_gpus: Real, decode_gpus: Real) -> Real:
    r"""Largest rate of a GPU, with as much of a replica of either pool as it takes.

    .. math:: x = \frac{1}{g_p / X_p + g_d / X_d}

    Args:
        prefill: requests per second that a prefill replica takes, X_p [1/s].
        decode: requests per second that a decode replica takes, X_d [1/s].
        prefill_gpus: GPUs of a prefill replica, g_p [1].
        decode_gpus: GPUs of a decode replica, g_d [1].

    Returns:
        An upper bound of what whole replicas reach [1/s].

    Source:
        `matched_ratio`.

    >>> matched_rate_per_gpu(2.0, 2.0, 1.0, 3.0)
    0.5
    """
    return 1.0 / (prefill_gpus / prefill + decode_gpus / decode)


def best_pool_ratio(prefill: float, decode: float, prefill_gpus: int, decode_gpus: int, most: int) -> PoolRatio | None:
    """Whole replicas of both pools that answer most requests per GPU.

    Args:
        prefill: requests per second that a prefill replica takes [1/s].
        decode: requests per second that a decode replica takes [1/s].
        prefill_gpus: GPUs of a prefill replica [1].
        decode_gpus: GPUs of a decode replica [1].
        most: GPUs of all replicas, at most [1].

    Returns:
        The ratio; of equals the one of the fewest GPUs; None where not one replica of each is to be had.

    >>> best_pool_ratio(2.0, 3.0, 1, 1, 5)[:3]
    (3, 2, 6.0)
    """
    exact = matched_ratio(prefill, decode)
    bound = matched_rate_per_gpu(prefill, decode, prefill_gpus, decode_gpus)
    best: PoolRatio | None = None
    for decoding in range(1, (most - prefill_gpus) // decode_gpus + 1):
        room = (most - decoding * decode_gpus) // prefill_gpus
        for prompts in {max(min(int(exact * decoding), room), 1), max(min(int(exact * decoding) + 1, room), 1)}:
            gpus = prompts * prefill_gpus + decoding * decode_gpus
            rate = min(prompts * prefill, decoding * decode)
            found = PoolRatio(prompts, decoding, rate, min(rate / gpus, bound), exact, bound)
            if best is None or found.rate_per_gpu > best.rate_per_gpu * (1.0 + _SAME):
                best = found
    return best
