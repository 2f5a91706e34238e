"""What a terminal of 80x24, 100x30 or 120x40 shows after a command, run in a pseudo-terminal and drawn by an emulator.

The panes are kept in tests/cli/panes. Where an answer changed on purpose, write them anew and read them:

    ROOFLINE_UPDATE_PANES=1 python -m pytest -n0 tests/cli/test_panes.py && git diff tests/cli/panes
"""

import errno
import fcntl
import json
import os
import pty
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from functools import cache
from pathlib import Path

import pyte
import pytest
from every_case import each

PANES = Path(__file__).with_name("panes")
RESULT = Path(__file__).parents[1] / "fixtures" / "results" / "vllm.json"
IS_UPDATE = bool(os.environ.get("ROOFLINE_UPDATE_PANES"))
SIZES = {"80x24": (80, 24), "100x30": (100, 30), "120x40": (120, 40)}
COMMANDS = {
    "help": "--help",
    "ttft": "ttft -m llama-3.1-70b --isl 2000",
    "predict": "predict -m llama-3.1-70b -q fp8 -g h100:tp4 --isl 2k -b 16",
    "tpot": "tpot -m llama-3.1-8b -g h100,b200,l40s --isl 2k --osl 300 -c 64",
    "size": "size -m llama-3.3-70b -q fp8 --isl 4k --osl 500 -c 64 --slo ttft:300",
    "goodput": "goodput -m llama-3.1-8b -g h100,b200 --workload chat",
    "compare": "compare -m llama-3.1-8b -g h100,b200 --isl 2k --osl 300 -b 16",
    "quantize": "quantize -m llama-3.1-8b -g h100 --isl 2k --osl 300 -b 16",
    "sensitivity": "sensitivity -m llama-3.1-8b -g h100 --of tpot",
    "solve": "solve --for batch --slo ttft:300,tpot:25 -m llama-3.1-8b -g h100",
    "knee": "knee -m llama-3.1-70b -g h100,b200",
    "sweep": "sweep -m llama-3.1-8b -g h100,b200 --isl 1k,4k -b 1:64:x4",
    "check": "check vllm.json",
}
#: Commands that colour nothing: prose.
PLAIN = {"help"}
#: Commands that answer at once, for what is asked of every one of them again.
QUICK = [command for command in COMMANDS if command not in ("size", "goodput")]
CASES = [(command, size) for command in COMMANDS for size in SIZES]
ONCE = ("help", "ttft", "predict")  # run through the installed command, too

#: A program that runs many command lines, each in a terminal of another size; a group separator ends each.
DRIVER = """
import fcntl, json, struct, sys, termios
from roofline.questions import goodput, size
from roofline.cli.main import main
def once(ask):  # what takes a while is asked once for all sizes
    answers = {}
    def asked(*arguments, **options):
        key = repr((arguments, options))
        if key not in answers:
            answers[key] = ask(*arguments, **options)
        return answers[key]
    return asked
size.size, goodput.goodput = once(size.size), once(goodput.goodput)
for words, (columns, lines) in json.loads(sys.argv[1]):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    sys.argv[:] = ["roofline", *words]
    try:
        main()
    except SystemExit as end:
        if end.code not in (0, None):
            raise
    sys.stdout.write("\\x1d")
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


def driven(cases, cwd, **env):
    """What commands write at their sizes."""
    runs = [(shlex.split(COMMANDS[command]), SIZES[size]) for command, size in cases]
    written = in_terminal([sys.executable, "-c", DRIVER, json.dumps(runs)], (80, 24), cwd, **env)
    *parts, rest = written.split(b"\x1d")
    assert rest == b""
    return dict(zip(cases, parts, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with a benchmark's result."""
    here = tmp_path_factory.mktemp("panes")
    shutil.copy(RESULT, here)
    return here


@pytest.fixture(scope="module")
def outputs(folder):
    """What every command writes at every size: one process answers them all."""
    return driven(CASES, folder)


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


@each(("command", "size"), CASES, ids=[f"{command}-{size}" for command, size in CASES])
def test_a_pane_is_as_it_was_read(outputs, command, size):
    shown = pane(command, size, outputs[command, size])
    path = PANES / f"{command}-{size}.txt"
    if IS_UPDATE:
        PANES.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")


def test_every_pane_is_one_of_a_command():
    assert {path.name for path in PANES.iterdir()} == {f"{command}-{size}.txt" for command, size in CASES}


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


@each("command", [command for command in COMMANDS if command not in PLAIN])
def test_a_wider_pane_loses_nothing_that_a_narrow_one_shows(outputs, command):
    """Headings of the table, or words of the prose: those of 80 columns are among those of 120."""
    narrow, wide = (set(" ".join(unwrapped(outputs[command, size])).split()) for size in ("80x24", "120x40"))
    lost = {word for word in narrow - wide if any(letter.isalpha() for letter in word)}
    assert lost <= {"..."}, lost


@each("command", [command for command in COMMANDS if command not in PLAIN])
def test_a_terminal_gets_colours(outputs, command):
    assert all(b"\x1b[" in outputs[command, size] for size in SIZES)
    assert outputs[command, "80x24"].count(b"\x1b[") % 2 == 0  # each is ended


def test_the_installed_command_writes_the_same(outputs, folder):
    roofline = Path(sys.executable).with_name("roofline")
    for command in ONCE:
        written = in_terminal([roofline, *shlex.split(COMMANDS[command])], SIZES["80x24"], folder)
        assert written == outputs[command, "80x24"]


@pytest.fixture(scope="module")
def narrow(outputs):
    return {command: unwrapped(outputs[command, "80x24"]) for command in COMMANDS}


def quick(folder, **env):
    """What quick commands write in 80 columns."""
    written = driven([(command, "80x24") for command in QUICK], folder, **env)
    return {command: text for (command, _), text in written.items()}


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_without_colours_the_words_are_the_same(narrow, folder, env):
    for command, written in quick(folder, **env).items():
        assert b"\x1b" not in written
        assert unwrapped(written) == narrow[command]


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}


@pytest.mark.parametrize("env", [{"PYTHONIOENCODING": "ascii"}, ASCII], ids=["PYTHONIOENCODING", "LC_ALL"])
def test_a_terminal_that_has_ascii_alone_gets_marks_and_dots_in_ascii(narrow, folder, env):
    for command, written in quick(folder, **env).items():
        text = written.decode("ascii")
        assert "\\x" not in text
        assert "\\u" not in text
        assert unwrapped(text.encode()) == [line.replace(" \u00b7 ", " | ") for line in narrow[command]]


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
