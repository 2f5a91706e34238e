"""Which option exists where: a table in which a change shows, and names of other tools that every command understands.

`python tests/cli/test_which_options.py` writes the table.
"""

from pathlib import Path

import click
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
    "--tp-size 2": "--tp 2", "--context-length 4096": "--max-model-len 4k", "--mem-fraction-static 0.8":
    "--gpu-memory-utilization 80%", "--max-running-requests 16": "--max-num-seqs 16",
    "--chunked-prefill-size 4096": "--max-num-batched-tokens 4k", "--random-input 300": "--isl 300",
    # trtllm-serve
    "--tp_size 2": "--tp 2", "--max_batch_size 16": "--max-num-seqs 16", "--max_num_tokens 4096":
    "--max-num-batched-tokens 4k", "--max_seq_len 4096": "--max-model-len 4k",
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
