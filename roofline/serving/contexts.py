"""Which models and plans context parallelism is for."""

from __future__ import annotations

from roofline.physics.layers.kinds import MIXER_KINDS, is_sharded
from roofline.physics.plan import Plan
from roofline.specs.gpu import STATE_PREFILL
from roofline.specs.model import Blocks, Csa, Csa2, Gqa, Mixer, Model, Relative, ShortConv

#: Kinds of attention whose tokens are on one rank.
_UNDIVIDED: tuple[tuple[type, str], ...] = (
    (Csa, "compressed attention"),
    (Csa2, "compressed attention"),
    (Relative, "relative attention"),
    (Blocks, "attention to selected blocks"),
)


def _unmodelled(model: Model) -> str | None:
    """A kind of attention that is not divided over the tokens of a sequence; None where there is none."""
    return next((name for kind, name in _UNDIVIDED if any(isinstance(mixer, kind) for mixer in _mixers(model))), None)


def copies_of_cache(model: Model, tp: int) -> int:
    """Ranks of tp that hold the same keys and values; 0 where no layer keeps whole sequences.

    >>> import roofline as rl
    >>> copies_of_cache(rl.load_model("deepseek-r1"), 8), copies_of_cache(rl.load_model("llama-3.1-8b"), 8)
    (8, 1)
    """
    copies = [tp // _kv_heads(mixer) for mixer in _mixers(model) if is_sharded(mixer)]
    return min(copies, default=0)


def possible_dcp(model: Model, tp: int) -> list[int]:
    """Decode context parallel degrees of a plan, in ascending order; 1 alone where it has no copies to remove."""
    if _unmodelled(model) is not None:
        return [1]
    copies = max(copies_of_cache(model, tp), 1)
    return [dcp for dcp in range(1, copies + 1) if _removes(model, tp, dcp)]


def context_fault(model: Model, plan: Plan) -> str | None:
    """Why a model cannot have its tokens on several ranks as a plan says; None if it can.

    vLLM has the same conditions: tp a multiple of dcp for latents, tp / KV heads one for keys and values of heads.
    """
    return _prompt_fault(model, plan) or _cache_fault(model, plan)


def _prompt_fault(model: Model, plan: Plan) -> str | None:
    if plan.cp == 1:
        return None
    for mixer in _mixers(model):
        if STATE_PREFILL in MIXER_KINDS[type(mixer)].reading or isinstance(mixer, ShortConv):
            return (
                f"cp = {plan.cp} splits the tokens of a prompt, and {model.short_name} has recurrent layers, whose "
                "state goes through them one after the other; choose another plan"
            )
    odd = _unmodelled(model)
    if odd is not None:
        return f"cp = {plan.cp} is not modelled for the {odd} of {model.short_name}; choose cp = 1"
    if not any(MIXER_KINDS[type(mixer)].is_attention for mixer in _mixers(model)):
        return f"cp = {plan.cp} splits attention, which {model.short_name} does not have; choose cp = 1"
    return None


def _cache_fault(model: Model, plan: Plan) -> str | None:
    tp, dcp = plan.tp, plan.dcp
    if dcp == 1:
        return None
    odd = _unmodelled(model)
    if odd is not None:
        return f"dcp = {dcp} is not modelled for the {odd} of {model.short_name}; choose dcp = 1"
    copies = copies_of_cache(model, tp)
    if not copies and not any(is_sharded(mixer) for mixer in _mixers(model)):
        return (
            f"dcp = {dcp} shares a KV cache of whole sequences, which {model.short_name} does not have; choose dcp = 1"
        )
    if _removes(model, tp, dcp):
        return None
    choices = possible_dcp(model, tp)
    heads = max(_kv_heads(mixer) for mixer in _mixers(model) if is_sharded(mixer))
    if heads == 1:
        held = f"the latent KV cache of {model.short_name} is on all {tp} ranks"
    elif copies > 1:
        held = f"each of the {heads} KV heads of {model.short_name} is on {copies} ranks"
    else:
        held = f"the {heads} KV heads of {model.short_name} are on one rank each"
    what = "one of " if len(choices) > 1 else ""
    wider = heads * dcp
    is_whole = all(int(mixer.heads) % wider == 0 for mixer in _mixers(model) if isinstance(mixer, Gqa))
    more = f", or tp = {wider}" if heads > 1 and copies < dcp and is_whole else ""
    allowed = ", ".join(map(str, choices))
    return f"dcp = {dcp} does not fit tp = {tp}: {held}; use {what}dcp = {allowed}{more}"


def _removes(model: Model, tp: int, dcp: int) -> bool:
    """Whether the ranks that hold the same keys and values form groups of this size."""
    if tp % dcp:
        return False
    for mixer in _mixers(model):
        if is_sharded(mixer):
            copies = tp // _kv_heads(mixer)
            if dcp > max(copies, 1) or copies % dcp:
                return False
    return True


def _kv_heads(mixer: Mixer) -> int:
    return int(mixer.kv_heads) if isinstance(mixer, Gqa) else 1


def _mixers(model: Model) -> list[Mixer]:
    return [mixer for count, mixer in model.mixers if count]
