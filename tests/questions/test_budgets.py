"""Latencies along a setting of the engine: each row is the prediction with it, and the best is the best by its rule."""

import itertools

import pytest
import tiers
from cli.asking import answered, ask, rows, shown
from every_case import each

import roofline as rl

LLAMA = ("llama-3.1-8b", "h100-sxm")
CASE = {"engine": "vllm", "concurrency": 64, "isl": 1500, "osl": 150, "tp": 1}
SEQS, TOKENS = "max_num_seqs", "max_num_batched_tokens"
VALUES = {SEQS: (16, 48, 64, 200), TOKENS: (512, 3000, 8192)}
#: Verdicts, the best first.
ORDER = ("pass", "pass?", "fail?", "fail")


def predicted(setting, value, **more):
    return rl.predict(*LLAMA, **{**CASE, **more, setting: value})


def asked(setting, **more):
    return rl.budgets(*LLAMA, over=setting, **{"values": VALUES[setting], **CASE, **more})


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", ({"concurrency": 64}, {"concurrency": None, "request_rate": 4}), ids=("users", "rate"))
@pytest.mark.parametrize("setting", (SEQS, TOKENS))
def test_each_row_is_the_prediction_with_its_value(setting, load):
    answer = asked(setting, **load)
    assert [row.value for row in answer] == list(VALUES[setting])
    for row in answer:
        expected = predicted(setting, int(row.value), **load).to_dict()
        found = row.to_dict()
        assert {key: found[key] for key in expected} == expected
        assert (found["setting"], found["setting_value"], found["reason"]) == (setting, row.value, None)


def test_values_make_a_difference():
    latencies = {(row.to_dict()["ttft_ms"], row.to_dict()["tpot_ms"]) for row in asked(SEQS)[:3]}
    assert len(latencies) == 3


# Powers of two; 1024 sequences are vLLM's own default on an H100, 8192 tokens its default of a server.
@each(
    "setting, values, default",
    [
        (SEQS, [8, 16, 32, 64, 128, 256, 512, 1024], 1024),
        (TOKENS, [512, 1024, 2048, 4096, 8192, 16384, 32768], 8192),
    ],
)
def test_without_values_they_are_powers_of_two_and_the_default_of_the_engine(setting, values, default):
    answer = rl.budgets(*LLAMA, over=setting, **CASE)
    assert [row.value for row in answer] == values
    assert answer.default.value == default
    assert [row.value for row in answer if row.is_default] == [default]
    assert predicted(setting, default).to_dict() == rl.predict(*LLAMA, **CASE).to_dict()


def test_a_default_that_is_no_power_of_two_is_among_the_values():
    answer = rl.budgets(*LLAMA, over=SEQS, **{**CASE, "engine": "sglang"})
    assert [row.value for row in answer] == [8, 16, 32, 64, 128, 256, 512, 1024, 4096]
    assert answer.default.value == 4096


def test_the_setting_itself_is_no_part_of_the_case():
    assert [row.to_dict() for row in asked(SEQS, max_num_seqs=7)] == [row.to_dict() for row in asked(SEQS)]


@each("values", ["64,16,48,200", "16,48,64,200,64", [200, 64, 48, 16], (16, 48, 64, 200), [16.0, 48, 64, 200]])
def test_values_are_in_order_and_each_is_asked_once(values):
    assert [row.to_dict() for row in asked(SEQS, values=values)] == [row.to_dict() for row in asked(SEQS)]


def test_values_in_words_are_as_everywhere():
    assert [row.value for row in asked(TOKENS, values="2k,4k")] == [2048, 4096]


@each("over", ["max_num_seqs", "max-num-seqs", "--max-num-seqs", " max_num_seqs "])
def test_a_setting_is_spelled_as_in_the_shell_or_as_in_python(over):
    (row,) = rl.budgets(*LLAMA, over=over, values=[16], **CASE)
    assert row.setting == SEQS
    assert row.to_dict() == asked(SEQS)[0].to_dict()


def test_a_prediction_stands_for_its_case():
    prediction = rl.predict(*LLAMA, **{**CASE, "tp": 2})
    answer = rl.budgets(prediction, over=SEQS, values=[16, 64])
    expected = rl.budgets(*LLAMA, over=SEQS, values=[16, 64], **{**CASE, "tp": 2})
    assert [row.to_dict() for row in answer] == [row.to_dict() for row in expected]
    assert {row.to_dict()["tp"] for row in answer} == {2}


def test_every_value_is_asked_of_one_plan():
    case = {"engine": "vllm", "isl": 4096, "request_rate": 4}
    answer = rl.budgets(*LLAMA, over=SEQS, values=[8, 64], **case)
    assert {row.prediction.deployment.plan.tp for row in answer if row.prediction} == {1}
    assert "answers at most" in answer[0].reason  # a slower setting is no reason for a second GPU
    assert rl.predict(*LLAMA, max_num_seqs=8, **case).deployment.plan.tp == 2


# --- more sequences, more tokens -----------------------------------------------------------------


def test_fewer_sequences_at_once_make_steps_faster_and_requests_wait():
    found = [row.to_dict() for row in asked(SEQS)[:3]]
    assert found[0]["tpot_ms"] < found[1]["tpot_ms"] < found[2]["tpot_ms"]
    assert found[0]["ttft_ms"] > found[1]["ttft_ms"] > found[2]["ttft_ms"]


def test_more_sequences_than_users_change_nothing():
    found = [row.to_dict() for row in asked(SEQS, values=[100, 1000])]
    for key in ("ttft_ms", "tpot_ms", "itl_p99_ms"):
        assert found[0][key] == pytest.approx(found[1][key], rel=1e-12)


# --- the best ------------------------------------------------------------------------------------


def best_by_hand(setting, slo, values):
    """Value that passes surest, of these the one whose worst latency is the smallest share of its limit.

    Shares that differ by less than 0.5 % decide nothing: the default, else the largest value, is taken.
    """
    limits = dict(part.split(":") for part in slo.split(","))
    judged = []
    for value in values:
        row = predicted(setting, value, slo=slo).to_dict()
        worst = max(row[f"{name}_ms"] / float(limit) for name, limit in limits.items())
        judged.append((ORDER.index(row["slo_verdict"]), worst, value))
    first = min(judged)[0]
    alike = [(worst, value) for order, worst, value in judged if order == first]
    least = min(alike)[0]
    near = [value for worst, value in alike if worst <= least * 1.005]
    usual = {SEQS: 1024, TOKENS: 8192}[setting]
    return usual if usual in near else max(near)


@pytest.mark.parametrize(
    "setting, values", [(SEQS, (16, 48, 64, 200, 1024)), (TOKENS, (512, 3000, 8192, 16384))], ids=(SEQS, TOKENS)
)
@pytest.mark.parametrize(
    "slo",
    tiers.some(
        ("tpot:25", "ttft:100", "ttft:400,tpot:40", "ttft:3000,tpot:14", "ttft:1,tpot:1", "ttft:90000,tpot:900"), 2
    ),
)
@tiers.has_more_cases
def test_the_best_passes_surest_and_then_has_the_smallest_worst_share_of_a_limit(setting, values, slo):
    answer = asked(setting, values=values, slo=slo)
    assert answer.best.value == best_by_hand(setting, slo, values)
    assert [row.value for row in answer if row.to_dict()["is_best_value"]] == [answer.best.value]


@pytest.mark.parametrize("setting", (SEQS, TOKENS))
def test_the_excess_of_a_row_is_its_worst_latency_over_the_limit(setting):
    for row in asked(setting, slo="ttft:300,tpot:20"):
        found = row.to_dict()
        assert row.excess == pytest.approx(max(found["ttft_ms"] / 300.0, found["tpot_ms"] / 20.0), rel=1e-12)
        assert row.verdict == found["slo_verdict"]


@pytest.mark.parametrize("metric", ("ttft", "tpot"))
def test_a_row_is_within_a_limit_just_above_its_latency_and_not_within_one_just_below(metric):
    (latency,) = {row.to_dict()[f"{metric}_ms"] for row in asked(SEQS, values=[48])}
    (within,) = asked(SEQS, values=[48], slo=f"{metric}:{latency * 1.001!r}")
    (beyond,) = asked(SEQS, values=[48], slo=f"{metric}:{latency * 0.999!r}")
    assert within.excess == pytest.approx(1.0 / 1.001, rel=1e-9)
    assert beyond.excess == pytest.approx(1.0 / 0.999, rel=1e-9)
    assert within.verdict in ORDER[:2]
    assert beyond.verdict in ORDER[2:]


# A first token takes longest with the fewest sequences: a limit just above that of 48 is passed by 48 and by 64, and
# 64 is the better of the two, until its time per token is limited to just above that of 48.
def test_the_best_moves_where_a_limit_moves_past_the_latency_of_a_row():
    sixteen, fortyeight, sixtyfour = (row.to_dict() for row in asked(SEQS, values=[16, 48, 64]))
    assert sixteen["ttft_ms"] > fortyeight["ttft_ms"] > sixtyfour["ttft_ms"]
    ttft = fortyeight["ttft_ms"] * 1.001
    tpot = fortyeight["tpot_ms"] * 1.001
    assert tpot < sixtyfour["tpot_ms"]
    loose = asked(SEQS, values=[16, 48, 64], slo=f"ttft:{ttft!r}")
    tight = asked(SEQS, values=[16, 48, 64], slo=f"ttft:{ttft!r},tpot:{tpot!r}")
    assert loose.best.value == 64
    assert tight.best.value == 48
    assert tight.best.verdict in ORDER[:2]
    assert all(row.verdict in ORDER[2:] for row in tight if row is not tight.best)


def test_without_an_slo_none_is_best():
    answer = asked(SEQS)
    assert answer.best is None
    assert not any(row.to_dict()["is_best_value"] for row in answer)
    assert answer.why.startswith("from 16 to 200: ")


def test_the_reason_tells_what_the_best_gains_over_the_default():
    answer = asked(SEQS, values=(16, 64, 1024), slo="tpot:25")
    assert answer.best.value == 16
    best, usual = answer.best.to_dict(), answer.default.to_dict()
    assert answer.why.startswith(f"best: --max-num-seqs 16 ({answer.best.verdict}: TPOT at ")
    change = 100.0 * (best["tpot_p99_ms"] / usual["tpot_p99_ms"] - 1.0)
    assert f"TPOT p99 {change:+.0f} %" in answer.why
    assert "against the default 1024: " in answer.why
    gains, _, costs = answer.why.partition("it costs ")
    assert "TTFT p99 +" in costs
    assert "+" not in gains.partition("against the default")[2]


# --- what has no answer --------------------------------------------------------------------------


def test_a_value_without_an_answer_has_its_reason():
    low, high = asked(SEQS, values=[1, 64], concurrency=None, request_rate=4)
    with pytest.raises(rl.RooflineError) as refusal:
        predicted(SEQS, 1, concurrency=None, request_rate=4)
    assert low.prediction is None
    assert low.reason == low.to_dict()["reason"] == str(refusal.value)
    assert low.to_dict()["tpot_ms"] is None
    assert high.reason is None
    assert high.to_dict() == asked(SEQS, values=[64], concurrency=None, request_rate=4)[0].to_dict()


def test_where_no_value_has_an_answer_the_first_reason_is_raised():
    with pytest.raises(rl.RooflineError) as refusal:
        asked(SEQS, values=[1, 2], concurrency=None, request_rate=5000)
    with pytest.raises(rl.RooflineError) as expected:
        predicted(SEQS, 1, concurrency=None, request_rate=5000)
    assert str(refusal.value) == str(expected.value)


@each(
    "more, said",
    [
        ({"over": "tp"}, "max_num_batched_tokens"),
        ({"over": "max_num_sequences"}, "max_num_seqs"),
        ({"over": None}, "over = None"),
        ({"over": 3}, "over = 3"),
        ({"values": []}, "values"),
        ({"values": ""}, "whole number"),
        ({"values": "0"}, "max_num_seqs = 0"),
        ({"values": "-4"}, "-4"),
        ({"values": [0.5]}, "0.5"),
        ({"values": "many"}, "many"),
        ({"values": ["many"]}, "many"),
        ({"values": [None]}, "None"),
        ({"values": [float("nan")]}, "nan"),
        ({"values": [float("inf")]}, "inf"),
        ({"values": [10**400]}, "1000"),
        ({"values": True}, "True"),
        ({"concurrency": None}, "need a load"),
        ({"concurrency": [8, 16]}, "concurrency"),
        ({"isl": [1000, 2000]}, "isl"),
        ({"slo": "tpot"}, "tpot"),
        ({"engine": "vlm"}, "vlm"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_reason(more, said):
    with pytest.raises(rl.RooflineError) as refusal:
        rl.budgets(*LLAMA, **{"over": SEQS, "values": [16], **CASE, **more})
    assert said in str(refusal.value)


def test_one_value_is_given_without_a_list():
    (row,) = rl.budgets(*LLAMA, over=SEQS, values=16, **CASE)
    assert row.value == 16.0
    assert row.to_dict() == rl.budgets(*LLAMA, over=SEQS, values=[16], **CASE)[0].to_dict()


# --- doors ---------------------------------------------------------------------------------------

SHELL = ["-m", LLAMA[0], "-g", LLAMA[1], "--engine", "vllm", "-c", "64", "--isl", "1500", "--osl", "150"]


@pytest.mark.parametrize("command", ("curve", "budgets"))
@pytest.mark.parametrize("setting", (SEQS, TOKENS))
def test_the_shell_gives_the_figures_of_python(command, setting):
    values = ",".join(map(str, VALUES[setting]))
    found = rows(command, "--over", setting.replace("_", "-"), "--values", values, *SHELL, "--slo", "ttft:400,tpot:25")
    expected = asked(setting, slo="ttft:400,tpot:25")
    assert found == [row.to_dict() for row in expected]
    assert [row["setting_value"] for row in found if row["is_best_value"]] == [expected.best.value]


def test_the_shell_marks_the_best_and_the_default():
    heading, *lines = shown("curve", "--over", "max-num-seqs", "--values", "16,64,1024", *SHELL, "--slo", "tpot:25")
    place = heading.index("seqs")
    assert [line[place] for line in lines] == ["16", "64", "1024"]
    assert [line[place + 1] for line in lines] == ["best", "", "default"]
    text = answered("curve", "--over", "max-num-seqs", "--values", "16,64,1024", *SHELL, "--slo", "tpot:25")
    assert "best: --max-num-seqs 16 (" in text


@each(
    "arguments, code, said",
    [
        (["--over", "tp"], 1, "max-num-batched-tokens"),
        (["--over", "max-num-seqs", "--values", "0"], 1, "0"),
        (["--over", "max-num-seqs", "--values", "many"], 1, "many"),
        (["--over", "max-num-seqs", "--tpx", "2"], 2, "--tpx"),
    ],
)
def test_the_shell_refuses_what_python_does(arguments, code, said):
    result = ask("curve", *arguments, *SHELL)
    assert result.exit_code == code, result.output
    assert said in result.stderr
    assert result.stdout == ""


def test_answers_do_not_depend_on_which_other_values_are_asked():
    whole = {row.value: row.prediction.to_dict() for row in asked(SEQS)}
    for pair in itertools.combinations(VALUES[SEQS], 2):
        for row in asked(SEQS, values=pair):
            assert row.prediction.to_dict() == whole[row.value]
