"""Start-ups of servers beside what their logs say (start_up.csv): KV tokens, memory, whether they start."""

from functools import cache
from math import exp
from statistics import median

import pytest
from start_up_rows import LoggedStart, logged_starts

_GIB = 1024.0**3
_HALF_WIDTH = 1.2816  # of an 80 % interval, in standard deviations


@cache
def starts() -> tuple[LoggedStart, ...]:
    return tuple(logged_starts())


def errors(kind, *, public):
    """Relative errors of the KV tokens on the judging half."""
    return [
        abs(exp(start.error) - 1.0)
        for start in starts()
        if start.judges and start.kind == kind and start.error is not None and not (public and start.is_own)
    ]


def test_logs_have_a_source_a_version_and_a_gpu_and_half_of_the_public_ones_judge():
    public = [start for start in starts() if not start.is_own]
    assert len(public) >= 30
    assert all(start.row["source"].startswith("https://") for start in public)
    assert all(start.row[name] for start in starts() for name in ("version", "gpu", "date", "licence", "split"))
    assert 0.4 < sum(start.judges for start in public) / len(public) < 0.6
    assert all(start.judges for start in starts() if start.row["gpu"] in ("h200-sxm", "gb200-nvl72", "b300-sxm"))


@pytest.mark.parametrize("public", [True, False], ids=["public", "all"])
@pytest.mark.parametrize(("kind", "limit"), [("dense", 0.06), ("other", 0.12)])
def test_kv_tokens_are_those_of_the_log(kind, limit, public):
    found = errors(kind, public=public)
    assert len(found) >= 6
    assert median(found) <= limit


def test_at_least_95_of_100_start_or_not_as_expected():
    judging = [start.is_right for start in starts() if start.judges and not start.is_own]
    assert len(judging) >= 20
    assert sum(judging) / len(judging) >= 0.95
    both = {start.row["starts"] for start in starts() if start.judges and not start.is_own}
    assert both == {"0", "1"}  # a rule that always says yes would fail


def test_most_of_the_memory_left_lies_in_its_80_percent_interval():
    inside = [
        abs(start.left_error) * _GIB <= _HALF_WIDTH * start.fit.sigma
        for start in starts()
        if start.left_error is not None
    ]
    assert len(inside) >= 50
    assert 0.7 <= sum(inside) / len(inside) <= 0.95


def test_what_a_log_contradicts_is_never_said_for_certain():
    certain = [start for start in starts() if start.fit.verdict in ("pass", "fail")]
    assert len(certain) >= 40
    assert [start.row["source"] for start in certain if not start.is_right] == []
