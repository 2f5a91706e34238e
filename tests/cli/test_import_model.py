"""`roofline models import`: a configuration becomes a file that the catalog reads."""

import json

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.catalog.checks import checked_document
from roofline.cli.catalog import models
from roofline.support.errors import BadInput, BadSpec, UnknownName

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
