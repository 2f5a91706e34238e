"""One base error, few children, and messages that say what was asked, what is wrong, and what to do."""

import pytest
from every_case import each

import roofline as rl
from roofline.questions.workers import Failed

CHILDREN = (
    rl.BadInput, rl.BadSpec, rl.DoesNotFit, rl.Overloaded, rl.UnknownName, rl.UnsupportedPrecision, Failed,
)  # fmt: skip

# (what is asked, the error, what its message must name: the asked, the wrong, the way out)
CASES = [
    (("llama-3.1-8b", "h100x", {}), rl.UnknownName,
     ("'h100x'", "unknown GPU", "did you mean h100-sxm", "roofline gpus")),
    (("lama", "h100-sxm", {}), rl.UnknownName, ("'lama'", "unknown model", "did you mean", "roofline models")),
    (("llama-3.1-8b", "h100-sxm", {"quantization": "nvfp4"}), rl.UnsupportedPrecision,
     ("nvfp4", "h100-sxm has no fp4", "`compute` bf16")),
    (("llama-3.1-70b", "h100-sxm", {"tp": 1}), rl.DoesNotFit, ("tp 1", "141.1 GB", "tp = 2")),
    (("llama-3.1-70b", "h100-sxm", {"tp": 3}), rl.BadInput, ("tp = 3", "64 heads", "choose from 1, 2, 4")),
    (("llama-3.1-8b", "h100-sxm", {"request_rate": 900}), rl.Overloaded,
     ("request_rate = 900", "answers at most", "lower it", "`num_gpus`")),
    (("llama-3.1-8b", "h100-sxm", {"concurrency": 4, "request_rate": 1}), rl.BadInput,
     ("concurrency and request_rate", "one load", "keep one")),
    (("llama-3.1-8b", "h100-sxm", {"isl": -5}), rl.BadInput, ("isl", "-5", "must be at least 1")),
    (("llama-3.1-8b", "h100-sxm", {"slo": {"tppt": 1.0}}), rl.UnknownName,
     ("'tppt'", "unknown SLO key", "choose from ttft, tpot, itl, e2el")),
    (("llama-3.1-8b", "h100-sxm", {"specs": "no-such-folder"}), rl.BadSpec, ("no-such-folder", "folder")),
]  # fmt: skip


def test_one_except_clause_catches_every_error_and_no_other():
    assert rl.RooflineError.__mro__[1:] == (Exception, BaseException, object)
    assert set(rl.RooflineError.__subclasses__()) == set(CHILDREN)
    for child in CHILDREN:
        assert issubclass(child, rl.RooflineError)
        assert child is not rl.RooflineError


@each(("asked", "error", "words"), CASES, ids=[" ".join(map(str, case[0][1:])) for case in CASES])
def test_a_message_names_what_was_asked_what_is_wrong_and_what_to_do_and_hides_no_cause(asked, error, words):
    model, gpu, options = asked
    with pytest.raises(error) as caught:
        rl.predict(model, gpu, **options)
    assert type(caught.value) is error
    message = str(caught.value)
    for word in words:
        assert word in message
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
