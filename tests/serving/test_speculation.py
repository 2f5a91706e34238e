"""Speculative decoding: what a step computes, what it gains, and published speeds with and without it."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from every_case import each

import roofline as rl
from roofline.physics.memory import mtp_parameters
from roofline.physics.passes import decode_pass, draft_pass, eagle_head, mtp_module, prefill_pass
from roofline.physics.plan import Draft
from roofline.specs.engine import PRESETS_OF_ACCEPTANCE, Acceptance
from roofline.specs.model import Ngrams
from roofline.specs.written import acceptance_of_text
from roofline.support.errors import BadInput

R1 = {"quantization": "nvfp4", "engine": "trtllm@0.18", "isl": 1024, "osl": 2048, "tp": 8, "ep": 4}
LLAMA = ("llama-3.3-70b", "h200:tp4:fp8")
#: NVIDIA's TensorRT-LLM blog "Pushing Latency Boundaries", DeepSeek-R1 NVFP4 on 8 B200 at batch 1
#: as of March 2025 ("before GTC"): proposed tokens -> tokens per step, tok/s.
PUBLISHED = {1: (1.92, 198), 2: (2.58, 250), 3: (2.82, 253), 4: (2.99, 245), 5: (3.01, 239)}
WITHOUT = 111


def r1(**drafts):
    return rl.predict("deepseek-r1", "b200", **R1, **drafts)


def drafted(**options):
    return rl.predict(*LLAMA, isl=1000, osl=301, **options)


def kernels(passed):
    return {kernel.name: kernel for kernel in passed.kernels}


def with_ngrams(deployment):
    """The deployment with three proposals that cost nothing, half of them kept."""
    return replace(deployment, draft=Draft("ngram", Acceptance((0.5,) * 3)))


# --- what proposes -------------------------------------------------------------------------------


@each("proposer", [mtp_module, eagle_head])
def test_a_module_of_one_layer_has_one_stream_and_no_tables_whatever_its_model_has(proposer):
    plain = replace(rl.load_model("deepseek-v3"), mtp_layers=1)
    rich = replace(
        plain, streams=4, stream_rank=2, stream_average=True, mtp_layers=3, positions=5, layer_input=6, layer_vocab=7,
        altup=8, laurel=9, ngrams=Ngrams(2, 3, 1000, 16),
    )  # fmt: skip
    none = {
        "streams": 1, "stream_rank": 0, "stream_average": False, "mtp_layers": 0, "positions": 0, "layer_input": 0,
        "layer_vocab": 0, "altup": 0, "laurel": 0, "ngrams": None,
    }  # fmt: skip
    found = proposer(rich)
    assert {name: getattr(found, name) for name in none} == none
    assert found == proposer(plain)
    assert found.layers == 1


def test_a_row_names_a_model_that_proposes_and_else_the_method():
    named = {"ngram": "ngram", "eagle": "eagle", "llama-3.1-8b": "llama-3.1-8b"}
    for draft, name in named.items():
        assert drafted(draft=draft, draft_tokens=2, acceptance=0.5).to_dict()["draft"] == name
    assert r1(draft="mtp", draft_tokens=1, acceptance=0.5).to_dict()["draft"] == "mtp"


# --- tokens of a step ----------------------------------------------------------------------------


def test_tokens_of_a_step_are_those_of_all_outcomes():
    """Every outcome of three proposals, with its probability."""
    first, second, third = rates = (0.9, 0.7, 0.4)
    outcomes = {1: 1 - first, 2: first * (1 - second), 3: first * second * (1 - third), 4: first * second * third}
    mean = sum(tokens * chance for tokens, chance in outcomes.items())
    variance = sum(tokens**2 * chance for tokens, chance in outcomes.items()) - mean**2
    assert Acceptance(rates).tokens == pytest.approx(mean, rel=1e-14)
    assert Acceptance(rates).variance == pytest.approx(variance, rel=1e-12)


@each(("rate", "tokens"), [(0.0, 1.0), (1.0, 4.0)])
@each("load", [{}, {"request_rate": 2.0}, {"concurrency": 16}])
def test_none_kept_costs_and_all_kept_give_every_token(rate, tokens, load):
    plain, found = drafted(**load), drafted(draft="eagle", draft_tokens=3, acceptance=rate, **load)
    assert found.itl / found.tpot == pytest.approx(tokens, rel=1e-12)
    assert (found.tpot > plain.tpot) == (rate == 0.0)
    assert found.e2el == pytest.approx(found.ttft + 300 * found.tpot, rel=1e-12)


def test_tokens_per_step_are_read_back_and_a_preset_has_those_that_were_published():
    found = acceptance_of_text("2.82 tokens", 3)
    assert found.tokens == pytest.approx(2.82, rel=1e-12)
    assert len(set(found.rates)) == 1
    preset = PRESETS_OF_ACCEPTANCE["deepseek-r1-mtp"].acceptance
    assert {tokens: round(preset.of(tokens).tokens, 2) for tokens in PUBLISHED} == {
        n: row[0] for n, row in PUBLISHED.items()
    }


# --- what a step computes ------------------------------------------------------------------------


def test_a_verifying_step_multiplies_every_token_and_reads_the_cache_once():
    deployment = drafted().deployment
    one, many, four = (
        kernels(decode_pass(each, batch, 1000.0, 300.0))
        for each, batch in ((deployment, 8.0), (deployment, 32.0), (with_ngrams(deployment), 8.0))
    )
    for name in ("qkv", "o", "gate, up", "down", "head"):
        assert four[name].work == many[name].work, name
    assert four["attention"].work.kv_bytes == one["attention"].work.kv_bytes
    assert four["attention"].work.flop == 4 * one["attention"].work.flop
    assert not [name for name in four if name.startswith("draft")]


def test_a_recurrent_state_is_read_once_and_written_for_each_token_that_may_be_kept():
    deployment = rl.predict("nemotron-3-nano", "h100").deployment
    one, four = (
        [k.work.kv_bytes for k in decode_pass(each, 8.0, 1000.0).kernels if k.kind.name == "state_decode"]
        for each in (deployment, with_ngrams(deployment))
    )
    assert four == pytest.approx([one[0] * (1 + 4) / 2])


def on_gpu(passed):
    """Time of the kernels of a pass without its host."""
    return sum(kernel.time for kernel in passed.kernels if kernel.kind.name != "host")


def test_proposals_run_one_after_the_other_before_the_step():
    deployment = drafted(draft="llama-3.2-1b", draft_tokens=3, acceptance=0.7).deployment
    alone = draft_pass(deployment, 8.0, 1000.0, 300.0)
    whole = decode_pass(deployment, 8.0, 1000.0, 300.0)
    verified = decode_pass(with_ngrams(deployment), 8.0, 1000.0, 300.0)
    assert whole.time == pytest.approx(verified.time + 3 * alone.time, rel=1e-12)
    small = replace(deployment, model=deployment.draft.model, quantization=deployment.draft.quantization, draft=None)
    assert alone.time == pytest.approx(on_gpu(decode_pass(small, 8.0, 1000.0, 300.0)), rel=1e-12)


def test_a_prompt_runs_through_what_proposes_too():
    plain, found = drafted(), drafted(draft="llama-3.2-1b", draft_tokens=3, acceptance=0.7)
    small = found.deployment.drafting
    assert found.ttft - plain.ttft == pytest.approx(on_gpu(prefill_pass(small, 1.0, 1000.0)), rel=1e-9)


def test_a_module_is_a_layer_like_the_last_with_what_joins_its_inputs():
    model = rl.load_model("deepseek-v3")
    found = kernels(draft_pass(r1(draft="mtp", acceptance=0.8).deployment, 1.0, 1000.0))
    assert found["draft, join"].work.flop == 2 * 7168 * 2 * 7168
    assert {"draft, attention, absorbed", "draft, experts", "draft, head"} <= set(found)
    module = mtp_module(model)
    assert module.layers == 1
    assert module.groups[0].layers[0] == model.groups[-1].layers[-1]
    assert mtp_parameters(model) == pytest.approx(11.6e9, rel=0.02)  # 11.5 of 14 B are not shared (DeepSeek-V3 README)


def test_memory_holds_what_proposes():
    plain, found = drafted(), drafted(draft="llama-3.2-1b", draft_tokens=3, acceptance=0.7)
    own = rl.predict("llama-3.2-1b", "h200:tp4")
    assert found.memory.weights == pytest.approx(plain.memory.weights + own.memory.weights, rel=1e-12)
    assert found.knees.memory < plain.knees.memory
    assert r1(draft="mtp", acceptance=0.8).memory.weights > r1().memory.weights


# --- published speeds ----------------------------------------------------------------------------


def test_published_speeds_of_r1_with_and_without_mtp():
    plain = r1().tok_s_user
    assert plain == pytest.approx(WITHOUT, rel=0.15)
    speeds = {}
    for tokens, (per_step, measured) in PUBLISHED.items():
        found = r1(draft="mtp", draft_tokens=tokens, acceptance="deepseek-r1-mtp")
        assert round(found.deployment.tokens_per_step, 2) == per_step
        assert found.tok_s_user == pytest.approx(measured, rel=0.2), tokens
        assert found.tok_s_user / plain == pytest.approx(measured / WITHOUT, rel=0.11), tokens
        speeds[tokens] = found.tok_s_user
    assert speeds[3] / plain == pytest.approx(253 / WITHOUT, rel=0.10)
    assert max(speeds.values()) < 1.05 * speeds[3]  # 3 are best as measured; a fourth changes little
    page = (Path(__file__).parents[2] / "docs" / "method" / "features.md").read_text(encoding="utf-8")
    for tokens, speed in speeds.items():
        per_step, measured = PUBLISHED[tokens]
        ups = f"{measured / WITHOUT:.2f} | {speed / plain:.2f}"
        assert f"| {tokens} | {per_step} | {measured} | {speed:.0f} | {ups} |" in page


# --- loads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "load", "first"),
    [
        ({"draft": "eagle", "draft_tokens": 3, "acceptance": 0.7, "isl_cv": 0.3}, {"request_rate": 2.5}, 0.05),
        ({"draft": "ngram", "draft_tokens": 3, "acceptance": 0.9, "engine": "vllm"}, {"concurrency": 8}, 0.10),
    ],
)
def test_a_load_with_drafts_is_what_a_simulation_sees(case, load, first):
    """Users' first tokens are no nearer without drafts."""
    found = rl.simulate(*LLAMA, isl=1000, osl=400, requests=2500, **case, **load)
    for key, near in (("ttft", first), ("tpot", 0.05), ("ttft_p99", 0.15), ("tpot_p99", 0.15)):
        assert found.ratio(key) == pytest.approx(1.0, abs=near), key


def test_arrays_are_their_elements():
    rates = np.array([0.5, 2.0, 4.0])
    many = drafted(draft="eagle", draft_tokens=2, acceptance=0.6, request_rate=rates)
    for place, rate in enumerate(rates):
        one = drafted(draft="eagle", draft_tokens=2, acceptance=0.6, request_rate=float(rate))
        assert one.tpot == pytest.approx(many.tpot[place], rel=1e-9)
        assert one.latency("tpot_p99") == pytest.approx(many.latency("tpot_p99")[place], rel=1e-9)


def test_drafts_pay_up_to_where_both_take_the_same():
    found = rl.speculate(*LLAMA, draft="llama-3.1-8b", acceptance=0.6, draft_tokens=2, concurrency=[1, 16, 64, 256])
    end = found.stops_paying(2)
    assert 1 < end < 256
    plain, with_drafts = (
        rl.predict(*LLAMA, concurrency=end, **options)
        for options in ({}, {"draft": "llama-3.1-8b", "acceptance": 0.6, "draft_tokens": 2})
    )
    assert with_drafts.tpot == pytest.approx(plain.tpot, rel=1e-4)


def test_rows_are_the_predictions_and_the_best_is_the_least():
    found = rl.speculate(*LLAMA, draft="ngram", acceptance=(0.6, 0.5, 0.2), batch=[1, 8, 512])
    rows = found.to_rows()
    assert len(rows) == 3 * 4
    for row in rows:
        drafts = {"draft": "ngram", "draft_tokens": row["draft_tokens"], "acceptance": found.draft.acceptance}
        one = rl.predict(*LLAMA, batch=row["batch"], **(drafts if row["draft_tokens"] else {}))
        assert row["tpot_ms"] == pytest.approx(one.tpot * 1e3, rel=1e-12)
        same = [each for each in rows if each["batch"] == row["batch"]]
        assert row["is_best"] == (row["tpot_ms"] == min(each["tpot_ms"] for each in same))
        assert not math.isnan(row["draft_speedup"])


# --- what cannot be ------------------------------------------------------------------------------


@each(
    ("options", "error", "said"),
    [
        ({"draft": "mtp", "acceptance": 0.8}, rl.BadInput, "llama-3.3-70b has no MTP module"),
        *(
            ({"draft": "eagle", "acceptance": rate, "draft_tokens": 2}, rl.BadInput, "must be between 0 and 1")
            for rate in (1.5, -0.1, math.nan)
        ),
        ({"draft": "eagle", "acceptance": ".9,1.2"}, rl.BadInput, "between 0 and 1"),
        ({"draft": "eagle", "acceptance": "4 tokens", "draft_tokens": 2}, rl.BadInput, "between 1 and 3"),
        ({"draft": "eagle", "acceptance": "2 tokens"}, rl.BadInput, "need draft_tokens"),
        ({"draft": "eagle", "acceptance": 0.8}, rl.BadInput, "needs draft_tokens"),
        ({"draft": "eagle", "draft_tokens": 3}, rl.BadInput, "a draft needs an acceptance"),
        ({"draft": "eagle", "acceptance": [0.9, 0.8], "draft_tokens": 3}, rl.BadInput, "disagree"),
        ({"draft": "eagle", "acceptance": "best", "draft_tokens": 3}, rl.UnknownName, "unknown acceptance"),
        ({"draft": "nope", "acceptance": 0.8, "draft_tokens": 3}, rl.UnknownName, "neither mtp, eagle, ngram"),
        ({"draft": "ngram", "acceptance": 0.8, "draft_tokens": 0}, rl.BadInput, "between 1 and 32"),
        ({"draft": "ngram", "acceptance": 0.8, "draft_tokens": 2.5}, rl.BadInput, "between 1 and 32"),
        ({"draft": 3, "acceptance": 0.8, "draft_tokens": 2}, rl.BadInput, "must be mtp, eagle, ngram"),
        ({"acceptance": 0.8}, rl.BadInput, "acceptance needs a draft"),
        ({"draft": "qwen2.5-0.5b", "acceptance": 0.8, "draft_tokens": 2}, rl.BadInput, "draft qwen2.5-0.5b"),
    ],
)
def test_what_cannot_be_is_refused_in_one_message(options, error, said):
    with pytest.raises(error, match=said):
        drafted(**options)


def test_a_measurement_scales_the_tokens_of_a_step_not_the_step():
    drafts = {"draft": "eagle", "draft_tokens": 3, "acceptance": 0.8}
    plain = drafted(**drafts)
    found = drafted(**drafts, measured={"tpot": 1.1 * plain.tpot})
    assert found.tpot == pytest.approx(1.1 * plain.tpot, rel=1e-12)
    assert found.itl == pytest.approx(1.1 * plain.itl, rel=1e-12)
    with pytest.raises(rl.BadInput, match="below the hardware limit"):
        drafted(**drafts, measured={"tpot": 0.9 * plain.tpot * plain.ideal_share["decode"]})


_NGRAM = {"draft": "ngram", "draft_tokens": 3, "acceptance": 0.8}
_LOADS = ({}, {"batch": 8}, {"concurrency": 16}, {"request_rate": 3}, {"concurrency": 16, "num_prompts": 64})


@each("load, basis", [(load, basis) for load in _LOADS for basis in ("calibrated", "ideal")], few=2)
def test_an_answer_of_one_token_leaves_nothing_to_draft(load, basis):
    # What ngram proposes costs no weights and no prompt: the first token comes as without it, and there is no second.
    case = {"isl": 1000, "osl": 1, "basis": basis, **load}
    drafted, plain = (rl.predict("llama-3.1-8b", "h100-sxm", **case, **draft) for draft in (_NGRAM, {}))
    near = 1e-12 if drafted.served is None else 1e-3  # under a load, of a pass that would verify proposals
    assert drafted.tpot is None
    assert drafted.ttft == pytest.approx(plain.ttft, rel=near)
    assert drafted.e2el == pytest.approx(plain.e2el, rel=near)
    assert "TPOT       none: a single output token" in str(drafted)
    assert drafted.to_dict()["itl_ms"] is None
    many = rl.predict("llama-3.1-8b", "h100-sxm", **{**case, "osl": np.array([1.0, 2.0])}, **_NGRAM)
    assert np.isnan(many.tpot[0])
    assert many.ttft[0] == pytest.approx(drafted.ttft, rel=1e-12)
    assert many.ideal_share["decode"][0] > 0.0
    assert many.to_dict()["tpot_ms"][0] is None
    assert str(many)


def test_every_question_about_one_token_has_an_answer_with_drafts():
    case = {"isl": 1000, "osl": 1, **_NGRAM, "slo": "ttft:300,tpot:25"}
    pair = ("llama-3.1-8b", "h100-sxm")
    assert rl.goodput(*pair, **case)[0].rate > 1.0
    assert rl.size(*pair, **case, concurrency=4).plans[0].meets
    assert rl.levers(*pair, **{**case, "slo": "ttft:300"}, request_rate=4).alone
    (row,) = rl.table(*pair, **case, concurrency=4)
    assert row["tpot_ms"] is None
    with pytest.raises(BadInput, match="give an osl of 2 or more"):
        rl.speculate(*pair, **case)
