"""Answers of programs are those of the formulas: to the bit of floats, to rounding of arrays."""

import copy
import dataclasses
import functools
import pickle
import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from every_case import each

import roofline as rl
from roofline.physics import memory, passes, programs
from roofline.physics.passes import Pass, every_kernel, prefill_pass
from roofline.physics.plan import Deployment, Draft, ModelQuantization, Plan
from roofline.physics.programs import figures_of
from roofline.questions.inputs import deployment as deployed_room
from roofline.serving import knee, verdict
from roofline.serving.load import server
from roofline.specs.engine import Engine, KernelOverride, StartUp
from roofline.specs.gpu import Gpu, Link
from roofline.support import records

CASES = (
    ("llama-3.1-8b", "h100-sxm", {}),
    ("llama-3.1-70b", "b200", {"tp": 2, "quantization": "fp8"}),
    ("deepseek-v3", "h200-sxm", {"tp": 8}),
    ("deepseek-v3", "b200", {"tp": 1, "dp": 8, "ep": 8}),
    ("qwen3-next-80b-a3b", "h100-sxm", {"tp": 4}),
    ("gpt-oss-120b", "h100-sxm", {"tp": 2, "pp": 2}),
    ("gemma-3-27b", "a100-sxm-80gb", {"tp": 2}),
    ("nemotron-h-56b", "h100-sxm", {"tp": 4, "basis": "ideal"}),
    ("deepseek-v3", "h200-sxm", {"tp": 8, "draft": "mtp", "draft_tokens": 2, "acceptance": "0.8,0.6"}),
    ("llama-3.1-8b", "rtx-4090", {"engine": "vllm", "quantization": "int4"}),
    ("mixtral-8x7b", "h100-sxm", {"tp": 2, "lora": "8:16", "offload": "10GB"}),
    ("gpt-oss-120b", "rtx-5090", {"offload": "experts"}),
)
READ = passes._time, passes._bound_times, verdict._variance, verdict._generic_variance, knee._sides, server._part_times
MAKE = passes._prefill_kernels, passes._decode_kernels


def deployment(model, gpu, options):
    return rl.predict(model, gpu, allow_oversize=True, **options).deployment


def ask_often(read, make, one, numbers):
    """What a program answers, after as many questions as it takes, counts being cleared now and then."""
    for _ in range(2 * programs._FEW + 2):
        found = programs.recurring(make, one, numbers).by_program(read, Pass)
    return found


@each(("model", "gpu", "options"), CASES)
def test_a_program_of_floats_gives_what_the_formulas_give_to_the_bit(model, gpu, options):
    one, draw = deployment(model, gpu, options), random.Random(7)
    for make, read, _ in product(MAKE, READ, range(12)):
        drawn = draw.randint(1, 300), draw.choice((1, 17, 3000, 40_000)), draw.randint(1, 9000)
        numbers = [float(number) for number in drawn]
        found = ask_often(read, make, one, numbers)
        assert found is not None
        assert found == read(Pass(make(one, *numbers)))
    for make, numbers in ((memory._memory, (7.0, 3333.0)), (memory._largest_batch, (4321.0,))):
        plain = make(one, *numbers)
        for _ in range(programs._FEW + 2):
            assert figures_of(make, one, *numbers) == tuple(plain)
        assert callable(one.memo[programs._identity, make, None])


def test_gpus_that_share_a_program_get_their_own_figures():
    draw, of_deployment = random.Random(12), {memory._memory: 2, memory._largest_batch: 1, server._prompt_times: 2}
    names, seen = rl.gpus(), set()
    for model, tp in (("llama-3.1-8b", 1), ("llama-3.1-8b", 4), ("gpt-oss-120b", 8)):
        for name in names:
            options = {"tp": tp, "engine": draw.choice(("vllm", "trtllm", "sglang"))}
            try:
                one = deployment(model, name, options)
            except rl.RooflineError:  # more ranks than it links, or a format that it cannot multiply
                continue
            make, read = draw.choice(MAKE), draw.choice(READ)
            asked = [programs.Figures(make, read, Pass, 3)]
            asked += [
                programs.Figures(each, programs._identity, programs._identity, of_deployment[each])
                for each in of_deployment
            ]
            for figures in asked:
                numbers = [float(draw.randint(1, 9000)) for _ in range(figures.size)]
                found = programs.program_of(figures, one)(*numbers)
                assert repr(tuple(found)) == repr(tuple(figures.of(one, numbers))), (model, name, options, figures)
            seen.add((model, tp, name))
    assert len(seen) > 120


@each(("model", "gpu", "options"), CASES)
@each("size", [100, (1 << 14) + 1])
def test_a_program_of_arrays_gives_what_floats_give(model, gpu, options, size):
    draw = np.random.default_rng(3)
    batch, tokens = draw.integers(1, 300, size).astype(float), draw.integers(1, 40_000, size).astype(float)
    one = deployment(model, gpu, options)
    of_arrays = (batch, tokens, 700.0), (3.0, tokens, 1.0), (batch[:, None], tokens[:7], 5.0)
    for numbers, make in product(of_arrays, MAKE):
        times = Pass.of(make, one, *numbers).time
        assert times.shape == np.broadcast(*numbers).shape
        flat = [np.broadcast_to(number, times.shape).ravel() for number in numbers]
        for place in (0, 50, times.size - 1):
            at = Pass(make(one, *(float(values[place]) for values in flat))).time
            assert times.ravel()[place] == pytest.approx(at, rel=1e-12)
    assert any(callable(known) for known in one.memo.values())


def test_where_arithmetic_has_no_result_the_formulas_answer():
    one = deployment(*CASES[0])
    for _ in range(programs._FEW + 2):
        with pytest.raises(ZeroDivisionError):
            Pass.of(passes._decode_kernels, one, 1.0, 100.0, 0.0).time  # noqa: B018  asked for its error


def test_a_structure_that_hangs_on_its_numbers_has_no_program():
    one = deployment(*CASES[0])

    def halves(_, number):
        return (number / 2.0 if number > 1.0 else -1.0,)

    for _ in range(programs._FEW + 3):
        assert figures_of(halves, one, 4.0) == (2.0,)
        assert figures_of(halves, one, 1.0) == (-1.0,)
    assert one.memo[programs._identity, halves, None] is None


def test_figures_of_floats_are_read_once_and_those_of_arrays_are_not_kept():
    one, calls = deployment(*CASES[0]), []

    def read(passed):
        calls.append(passed)
        return passes._time(passed)

    for numbers, times in (((1.0, 100.0, 0.0), 1), ((np.array([1.0, 2.0]), 100.0, 0.0), 2)):
        calls.clear()
        asked = Pass.of(passes._prefill_kernels, one, *numbers)
        assert np.array_equal(asked.figures(read)[0], asked.figures(read)[0])
        assert calls == [asked] * times


def test_kernels_can_be_read_whatever_was_asked_before():
    one = deployment(*CASES[0])
    for _ in range(programs._FEW + 2):
        time = prefill_pass(one, 1.0, 1000.0).time
    asked = prefill_pass(one, 1.0, 1000.0)
    assert asked.time == time == sum(kernel.time for kernel in asked.kernels)
    assert asked == prefill_pass(one, 1.0, 1000.0) != prefill_pass(one, 1.0, 1001.0)
    assert hash(asked) == hash(prefill_pass(one, 1.0, 1000.0))
    assert {kernel.name for kernel in asked.kernels} <= {kernel.name for kernel in every_kernel(one)}


def test_copies_leave_programs_behind_and_replicas_share_them():
    one = deployment(*CASES[0])
    for _ in range(programs._FEW + 2):
        prefill_pass(one, 1.0, 1000.0).time  # noqa: B018  asked often
    assert one.memo
    for twin in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert twin == one
        assert twin.memo == {}
    several, wider = one.copies(3), one.at(Plan(tp=2))
    assert (several.memo is one.memo, several.replicas) == (True, 3)
    assert wider is one.at(Plan(tp=2))
    assert wider.memo is not one.memo
    assert (one.copies(2).at(Plan(tp=4)).replicas, one.on("ideal").basis) == (2, "ideal")


def test_a_case_is_deployed_once_but_for_files_of_ones_own(tmp_path):
    ask = functools.partial(rl.predict, "llama-3.1-8b", "h100-sxm")
    one = ask(isl=100)
    assert ask(isl=200).deployment is one.deployment
    assert ask(engine="vllm").deployment is not one.deployment
    assert ask(derate={"peak": 0.1}).deployment.gpu != one.deployment.gpu
    profile, shipped = tmp_path / "mine.yaml", Path(__file__).parents[2] / "engine_specs" / "vllm.yaml"
    times = []
    for request in ("4 ms", "104 ms"):
        profile.write_text(shipped.read_text().replace("request: 8.66 ms", f"request: {request}"))
        times.append(ask(engine=str(profile)).ttft)
    assert times[1] == pytest.approx(times[0] + 0.1)
    deployed_room._KNOWN.clear()
    assert ask(isl=100) == one


@pytest.mark.parametrize("name", ["network", "routing"])
def test_true_is_refused_whatever_number_was_asked_before(name):
    ask = functools.partial(rl.predict, "mixtral-8x7b", "h100-sxm", tp=8)
    ask(**{name: 1.0})
    with pytest.raises(rl.RooflineError, match=f"{name}.*True"):
        ask(**{name: True})


#: What no formula of physics computes with: names, prices and texts; tables of efficiencies are looked up by key.
UNREAD = {
    Gpu: (
        "aliases", "vendor", "memory_label", "power", "cache", "price", "sustained", "other_nodes", "status",
        "cautions", "is_unified", "electricity",
    ),
    KernelOverride: ("before", "note"),
    StartUp: ("before", "block", "in_flight", "even_groups", "full_windows", "full_chunks"),
    Engine: (
        "max_model_len", "sigma_ttft", "sigma_tpot", "sigma_loaded_ttft", "fitted_on", "scatter_ttft", "scatter_tpot",
        "runs", "versions", "year", "stated", "by_gpu",
    ),
}  # fmt: skip
#: What is handled by name: peaks and calibration are tables, a name is for messages, the rest is in `structure`.
HANDLED = {
    Gpu: ("name", "generation", "peaks", "calibration"),
    Engine: ("name",),
    Link: ("kind",),
    KernelOverride: ("generation",),
    Deployment: (
        "model", "gpu", "plan", "quantization", "basis", "routing_skew", "replicas", "engine", "draft", "prefix_cache",
        "spread", "adapters", "offload", "media",
    ),
    Plan: ("tp", "pp", "ep", "dp", "cp", "dcp"),
    ModelQuantization: (
        "sections", "kv_format", "kv_nbytes", "kv_key", "attention_peak", "sixteen_bit_peak", "notes"
    ),
    Draft: ("method", "acceptance", "model", "quantization", "joined"),
}  # fmt: skip


@each("record", sorted({*programs._PARAMETERS, *programs._STRUCTURE, *HANDLED}, key=lambda kind: kind.__name__))
def test_each_field_is_a_parameter_or_tells_structures_apart_or_is_not_read(record):
    tables = programs._PARAMETERS, programs._STRUCTURE, UNREAD, HANDLED
    placed = [name for table in tables for name in table.get(record, ())]
    names = getattr(record, "_fields", None) or tuple(field.name for field in dataclasses.fields(record))
    assert sorted(placed) == sorted(names)


class Unread:
    """A number that cannot be computed with."""

    def __bool__(self):
        raise AssertionError("read")

    __eq__ = __lt__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __bool__
    __hash__ = None


@each(("model", "gpu", "options"), CASES)
def test_formulas_do_not_read_what_a_structure_leaves_out(model, gpu, options):
    one = deployment(model, gpu, options)
    other = dataclasses.replace(one.gpu, **dict.fromkeys(UNREAD[Gpu], Unread()))
    engine = dataclasses.replace(one.engine, **dict.fromkeys(UNREAD[Engine], Unread()))
    blank = records.replace(one, gpu=other, engine=engine)
    for make in MAKE:
        assert repr(make(blank, 8.0, 500.0, 1000.0)) == repr(make(one, 8.0, 500.0, 1000.0))
    for make, numbers in ((memory._memory, (7.0, 3333.0)), (memory._largest_batch, (4321.0,))):
        assert tuple(make(blank, *numbers)) == tuple(make(one, *numbers))
