"""Users and rates at the command line."""

import re
from itertools import pairwise

import pytest
from asking import answered, ask, document, noted, row, rows, shown
from every_case import each

import roofline as rl

CASE = ("-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "1000", "--osl", "200")
LENGTHS = {"isl": 1000, "osl": 200}


@each("command", ["ttft", "tpot", "predict"])
@each("option, load", [
    (("--concurrency", "32"), {"concurrency": 32}),
    (("-c", "32", "--num-prompts", "320"), {"concurrency": 32, "num_prompts": 320}),
    (("--rate", "4.5"), {"request_rate": 4.5}),
], ids=str)  # fmt: skip
def test_every_question_of_one_case_takes_users_and_rates(command, option, load):
    found, wanted = row(command, *CASE, *option), rl.predict("llama-3.1-8b", "h100-sxm", **load, **LENGTHS)
    assert found == wanted.to_dict()


def test_a_table_says_the_load_and_shows_how_busy_it_keeps_the_server():
    for option, words, heading in (
        ("--concurrency", "8 users", "req/s"),
        ("--request-rate", "8 requests/s", "in flight"),
    ):
        first, second = answered("ttft", *CASE, option, "8").split("\n")[:2]
        assert first == f"llama-3.1-8b bf16 \u00b7 1000 in, 200 out \u00b7 {words}"
        found = row("ttft", *CASE, option, "8")
        assert second.startswith(f"1x h100-sxm, TTFT {found['ttft_ms']:.3g} ms, TPOT {found['tpot_ms']:.3g} ms")
        columns, line = shown("ttft", *CASE, option, "8")
        assert heading in columns
        assert line[columns.index("util")] == f"{100.0 * found['util']:.0f}%"


def test_a_curve_of_loads_is_one_command():
    found = rows("sweep", *CASE, "--concurrency", ",".join(map(str, range(1, 101))))
    assert [entry["concurrency"] for entry in found] == list(range(1, 101))
    assert all(more["tpot_ms"] >= fewer["tpot_ms"] for fewer, more in pairwise(found))


def test_a_size_for_users_names_its_gpus_and_its_price():
    found = row("size", "-m", "llama-3.3-70b", "-q", "fp8", "--slo", "ttft:300", "--isl", "4096", "--osl", "500",
                "--concurrency", "64", "-g", "h100")  # fmt: skip
    assert found["meets"]
    assert found["ttft_ms"] <= 300.0
    assert found["num_gpus"] % found["tp"] == 0
    assert found["usd_per_hour"] > 0.0


@pytest.mark.parametrize("unknown", ["concurrency", "request-rate"])
def test_the_largest_load_under_a_limit_can_be_solved_for(unknown):
    found = row("solve", *CASE, "--for", unknown, "--tpot", "20ms")
    assert found["value"] > 1.0
    assert found["tpot_ms"] == pytest.approx(20.0, rel=1e-6)


def test_what_was_checked_is_said_of_the_load_that_solves_the_question_and_of_those_of_a_sweep():
    said = noted("solve", *CASE, "--for", "request-rate", "--tpot", "40ms")
    assert "outside the" in said
    assert "inside the" not in said
    said = noted("sweep", *CASE, "--request-rate", "1,18")
    assert "inside the" in said
    assert re.search(r"outside the .*\(utili[sz]ation above (0.8|80)", said)


def test_a_simulation_stands_beside_the_closed_forms():
    text = answered("predict", *CASE, "--rate", "5", "--simulate")
    assert "closed form" in text
    assert "requests of one rank, seed 0" in text
    found = row("tpot", *CASE, "--rate", "5", "--simulate")
    assert found["simulated_tpot_ms"] == pytest.approx(found["tpot_ms"], rel=0.05)


@each("arguments, said", [
    (("ttft", *CASE, "-c", "8", "--rate", "2"), "a case has one load"),
    (("ttft", *CASE, "-b", "8", "-c", "2"), "a case has one load"),
    (("ttft", *CASE, "-c", "0"), "concurrency = 0"),
    (("ttft", *CASE, "--rate", "-1"), "request_rate = -1"),
    (("ttft", *CASE, "--rate", "4000"), "answers at most"),
    (("predict", *CASE, "-c", "8", "--num-prompts", "4"), "num_prompts = 4"),
    (("predict", *CASE, "--num-prompts", "4"), "num_prompts needs concurrency"),
    (("predict", *CASE, "-c", "8", "--max-num-batched-tokens", "0"), "whole number of tokens"),
    (("predict", *CASE, "-c", "8", "--max-model-len", "512"), "exceed max_model_len"),
    (("formula", "tpot", *CASE, "-c", "2"), "fixed point"),
    (("size", *CASE, "--slo", "ttft:1", "-c", "8"), "at the hardware limit"),
], ids=str)  # fmt: skip
def test_what_cannot_be_asked_is_refused_in_one_message(arguments, said):
    result = ask(*arguments)
    assert result.exit_code == 1
    assert said in result.output


def test_a_simulation_without_a_load_is_a_wrong_use():
    result = ask("ttft", *CASE, "--simulate")
    assert result.exit_code == 2
    assert "--concurrency or --request-rate" in result.output


def test_compare_quantize_and_sensitivity_take_a_load():
    compared = rows("compare", *CASE, "-g", "b200", "-c", "32")
    assert compared[1]["tpot_ms"] < compared[0]["tpot_ms"]
    formats = rows("quantize", *CASE, "-c", "32")
    assert {entry["load"] for entry in formats} == {"concurrency"}
    slopes = document("sensitivity", *CASE, "--rate", "4", "--of", "ttft")["rows"]
    assert next(entry for entry in slopes if entry["input"] == "request_rate")["elasticity"] > 0.0


def test_a_simulation_takes_a_seed_and_a_number_of_requests():
    case = ("ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--request-rate", "4", "--simulate", "--requests", "600")
    first, again, other = (row(*case, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert first["simulated_requests"] == 600
    assert first["simulated_ttft_p99_ms"] != other["simulated_ttft_p99_ms"]


def test_a_seed_without_a_simulation_is_refused():
    result = ask("ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--request-rate", "4", "--seed", "3")
    assert result.exit_code == 2
    assert "add --simulate" in result.stderr
