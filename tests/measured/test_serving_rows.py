"""How labels of the published serving measurements are read: one trap a test, from lines written by hand."""

import csv
import io

import pool_rows
import pytest
import serving_rows
from every_case import each

import roofline as rl

PLAN = ["tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"]
COLUMNS = [
    "id", "silicon_data_source", "backend", "backend_version", "model_path", "system", "precision", "mode", "isl",
    "osl", "gemm_quant_mode", "moe_quant_mode", "batch_size", *PLAN,
    *(f"{pool}_{name}" for pool in ("prefill", "decode") for name in ("batch_size", "num_workers", *PLAN)),
    "silicon_ttft_ms", "silicon_tpot_ms",
]  # fmt: skip
IMAGES = {
    "trtllm": "nvcr.io/nvidia/tensorrt-llm/release:{}",
    "sglang": "lmsysorg/sglang:{}",
    "vllm": "vllm/vllm-openai:{}",
}
R1, QWEN, GPT_OSS = "deepseek-ai/DeepSeek-R1", "Qwen/Qwen3-32B", "openai/gpt-oss-120b"
MINIMAX, QWEN35 = "MiniMaxAI/MiniMax-M2.5", "Qwen/Qwen3.5-397B-A17B"


def line(
    plan="8/1/8/1", *, export="2026-03-25.csv", concurrency=16, measured="2026-02-25", tag="", config="", **fields
):
    """One line of InferenceX; a plan is tp, attention dp, MoE tp and MoE ep as printed."""
    engine = fields.setdefault("backend", "vllm")
    image = IMAGES[engine].format(tag) if tag else ""
    if export.startswith("db-dump"):
        note = f"{export}; config_id={config or 1}; silicon_concurrency={concurrency}; "
        note += f"measured={measured}T00:00:00.000Z; workflow_run_id=259" + (f"; {image}" if image else "")
    else:
        note = f"source_file={export}; model=X; silicon_concurrency={concurrency}; measured={measured}; wip=False"
        note += f"; image={image}" if image else ""
    tp, dp, moe_tp, moe_ep = plan.split("/")
    given = {
        "id": "a run", "silicon_data_source": note, "backend_version": tag, "model_path": GPT_OSS, "system": "b200_sxm",
        "precision": "fp4", "mode": "agg", "isl": 1024, "osl": 1024, "batch_size": concurrency, "tp_size": tp,
        "pp_size": 1, "attention_dp_size": dp, "moe_tp_size": moe_tp, "moe_ep_size": moe_ep,
        "silicon_ttft_ms": 100.0, "silicon_tpot_ms": 10.0,
    }  # fmt: skip
    return {**dict.fromkeys(COLUMNS, ""), **given, **fields}


def sweep(plan="2//1/1", *, concurrency=16, dynamo=False, **fields):
    """One line of NVIDIA's own sweeps."""
    note = "source_file=/home/somebody/data/h100_sxm/trtllm/1.0.0rc3/model.csv"
    note += "" if concurrency is None else f"; silicon_concurrency={concurrency}"
    note += "; measured=2026-03-17; image=nvcr.io/a/runtime:0.9.0; dynamo_version=0.9.0" if dynamo else ""
    given = {"backend": "trtllm", "tag": "", "model_path": QWEN, "system": "h100_sxm", "precision": "fp8", **fields}
    return line(plan, concurrency=concurrency or 28, **given) | {"silicon_data_source": note}


def written(lines, columns):
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def read(*lines, impossible=None):
    return serving_rows.read_rows(written(lines, COLUMNS).splitlines(keepends=True), impossible)


def one(*arguments, **fields):
    return read(line(*arguments, **fields))[0]


def degrees(row):
    return row.tp, row.ep, row.dp, row.num_gpus


# Parallel degrees -----------------------------------------------------------------------------------------------


@each(
    ("printed", "meant", "label", "fields"),
    [
        ("4/1/4/1", (4, 1, 1, 4), "printed", {}),
        # a label that multiplies tp by ep is taken apart
        *(
            (printed, meant, "product", {"backend": "trtllm", "export": "2026-04-06.csv"})
            for printed, meant in (
                ("64/1/8/8", (8, 8, 1, 8)), ("16/1/4/4", (4, 4, 1, 4)), ("4/1/2/2", (2, 2, 1, 2)),
                ("1/64/8/8", (1, 8, 8, 8)), ("1/4/2/2", (1, 2, 2, 2)),
            )
        ),
        # the same plans printed without a product
        ("8/1/1/8", (8, 8, 1, 8), None, {"backend": "trtllm"}),
        ("1/8/1/8", (1, 8, 8, 8), None, {"backend": "trtllm"}),
        ("1/4/4/1", (1, 1, 4, 4), None, {"backend": "trtllm"}),  # experts cut by all data-parallel ranks: four GPUs
        # tp equal to dp under vLLM is tp GPUs with expert parallelism
        ("2/2/1/4", (2, 2, 1, 2), None, {"model_path": MINIMAX, "precision": "fp8", "backend_version": "0.19.0"}),
        ("4/4/1/16", (4, 4, 1, 4), None, {"model_path": MINIMAX, "precision": "fp8", "backend_version": "0.19.0"}),
        ("4/4/1/16", (4, 1, 1, 4), None, {"model_path": "moonshotai/Kimi-K2.5"}),  # whose script has no experts apart
    ],
)  # fmt: skip
def test_a_printed_plan_is_read_as_its_run_was_meant(printed, meant, label, fields):
    row = one(printed, **fields)
    assert degrees(row) == meant
    assert label in (None, row.label)


def test_of_two_configurations_with_one_label_the_known_one_is_data_parallel():
    plain, parallel = (
        one("2/2/1/4", model_path=MINIMAX, export="db-dump/2026-04-27", config=config) for config in ("706", "707")
    )
    assert degrees(plain) == (2, 2, 1, 2)
    assert degrees(parallel) == (1, 2, 2, 2)


@pytest.mark.parametrize(
    ("concurrency", "isl", "meant"),
    [(8, 1024, (8, 1, 1, 8)), (16, 1024, (8, 8, 1, 8)), (256, 1024, (1, 8, 8, 8)), (64, 8192, (1, 8, 8, 8))],
)
def test_before_ep_was_recorded_the_launch_script_chose_it_by_concurrency(concurrency, isl, meant):
    fields = {"backend": "trtllm", "model_path": R1, "export": "2026-04-06.csv", "isl": isl}
    row = one("8/1/8/1", concurrency=concurrency, measured="2025-11-02", **fields)
    assert degrees(row) == meant
    assert row.label == "recipe"
    assert degrees(one("8/1/8/1", concurrency=concurrency, measured="2025-11-10", **fields)) == (8, 1, 1, 8)


@pytest.mark.parametrize(
    ("printed", "meant"),
    [("1//4/1", (1, 1, 4, 4)), ("2//4/1", (2, 1, 2, 4)), ("4//1/4", (4, 4, 1, 4)), ("4//2/2", (4, 2, 1, 4))],
)
def test_a_blank_dp_of_a_sweep_follows_from_the_ranks_of_the_experts(printed, meant):
    row = read(sweep(printed, model_path="Qwen/Qwen3-235B-A22B-FP8", system="h200_sxm", backend="vllm"))[0]
    assert degrees(row) == meant
    assert degrees(read(sweep("2/0/0/0"))[0]) == (2, 1, 1, 2)  # zero degrees of a dense model are one


# Speculation ----------------------------------------------------------------------------------------------------


TRTLLM_R1 = {"backend": "trtllm", "model_path": R1}
ONE_IMAGE = {**TRTLLM_R1, "tag": "1.1.0rc2.post2", "system": "h200_sxm"}


@each(
    ("plan", "fields", "verdict"),
    [
        # an image used by speculative configurations alone marks its runs
        ("8/1/8/1", {**TRTLLM_R1, "tag": "1.2.0rc6.post2", "measured": "2026-02-06"}, "no"),
        ("8/1/8/1", {**TRTLLM_R1, "tag": "1.2.0rc6.post3", "measured": "2026-02-06"}, "yes"),
        # one image turned speculative on the day its configurations were added
        ("8/1/1/8", {**ONE_IMAGE, "measured": "2025-12-15"}, "no"),
        ("8/1/1/8", {**ONE_IMAGE, "measured": "2026-01-14"}, "yes"),
        ("8/1/1/8", {**ONE_IMAGE, "measured": "2026-01-28"}, "no"),
        ("1/8/1/8", {**ONE_IMAGE, "measured": "2026-01-28"}, "yes"),
        # two spellings of one image tell drafts apart
        ("4/1/4/1", {"backend": "sglang", "model_path": QWEN35, "precision": "fp8", "tag": "v0.5.9-cu130"}, "yes"),
        ("4/1/4/1", {"backend": "sglang", "model_path": QWEN35, "precision": "fp8", "tag": "v0.5.9-cu130-amd64"}, "no"),
        # a model without a published speculative configuration ran plain
        ("8/1/8/1", {"backend": "trtllm", "tag": "1.2.0rc6.post3", "measured": "2026-03-25"}, "no"),
        ("8/1/8/1", {**TRTLLM_R1, "tag": "9.9", "measured": "2026-03-25"}, "unknown"),  # no rule covers its image
    ],
)
def test_an_image_its_date_and_its_plan_say_whether_a_run_had_drafts(plan, fields, verdict):
    row = one(plan, **fields)
    assert row.speculative == verdict
    if fields.get("model_path") == R1:
        excluded = {"no": None, "yes": "speculative", "unknown": "speculation unknown"}
        assert row.excluded == excluded[verdict]


def test_what_the_plain_export_also_holds_is_not_speculative():
    fields = {"backend": "sglang", "model_path": R1, "precision": "fp8", "tag": "v0.5.9-cu130"}
    fields |= {"backend_version": "0.5.9", "measured": "2026-03-25"}
    twin = {**fields, "export": "db-dump/2026-04-27", "model_path": "deepseek-ai/DeepSeek-V3"}
    found = read(*(line(**run, silicon_tpot_ms=ms) for run, ms in ((fields, 8.76), (fields, 6.70), (twin, 8.76))))
    assert [row.speculative for row in found] == ["no", "yes", "no"]
    assert [row.excluded for row in found] == [None, "speculative", "duplicate"]


# Duplicates -----------------------------------------------------------------------------------------------------


def test_of_one_run_in_three_exports_the_most_trusted_label_stays():
    old = line("16/1/4/4", export="2026-04-06.csv", silicon_tpot_ms=9.944163)
    rounded = line("4/1/1/4", export="qwen3.5-397b-gap-analysis.csv", silicon_tpot_ms=9.94)
    best = line("4/1/1/4", export="2026-03-25.csv", silicon_tpot_ms=9.944163)
    assert [row.excluded for row in read(old, rounded, best)] == ["duplicate", "duplicate", None]


def test_an_exact_repetition_is_a_duplicate_and_another_time_is_not():
    found = read(line(), line(), line(silicon_tpot_ms=10.1))
    assert [row.excluded for row in found] == [None, "duplicate", None]


# Load, lengths, formats -----------------------------------------------------------------------------------------


def test_lengths_of_inferencex_are_nine_tenths_of_nominal_and_those_of_sweeps_exact():
    drawn, exact = one(isl=8192), read(sweep(isl=4096, osl=128))[0]
    assert (drawn.isl, drawn.mean_isl, drawn.mean_osl) == (8192, pytest.approx(7372.8), pytest.approx(921.6))
    assert (exact.mean_isl, exact.mean_osl) == (4096, 128)
    assert (drawn.prompts_per_user, drawn.states_prompts) == (10.0, True)
    assert (exact.prompts_per_user, exact.states_prompts) == (10.0, False)


def test_times_are_in_seconds_and_concurrency_is_that_of_the_run_not_the_batch_field():
    row = one(silicon_ttft_ms=250.0, silicon_tpot_ms=12.5, concurrency=64, batch_size=8)
    assert (row.ttft, row.tpot, row.concurrency) == (pytest.approx(0.25), pytest.approx(0.0125), 64)


def test_a_deployment_whose_replicas_are_not_stated_is_not_used():
    stated, unstated = read(sweep("2/1/1/1", concurrency=416, batch_size=13, dynamo=True), sweep(concurrency=None))
    assert (stated.source, stated.excluded) == ("other", "unclear deployment")
    assert unstated.concurrency == 28


def test_overload_begins_at_512_requests():
    assert [one(concurrency=c).excluded for c in (256, 512, 2048)] == [None, "overloaded", "overloaded"]


def test_the_caller_judges_physics_and_is_asked_of_usable_rows_only():
    asked = []

    def impossible(row):
        asked.append(row.tpot)
        return row.tpot < 0.005

    lines = (line(silicon_tpot_ms=3.6), line(silicon_tpot_ms=9.0), line(silicon_tpot_ms=1.0, concurrency=512))
    assert [row.excluded for row in read(*lines, impossible=impossible)] == ["impossible", None, "overloaded"]
    assert asked == [pytest.approx(0.0036), pytest.approx(0.009)]
    assert [row.excluded for row in read(*lines)] == [None, None, "overloaded"]


def test_a_blank_precision_is_the_checkpoint_in_16_bit_and_said():
    row = read(sweep(precision="", backend="sglang"))[0]
    assert (row.quantization, row.kv_cache_dtype, row.precision_stated) == (None, "bf16", False)
    stated = read(sweep())[0]
    assert (stated.quantization, stated.kv_cache_dtype, stated.precision_stated) == ("fp8_static", "fp8", True)


@each(
    ("fields", "dtype", "known"),
    [
        ({"backend": "trtllm"}, "fp8", True),
        ({"backend": "trtllm", "system": "h200_sxm"}, "bf16", True),  # gpt-oss: dtype auto in its script
        ({"backend": "vllm", "backend_version": "0.15.1"}, "fp8", True),
        ({"backend": "vllm"}, "bf16", True),  # the first runs, before the script asked for fp8
        ({"backend": "vllm", "system": "h100_sxm"}, "bf16", True),
        ({"backend": "sglang", "model_path": R1}, "fp8", True),
        ({"backend": "sglang", "model_path": R1, "precision": "fp8", "system": "h200_sxm"}, "bf16", True),
    ],
)
def test_the_format_of_the_cache_follows_the_recipe(fields, dtype, known):
    row = one(**fields)
    assert (row.kv_cache_dtype, row.kv_cache_known) == (dtype, known)


def test_a_disaggregated_run_is_set_aside_whatever_it_is_called():
    split = line(
        "///", backend="trtllm", mode="disagg", pp_size="", decode_pp_size=1, decode_tp_size=4,
        decode_attention_dp_size=1, decode_moe_tp_size=4, decode_moe_ep_size=1,
    )  # fmt: skip
    called_aggregated = line("72/1/72/1", system="gb200", backend="sglang", model_path=R1, precision="fp8")
    for row in read(split, called_aggregated):
        assert row.disaggregated
        assert row.excluded == "disaggregated"


@each("system", ["b200_sxm", "h100_sxm", "gb200", "h200_sxm", "b300_sxm", "gb300"])
def test_siblings_of_the_fitted_gpus_are_held_out(system):
    assert one(system=system).split == ("held out" if system in ("h200_sxm", "b300_sxm", "gb300") else "fit")


@each("model", [MINIMAX, "moonshotai/Kimi-K2.5", "zhipuai/GLM-5", QWEN35])
def test_four_models_are_held_out(model):
    assert (one(model_path=model).split, one().split) == ("held out", "fit")


def test_a_model_that_nobody_has_mapped_is_refused_by_name():
    with pytest.raises(ValueError, match="acme/New-1B at precision 'fp4' is not in MODELS"):
        one(model_path="acme/New-1B")


def test_every_model_and_gpu_is_one_of_the_catalog_and_every_preset_is_accepted():
    for model, quantization in set(serving_rows.MODELS.values()):
        assert rl.predict(model, "b200", tp=8, quantization=quantization, allow_oversize=True).tpot > 0
    assert all(rl.load_gpu(name).name == name for name in serving_rows.GPUS.values())


# Rows of two pools ----------------------------------------------------------------------------------------------

BOTH = {
    "num_workers": "1", "tp_size": "1", "pp_size": "1", "attention_dp_size": "4", "moe_tp_size": "1",
    "moe_ep_size": "4", "batch_size": "1",
}  # fmt: skip
ROW = {
    "id": "one", "silicon_data_source": "db-dump/2026-04-27; silicon_concurrency=64; measured=2026-03-01",
    "backend": "sglang", "backend_version": "0.5.9", "model_path": "deepseek-ai/DeepSeek-V3", "system": "gb200",
    "precision": "fp4", "mode": "disagg", "isl": "1024", "osl": "1024", "silicon_ttft_ms": "700",
    "silicon_tpot_ms": "10",
    **{f"{part}_{name}": value for part in ("prefill", "decode") for name, value in BOTH.items()},
}  # fmt: skip


@pytest.fixture
def pools(tmp_path):
    """Rows of two pools, read from a line with some changes."""

    def read_pools(**changes):
        path = tmp_path / "rows.csv"
        path.write_text(written([{**ROW, **changes}], list(ROW)))
        return pool_rows.pool_rows(path)

    return read_pools


def slip(ranks):
    """A label that no deployment has."""
    return {"attention_dp_size": str(ranks), "moe_tp_size": str(ranks), "moe_ep_size": "1"}


def labelled(**pools):
    return {f"{pool}_{name}": value for pool, label in pools.items() for name, value in label.items()}


def test_a_printed_label_is_read_as_printed(pools):
    (row,) = pools()
    assert row.label == "printed"
    assert (row.decode.tp, row.decode.dp, row.decode.ep, row.concurrency) == (1, 4, 4, 64)
    assert row.prefill.text("gb200") == "gb200:tp1pp1dp4ep4:x1"


@pytest.mark.parametrize(
    ("decode", "label", "prefill_means", "decode_means"),
    [
        (4, "recipe", (4, 1, 1), (4, 1, 1)),  # workers of four ranks: tensor parallelism
        (32, None, (1, 4, 4), (1, 32, 32)),  # wider decode workers: experts are spread
    ],
)
def test_a_slip_is_read_as_the_plan_that_was_meant(pools, decode, label, prefill_means, decode_means):
    (row,) = pools(**labelled(prefill=slip(4), decode=slip(decode)))
    assert label in (None, row.label)
    plans = [(workers.tp, workers.dp, workers.ep) for workers in (row.prefill, row.decode)]
    assert plans == [prefill_means, decode_means]


def test_a_row_without_both_pools_is_none(pools):
    assert pools(prefill_num_workers="") == []
    assert pools(mode="agg") == []
