"""A closed-form LLM latency calculator: how fast will this model answer on this GPU, and why.

>>> import roofline as rl
>>> rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal").basis
'ideal'
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from roofline.errors import (
    BadInput,
    BadSpec,
    DoesNotFit,
    Overloaded,
    RooflineError,
    UnknownName,
    UnsupportedPrecision,
)

if _TYPE_CHECKING:
    from roofline.analysis.gpus import Comparison
    from roofline.analysis.quantization import Quantization
    from roofline.analysis.sensitivity import Sensitivities, Sensitivity
    from roofline.analysis.solve import Solution
    from roofline.api.catalog import check_specs, gpus, load_gpu, load_model, models
    from roofline.api.compare import compare, quantize
    from roofline.api.curve import Curve, curve
    from roofline.api.goodput import GpuGoodput, goodput
    from roofline.api.inputs.options import Case
    from roofline.api.levers.cache import CacheTier, prompt_cache
    from roofline.api.levers.cost import GpuCost, cost
    from roofline.api.levers.disaggregate import disaggregate
    from roofline.api.levers.levers import levers
    from roofline.api.levers.pool_answer import Disaggregation
    from roofline.api.levers.pulled import Levers
    from roofline.api.levers.speculation import Speculation, speculate
    from roofline.api.once import calibrate_once
    from roofline.api.predict import knee, predict, tpot, ttft
    from roofline.api.simulate import Simulation, simulate
    from roofline.api.size import FleetSize, GpuSize, size
    from roofline.api.table import table
    from roofline.api.why import formula, sensitivity, solve
    from roofline.api.workbook import sheet
    from roofline.api.workloads import load_workload, workload_options, workloads
    from roofline.formulas.closed_form import Formula
    from roofline.serving.correction import Correction
    from roofline.serving.knee import Knees
    from roofline.serving.prediction import Prediction, Predictions
    from roofline.serving.row_types import Row
    from roofline.specs.gpu import Gpu
    from roofline.specs.model import Model
    from roofline.specs.workload import NamedWorkload

__all__ = [
    "BadInput",
    "BadSpec",
    "CacheTier",
    "Case",
    "Comparison",
    "Correction",
    "Curve",
    "Disaggregation",
    "DoesNotFit",
    "FleetSize",
    "Formula",
    "Gpu",
    "GpuCost",
    "GpuGoodput",
    "GpuSize",
    "Knees",
    "Levers",
    "Model",
    "NamedWorkload",
    "Overloaded",
    "Prediction",
    "Predictions",
    "Quantization",
    "RooflineError",
    "Row",
    "Sensitivities",
    "Sensitivity",
    "Simulation",
    "Solution",
    "Speculation",
    "UnknownName",
    "UnsupportedPrecision",
    "calibrate_once",
    "check_specs",
    "compare",
    "cost",
    "curve",
    "disaggregate",
    "formula",
    "goodput",
    "gpus",
    "knee",
    "levers",
    "load_gpu",
    "load_model",
    "load_workload",
    "models",
    "predict",
    "prompt_cache",
    "quantize",
    "sensitivity",
    "sheet",
    "simulate",
    "size",
    "solve",
    "speculate",
    "table",
    "tpot",
    "ttft",
    "workload_options",
    "workloads",
]
__version__ = "0.1.0"

#: Names that are imported when they are first asked for.
_LAZY = {
    "roofline.analysis.gpus": ("Comparison",),
    "roofline.analysis.quantization": ("Quantization",),
    "roofline.analysis.sensitivity": ("Sensitivities", "Sensitivity"),
    "roofline.analysis.solve": ("Solution",),
    "roofline.api.catalog": ("check_specs", "gpus", "load_gpu", "load_model", "models"),
    "roofline.api.compare": ("compare", "quantize"),
    "roofline.api.curve": ("Curve", "curve"),
    "roofline.api.goodput": ("GpuGoodput", "goodput"),
    "roofline.api.inputs.options": ("Case",),
    "roofline.api.levers.levers": ("levers",),
    "roofline.api.levers.pulled": ("Levers",),
    "roofline.api.levers.speculation": ("Speculation", "speculate"),
    "roofline.api.levers.cost": ("GpuCost", "cost"),
    "roofline.api.levers.disaggregate": ("disaggregate",),
    "roofline.api.levers.pool_answer": ("Disaggregation",),
    "roofline.api.levers.cache": ("CacheTier", "prompt_cache"),
    "roofline.api.once": ("calibrate_once",),
    "roofline.api.predict": ("knee", "predict", "tpot", "ttft"),
    "roofline.api.simulate": ("Simulation", "simulate"),
    "roofline.api.size": ("FleetSize", "GpuSize", "size"),
    "roofline.api.table": ("table",),
    "roofline.api.why": ("formula", "sensitivity", "solve"),
    "roofline.api.workbook": ("sheet",),
    "roofline.api.workloads": ("load_workload", "workload_options", "workloads"),
    "roofline.serving.correction": ("Correction",),
    "roofline.serving.knee": ("Knees",),
    "roofline.serving.prediction": ("Prediction", "Predictions"),
    "roofline.serving.row_types": ("Row",),
    "roofline.specs.gpu": ("Gpu",),
    "roofline.specs.model": ("Model",),
    "roofline.specs.workload": ("NamedWorkload",),
    "roofline.formulas.closed_form": ("Formula",),
}
_HOMES = {name: home for home, names in _LAZY.items() for name in names}


if not _TYPE_CHECKING:  # to a type checker, a name that is not above is an error

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})
