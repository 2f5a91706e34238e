"""Kind of every layer record, and formulas over all kinds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TypeGuard, TypeVar

from roofline.numbers.operations import Real
from roofline.physics.assembly import MixerKind, NetworkKind
from roofline.physics.layers.attention import is_kept_whole, own_indexer
from roofline.specs.gpu import INDEXER, KINDS, MLA_CHOSEN, KernelKind
from roofline.specs.model import (
    Blocks,
    CrossAttention,
    Csa,
    Csa2,
    DenseFfn,
    Ffn,
    Gdn,
    Gqa,
    Kda,
    Lightning,
    Linear,
    LinearFfn,
    Mamba1,
    Mamba2,
    MemoryFfn,
    Mixer,
    Mla,
    MoeFfn,
    NoFfn,
    NoMixer,
    Relative,
    ShortConv,
)
from roofline.support.records import replace

_Kind = TypeVar("_Kind", MixerKind, NetworkKind)


class _Kinds(dict[type, _Kind]):
    """Kinds by record type, each imported when a model first has such a layer."""

    def __init__(self, homes: Mapping[type, str]) -> None:
        super().__init__()
        self._homes = homes

    def __missing__(self, record: type) -> _Kind:
        module, name = self._homes[record].split(".")
        kind: _Kind = getattr(import_module(f"roofline.physics.layers.{module}"), name)
        self[record] = kind
        return kind


MIXER_KINDS: Mapping[type[Mixer], MixerKind] = _Kinds(
    {
        Gqa: "attention.GQA",
        Mla: "latent.MLA",
        Relative: "relative.RELATIVE",
        Blocks: "candidates.BLOCKS",
        Csa: "latent.CSA",
        Csa2: "cross_layer.CSA2",
        Gdn: "recurrent.GDN",
        Kda: "recurrent.KDA",
        Lightning: "recurrent.LIGHTNING",
        Mamba1: "recurrent.MAMBA1",
        Mamba2: "recurrent.MAMBA2",
        ShortConv: "recurrent.SHORT_CONV",
        CrossAttention: "attention.CROSS",
        Linear: "attention.LINEAR",
        NoMixer: "attention.NO_MIXER",
    }
)

NETWORK_KINDS: Mapping[type[Ffn], NetworkKind] = _Kinds(
    {
        DenseFfn: "networks.DENSE",
        MoeFfn: "networks.MOE",
        MemoryFfn: "memories.MEMORY",
        LinearFfn: "attention.LINEAR_NETWORK",
        NoFfn: "attention.NO_NETWORK",
    }
)


def mixer_parameters(mixer: Mixer, hidden: Real, tp: Real = 1) -> tuple[Real, Real]:
    """Parameters of a mixer on one rank: of its matrices, and of its norms, biases and other vectors.

    KV projections are replicated where tp exceeds the KV heads; latent projections and indexers always are.

    Args:
        mixer: the mixer.
        hidden: model width [1].
        tp: tensor-parallel degree [1].

    Returns:
        Two counts [1].

    Source:
        Shapes of the checkpoints' tensors; totals are checked against published ones in the tests.
    """
    kind = MIXER_KINDS[type(mixer)]
    count = kind.matrices.values(mixer, hidden, tp)
    return count.get("attention", 0.0), kind.vectors(mixer, tp) + count.get("norm", 0.0)


def cache_bytes(mixer: Mixer, tokens: Real, kv_nbytes: Real, tp: Real = 1) -> Real:
    r"""KV cache or state of one sequence in one layer on one GPU.

    .. math:: (d + d_v) g\, w_{kv} \min(n, window),\quad (r + rope) w_{kv} n\ \text{(MLA)},\quad
              d\, w_{kv} (\min(n, window) + n / ratio)\ \text{(CSA)}

    plus the keys of an indexer; a recurrent mixer keeps its state.

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
        Shapes of the caches of vLLM and TensorRT-LLM; arXiv:2305.13245 (grouped queries), 2405.04434 (latents),
        DeepSeek-V3.2 report, 2025-12 (index keys), arXiv:2412.06464, 2405.21060, 2312.00752, 2401.04658 (states).
    """
    return MIXER_KINDS[type(mixer)].cache_bytes(mixer, tokens, kv_nbytes, tp)


def is_sharded(mixer: Mixer) -> TypeGuard[Gqa | Mla]:
    """Whether ranks that share a context share the cache of the layer; windows and states are kept whole on each."""
    return isinstance(mixer, Mla) or (isinstance(mixer, Gqa) and not is_kept_whole(mixer))


def shard_bytes(mixer: Gqa | Mla, tokens: Real, kv_nbytes: Real, tp: Real, shards: Real) -> Real:
    r"""KV cache of one sequence in one layer on one of the GPUs that share its tokens.

    .. math:: \frac{kv}{s} + i

    Args:
        mixer: attention that keeps whole sequences.
        tokens: length of the sequence [tokens].
        kv_nbytes: bytes per cached value [B].
        tp: tensor-parallel degree [1].
        shards: GPUs s that share the tokens [1].

    Returns:
        Bytes [B]: a share of the keys and values kv, and all keys i of an indexer, which every rank has.

    Valid:
        Tokens are dealt one by one, so that shards differ by one token at most.

    Source:
        vLLM pull request 23734 (interleaved cache); SGLang pull request 31821 (index keys on every rank).

    >>> shard_bytes(Gqa(heads=8, kv_heads=1, head_dim=64, v_head_dim=64), 1000.0, 2.0, 8, 4)
    64000.0
    """
    whole = cache_bytes(mixer, tokens, kv_nbytes, tp)
    if own_indexer(mixer) is None:
        return whole / shards
    attended = cache_bytes(replace(mixer, indexer=None), tokens, kv_nbytes, tp)
    return attended / shards + (whole - attended)


def mixer_kinds(mixers: Iterable[Mixer]) -> tuple[KernelKind, ...]:
    """Kinds of kernel that read the caches and states of some mixers, in the order of `KINDS`."""
    used: set[KernelKind] = set()
    for mixer in mixers:
        used.update(MIXER_KINDS[type(mixer)].reading)
        if isinstance(mixer, Blocks) or (isinstance(mixer, (Gqa, Mla, Csa, Csa2)) and own_indexer(mixer) is not None):
            used.add(INDEXER)
        if isinstance(mixer, Mla) and mixer.indexer is not None:
            used.add(MLA_CHOSEN)
    return tuple(kind for kind in KINDS.values() if kind in used)
