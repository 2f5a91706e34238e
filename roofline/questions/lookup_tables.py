"""Look-up tables of a model that a server must have kept outside the GPU's memory."""

from __future__ import annotations

from roofline.numbers.quantity import GIGA
from roofline.physics.memory import ngram_table_bytes
from roofline.serving.prediction import Prediction
from roofline.specs.model import Model
from roofline.support.records import replace


def model_beside_tables(prediction: Prediction) -> tuple[Model, str] | None:
    """The model with its n-gram tables in host memory, and a note; None where they fit or would not help.

    They are read by look-up, so that engines can leave them there (transformers' Qwen4Exp, vLLM's n-gram offload).
    What a token looks up is still counted.
    """
    deployment, memory = prediction.deployment, prediction.memory
    model = deployment.model
    if model.ngrams is None or memory.weights <= memory.usable:
        return None
    embed_nbytes = deployment.quantization.sections["embed"].weight_nbytes
    nbytes = float(ngram_table_bytes(model, deployment.plan.tp, embed_nbytes))
    if memory.weights - nbytes > memory.usable:
        return None
    note = f"the tables of n-grams, {nbytes / GIGA:.0f} GB, do not fit: taken to be in host memory"
    return replace(model, ngrams=replace(model.ngrams, rows=1)), note
