"""Odd arguments of the public functions: what stands for a number is one, all else is refused by name."""

import decimal
import enum
import fractions
import itertools
import pathlib

import numpy as np
import pytest
import tiers
from every_case import each

import roofline as rl
from roofline.questions.inputs.arguments import scalar, several
from roofline.specs.workload import Limits

CASE = ("llama-3.1-8b", "h100-sxm")
SLO = {"ttft": 0.3}

ODD = (
    *(None, "", float("nan"), float("inf"), -1, 0, 2.5, True, [], {}, (), object(), b"x", bytearray(b"x"), 1j),
    *(10**400, 10**5000, -1e308, "x" * 100_000, "a\0b", "\ud800", [[1, 2]], [None], [1, "a"], {1, 2}, {"a": 1}),
    *(np.bool_(True), np.str_("fp8"), np.array(2), np.array([]), np.array([[1, 2]]), np.array([None]), np.void(b"x")),
    *(np.ma.array([1, 2], mask=[False, True]), np.ma.masked, np.datetime64("2026-01-01"), np.timedelta64(3, "s")),
    *(decimal.Decimal("NaN"), decimal.Decimal("1e99999"), pathlib.Path("x.yaml"), int, len, Ellipsis, memoryview(b"a")),
)


def refused_or_answered(function, *arguments, **options):
    """Nothing but the package's own errors comes out."""
    try:
        function(*arguments, **options)
    except rl.RooflineError as error:
        assert str(error)


def test_numbers_of_numpy_and_the_standard_library_are_numbers_everywhere():
    class Degree(enum.IntEnum):
        TWO = 2

    plain = rl.predict(*CASE, tp=2, isl=2000, slo=SLO, network=0.01, allow_oversize=True, routing=0.5)
    for two in (np.int64(2), np.uint8(2), np.array(2), Degree.TWO, fractions.Fraction(4, 2), decimal.Decimal(2)):
        found = rl.predict(
            np.str_(CASE[0]),
            np.str_(CASE[1]),
            tp=two,
            isl=np.int32(1000) * two if isinstance(two, np.integer) else 2000,
            slo={np.str_("ttft"): np.float64(0.3)},
            network=np.array(0.01),
            allow_oversize=np.bool_(True),
            basis=np.str_("calibrated"),
            routing=np.float64(0.5),
        )
        assert found == plain
        assert type(found.deployment.plan.tp) is int
    assert rl.predict(*CASE, isl=decimal.Decimal(1000)).ttft == rl.predict(*CASE, isl=1000).ttft
    settings = {"max_num_batched_tokens": np.int64(700), "max_num_seqs": decimal.Decimal(5)}
    run = rl.predict(*CASE, concurrency=np.int64(8), num_prompts=np.float32(80.0), **settings)
    assert run == rl.predict(*CASE, concurrency=8, num_prompts=80, max_num_batched_tokens=700, max_num_seqs=5)
    share = np.float64(0.5)
    rate = rl.predict(
        *CASE, request_rate=fractions.Fraction(1, 2), gpu_memory_utilization=share, max_model_len=np.array(8000)
    )
    assert rate == rl.predict(*CASE, request_rate=0.5, gpu_memory_utilization=0.5, max_model_len=8000)
    factor = rl.calibrate_once(*CASE, {"ttft": np.float64(0.05), "isl": np.int64(1000)})
    assert factor == rl.calibrate_once(*CASE, {"ttft": 0.05, "isl": 1000})
    assert rl.solve(*CASE, np.str_("bandwidth"), tpot=np.float64(0.008)).value == pytest.approx(
        rl.solve(*CASE, "bandwidth", tpot=0.008).value
    )
    sized = rl.size(*CASE, slo={"ttft": np.float32(0.25)}, tp=np.int64(2), quantization=np.array(["fp8", "bf16"]))
    assert sized.plans[0].prediction.deployment.plan.tp == 2
    rows = rl.table(np.array([CASE[0]]), np.array([CASE[1]]), tp=np.array([1, 2]), isl=(n for n in (1000, 2000)))
    assert [(row["tp"], row["isl"]) for row in rows] == [(1, 1000), (1, 2000), (2, 1000), (2, 2000)]
    assert rl.models(min_parameters=np.float64(1e11), moe=np.bool_(True)) == rl.models(min_parameters=1e11, moe=True)


def test_a_scalar_is_a_plain_value_and_what_is_none_stays_as_it_is():
    gap = type("NAType", (), {"__bool__": lambda self: 1 / 0})()  # as pandas has it
    assert scalar(gap) is None
    assert [type(scalar(value)) for value in (np.float64(2), np.bool_(1), np.str_("a"))] == [float, bool, str]
    for value in (np.timedelta64(3, "s"), np.datetime64("2026-01-01"), 1j, b"x", [1], object):
        assert scalar(value) is value
    assert several("isl", range(3)) == several("isl", iter([0, 1, 2])) == several("isl", np.arange(3)) == [0, 1, 2]


@each("value, said", [
    ({1, 2}, "is an unordered set; use a list"),
    ([[1, 2]], r"contains a list, \[1, 2\]; use one flat list"),
    (np.array([[1, 2]]), r"contains a list, \[1, 2\]; use one flat list"),
    (np.ma.array([1, 2], mask=[False, True]), "has masked elements"),
    (itertools.repeat(1), "has more than 2000000 values; use fewer at a time"),
    ([], "must not be an empty list"),
])  # fmt: skip
def test_sequences_are_flat_ordered_and_of_known_length(value, said):
    with pytest.raises(rl.BadInput, match=f"isl {said}|isl = .* {said}"):
        rl.table(*CASE, isl=value)


def test_masked_lengths_are_refused_and_arrays_without_a_masked_element_are_not():
    with pytest.raises(rl.BadInput, match="isl has masked elements"):
        rl.predict(*CASE, isl=np.ma.array([100, 200], mask=[True, False]))
    assert rl.predict(*CASE, isl=np.ma.array([100, 200])) == rl.predict(*CASE, isl=[100, 200])


@pytest.mark.parametrize("limit", [60.1, 300, np.float64(300.0), 25_000])
def test_a_bare_limit_of_more_than_a_minute_is_taken_for_milliseconds(limit):
    for ask in (rl.predict, rl.size, rl.table, rl.quantize, rl.knee):
        with pytest.raises(
            rl.BadInput,
            match=rf"SLO ttft = .* is over a minute \(bare numbers are seconds\); write {limit / 1000:g} for .* ms",
        ):
            ask(*CASE, slo={"ttft": limit})


def test_a_limit_whose_unit_is_said_may_be_as_long_as_it_likes():
    assert rl.predict(*CASE, slo={"e2el": "120 s"}).slo == {"e2el": 120.0}
    assert rl.predict(*CASE, slo={"ttft": "300 ms"}).slo == pytest.approx({"ttft": 0.3})
    assert rl.predict(*CASE, slo={"e2el": 60}).slo == {"e2el": 60.0}
    long = rl.predict(*CASE, slo=Limits(e2el=120.0))
    assert rl.predict(*CASE, slo=long.slo) == long
    with pytest.raises(rl.BadInput, match=r"network = 80 must be a time in seconds, at most 60 s; write 0\.08 for"):
        rl.predict(*CASE, network=80)


def test_odd_arguments_of_one_case_are_refused_by_the_packages_own_errors():
    names = ("tp", "dp", "num_gpus", "quantization", "kv_cache_dtype", "compute", "routing", "basis", "engine")
    for value in ODD:
        for name in (*names, "isl", "prefix", "network", "measured", "slo", "allow_oversize", "specs"):
            refused_or_answered(rl.predict, *CASE, **{name: value})
        for name in ("max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len"):
            refused_or_answered(rl.predict, *CASE, **{name: value})
        for load in ({"concurrency": value}, {"request_rate": value}, {"concurrency": 4, "num_prompts": value}):
            refused_or_answered(rl.predict, *CASE, **load)
        refused_or_answered(rl.predict, value, "h100-sxm")
        refused_or_answered(rl.predict, "llama-3.1-8b", value)


@tiers.has_more_cases
def test_odd_arguments_of_the_other_questions_are_refused_by_the_packages_own_errors(tmp_path):
    answer = rl.predict(*CASE)
    for value in tiers.some(ODD, 5):
        for name in ("isl", "dp", "tp", "keys", "slo", "measured", "specs", "engine"):
            refused_or_answered(rl.table, *CASE, **{name: value})
        refused_or_answered(rl.table, value, "h100-sxm")
        for ask in (rl.sensitivity, rl.formula):
            if not isinstance(value, type(None)):
                refused_or_answered(ask, *CASE, of=value, isl=[1, 2])  # refused at the latest for its lengths
        for name in ("requests", "seed", "spread"):
            refused_or_answered(rl.simulate, *CASE, concurrency=2, **{"requests": 10, "osl": 2, name: value})
        refused_or_answered(rl.solve, *CASE, value, ttft=0.3, isl=[1, 2])
        refused_or_answered(rl.solve, *CASE, "bandwidth", ttft=value, isl=[1, 2])
        refused_or_answered(rl.compare, CASE[0], value)
        refused_or_answered(rl.quantize, *CASE, baseline=value, isl=[1, 2])
        refused_or_answered(rl.size, CASE[0], value, slo={"ttft": 1e-9})
        refused_or_answered(rl.size, *CASE, slo=value, isl=[1, 2])
        refused_or_answered(rl.sheet, value, *CASE, isl=[-1])
        for name in ("spare", "slo", "isl", "network"):
            refused_or_answered(rl.sheet, tmp_path / "a.xlsx", *CASE, **{"osl": [-1], name: value})
        for load in (rl.load_gpu, rl.load_model, rl.gpus, rl.models, rl.check_specs):
            if value is not None:
                refused_or_answered(load, value)
        kinds = {"vendor": rl.gpus, "family": rl.models, "moe": rl.models, "max_parameters": rl.models}
        for name, listing in kinds.items():
            if value is not None:
                refused_or_answered(listing, **{name: value})
        refused_or_answered(answer.to_dict, value)


@each("ask, said", [
    (lambda: rl.table(*CASE, dp=0), "dp = 0 must be between 1"),
    (lambda: rl.table(*CASE, isl=[[1, 2]]), r"isl = \[\[1, 2\]\] contains a list, \[1, 2\]; use one flat list"),
    (lambda: rl.sheet("a.xlsx", *CASE, slo="x"), "'x' is not a limit; write an SLO as ttft:300@p95"),
    (lambda: rl.sheet("a\0.xlsx", *CASE), "path = .* must be the path of a file"),
    (lambda: rl.sensitivity(*CASE, of=[5]), "unknown result 5; choose from"),
    (lambda: rl.predict(*CASE).to_dict(["x"]), "unknown key 'x'; choose from model, model_id, gpu, .*ttft_ms, tpot_ms"),
    (lambda: rl.predict(*CASE).to_dict(5), "keys = 5 must be a list of keys"),
    (lambda: rl.predict(*CASE, specs=5), "specs = 5 must be the path"),
    (lambda: rl.gpus(5), "specs = 5 must be the path"),
    (lambda: rl.predict(*CASE, basis=np.array(["ideal", "x"])), "basis = .* must be a single number or text"),
    (lambda: rl.models(moe="yes"), "moe = 'yes' must be True or False"),
])  # fmt: skip
def test_refusals_name_the_argument_and_what_it_may_be(ask, said):
    with pytest.raises(rl.RooflineError, match=said):
        ask()


def test_an_option_that_is_none_is_a_type_error_that_names_it():
    for ask in (rl.predict, rl.table, rl.quantize, rl.simulate):
        with pytest.raises(TypeError, match="isll"):
            ask(*CASE, isll=5)


def test_records_of_arrays_compare_element_by_element():
    first, again, other = (
        rl.predict(*CASE, isl=np.array([100.0, 2000.0]), osl=osl, slo={"tpot": 0.01}) for osl in (100, 100, 200)
    )
    assert first == again
    assert hash(first) == hash(again)
    assert first != other
    assert first != rl.predict(*CASE, isl=[100, 2000, 3000], osl=100)
    assert first != 5
    for part in ("workload", "memory", "prefill", "decode", "knees", "correction"):
        assert getattr(first, part) == getattr(again, part)
        assert (getattr(first, part) != getattr(again, part)) is False
    assert first.workload != other.workload
    assert first.prefill.kernels == again.prefill.kernels
    assert first.decode != other.decode
    one = rl.predict(*CASE)
    assert len({one, rl.predict(*CASE), rl.predict(*CASE, tp=2)}) == 2
    assert one.workload == rl.predict(*CASE).workload
    assert len({one.workload, rl.predict(*CASE).workload}) == 1


def test_an_option_of_another_question_is_refused_whatever_it_holds():
    for name in ("num_gpus", "measured", "allow_oversize"):
        with pytest.raises(rl.BadInput, match=f"plan takes no {name}"):
            rl.size(*CASE, slo={"ttft": 1.0}, **{name: np.array([[1, 2]])})


def test_a_huge_whole_number_is_refused_in_lists_of_loads_and_in_workbooks(tmp_path):
    with pytest.raises(rl.BadInput, match=r"batch = a huge number must be a number between 0 and 1e\+09"):
        rl.speculate("llama-3.1-8b", "h100", draft="ngram", acceptance=0.3, batch=10**400)
    with pytest.raises(rl.BadInput, match=r"prefix = a huge number must be a number between 0 and 1e\+09"):
        rl.sheet(tmp_path / "book.xlsx", ["llama-3.1-8b"], ["h100-sxm"], prefix=10**400)
