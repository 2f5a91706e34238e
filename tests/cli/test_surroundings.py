"""How the command behaves in a shell: help, pipes, closed streams, colours, odd input, poor surroundings."""

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
import tiers
from asking import answered, ask, strict_json
from click.testing import CliRunner
from every_case import each
from test_panes import examples as on_screens

import roofline as rl
from roofline.cli.main import cli

COMMAND = Path(sys.executable).with_name("roofline")


def shell(script, **options):
    """Result of a shell script in which `roofline` is the installed command."""
    path = f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **options.pop("env", {})}
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60, env=env, **options
    )


def commands(group, context, words=()):
    """Words of every command below a group, the group included."""
    yield words, group
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            yield from commands(group.get_command(context, name), context, (*words, name))


ALL_COMMANDS = [words for words, _ in commands(cli, click.Context(cli))]


# --- help --------------------------------------------------------------------------------------


@each("words", ALL_COMMANDS, ids=" ".join)
@each("option", ["--help", "-h"])
def test_every_command_has_help_with_an_example(words, option):
    text = answered(*words, option)
    example_text = text[text.index("Example") :] if words else text
    assert re.search(rf"^ .*\broofline {' '.join(words)}".rstrip(), example_text, re.MULTILINE)


def examples():
    found = []
    for words in ALL_COMMANDS:
        text = CliRunner().invoke(cli, [*words, "--help"]).output
        lines = text[text.index("Example") :].splitlines()[1:] if words else text.splitlines()
        commands_alone = [re.split(r" {2,}", line.strip())[0] for line in lines]  # without what stands beside them
        found += [line.split()[1:] for line in commands_alone if line.startswith("roofline ")]
    assert len(found) > len(ALL_COMMANDS)
    seen = [shlex.split(line) for line in on_screens()]  # work there
    elsewhere = (["models", "import"], ["mcp"], ["page"])  # of a network; tests/cli/test_mcp.py, tests/page
    found = [
        words for words in found if words not in seen and not any(words[: len(start)] == start for start in elsewhere)
    ]
    slow = ("sheet", "levers")  # of a workbook and of levers: tests/workbook, tests/questions/test_levers.py
    one_of_each = {words[0]: words for words in reversed(found) if words[0] not in slow}
    return tiers.times([*one_of_each.values()], found)


@pytest.fixture
def folder_of_examples(tmp_path, monkeypatch):
    """A working directory with the files that examples name: kernels that take some 20 us and their share of peak."""
    rows = [(m, 4096, k) for m in (16, 1024, 8192) for k in (4096, 14336)]
    lines = [f"h100-sxm,gemm,bf16,{m},{n},{k},{20 + m * n * k / 3e8:.6g}" for m, n, k in rows]
    (tmp_path / "kernels.csv").write_text("\n".join(("gpu,kind,dtype,m,n,k,latency_us", *lines)), encoding="utf-8")
    (tmp_path / "specs").mkdir()
    source = "sources: {logs: {title: Our gateway, date: 2026-10-08}}"
    (tmp_path / "mine.yaml").write_text(f"name: mine\nisl: 1800\nosl: 240\n{source}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@tiers.has_more_cases
@pytest.mark.usefixtures("folder_of_examples")
@pytest.mark.parametrize("arguments", examples(), ids=" ".join)
def test_every_other_example_of_the_help_works(arguments, monkeypatch):
    if arguments[0] == "plan":  # of all GPUs: README.md and tests/questions/test_plan.py
        some = ("b200", "h100-sxm", "l40s", "mi300x")
        monkeypatch.setattr("roofline.questions.catalog.gpus", lambda specs=None: some)
    result = ask(*arguments)
    assert result.exit_code == 0, result.output
    assert result.output  # an answer, or a note of the file that holds it


def test_every_option_has_help():
    for words, command in commands(cli, click.Context(cli)):
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (words, parameter.name)


def test_the_version_is_that_of_the_package():
    assert answered("--version") == f"roofline, version {rl.__version__}\n"


def test_without_a_question_the_help_is_shown():
    result = ask()
    assert "ttft" in result.output
    assert result.exit_code in (0, 2)


# --- pipes and surroundings --------------------------------------------------------------------

LONG = "roofline models show deepseek-v3"


@each("script", [
    "roofline ttft -m llama-3.1-8b -g h100-sxm | head -1",
    f"{LONG} | head -1",
    "roofline predict -m llama-3.1-8b --explain | head -1",
    "roofline predict -m llama-3.1-8b --explain -f json | head -c 1",
    "roofline ttft -m llama-3.1-8b -f csv | head -1",
    "roofline --help | head -1",
    f"{LONG} | true",
], few=2)  # fmt: skip
def test_a_pipe_that_is_closed_early_prints_no_traceback(script):
    done = shell(script)
    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == (0 if script.endswith("true") else 1)


@pytest.mark.parametrize("arguments", ["ttft -m llama-3.1-8b", "models -f json", "--help", "gpus -f csv"])
def test_an_output_that_is_closed_prints_no_traceback(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [str(COMMAND), *arguments.split()], stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode != 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full is Linux's")
@pytest.mark.parametrize("arguments", ["ttft -m llama-3.1-8b", "models -f json"])
def test_a_full_disk_is_one_message(arguments):
    done = shell(f"roofline {arguments} > /dev/full")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_exit_codes_reach_the_shell():
    assert shell("roofline ttft -m llama-3.1-8b -g h100 >&2").returncode == 0
    assert shell("roofline ttft -m llama-3.1-8b -g h1000").returncode == 1
    assert shell("roofline ttft -m llama-3.1-8b --isl many").returncode == 2


def test_the_answer_needs_no_home_and_writes_no_file(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    here.chmod(0o555)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent", "TMPDIR": str(temporary)}
    done = shell("roofline ttft -m llama-3.1-8b -g h100-sxm && roofline gpus >/dev/null", cwd=here, env=env)
    assert done.returncode == 0
    assert done.stderr == ""
    assert list(here.iterdir()) == list(temporary.iterdir()) == []


def test_the_answer_needs_no_environment_at_all():
    done = subprocess.run(
        [str(COMMAND), "ttft", "-m", "llama-3.1-8b", "-g", "h100"],
        capture_output=True,
        text=True,
        check=False,
        env={},
        timeout=60,
    )
    assert done.returncode == 0
    assert "h100-sxm" in done.stdout


def test_a_folder_that_was_removed_under_the_shell_does_not_matter():
    done = shell('d=$(mktemp -d) && cd "$d" && rmdir "$d" && roofline ttft -m llama-3.1-8b -g h100')
    assert done.returncode == 0
    assert "h100-sxm" in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_every_terminal_can_show_the_catalog(encoding):
    questions = ("gpus show b200", "models show deepseek-v3", "ttft -m llama-3.1-8b -g h100-sxm --explain")
    script = " && ".join(f"roofline {question}" for question in questions)
    done = shell(script, env={"PYTHONIOENCODING": encoding}, encoding=encoding)
    assert done.returncode == 0
    assert done.stderr == ""


@each("env", [{"NO_COLOR": "1"}, {"NO_COLOR": ""}, {}])
@each(
    "arguments", [("ttft", "-m", "llama-3.1-8b"), ("gpus", "show", "h100"), ("ttft", "--help"), ("ttft", "-m", "lama")]
)
def test_pipes_and_no_color_get_no_escape_codes(arguments, env):
    piped = ask(*arguments, env=env)
    assert "\x1b" not in piped.output
    if env.get("NO_COLOR"):
        terminal = CliRunner().invoke(cli, arguments, env=env, color=True)
        assert "\x1b" not in terminal.output


@pytest.mark.parametrize("arguments", [
    [b"-m", b"\xff\xfe"],
    [b"-m", b"llama-3.1-8b", b"-g", b"\xc3\xa9\xff"],
    [b"-m", b"llama-3.1-8b", b"--weights", b"\xff"],
    [b"-m", b"llama-3.1-8b", b"--specs", b"\xff"],
    [b"-m", b"llama-3.1-8b", b"--slo", b"\xff:3"],
])  # fmt: skip
def test_bytes_that_are_no_text_are_refused_without_a_traceback(arguments):
    done = subprocess.run([os.fsencode(COMMAND), b"ttft", *arguments], capture_output=True, check=False, timeout=60)
    assert done.returncode in (1, 2)
    assert b"Traceback" not in done.stderr
    assert b"Error: " in done.stderr


@each("option", ["--tp", "--pp", "--ep", "--dp", "--num-gpus", "--batch", "--isl", "--osl"])
@each("digits", [10, 400])
def test_an_absurd_number_is_refused_and_never_walked_through(option, digits):
    start = time.process_time()
    done = ask("ttft", "-m", "llama-3.1-8b", "-g", "h100", option, "9" * digits)
    assert time.process_time() - start < 2.0
    assert done.exit_code in (1, 2)
    assert "Error: " in done.stderr


# --- odd input ---------------------------------------------------------------------------------


@each("arguments", [
    ["ttft", "-m", "llama-3.1-8b", "--isl", "9" * 400, "--prefix", "80%"],
    ["ttft", "-m", "llama-3.1-8b", "--isl", "9" * 308, "--prefix", "80%"],
    ["ttft", "-m", "llama-3.1-8b", "--prefix", "9" * 400],
    ["ttft", "-m", "llama-3.1-8b", "--prefix", "9" * 400 + "%"],
    ["ttft", "-m", "llama-3.1-8b", "--workload", "9" * 400 + "k1k"],
    ["ttft", "-m", "mixtral-8x7b", "--routing", "1e-300"],
    ["ttft", "-m", "mixtral-8x7b", "--routing", "1e-17"],
    ["ttft", "-m", "llama-3.1-8b", "--specs", "~nobody-of-this-name"],
    ["ttft", "-m", "llama-3.1-8b", "--slo", "ttft:1e-320"],
    ["ttft", "-m", "llama-3.1-8b", "--measured", "tpot=1e400"],
    ["ttft", "-m", "llama-3.1-8b", "--network", "9" * 400 + "s"],
    ["ttft", "-m", "", "-g", ""],
    ["ttft", "-m", "/", "-g", "/"],
])  # fmt: skip
@each("output", ["table", "json"])
def test_whatever_is_asked_the_answer_is_an_answer_or_a_message(arguments, output):  # and tests/fuzz asks at random
    result = ask(*arguments, "-f", output)
    assert result.exit_code in (0, 1, 2)
    assert result.exit_code == 0 or "Error: " in result.stderr
    assert "nan" not in result.stdout.lower().split()
    if output == "json" and result.stdout:
        assert strict_json(result.stdout)["schema_version"] == 1


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


def test_odd_texts_of_any_option_of_a_case_are_refused_by_one_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a folder may have any name
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
