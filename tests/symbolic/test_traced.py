"""Numbers that carry derivatives: the same values as floats, and derivatives that differences confirm."""

import math

import pytest
from conftest import close, deployments, engines
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline import ops
from roofline.serving.answer import predict_deployment as predict
from roofline.serving.latency import Workload
from roofline.symbolic.case_trace import RESULTS, UNITS, CaseTrace
from roofline.symbolic.inputs import changed, inputs, with_inputs
from roofline.symbolic.traced import Trace, Traced, is_rational, replayed

positive = st.floats(0.1, 10.0)
lengths = st.builds(
    Workload,
    isl=st.floats(300.0, 9000.0),
    osl=st.floats(3.0, 500.0),
    batch=st.floats(1.5, 300.0),
    prefix=st.sampled_from((0.0, 40.5, 250.0)),
)

OPERATIONS = {
    "sum": lambda x, y: x + y + 2.0,
    "difference": lambda x, y: 5.0 - (x - y) - 1.0,
    "product": lambda x, y: 3.0 * x * y,
    "quotient": lambda x, y: x / y + 1.0 / x,
    "power": lambda x, y: x**3.0 + x**-0.5,
    "power of two inputs": lambda x, y: x**y,
    "exponential": lambda x, y: 0.3 ** (x / y),
    "negative": lambda x, y: -x + -y,
    "norm": lambda x, y: ops.norm(x, y, 3.0),
    "maximum": lambda x, y: ops.maximum(x, y) + ops.minimum(2.0 * x, y),
    "where": lambda x, y: ops.where(x > y, x * y, x + y),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@given(x=positive, y=positive)
def test_every_operation_has_the_value_of_floats_and_the_slope_of_a_central_difference(operation, x, y):
    assume(abs(x / y - 1.0) > 0.01 and abs(2.0 * x / y - 1.0) > 0.01)  # away from the kinks of a maximum
    trace = Trace()
    found = operation(trace.input("x", x), trace.input("y", y))
    assert found.value == operation(x, y)
    step = 1e-5
    for name, (dx, dy) in {"x": (x * step, 0.0), "y": (0.0, y * step)}.items():
        slope = (operation(x + dx, y + dy) - operation(x - dx, y - dy)) / (2.0 * (dx + dy))
        assert math.isclose(found.gradient.get(name, 0.0), slope, rel_tol=1e-6, abs_tol=1e-7)


def test_a_maximum_keeps_the_larger_side_and_records_the_other():
    trace = Trace()
    x, y = trace.input("x", 2.0), trace.input("y", 3.0)
    assert ops.maximum(x, y) is y
    assert ops.minimum(x, y) is x
    assert [(switch.left, switch.right) for switch in trace.switches] == [(x, y), (x, y)]
    assert not any(switch.is_tie for switch in trace.switches)
    ops.maximum(x, 2.0)
    assert trace.switches[-1].is_tie


def test_rounding_up_is_flat_between_whole_numbers_and_followed_along_them():
    trace = Trace()
    assert ops.ceil(trace.input("x", 2.5)).gradient == {"x": 0.0}
    assert ops.ceil(trace.input("x", 3.0)).gradient == {"x": 1.0}
    assert ops.floor(trace.input("x", 2.5)).value == 2.0


def test_numbers_that_change_nothing_leave_no_trace():
    x = Trace().input("x", 2.0)
    assert x + 0.0 is x
    assert x * 1.0 is x
    assert x / 1.0 is x
    assert x**1.0 is x
    assert 0.0 * x == 0.0
    assert not isinstance(0.0 * x, Traced)
    assert x / math.inf == 0.0
    assert (x**3.0) ** (1.0 / 3.0) is x


@given(x=positive, y=positive, again=positive)
def test_a_number_replayed_at_another_value_is_what_it_would_have_been(x, y, again):
    def formula(x, y):
        return (x * y + 2.0) / (x - 20.0) + (x + y) ** 0.5 - y ** (x / 10.0)

    trace = Trace()
    found = formula(trace.input("x", x), trace.input("y", y))
    assert close(replayed([found], {"x": again})[0], formula(again, y))
    assert replayed([found, 2.0], {}) == [found.value, 2.0]


def test_what_came_about_by_arithmetic_alone_is_told_from_powers():
    trace = Trace()
    x, y = trace.input("x", 2.0), trace.input("y", 3.0)
    assert is_rational(x / y + x * x, "x")
    assert is_rational(y**0.5 + x, "x")
    assert not is_rational((x + y) ** 0.5, "x")
    assert not is_rational(ops.ceil(x / 0.7) * y, "x")


#: Random deployments are large: shrinking one takes minutes and says little.
unshrunk = settings(phases=[Phase.explicit, Phase.generate])


@st.composite
def predictions(draw, basis=None):
    deployment = draw(deployments(basis=basis))
    object.__setattr__(deployment, "engine", draw(engines))
    return predict(deployment, draw(lengths), allow_oversize=True)


@unshrunk
@given(predictions())
def test_a_prediction_on_traced_numbers_is_the_prediction_in_floats(prediction):
    case = CaseTrace(prediction)
    for result in UNITS:
        assert close(case.number(result).value, getattr(prediction, result))


@unshrunk
@given(predictions())
def test_elasticities_over_rates_less_those_over_latencies_sum_to_minus_one(prediction):
    case = CaseTrace(prediction)
    for result in RESULTS:
        number = case.number(result)
        total = math.fsum(
            (1.0 if entry.kind == "rate" else -1.0) * number.gradient[name] * entry.value / number.value
            for name, entry in case.inputs.items()
            if name in number.gradient and entry.kind in ("rate", "latency")
        )
        assert math.isclose(total, 1.0 if result == "output_tok_s_gpu" else -1.0, abs_tol=1e-12)


@unshrunk
@given(predictions(), st.sampled_from(RESULTS))
def test_derivatives_are_those_of_central_differences_away_from_a_change_of_regime(prediction, result):
    case = CaseTrace(prediction)
    number, step = case.number(result), 1e-4
    workload, mixers = prediction.workload, [mixer for _, mixer in prediction.deployment.model.mixers]
    chunks = max((workload.isl + workload.osl) / (getattr(mixer, "chunk", None) or math.inf) for mixer in mixers)
    for name, slope in number.gradient.items():
        value = case.inputs[name].value
        change, _ = case.margin(result, name)
        # Steps finer than a regime: of tp, as a vocabulary is padded to whole columns; of lengths, over many chunks.
        is_stepped = name == "tp" or (name in ("isl", "osl", "prefix") and chunks > 100.0)
        if not value or is_stepped or (change is not None and abs(change) < 3.0 * step) or case.is_tie(result, name):
            continue
        high, low = (getattr(changed(prediction, {name: value * (1.0 + h)}), result) for h in (step, -step))
        assert math.isclose(slope * value / number.value, (high - low) / (2.0 * step * number.value), abs_tol=1e-6)


@unshrunk
@given(predictions())
def test_every_input_given_its_own_value_changes_nothing(prediction):
    again = with_inputs(prediction, lambda entry: entry.value)
    for result in UNITS:
        assert getattr(again, result) == getattr(prediction, result)
    for name, entry in inputs(prediction).items():
        assert entry.name == name
        assert name.isidentifier()
        assert entry.value > 0.0 or name == "prefix"


@unshrunk
@given(predictions(), st.data())
def test_a_changed_input_is_read_by_the_prediction(prediction, data):
    case = CaseTrace(prediction)
    number = case.number("e2el")
    name = data.draw(st.sampled_from(sorted(number.gradient)))
    value = case.inputs[name].value
    assume(value and abs(number.gradient[name] * value / number.value) > 1e-4)
    assume(name not in ("tp", "batch", "isl", "osl", "prefix"))
    faster = changed(prediction, {name: value * 1.01}).e2el < prediction.e2el
    assert faster == (number.gradient[name] < 0.0)


def test_experts_on_several_ranks_start_by_their_own_constant():
    for ep, start in ((1, "t0_moe_bf16"), (8, "t0_ep_moe_bf16")):
        case = CaseTrace(rl.predict("qwen3-30b-a3b", "h200", tp=8, ep=ep, batch=64))
        slopes = case.number("tpot").gradient
        assert {name for name, slope in slopes.items() if "t0" in name and "moe" in name and slope} == {start}
        assert slopes[start] == 48.0  # layers


def test_a_power_of_zero_with_a_traced_exponent_has_no_slope_in_it():
    # users of whom more decode than there are others: nobody idle, (1 - others / rest) ** rest is 0 ** rest
    found = rl.sensitivity("llama-3.1-8b", "h100:tp8:fp8", of="ttft", isl=4096, osl=500, concurrency=64)
    assert all(math.isfinite(row.elasticity) for row in found)
