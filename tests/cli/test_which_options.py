"""Which option exists where: a table in which a change shows; names of other tools; none is read and forgotten.

`python tests/cli/test_which_options.py` writes the table.
"""

from pathlib import Path

import click
import pytest
from asking import ask, row
from every_case import each

from roofline.cli.main import cli
from roofline.physics.equation import BASES
from roofline.questions.inputs.options import OPTIONS, QUESTIONS, SPELLINGS

TABLE = Path(__file__).with_name("which_options.txt")
CASE = ("-m", "llama-3.1-8b", "-g", "h100-sxm")


def options_of(name):
    """First long name of each option of a command."""
    command = cli.get_command(click.Context(cli), name)
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    return {next(text for text in option.opts if text.startswith("--")) for option in options}


def table():
    """A line for each option: x where a command has it."""
    names = [*cli.list_commands(None), "knee"]
    have = {name: options_of(name) for name in names}
    options = sorted(set().union(*have.values()))
    wide = max(map(len, options))
    lines = [" ".join(("option".ljust(wide), *names))]
    lines += [
        " ".join(
            (
                option.ljust(wide),
                *("x".center(len(name)) if option in have[name] else " " * len(name) for name in names),
            )
        )
        for option in options
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def test_the_table_of_options_is_the_one_on_record():
    assert table() == TABLE.read_text(encoding="utf-8")


def test_questions_refuse_options_that_exist_with_a_reason():
    for name, question in QUESTIONS.items():
        assert set(question.refused) <= set(OPTIONS), name
        assert all(len(why) > 10 and not why.endswith(".") for why in question.refused.values()), name
        assert set(question.helps) | set(question.kinds) | set(question.several) <= set(OPTIONS), name


def test_choices_are_those_of_the_physics():
    assert OPTIONS["basis"].value.choices == BASES


def test_no_name_stands_for_two_options():
    spelled = [name for option in OPTIONS.values() for name in option.names]
    assert len(spelled) == len(set(spelled)) == len(SPELLINGS)


OF_OTHER_TOOLS = {
    # vllm serve, vllm bench serve
    "--tensor-parallel-size 2": "--tp 2", "-tp 2": "--tp 2", "--tensor_parallel_size 2": "--tp 2",
    "--pipeline-parallel-size 2": "--pp 2", "--max-model-len 4k": "--max-model-len 4096",
    "--random-input-len 300": "--isl 300", "--random-output-len 30": "--osl 30", "--max-concurrency 4": "-c 4",
    "--num-prompts 40 -c 4": "-c 4 --num-requests 40", "--goodput ttft:300": "--slo ttft:300",
    # sglang.launch_server, sglang.bench_serving
    "--tp-size 2": "--tp 2", "--dp-size 2": "--dp 2", "--context-length 4096": "--max-model-len 4k",
    "--mem-fraction-static 0.8": "--gpu-memory-utilization 80%", "--max-running-requests 16": "--max-num-seqs 16",
    "--chunked-prefill-size 4096": "--max-num-batched-tokens 4k", "--random-input 300": "--isl 300",
    # trtllm-serve
    "--tp_size 2": "--tp 2", "--pp_size 2": "--pp 2", "--max_batch_size 16": "--max-num-seqs 16",
    "--max_num_tokens 4096": "--max-num-batched-tokens 4k", "--max_seq_len 4096": "--max-model-len 4k",
    # aiperf
    "--synthetic-input-tokens-mean 300": "--isl 300", "--output-tokens-mean 30": "--osl 30",
    "--request-count 40 -c 4": "--num-prompts 40 -c 4",
    # people
    "--users 4": "-c 4", "--rate 2": "--request-rate 2/s", "--batch-size 8": "-b 8",
    "--qps 2": "--request-rate 2", "--rps 1k --num-gpus 800": "--rate 1000/s --num-gpus 800", "--dtype fp8": "-q fp8",
    "--backend vllm": "--engine vllm",
}  # fmt: skip


@each("theirs", list(OF_OTHER_TOOLS))
def test_names_of_other_tools_mean_the_same(theirs):
    assert row("predict", *CASE, *theirs.split()) == row("predict", *CASE, *OF_OTHER_TOOLS[theirs].split())


@each("words", [("llama-3.1-8b", "h100-sxm"), ("-g", "h100-sxm", "llama-3.1-8b"), ("-m", "llama-3.1-8b", "h100-sxm")])
def test_model_and_gpu_may_be_words_alone(words):
    assert ask("ttft", *words, "--json").stdout == ask("ttft", *CASE, "-f", "json").stdout


def test_all_ranks_hold_experts():
    case = ("predict", "mixtral-8x7b", "h100:tp4")
    assert row(*case, "--enable-expert-parallel") == row(*case, "--ep", "all") == row(*case, "--ep", "4")
    assert row("predict", "mixtral-8x7b", "8xh100:tp8ep8") == row("predict", "mixtral-8x7b", "8xh100", "--ep", "all")


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")


MODEL = ("-m", "llama-3.1-8b")
HOPPER = (*MODEL, "-g", "h100-sxm")
COMMANDS = {
    "ttft": HOPPER,
    "compare": (*MODEL, "-g", "h100-sxm,b200"),
    "speculate": (*HOPPER, "--draft", "ngram", "--draft-tokens", "1", "--acceptance", "0.6"),
}
#: Option -> a value that is not its default, and the options that it needs.
VALUES = {
    "isl": ("2000",), "osl": ("200",), "batch": ("3",), "prefix": ("300",), "workload": ("2k1k",),
    "cache_hit": ("50%", "--prefix", "300"), "cache_tier": ("host", "--prefix", "300"),
    "derate": ("bandwidth:10%,peak:10%",), "tp": ("2",), "pp": ("2",), "quantization": ("fp8",), "weights": ("fp8",),
    "kv_cache_dtype": ("fp8",), "basis": ("ideal",), "engine": ("vllm",), "max_num_batched_tokens": ("512",),
    "network": ("30ms",), "measured": ("ttft=40,tpot=9",), "slo": ("ttft:100,tpot:6",), "p99_within": ("1.5x",),
    "gpu_price": ("9",), "assume": ("llama",),
}  # fmt: skip
#: Command -> options that it has no use for, and so does not have.
UNKNOWN = {
    "sensitivity": {"slo", "p99_within", "gpu_price"},
    "formula": {"slo", "p99_within", "gpu_price"},
    "speculate": {"slo", "p99_within", "gpu_price", "measured"},
    "solve": {"gpu_price"},
    "compare": {"measured"},
}


def names_of(command):
    return {option.name for option in cli.get_command(None, command).params if isinstance(option, click.Option)}


def test_a_command_has_no_option_that_it_could_not_use():
    assert [command for command, unknown in UNKNOWN.items() if names_of(command) & unknown] == []
    assert set.union(*UNKNOWN.values()) <= names_of("ttft")  # no name is misspelt


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_changes_the_answer_or_is_refused(command):
    known = names_of(command)
    answers = {}
    forgotten = []
    for name, (value, *needed) in VALUES.items():
        if name not in known:
            continue
        plain = answers.setdefault(tuple(needed), ask(command, *COMMANDS[command], *needed, "-f", "json"))
        assert plain.exit_code == 0, plain.output
        changed = ask(command, *COMMANDS[command], *needed, f"--{name.replace('_', '-')}", value, "-f", "json")
        if changed.exit_code == 0 and changed.stdout == plain.stdout:
            forgotten.append(name)
    assert not forgotten


def test_a_share_of_requests_needs_a_limit_that_it_can_be_of():
    for command in ("curve", "goodput", "levers"):
        refused = ask(command, *HOPPER, "--share", "95%", "--slo", "ttft:300@p95")
        assert refused.exit_code == 2
        assert "--share is of requests that meet limits on TTFT, TPOT or E2EL without a percentile" in refused.stderr


def test_a_model_of_the_catalog_leaves_nothing_to_assume():
    refused = ask("ttft", *HOPPER, "--assume", "llama")
    assert refused.exit_code == 1
    assert "leaves nothing to assume" in refused.stderr
