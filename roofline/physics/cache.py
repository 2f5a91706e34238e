"""What a sequence keeps on a GPU between passes: KV cache, keys of an indexer, recurrent state."""

from __future__ import annotations

from roofline.ops import Real, maximum, minimum
from roofline.physics.geometry import WINDOW_FILLED
from roofline.specs.layers import Csa, Gdn, Gqa, Kda, Lightning, Linear, Mamba1, Mamba2, Mixer, Mla, NoMixer, Recurrent

__all__ = [
    "cache_bytes",
    "conv_channels",
    "index_nbytes",
    "kv_values",
    "local_kv_heads",
    "reach",
    "state_bytes",
    "state_values",
]

_STATE_NBYTES = 4.0  # recurrent states are kept in fp32 (mamba_ssm_cache_dtype of the Nemotron configurations)
_CONV_NBYTES = 2.0  # the last inputs of the short convolution in 16 bits
_INDEX_NBYTES = 1.0 + 4.0 / 128  # index keys of DSA: fp8 with an fp32 scale per 128 (DeepSeek-V3.2 report, 2025-12)


def reach(tokens: Real, mixer: Gqa | Mla) -> Real:
    """Tokens that the last of a sequence sees at most, and so must be kept: its length, window or chunk.

    Args:
        tokens: length of the sequence [tokens].
        mixer: attention whose `window` or `chunk` limits what a token sees.

    Returns:
        Tokens [tokens].

    Source:
        Windows of arXiv:2310.06825, chunks of the Llama 4 model card.
    """
    window = getattr(mixer, "window", None)
    limit = getattr(mixer, "chunk", None) if window is None else window
    return tokens if limit is None else minimum(tokens, 1.0 * limit, WINDOW_FILLED)


def kv_values(mixer: Gqa | Mla, tp: Real = 1) -> Real:
    """Values that one token leaves in the KV cache of one layer on one GPU.

    KV heads beyond their number are replicated, the latent of MLA always is.

    Args:
        mixer: attention.
        tp: tensor-parallel degree [1].

    Returns:
        Values [1].

    Source:
        Ainslie et al., arXiv:2305.13245; DeepSeek-V2, arXiv:2405.04434, section 2.1.

    >>> kv_values(Gqa(heads=32, kv_heads=8, head_dim=128, v_head_dim=128))
    2048.0
    """
    if isinstance(mixer, Mla):
        return 1.0 * (mixer.kv_rank + mixer.rope)
    return local_kv_heads(mixer, tp) * (mixer.head_dim + mixer.v_head_dim)


def local_kv_heads(mixer: Gqa, tp: Real) -> Real:
    """KV heads on one GPU: shared out over tp, replicated where tp exceeds them.

    Args:
        mixer: attention.
        tp: tensor-parallel degree [1].

    Returns:
        Heads [1].

    Source:
        Tensor parallelism of vLLM and TensorRT-LLM, which replicate KV heads likewise.

    >>> local_kv_heads(Gqa(heads=32, kv_heads=8, head_dim=128, v_head_dim=128), 16)
    1.0
    """
    return maximum(mixer.kv_heads / tp, 1.0, "KV heads begin or cease to be replicated")


def index_nbytes(mixer: Gqa | Mla, kv_nbytes: float) -> Real:
    """Bytes that one token leaves as index key in one layer on one GPU, replicated over tp.

    Args:
        mixer: attention, with an indexer or none.
        kv_nbytes: bytes per cached value [B].

    Returns:
        Bytes; DSA keeps fp8 keys whatever the KV format [B].

    Source:
        DeepSeek-V3.2 report, 2025-12 (fp8 with an fp32 scale per 128 values); MiniMax-M3 configuration, 2026.
    """
    indexer = mixer.indexer
    if indexer is None or not indexer.own:
        return 0.0
    return indexer.dim * (_INDEX_NBYTES if isinstance(mixer, Mla) else kv_nbytes)


def state_values(mixer: Recurrent, tp: Real = 1) -> Real:
    """Values of the recurrent state of one sequence in one layer on one GPU.

    Args:
        mixer: recurrent mixer.
        tp: tensor-parallel degree, which divides the heads or channels [1].

    Returns:
        Values [1].

    Source:
        arXiv:2412.06464 (gated delta net), 2405.21060 (Mamba-2), 2312.00752 (Mamba-1), 2401.04658 (lightning).

    >>> state_values(Lightning(heads=64, dim=128))
    1048576.0
    """
    match mixer:
        case Gdn():
            values = mixer.v_heads * mixer.k_dim * mixer.v_dim
        case Kda() | Lightning():
            values = mixer.heads * mixer.dim * mixer.dim
        case Mamba2():
            values = mixer.heads * mixer.head_dim * mixer.state
        case Mamba1():
            values = mixer.inner * mixer.state
    return values / tp


def conv_channels(mixer: Recurrent, tp: Real = 1) -> Real:
    """Channels of the short convolution on one GPU; input and output matrices of a group are not split.

    Args:
        mixer: recurrent mixer.
        tp: tensor-parallel degree [1].

    Returns:
        Channels [1].

    Source:
        Shapes of the checkpoints' tensors.
    """
    match mixer:
        case Gdn():
            return (2 * mixer.k_heads * mixer.k_dim + mixer.v_heads * mixer.v_dim) / tp
        case Kda():
            return 3 * mixer.heads * mixer.dim / tp
        case Mamba2():
            groups = maximum(mixer.groups / tp, 1.0, "groups begin or cease to be replicated")
            return mixer.heads * mixer.head_dim / tp + 2 * groups * mixer.state
        case Mamba1():
            return mixer.inner / tp
        case Lightning():
            return 0.0


def state_bytes(mixer: Recurrent, tp: Real = 1) -> Real:
    """Bytes of the state of one sequence in one layer on one GPU, the convolution's last inputs included.

    Args:
        mixer: recurrent mixer.
        tp: tensor-parallel degree [1].

    Returns:
        Bytes, whatever the length [B].

    Source:
        States in fp32 (mamba_ssm_cache_dtype of the Nemotron configurations), inputs in 16 bits.
    """
    inputs = 0.0 if isinstance(mixer, Lightning) else conv_channels(mixer, tp) * (mixer.conv - 1)
    return _STATE_NBYTES * state_values(mixer, tp) + _CONV_NBYTES * inputs


def cache_bytes(mixer: Mixer, tokens: Real, kv_nbytes: float, tp: Real = 1) -> Real:
    r"""Bytes that a sequence keeps in one layer on one GPU.

    .. math:: (d + d_v) g\, w_{kv} \min(n, window),\quad (r + rope) w_{kv} n\ \text{(MLA)},\quad
              d\, w_{kv} (\min(n, window) + n / ratio)\ \text{(CSA)}

    and the keys of an indexer; a recurrent mixer keeps its state.

    Args:
        mixer: mixer of the layer.
        tokens: length n of the sequence [tokens].
        kv_nbytes: bytes per cached value w_kv [B].
        tp: tensor-parallel degree [1].

    Returns:
        Bytes [B].

    Valid:
        Windowed and chunked layers keep what they can still read; engines that keep everything need more.

    Source:
        Sum of `kv_values`, `index_nbytes` and `state_bytes` over what is kept.
    """
    match mixer:
        case Gqa() | Mla():
            kept = kv_values(mixer, tp) * kv_nbytes * reach(tokens, mixer)
            return kept + index_nbytes(mixer, kv_nbytes) * tokens if mixer.indexer is not None else kept
        case Csa():
            near = minimum(tokens, 1.0 * mixer.window, WINDOW_FILLED)
            return kv_nbytes * (mixer.head_dim * near + _entry_values(mixer) * tokens)
        case Linear() | NoMixer():
            return 0.0 * tokens
        case _:
            return state_bytes(mixer, tp) + 0.0 * tokens


def _entry_values(mixer: Csa) -> Real:
    """Values of compressed entries, and of their index keys, per token."""
    if not mixer.ratio:
        return 0.0
    index = 0 if mixer.indexer is None else mixer.indexer.dim
    return (mixer.head_dim + index) / mixer.ratio
