"""Levers: each row is what predict says of its options, best first, and what cannot be pulled says why."""

import json
from itertools import pairwise

import pytest
from cli.asking import answered, cells, noted
from every_case import each

import roofline as rl
from roofline.questions.alternatives import CHECK, MORE_BANDWIDTH, SAME_ANSWERS, is_free, smaller_sibling, wider_gpu
from roofline.questions.lever_choices import Start, candidates
from roofline.questions.levers import GOALS, LEVER_KEYS, change_text
from roofline.serving.capacity import largest_rate
from roofline.serving.shown import ROW_KEYS

CASE = {"isl": 1500, "osl": 250}
FIGURES = ("ttft_p50", "ttft_p99", "tpot")


@pytest.fixture(scope="module")
def chat():
    return rl.levers("qwen3-32b", "h100:tp2", request_rate=2, goal="tpot", **CASE)


@pytest.fixture(scope="module")
def within():
    return rl.levers("llama-3.1-8b", "l40s", goal="goodput", isl=1000, osl=200, request_rate=1.5, slo="tpot:50")


def every(found):
    return (found.start, *found.together, *found.alone)


def test_every_row_is_what_predict_says_of_its_options(chat):
    assert len(chat.alone) >= 10
    for one, row in zip(every(chat), chat.to_records(), strict=False):
        if one.kind == "separate pools":
            continue
        again = rl.predict(**json.loads(json.dumps(row["options"])))
        for name in FIGURES:
            assert float(again.latency(name)) == pytest.approx(one.figure(name), rel=1e-12)
        assert row["usd_per_m_output_tok"] == pytest.approx(again.usd_per_m_output_tok, rel=1e-12)
        assert (row["gpu"], row["num_gpus"], row["tp"]) == (
            again.deployment.gpu.name, again.deployment.num_gpus, again.deployment.plan.tp,
        )  # fmt: skip


def test_the_goodput_of_a_lever_is_that_of_its_deployment(within):
    for one in within.together[:1] + within.alone:
        if one.kind in ("together", "weights", "headroom"):
            again = rl.predict(**one.options)
            best = largest_rate(again.deployment, again.workload, again.slo)
            assert one.goodput.rate == pytest.approx(best.rate, rel=1e-12)
            rent = again.usd_per_hour / 3600 / best.rate
            assert one.cost == pytest.approx(rent, rel=1e-12)
            assert one.goodput_usd_per_m_output_tok == pytest.approx(1e6 * rent / again.workload.osl, rel=1e-12)


def test_the_case_as_it_is_is_the_prediction_that_was_asked_for(chat):
    plain = rl.predict("qwen3-32b", "h100:tp2", request_rate=2, **CASE)
    assert chat.start.figure("ttft_p99") == pytest.approx(plain.latency("ttft_p99"), rel=1e-12)
    assert chat.start.change("ttft_p99") is None
    assert chat.start.options["tp"] == 2


def test_changes_are_relative_to_the_case_as_it_is(chat):
    for one, row in zip(every(chat)[1:], chat.to_records()[1:], strict=False):
        for name in (*FIGURES, "cost"):
            ratio = one.figure(name) / chat.start.figure(name) - 1.0
            assert row[f"{name}_change"] == pytest.approx(ratio, abs=1e-12)
        assert row["lever_usd_per_request"] == pytest.approx(
            row["usd_per_hour"] / 3600 / row["request_rate"], rel=1e-12
        )


def test_a_lever_changes_what_it_says_and_nothing_else(chat):
    start = chat.start.options
    for one in chat.alone:
        changed = {name for name, value in one.options.items() if value != start.get(name)}
        wanted = {
            "smaller model": {"model"}, "weights": {"weights", "kv_cache_dtype"}, "KV cache": {"kv_cache_dtype"},
            "more bandwidth": {"gpu"}, "more GPUs": {"num_gpus"}, "wider plan": {"tp", "num_gpus"},
            "shorter answers": {"osl"}, "token budget": {"max_num_batched_tokens"}, "batch budget": {"max_num_seqs"},
            "headroom": {"request_rate"}, "prompt cache": {"prefix", "cache_hit"}, "separate pools": set(one.options),
            "speculation": {"draft", "draft_tokens", "acceptance"},
        }  # fmt: skip
        if one.kind in wanted:
            assert changed <= wanted[one.kind], one.kind
        assert changed


@pytest.mark.parametrize("goal", GOALS)
def test_levers_stand_by_their_goal_and_the_best_come_together_one_by_one(goal, within):
    load = {"concurrency": 12} if goal == "cost" else {"request_rate": 1.5}
    found = within if goal == "goodput" else rl.levers("llama-3.1-8b", "l40s", goal=goal, isl=1000, osl=200, **load)
    scores = [one.score(goal) for one in found.alone]
    assert all(first <= then + 1e-5 * abs(then) for first, then in pairwise(scores))
    sign = -1.0 if goal == "goodput" else 1.0
    figure = "ttft_p99" if goal == "ttft" else goal
    assert found.best is found.alone[0]
    assert sign * found.best.change(figure) < 0.0
    chain = [one for one in found.together if one.parts[0] == found.best.name][:2]  # then one with the same answers
    assert [len(one.parts) for one in chain] == [2, 3]
    assert chain[0].parts[0] == found.best.name
    assert chain[1].score(goal) < chain[0].score(goal) < found.best.score(goal)
    assert chain[1].parts[:2] == chain[0].parts
    places = {one.name: one.place for one in found.alone}
    assert all(len({places[part] for part in one.parts}) == len(one.parts) for one in found.together)
    for one in found.alone:  # greedy: no other lever beside the best does more
        if one.place not in (places[part] for part in chain[0].parts) and one.helps(goal):
            changes = {key: value for key, value in one.options.items() if value != found.start.options.get(key)}
            pair = {**found.best.options, **changes}
            if goal in ("ttft", "tpot"):
                assert rl.predict(**pair).latency(figure) >= chain[0].figure(figure) * (1.0 - 1e-9)


def test_a_chain_of_levers_that_leave_the_answers_alone_stands_beside_one_that_does_not(chat):
    assert not is_free(chat.together[0].quality)
    assert is_free(chat.together[-1].quality)
    assert all(is_free(one.quality) for one in chat.alone if one.name in chat.together[-1].parts)


def test_what_cannot_be_pulled_says_why():
    found = rl.levers("llama-3.3-70b", "h100:tp2:fp8", request_rate=1)
    assert found.refused["weights"] == "h100-sxm multiplies no format smaller than fp8"
    assert found.refused["KV cache"] == "it is fp8 already"
    rows = {row["lever_kind"]: row for row in found.to_records()}
    assert rows["weights"]["reason"] == found.refused["weights"]
    assert rows["weights"]["ttft_ms"] is rows["weights"]["options"] is None
    assert found.start.goodput is None
    assert all(row["goodput"] is None for row in rows.values())
    whole = rl.levers("llama-3.1-405b", "h200:tp8:fp8", request_rate=0.2, lengths={"isl": [500, 900], "osl": [90, 60]})
    assert "trace" in whole.refused["shorter answers"]
    alone = rl.levers("deepseek-r1", "b200:tp8", request_rate=1, isl=500, osl=100)
    assert alone.refused["smaller model"] == "the catalog has no smaller sibling of deepseek-r1"
    assert "b200" in alone.refused["more bandwidth"]


def test_reasons_name_the_queue_the_kernels_what_binds_and_the_rent(chat, within):
    wide = next(one for one in chat.alone if one.kind == "wider plan")
    double = next(one for one in chat.alone if one.kind == "more GPUs")
    assert wide.why("ttft").startswith("queue ")
    assert "prefill 1." in wide.why("ttft")
    assert double.why("ttft").endswith("a prompt alone takes as long as before")
    assert "decode 1." in wide.why("tpot")
    twice = next(one for one in within.alone if one.kind == "more GPUs")
    assert twice.why("goodput") == "each of 2 replicas answers what the one did"
    assert wide.why("cost").startswith(f"{4 * 3.99:.3g} USD/h instead of {2 * 3.99:.3g} for ")


def test_drafts_come_from_the_models_own_module_where_it_has_one():
    found = rl.levers("deepseek-r1", "b200:tp8", goal="tpot", concurrency=4, isl=1000, osl=500)
    mtp = next(one for one in found.alone if one.kind == "speculation")
    assert (mtp.options["draft"], mtp.options["acceptance"]) == ("mtp", "deepseek-r1-mtp")
    tokens = {1: 1.92, 2: 2.58, 3: 2.82}[mtp.options["draft_tokens"]]
    assert mtp.why("tpot").startswith(f"a step gains {tokens} tokens instead of 1; decode 0.")
    assert "DeepSeek-R1" in mtp.assumption
    tried = [rl.predict(**{**mtp.options, "draft_tokens": count}).tpot for count in (1, 2, 3)]
    assert mtp.figure("tpot") == min(tried)
    plain = rl.levers("llama-3.1-8b", "h100", goal="tpot", concurrency=4)
    eagle = next(one for one in plain.alone if one.kind == "speculation")
    assert eagle.options["draft"] == "eagle"
    drafted = {"draft": "eagle", "draft_tokens": 3, "acceptance": 0.6}
    assert "already" in rl.levers("llama-3.1-8b", "h100", concurrency=4, **drafted).refused["speculation"]


def test_a_prompt_cache_says_what_it_assumes_and_is_not_pulled_twice(chat):
    cached = next(one for one in chat.alone if one.kind == "prompt cache")
    assert (cached.options["prefix"], cached.options["cache_hit"]) == (750, 0.6)
    assert cached.assumption.startswith("750 of 1500 prompt tokens are shared, and 60 % of the requests")
    assert cached.change("ttft_p50") < 0.0
    assert is_free(cached.quality)
    for own in ({"prefix": 100}, {"prefix": 400, "cache_hit": 0.9}):
        found = rl.levers("llama-3.1-8b", "h100", concurrency=4, **own)
        assert found.refused["prompt cache"] == "the case has a cached prefix already"


def test_separate_pools_are_what_disaggregate_says():
    found = rl.levers("llama-3.1-8b", "h100:tp1x3", request_rate=20, isl=2000, osl=150, goal="tpot", gpu_price=2.0)
    pools = next(one for one in found.alone if one.kind == "separate pools")
    again = rl.disaggregate(**pools.to_dict("tpot")["options"])
    for name in FIGURES:
        assert again.latency(name) == pytest.approx(pools.figure(name), rel=1e-12)
    assert again.num_gpus == 3
    assert again.usd_per_hour == pytest.approx(found.start.answer.usd_per_hour)
    tried = [
        rl.disaggregate(**{**pools.options, "prefill": first, "decode": then}).tpot
        for first, then in (("h100:tp1", "h100:tp1x2"), ("h100:tp1x2", "h100:tp1"))
    ]
    assert pools.figure("tpot") == pytest.approx(min(tried), rel=1e-12)
    assert pools.to_dict("tpot")["why"].startswith("no prompt comes between decode steps")
    assert all(pools.name not in one.parts for one in found.together)
    assert rl.levers("llama-3.1-8b", "h100", request_rate=2).refused["separate pools"] == "one GPU cannot be two pools"


def test_users_have_levers_too():
    found = rl.levers("llama-3.1-8b", "h100", concurrency=40, isl=1000, osl=200, goal="cost")
    lighter = next(one for one in found.alone if one.kind == "headroom")
    assert lighter.options["concurrency"] == 32
    assert found.start.cost == pytest.approx(
        found.start.prediction.usd_per_hour / 3600 / found.start.prediction.request_rate
    )
    assert any("without an SLO" in note for note in found.notes)


@each("name, smaller", [
    ("llama-3.3-70b", "llama-3.1-8b"),  # no 3.3 that is smaller: the latest of Llama 3
    ("llama-3-70b", "llama-3-8b"),  # the same version first
    ("llama-3.1-405b", "llama-3.1-70b"),
    ("qwen3-235b-a22b-fp8", "qwen3-30b-a3b-fp8"),  # the same format; 32B dense reads more per token
    ("mistral-large-2407", "mistral-small-4-119b"),
    ("deepseek-r1", None),
    ("llama-3.2-1b", None),
])  # fmt: skip
def test_the_smaller_sibling_is_the_next_of_the_line(name, smaller):
    found = smaller_sibling(rl.load_model(name))
    assert (None if found is None else found.short_name) == smaller


def test_the_wider_gpu_has_more_bandwidth_and_no_less_of_the_rest():
    for name in rl.gpus():
        gpu = rl.load_gpu(name)
        found = wider_gpu(gpu, "bf16")
        if found is not None:
            assert found.bandwidth >= MORE_BANDWIDTH * gpu.bandwidth
            assert found.peaks["bf16"] >= gpu.peaks.get("bf16", 0.0)
            assert (found.vendor, found.status) == (gpu.vendor, "shipping")
    assert wider_gpu(rl.load_gpu("h200"), "fp8").name == "b200"


def test_what_is_not_free_in_quality_says_so_with_a_source(chat):
    said = {one.kind: one.quality for one in chat.alone}
    assert "arXiv" in said["weights"]
    assert CHECK in said["KV cache"]
    assert CHECK in said["smaller model"]
    assert CHECK in said["shorter answers"]
    assert said["speculation"].startswith("lossless")
    assert {said[kind] for kind in ("more GPUs", "wider plan", "token budget", "headroom")} == {SAME_ANSWERS}


def test_every_kind_of_lever_is_either_pulled_or_refused():
    start = rl.predict("llama-3.1-8b", "h100", request_rate=1)
    kinds = [lever.kind for lever in candidates(Start(start, {}))]
    assert len(kinds) == len(set(kinds))
    found = rl.levers("llama-3.1-8b", "h100", request_rate=1)
    assert {one.kind for one in found.alone} | set(found.refused) == set(kinds)


def test_a_row_has_the_keys_of_a_prediction_and_its_own(chat):
    for row in chat.to_records():
        assert set(row) == {*ROW_KEYS, *LEVER_KEYS}
    assert "qwen3-32b" in repr(chat)
    assert "for TPOT" in repr(chat)
    assert str(chat).count("\n") >= len(chat.alone) + len(chat.refused)


@each("options, said", [
    ({}, "give `request_rate` or `concurrency`"),
    ({"batch": 4}, "takes no batch"),
    ({"concurrency": 8, "num_prompts": 80}, "takes no num_prompts"),
    ({"request_rate": 1, "measured": {"tpot": 0.02}}, "takes no measured"),
    ({"request_rate": [1, 2]}, "one case: request_rate"),
    ({"request_rate": 1, "goal": "speed"}, "must be one of ttft, tpot, goodput, cost"),
    ({"request_rate": 1, "goal": "goodput"}, "goodput needs an SLO"),
    ({"request_rate": 1, "goal": "tpot", "osl": 1}, "one token has no TPOT"),
    ({"request_rate": 1, "goal": "cost", "slo": "ttft:1"}, "no request meets the SLO as it is"),
])  # fmt: skip
def test_what_cannot_be_asked_is_one_clear_message(options, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.levers("llama-3.1-8b", "h100", **options)


def test_a_gpu_without_a_price_has_no_cost_to_rank_by():
    with pytest.raises(rl.BadInput, match="no rental price of l20 is known"):
        rl.levers("llama-3.1-8b", "l20", request_rate=0.5, goal="cost")


def test_a_price_that_is_given_is_not_that_of_another_gpu():
    found = rl.levers("llama-3.1-8b", "h100", request_rate=1, gpu_price=1.0)
    assert found.start.answer.usd_per_hour == 1.0
    wider = next(one for one in found.alone if one.kind == "more bandwidth")
    assert wider.answer.usd_per_hour == pytest.approx(rl.predict("llama-3.1-8b", "h200").usd_per_hour)
    assert "catalog's price" in wider.assumption


SHELL = ("levers", "-m", "llama-3.3-70b", "-q", "fp8", "-g", "h100:tp2", "--isl", "1000", "--osl", "200")
RATE = ("--request-rate", "2")
PLAIN = {"quantization": "fp8", "isl": 1000, "osl": 200, "request_rate": 2}


@pytest.fixture(scope="module")
def found():
    return rl.levers("llama-3.3-70b", "h100:tp2", **PLAIN)


def table(lines):
    """Lines of the table: those that begin with a place, the footer apart."""
    return [line for line in lines if line[:1].isdigit() and "--" not in line]


def test_levers_that_go_together_are_numbered_as_they_stand_alone(found):
    lines = answered(*SHELL, *RATE, "--all").splitlines()
    numbers = {line.split()[0]: line for line in table(lines)}
    names = [one.name for one in found.alone]
    for chain in found.together:
        number = "+".join(map(str, sorted(names.index(part) + 1 for part in chain.parts)))
        assert "together" in numbers[number]
        assert change_text(chain.change("tpot")) in numbers[number]


def test_everything_has_its_reason_in_a_document(found):
    heading, first, *lines = cells(answered(*SHELL, *RATE, "--for", "tpot", "-f", "markdown"))
    assert first[heading.index("lever")] == "as it is"
    why = [line[heading.index("why")] for line in lines]
    reasons = [line[heading.index("reason")] for line in lines]
    assert all((left == "-") != (right == "-") for left, right in zip(why, reasons, strict=True))
    assert sum("decode " in text for text in why) > 3


def test_quality_is_said_where_it_is_not_free():
    notes = noted(*SHELL, *RATE)
    assert "smaller: llama-3.1-8b: another model: check on your own data" in notes
    assert "all levers at 2x h100-sxm, tp 2" in notes
