"""Any result file of a benchmark tool is read or refused; what is read is finite, and is judged."""

import math
from dataclasses import asdict

import tiers
from fuzz.strategies import result_texts
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.measurements.results import results
from roofline.questions.check import check_readings

ANY = st.binary(max_size=40) | st.text('{}[]",:0123456789eE.+-# \n\rttft_ms', max_size=40).map(str.encode)
FILES = result_texts().map(lambda text: text.encode("utf-8", "surrogatepass"))


@given(data=st.one_of(FILES, FILES, FILES, ANY), statistic=st.sampled_from((None, None, "mean", "p99")))
@settings(max_examples=tiers.times(25, 200))
def test_any_result_is_read_and_judged_or_refused(data, statistic):
    try:
        reading = results(data, "result", statistic)
    except rl.BadInput as error:
        assert str(error).startswith("result")
        return
    assert all(str(fault).startswith("result") for fault in reading.faults)
    for measurement in reading.measurements:
        assert measurement.ttft is not None or measurement.tpot is not None
        assert all(time is None or time > 0.0 for time in (measurement.ttft, measurement.tpot, measurement.e2el))
        assert all(type(getattr(measurement, name)) in (int, type(None)) for name in ("tp", "pp", "ep", "dp"))
        numbers = [value for value in asdict(measurement).values() if isinstance(value, (int, float))]
        assert all(0.0 <= number < math.inf for number in numbers)
    few = reading._replace(measurements=reading.measurements[:2])
    checks, refusals = check_readings([few], {"gpu": "h100-sxm", "tp": 1, "model": "llama-3.1-8b"})
    assert all(isinstance(refusal, rl.RooflineError) and str(refusal) for refusal in refusals)
    for check in checks:
        shares = [
            check.mfu,
            check.mbu,
            *(share(metric) for metric in ("ttft", "tpot", "e2el") for share in (check.ratio, check.ideal_share)),
        ]
        assert all(share is None or 0.0 <= share < math.inf for share in shares)
        assert all(check.suspect_texts)
