"""Sizes, lists, ranges, shares and times from text."""

import pytest
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

from roofline.specs.written import (
    lengths_of_text,
    measured_of_text,
    number_of_text,
    numbers_of_text,
    prefix_of_text,
    prefixes_of_text,
    share_of_text,
    time_of_text,
    whole_of_text,
    wholes_of_text,
)
from roofline.support.errors import BadInput

WHOLE = st.integers(min_value=0, max_value=10**9)


@given(WHOLE, st.sampled_from(["", "k", "K", "m", "M"]), st.sampled_from(["", " ", "+"]))
def test_a_size_is_its_digits_times_its_letter(number, letter, before):
    assert whole_of_text(f"{before}{number}{letter}") == number * {"": 1, "k": 1024, "m": 1024**2}[letter.lower()]


@given(st.integers(min_value=0, max_value=10**6), st.integers(min_value=0, max_value=1023))
def test_a_size_with_a_fraction_is_taken_where_it_is_whole(thousands, rest):
    text = f"{thousands + rest / 1024:.10f}k"
    try:
        assert whole_of_text(text) == thousands * 1024 + rest
    except BadInput as error:
        assert "not whole" in str(error)
        assert rest / 1024 != round(rest / 1024, 10)


@given(st.lists(WHOLE, min_size=1, max_size=20))
def test_a_list_reads_as_it_is_written(numbers):
    text = ", ".join(map(str, numbers))
    assert wholes_of_text(text) == numbers
    assert numbers_of_text(text) == [float(number) for number in numbers]


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 500))
def test_a_range_of_steps_holds_what_pythons_does(first, length, step):
    last = first + length
    numbers = list(range(first, last + 1, step))
    assert wholes_of_text(f"{first}:{last}:{step}") == numbers
    assert numbers_of_text(f"{first}:{last}:{step}") == numbers


@given(st.integers(1, 500), st.integers(0, 12), st.integers(2, 9))
def test_a_range_of_factors_is_a_geometric_series(first, steps, factor):
    last = first * factor**steps
    series = [first * factor**step for step in range(steps + 1)]
    assert wholes_of_text(f"{first}:{last}:x{factor}") == series
    assert numbers_of_text(f"{first}:{last}:x{factor}") == pytest.approx(series, rel=1e-11)


@given(st.floats(min_value=0.0, max_value=1.0))
def test_a_share_reads_the_same_with_and_without_the_sign(share):
    assert share_of_text(f"{share!r}") == share
    assert share_of_text(f"{100.0 * share!r}%") == pytest.approx(share, rel=1e-12)


@given(
    st.floats(min_value=1e-9, max_value=1e6), st.sampled_from([("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)])
)
def test_a_time_is_its_number_times_its_unit(number, unit):
    name, seconds = unit
    for text in (f"{number!r}{name}", f"{number!r} {name}"):
        assert time_of_text(text) == pytest.approx(number * seconds, rel=1e-12)
    assert time_of_text(repr(number)) == pytest.approx(number * 1e-3, rel=1e-12)


def test_times_prefixes_lengths_and_measurements_are_read():
    assert [time_of_text(text) for text in ("0", "0ms", "0.0 s")] == [0.0, 0.0, 0.0]
    assert time_of_text("20ms", needs_unit=True) == 0.02
    with pytest.raises(BadInput, match="'20' has no unit; write 20ms or 20s"):
        time_of_text("20", needs_unit=True)
    prefixes = prefixes_of_text("0:2k:1k, 50%, 100")
    assert prefixes[:3] == [0, 1024, 2048]
    assert prefixes[3].tokens(3000.0) == 1500.0
    assert prefixes[4] == 100
    assert str(prefixes[3]) == "50%"
    words = {"8k1k": (8192, 1024), "1K/500": (1024, 500), "2000x300": (2000, 300), "1.5k1k": (1536, 1024)}
    assert {text: lengths_of_text(text) for text in words} == words
    assert lengths_of_text("chat") is lengths_of_text("./mine.yaml") is None
    measured = measured_of_text("TTFT=0.3s, itl=14.2 isl=4k;users=64")
    assert measured == pytest.approx({"ttft": 0.3, "tpot": 0.0142, "isl": 4096.0, "concurrency": 64.0}, rel=1e-15)


@given(st.integers(1, 10**6), st.integers(0, 100))
def test_a_prefix_in_per_cent_is_whole_tokens_of_the_prompt(isl, percent):
    tokens = prefix_of_text(f"{percent}%").tokens(isl)
    assert tokens == int(tokens)
    assert abs(tokens - isl * percent / 100) <= 0.5
    assert 0 <= tokens <= isl


NONSENSE = [
    (whole_of_text, "4,096", "write 4096"), (whole_of_text, "4_096", "write 4096"),
    (whole_of_text, "4k tokens", "write 4k"), (whole_of_text, "4kb", "write 4k"),
    (whole_of_text, "1k,4k", "a single value is wanted, not a list"),
    (whole_of_text, "1.3k", "1331.2, which is not whole"), (whole_of_text, "2e3", "4096, 4k or 32K"),
    (whole_of_text, "four", "4096, 4k or 32K"), (whole_of_text, "", "4096, 4k or 32K"),
    (whole_of_text, "--4", "4096, 4k or 32K"), (whole_of_text, "0x10", "4096, 4k or 32K"),
    (whole_of_text, "4k4", "4096, 4k or 32K"), (number_of_text, "64 users", "write 64"),
    (number_of_text, "5/s", "write 5"), (number_of_text, "nan", "64, 12.5 or 1k"),
    (number_of_text, "inf", "64, 12.5 or 1k"), (share_of_text, "half", "80% or 0.8"),
    (share_of_text, "%", "80% or 0.8"), (share_of_text, "80 percent", "80% or 0.8"),
    (share_of_text, "8O%", "80% or 0.8"), (prefix_of_text, "120%", "between 0% and 100%"),
    (prefix_of_text, "-5%", "between 0% and 100%"),
    (prefix_of_text, "most", "tokens, such as 1k, nor a share of the prompt, such as 80%"),
    (time_of_text, "300 msec", "300ms, 0.3s"), (time_of_text, "5min", "300ms, 0.3s"), (time_of_text, "-20ms", "300ms"),
    (time_of_text, "ms", "300ms, 0.3s"), (time_of_text, "inf", "300ms"), (time_of_text, "0 parsecs", "300ms, 0.3s"),
    (wholes_of_text, "4,096", "write 4096 if one number is meant"), (wholes_of_text, "16:1", "ends before it begins"),
    (wholes_of_text, "1:16:0", "step must be above 0"), (wholes_of_text, "1:16:x1", "factor must be above 1"),
    (wholes_of_text, "0:64:x2", "must begin above 0"), (wholes_of_text, "1:2:3:4", "0:64:8 or 1:256:x2"),
    (wholes_of_text, "1..8", "1:256:x2"), (wholes_of_text, "1,,2", "1:256:x2"), (wholes_of_text, "1-8", "1:256:x2"),
    (wholes_of_text, "1:1000000", "more than 10000 numbers"), (numbers_of_text, "0.5;1", "0.5:8:x2"),
    (lengths_of_text, "8k", "1k1k, 8k1k or 2000x300"), (lengths_of_text, "1.3k1k", "1k1k, 8k1k or 2000x300"),
    (measured_of_text, "tpot:14", "write tpot=14.2,batch=1"),
    (measured_of_text, "latency=14", "key=value with a key of ttft, tpot"),
    (measured_of_text, "tpot=14,tpot=15", "tpot is stated twice"), (measured_of_text, "tpot=fast", "300ms, 0.3s"),
]  # fmt: skip


@each(("parse", "text", "advice"), NONSENSE)
def test_nonsense_is_refused_with_what_to_write_instead(parse, text, advice):
    with pytest.raises(BadInput) as caught:
        parse(text)
    message = str(caught.value)
    assert advice in message
    assert "\n" not in message
    assert len(message) < 200
