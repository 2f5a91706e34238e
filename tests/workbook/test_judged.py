"""Ranges and verdicts of cells are those of Python: limits stand just beside figures and the ends of their ranges."""

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tiers
from test_case import CHOICES, GPUS, MODELS, drawn

import roofline as rl
from roofline.catalog.find import engine_paths
from roofline.outputs.layer_kinds import structure_of
from roofline.outputs.workbook.case import CaseCells, lookup_case
from roofline.outputs.workbook.cells import INFINITE, Cell, CellPool
from roofline.outputs.workbook.judged import NO_LIMIT, range_of, words_on
from roofline.outputs.workbook.tables import catalog
from roofline.questions.inputs import case as cases
from roofline.specs.workload import OF_REQUESTS

SHARE = 1e-6  # of a limit, by which it lies beside a figure
ENGINE = cases.engine("generic", 0.0)
WORDS = ("pass", "pass?", "fail?", "fail")


def models_of_every_kind():
    """Models of the catalog that together have every structure of a layer that any has."""
    seen, models = set(), []
    for name in MODELS:
        model = rl.load_model(name)
        structures = {structure_of(record)[0] for _, record in (*model.mixers, *model.ffns)}
        if structures - seen:
            models.append(model)
            seen |= structures
    return models


def predicted(row, slo=None, **more):
    """What Python says of a case, None where it refuses it."""
    own = {name: row[name] for name in ("tp", "pp", "ep", "dp", "isl", "osl", "batch", "prefix", "basis")}
    quantization = None if row["quantization"] == "native" else row["quantization"]
    cache = None if row["kv_cache_dtype"] == "as quantization" else row["kv_cache_dtype"]
    slo = slo and {key: f"{limit!r} s" for key, limit in slo.items()}
    try:
        return rl.predict(
            row["model"], row["gpu"], quantization=quantization, kv_cache_dtype=cache, slo=slo, **own, **more
        )
    except rl.RooflineError:
        return None


def limits_beside(draw, known, row):
    """Limits just beside a figure, an end of its range or the hardware limit, or far above; at times others too."""
    metric = draw.choice(OF_REQUESTS if known.tpot is not None else ("ttft", "e2el"))
    marks = [getattr(known, metric), *(getattr(known, f"{metric}_interval") or ())]
    marks.append(getattr(predicted({**row, "basis": "ideal"}), metric))
    slo = {metric: draw.choice(marks) * draw.choice([1.0 - SHARE, 1.0 + SHARE, 4.0])}
    for other in OF_REQUESTS:
        if other != metric and draw.random() < 0.3:
            slo[other] = draw.choice([0.5, 3.0]) * (getattr(known, other) or 1.0)
    return slo


def cells_of(models, rows, limits, engine=ENGINE):
    """A case of cells for all rows."""
    pool = CellPool()

    def column(name, values):
        kind = object if isinstance(values[0], str) else float
        return pool.input(f"${name}\0", np.array(values, dtype=kind))

    cells = {name: column(name, [row[name] for row in rows]) for name in CHOICES}
    slo = {key: column(f"slo_{key}", [each.get(key, INFINITE) for each in limits]) for key in OF_REQUESTS}
    tables = catalog(models, [rl.load_gpu(name) for name in GPUS], engine)
    return lookup_case(tables, CaseCells(cells, engine, 0.66, slo=slo))


def listed(cell, count):
    return np.broadcast_to(cell.value if isinstance(cell, Cell) else cell, count).tolist()


@pytest.fixture(scope="module")
def judged():
    """Cases with their limits, what Python says of them, and ranges and verdicts of cells."""
    draw, found = random.Random(42), []
    every = models_of_every_kind()
    for start in range(0, tiers.times(12, len(every)), 12):
        models = every[start : start + 12]
        rows = [{**drawn(draw, ["-"]), "model": model.short_name} for model in models for _ in range(24)]
        rows = [row for row in rows if predicted(row) is not None]
        limits = [limits_beside(draw, predicted(row), row) for row in rows]
        prediction = cells_of(models, rows, limits).prediction
        ends = {metric: range_of(prediction, metric) for metric in OF_REQUESTS}
        word, reason = words_on(prediction, OF_REQUESTS)
        shown = {
            f"{metric} {end}": listed(getattr(ends[metric], end), len(rows))
            for metric in ends
            for end in ends[metric]._fields
        }
        shown |= {"word": listed(word, len(rows)), "reason": listed(reason, len(rows))}
        for place, (row, slo) in enumerate(zip(rows, limits, strict=True)):
            found.append((row, slo, predicted(row, slo), {name: values[place] for name, values in shown.items()}))
    return found


@tiers.has_more_cases
def test_ranges_of_cells_are_those_of_python_and_the_hardware_limit_has_none(judged):
    compared = Counter()
    for row, _, known, shown in judged:
        for metric in OF_REQUESTS:
            if metric == "tpot" and known.tpot is None:
                continue
            ends = getattr(known, f"{metric}_interval")
            compared[ends is None] += 1
            if ends is None:
                assert (shown[f"{metric} low"], shown[f"{metric} high"]) == ("", ""), row
                assert shown[f"{metric} text"] == "none: a bound"
                continue
            for end, time in zip(("low", "high"), ends, strict=True):
                assert shown[f"{metric} {end}"] == pytest.approx(1000 * time, rel=1e-9), (row, metric)
            first, last = map(float, shown[f"{metric} text"].split(" to "))
            assert (first, last) == pytest.approx([1000 * time for time in ends], rel=6e-3, abs=0.006)
    assert min(compared.values()) >= tiers.times(30, 150)


@tiers.has_more_cases
def test_the_verdict_of_cells_and_its_reason_are_those_of_python_just_beside_every_figure(judged):
    words, reasons, gpus = Counter(), Counter(), Counter()
    for row, slo, known, shown in judged:
        expected = known.slo_verdict
        assert shown["word"] == expected.word, (row, slo, expected, shown)
        assert shown["reason"] == (expected.reason or ""), (row, slo, expected, shown)
        words[expected.word] += 1
        reasons[(expected.reason or "").partition(":")[0]] += 1
        gpus[known.basis] += 1
    assert len(judged) >= tiers.times(60, 300)
    assert all(words[word] >= tiers.times(3, 10) for word in WORDS), words
    assert {"calibrated", "inherited", "served", "generic", "ideal"} == set(gpus)
    assert len(reasons) >= tiers.times(4, 6), reasons


#: Of a profile that was fitted to runs of two deployments.
FITTED = """
fitted_on: [llama-3.1-8b fp8 on h100-sxm tp 4, gpt-oss-20b mxfp4 on h100-sxm]
scatter_ttft: 0.5
scatter_tpot: 0.25
"""


def test_ranges_are_narrower_where_the_engine_was_fitted_to_runs_of_this_very_deployment(tmp_path):
    (generic,) = (path for path in map(Path, engine_paths()) if path.stem == "generic")
    path = tmp_path / "own.yaml"
    path.write_text(generic.read_text().replace("name: generic", "name: own").replace("aliases: [default]", FITTED))
    start = {**drawn(random.Random(0), ["llama-3.1-8b"]), "quantization": "native", "kv_cache_dtype": "auto"}
    start |= {**dict.fromkeys(("tp", "pp", "ep", "dp"), 1), "gpu": "h100-sxm", "isl": 700, "osl": 80}
    start |= {"basis": "calibrated"}
    fitted = [{**start, "quantization": "fp8", "tp": 4}, {**start, "model": "gpt-oss-20b"}]
    others = [start, {**start, "quantization": "fp8"}, {**fitted[0], "gpu": "gb200-nvl72"}, {**fitted[1], "tp": 4}]
    rows, models = [*fitted, *others], [rl.load_model(name) for name in ("llama-3.1-8b", "gpt-oss-20b")]
    engine = cases.engine(str(path), 0.0)
    prediction = cells_of(models, rows, [{}] * len(rows), engine).prediction
    for metric in OF_REQUESTS:
        high, time = (
            listed(cell, len(rows)) for cell in (range_of(prediction, metric).high, getattr(prediction, metric))
        )
        for place, row in enumerate(rows):
            known = predicted(row, engine=str(path))
            assert high[place] == pytest.approx(1000 * getattr(known, f"{metric}_interval")[1], rel=1e-9), (row, metric)
            wide = predicted(row)
            is_narrower = high[place] / time[place] < 999 * getattr(wide, f"{metric}_interval")[1] / getattr(
                wide, metric
            )
            assert is_narrower == (place < len(fitted)), (row, metric)


def test_a_limit_that_does_not_apply_and_no_limit_at_all_are_said(judged):
    rows = [row for row, _, known, _ in judged if known.tpot is None][:3]
    models = [rl.load_model(name) for name in dict.fromkeys(row["model"] for row in rows)]
    for slo, word in (({"tpot": 0.01}, "does not apply"), ({}, NO_LIMIT)):
        case = cells_of(models, rows, [slo] * len(rows))
        shown, reason = words_on(case.prediction, OF_REQUESTS)
        assert set(listed(shown, len(rows))) == {word}
        known = predicted(rows[0], slo or None).slo_verdict
        assert set(listed(reason, len(rows))) == {"" if known is None else known.reason}
