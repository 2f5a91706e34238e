"""Kinds of kernel: each says once what it is, and everything else says the same."""

import ast
import copy
import pickle
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from conftest import deploy
from every_case import each
from source_trees import tree
from spec_texts import ENGINE

import roofline as rl
from roofline.catalog.find import load_engine
from roofline.catalog.schema import CalibrationSpec
from roofline.physics.equation import Roof, calibrated_set
from roofline.physics.kernels import sent_bytes
from roofline.physics.layers.kinds import mixer_kinds
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.questions.calibrate import _BOUNDS, form
from roofline.specs.gpu import (
    ALL_REDUCE,
    ALL_TO_ALL,
    CALIBRATED,
    COLLECTIVES,
    ENCODER_ATTENTION,
    GEMM,
    HEAD,
    HOST,
    HOST_LINK,
    INDEXER,
    KINDS,
    MOE_COMBINE,
    NETWORK,
    P2P,
    ROUTER,
    SHAPES,
    UNTIMED,
    CollectiveEfficiency,
    Efficiency,
    the,
)

PLANS = (Plan(tp=2, pp=2), Plan(tp=2, ep=8, dp=4), Plan(tp=4, ep=2, dp=2))
EVERY = list(KINDS.values())
METHOD = Path(__file__).parents[2] / "docs" / "method" / "kernels.md"


def kernels(model, plan=PLANS[0], new=3000.0, engine="vllm"):
    """Kernels of a prompt and of a decode step."""
    deployment = deploy(model, "h100-sxm", plan, engine=engine)
    return [*prefill_pass(deployment, 4.0, new).kernels, *decode_pass(deployment, 4.0, 3000.0).kernels]


@pytest.fixture(scope="module")
def of_models():
    """Kinds of the kernels of every model of the catalog."""
    return {
        model: {
            kernel.kind
            for plan in PLANS
            for new in (300.0, 9000.0)
            for kernel in kernels(model, plan, new)
            if kernel.count
        }
        for model in rl.models()
    }


def test_passes_have_the_kinds_that_say_so_and_mixers_those_that_keep_something_for_a_sequence(of_models):
    assert set.union(*of_models.values()) == {kind for kind in EVERY if kind.is_in_passes} - {
        HOST_LINK,
        ENCODER_ATTENTION,
    }
    for model, found in of_models.items():
        own = mixer_kinds(mixer for _, mixer in rl.load_model(model).mixers)
        assert set(own) == {kind for kind in found if kind.is_per_sequence}, model


def test_collectives_cross_a_link_and_no_code_compares_a_kind_with_a_text():
    for kernel in kernels("deepseek-v3", PLANS[2]):
        assert isinstance(kernel.roof, Roof) is not kernel.kind.is_collective, kernel.name
        assert bool(kernel.work.link_bytes) is kernel.kind.is_collective, kernel.name
    for path in Path(rl.__file__).parent.rglob("*.py"):
        if "kernel.kind" not in path.read_text(encoding="utf-8"):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Compare) and "kernel.kind" in ast.unparse(node):
                texts = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                assert not texts & set(KINDS), f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("model", ["llama-3.1-8b", "deepseek-v3", "qwen3-next-80b-a3b-instruct"])
def test_the_head_is_what_does_not_grow_with_the_prompt_and_weights_are_read_by_what_bears_them(model):
    prompts = [prefill_pass(deploy(model, "h100-sxm", Plan(tp=2)), 4.0, new).kernels for new in (3000.0, 4000.0)]
    for one, other in zip(*prompts, strict=True):
        assert one.name == other.name
        assert (one.work == other.work) is (one.part == HEAD), one.name
    step = decode_pass(deploy(model, "h100-sxm", Plan(tp=8)), 1.0, 3000.0)
    read = dict.fromkeys((True, False), 0.0)
    for kernel in step.kernels:
        read[kernel.kind.bears_weights] += kernel.count * kernel.work.weight_bytes
        if kernel.kind.bears_weights:
            assert kernel.work.weight_bytes > 0.5 * kernel.work.nbytes, kernel.name
    assert read[False] < 0.01 * read[True]


def test_a_stand_in_is_timed_and_every_kind_but_the_host_is_or_has_one():
    for kind in [kind for kind in EVERY if kind.stand_in]:
        assert kind.stand_in in CALIBRATED
        assert not kind.columns
        assert (kind.terms, kind.order) == (kind.stand_in.terms, kind.stand_in.order)
        for dtype in ("bf16", "fp8"):
            sets = rl.load_gpu("h100-sxm").calibration.kernels
            assert calibrated_set(sets, kind, dtype) == calibrated_set(sets, kind.stand_in, dtype)
    assert [kind for kind in EVERY if not kind.columns and kind.stand_in is None] == [HOST, HOST_LINK]


@each("kind", [*CALIBRATED, *COLLECTIVES], ids=str)
def test_every_kind_that_can_be_timed_can_be_fitted(kind):
    start, fixed = form(kind)
    assert tuple(start) == kind.terms
    assert len(start) == len(set(start))
    for name, value in start.items():
        assert _BOUNDS[name][0] < value <= _BOUNDS[name][1], name
    record = CollectiveEfficiency if kind.is_collective else Efficiency
    assert {*start, *fixed} <= {entry.name for entry in fields(record)}
    assert fixed.get("p") == (None if kind.is_collective else kind.order)


@each("gpu", ["a100-sxm-80gb", "l40s", "h100-sxm", "b200", "gb300-nvl72", "rtx-pro-6000", "mi300x"])
def test_shipped_calibrations_have_constants_for_the_terms_of_each_kind_alone(gpu):
    calibration, plain = rl.load_gpu(gpu).calibration, Efficiency()
    constants = [entry.name for entry in fields(Efficiency) if entry.name not in ("p", "sigma", "is_measured")]
    for (name, dtype), efficiency in calibration.kernels.items():
        kind = KINDS[name].stand_in or KINDS[name]
        changed = {constant for constant in constants if getattr(efficiency, constant) != getattr(plain, constant)}
        assert changed <= {*kind.terms, *form(kind).fixed}, (name, dtype)
        assert efficiency.p == kind.order, (name, dtype)
    for name, link in calibration.collectives.items():
        assert name == "pcie" or link.eta_switch is None or "eta_switch" in KINDS[name].terms, name


def test_the_method_states_the_constants_the_norm_and_the_depth_of_each_kind():
    rows = re.findall(r"^\| `(\w+)` \| (t0[^|]*) \| ([\d.]+) \| ([^|]*)\|$", METHOD.read_text(encoding="utf-8"), re.M)
    assert [name for name, *_ in rows] == [kind.name for kind in CALIBRATED]
    for name, constants, order, depth in rows:
        kind = KINDS[name]
        named = Counter(re.findall(r"\b(?:t0(?:_ep)?|eps|eta_\w|kappa(?:_s)?)(?!\w)", constants))
        assert named == Counter([*kind.terms, *(set(form(kind).fixed) - {"p"})]), name
        assert float(order) == kind.order, name
        letter = "d_s" if "kappa_s" in kind.terms else "d"
        assert depth.split(", n = ")[0].strip() == (f"{letter} = {kind.depth}" if kind.depth else ""), name


def test_schema_shapes_and_coarser_parts_have_the_kinds_that_can_be_timed():
    properties = CalibrationSpec.model_json_schema()["properties"]
    assert properties["kernels"]["propertyNames"]["enum"] == [kind.name for kind in (*CALIBRATED, *UNTIMED)]
    assert properties["collectives"]["propertyNames"]["enum"] == [*(kind.name for kind in COLLECTIVES), "pcie"]
    assert set(SHAPES) == {kind.name for kind in (*CALIBRATED, *COLLECTIVES)}
    assert all(SHAPES[kind.name] == ("ranks", "nbytes") for kind in COLLECTIVES)
    groups = {kind.group for kind in EVERY if kind.group}
    assert groups == {"collectives", "attention"}
    assert {kind.label for kind in EVERY if kind.is_attention} == {INDEXER.group} == {"attention"}
    assert {kind for kind in EVERY if kind.group == ALL_REDUCE.group} == set(COLLECTIVES)
    assert {kind.label for kind in EVERY if kind.is_exchange} == {MOE_COMBINE.label} == {"expert exchange"}
    assert not ALL_TO_ALL.is_in_passes


@pytest.mark.parametrize("kind", EVERY, ids=str)
def test_an_engine_may_tune_what_has_constants_of_the_equation(kind, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(ENGINE.replace("kind: gemm, ", f"kind: {kind.name}, "), encoding="utf-8")
    if kind in (*CALIBRATED, *UNTIMED):
        assert load_engine(str(path)).tunings[0].kind == kind.name
    else:
        with pytest.raises(rl.BadSpec, match=r"tunings.0.kind: Input should be 'gemm'"):
            load_engine(str(path))


def test_every_kind_has_a_label_kept_in_copies_and_sends_by_its_kind():
    for kind in EVERY:
        assert kind.label
        assert not kind.label.startswith(("the ", "a "))
        assert the(kind.label) in (kind.label, f"the {kind.label}")
    for name in KINDS:
        kind = KINDS[name]
        assert kind.name == name == str(kind)
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert copy.deepcopy(kind) is copy.copy(kind) is kind
    for kind in COLLECTIVES:
        expected = {ALL_REDUCE: 12.0, P2P: 8.0}.get(kind, 6.0)  # of 8 bytes among four ranks
        assert sent_bytes(kind, 8.0, 4) == expected


def test_kernels_are_called_by_their_kind_also_in_another_process():
    prediction = rl.predict("deepseek-v3", "h100-sxm", tp=8, network=0.001, engine="vllm", allow_oversize=True)
    labels = {kernel.name: kernel.label for kernel in prediction.prefill.kernels}
    apart = {name: label for name, label in labels.items() if label in (HEAD, ROUTER, NETWORK)}
    assert apart == {"head": HEAD, "router": ROUTER, "network": NETWORK}
    assert labels["final norm"] == "element-wise passes"  # of the head, but no multiplication
    assert labels["q_b"] == GEMM.label
    assert labels["request"] == HOST.label
    prediction = rl.predict("llama-3.1-8b", "h100-sxm")
    again = pickle.loads(pickle.dumps(prediction))
    assert [kernel.kind for kernel in again.decode.kernels] == [kernel.kind for kernel in prediction.decode.kernels]
