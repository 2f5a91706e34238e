"""Any profile of a serving engine is read or refused, and what is read predicts."""

import json
import math
import tempfile
from pathlib import Path

from fuzz.strategies import documents_of
from hypothesis import given, settings
from spec_texts import faults

import roofline as rl


@given(text=documents_of("engine"))
@settings(max_examples=60)
def test_any_engine_profile_predicts_or_is_refused(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.yaml"
        path.write_text(text, encoding="utf-8", newline="")
        try:
            alone = rl.predict("llama-3.1-8b", "h100-sxm", engine=str(path))
            loaded = rl.predict("llama-3.1-8b", "h100-sxm", engine=str(path), concurrency=4)
        except rl.BadSpec as error:
            assert faults(error)
            return
        except rl.RooflineError as error:
            assert str(error)
            return
    for prediction in (alone, loaded):
        assert all(0.0 <= time < math.inf for time in (prediction.ttft, prediction.tpot, prediction.e2el))
        json.dumps(prediction.to_dict(), allow_nan=False)
