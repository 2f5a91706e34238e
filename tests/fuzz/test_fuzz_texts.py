"""Any text of a number, unit, range, limit, pool, price or format is read as finite numbers, or is refused."""

import math

import pytest
import tiers
from fuzz.strategies import texts
from hypothesis import example, given, settings

import roofline as rl
from roofline.numbers.quantity import DIMENSIONS, count_from_text, from_text
from roofline.specs import written
from roofline.specs.formats import number_format
from roofline.specs.workload import limits_of_text, ratio_of_text
from roofline.support.errors import BadInput, RooflineError

PARSERS = (
    *(lambda text, dimension=dimension: from_text(text, dimension) for dimension in sorted(DIMENSIONS)),
    lambda text: written.acceptance_of_text(text, None), lambda text: written.acceptance_of_text(text, 3),
    written.api_price_of_text, count_from_text, written.lengths_of_text, limits_of_text, written.measured_of_text,
    number_format, written.number_of_text, written.numbers_of_text, written.pool_of_text, written.prefix_of_text,
    written.prefixes_of_text, written.price_of_text, ratio_of_text, written.share_of_text, written.time_of_text,
    written.whole_of_text, written.wholes_of_text, written.words_of_text,
)  # fmt: skip

#: Parsers of numbers that a float may not hold, such as 1e400, and an option which then says what its range is.
RANGES = {
    written.number_of_text: "concurrency",
    written.numbers_of_text: "concurrency",
    written.share_of_text: "cache_hit",
    written.measured_of_text: "measured",
}


def finite(value):
    """Whether every number in it is."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def refused_by_the_case(parse, value):
    """Whether the option that the parser is for refuses the number."""
    with pytest.raises(BadInput, match="inf"):
        rl.predict("llama-3.1-8b", "h100-sxm", prefix=10, **{RANGES[parse]: value})
    return True


@given(text=texts)
@example(text="1e400")
@example(text="1e400%")
@example(text="tpot=9,concurrency=4,isl=1e4000")
@settings(max_examples=tiers.times(25, 200))
def test_any_text_of_a_grammar_is_read_or_refused(text):
    for parse in PARSERS:
        try:
            value = parse(text)
        except RooflineError as error:
            assert str(error)
        else:
            assert finite(value) or refused_by_the_case(parse, value)
