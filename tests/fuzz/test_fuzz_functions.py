"""Any arguments of the functions about the catalog, files and plans are answered, or refused with a message."""

from fuzz.strategies import GPUS, MODELS, edited, named, odd_values, options, values
from fuzz.test_fuzz_arguments import QUESTIONS, answer_of
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl

#: Public functions about the catalog, files and plans -> their arguments.
OTHERS = {
    "models": ("family", "moe", "min_parameters", "max_parameters"), "gpus": ("vendor", "generation", "status"),
    "load_model": ("assume",), "load_gpu": ("set",), "load_workload": (), "workload_options": (), "workloads": (),
    "command_case": (), "load_case": (), "check_specs": (), "turning_points": (), "next_measurement": (), "day": (),
    "sheet": (), "page": (), "check": (), "check_plan": (), "calibrate_engine": (),
}  # fmt: skip
ABOUT_PLANS = ("turning_points", "next_measurement", "day")
_COMMANDS = (
    "vllm serve Qwen/Qwen3-8B --max-model-len 16k", "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 2",
    "trtllm-serve Qwen/Qwen3-8B --tp_size 2", "vllm bench serve --model Qwen/Qwen3-8B --random-input-len 1k",
)  # fmt: skip


_PATHS = st.sampled_from(("missing.json", "none/out.xlsx", "", ".", "/")) | odd_values
#: Of plans that further questions are asked of.
_AIMS = ("objective", "growth", "top", "isl", "osl", "prefix", "tp", "quantization", "gpu_price", "engine")


@st.composite
def other_questions(draw):
    """A public function about the catalog, a file or a plan, with arguments."""
    question = draw(st.sampled_from(sorted(OTHERS)))
    chosen = draw(options(OTHERS[question])) if OTHERS[question] else {}
    if question in ("models", "gpus", "workloads"):
        return question, (), chosen
    name = {
        "load_model": named(MODELS), "load_gpu": named(GPUS), "workload_options": values("workload"),
        "load_workload": values("workload"), "command_case": st.sampled_from(_COMMANDS).flatmap(edited) | odd_values,
    }.get(question, _PATHS)  # fmt: skip
    first = draw(name)
    if question in ("sheet", "page"):
        return question, (first, draw(named(MODELS)), draw(named(GPUS))), chosen
    if question == "check_plan":
        return question, (first, draw(_PATHS)), chosen
    if question in ABOUT_PLANS:
        asked = {"slo": draw(values("slo")), "concurrency": draw(values("concurrency")), **draw(options(_AIMS, 3))}
        rates = (draw(values("rate_by_hour")),) if question == "day" else ()
        return question, (draw(named(GPUS)), *rates), asked
    return question, (first,), chosen


@given(question=other_questions())
@settings(max_examples=60)
def test_any_arguments_of_the_other_functions_are_answered_or_refused(question):
    name, arguments, chosen = question
    if name in ABOUT_PLANS:
        plans = answer_of("plan", ("llama-3.1-8b", [arguments[0], "h100"]), chosen)
        if plans is None:
            return
        arguments, chosen = (plans.plans[0] if name == "day" else plans, *arguments[1:]), {}
    answer = answer_of(name, arguments, chosen)
    assert answer is None or repr(answer)


def test_every_public_function_is_drawn():
    functions = {name for name in rl.__all__ if name.islower() and callable(getattr(rl, name))}
    assert functions == QUESTIONS.keys() | OTHERS.keys()
