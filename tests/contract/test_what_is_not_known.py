"""What no closed form holds for: the same nulls and the same reason through every door, and no limit is met by it."""

import csv
import io
import json

import pytest
import tiers
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.serving.load import steady, tails
from roofline.serving.verdict import UNKNOWN
from roofline.support.errors import NoSteadyState, Overloaded

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
LENGTHS = {"isl": 1000, "osl": 100, "tp": 1}
JUDGED = ("slo_met", "slo_verdict", "slo_reason", "slo_binding")
TIMES = ("ttft_ms", "tpot_ms", "e2el_ms", "ttft_p50_ms", "ttft_p99_ms", "tpot_p99_ms", "e2el_p99_ms")
KEYS = (*TIMES, *JUDGED)
LOADS = [
    {"request_rate": 5.0, "engine": "vllm"},
    {"request_rate": 5.0, "engine": "sglang"},
    {"concurrency": 16, "engine": "vllm"},
    {"concurrency": 16, "engine": "sglang"},
]
#: Each limit under both kinds of load and with both schedulers, though not each two of them.
LOADS_AND_LIMITS = [
    (LOADS[place], slo)
    for number, slo in enumerate(("ttft:10s@p95", "tpot:1s@p90,ttft:10s", "e2el:100s@p99", "p99:50x"))
    for place in ((0, 3) if number % 2 else (1, 2))
]


@pytest.fixture
def contradicting(monkeypatch):
    """Every distribution contradicts its mean, as those of extreme loads do."""
    monkeypatch.setattr(tails, "_SAME_MEAN", -1.0)


@pytest.fixture
def unsettled(monkeypatch):
    """No load settles."""
    settled = steady.served

    def served(*asked):
        found = settled(*asked)
        return found._replace(is_stable=found.ttft < 0.0)

    monkeypatch.setattr(steady, "served", served)


def shell(question, case, slo, *more, form="json"):
    """Rows that a command prints for programs."""
    words = [word for name, value in case.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(cli, [question, "-m", MODEL, "-g", GPU, *words, "--slo", slo, *more, "-f", form])
    assert result.exit_code == 0, result.output
    if form == "json":
        return json.loads(result.stdout)["rows"]
    return [{key: plain(text) for key, text in row.items()} for row in csv.DictReader(io.StringIO(result.stdout))]


def plain(text):
    """A cell of a CSV."""
    if text in ("", "true", "false"):
        return {"": None, "true": True, "false": False}[text]
    try:
        return float(text)
    except ValueError:
        return text


def element(case, slo, keys):
    """The row of a case in an array of two."""
    load = "concurrency" if "concurrency" in case else "request_rate"
    return rl.predict(MODEL, GPU, slo=slo, **{**case, load: [case[load], 1]}).to_rows(keys)[0]


def assert_alike(rows):
    """Rows by door, of which a door may leave out keys."""
    first = next(iter(rows.values()))
    for door, row in rows.items():
        for key in KEYS:
            if key in row:
                same = row[key] == (
                    pytest.approx(first[key], rel=1e-9) if isinstance(first[key], float) else first[key]
                )
                assert same, (door, key, row[key], first[key])


@tiers.has_more_cases
@pytest.mark.parametrize(("load", "slo"), tiers.some(LOADS_AND_LIMITS, 1), ids=str)
@pytest.mark.usefixtures("contradicting")
def test_a_percentile_that_is_not_known_is_null_with_one_reason_through_every_door(load, slo):
    case = {**LENGTHS, **load}
    rows = {
        "predict": rl.predict(MODEL, GPU, slo=slo, **case).to_dict(),
        "array": element(case, slo, KEYS),
        "table": rl.table(MODEL, GPU, slo=slo, **case)[0],
        "levers": rl.levers(MODEL, GPU, slo=slo, **case).to_records()[0],
        "cost": rl.cost(MODEL, GPU, slo=slo, **case)[0].to_dict(),
        "compare": rl.compare(MODEL, (GPU, "b200"), slo=slo, **case).gpus[0].prediction.to_dict(),
        "sweep": shell("sweep", case, slo, form="csv")[0],
        "JSON": shell("predict", case, slo)[0],
        "CSV": shell("predict", case, slo, form="csv")[0],
    }
    rows["compare"] = {key: rows["compare"][key] for key in JUDGED}  # at a plan that both share
    assert_alike(rows)
    assert (rows["predict"]["slo_met"], rows["predict"]["slo_verdict"]) == (False, None)
    assert rows["predict"]["slo_reason"] == UNKNOWN
    assert rows["predict"]["ttft_ms"] > 0.0
    assert [rows["predict"][key] for key in TIMES[3:]] == [None] * 4


@pytest.mark.parametrize("load", LOADS, ids=str)
@pytest.mark.parametrize("slo", ["ttft:10s@p95", "p99:50x"])
@pytest.mark.usefixtures("contradicting")
def test_searches_do_not_take_what_is_not_known_as_met(load, slo):
    (size,) = rl.size(MODEL, GPU, slo=slo, **LENGTHS, **load).plans
    assert (size.meets, size.verdict, size.meets_high) == (None, None, None)
    assert "not known" in size.reason
    unloaded = {**LENGTHS, "engine": load["engine"]}
    (goodput,) = rl.goodput(MODEL, GPU, slo=slo, **unloaded)
    assert (goodput.rate, goodput.prediction) == (0.0, None)
    assert goodput.to_dict()["slo_verdict"] is None
    solved = rl.solve(MODEL, GPU, "request_rate", slo="ttft:10s@p95", **unloaded)
    assert solved.value is None, solved


@pytest.mark.usefixtures("contradicting")
@tiers.has_more_cases
@pytest.mark.parametrize("slo", tiers.some(["ttft:10s,tpot:1s", "ttft:10s", "e2el:100s"], 1))
def test_a_share_of_requests_is_not_known_where_their_distribution_is_not(slo):
    (goodput,) = rl.goodput(MODEL, GPU, slo=slo, share=0.9, engine="vllm", **LENGTHS)
    row = goodput.to_dict()
    assert (goodput.rate, row["attained_share"], row["reason"]) == (0.0, None, UNKNOWN)
    case = {**LENGTHS, "engine": "vllm", "request_rate": 5.0}
    start = rl.levers(MODEL, GPU, slo=slo, share=0.9, **case).to_records()[0]
    (priced,) = rl.cost(MODEL, GPU, slo=slo, share=0.9, **case)
    for known in (start, priced.to_dict()):
        assert (known["slo_met"], known["slo_verdict"], known["slo_reason"]) == (False, None, UNKNOWN)
    on_means = rl.goodput(MODEL, GPU, slo=slo, engine="vllm", **LENGTHS)[0].to_dict(["goodput", "attained_share"])
    assert on_means["goodput"] > 1.0
    assert on_means["attained_share"] is None


@pytest.mark.usefixtures("unsettled")
@tiers.has_more_cases
@pytest.mark.parametrize("load", tiers.some(LOADS, 2), ids=str)
def test_a_load_that_does_not_settle_has_one_reason_through_every_door(load):
    assert_refused({**LENGTHS, **load}, NoSteadyState)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_overload_has_one_reason_through_every_door(engine):
    assert_refused({**LENGTHS, "engine": engine, "request_rate": 500.0}, Overloaded)


@pytest.mark.parametrize("slo", ["ttft:10s@p95,tpot:1s", "e2el:5s"])
def test_a_case_that_does_not_fit_has_one_reason_through_every_door(slo):
    assert_refused({**LENGTHS, "concurrency": 16, "engine": "vllm"}, rl.DoesNotFit, "llama-3.1-70b", slo)


def assert_refused(case, kind, model=MODEL, slo="ttft:10s@p95,tpot:1s"):
    """A case without times: an error where it is asked alone, else nulls and the reason."""
    with pytest.raises(kind) as refused:
        rl.predict(model, GPU, slo=slo, **case)
    assert type(refused.value) is kind
    for ask in (rl.levers, rl.simulate):
        with pytest.raises(kind):
            ask(model, GPU, slo=slo, **case)
    load = "concurrency" if "concurrency" in case else "request_rate"
    tabled = rl.table(model, GPU, slo=slo, **case)[0]
    priced = rl.cost(model, (GPU, "b300"), slo=slo, **case)
    rows = {
        "table": tabled,
        "array": rl.predict(model, GPU, slo=slo, **{**case, load: [case[load], case[load]]}).to_rows(KEYS)[0],
        "cost": next(answer for answer in priced if answer.gpu.name == GPU).to_dict(),
        "refused": rl.questions.predict.refused_row(model, GPU, refused.value, slo=slo, **case),
    }
    assert_alike(rows)
    for door in ("table", "cost"):
        assert rows[door]["reason"].startswith(kind.short), rows[door]["reason"]
    assert (tabled["ttft_ms"], tabled["slo_met"], tabled["slo_verdict"]) == (None, False, "fail")
    assert tabled["slo_reason"] == kind.short
