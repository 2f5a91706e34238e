"""What the catalog holds, listed and shown with sources in every format."""

import re

import pytest
from asking import answered, ask, cells, csv_rows, document, rows

import roofline as rl

FORMATS = ("table", "markdown", "csv", "json")


def body(text, output):
    """Names in the first column of a listing."""
    if output == "csv":
        return [line[0] for line in csv_rows(text)[1]]
    if output == "markdown":
        return [line.strip("|").split("|")[0].strip() for line in text.strip().split("\n")[2:]]
    return [line[0] for line in cells(text)[1:]]


@pytest.mark.parametrize(("listing", "names"), [("gpus", rl.gpus), ("models", rl.models)])
@pytest.mark.parametrize("output", ["table", "markdown", "csv"])
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
        "vendor": "NVIDIA",
        "generation": "hopper",
        "bf16_tflop_s": 989.4,
        "fp8_tflop_s": 1978.9,
        "fp4_tflop_s": None,
        "bandwidth_tb_s": 3.35,
        "memory_gb": 79.65 * 1.024**3,
        "link_gb_s": 450.0,
        "domain": 8,
        "power_w": 700.0,
        "usd_per_hour": 2.95,
        "price_date": "2026-05-20",
        "basis": "calibrated",
    }
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


def test_counted_parameters_agree_with_the_stated_ones():
    for line in rows("models"):
        assert line["stated_parameters_b"] is not None
        assert line["parameters_b"] == pytest.approx(line["stated_parameters_b"], rel=0.01), line["model"]


@pytest.mark.parametrize("name", rl.gpus())
def test_every_figure_of_a_gpu_is_shown_with_unit_source_and_date(name):
    found = rows("gpus", "show", name)
    fields = [line["field"] for line in found]
    assert {
        "peak.bf16",
        "memory.label",
        "memory.usable",
        "memory.bandwidth",
        "scale_up.bandwidth",
        "power",
        "price",
    } <= set(fields)
    assert len(fields) == len(set(fields))
    for line in found:
        assert line["source"]
        assert re.fullmatch(r"\d{4}(-\d{2}){0,2}", line["date"])
        assert line["url"].startswith("https://")
    values = {line["field"]: line["value"] for line in found}
    assert values["peak.bf16"].endswith(" TFLOP/s")
    assert values["power"].endswith(" W")
    assert "USD/h" in values["price"]


@pytest.mark.parametrize("name", rl.models())
def test_every_figure_of_a_model_is_shown_with_source_and_date(name):
    found = rows("models", "show", name)
    assert "architecture" in [line["field"] for line in found]
    for line in found:
        assert line["source"]
        assert re.fullmatch(r"\d{4}(-\d{2}){0,2}", line["date"])


@pytest.mark.parametrize(("listing", "name"), [("gpus", "h100-sxm"), ("models", "deepseek-v3")])
@pytest.mark.parametrize("output", FORMATS)
def test_the_sources_are_shown_in_every_format(listing, name, output):
    text = answered(listing, "show", name, "-f", output)
    for line in rows(listing, "show", name):
        title = line["source"].replace('"', '""') if output == "csv" else line["source"].replace('"', '\\"')
        assert title.split('"')[0][:40] in text
        assert line["date"] in text
        assert line["field"] in text


@pytest.mark.parametrize(("listing", "name"), [("gpus", "h100-sxm"), ("models", "deepseek-v3")])
def test_for_people_the_addresses_of_all_sources_stand_below(listing, name):
    text = answered(listing, "show", name)
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
    assert f"{asked!r}; nearest: " in result.stderr
    assert near in result.stderr


@pytest.mark.parametrize("arguments", [("show",), ("list",), ("show", "h100", "b200"), ("-f", "xml"), ("--all",)])
@pytest.mark.parametrize("listing", ["gpus", "models"])
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
