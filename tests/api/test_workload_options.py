"""Workloads by name: the options that they stand for, and what a row says of them."""

import inspect

import pytest
from conftest import close
from every_case import each

import roofline as rl
from roofline.questions.listing import WORKLOAD_KEYS, workload_rows
from roofline.specs.workload import LATENCIES, limits_of_text, metric_and_level

MODEL, GPU = "llama-3.1-8b", "h200"
NAMES = rl.workloads()
OWN = """\
name: mine
isl: 1800
osl: 240
isl_cv: 0.9
prefix: 600
slo: "ttft:1s@p95,p99:3x"
share: 0.95
sources: {logs: {title: Our gateway, date: 2026-10-08}}
"""


@each("name", NAMES)
def test_every_workload_is_answered_under_a_rate(name):
    workload, options = rl.load_workload(name), rl.workload_options(name)
    assert set(options) <= set(inspect.signature(rl.predict).parameters)
    found = rl.predict(MODEL, GPU, request_rate=0.05, **options)
    assert (found.workload.isl, found.workload.osl) == (workload.isl, workload.osl)
    assert found.workload.prefix == workload.prefix
    lengths = found.workload.lengths
    spread = (0.0, 0.0) if lengths is None else (lengths.prompts.cv, lengths.answers.cv)
    assert spread == (workload.isl_cv, workload.osl_cv)
    assert dict(found.slo) == (limits_of_text(workload.slo) if workload.slo else {})
    row = found.to_dict()
    assert row["slo_met"] in ((True, False) if workload.slo else (None,))
    assert 0.0 < row["ttft_p50_ms"] < row["ttft_p99_ms"] < row["e2el_p99_ms"]


@each("name", NAMES)
def test_a_burst_of_a_workload_has_its_means_alone(name):
    options = rl.workload_options(name, loaded=False)
    assert not {"isl_cv", "osl_cv", "lengths"} & set(options)
    assert rl.predict(MODEL, GPU, **options).workload.lengths is None


def test_a_workload_is_found_by_file_record_and_alias(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(OWN, encoding="utf-8")
    record = rl.load_workload(str(path))
    by_path, by_record = rl.workload_options(str(path)), rl.workload_options(record)
    assert by_path == by_record == rl.workload_options("mine", specs=str(tmp_path))
    assert by_path == {
        "isl": 1800, "osl": 240, "prefix": 600, "slo": {"ttft_p95": 1.0, "p99_within": 3.0},
        "isl_cv": 0.9, "osl_cv": 0.0, "lengths": "lognormal",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["chatt", "", "1k1k", 5, None])
def test_an_unknown_workload_is_refused(name):
    with pytest.raises(rl.UnknownName, match="workload"):
        rl.workload_options(name)


def test_rows_say_which_latency_dominates_and_which_limit_is_tightest():
    rows = workload_rows(MODEL, GPU)
    assert [row["workload"] for row in rows] == list(NAMES)
    assert all(list(row) == list(WORKLOAD_KEYS) for row in rows)
    for row in rows:
        alone = rl.predict(MODEL, GPU, **rl.workload_options(row["workload"], loaded=False))
        share = alone.ttft / alone.e2el
        assert close(row["ttft_share"], share)
        assert row["dominates"] == ("TPOT" if share < 1 / 3 else "TTFT" if share > 2 / 3 else "both")
        limited = {key: part for key, part in alone.slo_shares.items() if metric_and_level(key)[0] in LATENCIES}
        worst = max(limited, key=limited.get) if limited else None
        assert (row["tightest"] is None) == (worst is None)
        assert worst is None or row["tightest"].lower().startswith(metric_and_level(worst)[0])
        assert "llama-3.1-8b" in row["why"]


def test_a_row_says_what_somebody_waits_for_and_how_long():
    rows = {row["workload"]: row for row in workload_rows(MODEL, GPU)}
    awaited = {name: row["waits_for"] for name, row in rows.items()}
    assert awaited["chat"] == awaited["rag"] == "first token"
    assert awaited["agent-turn"] == awaited["structured-output"] == awaited["code-completion"] == "whole answer"
    assert awaited["batch"] == "nothing"
    alone = rl.predict(MODEL, GPU, **rl.workload_options("chat", loaded=False))
    assert f"the reader waits for the first token, {1e3 * alone.ttft:.3g} ms" in rows["chat"]["why"]
    # 238 words a minute at 0.75 words a token are 5.29 tokens/s.
    assert f"{alone.tok_s_user / 5.29:.3g}x reading speed" in rows["chat"]["why"]
    assert rows["batch"]["why"].startswith("nobody waits for a single answer, throughput counts")
    agent = rl.predict(MODEL, GPU, **rl.workload_options("agent-turn", loaded=False))
    assert f"the caller waits for the whole answer, {agent.e2el:.3g} s" in rows["agent-turn"]["why"]


def test_where_a_workload_cannot_run_its_row_says_why_and_the_others_stand():
    (row,) = workload_rows("llama-3.1-405b", "l40s", ("chat",))
    assert row["dominates"] is row["ttft_share"] is row["tightest"] is None
    assert row["why"]
    assert row["isl"] == rl.load_workload("chat").isl
