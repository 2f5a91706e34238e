"""Speculative decoding options: the draft, its number of tokens, and their acceptance."""

from __future__ import annotations

from typing import Any

from roofline.api.inputs.arguments import scalar, several
from roofline.catalog import find
from roofline.errors import BadInput, UnknownName, shown
from roofline.grammar.acceptance import EXAMPLES_OF_ACCEPTANCE, acceptance_of_rates, acceptance_of_text
from roofline.physics.plan import Deployment, Draft
from roofline.physics.speculation import eagle_head, mtp_module
from roofline.records import replace
from roofline.serving.quantization import resolved_quantization
from roofline.serving.sizing import plan_fault
from roofline.specs.model import Model
from roofline.specs.speculation import METHODS, MOST_DRAFTS, Acceptance

_JOINED = {"mtp": 2, "eagle": 3}  # hidden states and embeddings that a draft module concatenates
_ODD_VOCABULARY = 0.02  # relative difference beyond which the tokenizers must differ


def drafted(
    deployment: Deployment, draft: Any, draft_tokens: Any, acceptance: Any, specs: str | None = None
) -> Deployment:
    """The deployment with its draft; unchanged without one."""
    record = draft_of(deployment, draft, draft_tokens, acceptance, specs)
    return deployment if record is None else replace(deployment, draft=record)


def check_draft_plan(deployment: Deployment) -> None:
    """Refuse a plan that the draft model cannot run with."""
    drafting = deployment.drafting
    if drafting is not None:
        fault = plan_fault(drafting.model, drafting.plan)
        if fault is not None:
            raise BadInput(f"draft {drafting.model.short_name}: {fault}")


def draft_of(
    deployment: Deployment, draft: Any, draft_tokens: Any, acceptance: Any, specs: str | None = None
) -> Draft | None:
    """The draft; None without one. By default as many tokens as acceptances or draft modules."""
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
            proposed, method = _draft_model(draft, specs), "model"
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
    formats = deployment.quantization
    if method == "model":
        formats = resolved_quantization(proposed, deployment.gpu)
    return Draft(method, rates, proposed, formats, _JOINED.get(method, 0))


def draft_warnings(deployment: Deployment) -> list[str]:
    draft, model = deployment.draft, deployment.model
    if draft is None:
        return []
    source = draft.acceptance.source or "as given"
    tokens = f"{draft.acceptance.tokens:.3g} tokens per step of {draft.tokens} proposed ({source})"
    notes = [f"{tokens}; it varies with the text"]
    if draft.method == "eagle":
        notes.append("EAGLE head: one attention layer like the model's with a dense network, an estimate")
    smaller = draft.model
    if draft.method == "model" and smaller is not None and abs(smaller.vocab / model.vocab - 1.0) > _ODD_VOCABULARY:
        notes.append(
            f"{smaller.short_name} and {model.short_name} have vocabularies of {smaller.vocab:,} and {model.vocab:,}: "
            "engines want one tokenizer for both"
        )
    return notes


def _draft_model(name: str, specs: str | None) -> Model:
    try:
        model: Model = find.find_model(name, specs)[0]
    except UnknownName as error:
        raise UnknownName(f"draft = {shown(name)} is neither {', '.join(METHODS)} nor a model: {error}") from None
    return model


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
    """Acceptance with a rate for each draft token."""
    if isinstance(value, Acceptance):
        return value if count is None else value.of(count)
    if value is None:
        raise BadInput(f"a draft needs an acceptance, which depends on your text; give {EXAMPLES_OF_ACCEPTANCE}")
    text = scalar(value)
    if isinstance(text, str):
        return acceptance_of_text(text, _single_rate_count(count, modules) if is_single_rate(text) else count)
    rates = several("acceptance", value)
    for rate in rates:
        if type(rate) not in (int, float):
            raise BadInput(
                f"acceptance = {shown(rate)} must be a number between 0 and 1; or give {EXAMPLES_OF_ACCEPTANCE}"
            )
    tokens = _single_rate_count(count, modules) if len(rates) == 1 else count
    return acceptance_of_rates(tuple(map(float, rates)), tokens)


def is_single_rate(text: str) -> bool:
    """Whether an acceptance in text is one rate: not several, no preset, no tokens per step."""
    return "," not in text and not any(letter.isalpha() for letter in text)


def _single_rate_count(count: int | None, modules: int | None) -> int:
    """Draft tokens that share a single rate."""
    proposals = count or modules
    if not proposals:
        raise BadInput("one acceptance needs draft_tokens, the tokens proposed before each step; or give one for each")
    return proposals
