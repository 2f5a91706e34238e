"""An option changes the answer of its command or is refused: none is read and forgotten."""

import click
import pytest
from asking import ask

from roofline.cli.main import cli

MODEL = ("-m", "llama-3.1-8b")
CASE = (*MODEL, "-g", "h100-sxm")
COMMANDS = {
    "ttft": CASE,
    "compare": (*MODEL, "-g", "h100-sxm,b200"),
    "speculate": (*CASE, "--draft", "ngram", "--draft-tokens", "1", "--acceptance", "0.6"),
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


def options_of(command):
    return {option.name for option in cli.get_command(None, command).params if isinstance(option, click.Option)}


def test_a_command_has_no_option_that_it_could_not_use():
    assert [command for command, unknown in UNKNOWN.items() if options_of(command) & unknown] == []
    assert set.union(*UNKNOWN.values()) <= options_of("ttft")  # no name is misspelt


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_changes_the_answer_or_is_refused(command):
    known = options_of(command)
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
        refused = ask(command, *CASE, "--share", "95%", "--slo", "ttft:300@p95")
        assert refused.exit_code == 2
        assert "--share is of requests that meet limits without a percentile" in refused.stderr


def test_a_model_of_the_catalog_leaves_nothing_to_assume():
    refused = ask("ttft", *CASE, "--assume", "llama")
    assert refused.exit_code == 1
    assert "leaves nothing to assume" in refused.stderr
