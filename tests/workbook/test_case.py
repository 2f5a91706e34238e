"""A case of cells says what Python says: for every model of the catalog, on several GPUs, under random choices."""

import random
from dataclasses import replace

import numpy as np
import pytest
import tiers

import roofline as rl
from roofline.catalog import find
from roofline.outputs.workbook.case import CHOICES, CaseCells, lookup_case
from roofline.outputs.workbook.cells import Cell, CellPool
from roofline.outputs.workbook.tables import catalog, fullest_stages, stages_of_one_kind
from roofline.questions.inputs import case as cases

GPUS = ("h100-sxm", "gb200-nvl72", "l40s", "mi300x", "trainium2", "h100-nvl", "tpu-v5e")
#: Models that a sheet expresses.
MODELS = [
    name
    for name, model in zip(rl.models(), map(rl.load_model, rl.models()), strict=True)
    if model.streams == model.final_norms == 1 and model.ngrams is None
]
PRECISIONS = ["native", "native", "fp8", "fp8_block", "int4", "nvfp4", "mxfp4"]


def drawn(draw, models):
    return {
        "model": draw.choice(models), "gpu": draw.choice(GPUS), "quantization": draw.choice(PRECISIONS),
        "kv_cache_dtype": draw.choice(["as quantization", "auto", "fp8"]), "tp": draw.choice([1, 4, 8, 16]),
        "pp": draw.choice([1, 1, 3]), "ep": draw.choice([1, 8]), "dp": draw.choice([1, 1, 4]), "replicas": 1,
        "isl": draw.choice([1, 700, 9000]), "osl": draw.choice([1, 80]), "batch": draw.choice([1, 21]),
        "prefix": draw.choice([0, 60]), "basis": draw.choice(["calibrated", "ideal"]),
    }  # fmt: skip


def stored(name, **native):
    """A model of the catalog in formats of its own, as the headers of a checkpoint say them."""
    model = rl.load_model(name)
    return replace(model, short_name=f"my-{name}", native={**model.native, **native})


#: Models whose weights take so many bits each, in one format, in several, or as their name says.
OWN = [
    stored("llama-3.1-8b", linear="4.83bpw", attention="4.6bpw", embed="4.5bpw", head="6.5625bpw", norm="fp32"),
    stored("qwen3-30b-a3b", experts="nvfp4@4.61bpw", attention="bf16@15.2bpw", router="fp32"),
    stored("deepseek-v3", experts="int4_g32@4.7bpw", attention="fp8_block@8.4bpw", shared="8.5bpw"),
    replace(rl.load_model("llama-3.3-70b"), preset="fp8"),
]


def predicted(row, known):
    own = {name: row[name] for name in ("tp", "pp", "ep", "dp", "isl", "osl", "batch", "prefix", "basis")}
    quantization = None if row["quantization"] == "native" else row["quantization"]
    cache = None if row["kv_cache_dtype"] == "as quantization" else row["kv_cache_dtype"]
    try:
        return rl.predict(known[row["model"]], row["gpu"], quantization=quantization, kv_cache_dtype=cache, **own)
    except rl.RooflineError:
        return None


@tiers.has_more_cases
def test_cells_say_what_python_says_for_every_model_also_of_bits_per_weight():
    for start in tiers.some(range(0, len(MODELS), 17), 2):
        check_cells([rl.load_model(name) for name in MODELS[start : start + 17]], random.Random(start))
    check_cells(OWN, random.Random(1))


def check_cells(models, draw):
    known_models = {model.short_name: model for model in models}
    models = list(known_models)
    rows = [{**drawn(draw, models), "model": model} for model in models for _ in range(7)]
    pool = CellPool()
    cells = {
        name: pool.input(
            f"${name}\0",
            np.array([row[name] for row in rows], dtype=object if isinstance(rows[0][name], str) else float),
        )
        for name in CHOICES
    }
    engine = cases.engine("generic", 0.0)
    tables = catalog(list(known_models.values()), [rl.load_gpu(name) for name in GPUS], engine)
    found = lookup_case(tables, CaseCells(cells, engine, 0.66))
    answers = {
        "ttft": found.prediction.ttft, "step": found.prediction.decode.time, "used": found.prediction.memory.used,
        "tokens": found.prediction.output_tok_s, "reason": found.reason,
    }  # fmt: skip
    values = {
        name: np.broadcast_to(cell.value if isinstance(cell, Cell) else cell, len(rows)).tolist()
        for name, cell in answers.items()
    }
    answered = 0
    for place, row in enumerate(rows):
        known = predicted(row, known_models)
        assert bool(values["reason"][place]) == (known is None), (row, values["reason"][place])
        if known is None:
            continue
        answered += 1
        assert values["ttft"][place] == pytest.approx(known.ttft, rel=1e-12), row
        assert values["step"][place] == pytest.approx(known.decode.time, rel=1e-12), row
        assert values["used"][place] == pytest.approx(known.memory.used, rel=1e-12), row
        assert values["tokens"][place] == pytest.approx(known.output_tok_s, rel=1e-12), row
    assert answered >= len(models)


@pytest.mark.parametrize("start", [None, 0.0, 7e-5])
def test_cells_know_when_experts_on_several_ranks_start(start):
    gpu, engine = rl.load_gpu("h100-sxm"), cases.engine("generic", 0.0)
    sets = {
        (kind, dtype): replace(entry, t0_ep=start) if kind == "moe" else entry
        for (kind, dtype), entry in gpu.calibration.kernels.items()
    }
    gpu = replace(gpu, calibration=replace(gpu.calibration, kernels=sets))
    plan = {"tp": 8, "pp": 1, "dp": 1, "quantization": "native", "kv_cache_dtype": "auto", "basis": "calibrated"}
    row = {**drawn(random.Random(0), ["qwen3-30b-a3b"]), **plan, "gpu": "h100-sxm", "batch": 21}
    tables = catalog([rl.load_model("qwen3-30b-a3b")], [gpu], engine)
    for ep in (1, 8):
        case = {**row, "ep": ep}
        known = predicted({**case, "gpu": gpu}, {row["model"]: rl.load_model(row["model"])})
        (experts,) = (kernel.roof.efficiency for kernel in known.decode.kernels if kernel.name == "experts")
        stated = sets["moe", "bf16"].t0
        assert experts.t0 == (stated if ep == 1 or start is None else start)
        pool = CellPool()
        cells = {name: pool.input(f"${name}\0", np.array([case[name]])) for name in CHOICES}
        found = lookup_case(tables, CaseCells(cells, engine, 0.66))
        assert found.prediction.decode.time.value.item() == pytest.approx(known.decode.time, rel=1e-12)


def test_one_of_the_fullest_stages_is_the_fullest_whatever_a_layer_weighs():
    draw = random.Random(3)
    rows = [tuple(draw.randint(0, 4) for _ in range(4)) for _ in range(20)]
    kept = fullest_stages(rows)
    assert len(kept) < len(rows)
    for _ in range(50):
        weights = [draw.random() for _ in range(4)]
        totals = [[sum(n * w for n, w in zip(row, weights, strict=True)) for row in some] for some in (rows, kept)]
        assert max(totals[0]) == max(totals[1])


@pytest.mark.parametrize("pp", [1, 2, 3, 4, 16])
def test_stages_of_a_model_of_ones_own_are_those_of_a_model_of_one_kind_of_layer(pp):
    stages = rl.load_model("llama-3.2-3b").stages(pp)
    first, last = stages_of_one_kind([28, 28], pp)
    assert first == (stages[0].layers, stages[0].layers, 1, int(pp == 1))
    assert last == (stages[-1].layers, stages[-1].layers, int(pp == 1), 1)


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_memory_in_cells_is_that_of_the_engine_that_starts_also_where_it_pads_experts(engine):
    profile, model, gpu = cases.engine(engine, 0.0), rl.load_model("gpt-oss-20b"), rl.load_gpu("h100-sxm")
    tables = catalog([model], [find.run_by(gpu, profile)], profile)
    plan = {"pp": 1, "ep": 1, "dp": 1, "kv_cache_dtype": "as quantization", "basis": "calibrated", "gpu": "h100-sxm"}
    for tp, quantization in ((1, "native"), (2, "native"), (8, "native"), (2, "bf16")):
        case = {**drawn(random.Random(0), ["gpt-oss-20b"]), **plan, "tp": tp, "quantization": quantization, "isl": 700}
        pool = CellPool()
        cells = {name: pool.input(f"${name}\0", case[name]) for name in CHOICES}
        found = lookup_case(tables, CaseCells(cells, replace(profile, tunings=()), 0.66))
        stated = None if quantization == "native" else quantization
        asked = {name: case[name] for name in ("isl", "osl", "batch", "prefix")}
        known = rl.predict("gpt-oss-20b", "h100-sxm", engine=engine, tp=tp, quantization=stated, **asked)
        assert found.prediction.memory.used.value == pytest.approx(known.memory.used, rel=1e-12), case
