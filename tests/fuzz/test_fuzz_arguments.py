"""Any arguments of the public functions are answered with numbers that JSON can hold, or refused with a message."""

import json
import math
import os
import tempfile
from pathlib import Path

import tiers
from fuzz.strategies import GPUS, MODELS, named, odd_values, options, values
from hypothesis import example, given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.questions.inputs.signatures import Case

_CASE = frozenset(Case.__optional_keys__) - {"specs"}
_LENGTHS = st.sampled_from(("isl", "osl", "prefix", "batch", "concurrency", "request_rate"))
#: Question -> further arguments of its own.
QUESTIONS = {
    "predict": (), "ttft": (), "tpot": (), "knee": (), "compare": (), "cost": ("api_price", "own", "headroom", "share"),
    "size": ("objective", "have"), "plan": ("objective", "spend", "have", "growth", "top", "disaggregate"),
    "goodput": ("share",), "curve": ("share", "against"), "budgets": ("values",), "quantize": ("baseline",),
    "sensitivity": (), "formula": (), "solve": ("ttft", "tpot", "e2el"), "prompt_cache": (), "speculate": (),
    "levers": ("share",), "disaggregate": ("kv_link", "encode", "layerwise"), "simulate": ("requests", "seed"),
    "table": (), "pareto": ("x", "y", "against"), "equal_service": ("limit", "claim"), "fits": ("enforce_eager",),
    "launch": ("every",), "dynamo": ("every",), "step_time": (), "calibrate_once": (),
}  # fmt: skip
#: Arguments without which a question has no answer -> the options that they are drawn as.
_NEEDED = {
    "size": ("slo",), "plan": ("slo",), "goodput": ("slo",), "equal_service": ("slo", "concurrency"),
    "speculate": ("draft", "acceptance", "slo"), "budgets": ("over",), "launch": ("to",),
}  # fmt: skip
_SEVERAL = frozenset(
    ("compare", "size", "plan", "goodput", "cost", "prompt_cache", "table", "pareto", "equal_service", "fits")
)
_UNKNOWNS = ("bandwidth", "peak", "batch", "isl", "prefix", "tp", "weights", "request_rate", "osl", "x")
_POOLS = ("b200:tp8", "h100:tp8:fp8x2", "2xh100", "h200")


@st.composite
def questions(draw):
    """A public function with arguments: one model, one or two GPUs, some options."""
    question = draw(st.sampled_from((*["predict"] * 6, *sorted(QUESTIONS))))
    chosen = draw(options((*_CASE, *QUESTIONS[question])))
    if question in ("predict", "table"):
        for name in draw(st.sets(_LENGTHS, max_size=2)):
            chosen[name] = draw(st.lists(values(name), max_size=3))
    model, gpu = draw(named(MODELS)), draw(named(GPUS))
    if question == "simulate":
        chosen.setdefault("requests", 20)
    for name in _NEEDED.get(question, ()):
        chosen.setdefault(name, draw(values(name)))
    if question == "step_time":
        chosen |= {"decode": draw(st.lists(values("isl"), max_size=4)), "prefill": draw(_PROMPTS | odd_values)}
    if question == "calibrate_once":
        chosen.pop("measured", None)
        return question, (model, gpu, draw(values("measured"))), chosen
    if question == "disaggregate":
        return question, (model, draw(named(_POOLS)), draw(named(_POOLS))), chosen
    if question == "solve":
        return question, (model, gpu, draw(st.sampled_from(_UNKNOWNS))), chosen
    return question, (model, [gpu, draw(st.sampled_from(GPUS))] if question in _SEVERAL else gpu), chosen


_PROMPTS = st.lists(st.tuples(values("isl"), values("prefix")), max_size=3)


def answer_of(name, arguments, chosen):
    """The answer of a public function, asked in an empty folder that may be written to; None where it refuses."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return getattr(rl, name)(*arguments, **chosen)
        except rl.RooflineError as error:
            assert str(error)
            return None
        finally:
            os.chdir(here)


def content(answer):
    """Everything that an answer holds for programs."""
    if isinstance(answer, (list, tuple)):
        return [content(each) for each in answer]
    for name in ("to_dict", "to_records", "to_rows"):
        if hasattr(answer, name):
            return getattr(answer, name)()
    return answer.rows if hasattr(answer, "rows") else answer


def check_numbers(prediction):
    """Times are positive; of many cases, those that cannot be are NaN."""
    for time in (prediction.ttft, prediction.tpot, prediction.e2el):
        if time is None:
            assert prediction.workload.osl == 1.0  # no token after the first
        elif isinstance(time, float):
            assert 0.0 <= time < math.inf
        else:
            assert all(math.isnan(one) or 0.0 <= one < math.inf for one in time.ravel())


@given(question=questions())
@example(question=("predict", (None, "h100-sxm"), {"assume": "llama"}))
@example(question=("disaggregate", ("llama-3.1-8b", "b200:tp8", "b200:tp8"), {"concurrency": 1}))
@example(question=("size", ("llama-3.1-8b", ["h100-sxm"]), {"num_prompts": 1, "slo": "ttft:1s@p95"}))
@example(question=("speculate", ("deepseek-v3", "b200"), {"osl": 1, "draft": "mtp", "acceptance": 0.8}))
@settings(max_examples=tiers.times(20, 120))
def test_any_arguments_are_answered_or_refused(question):
    name, arguments, chosen = question
    answer = answer_of(name, arguments, chosen)
    if answer is None:
        return
    if name == "predict":
        check_numbers(answer)
    if name not in ("ttft", "tpot", "knee", "step_time"):  # numbers, or arrays, themselves
        assert json.loads(json.dumps(content(answer), allow_nan=False)) is not None
    assert repr(answer).isprintable()
    assert str(answer)
