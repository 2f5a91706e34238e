"""Any text of a number, unit, range, limit, pool, price or format is read as finite numbers, or is refused."""

import math

import pytest
from fuzz.strategies import texts
from hypothesis import example, given, settings

import roofline as rl
from roofline.numbers.quantity import DIMENSIONS, count_from_text, from_text
from roofline.specs.formats import number_format
from roofline.specs.workload import limits_of_text, ratio_of_text
from roofline.specs.written import (
    acceptance_of_text,
    api_price_of_text,
    lengths_of_text,
    measured_of_text,
    number_of_text,
    numbers_of_text,
    pool_of_text,
    prefix_of_text,
    prefixes_of_text,
    price_of_text,
    share_of_text,
    time_of_text,
    whole_of_text,
    wholes_of_text,
    words_of_text,
)
from roofline.support.errors import BadInput, RooflineError

PARSERS = (
    *(lambda text, dimension=dimension: from_text(text, dimension) for dimension in sorted(DIMENSIONS)),
    lambda text: acceptance_of_text(text, None),
    lambda text: acceptance_of_text(text, 3),
    api_price_of_text,
    count_from_text,
    lengths_of_text,
    limits_of_text,
    measured_of_text,
    number_format,
    number_of_text,
    numbers_of_text,
    pool_of_text,
    prefix_of_text,
    prefixes_of_text,
    price_of_text,
    ratio_of_text,
    share_of_text,
    time_of_text,
    whole_of_text,
    wholes_of_text,
    words_of_text,
)

#: Parsers of numbers that a float may not hold, such as 1e400, and an option which then says what its range is.
RANGES = {
    number_of_text: "concurrency",
    numbers_of_text: "concurrency",
    share_of_text: "cache_hit",
    measured_of_text: "measured",
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
@settings(max_examples=200)
def test_any_text_of_a_grammar_is_read_or_refused(text):
    for parse in PARSERS:
        try:
            value = parse(text)
        except RooflineError as error:
            assert str(error)
        else:
            assert finite(value) or refused_by_the_case(parse, value)
