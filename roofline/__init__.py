"""A closed-form LLM latency calculator: how fast will this model answer on this GPU, and why.

>>> import roofline as rl
>>> rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal").basis
'ideal'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from roofline.api.catalog import check_specs, gpus, load_gpu, load_model, models
from roofline.api.predict import knee, predict, tpot, ttft
from roofline.errors import (
    BadInput,
    BadSpec,
    DoesNotFit,
    Overloaded,
    RooflineError,
    UnknownName,
    UnsupportedPrecision,
)
from roofline.serving.correction import Correction
from roofline.serving.knee import Knees
from roofline.serving.prediction import Prediction
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model

if TYPE_CHECKING:
    from roofline.analysis.sensitivity import Sensitivities, Sensitivity
    from roofline.analysis.solve import Solution
    from roofline.api.compare import compare, quantize
    from roofline.api.curve import curve
    from roofline.api.goodput import goodput
    from roofline.api.once import calibrate_once
    from roofline.api.simulate import simulate
    from roofline.api.size import size
    from roofline.api.table import table
    from roofline.api.why import formula, sensitivity, solve
    from roofline.api.workbook import sheet
    from roofline.api.workloads import load_workload, workload_options, workloads

__all__ = [
    "BadInput",
    "BadSpec",
    "Correction",
    "DoesNotFit",
    "Gpu",
    "Knees",
    "Model",
    "Overloaded",
    "Prediction",
    "RooflineError",
    "Sensitivities",
    "Sensitivity",
    "Solution",
    "UnknownName",
    "UnsupportedPrecision",
    "calibrate_once",
    "check_specs",
    "compare",
    "curve",
    "formula",
    "goodput",
    "gpus",
    "knee",
    "load_gpu",
    "load_model",
    "load_workload",
    "models",
    "predict",
    "quantize",
    "sensitivity",
    "sheet",
    "simulate",
    "size",
    "solve",
    "table",
    "tpot",
    "ttft",
    "workload_options",
    "workloads",
]
__version__ = "0.1.0"

#: Names that an answer from the shell does not need: their modules are imported when they are first asked for.
_LAZY = {
    "calibrate_once": "roofline.api.once",
    "Sensitivities": "roofline.analysis.sensitivity",
    "Sensitivity": "roofline.analysis.sensitivity",
    "Solution": "roofline.analysis.solve",
    "compare": "roofline.api.compare",
    "curve": "roofline.api.curve",
    "goodput": "roofline.api.goodput",
    "load_workload": "roofline.api.workloads",
    "workload_options": "roofline.api.workloads",
    "workloads": "roofline.api.workloads",
    "formula": "roofline.api.why",
    "quantize": "roofline.api.compare",
    "sensitivity": "roofline.api.why",
    "sheet": "roofline.api.workbook",
    "simulate": "roofline.api.simulate",
    "size": "roofline.api.size",
    "solve": "roofline.api.why",
    "table": "roofline.api.table",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
