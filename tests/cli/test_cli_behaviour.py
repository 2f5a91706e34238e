"""How the command behaves in a shell: help, completion, pipes, colours, odd input, poor surroundings."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from asking import answered, ask, strict_json
from click.testing import CliRunner
from every_case import each
from hypothesis import example, given
from hypothesis import strategies as st

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


def test_the_commands_are_the_questions():
    expected = {
        (), ("ttft",), ("tpot",), ("predict",), ("gpus",), ("gpus", "show"), ("gpus", "check"), ("models",),
        ("models", "show"), ("workloads", "show"),
    }  # fmt: skip
    assert set(ALL_COMMANDS) >= expected


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
    return [words for words in found if words[:2] != ["models", "import"]]  # needs a file, or the network


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


@pytest.mark.usefixtures("folder_of_examples")
@pytest.mark.parametrize("arguments", examples(), ids=" ".join)
def test_every_example_of_the_help_works(arguments, monkeypatch):
    if arguments[0] == "size":  # of all GPUs: README.md and tests/cli/test_cli_size.py
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


@pytest.mark.parametrize("word", ["tftt", "show", "--model"])
def test_an_unknown_question_ends_in_exit_code_2(word):
    assert ask(word).exit_code == 2


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
])  # fmt: skip
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


def test_data_goes_to_stdout_and_notes_to_stderr_where_they_are_asked_for():
    done = shell("roofline ttft -m gpt-oss-120b -g h100 --notes")
    assert done.returncode == 0
    assert done.stdout.startswith("gpt-oss-120b mxfp4 ")
    assert "note" not in done.stdout
    assert done.stderr.startswith("note: ")
    brief = shell("roofline ttft -m gpt-oss-120b -g h100")
    assert (brief.returncode, brief.stderr) == (0, "")
    assert brief.stdout.endswith("\n1 note: --notes \u00b7 * calibrated\n")
    assert brief.stdout.startswith(done.stdout.rpartition("\n* calibrated")[0])


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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
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

_FORMAT_OPTIONS = ("--weights", "--kv-cache-dtype", "--compute", "-q", "-f", "--basis", "--engine", "--routing")
_TEXT_OPTIONS = ("--prefix", "--slo", "--workload", "--specs", "--network", "--measured", *_FORMAT_OPTIONS)
_NUMBER_OPTIONS = ("--isl", "--osl", "--batch", "--tp", "--pp", "--ep", "--dp", "--num-gpus")
_letters = st.characters(exclude_characters="\0/.~")  # no argument holds a zero, and --specs reads whole folders
_NUMBERS = ("", " ", "0", "-1", "1", "2", "3", "1e3", "1.5", "0.5", "nan", "inf", "-inf", "1e400", "1e-300", "9" * 400)
_SHARES = ("%", "50%", "100%", "1e400%", "nan%", "9" * 400 + "%")
_WORKLOADS = ("k", "1k1k", "8k1k", "0k0k", "\u0661k\u0662k", "1k\u00b2k", "9" * 400 + "k1k")
_LIMITS = (":", ",", "ttft:", "ttft:1", "ttft:1e999", "ttft:nan", "TTFT:5,tpot:x")
_WORDS = ("None", "true", "fp8", "FP8", "bf16", "int4", "auto", "uniform", "json", "-", "--", "-h", "\u00e9")
_MEASURED = ("tpot=20", "ttft=500,batch=8", "tpot=1e-3", "tpot=nan", "tpot=20,isl=1e400", "tpot=", "=", "batch=2")
_ALL_WORDS = (*_NUMBERS, *_SHARES, *_WORKLOADS, *_LIMITS, *_WORDS, *_MEASURED, "20ms", "vllm", "own.yaml")
_odd = st.sampled_from(_ALL_WORDS) | st.text(_letters, max_size=6)


@st.composite
def odd_arguments(draw):
    question = draw(st.sampled_from(("ttft", "tpot", "predict", "knee")))
    model = draw(st.sampled_from(("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3")) | st.text(_letters, max_size=5))
    arguments = [question, "-m", model]
    for option in draw(st.lists(st.sampled_from(_TEXT_OPTIONS), max_size=3)):
        arguments += [option, draw(_odd)]
    for option in draw(st.lists(st.sampled_from(_NUMBER_OPTIONS), max_size=3)):
        arguments += [option, draw(st.integers(-2, 5000).map(str) | st.sampled_from(("", "x", "1.5", "1_0", "\u0662")))]
    return [
        *arguments,
        *draw(st.sampled_from(((), ("--explain",), ("--allow-oversize",)))),
        "-g",
        draw(st.sampled_from(("h100", "b200", "l40s"))),
    ]


@given(arguments=odd_arguments())
@example(["ttft", "-m", "llama-3.1-8b", "--isl", "9" * 400, "--prefix", "80%"])
@example(["ttft", "-m", "llama-3.1-8b", "--isl", "9" * 308, "--prefix", "80%"])
@example(["ttft", "-m", "llama-3.1-8b", "--prefix", "9" * 400])
@example(["ttft", "-m", "llama-3.1-8b", "--prefix", "9" * 400 + "%"])
@example(["ttft", "-m", "llama-3.1-8b", "--workload", "9" * 400 + "k1k"])
@example(["ttft", "-m", "mixtral-8x7b", "--routing", "1e-300"])
@example(["ttft", "-m", "mixtral-8x7b", "--routing", "1e-17"])
@example(["ttft", "-m", "llama-3.1-8b", "--specs", "~nobody-of-this-name"])
@example(["ttft", "-m", "llama-3.1-8b", "--slo", "ttft:1e-320"])
@example(["ttft", "-m", "llama-3.1-8b", "--measured", "tpot=1e400"])
@example(["ttft", "-m", "llama-3.1-8b", "--network", "9" * 400 + "s"])
@example(["ttft", "-m", "", "-g", ""])
@example(["ttft", "-m", "/", "-g", "/"])
def test_whatever_is_asked_the_answer_is_an_answer_or_a_message(arguments):
    result = ask(*arguments)
    assert result.exit_code in (0, 1, 2)
    assert "-h" in arguments or result.exit_code == 0 or "Error: " in result.stderr
    if result.exit_code == 0:
        assert "nan" not in result.stdout.lower().split()


@given(arguments=odd_arguments())
def test_whatever_is_asked_json_is_json_or_nothing(arguments):
    result = ask(*arguments, "-f", "json")
    if result.exit_code == 2 or "-h" in arguments:
        return
    if result.stdout:
        found = strict_json(result.stdout)
        assert found["schema_version"] == 1
        assert all(line["fits"] in (True, False, None) for line in found["rows"])
    else:
        assert result.exit_code == 1
