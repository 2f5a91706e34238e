"""A closed-form LLM latency calculator: how fast will this model answer on this GPU, and why.

>>> import roofline as rl
>>> rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal").basis
'ideal'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from roofline.comparisons import compare, quantize
    from roofline.evaluate.sensitivity import Sensitivities, Sensitivity
    from roofline.evaluate.solve import Solution
    from roofline.fleet import size
    from roofline.questions import formula, sensitivity, solve
    from roofline.sheets import sheet
    from roofline.tables import table

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
    "Sensitivities",
    "Sensitivity",
    "Solution",
    "UnknownName",
    "UnsupportedPrecision",
    "calibrate_once",
    "check_specs",
    "closed_loop",
    "compare",
    "formula",
    "gpus",
    "knee",
    "load_gpu",
    "load_model",
    "models",
    "predict",
    "quantize",
    "sensitivity",
    "sheet",
    "size",
    "solve",
    "table",
    "tpot",
    "ttft",
]
__version__ = "0.1.0"

#: Names that an answer from the shell does not need: their modules are imported when they are first asked for.
_LAZY = {
    "Sensitivities": "roofline.evaluate.sensitivity",
    "Sensitivity": "roofline.evaluate.sensitivity",
    "Solution": "roofline.evaluate.solve",
    "compare": "roofline.comparisons",
    "formula": "roofline.questions",
    "quantize": "roofline.comparisons",
    "sensitivity": "roofline.questions",
    "sheet": "roofline.sheets",
    "size": "roofline.fleet",
    "solve": "roofline.questions",
    "table": "roofline.tables",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
