"""Public forward passes on Vera Rubin, which judge and fit nothing, beside what docs/forecasts.md says of them."""

import re
from pathlib import Path

import pytest
from forecast_rows import figures, rubin

PAGE = Path(__file__).parents[2] / "docs" / "forecasts.md"
LINES = {"prompt": "prompts, whole", "attention": "their attention modules", "exchange": "their all-reduces, norms",
         "step": "decode steps"}  # fmt: skip


@pytest.fixture(scope="module")
def passes():
    return {as_run: list(rubin(as_run=as_run)) for as_run in (False, True)}


def test_the_page_has_the_errors_of_each_part(passes):
    page = PAGE.read_text(encoding="utf-8")
    for part, title in LINES.items():
        announced, as_run = ([row for row in passes[key] if row.of == part] for key in (False, True))
        assert f"| {title} | {len(announced)} | {figures(announced)} | {figures(as_run)} |" in page


def test_with_the_rates_of_its_board_prompts_and_steps_are_in_range(passes):
    ranged = [row for row in passes[True] if row.of in ("prompt", "step")]
    assert len(ranged) == 25
    assert all(row.is_inside for row in ranged)


def test_parts_of_a_prompt_are_less_than_all_of_it(passes):
    for rows in passes.values():
        whole, attention, exchange = ([row for row in rows if row.of == part] for part in list(LINES)[:3])
        for prompt, *parts in zip(whole, attention, exchange, strict=True):
            assert sum(part.measured for part in parts) < prompt.measured
            assert sum(part.forecast for part in parts) < prompt.forecast


def test_the_page_says_what_its_ranges_are_made_of():
    from roofline.serving.verdict import LEFT_OVER, NEXT_GENERATION, OTHER_VENDOR

    page = re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
    assert f"kernel: {NEXT_GENERATION} where" in page
    assert f"medians, {OTHER_VENDOR} where" in page
    assert f"leave over: {LEFT_OVER}, the mean" in page
