"""A closed-form LLM latency calculator: how fast will this model answer on this GPU, and why.

>>> import roofline as rl
>>> rl.predict("llama-3.1-8b", "h100-sxm", isl=2000, osl=300, basis="ideal").basis
'ideal'
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from roofline.support.errors import (
    BadInput,
    BadSpec,
    DoesNotFit,
    Overloaded,
    RooflineError,
    UnknownName,
    UnsupportedPrecision,
)

if _TYPE_CHECKING:
    from roofline import plot
    from roofline.catalog.find import load_gpu, load_model, load_workload
    from roofline.formulas.closed import Formula
    from roofline.formulas.sensitivity import Sensitivities, Sensitivity
    from roofline.questions.blocks import DataSet
    from roofline.questions.budgets import Budget, Budgets, budgets
    from roofline.questions.cache import CacheTier, prompt_cache
    from roofline.questions.catalog import check_specs, gpus, models
    from roofline.questions.check import Checks, MeasurementCheck, check
    from roofline.questions.commands import command_case
    from roofline.questions.compare import Quantization, compare, quantize
    from roofline.questions.cost import GpuCost, cost
    from roofline.questions.curve import Curve, curve
    from roofline.questions.day import Day, day
    from roofline.questions.disaggregate import Disaggregation, disaggregate
    from roofline.questions.dynamo import DynamoDeployment, dynamo
    from roofline.questions.equal_service import EqualService, equal_service
    from roofline.questions.fits import Fit, fits
    from roofline.questions.goodput import GpuGoodput, goodput
    from roofline.questions.inputs.signatures import Case
    from roofline.questions.launch import Launch, launch
    from roofline.questions.learn import EngineFit, calibrate_engine
    from roofline.questions.levers import Levers, levers
    from roofline.questions.listing import workload_options, workloads
    from roofline.questions.page import page
    from roofline.questions.pareto import Pareto, pareto
    from roofline.questions.plan import plan, size
    from roofline.questions.plan_check import PlanCheck, check_plan
    from roofline.questions.predict import calibrate_once, knee, predict, tpot, ttft
    from roofline.questions.ranking import GpuPlan, Plans
    from roofline.questions.saved import load_case
    from roofline.questions.sheet import sheet
    from roofline.questions.simulate import Simulation, simulate
    from roofline.questions.speculate import Speculation, speculate
    from roofline.questions.step import step_time
    from roofline.questions.table import Table, table
    from roofline.questions.turning_points import Measurement, TurningPoint, next_measurement, turning_points
    from roofline.questions.why import Solution, formula, sensitivity, solve
    from roofline.serving.answers import Answer, Answers
    from roofline.serving.comparison import Comparison
    from roofline.serving.knee import Knees
    from roofline.serving.latency import Correction
    from roofline.serving.prediction import Prediction, Predictions
    from roofline.serving.row_types import Row
    from roofline.specs.gpu import Gpu
    from roofline.specs.model import Model
    from roofline.specs.workload import NamedWorkload


__all__ = [
    "Answer",
    "Answers",
    "BadInput",
    "BadSpec",
    "Budget",
    "Budgets",
    "CacheTier",
    "Case",
    "Checks",
    "Comparison",
    "Correction",
    "Curve",
    "DataSet",
    "Day",
    "Disaggregation",
    "DoesNotFit",
    "DynamoDeployment",
    "EngineFit",
    "EqualService",
    "Fit",
    "Formula",
    "Gpu",
    "GpuCost",
    "GpuGoodput",
    "GpuPlan",
    "Knees",
    "Launch",
    "Levers",
    "Measurement",
    "MeasurementCheck",
    "Model",
    "NamedWorkload",
    "Overloaded",
    "Pareto",
    "PlanCheck",
    "Plans",
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
    "Table",
    "TurningPoint",
    "UnknownName",
    "UnsupportedPrecision",
    "budgets",
    "calibrate_engine",
    "calibrate_once",
    "check",
    "check_plan",
    "check_specs",
    "command_case",
    "compare",
    "cost",
    "curve",
    "day",
    "disaggregate",
    "dynamo",
    "equal_service",
    "fits",
    "formula",
    "goodput",
    "gpus",
    "knee",
    "launch",
    "levers",
    "load_case",
    "load_gpu",
    "load_model",
    "load_workload",
    "models",
    "next_measurement",
    "page",
    "pareto",
    "plan",
    "plot",
    "predict",
    "prompt_cache",
    "quantize",
    "sensitivity",
    "sheet",
    "simulate",
    "size",
    "solve",
    "speculate",
    "step_time",
    "table",
    "tpot",
    "ttft",
    "turning_points",
    "workload_options",
    "workloads",
]
__version__ = "0.1.0"

#: Names that are imported when they are first asked for.
_LAZY = {
    "roofline.formulas.closed": ("Formula",),
    "roofline.formulas.sensitivity": ("Sensitivities", "Sensitivity"),
    "roofline.questions.blocks": ("DataSet",),
    "roofline.questions.budgets": ("Budget", "Budgets", "budgets"),
    "roofline.questions.cache": ("CacheTier", "prompt_cache"),
    "roofline.questions.catalog": ("check_specs", "gpus", "load_gpu", "load_model", "models"),
    "roofline.questions.check": ("Checks", "MeasurementCheck", "check"),
    "roofline.questions.commands": ("command_case",),
    "roofline.questions.compare": ("Quantization", "compare", "quantize"),
    "roofline.questions.cost": ("GpuCost", "cost"),
    "roofline.questions.curve": ("Curve", "curve"),
    "roofline.questions.day": ("Day", "day"),
    "roofline.questions.disaggregate": ("Disaggregation", "disaggregate"),
    "roofline.questions.dynamo": ("DynamoDeployment", "dynamo"),
    "roofline.questions.equal_service": ("EqualService", "equal_service"),
    "roofline.questions.fits": ("Fit", "fits"),
    "roofline.questions.goodput": ("GpuGoodput", "goodput"),
    "roofline.questions.inputs.signatures": ("Case",),
    "roofline.questions.launch": ("Launch", "launch"),
    "roofline.questions.learn": ("EngineFit", "calibrate_engine"),
    "roofline.questions.levers": ("Levers", "levers"),
    "roofline.questions.listing": ("load_workload", "workload_options", "workloads"),
    "roofline.questions.page": ("page",),
    "roofline.questions.pareto": ("Pareto", "pareto"),
    "roofline.questions.plan": ("plan", "size"),
    "roofline.questions.plan_check": ("PlanCheck", "check_plan"),
    "roofline.plot": ("plot",),
    "roofline.questions.predict": ("calibrate_once", "knee", "predict", "tpot", "ttft"),
    "roofline.questions.ranking": ("GpuPlan", "Plans"),
    "roofline.questions.saved": ("load_case",),
    "roofline.questions.sheet": ("sheet",),
    "roofline.questions.simulate": ("Simulation", "simulate"),
    "roofline.questions.speculate": ("Speculation", "speculate"),
    "roofline.questions.step": ("step_time",),
    "roofline.questions.table": ("Table", "table"),
    "roofline.questions.turning_points": ("Measurement", "TurningPoint", "next_measurement", "turning_points"),
    "roofline.questions.why": ("Solution", "formula", "sensitivity", "solve"),
    "roofline.serving.answers": ("Answer", "Answers"),
    "roofline.serving.comparison": ("Comparison",),
    "roofline.serving.knee": ("Knees",),
    "roofline.serving.latency": ("Correction",),
    "roofline.serving.prediction": ("Prediction", "Predictions"),
    "roofline.serving.row_types": ("Row",),
    "roofline.specs.gpu": ("Gpu",),
    "roofline.specs.model": ("Model",),
    "roofline.specs.workload": ("NamedWorkload",),
}
_HOMES = {name: home for home, names in _LAZY.items() for name in names}


if not _TYPE_CHECKING:  # to a type checker, a name that is not above is an error

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(_HOMES[name])
        value = globals()[name] = home if name == "plot" else getattr(home, name)
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"})
