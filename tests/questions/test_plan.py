"""The fewest GPUs that meet an SLO: what is found is what trying every plan finds, and how the shell shows it."""

import itertools
from dataclasses import replace

import pytest
from cli.asking import answered, ask, noted, once, rows, shown, strict_json
from cli.asking import row as shell_row
from conftest import SAMPLE_MODELS
from every_case import each

import roofline as rl
from roofline.physics.plan import Plan
from roofline.questions.plan import size
from roofline.questions.ranking import GPU_PLAN_KEYS
from roofline.serving.fewest import MOST_RANKS, Degrees, possible_plans
from roofline.serving.shown import ROW_KEYS

CASE = {"isl": 2000, "osl": 300}
SLO = {"ttft": 0.3, "tpot": 0.025}


def one(model, gpu, **options):
    (found,) = size(model, gpu, **{"slo": SLO, **CASE, **options}).plans
    return found


def plan_of(found):
    plan = found.prediction.deployment.plan
    return {"tp": plan.tp, "pp": plan.pp, "ep": plan.ep, "dp": plan.dp}


def shares(prediction, slo):
    return [(getattr(prediction, key) or 0.0) / limit for key, limit in slo.items()]


def every_plan(model, gpu, slo, most, data, experts, **options):
    """All plans that the API predicts at all, by brute force: GPUs, sum and largest of the shares."""
    tried = []
    for tp, ep, dp in itertools.product(range(1, most + 1), experts, data):
        if tp * dp > most:
            continue
        try:
            prediction = rl.predict(model, gpu, tp=tp, ep=ep, dp=dp, **CASE, **options)
        except (rl.BadInput, rl.DoesNotFit):
            continue
        used = shares(prediction, slo)
        tried.append((prediction.deployment.num_gpus, sum(used), max(used)))
    return tried


# --- the search against brute force --------------------------------------------------------------


@pytest.mark.parametrize("model, gpu, batch, slo", [
    ("llama-3.1-70b", "h100-sxm", 1, SLO),
    ("llama-3.1-70b", "a100-sxm-80gb", 4, {"tpot": 0.03}),
    ("gpt-oss-120b", "h100-sxm", 8, {"ttft": 0.3, "tpot": 0.01}),
    ("gpt-oss-120b", "b200", 64, SLO),
    ("mixtral-8x7b", "h200-sxm", 16, {"e2el": 4.0}),
])  # fmt: skip
def test_the_plan_found_is_the_best_of_all_with_the_fewest_gpus_that_meet(model, gpu, batch, slo):
    is_moe = rl.load_model(model).is_moe
    powers = (1, 2, 4, 8) if is_moe else (1,)
    meeting = [
        (count, total)
        for count, total, worst in every_plan(
            model, gpu, slo, 8, [dp for dp in powers if dp <= batch], powers, batch=batch
        )
        if worst <= 1.0
    ]
    fewest, least = min(meeting)
    found = one(model, gpu, slo=slo, batch=batch)
    assert found.prediction.deployment.num_gpus == fewest
    assert sum(shares(found.prediction, slo)) == pytest.approx(least, rel=1e-12)
    again = rl.predict(model, gpu, **plan_of(found), **CASE, batch=batch)
    assert max(shares(again, slo)) <= 1.0


@pytest.mark.parametrize("model, gpu, batch, slo", [
    ("llama-3.1-70b", "l40s", 1, SLO),
    ("gpt-oss-120b", "h100-sxm", 64, SLO),
    ("gpt-oss-120b", "b200", 4, {"ttft": 0.03}),
])  # fmt: skip
def test_where_none_meets_the_nearest_plan_of_all_is_named(model, gpu, batch, slo):
    powers = (1, 2, 4, 8) if rl.load_model(model).is_moe else (1,)
    tried = every_plan(model, gpu, slo, 8, [dp for dp in powers if dp <= batch], powers, batch=batch)
    least = min(worst for _, _, worst in tried)
    assert least > 1.0
    found = one(model, gpu, slo=slo, batch=batch)
    assert found.prediction is None
    assert max(shares(found.nearest, slo)) == pytest.approx(least, rel=1e-12)
    assert f"tp {found.nearest.deployment.plan.tp}" in found.reason


def test_several_precisions_compete_for_the_fewest_gpus():
    wide = one("llama-3.1-70b", "h100-sxm", quantization="bf16")
    narrow = one("llama-3.1-70b", "h100-sxm", quantization="fp8")
    both = one("llama-3.1-70b", "h100-sxm", quantization=["bf16", "fp8"])
    assert narrow.prediction.deployment.num_gpus < wide.prediction.deployment.num_gpus
    assert (both.quantization, both.prediction) == ("fp8", narrow.prediction)
    assert both.to_dict()["weight_dtype"] == "fp8"


def test_with_as_many_gpus_the_faster_precision_wins():
    loose = {"ttft": 10.0, "tpot": 10.0}
    found = {
        preset: one("llama-3.1-8b", "h100-sxm", slo=loose, quantization=preset, batch=64) for preset in ("bf16", "fp8")
    }
    assert {answer.prediction.deployment.num_gpus for answer in found.values()} == {1}
    faster = min(found, key=lambda preset: sum(shares(found[preset].prediction, loose)))
    assert faster == "fp8"
    assert one("llama-3.1-8b", "h100-sxm", slo=loose, quantization=("bf16", "fp8"), batch=64).quantization == faster


def test_nothing_is_quantised_without_being_asked():
    found = one("llama-3.1-70b", "h100-sxm")
    assert found.quantization is None
    assert found.to_dict()["weight_dtype"] == "bf16"


def test_a_precision_that_a_gpu_lacks_is_said_beside_the_one_it_has():
    found = one("llama-3.1-70b", "a100-sxm-80gb", quantization=("bf16", "fp8"))
    assert found.quantization == "bf16"
    assert any(text.startswith("UnsupportedPrecision") and "fp8" in text for text in found.warnings)


# --- degrees that are given ----------------------------------------------------------------------


def test_degrees_that_are_given_are_kept_and_the_others_searched():
    free = one("gpt-oss-120b", "h100-sxm", batch=16)
    fixed = one("gpt-oss-120b", "h100-sxm", batch=16, dp=2)
    assert plan_of(fixed)["dp"] == 2
    assert plan_of(free)["dp"] != 2 or plan_of(free) == plan_of(fixed)
    assert one("gpt-oss-120b", "h100-sxm", tp=4, ep=2, dp=1).prediction.deployment.plan == Plan(4, 1, 2, 1)
    assert one("llama-3.1-70b", "h100-sxm", tp=8).prediction.deployment.num_gpus == 8


def test_stages_multiply_the_gpus_and_may_leave_the_domain():
    found = one("llama-3.1-70b", "h100-sxm", pp=2)
    assert plan_of(found)["pp"] == 2
    assert found.prediction.deployment.num_gpus == 2 * plan_of(found)["tp"]


def test_plans_of_dense_models_share_out_nothing_but_tensors():
    plans = possible_plans(rl.load_model("llama-3.1-70b"), 8, 64.0, Degrees())
    assert plans == [Plan(tp) for tp in (1, 2, 4, 8)]


def test_plans_of_experts_are_all_that_two_sequences_can_use_of_four_gpus():
    plans = possible_plans(rl.load_model("gpt-oss-120b"), 4, 2.0, Degrees())
    degrees = {(1, 1): (1,), (1, 2): (1, 2), (2, 1): (1, 2), (2, 2): (1, 2, 4), (4, 1): (1, 2, 4)}
    assert set(plans) == {Plan(tp, 1, ep, dp) for (tp, dp), eps in degrees.items() for ep in eps}


@each("model", ["gpt-oss-120b", "deepseek-r1", "mixtral-8x7b"])
@each(("domain", "batch"), [(8, 1.0), (8, 3.0), (72, 64.0), (100_000, 2000.0)])
def test_plans_of_experts_are_possible_sorted_and_within_domain_and_batch(model, domain, batch):
    record = rl.load_model(model)
    plans = possible_plans(record, domain, batch, Degrees())
    counts = [plan.num_gpus for plan in plans]
    assert counts == sorted(counts)
    assert len(set(plans)) == len(plans)
    assert max(counts) <= min(domain, MOST_RANKS)
    assert all(plan.dp <= batch and plan.expert_ranks % plan.ep == 0 for plan in plans)
    experts = next(ffn.experts for _, ffn in record.ffns if hasattr(ffn, "experts"))
    assert all(experts % plan.ep == 0 for plan in plans)
    assert {plan.ep for plan in plans} > {1}


def test_what_needs_more_gpus_than_lie_together_is_said():
    found = one("gpt-oss-120b", "h100-sxm", ep=16)
    assert found.reason == "misses: no plan with ep 16 fits the 8-GPU nvlink4 domain"
    assert found.to_dict()["fits"] is None


# --- limits --------------------------------------------------------------------------------------


@each("model", SAMPLE_MODELS)
def test_no_plan_is_faster_than_its_share_of_light_speed_on_one_gpu(model):
    record = rl.load_model(model)
    for gpu, batch in (("h100-sxm", 1), ("gb200-nvl72", 64)):
        case = {**CASE, "batch": batch, "basis": "ideal", "allow_oversize": True}
        alone = rl.predict(record, gpu, tp=1, **case)
        plans = possible_plans(record, rl.load_gpu(gpu).link.domain, float(batch), Degrees())
        for plan in plans[:: max(len(plans) // 4, 1)]:
            other = rl.predict(record, gpu, tp=plan.tp, ep=plan.ep, dp=plan.dp, **case)
            for time in ("ttft", "tpot", "e2el"):
                assert getattr(other, time) >= getattr(alone, time) / plan.num_gpus * (1.0 - 1e-9), (plan, time)


def test_an_slo_below_light_speed_is_called_so_on_every_gpu():
    found = size("gpt-oss-120b", ("h100-sxm", "b200"), slo={"ttft": 0.001}, **CASE)
    assert [answer.meets for answer in found.plans] == [False, False]
    assert all(answer.reason.startswith("misses at the hardware limit: TTFT >= ") for answer in found.plans)
    assert any("can meet the SLO, even at the hardware limit" in note for note in found.notes)
    assert found.cheapest is None


def test_an_slo_that_light_would_meet_is_not_called_impossible_at_light_speed():
    found = size("llama-3.1-70b", "l40s", slo=SLO, **CASE)
    assert found.plans[0].reason.startswith("misses: TTFT ")
    assert " > 300 ms" in found.plans[0].reason
    assert not any("hardware limit" in note for note in found.notes)


def test_a_plan_below_light_speed_is_named_where_it_still_comes_nearest():
    case = {**CASE, "engine": "none"}
    light = rl.ttft("gemma-3-1b", "l40s", tp=1, basis="ideal", **case)
    (found,) = size("gemma-3-1b", "l40s", slo={"ttft": 0.99 * light}, **case).plans
    times = [rl.ttft("gemma-3-1b", "l40s", tp=tp, **case) for tp in (1, 2, 4)]
    assert min(times) == times[0]  # collectives over PCIe cost more than they save
    assert found.nearest.ttft == times[0]
    assert found.reason.endswith("at best (tp 1)")


def test_a_limit_missed_by_a_hair_shows_the_digits_that_tell():
    time = rl.ttft("llama-3.1-8b", "gh200-96gb-single", **CASE)
    found = one("llama-3.1-8b", "gh200-96gb-single", slo={"ttft": time * (1.0 - 1e-4)})
    reached, _, limit = found.reason.removeprefix("cannot: TTFT ").partition(" against ")
    assert reached != limit.partition(" at best")[0]
    assert one("llama-3.1-8b", "gh200-96gb-single", slo={"ttft": time}).meets


def test_what_does_not_fit_says_how_much_is_missing_and_what_would():
    found = one("deepseek-r1", "h100-sxm")
    assert found.reason.startswith("does not fit: 9")
    assert (found.to_dict()["fits"], found.meets, found.nearest) == (False, False, None)
    assert any(text.startswith("DoesNotFit: deepseek-r1 does not fit h100-sxm") for text in found.warnings)


def test_a_gpu_without_the_format_is_unsupported():
    found = one("llama-3.1-70b", "a100-sxm-80gb", quantization="fp8")
    assert found.reason.startswith("unsupported: a100-sxm-80gb has no fp8 tensor cores")


def test_a_single_token_has_no_tpot_to_limit():
    found = size("llama-3.1-8b", "h100-sxm", slo={"tpot": 1e-9}, isl=2000, osl=1)
    assert found.plans[0].prediction.deployment.num_gpus == 1
    assert (found.plans[0].verdict, found.plans[0].meets, found.plans[0].meets_high) == (None, None, None)
    assert any("no TPOT" in note for note in found.notes)


def test_the_upper_ends_of_the_intervals_decide_whether_it_is_sure():
    middle = rl.predict("llama-3.1-8b", "h100-sxm", **CASE)
    high = middle.ttft_interval[1]
    assert one("llama-3.1-8b", "h100-sxm", slo={"ttft": high * 1.001}).meets_high is True
    unsure = one("llama-3.1-8b", "h100-sxm", slo={"ttft": high * 0.999})
    assert (unsure.meets, unsure.meets_high, unsure.prediction.deployment.num_gpus) == (True, False, 1)
    assert one("llama-3.1-8b", "h100-sxm", basis="ideal").meets_high is None


# --- the fleet -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def catalog():
    return size("deepseek-r1", slo={"ttft": 1.0, "tpot": 0.025}, batch=16, **CASE)


def test_the_whole_catalog_is_answered_cheapest_first_unknown_prices_then_refusals(catalog):
    assert sorted(found.gpu.name for found in catalog.plans) == list(rl.gpus())
    meeting = [found for found in catalog.plans if found.meets]
    assert tuple(meeting) == catalog.plans[: len(meeting)]
    prices = [found.usd_per_hour for found in meeting]
    known = [price for price in prices if price is not None]
    assert prices == [*sorted(known), *[None] * (len(prices) - len(known))]
    assert 0 < len(known) < len(prices) < len(catalog.plans)
    assert catalog.cheapest is meeting[0]
    assert all(found.reason for found in catalog.plans[len(meeting) :])
    assert any(found.prediction.deployment.plan.ep > 1 for found in meeting)


def test_every_row_has_the_keys_of_the_contract_and_the_verdict(catalog):
    for found, row in zip(catalog.plans, catalog.to_records(), strict=True):
        assert list(row) == [*ROW_KEYS, *GPU_PLAN_KEYS]
        assert (row["meets"], row["reason"] is None) == (found.meets, found.meets)
        assert (row["gpu"], row["isl"], row["osl"], row["batch"]) == (found.gpu.name, 2000, 300, 16)
        if found.meets:
            assert row["num_gpus"] == row["tp"] * row["pp"] * row["dp"]
            assert row["ttft_ms"] <= 1000.0
            assert row["tpot_ms"] <= 25.0
            assert row["fits"] is True
            assert row["excess"] is None
        else:
            assert row["num_gpus"] is row["ttft_ms"] is row["usd_per_hour"] is None
            assert row["excess"] is None or row["excess"] > 1.0


def test_misses_come_in_the_order_of_how_far_they_are_off(catalog):
    misses = [found.excess for found in catalog.plans if not found.meets]
    known = [excess for excess in misses if excess is not None]
    assert len(known) > 3
    assert misses == [*sorted(known), *[None] * (len(misses) - len(known))]


def test_records_of_the_caller_serve_as_well_as_names():
    model, gpu = rl.load_model("llama-3.1-8b"), rl.load_gpu("h100-sxm")
    cheaper = replace(gpu, name="own", price=None)
    found = size(model, [gpu, cheaper, "h100"], slo=SLO, **CASE)
    assert [answer.gpu.name for answer in found.plans] == ["h100-sxm", "own"]
    assert found.plans[0].prediction.ttft == found.plans[1].prediction.ttft == rl.ttft(model, gpu, **CASE)


# --- text ----------------------------------------------------------------------------------------


def test_a_fleet_prints_a_line_a_gpu_with_plan_times_and_rent_or_the_reason():
    found = size("llama-3.1-70b", ("l40s", "h100-sxm"), slo=SLO, quantization=["bf16", "fp8"], **CASE)
    heading, first, second, *notes = str(found).splitlines()
    assert heading == "llama-3.1-70b: the fewest GPUs that meet the SLO"
    best = found.cheapest
    plan, rent = best.prediction.deployment.plan, best.usd_per_hour
    assert first.startswith(f"  {plan.num_gpus}x h100-sxm (tp {plan.tp}, {best.quantization}): TTFT ")
    assert f"{rent:.3g} USD/h" in first
    assert second == f"  l40s: {found.plans[1].reason}"
    assert notes == [f"  note: {note}" for note in found.notes]


def test_the_dump_of_a_fleet_is_small(catalog):
    assert len(repr(catalog)) < 300 * len(catalog.plans)
    assert "Prediction(" not in repr(catalog)
    assert "unknown rent" in str(catalog)
    just = one("llama-3.1-8b", "h100-sxm", slo={"ttft": rl.ttft("llama-3.1-8b", "h100-sxm", **CASE)})
    assert str(just).endswith("USD/h; SLO pass?")
    assert str(one("llama-3.1-8b", "h100-sxm", slo="ttft:10s")).endswith("USD/h")  # nothing is said of a sure pass


# --- what is refused -----------------------------------------------------------------------------


@each("options, error, words", [
    ({"slo": {}}, rl.BadInput, "needs an SLO"),
    ({"slo": None}, rl.BadInput, "needs an SLO"),
    ({"slo": ["ttft"]}, rl.BadInput, "mapping"),
    ({"slo": {"ttfd": 1.0}}, rl.UnknownName, "'ttfd'"),
    ({"slo": {"ttft": -1.0}}, rl.BadInput, "positive"),
    ({"num_gpus": 16}, rl.BadInput, "plan takes no num_gpus: it finds how many are needed"),
    ({"measured": {"ttft": 0.1}}, rl.BadInput, "measured"),
    ({"allow_oversize": True}, rl.BadInput, "allow_oversize"),
    ({"tp": 0}, rl.BadInput, "tp = 0"),
    ({"dp": -2}, rl.BadInput, "dp = -2"),
    ({"pp": 200}, rl.BadInput, "layers"),
    ({"ep": 2}, rl.BadInput, "needs a mixture of experts"),
    ({"quantization": ("bf16", "fp9")}, rl.UnknownName, "'fp9'"),
    ({"quantization": 8}, rl.BadInput, "quantization = 8"),
    ({"gpus": ("h100-sxm", "x100")}, rl.UnknownName, "x100"),
])  # fmt: skip
def test_what_cannot_be_is_refused_by_name(options, error, words):
    options = {"slo": SLO, "gpus": "h100-sxm", **CASE, **options}
    with pytest.raises(error, match=words):
        size("llama-3.1-70b", options.pop("gpus"), **options)


def test_experts_that_no_ranks_share_out_are_refused():
    with pytest.raises(rl.BadInput, match="ep = 3 must divide the 128 experts"):
        size("gpt-oss-120b", "h100-sxm", slo=SLO, ep=3)


LENGTHS = ("--isl", "2000", "--osl", "300")
LIMITS = ("--slo", "ttft:300,tpot:25")
ONE = ("size", "-m", "llama-3.1-70b", "-g", "h100-sxm", *LENGTHS, *LIMITS)


def test_the_plan_shows_experts_and_stages_where_there_are_some():
    heading, line = shown("size", "-m", "deepseek-r1", "-g", "h200", *LENGTHS, "--batch", "16", "--slo", "ttft:1000")
    found = shell_row("size", "-m", "deepseek-r1", "-g", "h200", *LENGTHS, "--batch", "16", "--slo", "ttft:1000")
    degrees = [f"{name}{found[name]}" for name in ("tp", "pp", "ep", "dp") if name == "tp" or found[name] > 1]
    assert line[heading.index("plan")].split()[: len(degrees)] == degrees
    assert any(degree.startswith("ep") for degree in degrees)
    heading, line = shown(*ONE, "--pp", "2")
    assert "pp2" in line[heading.index("plan")].split()


def test_of_the_catalog_those_that_meet_it_are_rows_and_the_nearest_misses_lines_below(monkeypatch):
    monkeypatch.setattr("roofline.questions.plan.size", once(size))
    of_users = ("--isl", "4k", "--osl", "500", "-c", "64", "--slo", "ttft:300")
    case = ("size", "-m", "llama-3.3-70b", "-q", "fp8", *of_users)
    exact = rows(*case)
    text = answered(*case)
    rule = "\n-- nearest misses --\n"
    table, below = text.split(rule)
    misses = [line for line in below.split("\n") if line.startswith("fail ")]
    nearest = sorted((line for line in exact if line["excess"] is not None), key=lambda line: line["excess"])
    assert [line.split()[1].rstrip(":") for line in misses] == [line["gpu"] for line in nearest[:1]]
    hidden = int(below.split(" more: --all")[0].split("\n")[-1])
    assert "rents over 120 days old: " in below  # in place of a row
    assert "options of vLLM: --tensor-parallel-size 4" in text
    assert hidden == len(exact) - 6 - 1  # six rows and a miss are shown
    assert table.count("  pass") == 6
    assert "  fail" not in table
    everything = answered(*case, "--all")
    assert sum(line.startswith("fail ") for line in everything.split("\n")) == sum(not line["meets"] for line in exact)
    assert ": --all" not in everything


def test_one_gpu_that_meets_the_slo_is_enough_for_success_and_none_for_a_model_is_not():
    assert ask(*ONE, "-g", "l40s").exit_code == 0
    both = ask(
        "size", "-m", "llama-3.1-8b", "-m", "llama-3.1-70b", "-g", "l40s", *LENGTHS, "--slo", "ttft:300", "-f", "json"
    )
    assert both.exit_code == 1
    assert [line["meets"] for line in strict_json(both.stdout)["rows"]] == [True, False]
    assert both.stderr.startswith("Error: llama-3.1-70b: no plan")


def test_notes_of_a_row_say_which_gpu_they_belong_to():
    formats = ("-q", "mxfp4", "-q", "fp8", "-q", "bf16")
    notes = noted("size", "-m", "llama-3.1-70b", "-g", "h100", "-g", "b200", "--slo", "ttft:3000", *formats)
    assert "note: h100-sxm: --quantization fp8: " in notes
    assert "note: b200: --quantization mxfp4: " in notes
    models = ("-m", "llama-3.1-70b", "-m", "llama-3.1-8b")
    several = noted("size", *models, "-g", "h100", "-g", "b200", "--slo", "ttft:3000", "-q", "int4")
    assert "note: llama-3.1-70b on b200, llama-3.1-8b on b200: assumed, not measured on blackwell" in several


def test_formats_may_be_several_and_the_row_says_which_is_taken():
    assert shell_row(*ONE, "-q", "bf16", "-q", "fp8")["quantization"] == "fp8"
    assert shell_row(*ONE, "-q", "bf16")["quantization"] == "bf16"
    assert shell_row(*ONE)["quantization"] is None


def test_degrees_are_searched_unless_given():
    free = shell_row("size", "-m", "gpt-oss-120b", "-g", "b200", *LENGTHS, *LIMITS, "--batch", "64")
    assert (free["ep"], free["dp"]) != (1, 1)
    fixed = shell_row(
        "size", "-m", "gpt-oss-120b", "-g", "b200", *LENGTHS, "--slo", "ttft:900", "--batch", "64", "--dp", "1"
    )
    assert fixed["dp"] == 1


def test_several_models_are_answered_one_after_the_other():
    found = rows("size", "-m", "llama-3.1-8b", "-m", "gemma-3-27b", "-g", "h100-sxm", *LENGTHS, *LIMITS)
    assert [line["model"] for line in found] == ["llama-3.1-8b", "gemma-3-27b"]
