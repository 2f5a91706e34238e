"""Levers at the command line: the answer first, the order by the goal, what cannot be pulled below a rule."""

import pytest
from asking import answered, ask, cells, csv_rows, document, noted

import roofline as rl
from roofline.questions.levers import LEVER_KEYS, change_text
from roofline.serving.shown import ROW_KEYS

CASE = ("levers", "-m", "llama-3.3-70b", "-q", "fp8", "-g", "h100:tp2", "--isl", "1000", "--osl", "200")
RATE = ("--request-rate", "2")
PLAIN = {"quantization": "fp8", "isl": 1000, "osl": 200, "request_rate": 2}


@pytest.fixture(scope="module")
def found():
    return rl.levers("llama-3.3-70b", "h100:tp2", **PLAIN)


def test_the_command_gives_the_levers_of_the_api(found):
    printed = document(*CASE, *RATE)
    wanted = found.to_dict()
    assert [without(row, "options") for row in printed["rows"]] == [without(row, "options") for row in wanted["rows"]]
    for row, one in zip(printed["rows"][1:], found.together, strict=False):
        assert row["options"].items() >= one.options.items() - {("gpu", "h100:tp2")}
    assert (printed["goal"], printed["notes"]) == ("ttft", wanted["notes"])
    heading, lines = csv_rows(answered(*CASE, *RATE, "-f", "csv"))
    assert heading == [*(key for key in ROW_KEYS if key != "warnings"), *LEVER_KEYS, "warnings"]
    assert len(lines) == len(wanted["rows"])


def without(row, key):
    return {name: value for name, value in row.items() if name != key}


def table(lines):
    """Lines of the table: those that begin with a place, the footer apart."""
    return [line for line in lines if line[:1].isdigit() and "--" not in line]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_first_screen_has_the_answer_the_order_and_what_cannot_be_pulled(found, columns):
    text = answered(*CASE, *RATE, env={"COLUMNS": str(columns)})
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert len(lines) <= 22
    above = " ".join(" ".join(lines[1:]).split("#  ")[0].split())
    assert above.startswith(f"{found.best.name} cuts TTFT p99 most: ")
    assert "as it is: TTFT p50 " in above
    rows = table(lines)
    places = [line.split()[0] for line in rows if "+" not in line.split()[0]]
    assert places == [str(place) for place in range(1, len(places) + 1)]
    assert len(places) >= 5
    for one, line in zip(found.alone, [line for line in rows if "+" not in line.split()[0]], strict=False):
        assert one.name in line
        change = one.change("ttft_p99")
        assert (change_text(change) if abs(change) >= 0.02 else " - ") in line
    rule = next(place for place, line in enumerate(lines) if line.startswith("-- cannot be pulled"))
    assert "h100-sxm multiplies no format smaller than fp8" in " ".join(" ".join(lines[rule:]).split())


def test_levers_that_go_together_are_numbered_as_they_stand_alone(found):
    lines = answered(*CASE, *RATE, "--all").splitlines()
    numbers = {line.split()[0]: line for line in table(lines)}
    names = [one.name for one in found.alone]
    for chain in found.together:
        number = "+".join(map(str, sorted(names.index(part) + 1 for part in chain.parts)))
        assert "together" in numbers[number]
        assert change_text(chain.change("tpot")) in numbers[number]


def test_everything_has_its_reason_in_a_document(found):
    heading, first, *lines = cells(answered(*CASE, *RATE, "--for", "tpot", "-f", "markdown"))
    assert first[heading.index("lever")] == "as it is"
    why = [line[heading.index("why")] for line in lines]
    reasons = [line[heading.index("reason")] for line in lines]
    assert all((left == "-") != (right == "-") for left, right in zip(why, reasons, strict=True))
    assert sum("decode " in text for text in why) > 3


def test_quality_is_said_where_it_is_not_free():
    notes = noted(*CASE, *RATE)
    assert "smaller: llama-3.1-8b: another model: check on your own data" in notes
    assert "all levers at 2x h100-sxm, tp 2" in notes


def test_what_is_missing_is_asked_for_in_one_message():
    for words, said in (
        ((), "give --request-rate or --concurrency"),
        ((*RATE, "--for", "goodput"), "goodput needs an SLO"),
        ((*RATE, "-g", "b200"), "one GPU"),
        ((*RATE, "--for", "speed"), "ttft"),
    ):
        result = ask(*CASE, *words)
        assert result.exit_code != 0
        assert said in result.stderr
