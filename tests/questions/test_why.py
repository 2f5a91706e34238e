"""What moves an answer: rows, their order, their regimes, formulas, what happens at a tie; and the screens of both."""

import csv
import io
import json
import math
import re
import subprocess
import sys
from dataclasses import fields

import pytest
from click.testing import CliRunner
from conftest import SAMPLE_GPUS, SAMPLE_MODELS
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.formulas.case import RESULTS, CaseTrace, changed, with_inputs
from roofline.numbers.operations import plain as value_of
from roofline.symbolic.graph import gradient

KEYS = ["result", "input", "kind", "value", "elasticity", "derivative", "formula", "regime", "margin"]
KINDS = {"rate", "latency", "efficiency", "workload", "precision", "plan"}


def rows_of(model, gpu, **options):
    return rl.sensitivity(model, gpu, **options)


def row_of(rows, result, name):
    return next(row for row in rows if (row.result, row.input) == (result, name))


def test_a_memory_bound_step_at_light_speed_is_inverse_to_the_bandwidth():
    rows = rows_of("llama-3.1-8b", "h100-sxm", basis="ideal", of="tpot")
    assert rows[0].input == "bandwidth"
    assert math.isclose(rows[0].elasticity, -1.0, rel_tol=1e-12)
    assert math.isclose(
        rows[0].derivative, -rl.tpot("llama-3.1-8b", "h100-sxm", basis="ideal") / 3.35e12, rel_tol=1e-12
    )
    weights, head, cache = (row_of(rows, "tpot", name).elasticity for name in ("weight_bits", "head_bits", "kv_bits"))
    step = 15.1518e9  # bytes of a step, of which 6 979 321 856 and 525 336 576 weights of two bytes
    assert math.isclose(weights, 6979321856 * 2 / step, rel_tol=2e-2)
    assert math.isclose(head, 525336576 * 2 / step, rel_tol=2e-2)
    assert 0.0 < cache < 0.02


def test_rows_keep_the_contract_and_are_sorted_by_magnitude():
    rows = rows_of("llama-3.1-70b", "h100-sxm", tp=4, isl=2000, osl=300, batch=16)
    records = rows.to_records()
    assert list(records[0])[: len(KEYS)] == KEYS
    assert {record["result"] for record in records} == set(RESULTS)
    assert {record["kind"] for record in records} <= KINDS
    assert {"bandwidth", "peak_bf16", "exp_rate", "link_bandwidth", "isl", "batch", "weight_bits", "kv_bits", "tp"} <= {
        record["input"] for record in records if record["result"] == "e2el"
    }
    for result in RESULTS:
        sizes = [abs(row.elasticity) for row in rows if row.result == result]
        assert sizes == sorted(sizes, reverse=True)
    zeros = [record for record in records if record["elasticity"] == 0.0 and record["value"] != 0.0]
    assert all(record["derivative"] == 0.0 and record["formula"] == "0" for record in zeros)


@each("model", SAMPLE_MODELS, few=6)
def test_every_kind_of_model_has_sensitivities_that_sum_to_minus_one(model):
    turn = SAMPLE_MODELS.index(model) % len(SAMPLE_GPUS)
    for gpu in SAMPLE_GPUS if model == "gpt-oss-120b" else SAMPLE_GPUS[turn : turn + 1]:
        rows = rows_of(model, gpu, allow_oversize=True, isl=3000, prefix=100, batch=3)
        for result in RESULTS:
            total = math.fsum(
                row.elasticity * {"rate": 1.0, "latency": -1.0}.get(row.kind, 0.0)
                for row in rows
                if row.result == result
            )
            assert math.isclose(total, 1.0 if result == "output_tok_s_gpu" else -1.0, abs_tol=1e-12)


@pytest.mark.parametrize("model", ["llama-3.1-70b", "gpt-oss-120b", "deepseek-v3", "mixtral-8x7b"])
def test_the_derivative_to_a_continuous_tp_is_a_central_difference_of_each_kernel(model):
    case = CaseTrace(rl.predict(model, "b200", tp=2, isl=3000, batch=3, allow_oversize=True))
    step = 1e-5
    sides = [
        with_inputs(case.prediction, lambda entry, h=h: entry.value * (1.0 + h * (entry.name == "tp")))
        for h in (step, -step)
    ]
    compared = 0
    for name in ("prefill", "decode"):
        high, low = (getattr(side, name).kernels for side in sides)
        kernels = [kernel for kernel in getattr(case.traced, name).kernels if kernel.count]
        for kernel, above, below in zip(kernels, high, low, strict=True):
            if kernel.name.startswith(("head", "logits")):
                continue  # whole columns of the vocabulary: a staircase, followed by its trend
            found = gradient(kernel.time).get("tp", 0.0) * 2.0
            slope = (above.time - below.time) / (2.0 * step)
            assert math.isclose(found, slope, rel_tol=1e-6, abs_tol=1e-6 * below.time)
            compared += abs(slope) > 1e-3 * below.time
    assert compared > 8


def test_what_to_buy_is_the_rate_that_moves_a_result_most():
    rows = rows_of("llama-3.1-70b", "h100-sxm", tp=4, isl=4000, osl=300, batch=4)
    assert rows.what_to_buy["ttft"].input == "peak_bf16"
    assert rows.what_to_buy["tpot"].input == "bandwidth"


def test_at_a_tie_both_one_sided_values_are_given_and_are_those_beside_it():
    rows = rows_of("llama-3.1-70b", "gb200-nvl72", tp=8, isl=2000, osl=300, batch=16, of="tpot")
    row = row_of(rows, "tpot", "tp")  # eight KV heads: one a GPU, replicated beyond
    assert row.margin == 0.0
    assert "KV heads" in row.regime
    assert row.elasticity_below < row.elasticity_above
    window = row_of(rows_of("gpt-oss-120b", "b200", isl=128, osl=2, of="ttft", engine="none"), "ttft", "isl")
    assert window.margin == 0.0
    assert window.elasticity_below > window.elasticity_above


def test_one_sided_elasticities_are_one_sided_slopes_of_the_prediction():
    case = {"isl": 1024.0, "osl": 2.0, "batch": 4.0, "basis": "ideal"}
    row = row_of(rows_of("gemma-3-27b", "b200", of="ttft", **case), "ttft", "isl")  # windows of 1024
    assert row.margin == 0.0
    at = {isl: rl.ttft("gemma-3-27b", "b200", **{**case, "isl": isl}) for isl in (1023.0, 1024.0, 1025.0)}
    # The slope of a quadratic over one token is its slope in the middle of it.
    below = rl.sensitivity("gemma-3-27b", "b200", of="ttft", **{**case, "isl": 1023.5})
    above = rl.sensitivity("gemma-3-27b", "b200", of="ttft", **{**case, "isl": 1024.5})
    assert math.isclose(row_of(below, "ttft", "isl").derivative, at[1024.0] - at[1023.0], rel_tol=1e-9)
    assert math.isclose(row_of(above, "ttft", "isl").derivative, at[1025.0] - at[1024.0], rel_tol=1e-9)
    scale = 1024.0 / at[1024.0]
    assert math.isclose(row.elasticity_below, (at[1024.0] - at[1023.0]) * scale, rel_tol=1e-3)
    assert math.isclose(row.elasticity_above, (at[1025.0] - at[1024.0]) * scale, rel_tol=1e-3)


@pytest.mark.parametrize("name", ["bandwidth", "peak_bf16", "batch"])
def test_a_regime_ends_where_it_is_said_to(name):
    rows = rows_of("llama-3.1-8b", "h100-sxm", basis="ideal", isl=300, batch=2, of="ttft")
    row = row_of(rows, "ttft", name)
    kernel = row.regime.partition(" until prefill ")[2].partition(" turns ")[0]

    def bound(change):
        at = changed(rows.prediction, {name: row.value * (1.0 + change * row.margin / 100.0)})
        return next(entry.terms.bound for entry in at.prefill.kernels if entry.name == kernel)

    assert bound(0.0) == bound(0.999)
    assert bound(1.001) != bound(0.999)


@each("basis", ["ideal", "calibrated"])
@each("model", ["llama-3.1-8b", "gpt-oss-120b", "gemma-3-27b"])
def test_no_kernel_and_no_pass_changes_its_bound_inside_a_margin(model, basis):
    rows = rows_of(model, "h100-sxm", basis=basis, isl=1500, osl=40, batch=4, tp=2, of=("ttft", "tpot"))
    names = {"ttft": "prefill", "tpot": "decode"}
    checked = 0
    for row in rows:
        if row.input == "tp" or not row.margin:
            continue
        here = getattr(rows.prediction, names[row.result])
        notable = {k.name for k in here.kernels if k.time >= 0.0101 * here.time}
        for share in (0.4, 0.99):
            at = getattr(
                changed(rows.prediction, {row.input: row.value * (1.0 + share * row.margin / 100.0)}), names[row.result]
            )
            assert at.bound == here.bound, (row.result, row.input)
            for kernel, other in zip(here.kernels, at.kernels, strict=True):
                if kernel.name in notable:
                    assert kernel.terms.bound == other.terms.bound, (row.result, row.input, kernel.name)
            checked += 1
    assert checked > 20


def test_a_batch_between_whole_multiples_of_dp_keeps_its_row_and_names_the_step():
    options = {"tp": 4, "dp": 2, "isl": 2000, "osl": 300, "of": "tpot"}
    between = row_of(rows_of("llama-3.1-70b", "h100-sxm", batch=63, **options), "tpot", "batch")
    assert between.elasticity == 0.0
    assert "data-parallel rank" in between.regime
    assert math.isclose(abs(between.margin), 100.0 / 63.0, rel_tol=1e-9)
    whole = row_of(rows_of("llama-3.1-70b", "h100-sxm", batch=64, **options), "tpot", "batch")
    assert whole.margin == 0.0
    steps = [rl.tpot("llama-3.1-70b", "h100-sxm", batch=batch, tp=4, dp=2, isl=2000, osl=300) for batch in (62, 64, 66)]
    assert math.isclose(whole.elasticity, (steps[2] - steps[0]) / 4.0 * 64.0 / steps[1], rel_tol=1e-3)
    assert whole.elasticity_below == whole.elasticity_above == whole.elasticity


def test_kernels_that_do_not_run_end_no_regime():
    rows = rows_of("glm-5", "mi250x", tp=8, isl=1024, osl=1, basis="ideal", of="ttft", allow_oversize=True)
    assert not any("absorb" in row.regime for row in rows)
    assert "router turns memory-bound" in row_of(rows, "ttft", "bandwidth").regime


def test_a_collective_that_binds_otherwise_before_it_vanishes_ends_the_regime():
    rows = rows_of("llama-2-70b", "gaudi3", tp=4, isl=2, osl=1, batch=16, quantization="bf16", engine="none", of="ttft")
    row = row_of(rows, "ttft", "tp")
    assert "all-reduce turns link-bound" in row.regime
    assert -66.0 < row.margin < -61.0


def test_a_batch_that_is_rounded_up_ends_its_regime_at_the_next_whole_share():
    options = {"tp": 8, "pp": 2, "dp": 4, "isl": 128, "osl": 1, "engine": "trtllm-0.9"}
    row = row_of(rows_of("llama-3.1-8b", "h100-pcie", of="ttft", **options), "ttft", "batch")
    assert math.isclose(row.margin, 300.0, rel_tol=1e-9)
    assert "data-parallel rank" in row.regime


def test_a_domain_without_a_network_beyond_it_has_no_upper_side():
    row = row_of(rows_of("llama-3.1-8b", "rtx-4090", tp=8, of="tpot"), "tpot", "tp")
    assert row.margin == 0.0
    assert row.elasticity_above == row.elasticity


def structures():
    """A model of each structure: kinds of layers with what they have and lack, streams, formats."""
    found = {}
    for name in rl.models():
        model = rl.load_model(name)
        parts = {part for group in model.groups for layer in group.layers for part in (layer.mixer, layer.ffn)}
        kinds = frozenset((type(part), *(bool(getattr(part, entry.name)) for entry in fields(part))) for part in parts)
        ends = (model.tied, model.streams > 1, model.parallel, bool(model.mtp_layers), *sorted(model.native.items()))
        found.setdefault((kinds, ends), name)
    return list(found.values())


@each(("place", "model"), lambda: enumerate(structures()), few=5)
def test_every_choice_that_can_end_a_regime_says_what_it_means(place, model):
    small = {"tp": 8, "prefix": 100}
    large = {"tp": 16, "pp": 2, "dp": 2, "batch": 9, "isl": 20_000, "prefix": 9000}
    bases = ("calibrated", "ideal") if place % 2 else ("ideal", "calibrated")
    for basis, options in zip(bases, (small, large), strict=True):  # each model with both of either
        try:
            case = CaseTrace(rl.predict(model, "gb300-nvl72", basis=basis, allow_oversize=True, **options))
        except rl.BadInput:
            continue  # the model is not divided so
        for switch in case.trace.switches:
            ends = switch.section and value_of(switch.left) > 0.0 and value_of(switch.right) > 0.0
            assert switch.meaning or not ends, switch


def test_a_prefix_of_nothing_still_says_what_a_cached_token_would_save():
    row = row_of(rows_of("llama-3.1-8b", "h100-sxm", isl=2000, of="ttft"), "ttft", "prefix")
    assert row.value == row.elasticity == 0.0
    saved = rl.ttft("llama-3.1-8b", "h100-sxm", isl=2000) - rl.ttft("llama-3.1-8b", "h100-sxm", isl=2000, prefix=1)
    assert math.isclose(-row.derivative, saved, rel_tol=1e-3)


def test_formats_that_differ_by_section_are_inputs_of_their_own():
    names = {row.input for row in rows_of("gpt-oss-120b", "h100-sxm", tp=2, of="tpot")}
    assert {"weight_bits_mxfp4", "weight_bits_bf16", "head_bits", "kv_bits"} <= names
    assert "weight_bits" not in names


def test_a_single_token_has_no_tpot_row():
    rows = rows_of("llama-3.1-8b", "h100-sxm", osl=1)
    assert {row.result for row in rows} == {"ttft", "e2el", "output_tok_s_gpu"}


def test_what_is_no_result_or_no_single_case_is_refused():
    with pytest.raises(rl.UnknownName, match="ttft, tpot"):
        rows_of("llama-3.1-8b", "h100-sxm", of=("ttft", "speed"))
    with pytest.raises(rl.BadInput, match="of is empty"):
        rows_of("llama-3.1-8b", "h100-sxm", of=())
    with pytest.raises(rl.BadInput, match="batch is an array"):
        rows_of("llama-3.1-8b", "h100-sxm", batch=[1, 2])


def test_a_single_token_has_nothing_to_say_of_tpot_alone():
    with pytest.raises(rl.BadInput, match="tpot needs at least two output tokens"):
        rows_of("llama-3.1-8b", "h100-sxm", osl=1, of="tpot")


@pytest.mark.parametrize("case", [
    ("qwen3-235b-a22b", "a100-sxm-80gb", {"tp": 8, "of": "tpot"}),
    ("jamba-v0.1", "l40s", {"tp": 8, "quantization": "int4", "of": "ttft"}),
    ("llama-3.1-70b", "h100-sxm", {"tp": 4, "dp": 2, "batch": 64, "basis": "ideal"}),
    ("deepseek-v3", "h200-sxm", {"tp": 8, "osl": 1}),
], ids=lambda case: case[0])  # fmt: skip
def test_every_symbol_of_a_formula_is_a_row_of_its_result(case):
    model, gpu, options = case
    rows = rows_of(model, gpu, allow_oversize=True, **options)
    values = {}
    for row in rows:
        values.setdefault(row.result, {})[row.input] = row.value
    names = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
    for row in rows:
        found = eval(row.formula, dict(names), values[row.result])
        assert math.isclose(found, row.derivative, rel_tol=1e-11, abs_tol=1e-25)


def test_no_efficiency_is_said_to_change_a_regime_beyond_one_and_no_count_below_one():
    rows = rows_of("llama-3.1-8b", "h100-sxm", isl=2000, batch=1)
    for row in rows:
        moved = row.value * (1.0 + (row.margin or 0.0) / 100.0)
        assert row.kind != "efficiency" or moved <= 1.0 + 1e-9 or row.input.startswith("eta_x")
        assert row.kind != "workload" or moved >= 1.0 - 1e-9 or row.input == "prefix"


def test_a_measurement_scales_times_and_leaves_their_elasticities():
    plain = rows_of("llama-3.1-8b", "h100-sxm", of="tpot")
    scaled = rows_of("llama-3.1-8b", "h100-sxm", of="tpot", measured={"tpot": 0.011})
    factor = row_of(scaled, "tpot", "correction_tpot")
    assert math.isclose(factor.elasticity, 1.0, rel_tol=1e-12)
    for one in plain:
        other = row_of(scaled, "tpot", one.input)
        assert math.isclose(one.elasticity, other.elasticity, rel_tol=1e-12)
        assert one.regime == other.regime
    assert math.isclose(scaled.closed.formula("tpot").value, 0.011, rel_tol=1e-12)


def test_numbers_alone_need_no_sympy():
    code = (
        "import sys, roofline as rl\n"
        "rows = rl.sensitivity('deepseek-v3', 'h200-sxm', tp=8)\n"
        "assert rows[0].elasticity and 'sympy' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert rows[0].formula and 'sympy' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


CASE = ["-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "2000", "--osl", "300"]


def run(*words):
    return CliRunner().invoke(cli, list(words))


def shell_rows(*words):
    done = run(*words, "--format", "json")
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema_version"] == 1
    return answer["rows"]


# --- sensitivity -------------------------------------------------------------------------------


def test_sensitivity_as_json_holds_every_row_of_the_contract_with_formulas_that_give_their_values():
    found = shell_rows("sensitivity", *CASE, "--of", "ttft")
    assert list(found[0])[:9] == [
        "result", "input", "kind", "value", "elasticity", "derivative", "formula", "regime", "margin"
    ]  # fmt: skip
    values = {row["input"]: row["value"] for row in found}
    names = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
    for row in found:
        assert math.isclose(eval(row["formula"], dict(names), values), row["derivative"], rel_tol=1e-12)


def test_sensitivity_prints_its_formulas_as_text_and_as_latex():
    text = run("sensitivity", *CASE, "--of", "tpot", "--top", "2", "--formula").stdout
    assert "d tpot / d bandwidth =" in text
    assert "where\n  compute_decode_qkv = " in text or "compute_decode_qkv" in text
    latex = run("sensitivity", *CASE, "--of", "tpot", "--top", "2", "--format", "latex").stdout
    assert r"\frac{\partial \mathrm{tpot}}{\partial \mathrm{bandwidth}} &=" in latex
    assert latex.count("{") == latex.count("}")


def test_a_tornado_chart_is_written_where_it_is_asked_for(tmp_path):
    path = tmp_path / "chart.png"
    done = run("sensitivity", *CASE, "--of", "ttft", "--of", "tpot", "--plot", str(path))
    assert done.exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {path}" in done.stderr
    for wrong, said in (("missing/chart.png", "No such file or directory"), ("chart.docx", "not a picture")):
        failed = run("sensitivity", *CASE, "--plot", str(tmp_path / wrong))
        assert failed.exit_code == 1
        assert said in failed.stderr


def test_a_chart_without_matplotlib_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("sensitivity", *CASE, "--plot", str(tmp_path / "chart.png"))
    assert done.exit_code == 1
    assert "pip install" in done.stderr


# --- formula -----------------------------------------------------------------------------------


def test_formula_as_json_gives_the_result_when_read_back():
    (row,) = shell_rows("formula", "tpot", *CASE)
    names = {"sqrt": math.sqrt, "log": math.log, "ceiling": math.ceil, "floor": math.floor}
    assert math.isclose(eval(row["formula"], names, row["symbols"]), row["value"], rel_tol=1e-12)


def test_formula_as_python_is_a_program():
    source = run("formula", "e2el", *CASE, "--format", "python").stdout
    done = subprocess.run([sys.executable, "-"], input=source, capture_output=True, text=True, check=True)
    assert math.isclose(
        float(done.stdout), rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300).e2el, rel_tol=1e-12
    )


def test_a_knee_without_a_closed_form_says_so():
    done = run("formula", "knee", *CASE)
    assert any(line.startswith("0 = ") for line in done.stdout.splitlines())
    assert "half_knee has no closed form" in done.stderr


# --- solve -------------------------------------------------------------------------------------


def test_solve_gives_the_value_on_each_gpu_and_predict_confirms_it():
    found = shell_rows("solve", "--for", "isl", "--ttft", "300ms", *CASE, "-g", "b200")
    assert [row["gpu"] for row in found] == ["h100-sxm", "b200"]
    for row in found:
        assert math.isclose(rl.ttft("llama-3.1-8b", row["gpu"], isl=row["value"], osl=300), 0.3, rel_tol=1e-9)
        assert math.isclose(row["ttft_ms"], 300.0, rel_tol=1e-9)


def test_solve_shows_the_closed_form_where_there_is_one():
    done = run("solve", "--for", "bandwidth", "--tpot", "10ms", *CASE, "--basis", "ideal")
    assert "no closed form" not in done.stdout
    assert "bandwidth = over_bandwidth/" in done.stdout
    other = run("solve", "--for", "bandwidth", "--tpot", "10ms", *CASE)
    assert "no closed form: root of tpot(bandwidth) = target; regime: decode memory-bound" in other.stdout


def test_a_bare_number_is_milliseconds_as_elsewhere():
    assert run("solve", "--for", "batch", "--ttft", "300", *CASE).stdout == run(
        "solve", "--for", "batch", "--ttft", "0.3s", *CASE
    ).stdout  # fmt: skip


def test_gpus_that_cannot_meet_a_target_are_rows_beside_those_that_can():
    words = ("solve", "--for", "bandwidth", "--ttft", "150ms", "-m", "llama-3.1-8b", "--isl", "4000")
    done = run(*words)
    assert done.exit_code == 0
    assert "cannot be met" in done.stdout
    assert re.search(r"^\* +1x b200 +tp1 +[\d.]+ [GT]B/s +pass\?", done.stdout, re.MULTILINE)
    named = run(*words, "-g", "l4", "-g", "b200")
    assert named.exit_code == 1
    assert "l4: ttft = 150 ms cannot be met" in named.stderr
    assert "b200" in named.stdout


def test_that_no_gpu_of_the_catalog_meets_a_target_is_said_in_a_few_lines():
    done = run("solve", "--for", "peak", "--ttft", "1ms", "-m", "llama-3.1-8b")
    assert done.exit_code == 1
    errors = done.stderr[done.stderr.index("Error:") :]
    assert len(errors.splitlines()) <= 5
    assert "more" in errors


# --- what a screen may not leave out ------------------------------------------------------------


def test_a_file_of_sensitivities_has_all_rows(tmp_path):
    target = tmp_path / "all.csv"
    assert run("sensitivity", *CASE, "--of", "tpot", "-o", str(target)).exit_code == 0
    written = list(csv.reader(io.StringIO(target.read_text(encoding="utf-8"))))
    assert len(written) == 1 + len(shell_rows("sensitivity", *CASE, "--of", "tpot"))


def test_solve_shows_the_whole_plan():
    done = run("solve", "-m", "llama-3.1-8b", "-g", "h100:tp2", "--pp", "2", "--for", "users", "--slo", "tpot:30")
    assert " tp2 pp2 " in done.stdout


def test_curves_of_several_models_name_them():
    done = run("curve", "-m", "llama-3.1-8b,qwen3-8b", "-g", "h100")
    for name in ("llama-3.1-8b", "qwen3-8b"):
        assert f"{name} on 1x h100-sxm: " in done.stdout
        assert f"\n{name} " in done.stdout.partition("model ")[2]


def test_rents_of_pools_are_written_like_any_rent():
    case = ("disaggregate", "-m", "llama-3.1-8b", "--prefill", "h100", "--decode", "h100", "-c", "3")
    monthly = shell_rows(*case, "--prefill-gpu-price", "1460/month", "--decode-gpu-price", "1-3")
    assert monthly == shell_rows(*case, "--prefill-gpu-price", "2", "--decode-gpu-price", "2")
