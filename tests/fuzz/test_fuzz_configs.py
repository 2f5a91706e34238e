"""Any config.json, of changed fields or damaged letters, becomes a valid model or is refused."""

import json
import tempfile
from pathlib import Path

import tiers
from fuzz.strategies import besides, configuration_texts
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.catalog.huggingface.files import file_document
from roofline.catalog.schema import ModelSpec
from roofline.physics.memory import parameters


@given(text=configuration_texts, beside=besides, assume=st.sampled_from((None, None, "llama", "x")))
@settings(max_examples=tiers.times(15, 80))
def test_any_configuration_is_a_model_or_is_refused(text, beside, assume):
    with tempfile.TemporaryDirectory() as folder:
        if beside is not None:
            (Path(folder) / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
        path = Path(folder) / "config.json"
        path.write_text(text, encoding="utf-8", newline="")
        try:
            ModelSpec.model_validate(file_document(str(path), assume=assume)[0])
            model = rl.load_model(str(path), assume=assume)
        except rl.RooflineError as error:
            assert str(error).startswith(folder) or not isinstance(error, rl.BadSpec)
            return
    assert parameters(model).total > 0
    try:
        prediction = rl.predict(model, "h100-sxm", isl=100, osl=10, allow_oversize=True)
    except rl.RooflineError as error:
        assert str(error)
        return
    json.dumps(prediction.to_dict(), allow_nan=False)
