"""A closed-form LLM latency calculator: how fast will this model answer on this GPU, and why.

>>> import roofline as rl
>>> rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal").basis
'ideal'
"""

from __future__ import annotations

from roofline.api import check_specs, gpus, knee, load_gpu, load_model, models, predict, tpot, ttft
from roofline.catalog.records import Gpu, Model
from roofline.errors import (
    BadInput,
    BadSpec,
    DoesNotFit,
    RooflineError,
    UnknownName,
    UnsupportedPrecision,
)
from roofline.servers import calibrate_once, closed_loop
from roofline.serving.closed_loop import ClosedLoop
from roofline.serving.correction import Correction
from roofline.serving.knee import Knees
from roofline.serving.prediction import Prediction

__all__ = [
    "BadInput",
    "BadSpec",
    "ClosedLoop",
    "Correction",
    "DoesNotFit",
    "Gpu",
    "Knees",
    "Model",
    "Prediction",
    "RooflineError",
    "UnknownName",
    "UnsupportedPrecision",
    "calibrate_once",
    "check_specs",
    "closed_loop",
    "gpus",
    "knee",
    "load_gpu",
    "load_model",
    "models",
    "predict",
    "tpot",
    "ttft",
]
__version__ = "0.1.0"
