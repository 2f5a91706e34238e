"""What the catalog holds, listed and shown with sources in every format."""

import re

import pytest
from asking import answered, ask, cells, csv_rows, document, rows
from every_case import each

import roofline as rl
from roofline.catalog import find as reader

FORMATS = ("table", "markdown", "csv", "json")


def body(text, output):
    """Names in a listing."""
    if output == "csv":
        return [line[0] for line in csv_rows(text)[1]]
    if output == "markdown":
        heading, *lines = cells(text)
        return [line[heading.index("GPU" if "GPU" in heading else "model")] for line in lines]
    heading, *lines = text.rstrip("\n").split("\n")
    if "GPU" in heading.split():
        marks = ("* calibrated", "+ same generation", "? not timed")
        assert lines.pop().split("  ") == [mark for mark in marks if any(line[0] == mark[0] for line in lines)]
        lines = [line[1:] for line in lines]
    return [line.split()[0] for line in lines]


@each(("listing", "names"), [("gpus", rl.gpus), ("models", rl.models)])
@each("output", ["table", "markdown", "csv"])
def test_a_listing_holds_every_entry_once(listing, names, output):
    assert body(answered(listing, "-f", output), output) == list(names())


@pytest.mark.parametrize(("listing", "key", "names"), [("gpus", "gpu", rl.gpus), ("models", "model", rl.models)])
def test_a_listing_in_json_keeps_the_contract(listing, key, names):
    found = document(listing)
    assert list(found) == ["schema_version", "rows"]
    assert found["schema_version"] == 1
    assert [line[key] for line in found["rows"]] == list(names())
    assert csv_rows(answered(listing, "-f", "csv"))[0] == list(found["rows"][0])


def test_a_row_of_a_gpu_has_its_figures_in_their_own_units():
    (line,) = [line for line in rows("gpus") if line["gpu"] == "h100-sxm"]
    expected = {
        "vendor": "NVIDIA", "generation": "hopper", "bf16_tflop_s": 989.4, "fp8_tflop_s": 1978.9, "fp4_tflop_s": None,
        "bandwidth_tb_s": 3.35, "memory_gb": 79.65 * 1.024**3, "link_gb_s": 450.0, "domain": 8, "power_w": 700.0,
        "usd_per_hour": 2.95, "price_date": "2026-05-20", "basis": "calibrated",
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
    assert {
        "memory.label",
        "memory.usable",
        "memory.bandwidth",
        "scale_up.bandwidth",
    } <= set(fields)
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


@each(("listing", "name"), [("gpus", "h100-sxm"), ("models", "deepseek-v3")])
@each("output", FORMATS)
def test_the_sources_are_shown_in_every_format(listing, name, output):
    text = answered(listing, "show", name, "-f", output, "--all", env={"COLUMNS": "400"})
    for line in rows(listing, "show", name):
        title = line["source"].replace('"', '""') if output == "csv" else line["source"].replace('"', '\\"')
        assert title.split('"')[0][:40] in text
        assert line["date"] in text
        assert line["field"] in text


@pytest.mark.parametrize(("listing", "name"), [("gpus", "h100-sxm"), ("models", "deepseek-v3")])
def test_for_people_the_addresses_of_all_sources_stand_below(listing, name):
    text = answered(listing, "show", name, "--all", env={"COLUMNS": "600"})
    for line in rows(listing, "show", name):
        assert f"[{line['date']}] {line['source']} {line['url']}" in text


def test_a_model_is_shown_with_its_layers_and_formats():
    text = answered("models", "show", "deepseek-v3")
    assert "deepseek-v3 (deepseek-ai/DeepSeek-V3): 61 layers, width 7168" in text
    assert "671,026,419,200" in text
    assert "58 x mla (heads 128" in text
    assert "linear fp8_block" in text


@pytest.mark.parametrize("name", ["H100", "h100 sxm", "HGX_H100"])
def test_a_gpu_is_shown_under_any_of_its_names(name):
    assert answered("gpus", "show", name) == answered("gpus", "show", "h100-sxm")


@pytest.mark.parametrize(("listing", "near"), [("gpus", "h100-sxm"), ("models", "gpt-oss-20b")])
def test_an_unknown_entry_is_answered_with_the_nearest(listing, near):
    asked = {"gpus": "h10", "models": "gpt-oss-21b"}[listing]
    result = ask(listing, "show", asked)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert f"{asked!r}; did you mean " in result.stderr
    assert near in result.stderr


@each("arguments", [("show",), ("show", "h100", "b200"), ("-f", "xml"), ("--everything",)])
@each("listing", ["gpus", "models"])
def test_a_wrong_use_ends_in_exit_code_2(listing, arguments):
    result = ask(listing, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(("listing", "name"), [("gpus", "h100-sxm"), ("models", "llama-3.1-8b")])
def test_an_option_before_show_is_not_ignored(listing, name):
    result = ask(listing, "-f", "json", "show", name)
    assert result.exit_code == 2 or result.stdout == answered(listing, "show", name, "-f", "json")


@pytest.mark.parametrize("listing", ["gpus", "models"])
def test_a_folder_that_is_none_gives_one_message(listing):
    result = ask(listing, "--specs", "no-such-folder")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: no-such-folder: ")
    assert result.stderr.count("\n") == 1


def test_listings_are_data_on_stdout_and_say_nothing_beside():
    for arguments in (("gpus",), ("models",), ("gpus", "show", "b200"), ("models", "show", "qwen3-32b")):
        result = ask(*arguments)
        assert result.exit_code == 0
        assert result.stderr == ""


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
], ids=lambda part: " ".join(part) if isinstance(part, tuple) else "")  # fmt: skip
def test_a_listing_is_narrowed_like_that_of_the_api(arguments, chosen):
    assert len(chosen()) > 0
    assert body(answered(*arguments), "table") == list(chosen())
    assert [line.get("gpu", line.get("model")) for line in rows(*arguments)] == list(chosen())


@pytest.mark.parametrize("arguments, words", [
    (("gpus", "--vendor", "acme"), "no GPU has vendor 'acme'; choose from AMD"),
    (("gpus", "--generation", "volta"), "choose from ada"),
    (("gpus", "--status", "sold"), "shipping"),
    (("models", "--family", "bert"), "no model has family 'bert'; choose from "),
    (("models", "--min-size", "8B", "--max-size", "7B"), "exceed"),
])  # fmt: skip
def test_an_unknown_kind_is_answered_with_the_known_ones(arguments, words):
    result = ask(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert words in result.stderr


@each("size", ["", "big", "-7B", "7GB", "0", "1e9"])
def test_a_size_that_is_none_is_a_wrong_use(size):
    result = ask("models", "--min-size", size)
    assert result.exit_code == 2
    assert "such as 7B" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("gpus", "--vendor", "amd", "show", "h100"), ("models", "--moe", "show", "qwen3-32b")]
)
def test_what_chooses_among_many_does_not_go_with_show(arguments):
    assert ask(*arguments).exit_code == 2


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


def test_for_people_a_link_is_per_direction_and_usable_memory_in_gib_stands_beside_the_label():
    text = answered("gpus", "show", "mi300x", "--all", env={"COLUMNS": "200"})
    assert "memory: 192 GiB usable (206 GB), sold as 192 GB; 5.3 TB/s" in text
    assert "448 GB/s per direction and GPU, 64 GB/s to one peer, 8 GPUs" in text
    assert re.search(r"scale_up\.peer_bandwidth +64 GB/s per direction", text)
    assert re.search(r"host_link\.bandwidth +63 GB/s per direction", text)
    assert re.search(r"memory\.usable +191\.98 GiB \(206 GB\)", text)
    assert "rocminfo pool of 201310208 KB" in text
    assert "- A dense FP16 peak of 2615 TFLOP/s" in text


def test_for_programs_the_document_has_si_values_beside_the_texts():
    found = document("gpus", "show", "h100-sxm")
    memory = found["document"]["memory"]
    assert memory["bandwidth"]["value"] == "3.35 TB/s"
    assert (memory["bandwidth"]["si_value"], memory["bandwidth"]["si_unit"]) == (3.35e12, "B/s")
    assert memory["usable"]["si_value"] == pytest.approx(79.65 * 2**30, rel=1e-12)
    assert found["document"]["scale_out"]["bandwidth"]["si_value"] == pytest.approx(50e9)
    assert found["document"]["price"]["si_value"]["typical"] == pytest.approx(2.95 / 3600.0)
    assert found["document"]["name"] == "h100-sxm"
    assert found["document"]["sources"]["aimultiple"]["date"] == "2026-05-20"
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
