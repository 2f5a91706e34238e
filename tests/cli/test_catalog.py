"""What the catalog holds, listed, shown with sources, checked and imported."""

import json
import re

import pytest
from asking import answered, ask, cells, csv_rows, document, rows
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.catalog import find as reader
from roofline.catalog.checks import checked_document
from roofline.cli.catalog import models
from roofline.support.errors import BadInput, BadSpec, UnknownName


def body(text, output):
    """Names in a listing."""
    if output == "csv":
        return [line[0] for line in csv_rows(text)[1]]
    if output == "markdown":
        heading, *lines = cells(text)
        return [line[heading.index("GPU" if "GPU" in heading else "model")] for line in lines]
    heading, *lines = text.rstrip("\n").split("\n")
    if "GPU" in heading.split():
        marks = ("* calibrated", "+ same generation", "# servers alone", "? not timed", "~ announced")
        assert lines.pop().split("  ") == [mark for mark in marks if any(line[0] == mark[0] for line in lines)]
        lines = [line[1:] for line in lines]
    return [line.split()[0] for line in lines]


@each(("listing", "names"), [("gpus", rl.gpus), ("models", rl.models)])
@each("output", ["table", "markdown", "csv"])
def test_a_listing_holds_every_entry_once(listing, names, output):
    assert body(answered(listing, "-f", output), output) == list(names())


def test_a_row_of_a_gpu_has_its_figures_in_their_own_units():
    (line,) = [line for line in rows("gpus") if line["gpu"] == "h100-sxm"]
    expected = {
        "vendor": "NVIDIA", "generation": "hopper", "bf16_tflop_s": 989.4, "fp8_tflop_s": 1978.9, "fp4_tflop_s": None,
        "bandwidth_tb_s": 3.35, "memory_gb": 79.65 * 1.024**3, "link_gb_s": 450.0, "domain": 8, "power_w": 700.0,
        "usd_per_hour": 3.99, "usd_per_hour_low": 2.25, "price_date": "2026-09-19", "price_age_days": 69,
        "basis": "calibrated",
    }  # fmt: skip
    for key, value in expected.items():
        assert line[key] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value), key
    assert "h100" in line["aliases"]


def test_a_row_of_a_model_has_its_parameters_in_billions():
    (line,) = [line for line in rows("models") if line["model"] == "llama-3.1-8b"]
    assert line["model_id"] == "meta-llama/Llama-3.1-8B"
    assert line["layers"] == 32
    assert line["parameters_b"] == pytest.approx(8.030261248, rel=1e-12)
    assert line["stated_parameters_b"] == pytest.approx(8.030261248, rel=1e-12)
    assert line["weight_dtype"] == "bf16"
    assert line["max_context"] == 131072


def test_counted_parameters_agree_with_the_stated_ones_or_a_note_says_why():
    stated = [line for line in rows("models") if line["stated_parameters_b"] is not None]
    assert len(stated) > len(rl.models()) / 2
    for line in stated:
        if line["parameters_b"] != pytest.approx(line["stated_parameters_b"], rel=0.01):
            assert reader.document(line["model"], "model")["parameters"]["total"]["note"], line["model"]


@each("name", rl.gpus())
def test_every_figure_of_a_gpu_is_shown_with_unit_source_and_date(name):
    found = rows("gpus", "show", name)
    fields = [line["field"] for line in found]
    assert {"memory.label", "memory.usable", "memory.bandwidth"} <= set(fields)
    assert ("scale_up.bandwidth" in fields) == (rl.load_gpu(name).link.kind != "none")
    assert len(fields) == len(set(fields))
    for line in found:
        assert line["source"]
        assert re.fullmatch(r"\d{4}(-\d{2}){0,2}", line["date"])
    values = {line["field"]: line["value"] for line in found}
    assert all(value.endswith((" TFLOP/s", " TOP/s")) for field, value in values.items() if field.startswith("peak."))
    assert values.get("power", "700 W").endswith(" W")
    assert "USD/h" in values.get("price", "2 USD/h")


@each("name", rl.models())
def test_every_figure_of_a_model_is_shown_with_source_and_date(name):
    found = rows("models", "show", name)
    assert "architecture" in [line["field"] for line in found]
    for line in found:
        assert line["source"]
        assert re.fullmatch(r"\d{4}(-\d{2}){0,2}", line["date"])


@pytest.mark.parametrize(("listing", "name"), [("gpus", "h100-sxm"), ("models", "deepseek-v3")])
def test_for_people_the_addresses_of_all_sources_stand_below(listing, name):
    text = answered(listing, "show", name, "--all", env={"COLUMNS": "600"})
    for line in rows(listing, "show", name):
        assert f"[{line['date']}] {line['source']} {line['url']}" in text


@pytest.mark.parametrize("name", ["H100", "h100 sxm", "HGX_H100"])
def test_a_gpu_is_shown_under_any_of_its_names(name):
    assert answered("gpus", "show", name) == answered("gpus", "show", "h100-sxm")


@pytest.mark.parametrize(("listing", "name"), [("gpus", "h100-sxm"), ("models", "llama-3.1-8b")])
def test_an_option_before_show_is_not_ignored(listing, name):
    result = ask(listing, "-f", "json", "show", name)
    assert result.exit_code == 2 or result.stdout == answered(listing, "show", name, "-f", "json")


# --- chosen by kind ----------------------------------------------------------------------------


@each("arguments, chosen", [
    (("gpus", "--vendor", "amd"), lambda: rl.gpus(vendor="amd")),
    (("gpus", "--generation", "blackwell"), lambda: rl.gpus(generation="blackwell")),
    (("gpus", "--status", "shipping", "--vendor", "nvidia"), lambda: rl.gpus(status="shipping", vendor="nvidia")),
    (("models", "--family", "qwen"), lambda: rl.models(family="qwen")),
    (("models", "--min-size", "7B", "--max-size", "80b"), lambda: rl.models(min_parameters=7e9, max_parameters=8e10)),
    (("models", "--min-size", "0.5T"), lambda: rl.models(min_parameters=5e11)),
    (("models", "--max-size", "8000000000"), lambda: rl.models(max_parameters=8e9)),
    (("models", "--moe"), lambda: rl.models(moe=True)),
    (("models", "--dense", "--family", "llama"), lambda: rl.models(moe=False, family="llama")),
], ids=lambda part: " ".join(part) if isinstance(part, tuple) else "", few=4)  # fmt: skip
def test_a_listing_is_narrowed_like_that_of_the_api(arguments, chosen):
    assert len(chosen()) > 0
    assert body(answered(*arguments), "table") == list(chosen())
    assert [line.get("gpu", line.get("model")) for line in rows(*arguments)] == list(chosen())


def test_nothing_left_is_an_empty_listing_and_a_word():
    result = ask("gpus", "--vendor", "amd", "--generation", "hopper")
    assert result.exit_code == 0
    assert result.stdout.startswith("nothing in the catalog ")
    assert result.stdout.count("\n") == 1
    assert result.stderr == ""
    assert rows("gpus", "--vendor", "amd", "--generation", "hopper") == []


# --- shown in full -----------------------------------------------------------------------------


def test_a_listing_in_a_pipe_is_whole_and_a_table_of_answers_has_ten_rows():
    listing = answered("gpus")
    assert answered("gpus", "--all") == listing
    assert len(listing.split("\n")) > len(rl.gpus())
    text = answered("ttft", "-m", "llama-3.1-8b")
    assert sum(" 1x " in line for line in text.split("\n")) == 10
    assert f"\n{len(rl.gpus()) - 10} more: --all \u00b7 " in text


def test_for_programs_the_document_has_si_values_beside_the_texts():
    found = document("gpus", "show", "h100-sxm")
    memory = found["document"]["memory"]
    assert memory["bandwidth"]["value"] == "3.35 TB/s"
    assert (memory["bandwidth"]["si_value"], memory["bandwidth"]["si_unit"]) == (3.35e12, "B/s")
    assert memory["usable"]["si_value"] == pytest.approx(79.65 * 2**30, rel=1e-12)
    assert found["document"]["scale_out"]["bandwidth"]["si_value"] == pytest.approx(50e9)
    assert found["document"]["price"]["si_value"]["typical"] == pytest.approx(3.99 / 3600.0)
    assert found["document"]["name"] == "h100-sxm"
    assert found["document"]["sources"][found["document"]["price"]["source"]]["date"] == "2026-09-19"
    (line,) = [line for line in found["rows"] if line["field"] == "memory.bandwidth"]
    assert (line["value"], line["si_value"], line["si_unit"]) == ("3.35 TB/s", 3.35e12, "B/s")


def test_a_model_is_shown_with_its_counts_and_its_cache():
    text = " ".join(answered("models", "show", "llama-3.1-8b").split())
    assert (
        "parameters 8,030,261,248, active 7,504,924,672 (without input embedding); stated total 8,030,261,248" in text
    )
    assert "cache: 131,072 B per token in bf16" in text
    found = document("models", "show", "deepseek-v3")
    assert found["counted"]["parameters"] == 671026419200
    assert found["counted"]["kv_bytes_per_token"] == 61 * (512 + 64) * 2
    assert found["counted"]["state_bytes_per_sequence"] == 0
    assert found["document"]["parameters"]["total"]["si_value"] == 671026419200
    assert found["document"]["groups"][1]["ffn"]["experts"] == 256


def test_a_windowed_model_says_what_its_cache_grows_by():
    text = answered("models", "show", "gemma-3-27b")
    assert re.search(r"cache: 507,904 B per token in bf16, 81,920 B .*windows", text)
    assert "    5 x gqa (heads 32, kv_heads 16, head_dim 128, v_head_dim 128, window 1024" in text


def test_a_model_of_a_configuration_is_shown_with_what_it_amounts_to(tmp_path):
    config = (
        '{"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, '
        '"num_key_value_heads": 2, "intermediate_size": 1024, "vocab_size": 1000, "torch_dtype": "bfloat16"}'
    )
    (tmp_path / "config.json").write_text(config)
    assert "2 layers, width 512" in " ".join(answered("models", "show", str(tmp_path)).split())
    found = document("models", "show", str(tmp_path / "config.json"))
    assert found["document"]["groups"][0]["mixer"]["kv_heads"] == 2


GPU = """\
name: my-gpu
vendor: Acme
generation: acme-1
peak: {bf16: {value: 1000 TFLOP/s, source: sheet}}
memory:
  label: {value: 96 GB, source: sheet}
  usable: {value: 94 GiB, source: sheet}
  bandwidth: {value: 4 TB/s, source: sheet}
scale_up: {kind: link, bandwidth: {value: 450 GB/s, source: sheet}, domain: {value: 8, source: sheet}}
sources:
  sheet: {title: Acme data sheet, date: 2026-01-02}
"""


def test_all_is_well_in_one_line(tmp_path):
    (tmp_path / "a.yaml").write_text(GPU)
    assert answered("check-specs", tmp_path) == "1 GPU: no faults\n"
    (tmp_path / "b.yaml").write_text(GPU.replace("my-gpu", "other-gpu"))
    assert answered("check-specs", tmp_path) == "2 GPUs: no faults\n"
    assert answered("check-specs", tmp_path / "a.yaml") == "1 GPU: no faults\n"


def test_the_shipped_catalogs_are_checked_by_default():
    result = ask("check-specs")
    faults = rl.check_specs()
    assert result.exit_code == (1 if faults else 0)
    assert f"{len(rl.gpus())} GPUs, {len(rl.models())} models, " in result.output
    assert result.stdout.splitlines()[: len(faults)] == faults


def test_every_fault_is_printed_with_file_line_and_field(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(GPU.replace("4 TB/s", "4 GB/s").replace("96 GB", "96").replace("vendor", "vender"))
    result = ask("check-specs", tmp_path)
    assert result.exit_code == 1
    assert [line.split(": ")[:2] for line in result.stdout.splitlines()] == [
        [f"{path}:1", "vendor"],
        [f"{path}:2", "vender"],
        [f"{path}:6", "memory.label.value"],
        [f"{path}:8", "memory.bandwidth"],
    ]
    assert result.stderr == "4 faults in 1 GPU\n"


@pytest.mark.parametrize("content", ["", "- a list", "name: [", "\x00", "name: a\nname: b\n"])
def test_a_file_that_is_hardly_a_specification_is_a_fault_and_no_traceback(tmp_path, content):
    (tmp_path / "a.yaml").write_text(content)
    result = ask("check-specs", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path / 'a.yaml'}:")


@pytest.mark.parametrize("name", ["missing", "empty", "text.txt", "zero\0"])
def test_where_nothing_is_found_it_is_said(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text(GPU)
    result = ask("check-specs", f"{tmp_path}/{name}")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {tmp_path}/{name.split(chr(0))[0]}")


CONFIG = {
    "model_type": "newcomer", "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
    "intermediate_size": 192, "vocab_size": 1000,
}  # fmt: skip


def written(folder, content=CONFIG):
    path = folder / "config.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def run(*arguments):
    return CliRunner().invoke(models, ["import", "--assume", "llama", *arguments], catch_exceptions=True)


def test_an_unknown_family_is_refused_unless_one_is_assumed_and_every_row_then_says_so(tmp_path):
    path = written(tmp_path)
    refused = CliRunner().invoke(models, ["import", path])
    assert isinstance(refused.exception, BadSpec)
    assert "model_type: 'newcomer' is unknown" in str(refused.exception)
    with pytest.raises(BadSpec, match="`assume` llama"):
        rl.predict(path, "h100-sxm")
    said = "model_type 'newcomer' is unknown: read as llama, as assumed; its counts may be wrong"
    for row in (
        rl.predict(path, "h100-sxm", assume="llama").to_dict(),
        rl.table(path, ["h100-sxm"], assume="llama", keys=["warnings"])[0],
        rl.size(path, "h100-sxm", slo="tpot:25", assume="llama").cheapest.prediction.to_dict(),
        rl.goodput(path, ["h100-sxm"], slo="tpot:25", tp=1, assume="llama")[0].prediction.to_dict(),
    ):
        assert said in row["warnings"]
    assert said in rl.load_model(path, assume="llama").cautions


def test_without_a_file_to_write_the_specification_is_printed_and_cautions_go_aside(tmp_path):
    result = run(written(tmp_path), "--name", "org/mine")
    assert result.exit_code == 0
    assert result.stdout.startswith("name: org/mine\naliases: [mine]\n")
    assert "note: model_type 'newcomer' is " in result.stderr


def test_a_written_file_keeps_the_schema(tmp_path):
    output = tmp_path / "mine.yaml"
    result = run(written(tmp_path), "-o", str(output))
    assert result.exit_code == 0
    assert result.stdout == ""
    assert checked_document(str(output))["hidden"] == 64


def test_a_file_is_overwritten_by_force_alone(tmp_path):
    output = tmp_path / "mine.yaml"
    output.write_text("precious", encoding="utf-8")
    refused = run(written(tmp_path), "-o", str(output))
    assert isinstance(refused.exception, BadInput)
    assert "`force`" in str(refused.exception)
    assert output.read_text(encoding="utf-8") == "precious"
    assert run(written(tmp_path), "-o", str(output), "--force").exit_code == 0
    assert checked_document(str(output))["hidden"] == 64


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    result = run(written(tmp_path), "-o", str(tmp_path / "nowhere" / "mine.yaml"))
    assert isinstance(result.exception, BadInput)


@pytest.mark.parametrize(("argument", "error"), [("nothing.json", BadSpec), ("no such thing", UnknownName)])
def test_what_is_no_configuration_is_refused(argument, error):
    assert isinstance(run(argument).exception, error)
