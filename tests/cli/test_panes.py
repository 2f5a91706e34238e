"""What a terminal of 80x24, 100x30 or 120x40 shows after a command, run in a pseudo-terminal and drawn by an emulator.

The panes are kept in tests/cli/panes. Where an answer changed on purpose, write them anew and read them:

    ROOFLINE_UPDATE_PANES=1 python -m pytest -n0 -m "" tests/cli/test_panes.py && git diff tests/cli/panes
"""

import errno
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
from functools import cache
from pathlib import Path

import pyte
import pytest
import tiers
from conftest import SAMPLE_GPUS
from every_case import each

from roofline.cli.main import cli
from roofline.questions.inputs.case import PRESETS

PANES = Path(__file__).with_name("panes")
RESULT = Path(__file__).parents[1] / "fixtures" / "results" / "vllm.json"
TESTS = Path(__file__).parents[1]
IS_UPDATE = bool(os.environ.get("ROOFLINE_UPDATE_PANES"))
SIZES = {"80x24": (80, 24), "100x30": (100, 30), "120x40": (120, 40)}
COMMANDS = {
    "help": "--help",
    "ttft": "ttft -m llama-3.1-70b --isl 2000",
    "predict": "predict -m llama-3.1-70b -q fp8 -g h100:tp4 --isl 2k -b 16",
    "tpot": "tpot -m llama-3.1-8b -g h100,b200,l40s --isl 2k --osl 300 -c 64",
    "plan": "plan -m llama-3.3-70b -q fp8 --isl 4k --osl 500 -c 64 --slo ttft:300",
    "goodput": "goodput -m llama-3.1-8b -g h100,b200 --workload chat",
    "curve": "curve -m llama-3.1-8b -g h100 --workload chat",
    "pareto": "pareto -m llama-3.1-8b -g h100,l40s --tp 1,2,4 -q bf16,fp8 -b 1:256:x2 --slo ttft:2s",
    "compare": "compare -m llama-3.1-8b -g h100,b200 --isl 2k --osl 300 -b 16",
    "quantize": "quantize -m llama-3.1-8b -g h100 --isl 2k --osl 300 -b 16",
    "sensitivity": "sensitivity -m llama-3.1-8b -g h100 --of tpot",
    "solve": "solve --for batch --slo ttft:300,tpot:25 -m llama-3.1-8b -g h100",
    "knee": "knee -m llama-3.1-70b -g h100,b200",
    "sweep": "sweep -m llama-3.1-8b -g h100,b200 --isl 1k,4k -b 1:64:x4",
    "check": "check vllm.json",
    "fits": "fits -m gpt-oss-120b -g h100 --engine vllm@0.19",
    "budgets": "budgets --over max-num-batched-tokens -m qwen3-8b -g h100 --engine vllm --isl 8k --rate 1 --slo itl:60",
    "under-load": "predict -m llama-3.3-70b -g h100:tp4x2 --workload chat -c 200 --draft ngram --acceptance .6,.5",
    "gpus-show": "gpus show gb200-nvl72",
    "models-show": "models show deepseek-v3",
    "formula": "formula tpot -m deepseek-r1 -g h200:tp8",
}
#: Commands that colour nothing: prose.
PLAIN = {"help", "under-load", "gpus-show", "models-show", "formula"}
#: Those that the quick tier asks: prose, tables, a picture.
ASKED = tiers.times(("help", "ttft", "predict", "knee", "pareto"), tuple(COMMANDS))
#: Commands that answer at once, for what is asked of every one of them again.
QUICK = [command for command in ASKED if command not in ("plan", "goodput")]
CASES = [(command, size) for command in ASKED for size in SIZES]
ONCE = ("help", "ttft", "predict")  # run through the installed command, too

#: What help does not show: many options at once, long times, GPUs that cannot, several runs.
FURTHER = (
    "predict -m llama-3.1-8b -g h100 --isl 8k --prefix 80% --cache-tier host --cache-hit 80% -c 400",
    "predict -m llama-3.1-8b -g mi300x -c 64 --simulate --requests 300",
    "predict -m llama-3.1-8b -g h100,b200 -c 64 --simulate --requests 300",
    "ttft -m llama-3.1-8b -g h100 --isl 128k -c 4000",
    "predict -m deepseek-v3 -g l4,l40s,a10,t4 --tp 1",
    "tpot -m llama-3.1-8b -g h100,l4 -q fp4",
    "compare -m llama-3.1-70b -g h100,b200,mi300x,h200,l40s --workload chat",
    "quantize -m llama-3.1-8b -g h100 -c 64",
    "sensitivity -m llama-3.1-8b -g h100 -c 64",
    "solve --for bandwidth --slo ttft:1ms -m llama-3.1-8b",
    "cache -m llama-3.1-8b --prefix 900",
    "disaggregate -m qwen3-32b --prefill 8xb200 --decode 8xh100 -c 64 --slo ttft:300,tpot:25",
    "gpus",
    "models",
    "workloads",
    "check vllm.json vllm.json vllm.json",
    "check sweep.csv",
    "check sweep.csv --plot",
    "predict -m llama-3.3-70b -q fp8 -g h100:tp4 --workload chat -c 16 --plot",
    "predict -m llama-3.1-8b -g h100,b200 -c 16 --slo ttft:300@p95 --plot",
    "sensitivity -m llama-3.1-8b -g h100 --plot",
    "predict -m llama",
    "ttft -m llama-3.1-8b --batchsize 3",
    "sensitivity --of tpot",
)
FURTHER = tiers.times((FURTHER[3], FURTHER[4], FURTHER[10], "workloads", "predict -m llama"), FURTHER)
#: Examples that take long or read other files; `COMMANDS` has others of their commands.
_ELSEWHERE = (
    "size -m llama-3.1-70b -q fp8", "goodput -m llama-3.3-70b", "--workload chat -c 16", "--workload rag -c 8",
    "*.json", "kernels.csv", "mine.yaml", "|", " ... ",
)  # fmt: skip
#: Words of a command that asks for more than a first screen, or for no screen.
MORE = {"--all", "--explain", "--formula", "-f", "--format", "-o"}
_SHOWN_NAMES = {*PRESETS, "max_num_seqs", "num_speculative_tokens"}
#: Commands whose words are names: of symbols, of fields, of inputs, in the logs of engines.
OF_NAMES = ("formula", "solve", "sensitivity", "models show", "models", "fits")


def examples():
    """Examples of help, without the name of the program."""
    commands = [cli.get_command(None, name) for name in cli.list_commands(None)]
    commands += [shown for command in commands for shown in getattr(command, "commands", {}).values()]
    lines = [line.strip() for command in commands for line in (command.epilog or "").split("\n")]
    left = [line for line in lines if "roofline " in line and not any(words in line for words in _ELSEWHERE)]
    found = dict.fromkeys(line.partition("roofline ")[2] for line in left)
    others = ("models import", "sheet", "page", "check-specs", "mcp")  # which write files, or wait for a client
    return tiers.some([line for line in found if not line.startswith(others) and not MORE & set(line.split())], 8)


#: A program that runs many command lines, each in a terminal of another size and with further variables of the
#: environment; its exit code and a separator end each.
DRIVER = """
import fcntl, json, os, struct, sys, termios
from roofline.questions import catalog, curve, goodput, plan
from roofline.cli.main import main
def once(ask):  # what takes a while is asked once for all sizes
    answers = {}
    def asked(*arguments, **options):
        key = repr((arguments, options))
        if key not in answers:
            answers[key] = ask(*arguments, **options)
        return answers[key]
    return asked
plan.plan, goodput.goodput, curve.curve = once(plan.plan), once(goodput.goodput), once(curve.curve)
every_gpu, ours = catalog.gpus, dict(os.environ)
sys.path.append(sys.argv[2])
def diagnose_once():  # once something is diagnosed, which loads these modules
    from remembered_figures import ASKING, remembering
    predict = remembering()
    for module in ASKING:
        module.predicted_figures = predict
for words, (columns, lines), more, gpus in json.loads(sys.argv[1]):
    os.environ.clear()
    os.environ.update(ours, **more)
    catalog.gpus = (lambda specs=None, gpus=gpus: gpus) if gpus else every_gpu
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    if words[0] == "check" and "remembered_figures" not in sys.modules:
        diagnose_once()
    sys.argv[:] = ["roofline", *words]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    sys.stdout.write(f"\\x1e{code or 0}\\x1d")
    sys.stdout.flush()
"""


def environment(**more):
    ours = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {**ours, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **more}


def in_terminal(command, size, cwd, **env):
    """Bytes that a program writes to a terminal of this size, standard output and error alike."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    with subprocess.Popen(
        command, stdin=its, stdout=its, stderr=its, cwd=cwd, env=environment(**env), start_new_session=True
    ) as process:
        os.close(its)
        written = []
        try:
            while block := os.read(ours, 1 << 16):
                written.append(block)
        except OSError as end:  # how Linux says that nobody writes to it any more
            assert end.errno == errno.EIO
        os.close(ours)
        assert process.wait(timeout=60) == 0, b"".join(written).decode()
    return b"".join(written)


#: Ways to ask for no colours; what commands write under them stands beside a size.
COLOURLESS = {"NO_COLOR": {"NO_COLOR": "1"}, "dumb": {"TERM": "dumb"}}


def driven(cases, cwd, **env):
    """What commands write at their sizes, or in 80 columns without colours, and their exit codes."""
    runs = []
    for command, size in cases:
        gpus = SAMPLE_GPUS if command.startswith("plan ") else None  # examples: `COMMANDS` has a plan on every GPU
        words = shlex.split(COMMANDS.get(command, command))
        runs.append((words, SIZES[size if size in SIZES else "80x24"], COLOURLESS.get(size, {}), gpus))
    written = in_terminal([sys.executable, "-c", DRIVER, json.dumps(runs), str(TESTS)], (80, 24), cwd, **env)
    *parts, rest = written.split(b"\x1d")
    assert rest == b""
    ends = [part.rpartition(b"\x1e") for part in parts]
    codes = {case: int(code) for case, (_, _, code) in zip(cases, ends, strict=True)}
    return {case: text for case, (text, _, _) in zip(cases, ends, strict=True)}, codes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with the files that commands name."""
    here = tmp_path_factory.mktemp("panes")
    for name in ("vllm.json", "result.json", "before.json", "after.json"):
        shutil.copy(RESULT, here / name)
    shutil.copy(RESULT.parents[3] / "examples" / "sweep.csv", here)
    (here / "specs").mkdir()
    return here


@pytest.fixture(scope="module")
def answers(folder):
    """What commands write at their sizes, and their exit codes: one process answers them all."""
    colourless = [(command, way) for command in QUICK for way in COLOURLESS]
    return driven([*CASES, *colourless, *((command, "80x24") for command in [*examples(), *FURTHER])], folder)


@pytest.fixture(scope="module")
def outputs(answers):
    """What every command writes at every size."""
    return {case: answers[0][case] for case in CASES}


@cache
def drawn(written, columns, lines):
    """Lines of the screen of a terminal, without trailing blanks."""
    screen = pyte.Screen(columns, lines)
    pyte.ByteStream(screen).feed(written)
    return [line.rstrip() for line in screen.display]


def unwrapped(written):
    """Lines as a program wrote them, whatever the width of its terminal."""
    text = list(drawn(written, 200, 60))
    while text and not text[-1]:
        text.pop()
    assert len(text) < 60
    return text


def pane(command, size, written):
    """The pane of a person who typed a command: what is left on the screen when the prompt comes back."""
    typed = f"$ roofline {COMMANDS[command]}\r\n".encode()
    return "\n".join(drawn(typed + written + b"$ ", *SIZES[size])).rstrip("\n") + "\n"


@tiers.has_more_cases
@each(("command", "size"), CASES, ids=[f"{command}-{size}" for command, size in CASES])
def test_a_pane_is_as_it_was_read(outputs, command, size):
    shown = pane(command, size, outputs[command, size])
    path = PANES / f"{command}-{size}.txt"
    if IS_UPDATE:
        PANES.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_every_pane_is_one_of_a_command():
    assert {path.name for path in PANES.iterdir()} == {
        f"{command}-{size}.txt" for command in COMMANDS for size in SIZES
    }


@tiers.has_more_cases
@each(("command", "size"), CASES, ids=[f"{command}-{size}" for command, size in CASES])
def test_no_line_is_wider_than_the_pane_and_all_of_the_answer_is_on_it(outputs, command, size):
    columns, rows = SIZES[size]
    lines = unwrapped(outputs[command, size])
    assert max(map(len, lines)) <= columns
    assert len(lines) < rows  # and the prompt
    shown = pane(command, size, outputs[command, size]).split("\n")
    assert [line for line in lines if line not in shown] == []
    assert shown[-2] == "$"
    assert not [line for line in lines if line.startswith("note: ")]


@tiers.has_more_cases
@each("command", [command for command in ASKED if command not in PLAIN])
def test_a_wider_pane_loses_nothing_that_a_narrow_one_shows(outputs, command):
    """Headings of the table, or words of the prose: those of 80 columns are among those of 120; pictures have none."""
    narrow, wide = (
        set(" ".join(line for line in unwrapped(outputs[command, size]) if not line.endswith("│")).split())
        for size in ("80x24", "120x40")
    )
    lost = {word for word in narrow - wide if any(letter.isalpha() for letter in word)}
    assert lost <= {"..."}, lost


@tiers.has_more_cases
@each("command", [command for command in ASKED if command not in PLAIN])
def test_a_terminal_gets_colours(outputs, command):
    assert all(b"\x1b[" in outputs[command, size] for size in SIZES)
    assert outputs[command, "80x24"].count(b"\x1b[") % 2 == 0  # each is ended


def test_the_installed_command_writes_the_same(outputs, folder):
    roofline = Path(sys.executable).with_name("roofline")
    for command in ONCE:
        written = in_terminal([roofline, *shlex.split(COMMANDS[command])], SIZES["80x24"], folder)
        assert unwrapped(written) == unwrapped(outputs[command, "80x24"])  # one of them may have shown how far it was


@pytest.fixture(scope="module")
def narrow(outputs):
    return {command: unwrapped(outputs[command, "80x24"]) for command in ASKED}


@tiers.has_more_cases
@each("way", COLOURLESS)
def test_without_colours_the_words_are_the_same(narrow, answers, way):
    for command in QUICK:
        written = answers[0][command, way]
        assert b"\x1b" not in written
        assert unwrapped(written) == narrow[command]


FRAME = str.maketrans("─│┌┐└┘├┤┬┴┼", "-|+++++++++")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


#: Of the quick commands, what ASCII lacks: dots and marks, a picture, a word of help.
WITH_SIGNS = ("help", "knee", "pareto", "predict")


@tiers.has_more_cases
@each(("env", "commands"), [({"PYTHONIOENCODING": "ascii"}, WITH_SIGNS), (ASCII, QUICK)], ids=["IOENCODING", "LC_ALL"])
def test_a_terminal_that_has_ascii_alone_gets_marks_and_dots_in_ascii(narrow, folder, env, commands):
    for (command, _), written in driven([(command, "80x24") for command in commands], folder, **env)[0].items():
        text = written.decode("ascii")
        assert "\\x" not in text
        assert "\\u" not in text
        plain = [line.replace(" \u00b7 ", " | ").translate(FRAME) for line in narrow[command]]
        assert unwrapped(text.encode()) == plain


@pytest.mark.parametrize("command", ["ttft", "help"])
def test_a_pipe_is_a_terminal_of_80_columns_without_colours(narrow, folder, command):
    arguments = [Path(sys.executable).with_name("roofline"), *shlex.split(COMMANDS[command])]
    done = subprocess.run(
        arguments, capture_output=True, cwd=folder, env=environment(), check=True, encoding="utf-8", timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.rstrip("\n").split("\n") == narrow[command]
    wide = subprocess.run(
        arguments, capture_output=True, cwd=folder, env=environment(COLUMNS="100"), check=True, encoding="utf-8"
    )
    longest = max(map(len, wide.stdout.split("\n")))
    assert 80 < longest <= 100 if command == "ttft" else wide.stdout == done.stdout


# Every command: what it leaves on a screen of 80x24.


@pytest.fixture(scope="module")
def screens(answers):
    """Lines of the terminal after each example of help, which all work, and what is further, to the next prompt."""
    outputs, codes = answers
    assert {command: codes[command, "80x24"] for command in examples() if codes[command, "80x24"]} == {}
    return {command: left_by(command, outputs[command, "80x24"]) for command in [*examples(), *FURTHER]}


@tiers.has_more_cases
def left_by(command, written):
    """Lines that a command leaves, its own and the prompt included; and the same without the terminal's wrapping."""
    typed = f"$ roofline {command}\r\n".encode()
    most = written.count(b"\n") + len(written) // 80 + 5  # lines of a terminal on which none is lost
    at_80, wide = (drawn(typed + written + b"$ ", columns, most) for columns in (80, 400))
    return ["\n".join(lines).rstrip("\n").split("\n") for lines in (at_80, wide)]


@tiers.has_more_cases
def test_the_answer_of_every_command_is_on_the_screen_when_it_ends(screens):
    assert len(screens) > tiers.times(9, 50)
    assert {command: len(lines) for command, (lines, _) in screens.items() if len(lines) > 24} == {}


def test_no_line_is_wider_than_the_terminal(screens):
    assert [(command, line) for command, (_, lines) in screens.items() for line in lines[1:] if len(line) > 80] == []


def has_more_digits_than_anybody_reads(number):
    return len(number.replace(".", "").lstrip("0")) > 6


@tiers.has_more_cases
@each("what, pattern, not_in", [
    ("percentages with exponents", r"\de[+-]?\d+ ?%", ()),
    ("milliseconds above ten seconds", r"\b\d{5,}(\.\d+)? ms\b", ()),
    ("keys in sentences", r"\b[a-z]+_[a-z0-9_]+\b", OF_NAMES),
    ("unrounded numbers", r"(?<![\w.,])\d+\.\d+(?![\w.])", ()),
])  # fmt: skip
def test_screens_are_written_for_people(screens, what, pattern, not_in):
    matches = {
        (command, match[0])
        for command, (_, lines) in screens.items()
        if not command.startswith(not_in)
        for match in re.finditer(pattern, "\n".join(lines[1:]))
    }
    if what == "unrounded numbers":
        matches = {(command, number) for command, number in matches if has_more_digits_than_anybody_reads(number)}
    assert {(command, text) for command, text in matches if text not in _SHOWN_NAMES} == set()


def test_long_times_are_in_seconds(screens):
    (lines, _) = screens["ttft -m llama-3.1-8b -g h100 --isl 128k -c 4000"]
    assert any("TTFT s (80 %)" in line for line in lines)
    assert any(re.search(r"TTFT \d{4} s", line) for line in lines)


# What takes longer than a second.


def interrupted(command, cwd, until):
    """What a terminal shows of a command that Ctrl-C ends once its output has these bytes, and the exit code."""
    ours, its = pty.openpty()
    arguments = [Path(sys.executable).with_name("roofline"), *shlex.split(command)]
    ours_at = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background jobs ignore it, and theirs
    with subprocess.Popen(
        arguments, stdin=its, stdout=its, stderr=its, cwd=cwd, env=environment(), start_new_session=True
    ) as process:
        signal.signal(signal.SIGINT, ours_at)
        os.close(its)
        written = b""
        try:
            while block := os.read(ours, 1 << 16):
                is_asked = until in written
                written += block
                if until in written and not is_asked:
                    process.send_signal(signal.SIGINT)
        except OSError as end:
            assert end.errno == errno.EIO
        os.close(ours)
        return written, process.wait(timeout=60)


def test_a_long_answer_says_how_far_it_is_and_ends_cleanly_at_ctrl_c(tmp_path):
    command = (
        "goodput -m llama-3.3-70b -q fp8 --isl 4k --isl-cv 0.3 --osl-cv 0.5 --slo ttft:500@p95,tpot:25 -o rows.csv"
    )
    written, code = interrupted(command, tmp_path, b" GPUs ...")
    assert code == 1
    assert re.search(rb"\d+ of \d+ GPUs \.\.\.", written)
    assert [line for line in drawn(written, 80, 24) if line] == ["Aborted!"]
    assert list(tmp_path.iterdir()) == []
