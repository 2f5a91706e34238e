"""Printed formulas are the answer: with their own numbers, and with any one of them moved."""

import math
import subprocess
import sys
from itertools import combinations, product

import pytest
import sympy
import tiers
from conftest import SAMPLE_MODELS, close
from every_case import each

import roofline as rl
from roofline.formulas.case import CaseTrace, changed
from roofline.formulas.closed import ClosedForms, knee_formula
from roofline.symbolic.graph import Values

FUNCTIONS = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
MODELS = {
    "llama-3.1-8b": {}, "llama-3.1-70b": {"tp": 8}, "gemma-3-27b": {"tp": 2}, "mixtral-8x7b": {"tp": 4},
    "gpt-oss-120b": {"tp": 4}, "deepseek-v3": {"tp": 8}, "deepseek-v3.2": {"tp": 2, "dp": 4, "ep": 8},
    "qwen3-next-80b-a3b": {"tp": 2, "pp": 2}, "jamba-v0.1": {"tp": 4}, "llama-4-scout": {"tp": 8},
}  # fmt: skip
GPUS = ("h100-sxm", "b200", "a100-sxm-80gb", "l40s", "mi300x")
BASES = ("ideal", "calibrated")
WORKLOADS = ({"isl": 1024, "osl": 128, "batch": 1}, {"isl": 5000, "osl": 300, "batch": 24, "prefix": 2000})
RESULTS = ("ttft", "tpot")
CASES = list(product(MODELS, GPUS, BASES, WORKLOADS))


def value(formula, symbols):
    return eval(formula, dict(FUNCTIONS), symbols)


def case_of(model, gpu, basis, workload, engine="generic"):
    return CaseTrace(
        rl.predict(model, gpu, basis=basis, engine=engine, allow_oversize=True, **MODELS[model], **workload)
    )


#: Cases, results and engines of which every two choices meet: for what takes sympy.
COVERING = [
    (model, GPUS[(place + 2 * turn) % 5], BASES[turn], WORKLOADS[(place + turn) % 2], RESULTS[(place // 4 + turn) % 2])
    for turn in range(2)
    for place, model in enumerate(MODELS)
]


def engine_of(place):
    return ("generic", "trtllm-0.9")[place % 3 == 0]


def moving(traced, result, symbols, seen=()):
    """Symbols with their values a per cent on, where the regime goes on until there, and what the answer is there.

    At least three; those that were seen before only until there are as many.
    """
    count = 0
    for name in sorted(symbols, key=lambda name: name in seen):
        if name in seen and count >= 3:
            return
        change, _ = traced.margin(result, name)
        if symbols[name] and not (change is not None and abs(change) <= 0.011) and not traced.is_tie(result, name):
            moved = 1.01 * symbols[name]
            yield name, moved, getattr(changed(traced.prediction, {name: moved}), result)
            count += 1
    assert count >= 3


def test_the_grid_has_two_hundred_cases_and_of_the_twenty_every_two_choices_meet():
    assert len(CASES) == 200
    assert len(COVERING) == 20
    choices = list(zip(*([str(choice) for choice in case] for case in COVERING), strict=True))
    for one, other in combinations(choices, 2):
        if (one, other) != tuple(choices[:2]):  # ten models on five GPUs are more than twenty
            assert len(set(zip(one, other, strict=True))) == len(set(one)) * len(set(other))


@each("model", MODELS, few=3)
def test_numbers_of_a_trace_are_the_answer_and_stay_it_when_an_input_moves_by_a_per_cent(model):
    seen = {result: set() for result in RESULTS}  # each input of a model moves once at least, those of a GPU as well
    for number, case in enumerate(CASES):
        if case[0] != model:
            continue
        traced = case_of(*case, engine=engine_of(number))
        result = RESULTS[number % 2]
        root = traced.number(result)
        assert close(root.value, getattr(traced.prediction, result)), case
        symbols = {name: traced.inputs[name].value for name in sorted(traced.gradient(result))}
        for name, moved, answer in moving(traced, result, symbols, seen[result]):
            assert close(Values([root], [traced.trace.input(name)])(moved)[0], answer), (name, case)
            seen[result].add(name)


@each("place", range(len(COVERING)), ids=lambda place: "-".join(COVERING[place][:3]), few=6)
def test_a_formula_is_the_answer_and_stays_it_when_a_symbol_moves_by_a_per_cent(place):
    *case, result = COVERING[place]
    traced = case_of(*case, engine=engine_of(place))
    forms = ClosedForms(traced)
    found = forms.formula(result).to_dict()
    assert close(value(found["formula"], found["symbols"]), getattr(traced.prediction, result))
    for name, moved, answer in moving(traced, result, found["symbols"]):
        assert close(value(found["formula"], {**found["symbols"], name: moved}), answer), name
    symbols = {key: entry.value for key, entry in traced.inputs.items()}
    for name, slope in sorted(traced.gradient(result).items())[place % 10 :: 10]:
        scale = abs(traced.number(result).value / (symbols[name] or 1.0))
        assert math.isclose(
            value(forms.derivative_text(result, name), symbols), slope, rel_tol=1e-12, abs_tol=1e-14 * scale
        ), name


@tiers.has_more_cases
@pytest.mark.parametrize("result", tiers.some(["e2el", "output_tok_s_gpu", "output_tok_s", "tok_s_user"], 2))
def test_results_made_of_both_passes_have_formulas_and_derivatives_too(result):
    traced = case_of("mixtral-8x7b", "h100-sxm", "calibrated", WORKLOADS[1])
    forms = ClosedForms(traced)
    found = forms.formula(result).to_dict()
    assert close(value(found["formula"], found["symbols"]), getattr(traced.prediction, result))
    symbols = {key: entry.value for key, entry in traced.inputs.items()}
    for name, slope in traced.gradient(result).items():
        assert math.isclose(value(forms.derivative_text(result, name), symbols), slope, rel_tol=1e-11, abs_tol=1e-25)


@tiers.has_more_cases
def test_a_formula_can_be_derived_by_sympy_and_by_hand():
    traced = case_of("llama-3.1-8b", "h100-sxm", "ideal", WORKLOADS[0])
    forms = ClosedForms(traced)
    read = sympy.sympify(forms.formula("tpot").flat)
    symbols = {key: entry.value for key, entry in traced.inputs.items()}
    for name in tiers.some(("bandwidth", "batch", "weight_bits", "osl"), 1):
        whole = sympy.diff(read, sympy.Symbol(name)).evalf(25, subs=symbols)
        assert math.isclose(float(whole), traced.gradient("tpot")[name], rel_tol=1e-12)
    found = rl.formula("llama-3.1-8b", "h100-sxm", "tpot", basis="ideal", isl=1000, osl=2, batch=1)
    symbols = found.to_dict()["symbols"]
    # Every weight but the embedding once, 1001 cached tokens of 32 layers, and the activations: 0.07 % of it.
    moved = 7504924672 * 2.0 + 32 * 2048 * 2.0 * 1001
    assert math.isclose(value(found.flat, symbols) * 3.35e12, moved, rel_tol=1e-3)
    assert set(symbols) == {"bandwidth", "weight_bits", "head_bits", "kv_bits", "isl", "osl", "batch"}


@pytest.mark.parametrize("of", ["ttft", "e2el", "ridge_knee", "half_knee", "memory_knee"])
@tiers.has_more_cases
@pytest.mark.parametrize("basis", tiers.some(BASES, 1))
def test_python_source_runs_alone_and_prints_the_result(of, basis, tmp_path):
    found = rl.formula("llama-3.1-70b", "h100-sxm", of, tp=4, isl=2000, osl=300, batch=8, basis=basis)
    script = tmp_path / "formula.py"
    script.write_text(found.to_python())
    done = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True, check=True)
    expected = 0.0 if found.is_implicit else found.value
    assert math.isclose(float(done.stdout), expected, rel_tol=1e-12, abs_tol=1e-15)


@each("model", SAMPLE_MODELS)
@each("gpu", ["h100-sxm", "mi300x"], few=1)
def test_the_memory_knee_of_every_kind_of_model_has_a_formula(model, gpu):
    traced = CaseTrace(rl.predict(model, gpu, tp=4 if model != "qwen3-next-80b-a3b" else 2, allow_oversize=True))
    if traced.prediction.knees.memory:
        found = knee_formula(traced, "memory_knee")
        assert value(found.flat, found.to_dict()["symbols"]) == traced.prediction.knees.memory


@each("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
@each("which", ["ridge_knee", "half_knee", "memory_knee"])
@each("basis", BASES, few=1)
def test_a_knee_is_its_formula_or_the_zero_of_it(model, which, basis):
    traced = case_of(model, "b200", basis, WORKLOADS[0])
    if math.isinf(getattr(traced.prediction.knees, which.removesuffix("_knee"))):
        with pytest.raises(rl.BadInput, match="no batch reaches it"):
            knee_formula(traced, which)
        return
    found = knee_formula(traced, which)
    assert found.value == getattr(traced.prediction.knees, which.removesuffix("_knee"))
    symbols = found.to_dict()["symbols"]
    for name in ("bandwidth", "memory", "weight_bits"):
        if name not in symbols:
            continue
        at = changed(traced.prediction, {name: 1.01 * symbols[name]})
        knee = getattr(at.knees, which.removesuffix("_knee"))
        moved = {**symbols, name: 1.01 * symbols[name]}
        if found.is_implicit:
            scale = at.decode.time
            assert abs(value(found.flat, {**moved, which: knee})) <= 1e-9 * scale
            assert abs(value(found.flat, {**moved, which: 1.1 * knee})) > 1e-6 * scale
        else:
            assert close(value(found.flat, moved), knee)


def test_a_knee_that_is_given_or_a_step_of_a_rank_has_a_formula_or_none():
    assert rl.formula("llama-3.1-8b", "h100-sxm", "knee").name == "half_knee"
    with pytest.raises(rl.BadInput, match="set by the SLO"):
        rl.formula("llama-3.1-8b", "h100-sxm", "knee", slo={"tpot": 0.008})
    with pytest.raises(rl.BadInput, match="the batch per rank moves in steps"):
        rl.formula("llama-3.1-70b", "h100-sxm", "ridge_knee", tp=4, dp=2)
    with pytest.raises(rl.BadInput, match="tpot needs at least two output tokens; osl is 1"):
        rl.formula("llama-3.1-8b", "h100-sxm", "tpot", osl=1)
    with pytest.raises(rl.UnknownName, match="ttft, tpot"):
        rl.formula("llama-3.1-8b", "h100-sxm", "throughput")
    with pytest.raises(rl.BadInput, match="array"):
        rl.formula("llama-3.1-8b", "h100-sxm", "ttft", isl=[100, 200])


def test_latex_has_every_symbol_and_balances_its_braces():
    found = rl.formula("deepseek-v3", "h200-sxm", "tpot", tp=8)
    text = found.to_latex()
    assert text.count("{") == text.count("}")
    assert text.startswith("\\begin{align*}")
    assert text.count(" &= ") == 1 + len(found.definitions) + len(found.inputs)
    assert "\\eta_{m,\\mathrm{gemm" in text
    assert "_ " not in text
