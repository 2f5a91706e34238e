"""Streams that the caller closed, and odd texts of options: an exit code and one message, never a traceback."""

import os
import subprocess
import sys

import click
from click.testing import CliRunner

from roofline.cli.main import cli

PROGRAM = (sys.executable, "-c", "from roofline.cli.main import main; main()")
ODD = ("", "0", "-1", "nan", "inf", "1e400", "9" * 5000, "a\0b", "\ud800", "=1", ",", "ttft:nan", "ttft=1e400", "nan%")


def run(command, *streams):
    """Exit code and messages of a command whose streams of these numbers are closed."""
    done = subprocess.run(
        [*PROGRAM, *command],
        preexec_fn=lambda: [os.close(number) for number in streams],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_closed_output_is_one_message_and_a_closed_error_stream_none():
    for command in (["--version"], ["gpus"]):
        code, said = run(command, 1)
        assert (code, said.count("\n")) == (1, 1)
        assert said.startswith("Error: cannot write the answer")
    assert run(["ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm"], 0, 1, 2) == (1, "")
    assert run(["ttft", "-m", "no-such-model"], 1, 2) == (1, "")


def test_a_pipe_that_nobody_reads_any_more_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, "models", "--format", "json"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_odd_texts_of_any_option_of_a_case_are_refused_by_one_message():
    runner, tried = CliRunner(), set()
    for name in ("ttft", "sweep"):
        command = cli.get_command(click.Context(cli), name)
        case = [name, "-m", "llama-3.1-8b", "-g", "h100-sxm"]
        for option in command.params:
            if not isinstance(option, click.Option) or option.is_flag or option.name == "output":
                continue
            if (option.name, type(option.type), option.multiple) in tried:
                continue  # read as for the other command
            tried.add((option.name, type(option.type), option.multiple))
            for text in ODD:
                found = runner.invoke(cli, [*case, option.opts[-1], text])
                assert found.exception is None or isinstance(found.exception, SystemExit), (name, option.opts, text)
                assert found.exit_code in (0, 1, 2)
    zero = runner.invoke(cli, ["sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--dp", "0"])
    assert (zero.exit_code, zero.stderr) == (1, "Error: --dp 0 must be between 1 and 1000000\n")


def test_limits_of_the_command_line_are_milliseconds_however_long():
    found = CliRunner().invoke(cli, ["knee", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--slo", "ttft:300,e2el:120000"])
    assert found.exit_code == 0
