"""What people type wrong: an exit code, one message that says what is wrong and what to do, and no answer."""

import os
import re
import shlex
from pathlib import Path

import pytest
from asking import ask
from every_case import each

LLAMA = "-m llama-3.1-8b"
CASE = f"{LLAMA} -g h100"
MOST = 420  # characters of a message: what a reader takes in at a glance

#: Command line, exit code (1: the input, 2: the usage), and words that the message cannot do without.
MISTAKES = [
    # names
    ("ttft -m lama-3.1-8b -g h100", 1, ("model 'lama-3.1-8b'", "did you mean llama-3.1-8b", "roofline models")),
    ("ttft -m mixtral -g h100", 1, ("'mixtral' is ambiguous", "mixtral-8x7b", "mixtral-8x22b")),
    (f"ttft {LLAMA} -g h1000", 1, ("GPU 'h1000'", "did you mean h100-sxm", "roofline gpus")),
    (f"ttft {LLAMA} -g h100x8", 1, ("'h100x8'", "8xh100", "h100:x8")),
    (f"ttft {LLAMA} -g h100:tpp4", 1, ("'tpp4'", "'h100:tpp4'", "b200:tp4:fp8x2")),
    (f"ttft {LLAMA} -g ''", 1, ("GPU",)),
    (f"predict {CASE} --workload chatt", 1, ("workload 'chatt'", "did you mean chat", "roofline workloads")),
    ("gpus show h10", 1, ("GPU 'h10'", "did you mean h100-sxm")),
    (f"solve {CASE} --for bandwith --ttft 300ms", 1, ("'bandwith'", "did you mean bandwidth")),
    # numbers, sizes, lists
    (f"ttft {CASE} --isl 4kk", 2, ("'--isl'", "'4kk' is not a whole number", "4k")),
    (f"ttft {CASE} --isl 4,096", 2, ("'--isl'", "'4,096'", "write 4096")),
    (f"ttft {CASE} --isl 99999999999", 1, ("--isl 99999999999 must be at most 1,000,000,000",)),
    (f"ttft {CASE} --batch 0", 1, ("--batch 0", "1")),
    (f"ttft {CASE} --output-len=-3", 1, ("--osl -3", "1")),
    (f"ttft {CASE} --prefix 120%", 2, ("'--prefix'", "'120%'", "0% and 100%")),
    (f"ttft {CASE} --prefix 4000", 1, ("--prefix 4000", "exceed", "the prompt", "--isl 1024")),
    (f"sweep {CASE} --batch 1:64:x1", 2, ("'--batch'", "'1:64:x1' never ends", "1:256:x2")),
    (f"ttft {CASE} --network 20sec", 2, ("'--network'", "'20sec' is not a time", "300ms")),
    # limits
    (f"predict {CASE} --slo ttft=300", 2, ("'--slo'", "'ttft=300'", "ttft:300@p95")),
    (f"predict {CASE} --slo ttfd:300", 2, ("'--slo'", "'ttfd'", "ttft, tpot, itl, e2el")),
    (f"predict {CASE} --slo ttft:300@p955", 2, ("'--slo'", "p955", "percentile")),
    (f"predict {CASE} --slo ttft:300 tpot:25", 2, ("tpot:25",)),
    (f"plan {CASE}", 2, ("plan needs", "--slo ttft:300,tpot:25")),
    (f"goodput {CASE}", 2, ("goodput needs", "--slo ttft:300,tpot:25", "--workload")),
    (f"solve {CASE} --for batch", 2, ("target", "--ttft 300ms", "--slo")),
    # loads and plans
    (f"ttft {CASE} --tp 3", 1, ("--tp 3 does not divide llama-3.1-8b", "32 heads", "1, 2, 4, 8")),
    ("ttft -m llama-3.1-405b -g h100 --tp 1", 1, ("llama-3.1-405b does not fit h100-sxm at tp 1", "85.5 GB", "try ")),
    (f"ttft {CASE} --ep 2", 1, ("--ep 2 needs a mixture of experts", "llama-3.1-8b is dense")),
    (f"predict {CASE} --rate 900", 1, ("at most", "requests/s", "--request-rate 900", "--num-gpus")),
    (f"predict {CASE} -c 8 --rate 2", 1, ("one load", "--concurrency and --request-rate")),
    (f"predict {CASE} --isl 128000 --max-model-len 32k", 1, ("128128 tokens exceed", "--max-model-len 32768")),
    (f"knee {CASE} --rate 4", 2, ("knee takes no --rate", "a number of users", "solve for request_rate")),
    (f"ttft {CASE} --simulate", 2, ("--simulate needs a load", "--concurrency", "--request-rate")),
    (f"formula tpot {CASE} --osl 1", 1, ("tpot needs at least two output tokens",)),
    # number formats
    (f"ttft {CASE} --kv-cache-dtype int3", 1, ("'int3'", "int4")),
    (f"ttft {CASE} --kv-cache-dtype int4", 1, ("KV cache", "'int4'", "bf16, fp16, fp8, int8")),
    (f"ttft {CASE} -q nvfp4", 1, ("h100-sxm has no fp4 tensor cores", "--compute bf16")),
    (f"ttft {CASE} -q fp-8", 1, ("'fp-8'", "did you mean fp8")),
    (f"plan {CASE} --slo ttft:0.3 -c 64", 2, ("'ttft:0.3' is 0.3 ms; write ttft:0.3s for seconds",)),
    ("plan --num-gpus 4", 2, ("plan takes no --num-gpus", "it finds how many are needed")),
    (f"ttft {CASE} --engine vlm", 1, ("unknown engine 'vlm'; did you mean vllm?",)),
    ("ttft -m '' -g h100", 1, ("the name of the model is empty",)),
    (f"quantize {CASE} -q fp8", 2, ("quantize takes no -q", "--baseline")),
    # usage
    ("ttft -g h100 --isl 2000", 2, ("Missing option '-m'", "--model")),
    (f"ttft {CASE} --gpus b200", 2, ("--gpus", "--gpu", "--num-gpus")),
    (f"ttft {CASE} --format yaml", 2, ("'yaml' is not one of", "table", "json")),
    (f"ttft {CASE} --explain -f csv", 2, ("--explain has no CSV form", "--format json")),
    (f"goodput {CASE} --slo ttft:300 --rate 4", 2, ("goodput takes no --rate", "the load is the answer")),
    (f"compare {CASE}", 2, ("compare", "two GPUs or more")),
    (f"compare {CASE} b200", 2, ("b200", "-g h100,b200")),
    ("ttft llama-3.1-8b h100 2000", 2, ("2000", "commas")),
    (f"goodput {CASE} --slo ttft:300 --qps 4", 2, ("goodput takes no --qps", "the load is the answer")),
    (f"predict {CASE} --request-rate 3,600/h", 2, ("reads as a list", "write 3600/h")),
    (f"ttft {CASE} -c 1,000", 2, ("reads as a list", "write 1000")),
    ("workloads chat -g nonsense", 1, ("unknown GPU 'nonsense'",)),
    ("check missing.json -g h100:tp1 --ep all", 2, ("'--ep'", "'all' is not a whole number")),
    (f"ttft {CASE} --sla ttft:300", 2, ("No such option: --sla", "did you mean --slo,")),
    (f"ttft {CASE} --dtype bf16 -q fp8", 2, ("--dtype and -q both name the number format",)),
    (f"curve {CASE} -q bf16,fp8", 2, ("'bf16,fp8' is more than one format", "quantize")),
    (f"ttft {CASE} --workload chat,rag", 2, ("'chat,rag' is more than one workload", "ask once for each")),
    ("gpus 8xh100", 1, ("'8xh100' is a pool", "roofline gpus h100")),
    ("gpus chek", 1, ("'chek' is neither a command nor", "roofline gpus check")),
    ("models chek", 1, ("roofline models check",)),
    ("models --min-size 80B --max-size 7B", 1, ("--min-size 80 B must not exceed --max-size 7 B",)),
    ("check results.json -g h100,h200", 2, ("one GPU", "h100,h200 one by one")),
    (
        "disaggregate -m qwen3-32b --prefill h100 --decode h100 -c 4 --enable-expert-parallel",
        2,
        ("takes no --enable-expert-parallel", "b200:tp4ep4x2"),
    ),
    ("formula llama-3.1-8b h100", 2, ("RESULT", "'llama-3.1-8b' is not one of", "ttft")),
    (f"ttft {CASE} -c 1e30", 1, ("--concurrency 1e+30 must be at most 1,000,000,000",)),
    (f"pareto {CASE} -c 4,1e30", 1, ("--concurrency 1e+30 must be at most 1,000,000,000",)),
    (f"sweep {CASE} -b 4,0", 1, ("--batch 0 must be at least 1",)),
    (f"ttft {CASE} --request-rate 0", 1, ("--request-rate 0 must be above 0 requests/s",)),
    (f"ttft {CASE} -g h100x", 1, ("GPU 'h100x'", "yours: --specs DIR")),
    (f"ttft {CASE} --batchsize 4", 2, ("did you mean --batch-size?",)),
    (f"ttft {CASE} --prompt-len 4k", 2, ("did you mean", "--isl")),
    (f"sheet x.xlsx {CASE} --num-prompts 8", 2, ("sheet takes no --num-prompts", "bursts and steady loads")),
    (f"curve {CASE} --isl 1k,2k", 2, ("'--isl'", "a single value is wanted")),
    (f"ttft {CASE} --enable-expert-parallel --ep 2", 2, ("--ep all",)),
    ("ttft -m mixtral-8x7b -g h100 --ep all", 1, ("--ep all", "state the tp")),
    (f"ttft {CASE} -o answer.txt", 1, ("answer.txt", ".csv, .json, .parquet, .xlsx")),
    (f"ttft {CASE} -o answer.csv -f json", 1, ("-o answer.csv is .csv", "--format json")),
    (f"ttft {CASE} -o ''", 2, ("the path is empty",)),
    (f"formula tpot {CASE} -o tpot.pdf", 1, ("tpot.pdf", ".txt, .tex, .py, .json")),
    (f"curve {LLAMA}", 2, ("curve", "-g h100")),
    (f"sensitivity {LLAMA} --of ttft", 2, ("one model", "one GPU", "-g")),
    (f"tftt {CASE}", 2, ("unknown command 'tftt'; did you mean ttft?",)),
    # files
    ("check missing.json", 1, ("missing.json", "No such file")),
    ("check broken.json", 1, ("broken.json:1", "JSON", "column 14")),
    ("check folder", 1, ("folder", "not a regular file")),
    (f"sweep {CASE} -o taken.csv", 1, ("taken.csv exists", "--force")),
    (f"sweep {CASE} -o folder.csv --force", 1, ("folder.csv", "folder")),
    (f"sweep {CASE} -o taken.csv/rows.csv", 1, ("taken.csv/rows.csv cannot be written",)),
    (f"sweep {CASE} -o nowhere/rows.csv", 1, ("nowhere/rows.csv cannot be written", "No such file")),
    (f"sweep {CASE} -o rows.pdf", 1, ("rows.pdf", ".csv, .json, .parquet, .xlsx")),
    (f"sheet case.txt {CASE}", 1, ("case.txt", ".xlsx")),
    (f"ttft {CASE} --specs nowhere", 1, ("nowhere", "folder")),
]

#: Questions that are asked well and whose answer is no: the reasons are the answer, and the exit code says so.
IN_VAIN = [
    (f"plan {CASE} --slo ttft:0.3ms -c 64", ("TTFT <= 300 us", "fail "), ("no plan on h100", "ttft:300us")),
    (f"goodput {CASE} --slo ttft:0.3ms", ("TTFT <= 300 us",), ("no request meets the SLO on h100",)),
    (f"solve {CASE} --for batch --ttft 1ms", ("cannot be met",), ("ttft = 1 ms cannot be met", "still ", "batch = 1")),
]


@pytest.fixture(autouse=True)
def folder_of_files(tmp_path, monkeypatch):
    """A working directory with the files that the mistakes name."""
    (tmp_path / "broken.json").write_text('{"model_id": ')
    (tmp_path / "taken.csv").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)


def message(result):
    """The one message of a refusal, in lines of sense."""
    *before, text = re.split(r"^Error: ", result.stderr, flags=re.MULTILINE)
    assert len(before) == 1, result.stderr
    usage = re.compile(r"Usage: roofline [^\n]*\n(?: +[^\n]+\n)*Try 'roofline [\w -]*--help' for help\.\n\n")
    assert bool(usage.fullmatch(before[0])) == (result.exit_code == 2), before[0]
    assert result.exit_code == 2 or before[0] == ""
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    assert 10 < len(text) <= MOST
    assert text[0] != " "
    assert not re.search(r"Traceback|\bNone\b| object at 0x|<class|\bself\b|__", text)
    return text


@each(("line", "code", "words"), MISTAKES, ids=[line for line, _, _ in MISTAKES])
def test_a_mistake_ends_in_one_message_that_says_what_is_wrong_and_what_to_do(line, code, words):
    result = ask(*shlex.split(line))
    assert result.exit_code == code
    assert result.stdout == ""
    text = message(result)
    assert [word for word in words if word not in text] == [], text
    assert Path("taken.csv").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(("line", "answers", "words"), IN_VAIN, ids=[line for line, _, _ in IN_VAIN])
def test_what_nothing_can_meet_is_answered_with_the_reason_and_exit_code_1(line, answers, words):
    result = ask(*shlex.split(line))
    assert result.exit_code == 1
    assert [word for word in answers if word not in result.stdout] == [], result.stdout
    text = message(result)
    assert [word for word in words if word not in text] == [], text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_one_may_not_write_to_is_one_message(tmp_path):
    (tmp_path / "folder").chmod(0o555)
    result = ask(*shlex.split(f"sweep {CASE} -o folder/rows.csv"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "folder/rows.csv cannot be written: Permission denied" in message(result)


def test_there_are_forty_mistakes_of_input_and_usage():
    assert len({line for line, _, _ in MISTAKES}) == len(MISTAKES) >= 40
    assert {code for _, code, _ in MISTAKES} == {1, 2}
