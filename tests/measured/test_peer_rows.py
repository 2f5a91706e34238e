"""What other calculators are asked, and how their answers are set beside ours."""

import csv
import types
from dataclasses import replace

import peer_rows
import pytest
from build_scoreboard import peer_coverage
from build_scoreboard import peer_rows as beside
from cases import Case
from every_case import each
from peer_rows import PEERS, Peer, read_answers
from serving_rows import ServingRow

ROW = ServingRow(
    name="a run", source="gap", export="model.csv", measured=None, gpu="h100-sxm", model="qwen3-235b-a22b-fp8",
    quantization=None, precision_stated=True, kv_cache_dtype="bf16", kv_cache_known=True, engine="vllm",
    engine_version="0.12.0", tp=4, pp=1, ep=2, dp=2, label="printed", isl=1024, osl=1024, mean_isl=921.6,
    mean_osl=921.6, concurrency=1000, prompts_per_user=10.0, states_prompts=False, ttft=0.2, tpot=0.01,
    disaggregated=False, speculative="no", excluded=None, split="fit",
)  # fmt: skip
R1 = replace(
    ROW, source="inferencex", engine="sglang", model="deepseek-r1", gpu="b200", ep=1, dp=1, concurrency=64, isl=8192
)
CASE = Case(
    dataset="servers", split="fit", metric="ttft", measured=0.2, predicted=0.24, ideal=0.1, low=0.1, high=0.3,
    gpu="h100-sxm", model="qwen3-235b-a22b-fp8", kind="MoE", dtype="fp8", engine="vllm", tp=8, batch=1000.0,
    basis="calibrated", load="loaded", ep=2,
)  # fmt: skip


# Questions ------------------------------------------------------------------------------------------------------


def test_aisimulate_is_asked_for_the_plan_the_load_and_the_run_of_a_row():
    asked = peer_rows.aisimulate_question(ROW)
    worker = asked["engine"]["workers"]["aggregated"]
    # 8 GPUs of which experts are cut in 2 by ep, so in 4 within each
    plan = {"tensor": 4, "pipeline": 1, "attention_data": 2, "moe_tensor": 4, "moe_expert": 2}
    assert worker["parallelism"] == plan
    assert asked["traffic"]["source"] == {"type": "synthetic", "input_tokens": 922, "output_tokens": 922}
    assert asked["traffic"]["load"]["concurrency"] == 1000
    assert asked["traffic"]["stop"] == {"requests": 10_000}
    # 500 a rank are more than it admits by default; nothing else is known of the launch
    assert worker["scheduler"] == {"max_sequences": 500}
    assert worker["kv_cache"] == {}


def test_aisimulate_gets_the_memory_of_a_launch_script_that_is_known_and_keeps_its_own_budget():
    assert R1.settings.keys() == {"max_num_batched_tokens", "gpu_memory_utilization"}
    worker = peer_rows.aisimulate_question(R1)["engine"]["workers"]["aggregated"]
    assert worker["scheduler"] == {"max_sequences": 256}
    assert worker["kv_cache"] == {"capacity": {"memory_fraction": 0.95}}


def test_aiconfigurator_is_asked_for_the_requests_of_one_rank():
    asked = peer_rows.aiconfigurator_question(ROW)
    assert (asked["batch_size"], asked["tp_size"], asked["attention_dp_size"]) == (500, 4, 2)
    assert (asked["moe_tp_size"], asked["moe_ep_size"], asked["kvcache_quant_mode"]) == (4, 2, "bfloat16")


@each(
    ("model", "quantization", "engine", "gpu", "formats"),
    [
        ("qwen3-32b", None, "vllm", "b200", {}),
        ("llama-3.1-70b", "nvfp4", "vllm", "b200", {"gemm_quant_mode": "nvfp4"}),
        ("gpt-oss-120b", None, "vllm", "b200", {}),
        ("gpt-oss-120b", None, "trtllm", "h200-sxm", {}),
        ("gpt-oss-120b", None, "trtllm", "b200", {"moe_quant_mode": "w4a8_mxfp4_mxfp8"}),
    ],
)
def test_both_are_told_the_formats_that_the_checkpoint_does_not_say(model, quantization, engine, gpu, formats):
    row = replace(ROW, model=model, quantization=quantization, engine=engine, gpu=gpu)
    path, told = peer_rows.checkpoint(row)
    assert told == formats
    asked = peer_rows.aiconfigurator_question(row), peer_rows.aisimulate_question(row)["engine"]
    assert [each["model_path" if "model_path" in each else "model"] for each in asked] == [path, path]
    assert all(each.items() >= formats.items() for each in asked)


# Answers --------------------------------------------------------------------------------------------------------


def ask(row, tables):
    if row.name == "refused":
        text = "replay failed: PerfDataNotAvailableError: perf database error: MoE data missing for op {moe_quant: "
        raise RuntimeError(f'{text}"nvfp4"}}')
    return {"ttft": 0.1, "tpot": float(tables.removeprefix("0.")) * 1e-3}


@pytest.fixture
def peer(monkeypatch):
    """A tool without a wheel: tables 0.12 and 0.24, the latter its own choice."""
    modules = {
        "made_up.sdk.common": types.SimpleNamespace(DefaultHFModels={peer_rows.checkpoint(ROW)[0]}),
        "made_up.sdk.perf_database": types.SimpleNamespace(
            get_supported_databases=lambda: {"h100_sxm": {"vllm": ["0.12", "0.24"]}},
            get_latest_database_version=lambda system, engine: "0.24",
        ),
    }
    monkeypatch.setattr(peer_rows.importlib, "import_module", modules.__getitem__)
    monkeypatch.setattr(peer_rows.importlib.metadata, "version", lambda name: "1.0")
    return Peer("made-up", "1.0", "2026-01-01", "ask", "made_up", ask)


def test_answers_are_written_and_read_and_a_refusal_keeps_its_reason(peer, tmp_path):
    rows = [
        replace(ROW, name="other tables"), replace(ROW, name="own tables", engine_version="0.12"),
        replace(ROW, name="refused"), replace(ROW, name="unknown", model="qwen3-32b"),
    ]  # fmt: skip
    path = tmp_path / "made-up.csv"
    peer_rows.write_answers(path, peer_rows.answers(peer, rows), "a comment")
    assert read_answers(path) == {
        "other tables": {"ttft": 0.1, "tpot": 0.024},
        "own tables": {"ttft": 0.1, "tpot": 0.012},
        "refused": {"error": "no data: MoE nvfp4"},
        "unknown": {"error": "no configuration"},
    }


def test_a_tool_of_another_version_is_not_asked(peer):
    with pytest.raises(SystemExit, match=r"made-up is 1\.0, 2\.0 is asked for: pip install made-up==2\.0"):
        peer_rows.answers(replace(peer, version="2.0"), [ROW])


@each("peer", list(PEERS.values()), ids=list(PEERS))
def test_a_table_names_its_version_and_has_two_times_or_a_reason_for_each_row(peer):
    with peer.path.open(encoding="utf-8", newline="") as file:
        assert file.readline().startswith(f"# {peer.name} {peer.version} (")
        names = [line["name"] for line in csv.DictReader(file)]
    answers = read_answers(peer.path)
    assert len(names) == len(answers) > 2_000
    assert all(answer.keys() == {"error"} or min(answer["ttft"], answer["tpot"]) > 0.0 for answer in answers.values())


def test_both_were_asked_for_the_same_rows():
    first, second = (read_answers(peer.path) for peer in PEERS.values())
    assert first.keys() == second.keys()


# Beside ours ----------------------------------------------------------------------------------------------------


def test_errors_stand_side_by_side_on_the_rows_that_all_answer():
    rows = [replace(ROW, name=name) for name in ("a", "b", "c")]
    # ours: TTFT off by 20 % everywhere, TPOT by 30 %
    runs = [
        case for _ in rows for case in (CASE, replace(CASE, metric="tpot", measured=0.01, predicted=0.007, ideal=0.005))
    ]
    right, slow = {"ttft": 0.2, "tpot": 0.01}, {"ttft": 0.3, "tpot": 0.02}  # off by 0 %; by 50 % and 100 %
    answers = {
        "aiconfigurator": {"a": slow, "b": slow, "c": {"error": "out of memory"}},
        "aisimulate": {"a": right, "b": slow, "c": right},
    }
    ttft, tpot = beside(rows, runs, answers, lambda case: f"{case.engine} {case.kind}")
    assert (ttft["metric"], ttft["slice"], ttft["split"], ttft["count"]) == ("ttft", "vllm MoE", "fit", 2)
    assert ttft["ours median"] == pytest.approx(20.0)
    assert ttft["aiconfigurator median"] == pytest.approx(50.0)
    assert (ttft["aisimulate median"], ttft["aisimulate mean"]) == pytest.approx((25.0, 25.0))
    assert ttft["ideal median"] == pytest.approx(50.0)
    assert ttft["leads"] == "ours"
    assert (tpot["ours median"], tpot["aisimulate median"], tpot["leads"]) == pytest.approx((30.0, 50.0, "ours"))
    assert beside(rows, runs, {"aisimulate": answers["aisimulate"]})[0]["leads"] == "aisimulate"
    assert [each["answered"] for each in peer_coverage(rows, answers)] == [2, 3]
