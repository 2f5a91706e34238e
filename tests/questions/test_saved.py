"""Cases kept in files: what was asked comes back through every door."""

import json

import pytest
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli
from roofline.questions.saved import case_texts, load_case, write_case

ASKED = [
    "-m llama-3.1-8b -g h100 --isl 4k --osl 200 --prefix 25% -b 4",
    "-m llama-3.1-8b -g h100:tp2 --workload chat --rate 120/min --slo ttft:300@p95,tpot:25",
    "-m qwen3-32b -g 4xh100 -q fp8 --workload 2k/300 --users 8 --engine vllm --network 20 --p99-within 3x",
    "-m deepseek-r1 -g b200 --tp 8 --enable-expert-parallel -c 16 --kv-cache-dtype fp8 --max-num-seqs 64",
    "-m llama-3.1-8b -g h100 --isl 1000 --measured tpot=9,batch=2 -b 2 --derate bandwidth:5%,peak:3% --gpu-price 2-4",
    "-m llama-3.1-8b -g h100 --draft ngram --acceptance .6,.5 --draft-tokens 2 --set peak.fp8=2PFLOP/s",
    "-m qwen3-32b -g h100 --isl 8k --prefix 6k --cache-tier host --working-set 2TB:zipf0.9 --cache-size 500GB -c 4",
    "-m llama-3.1-8b -g h100 --isl 500 --osl 100 --isl-cv 50% --cold-start 1%:2s --rate 2 --basis ideal",
]


def ran(*words):
    result = CliRunner().invoke(cli, [*words, "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["rows"]


@pytest.mark.parametrize("words", ASKED)
def test_a_saved_case_gives_the_same_rows_in_the_shell_and_in_python(words, tmp_path):
    file = str(tmp_path / "case.yaml")
    asked = ran("predict", *words.split(), "--save", file)
    assert ran("predict", "--case", file) == asked
    assert json.loads(json.dumps(rl.predict(**load_case(file)).to_rows())) == asked


def test_what_is_typed_goes_before_the_file(tmp_path):
    file = str(tmp_path / "case.yaml")
    ran("predict", *["-m", "llama-3.1-8b", "-g", "h100", "--isl", "4k", "-c", "8", "-q", "fp8"], "--save", file)
    (row,) = ran("predict", "--case", file, "-g", "b200", "--rate", "2", "--isl", "1k")
    assert (row["gpu"], row["isl"], row["load"], row["weight_dtype"]) == ("b200", 1024, "request_rate", "fp8")
    (row,) = ran("predict", "qwen3-8b", "--case", file)
    assert (row["model"], row["gpu"], row["concurrency"]) == ("qwen3-8b", "h100-sxm", 8)
    (row,) = ran("predict", "--case", file, "--workload", "2k/300")
    assert (row["isl"], row["osl"]) == (2048, 300)


def test_another_question_says_what_it_leaves_out(tmp_path):
    file = str(tmp_path / "case.yaml")
    write_case(file, {"model": "llama-3.1-8b", "gpu": "h100", "num_gpus": "8", "slo": "tpot:25", "request_rate": "2"})
    result = CliRunner().invoke(cli, ["plan", "--case", file])
    assert result.exit_code == 0
    assert "left out here: num_gpus (it finds how many are needed)" in result.stderr
    assert "2 requests/s" in result.stdout


def test_a_file_written_by_hand_may_use_other_names_lists_and_mappings(tmp_path):
    file = tmp_path / "case.yaml"
    file.write_text(
        "model: llama-3.1-8b\ngpu: [h100, b200]\ninput-len: 4k\nusers: [4, 8]\nslo: {ttft: 300, tpot: 25}\n"
        "enable-expert-parallel: false\nnetwork:\n"
    )
    case = load_case(file)
    assert case == {
        "model": "llama-3.1-8b", "gpu": ["h100", "b200"], "isl": 4096, "concurrency": [4.0, 8.0],
        "slo": {"ttft": 0.3, "tpot": 0.025},
    }  # fmt: skip
    assert len(ran("plan", "--case", str(file))) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("- llama", "a case is a mapping"),
        ("modell: llama-3.1-8b", "unknown option 'modell'; did you mean model"),
        ("isl: 1000\ninput_len: 2000", "case.yaml:2: isl is stated twice"),
        ("isl: yes", "isl: true is neither a number nor a text"),
        ("isl: {a: [1]}", "isl"),
        ("allow_oversize: 3", "write true or false"),
        ("isl: []", "isl"),
        ("isl: many", "isl: 'many'"),
        ("model: [", "case.yaml"),
    ],
)
def test_a_file_that_cannot_be_read_says_where_and_why(text, words, tmp_path):
    file = tmp_path / "case.yaml"
    file.write_text(text)
    with pytest.raises(rl.RooflineError) as error:
        load_case(file)
    assert words in str(error.value)
    assert CliRunner().invoke(cli, ["predict", "--case", str(file)]).exit_code in (1, 2)


def test_a_case_is_kept_under_a_name_of_yaml_alone(tmp_path):
    with pytest.raises(rl.BadInput, match=r"end the name in \.yaml"):
        write_case(str(tmp_path / "case.json"), {"model": "llama-3.1-8b"})
    assert list(tmp_path.iterdir()) == []


def test_a_case_is_not_written_over_another_one(tmp_path):
    file = str(tmp_path / "case.yaml")
    words = ["ttft", "-m", "llama-3.1-8b", "-g", "h100", "--save", file]
    assert CliRunner().invoke(cli, words).exit_code == 0
    again = CliRunner().invoke(cli, words)
    assert (again.exit_code, "exists" in again.stderr) == (1, True)
    assert CliRunner().invoke(cli, [*words, "--force", "--isl", "2k"]).exit_code == 0
    assert case_texts(file)["isl"] == "2k"
