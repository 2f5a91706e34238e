"""The acceptance of draft tokens from text: rates, tokens per step, or a published preset."""

from __future__ import annotations

import re

from roofline.errors import BadInput, UnknownName, shown
from roofline.grammar.numbers import share_of_text
from roofline.specs.speculation import MOST_DRAFTS, PRESETS_OF_ACCEPTANCE, Acceptance

#: What an acceptance looks like.
EXAMPLES_OF_ACCEPTANCE = (
    f"0.8, .92,.86,.8 (one for each token), '2.8 tokens' (per step), or {' or '.join(PRESETS_OF_ACCEPTANCE)}"
)

_TOKENS = r"(?i:([0-9]*\.?[0-9]+)\s*tok(?:ens?)?(?:\s*(?:per|a|/)\s*step)?)"
_NAME = r"(?i:[a-z][a-z0-9.-]*)"
_ROUNDS = 60  # of a bisection


def acceptance_of_text(text: str, drafts: int | None) -> Acceptance:
    """Acceptance rates from text; `drafts` is the number of tokens proposed before a step, None to count the rates.

    >>> acceptance_of_text(".92,.86,.8", None).tokens == 1 + 0.92 * (1 + 0.86 * 1.8)
    True
    """
    whole = text.strip()
    preset = PRESETS_OF_ACCEPTANCE.get(whole.lower())
    if preset is not None:
        return preset.acceptance if drafts is None else preset.acceptance.of(_checked(drafts))
    counted = re.fullmatch(_TOKENS, whole)
    if counted is not None:
        return acceptance_of_tokens(float(counted[1]), drafts)
    if re.fullmatch(_NAME, whole):
        raise UnknownName(f"unknown acceptance {shown(text)}; write {EXAMPLES_OF_ACCEPTANCE}")
    try:
        rates = tuple(share_of_text(part) for part in whole.split(","))
    except BadInput:
        raise BadInput(
            f"acceptance = {shown(text)} must be between 0 and 1 for each token; write {EXAMPLES_OF_ACCEPTANCE}"
        ) from None
    return acceptance_of_rates(rates, drafts)


def acceptance_of_rates(rates: tuple[float, ...], drafts: int | None) -> Acceptance:
    """Acceptance of the given rates [1]: one rate for all draft tokens, or one for each."""
    for rate in rates:
        if not 0.0 <= rate <= 1.0:
            hint = f"; {rate:g} tokens per step are written '{rate:g} tokens'" if rate > 1.0 else ""
            raise BadInput(f"acceptance = {rate:g} must be between 0 and 1{hint}")
    if drafts is None or len(rates) == drafts:
        return Acceptance(rates)
    if len(rates) == 1:
        return Acceptance(rates).of(_checked(drafts))
    raise BadInput(
        f"{len(rates)} rates of acceptance and draft_tokens = {drafts} disagree; give one rate for each token"
    )


def acceptance_of_tokens(tokens: float, drafts: int | None) -> Acceptance:
    r"""The one rate at which a decode step yields so many tokens.

    .. math:: 1 + a + \dots + a^g = \tau

    Args:
        tokens: tau, of a step [tokens].
        drafts: g, proposed before a step [tokens].

    Returns:
        The same rate for every draft token [1].

    Raises:
        BadInput: `drafts` is None, or cannot yield so many tokens.

    Source:
        Leviathan et al., arXiv:2211.17192, section 3.1, solved for a by bisection.
    """
    if drafts is None:
        raise BadInput(f"{tokens:g} tokens per step need draft_tokens, the tokens proposed before each step")
    if not 1.0 <= tokens <= _checked(drafts) + 1.0:
        raise BadInput(f"{tokens:g} tokens per step must be between 1 and {drafts + 1}, with draft_tokens = {drafts}")
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if Acceptance((middle,) * drafts).tokens < tokens else (low, middle)
    return Acceptance((high,) * drafts)


def _checked(drafts: int) -> int:
    if not 1 <= drafts <= MOST_DRAFTS:
        raise BadInput(f"draft_tokens = {drafts} must be between 1 and {MOST_DRAFTS}")
    return drafts
