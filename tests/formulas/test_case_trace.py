"""Predictions on traced numbers: the same values as floats, and derivatives that differences confirm."""

import math

from conftest import close, deployments, engines
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.formulas.case import RESULTS, UNITS, CaseTrace, changed, inputs, with_inputs
from roofline.serving.latency import Workload
from roofline.serving.prediction import predict_deployment as predict
from roofline.specs.load import Burst

lengths = st.builds(
    Workload,
    isl=st.floats(300.0, 9000.0),
    osl=st.floats(3.0, 500.0),
    load=st.builds(Burst, st.floats(1.5, 300.0)),
    prefix=st.sampled_from((0.0, 40.5, 250.0)),
)

#: Random deployments are large: shrinking one takes minutes and says little.
unshrunk = settings(phases=[Phase.explicit, Phase.generate])


@st.composite
def predictions(draw, basis=None):
    deployment = draw(deployments(basis=basis))
    object.__setattr__(deployment, "engine", draw(engines))
    return predict(deployment, draw(lengths), allow_oversize=True)


@unshrunk
@given(predictions())
def test_a_prediction_on_traced_numbers_is_that_in_floats_with_elasticities_that_add_up_and_margins(prediction):
    case = CaseTrace(prediction)
    for result in UNITS:
        assert close(case.number(result).value, getattr(prediction, result))
    again = with_inputs(prediction, lambda entry: entry.value)
    for result in UNITS:
        assert getattr(again, result) == getattr(prediction, result)
    for name, entry in inputs(prediction).items():
        assert entry.name == name
        assert name.isidentifier()
        assert entry.value > 0.0 or name == "prefix"
    case = CaseTrace(prediction)
    for result in RESULTS:
        number = case.number(result)
        total = math.fsum(
            (1.0 if case.inputs[name].kind == "rate" else -1.0) * slope * case.inputs[name].value / number.value
            for name, slope in case.gradient(result).items()
            if case.inputs[name].kind in ("rate", "latency")
        )
        assert math.isclose(total, 1.0 if result == "output_tok_s_gpu" else -1.0, abs_tol=1e-12)
    case = CaseTrace(prediction)
    for name in case.gradient("e2el"):
        ends = [case.margin(result, name)[0] for result in ("ttft", "tpot")]
        nearest = min((abs(end) for end in ends if end is not None), default=None)
        both = case.margin("e2el", name)[0]
        assert both is nearest is None or math.isclose(abs(both), nearest, rel_tol=1e-9)


@unshrunk
@given(predictions(), st.sampled_from(RESULTS))
def test_derivatives_are_those_of_central_differences_away_from_a_change_of_regime(prediction, result):
    case = CaseTrace(prediction)
    number, step = case.number(result), 1e-4
    workload, mixers = prediction.workload, [mixer for _, mixer in prediction.deployment.model.mixers]
    chunks = max((workload.isl + workload.osl) / (getattr(mixer, "chunk", None) or math.inf) for mixer in mixers)
    for name, slope in case.gradient(result).items():
        value = case.inputs[name].value
        change, _ = case.margin(result, name)
        # Steps finer than a regime: of tp, as a vocabulary is padded to whole columns; of lengths, over many chunks.
        is_stepped = name == "tp" or (name in ("isl", "osl", "prefix") and chunks > 100.0)
        if not value or is_stepped or (change is not None and abs(change) < 3.0 * step) or case.is_tie(result, name):
            continue
        high, low = (getattr(changed(prediction, {name: value * (1.0 + h)}), result) for h in (step, -step))
        assert math.isclose(slope * value / number.value, (high - low) / (2.0 * step * number.value), abs_tol=1e-6)


@unshrunk
@given(predictions(), st.data())
def test_a_changed_input_is_read_by_the_prediction(prediction, data):
    case = CaseTrace(prediction)
    slopes = case.gradient("e2el")
    name = data.draw(st.sampled_from(sorted(slopes)))
    value = case.inputs[name].value
    assume(value and abs(slopes[name] * value / prediction.e2el) > 1e-4)
    assume(name not in ("tp", "batch", "isl", "osl", "prefix"))
    faster = changed(prediction, {name: value * 1.01}).e2el < prediction.e2el
    assert faster == (slopes[name] < 0.0)


def test_the_start_of_spread_experts_and_a_power_of_zero_have_slopes():
    for ep, start in ((1, "t0_moe_bf16"), (8, "t0_ep_moe_bf16")):
        case = CaseTrace(rl.predict("qwen3-30b-a3b", "h200", tp=8, ep=ep, batch=64))
        slopes = case.gradient("tpot")
        assert {name for name, slope in slopes.items() if "t0" in name and "moe" in name and slope} == {start}
        assert slopes[start] == 48.0  # layers
    # users of whom more decode than there are others: nobody idle, (1 - others / rest) ** rest is 0 ** rest
    found = rl.sensitivity("llama-3.1-8b", "h100:tp8:fp8", of="ttft", isl=4096, osl=500, concurrency=64)
    assert all(math.isfinite(row.elasticity) for row in found)
