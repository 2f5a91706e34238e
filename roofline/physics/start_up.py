"""What an engine says of its KV cache when it starts: blocks of a request, tokens and concurrency of its log."""

from __future__ import annotations

from functools import reduce

from roofline.numbers.operations import Real, ceil, floor, maximum, minimum
from roofline.physics.layers.kinds import MIXER_KINDS, cache_bytes, is_sharded, shard_bytes
from roofline.physics.memory import kv_bytes_per_sequence, start_up_rule
from roofline.physics.plan import Deployment
from roofline.specs.engine import OF_ALL, StartUp
from roofline.specs.model import Gqa, Mixer
from roofline.support.records import NamedTuple, replace

_ALIKE = 1.5  # kinds of layers whose numbers differ by less are put into groups of the larger number


def request_bytes(deployment: Deployment, length: Real) -> Real:
    """KV cache of one request on the fullest GPU, in whole blocks.

    Args:
        deployment: model, plan, quantization and token budget.
        length: tokens of the request [tokens].

    Returns:
        Bytes [B].

    Source:
        vLLM v0.33.0, v1/kv_cache_interface.py: whole blocks, a window beside the tokens of the steps in flight;
        v1/core/kv_cache_planning.py: layers in groups of equal size. SGLang v0.5.23,
        model_executor/pool_configurator.py: the pool of windowed layers is a share of the other.
    """
    rule, stages = start_up_rule(deployment), deployment.model.stages(deployment.plan.pp)
    held = reduce(maximum, (_stage_request(deployment, rule, stage.mixers, length) for stage in stages))
    draft = deployment.drafting
    if draft is None:
        return held
    return held + kv_bytes_per_sequence(draft.model, draft.plan, draft.quantization, length)


def _stage_request(deployment: Deployment, rule: StartUp, mixers: tuple[tuple[Real, Mixer], ...], length: Real) -> Real:
    """KV cache of one request in the layers of a stage [B]."""
    padded = _padded(deployment, rule, mixers)
    return sum(count * _layer_request(deployment, rule, mixer, length, padded) for count, mixer in padded.layers)


class _Padded(NamedTuple):
    """Layers in groups of equal size, as an engine allocates them."""

    layers: tuple[tuple[Real, Mixer], ...]
    token: Real  # [B] of a token in one of the layers that attend to all; 0.0: there are none


def _padded(deployment: Deployment, rule: StartUp, mixers: tuple[tuple[Real, Mixer], ...]) -> _Padded:
    """Kinds of layers that keep something; with several kinds in one pool their numbers are rounded up to groups."""
    nbytes, tp = deployment.quantization.kv_nbytes, deployment.plan.tp
    kept = tuple((count, mixer) for count, mixer in mixers if _keeps(mixer))
    whole = [mixer for _, mixer in kept if isinstance(mixer, Gqa) and not _is_limited(mixer, rule)]
    token = cache_bytes(replace(whole[0], window=None, chunk=None), 1.0, nbytes, tp) if whole else 0.0
    kinds: dict[bool, Real] = {}
    for count, mixer in kept:
        limited = not isinstance(mixer, Gqa) or _is_limited(mixer, rule)
        kinds[limited] = kinds.get(limited, 0.0) + count
    if rule.share_of != OF_ALL or not whole or len(kinds) == 1:
        return _Padded(kept, token)
    fewest, most = sorted(kinds.values())
    size = most if most < _ALIKE * fewest else fewest
    return _Padded(
        tuple(
            (count * size * ceil(kinds[limited] / size) / kinds[limited], mixer)
            for count, mixer in kept
            for limited in (not isinstance(mixer, Gqa) or _is_limited(mixer, rule),)
        ),
        token,
    )


def _keeps(mixer: Mixer) -> bool:
    return bool(cache_bytes(mixer, 1.0, 1.0) > 0.0)


def _is_limited(mixer: Gqa, rule: StartUp) -> bool:
    """Whether a layer keeps less than whole sequences."""
    return (mixer.window is not None and not rule.full_windows) or (mixer.chunk is not None and not rule.full_chunks)


def _layer_request(deployment: Deployment, rule: StartUp, mixer: Mixer, length: Real, padded: _Padded) -> Real:
    """KV cache of one request in one layer, in whole blocks [B]."""
    nbytes, tp, block = deployment.quantization.kv_nbytes, deployment.plan.tp, float(rule.block)
    whole = block * ceil(length / block)
    shards = deployment.plan.shards
    if shards != 1 and is_sharded(mixer):
        return shard_bytes(mixer, shards * block * ceil(length / (shards * block)), nbytes, tp, shards)
    if not isinstance(mixer, Gqa):
        if MIXER_KINDS[type(mixer)].is_attention:
            return cache_bytes(mixer, whole, nbytes, tp)
        state = cache_bytes(mixer, length, nbytes, tp)
        if rule.share_of != OF_ALL or not padded.token:
            return state
        return padded.token * block * ceil(state / (padded.token * block))  # a block holds a whole state
    full = replace(mixer, window=None, chunk=None)
    if not _is_limited(mixer, rule):
        return cache_bytes(full, whole, nbytes, tp)
    if rule.share_of != OF_ALL:
        kept = cache_bytes(mixer, whole, nbytes, tp)
        return maximum(kept, deployment.engine.full_length_kv * cache_bytes(full, whole, nbytes, tp))
    budget = float(deployment.engine.max_num_batched_tokens or length) * rule.in_flight
    seen = mixer.window - 1 if mixer.window is not None else mixer.chunk or 0
    tokens = block * (ceil(minimum(seen + budget, length) / block) + 1.0)
    return cache_bytes(full, tokens, nbytes, tp)


def logged_tokens(deployment: Deployment, cache: Real, length: Real) -> Real:
    """KV tokens that the log of an engine counts: requests that fit, times their length.

    Older versions of vLLM give each group of layers the same number of blocks, and count those.

    Args:
        deployment: model, plan, quantization and engine.
        cache: memory of the KV cache [B].
        length: longest request [tokens].

    Returns:
        Tokens, whole blocks [tokens].

    Source:
        vLLM v0.19.0, v1/core/kv_cache_utils.py, _report_kv_cache_config; v0.33.0, get_kv_cache_capacity.
    """
    rule, left = start_up_rule(deployment), maximum(cache, 0.0)
    block, request = float(rule.block), request_bytes(deployment, length)
    if rule.even_groups:
        stages = deployment.model.stages(deployment.plan.pp)
        padded = [_padded(deployment, rule, stage.mixers) for stage in stages]
        kinds = {type(mixer) is Gqa and _is_limited(mixer, rule) for _, mixer in padded[0].layers}
        states = any(not isinstance(mixer, Gqa) for _, mixer in padded[0].layers)
        if padded[0].token and (len(kinds) > 1 or states):
            widest = reduce(maximum, (one.token * sum(count for count, _ in one.layers) for one in padded))
            return block * floor(left / widest / block)
    tokens = left / request * length if request > 0.0 else 0.0
    return block * floor(tokens / block)
