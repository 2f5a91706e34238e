"""Any file of a GPU, model, calibration, engine or workload is read or refused, and what is read predicts."""

import json
import math
import tempfile
from pathlib import Path

import pytest
import tiers
from fuzz.strategies import SPECIFICATIONS, documents_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spec_texts import MODEL, faults

import roofline as rl
from roofline.catalog.checks import checked_document

#: Kind -> what loads the undamaged file of these tests by its name.
LOADED = {"gpu": lambda specs: rl.load_gpu("my-gpu", specs), "model": lambda specs: rl.load_model("tiny-1b", specs)}


@st.composite
def specifications(draw):
    """A kind of specification, and its text."""
    kind = draw(st.sampled_from(sorted(SPECIFICATIONS)))
    return kind, draw(documents_of(kind))


def predicted(kind, name, specs):
    """Predictions with what the file describes."""
    case = {"gpu": name if kind == "gpu" else "my-gpu", "isl": 100, "osl": 10, "specs": specs}
    if kind == "model":
        return [rl.predict(name, **{**case, "gpu": "h100-sxm"}, allow_oversize=True)]
    if kind == "workload":
        return [rl.predict("llama-3.1-8b", "h100-sxm", concurrency=4, **rl.workload_options(name, specs))]
    if kind == "engine":
        engine = {"gpu": "h100-sxm", "engine": f"{specs}/own.yaml"}
        return [rl.predict("llama-3.1-8b", **engine, **load) for load in ({}, {"concurrency": 4})]
    return [rl.predict("llama-3.1-8b", **case)]


@given(specification=specifications())
@example(("model", MODEL.replace("1.2 B", "1" + "0" * 400)))
@example(("model", MODEL.replace("fp8_block", "null")))
@settings(max_examples=tiers.times(25, 200))
def test_any_specification_is_read_or_refused_with_file_and_line(specification):
    kind, text = specification
    with tempfile.TemporaryDirectory() as specs:
        path = Path(specs) / ("hopper.yaml" if kind == "calibration" else "own.yaml")  # found by its generation
        path.write_text(text, encoding="utf-8", newline="")
        if kind == "calibration":
            (Path(specs) / "gpu.yaml").write_text(SPECIFICATIONS["gpu"][0], encoding="utf-8")
        listed = rl.check_specs(specs)
        assert not listed or faults("\n".join(listed))
        try:
            name = checked_document(str(path), kind)["name"]
        except rl.BadSpec as error:
            assert faults(error)
            assert all(line.startswith(f"{path}:") for line in str(error).split("\n"))
            assert listed or kind == "workload"
            if kind in LOADED:
                with pytest.raises((rl.BadSpec, rl.UnknownName)):  # the name itself may be what is damaged
                    LOADED[kind](specs)
            return
        try:
            predictions = predicted(kind, name, specs)
            times = [(each.ttft, each.tpot, each.e2el) for each in predictions]
        except rl.RooflineError as error:
            assert faults(error) if isinstance(error, rl.BadSpec) and kind == "engine" else str(error)
            return
    for prediction, three in zip(predictions, times, strict=True):
        assert all(time is None or 0.0 <= time < math.inf for time in three)  # none: an answer of one token
        gpu = prediction.deployment.gpu
        rates = (*gpu.peaks.values(), gpu.bandwidth, gpu.memory, gpu.link.bandwidth)
        assert all(0.0 < rate < math.inf for rate in rates)
        json.dumps(prediction.to_dict(), allow_nan=False)
