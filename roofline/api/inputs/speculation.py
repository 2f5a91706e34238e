"""Speculative decoding as callers write it: what proposes tokens, how many, and how many are kept."""

from __future__ import annotations

from typing import Any

from roofline.api.inputs.arguments import scalar, several
from roofline.catalog import find
from roofline.errors import BadInput, UnknownName, shown
from roofline.grammar.acceptance import EXAMPLES_OF_ACCEPTANCE, acceptance_of_rates, acceptance_of_text
from roofline.physics.plan import Deployment, Draft
from roofline.physics.speculation import eagle_head, mtp_module
from roofline.records import replace
from roofline.serving.precision import precision
from roofline.serving.sizing import plan_fault
from roofline.specs.model import Model
from roofline.specs.speculation import METHODS, MOST_DRAFTS, Acceptance

__all__ = ["DRAFTING", "check_draft_plan", "draft_of", "draft_warnings", "drafted"]

#: Options of `predict` that make up a draft.
DRAFTING = ("draft", "draft_tokens", "acceptance")

_JOINED = {"mtp": 2, "eagle": 3}  # hidden states and embeddings that a module joins
_ODD_VOCABULARY = 0.02  # relative difference beyond which two tokenizers are none


def drafted(
    deployment: Deployment, draft: Any, draft_tokens: Any, acceptance: Any, specs: str | None = None
) -> Deployment:
    """A deployment with what proposes tokens.

    Args:
        deployment: model, GPU and formats.
        draft: as of `draft_of` [text].
        draft_tokens: as of `draft_of` [tokens].
        acceptance: as of `draft_of` [1].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The deployment; the same where no draft is named.

    Raises:
        BadInput, UnknownName: as of `draft_of`.
    """
    found = draft_of(deployment, draft, draft_tokens, acceptance, specs)
    return deployment if found is None else replace(deployment, draft=found)


def check_draft_plan(deployment: Deployment) -> None:
    """Refuse a plan that what proposes tokens cannot run under.

    Args:
        deployment: with a draft or without one.

    Raises:
        BadInput: a degree that does not divide what it must.
    """
    drafting = deployment.drafting
    if drafting is not None:
        fault = plan_fault(drafting.model, drafting.plan)
        if fault is not None:
            raise BadInput(f"draft {drafting.model.short_name}: {fault}")


def draft_of(
    deployment: Deployment, draft: Any, draft_tokens: Any, acceptance: Any, specs: str | None = None
) -> Draft | None:
    """What proposes tokens.

    Args:
        deployment: model, GPU and formats.
        draft: ``mtp``, ``eagle``, ``ngram``, or the name or record of a smaller model; None for no drafts [text].
        draft_tokens: proposed before each step; None for as many as there are rates of acceptance, or modules [tokens].
        acceptance: probability that a proposal is kept, where all before it are: one or several numbers, or a text of
            these, of tokens per step (``2.8 tokens``), or the name of a preset [1].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The draft; None for none.

    Raises:
        BadInput: parts that cannot be or are missing, a model without a draft module.
        UnknownName: no such model or preset.
    """
    draft = draft if isinstance(draft, Model) else scalar(draft)
    if draft is None:
        named = {"draft_tokens": draft_tokens, "acceptance": acceptance}
        stray = [name for name, value in named.items() if value is not None]
        if stray:
            raise BadInput(f"{stray[0]} needs a draft; give draft = mtp, eagle, ngram, or the name of a smaller model")
        return None
    model, method, proposed = deployment.model, "model", draft
    if isinstance(draft, str):
        method = draft.strip().lower()
        if method not in METHODS:
            proposed, method = _smaller(draft, specs), "model"
        elif method == "mtp":
            proposed = mtp_module(model)
        else:
            proposed = eagle_head(model) if method == "eagle" else None
    elif not isinstance(draft, Model):
        raise BadInput(f"draft = {shown(draft)} must be mtp, eagle, ngram, or the name of a smaller model")
    count = _count(draft_tokens)
    rates = _acceptance(acceptance, count, model.mtp_layers if method == "mtp" else None)
    if proposed is None:
        return Draft(method, rates)
    formats = deployment.precision
    if method == "model":
        formats = precision(proposed, deployment.gpu)
    return Draft(method, rates, proposed, formats, _JOINED.get(method, 0))


def draft_warnings(deployment: Deployment) -> list[str]:
    """What a reader should know of a draft.

    Args:
        deployment: with a draft or without one.

    Returns:
        One sentence each [text].
    """
    draft, model = deployment.draft, deployment.model
    if draft is None:
        return []
    source = f" ({draft.acceptance.source})" if draft.acceptance.source else " (as given)"
    said = [
        f"{draft.acceptance.tokens:.3g} tokens per step of {draft.tokens} proposed{source}; it varies with the text"
    ]
    if draft.method == "eagle":
        said.append("EAGLE head: one attention layer like the model's with a dense network, an estimate")
    smaller = draft.model
    if draft.method == "model" and smaller is not None and abs(smaller.vocab / model.vocab - 1.0) > _ODD_VOCABULARY:
        said.append(
            f"{smaller.short_name} and {model.short_name} have vocabularies of {smaller.vocab:,} and {model.vocab:,}: "
            "engines want one tokenizer for both"
        )
    return said


def _smaller(name: str, specs: str | None) -> Model:
    try:
        found: Model = find.find_model(name, specs)[0]
    except UnknownName as error:
        raise UnknownName(f"draft = {shown(name)} is neither {', '.join(METHODS)} nor a model: {error}") from None
    return found


def _count(value: Any) -> int | None:
    count = scalar(value)
    if isinstance(count, str) and count.strip().isdecimal():
        count = int(count)
    if count is None:
        return None
    if type(count) is float and count.is_integer():
        count = int(count)
    if type(count) is not int or not 1 <= count <= MOST_DRAFTS:
        raise BadInput(f"draft_tokens = {shown(value)} must be a whole number between 1 and {MOST_DRAFTS}")
    return count


def _acceptance(value: Any, count: int | None, modules: int | None) -> Acceptance:
    """A rate for each proposal."""
    if isinstance(value, Acceptance):
        return value if count is None else value.of(count)
    if value is None:
        raise BadInput(f"a draft needs an acceptance, which depends on your text; give {EXAMPLES_OF_ACCEPTANCE}")
    text = scalar(value)
    if isinstance(text, str):
        single = "," not in text and not any(letter.isalpha() for letter in text)
        return acceptance_of_text(text, _needed(count, modules) if single else count)
    rates = several("acceptance", value)
    for rate in rates:
        if type(rate) not in (int, float):
            raise BadInput(
                f"acceptance = {shown(rate)} must be a number between 0 and 1; or give {EXAMPLES_OF_ACCEPTANCE}"
            )
    return acceptance_of_rates(
        tuple(float(rate) for rate in rates), _needed(count, modules) if len(rates) == 1 else count
    )


def _needed(count: int | None, modules: int | None) -> int:
    """Proposals for which one rate holds."""
    found = count or modules
    if not found:
        raise BadInput("one acceptance needs draft_tokens, the tokens proposed before each step; or give one for each")
    return found
