"""Inverse questions: predicting at a solution gives the target back."""

import math

import pytest
from conftest import close
from every_case import each

import roofline as rl
from roofline.formulas.case import changed

FUNCTIONS = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
CASES = {
    "dense": ("llama-3.1-70b", "h100-sxm", {"tp": 8, "isl": 2000, "osl": 300, "batch": 16}),
    "experts": ("gpt-oss-120b", "b200", {"isl": 3000, "osl": 200, "batch": 8}),
    "latent": ("deepseek-v3", "h200-sxm", {"tp": 8, "isl": 2000, "osl": 300, "batch": 4}),
    "windows": ("gemma-3-27b", "h100-sxm", {"isl": 4000, "osl": 100}),
    "recurrent": ("qwen3-next-80b-a3b", "b200", {"tp": 2, "isl": 4000, "osl": 100}),
}
UNKNOWNS = ("bandwidth", "peak", "batch", "isl", "weights", "link_bandwidth", "osl", "kv_bits")


@each("name", CASES, few=2)
@each("unknown", UNKNOWNS)
def test_predicting_at_a_solution_gives_the_target_and_solving_gives_the_input_back(name, unknown):
    model, gpu, options = CASES[name]
    # Each case and each unknown with both bases, though not each two of them.
    basis = ("ideal", "calibrated")[(list(CASES).index(name) + UNKNOWNS.index(unknown)) % 2]
    base = rl.predict(model, gpu, basis=basis, **options)
    turn = UNKNOWNS.index(unknown) + len(model)  # each result in its turn: all three would take a minute
    for result in (("ttft", "tpot", "e2el")[turn % 3],):
        target = 1.2 * getattr(base, result)
        found = rl.solve(model, gpu, unknown, basis=basis, **{result: target}, **options)
        if not found.is_met or found.method == "bound":
            assert found.reason
            continue
        assert math.isclose(getattr(found.prediction, result), target, rel_tol=1e-9)
        again = changed(base, {found.unknown: 1.3 * found.present})
        back = rl.solve(model, gpu, unknown, basis=basis, **{result: getattr(again, result)}, **options)
        if back.method != "bound":
            assert math.isclose(getattr(back.prediction, result), getattr(again, result), rel_tol=1e-9)
            slope = abs(getattr(again, result) / getattr(base, result) - 1.0)
            if slope > 1e-3:  # else rounding of the result hides the input
                assert math.isclose(back.value, 1.3 * found.present, rel_tol=1e-9)


@each(
    ("unknown", "target"),
    [("bandwidth", {"tpot": 0.02}), ("peak", {"ttft": 0.6}), ("batch", {"ttft": 1.0}), ("isl", {"ttft": 0.9}),
     ("prefix", {"ttft": 0.5}), ("weights", {"tpot": 0.012}), ("link_bandwidth", {"ttft": 1.0})],
)  # fmt: skip
def test_at_light_speed_the_solution_has_a_closed_form_that_follows_its_symbols(unknown, target):
    options = {"tp": 8, "isl": 2000, "osl": 300, "batch": 16, "basis": "ideal"}
    found = rl.solve("llama-3.1-70b", "h100-sxm", unknown, **target, **options)
    assert found.method == "closed form"
    printed = found.formula.to_dict()
    assert close(eval(printed["formula"], dict(FUNCTIONS), printed["symbols"]), found.value)
    assert "target" in printed["symbols"]
    assert found.unknown not in printed["symbols"]
    for name, value in printed["symbols"].items():
        if name == "tp" or not value:
            continue
        moved = {**printed["symbols"], name: 1.01 * value}
        base = changed(found.base, {} if name == "target" else {name: 1.01 * value})
        result, limit = next(iter(target.items()))
        limit = 1.01 * limit if name == "target" else limit
        at = changed(base, {found.unknown: eval(printed["formula"], dict(FUNCTIONS), moved)})
        assert math.isclose(getattr(at, result), limit, rel_tol=1e-9)


def test_a_norm_has_no_closed_form_and_the_root_names_its_regime():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "bandwidth", tpot=0.01)
    assert (found.method, found.formula, found.regime) == ("root", None, "decode memory-bound")


def test_of_two_targets_the_tighter_one_decides():
    options = {"isl": 2000, "osl": 300}
    both = rl.solve("llama-3.1-8b", "h100-sxm", "batch", ttft=0.3, tpot=0.0075, **options)
    alone = {
        name: rl.solve("llama-3.1-8b", "h100-sxm", "batch", **{name: limit}, **options).value
        for name, limit in {"ttft": 0.3, "tpot": 0.0075}.items()
    }
    assert both.value == min(alone.values())
    assert both.values == alone
    assert both.prediction.ttft <= 0.3 * (1 + 1e-9)
    assert both.prediction.tpot <= 0.0075 * (1 + 1e-9)
    faster = rl.solve("llama-3.1-8b", "h100-sxm", "bandwidth", ttft=0.15, tpot=0.005, isl=1000)
    assert faster.value == max(faster.values.values())


def test_the_whole_batch_that_is_named_meets_the_target_and_the_next_does_not():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "batch", ttft=0.3, isl=2000, osl=300)
    whole = math.floor(found.value)
    assert found.whole == whole
    assert rl.ttft("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=whole) <= 0.3
    assert rl.ttft("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, batch=whole + 1) > 0.3


def test_the_smallest_tp_that_meets_a_target_is_found_and_smaller_ones_miss_it():
    options = {"isl": 2000, "osl": 300, "batch": 4}
    found = rl.solve("llama-3.1-70b", "h100-sxm", "tp", tpot=0.015, **options)
    assert found.value == 8.0
    assert rl.tpot("llama-3.1-70b", "h100-sxm", tp=8, **options) <= 0.015
    assert all(rl.tpot("llama-3.1-70b", "h100-sxm", tp=tp, **options) > 0.015 for tp in (2, 4))
    none = rl.solve("llama-3.1-70b", "h100-sxm", "tp", tpot=0.001, **options)
    assert not none.is_met
    assert "at tp 8, the best" in none.reason


def test_what_cannot_be_met_says_which_floor_remains():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "bandwidth", ttft=0.02, isl=4000)
    assert found.value is None
    assert found.prediction is None
    floor = changed(rl.predict("llama-3.1-8b", "h100-sxm", isl=4000), {"bandwidth": math.inf}).ttft
    assert f"{floor * 1e3:.3g} ms" in found.reason
    assert "compute" in found.reason
    assert "the hardware limit is" in found.reason


def test_a_prefix_that_is_not_needed_is_nothing_and_one_that_is_is_a_share_of_the_prompt():
    assert rl.solve("qwen3-32b", "h200-sxm", "prefix", ttft=60.0, isl=8000).value == 0.0
    found = rl.solve("qwen3-32b", "h200-sxm", "prefix", ttft=0.3, isl=8000)
    assert f"{100 * found.value / 8000:.0f} % of the prompt" in found.reason
    at = rl.ttft("qwen3-32b", "h200-sxm", isl=8000, prefix=found.value)
    assert math.isclose(at, 0.3, rel_tol=1e-9)


def test_a_result_that_does_not_move_with_the_input_says_so():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "prefix", tpot=1.0)
    assert found.is_met
    assert "does not depend on prefix" in found.reason


def test_a_batch_that_the_memory_ends_is_the_largest_that_fits():
    found = rl.solve("llama-3.1-8b", "l4", "batch", tpot=0.5, isl=2000, osl=100)
    assert (found.limited_by, found.verdict, found.prediction.fits) == ("memory", "pass", True)
    assert f"the memory holds batch {found.whole}" in found.reason
    rl.predict("llama-3.1-8b", "l4", batch=found.whole, isl=2000, osl=100, tp=1)
    with pytest.raises(rl.DoesNotFit):
        rl.predict("llama-3.1-8b", "l4", batch=found.whole + 1, isl=2000, osl=100, tp=1)


ENDS = {  # unknown, targets [s], options -> what ends the value
    "slots": ("concurrency", {"tpot": 0.131}, {"max_num_seqs": 256}, "max_num_seqs"),
    "slots of four replicas": (
        "concurrency",
        {"tpot": 0.131},
        {"max_num_seqs": 256, "tp": 2, "num_gpus": 8},
        "max_num_seqs",
    ),
    "memory of users": ("concurrency", {"tpot": 0.131}, {"isl": 8000, "osl": 500}, "memory"),
    "a target of users": ("concurrency", {"ttft": 0.5, "tpot": 0.131}, {}, "ttft"),
    "saturation": ("request_rate", {"tpot": 0.131}, {}, "saturation"),
    "a target of a rate": ("request_rate", {"ttft_p99": 0.3}, {}, "ttft_p99"),
    "memory of a burst": ("batch", {"tpot": 0.9}, {}, "memory"),
    "a target of a burst": ("batch", {"ttft": 0.3, "tpot": 0.025}, {}, "ttft"),
    "max_model_len": ("isl", {"tpot": 0.5}, {"max_model_len": 20000}, "max_model_len"),
    "memory of answers": ("osl", {"tpot": 0.05}, {}, "memory"),
    "a target of prompts": ("isl", {"ttft": 0.2}, {}, "ttft"),
    "a target of a prefix": ("prefix", {"ttft": 0.03}, {}, "ttft"),
    "no prefix needed": ("prefix", {"ttft": 60.0}, {}, None),
    "a target of tp": ("tp", {"tpot": 0.004}, {}, "tpot"),
    "any tp": ("tp", {"tpot": 0.02}, {}, None),
}


@each("name", ENDS)
def test_a_solution_names_what_ends_it_and_a_prediction_there_has_the_verdict_it_states(name):
    unknown, targets, options, end = ENDS[name]
    found = rl.solve("llama-3.1-8b", "h100-sxm", unknown, slo=targets, **options)
    assert found.limited_by == end
    assert found.to_dict()["limited_by"] == end
    assert not found.is_open
    value = found.value if found.whole is None else found.whole
    again = rl.predict(
        "llama-3.1-8b",
        "h100-sxm",
        **{"tp": 1, **options, unknown: int(value) if unknown == "tp" else value},
        slo=targets,
    )
    assert again.verdict == found.verdict
    assert again.slo_met
    assert again.verdict in ("pass", "pass?")


def test_users_beyond_the_slots_wait_so_that_no_time_per_token_ends_them():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "concurrency", tpot=0.131, max_num_seqs=256)
    assert found.whole == 256
    more = rl.predict("llama-3.1-8b", "h100-sxm", concurrency=2048, max_num_seqs=256, tp=1)
    assert more.tpot == pytest.approx(found.prediction.tpot, rel=0.05)  # who waits takes over a slot at once
    assert more.ttft > 20.0 * found.prediction.ttft
    assert "and more only wait" in found.reason


def test_the_end_of_the_search_is_never_stated_as_a_value_that_was_found():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "concurrency", ttft=1e6)
    assert found.is_open
    assert found.limited_by == "search range"
    assert found.to_dict()["value_for_ttft"] is None
    assert "met to the end of the search" in found.reason
    assert " beyond " in repr(found)
    assert "whole" not in str(found)


def test_a_rate_that_saturation_ends_is_below_it():
    found = rl.solve("llama-3.1-8b", "h100-sxm", "request_rate", tpot=0.131)
    most = rl.predict("llama-3.1-8b", "h100-sxm", request_rate=1.0).served.max_request_rate
    assert found.value == pytest.approx(0.999 * most, rel=1e-12)
    assert "saturation at" in found.reason


def test_weights_of_a_model_with_several_formats_are_those_of_its_experts():
    assert rl.solve("gpt-oss-120b", "h100-sxm", "weights", tpot=0.01, tp=2).unknown == "weight_bits_mxfp4"


def test_a_rate_of_a_network_that_is_all_there_is_has_a_solution_or_a_reason():
    options = {
        "isl": 17, "osl": 128, "tp": 8, "pp": 3, "quantization": "int8", "basis": "ideal", "allow_oversize": True,
    }  # fmt: skip
    found = rl.solve("mimo-7b", "gh200-144gb-single", "scale_out", e2el=0.026, **options)
    assert found.is_met == (found.value is not None)
    assert found.is_met or found.reason


def test_a_batch_that_moves_in_steps_says_so_and_names_the_last_that_meets_the_target():
    options = {"tp": 4, "dp": 2, "isl": 2000, "osl": 300}
    found = rl.solve("llama-3.1-70b", "h100-sxm", "batch", tpot=0.019, **options)
    assert found.method == "step"
    assert "moves in steps" in found.reason
    batch = math.floor(found.value * (1.0 + 1e-9))
    assert found.whole == batch
    assert rl.tpot("llama-3.1-70b", "h100-sxm", batch=batch, **options) <= 0.019
    assert rl.tpot("llama-3.1-70b", "h100-sxm", batch=batch + 1, **options) > 0.019


def test_two_times_that_differ_little_are_told_apart():
    floor = changed(rl.predict("llama-3.1-8b", "h100-sxm"), {"bandwidth": 1e30}).tpot
    found = rl.solve("llama-3.1-8b", "h100-sxm", "bandwidth", tpot=floor * 0.9999)
    asked, _, left = found.reason.partition(" cannot be met")
    assert asked.removeprefix("tpot = ") not in left


@each("unknown, options, error, said", [
    ("bandwith", {"ttft": 0.3}, rl.UnknownName, "did you mean bandwidth"),
    ("pp", {"ttft": 0.3}, rl.UnknownName, "unknown input 'pp'"),
    ("peak_fp4", {"ttft": 0.3}, rl.UnknownName, "on h100-sxm"),
    ("routing_skew", {"ttft": 0.3}, rl.BadInput, "belongs to the model"),
    ("memory", {"ttft": 0.3}, rl.BadInput, "memory cannot be solved for"),
    (3, {"ttft": 0.3}, rl.UnknownName, "unknown input '3'"),
    ("bandwidth", {}, rl.BadInput, "solve needs a target"),
    ("bandwidth", {"ttft": -1.0}, rl.BadInput, "positive time"),
    ("bandwidth", {"ttft": float("nan")}, rl.BadInput, "positive time"),
    ("bandwidth", {"ttft": "300"}, rl.BadInput, "has no unit; write 300ms or 300s"),
    ("bandwidth", {"tpot": 0.1, "osl": 1}, rl.BadInput, "tpot needs at least two output tokens"),
    ("bandwidth", {"ttft": 0.1, "isl": [1, 2]}, rl.BadInput, "isl is an array"),
    ("tp", {"ttft": 0.1, "tp": 2}, rl.BadInput, "leave it out"),
])  # fmt: skip
def test_questions_that_cannot_be_asked_get_one_clear_message(unknown, options, error, said):
    with pytest.raises(error, match=said):
        rl.solve("llama-3.1-8b", "h100-sxm", unknown, **options)
