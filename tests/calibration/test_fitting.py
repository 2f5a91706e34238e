"""Constants of the one equation from timed kernels: what made the times is found again."""

import math
from dataclasses import replace

import numpy as np
import pytest
import yaml
from every_case import each

import roofline as rl
from roofline.numbers.quantity import from_text
from roofline.physics.equation import LinkRoof, collective_time, kernel_time, link_roof
from roofline.questions.calibrate import (
    Sample,
    calibrate,
    calibrated_sets,
    fitted,
    form,
    judged,
    kernel_sample,
    log_ratio,
    median_error,
)
from roofline.specs.gpu import ALL_REDUCE, KINDS, SHAPES, CollectiveEfficiency, Efficiency, KernelGroup

H100 = "h100-sxm"

#: Values of the columns of shapes such as engines run: between two ends, or one of several.
_HEADS = {"heads": (8, 32, 64), "kv_heads": (2, 8), "head_dim": (64, 128)}
_EXPERTS = {"hidden": (2048, 4096), "width": (768, 2048), "top_k": (8,), "experts": (128,), "tp": (1, 4), "ep": (1, 8)}
_LENGTHS = {"batch": [1, 256], "seq": [64, 16384]}
_RANKS = {"ranks": (2, 4, 8), "nbytes": [1e4, 1e9]}
COLUMNS = {
    "gemm": {"m": [1, 32768], "n": (1024, 4096, 6144, 28672), "k": (2048, 4096, 14336)},
    "attention_prefill": _LENGTHS | _HEADS, "attention_decode": _LENGTHS | _HEADS,
    "mla_prefill": _LENGTHS | {"heads": (16, 64, 128)}, "mla_decode": _LENGTHS | {"heads": (16, 64, 128)},
    "moe": {"tokens": [1, 16384]} | _EXPERTS, "elementwise": {"nbytes": [1e4, 1e9]}, "all_reduce": _RANKS,
    "all_gather": _RANKS,
}  # fmt: skip


def shapes(kind, size, random):
    """Shapes of kernels from latency-bound to compute-bound."""
    found = {}
    for name, values in COLUMNS[kind].items():
        if isinstance(values, list):
            found[name] = np.round(np.exp(random.uniform(*np.log(values), size)))
        else:
            found[name] = random.choice(np.asarray(values, dtype=float), size)
    return found


def timed(kind, known, size=120, noise=0.02, gpu=H100, dtype="bf16"):
    """Kernels that take the times which known constants give, up to some noise."""
    record, random = rl.load_gpu(gpu), np.random.default_rng(size)
    columns = {name: values.tolist() for name, values in shapes(kind, size, random).items()}
    assert set(columns) == set(SHAPES[kind])
    routing = ("uniform",) * size if kind == "moe" else ()
    columns["latency"] = [1.0] * size
    group = KernelGroup(gpu, kind, dtype, columns, routing, ("acme",) * size, ("acme 1.0",), ("2026-01-02",))
    sample = kernel_sample(group, record)
    if isinstance(sample.roof, LinkRoof):
        exact = collective_time(sample.work, sample.roof._replace(efficiency=CollectiveEfficiency(**known))).total
    else:
        start = np.where(sample.spread, known.get("t0_ep", known["t0"]), known["t0"])
        exact = kernel_time(sample.work, sample.roof._replace(efficiency=Efficiency(**{**known, "t0": start}))).total
    latency = np.broadcast_to(exact, (size,)) * np.exp(random.normal(0.0, noise, size))
    return replace(group, columns={**columns, "latency": latency.tolist()})


def fit(group, gpu=H100, base=None):
    return fitted(kernel_sample(group, rl.load_gpu(gpu)), base)


KNOWN = {
    "gemm": {"t0": 3e-6, "eta_c": 0.6, "eta_m": 0.7, "kappa": 0.4e-9, "p": 3.0},
    "attention_prefill": {"t0": 9e-6, "eta_c": 0.5, "eta_x": 0.7, "eta_m": 0.5, "kappa_s": 8e-9, "p": 1.0},
    "attention_decode": {"t0": 7e-6, "eta_c": 0.8, "eta_m": 0.65, "kappa_s": 0.5e-9, "p": 3.0},
    "mla_prefill": {"t0": 11e-6, "eta_c": 0.45, "eta_m": 0.6, "kappa_s": 2e-9, "p": 1.0},
    "mla_decode": {"t0": 9e-6, "eta_c": 0.5, "eta_m": 0.6, "kappa_s": 0.2e-9, "p": 3.0},
    "moe": {
        "t0": 20e-6, "t0_ep": 45e-6, "eta_c": 0.5, "eta_m": 0.55, "eta_s": 0.25, "kappa_s": 3e-9, "eps": 200e-9,
        "p": 3.0,
    },
    "elementwise": {"t0": 2.5e-6, "eta_m": 0.6, "p": 3.0},
    "all_reduce": {"a0": 6e-6, "a1": 0.8e-6, "q": 8e-6, "eta": 0.65, "eta_switch": 0.5},
    "all_gather": {"a0": 6e-6, "a1": 0.8e-6, "q": 8e-6, "eta": 0.65},
}  # fmt: skip
#: Constants that most of the rows depend on: found within a few per cent.
STRONG = {"t0", "eta_c", "eta_m", "eta"}


@each("kind", KNOWN)
def test_what_made_the_times_is_found_again_by_forms_with_the_constants_of_the_equation(kind):
    group = timed(kind, KNOWN[kind])
    found = fit(group)
    assert found.measurements == 120
    assert found.residual < 0.04  # of noise, the median of 2 %
    assert 0.01 < found.sigma < 0.05
    for name, value in KNOWN[kind].items():
        stated = found.parameters[name]
        if kind in ("gemm", "elementwise", "attention_decode", "all_gather") and name in STRONG:
            assert stated == pytest.approx(value, rel=0.08), name
    # Constants that only few rows depend on trade against each other; the times do not.
    fresh = timed(kind, KNOWN[kind], noise=0.0)
    assert np.median(np.abs(log_ratio(kernel_sample(fresh, rl.load_gpu(H100)), found.parameters))) < 0.03
    start, fixed = form(KINDS[kind])
    fields = CollectiveEfficiency if "eta" in KNOWN[kind] else Efficiency
    assert set(fields.__dataclass_fields__) >= {*start, *fixed}
    assert set(KNOWN[kind]) <= {*start, *fixed}


def test_outliers_hardly_move_a_fit_which_is_the_same_every_time_within_the_rates_of_the_gpu():
    group = timed("gemm", KNOWN["gemm"])
    latency = np.asarray(group.columns["latency"])
    latency[::10] *= 8.0  # one row in ten was disturbed
    clean, disturbed = fit(group), fit(replace(group, columns={**group.columns, "latency": latency.tolist()}))
    for name in ("eta_c", "eta_m"):
        assert disturbed.parameters[name] == pytest.approx(clean.parameters[name], rel=0.1)
        assert disturbed.parameters[name] == pytest.approx(KNOWN["gemm"][name], rel=0.12)
    assert disturbed.residual < 0.06
    group = timed("moe", KNOWN["moe"], size=60)
    assert fit(group) == fit(group)
    # Times a third of what light needs: the nearest that the equation allows is full rates.
    group = timed("gemm", {"t0": 1e-6, "eta_c": 1.0, "eta_m": 1.0, "kappa": 0.0, "p": 3.0}, noise=0.0)
    fast = [time / 3.0 for time in group.columns["latency"]]
    found = fit(replace(group, columns={**group.columns, "latency": fast}))
    assert all(found.parameters[name] <= 1.0 for name in ("eta_c", "eta_m"))
    assert found.residual > 0.3
    group = timed("gemm", KNOWN["gemm"], size=12, noise=0.0)
    tiny = {name: [1.0] * 12 for name in ("m", "n", "k")}  # kernels that do nothing but start
    latency = [5e-6] * 12
    found = fit(replace(group, columns={**tiny, "latency": latency}), base={"eta_c": 0.61, "eta_m": 0.83})
    assert found.parameters["t0"] == pytest.approx(5e-6, rel=0.02)
    assert (found.parameters["eta_c"], found.parameters["eta_m"]) == (0.61, 0.83)


def test_engines_have_equal_say_however_many_rows_each_has():
    # Their times differ by less than the loss takes for an outlier: beyond it, rows pull no more than linearly.
    slow, quick = (
        timed("elementwise", {"t0": 2e-6, "eta_m": eta, "p": 3.0}, size=60, noise=0.0) for eta in (0.6, 0.65)
    )
    rows = {name: slow.columns[name] + quick.columns[name] * 9 for name in slow.columns}
    engines = ("slow",) * 60 + ("quick",) * 540
    group = replace(slow, columns=rows, engines=engines)
    sample = kernel_sample(group, rl.load_gpu(H100))
    assert sample.weight[:60].sum() == pytest.approx(sample.weight[60:].sum(), rel=1e-12)
    assert fitted(sample).parameters["eta_m"] == pytest.approx(math.sqrt(0.6 * 0.65), rel=0.01)
    assert fitted(replace(sample, weight=1.0)).parameters["eta_m"] == pytest.approx(0.645, rel=0.005)


def test_experts_that_are_spread_over_ranks_start_by_themselves_and_hardly_move_the_rest():
    group = timed("moe", KNOWN["moe"], noise=0.0)
    clean = fit(group).parameters
    assert clean["t0"] == pytest.approx(20e-6, rel=0.05)
    assert clean["t0_ep"] == pytest.approx(45e-6, rel=0.05)
    sample = kernel_sample(group, rl.load_gpu(H100))
    sample = replace(sample, latency=sample.latency * np.where(sample.spread, 1.3, 1.0))
    found = fitted(sample).parameters
    assert found["t0_ep"] > 1.4 * clean["t0_ep"]
    for name in ("t0", "eta_c", "eta_m", "eta_s"):
        assert found[name] == pytest.approx(clean[name], rel=0.06), name
    assert fitted(replace(sample, weight=1.0)).parameters["t0"] < 0.8 * clean["t0"]  # if all rows had equal say


def test_fewer_rows_than_constants_or_no_scipy_are_refused(monkeypatch):
    for kind, size in [("gemm", 3), ("moe", 5), ("all_gather", 3), ("elementwise", 1)]:
        with pytest.raises(rl.BadInput, match=rf"{size} {kind} rows are too few to fit \d+ parameters \(\w+"):
            fit(timed(kind, KNOWN[kind], size=size))
    monkeypatch.setitem(__import__("sys").modules, "scipy.optimize", None)
    with pytest.raises(rl.BadInput, match=r"pip install \"roofline\[calibrate\]\""):
        fit(timed("elementwise", KNOWN["elementwise"], size=10))


def test_a_parameter_that_changes_no_time_is_not_fitted():
    assert "eta_s" not in fit(timed("gemm", KNOWN["gemm"])).parameters  # bf16 quantises nothing
    whole = timed("moe", KNOWN["moe"], size=20)
    whole = replace(whole, columns={**whole.columns, "ep": [1.0] * 20})
    assert "t0_ep" not in fit(whole).parameters  # every rank holds all experts
    assert "eta_switch" not in fit(timed("all_gather", KNOWN["all_gather"])).parameters  # only sums run in a switch
    a100 = timed("all_reduce", {"a0": 6e-6, "a1": 0.8e-6, "q": 8e-6, "eta": 0.65}, gpu="a100-sxm-80gb")
    assert not rl.load_gpu("a100-sxm-80gb").link.in_switch_reduction
    assert "eta_switch" not in fit(a100, "a100-sxm-80gb").parameters


def test_a_collective_is_timed_under_the_link_of_its_ranks_and_refused_beyond_the_domain():
    sample = kernel_sample(timed("all_reduce", KNOWN["all_reduce"], size=30), rl.load_gpu(H100))
    gpu = rl.load_gpu(H100)
    assert isinstance(sample, Sample)
    for place, ranks in enumerate(sample.roof.ranks):
        expected = link_roof(gpu, "calibrated", ALL_REDUCE, int(ranks))
        assert sample.roof.bandwidth[place] == expected.bandwidth
        assert sample.roof.least[place] == expected.least
        assert sample.roof.doublings[place] == expected.doublings == math.log2(ranks)
    group = timed("all_gather", KNOWN["all_gather"], size=10)
    wide = replace(group, columns={**group.columns, "ranks": [16.0] * 10})
    with pytest.raises(rl.BadInput, match="16 ranks exceed the 8-GPU scale-up domain of h100-sxm"):
        kernel_sample(wide, rl.load_gpu(H100))


def test_rows_are_judged_by_the_sets_that_there_are():
    gpu = rl.load_gpu(H100)
    stated = gpu.calibration.kernels["gemm", "bf16"]
    known = {name: getattr(stated, name) for name in ("t0", "eta_c", "eta_m", "kappa", "p")}
    group = timed("gemm", known, noise=0.0)
    found = judged(group, gpu, gpu.calibration)
    assert np.max(np.abs(found.log_ratios)) < 1e-12
    assert np.all(found.ideal_log_ratios < 0.0)
    assert found.sigma == stated.sigma
    slower = replace(group, columns={**group.columns, "latency": [2.0 * time for time in group.columns["latency"]]})
    assert median_error(judged(slower, gpu, gpu.calibration).log_ratios) == pytest.approx(math.log(2.0), rel=1e-9)
    empty = replace(gpu.calibration, kernels={})
    assert judged(timed("gemm", KNOWN["gemm"], size=5), gpu, empty) is None


def test_a_set_states_its_constants_as_a_calibration_file_does_and_tables_without_rows_are_refused():
    group = timed("gemm", KNOWN["gemm"])
    sets, sources = calibrated_sets([group], rl.load_gpu(H100), None, "Acme bench", "https://acme.example")
    entry = sets["gemm"]["bf16"]
    assert entry["source"] == "kernels-acme"
    assert entry["measurements"] == 120
    assert 0.0 < entry["residual"] < entry["sigma"]
    found = fit(group)
    for name, text in entry.items():
        if name in found.parameters:
            value = from_text(text, "s") if isinstance(text, str) else text
            assert value == pytest.approx(found.parameters[name], rel=1e-9), name
    (source,) = sources.values()
    assert source["engines"] == ["acme 1.0"]
    assert (source["title"], source["url"], source["date"]) == ("Acme bench", "https://acme.example", "2026-01-02")
    with pytest.raises(rl.BadInput, match="no kernels of h100-sxm"):
        calibrated_sets([], rl.load_gpu(H100), None, "Acme bench")


@pytest.fixture
def table(tmp_path):
    """A table of synthetic GEMMs and collectives of an H100 that is slower than the shipped one."""
    lines = ["gpu,kind,dtype,m,n,k,ranks,nbytes,latency_us,engine,engine_version,date"]
    for kind in ("gemm", "all_reduce"):
        columns = timed(kind, KNOWN[kind], size=60).columns
        for place in range(60):
            cells = [
                str(columns[name][place]) if name in columns else "" for name in ("m", "n", "k", "ranks", "nbytes")
            ]
            time = f"{columns['latency'][place] * 1e6:.6g}"
            lines.append(",".join(("h100", kind, "bf16", *cells, time, "acme", "1.0", "2026-01-02")))
    path = tmp_path / "kernels.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_fitted_file_is_one_that_predictions_stand_on(table, tmp_path):
    found = calibrate([table], H100)
    specs = tmp_path / "specs"
    specs.mkdir()
    (specs / f"{found.name}.yaml").write_text(found.text, encoding="utf-8")
    assert rl.check_specs(str(specs)) == []
    gpu = rl.load_gpu(H100, str(specs))
    assert gpu.calibration.kernels["gemm", "bf16"].eta_c == pytest.approx(KNOWN["gemm"]["eta_c"], rel=0.08)
    # What was not measured is kept.
    shipped = rl.load_gpu(H100).calibration
    kept, before = gpu.calibration.kernels["attention_decode", "bf16"], shipped.kernels["attention_decode", "bf16"]
    assert kept.eta_m == pytest.approx(before.eta_m, rel=1e-3)
    own, old = (rl.predict("llama-3.1-8b", H100, isl=4000, specs=folder) for folder in (str(specs), None))
    assert own.basis == "calibrated"
    assert own.ttft > 1.1 * old.ttft  # 0.6 of the peak instead of 0.79


def test_a_table_with_expert_ranks_gives_their_start_and_a_file_without_it_starts_them_as_others(tmp_path):
    columns = timed("moe", KNOWN["moe"], size=60).columns
    lines = [",".join(("gpu", "kind", "dtype", *SHAPES["moe"], "latency_us"))]
    for *shape, latency in zip(*(columns[name] for name in (*SHAPES["moe"], "latency")), strict=True):
        lines.append(",".join((H100, "moe", "bf16", *map(str, shape), f"{latency * 1e6:.6g}")))
    (tmp_path / "kernels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = calibrate([str(tmp_path / "kernels.csv")], H100)
    stated = yaml.safe_load(found.text)["kernels"]["moe"]["bf16"]
    specs = tmp_path / "specs"
    specs.mkdir()

    def experts(text, ep):
        """The set that a file states, and when the experts of a plan start."""
        (specs / f"{found.name}.yaml").write_text(text, encoding="utf-8")
        case = rl.predict("qwen3-30b-a3b", H100, tp=8, ep=ep, specs=str(specs))
        (kernel,) = (kernel for kernel in case.decode.kernels if kernel.name == "experts")
        return rl.load_gpu(H100, str(specs)).calibration.kernels["moe", "bf16"], kernel.roof.efficiency.t0

    efficiency, start = experts(found.text, 8)
    assert efficiency.t0_ep == start == from_text(stated["t0_ep"], "s") == pytest.approx(45e-6, rel=0.1)
    assert efficiency.t0 == experts(found.text, 1)[1] == from_text(stated["t0"], "s") < 0.6 * start
    plain = found.text.replace(f"t0_ep: {stated['t0_ep']}, ", "")
    assert plain != found.text
    without, start = experts(plain, 8)
    assert without.t0_ep is None
    assert start == efficiency.t0


def test_a_fitted_file_says_how_far_rows_were_off_and_alone_keeps_nothing_of_the_shipped_one(table):
    rows = {row["kind"]: row for row in calibrate([table], H100).rows}
    assert set(rows) == {"gemm", "all_reduce"}
    for row in rows.values():
        assert row["measurements"] == 60
        assert row["median_after"] < 0.05 < row["median_before"]
    document = yaml.safe_load(calibrate([table], H100, keep=False).text)
    assert list(document["kernels"]) == ["gemm"]
    assert list(document["collectives"]) == ["all_reduce"]
    assert document["measured_on"] == [H100]
