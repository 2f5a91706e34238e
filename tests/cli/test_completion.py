"""What the shell offers after Tab: the completion script, run by bash itself."""

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import BashComplete
from every_case import each

import roofline as rl
from roofline.catalog.find import engine_names
from roofline.cli.main import cli
from roofline.serving.quantization import PRESETS

BASH = shutil.which("bash")
COMMANDS = Path(sys.executable).parent
LOAD = 'eval "$(_ROOFLINE_COMPLETE=bash_source roofline)"'

pytestmark = pytest.mark.skipif(BASH is None, reason="bash completes")


def environment(**more):
    return {**os.environ, "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}", **more}


def completed(*lines, **env):
    """What one bash would offer after each of some lines whose last word is being typed."""
    script = [LOAD]
    for line in lines:
        words = line.split(" ")
        script.append(f"COMP_WORDS=({' '.join(map(shlex.quote, words))}) COMP_CWORD={len(words) - 1} COMPREPLY=()")
        script.append('_roofline_completion roofline\nprintf "%s\\n" "${COMPREPLY[@]}" "---"')
    done = subprocess.run(
        [BASH, "--norc", "-c", "\n".join(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(**env),
    )
    assert (done.returncode, done.stderr) == (0, "")
    *offers, rest = done.stdout.split("---\n")
    assert (len(offers), rest) == (len(lines), "")
    return [offer.split() for offer in offers]


def begin(names, beginning):
    """Names that begin like that: several, or the test would say little."""
    found = [name for name in names if name.startswith(beginning)]
    assert len(found) > 1
    return found


COMPLETIONS = [
    ("roofline ttft -m ", list(rl.models())),
    ("roofline ttft -m LLAMA-3.1", begin(rl.models(), "llama-3.1")),
    ("roofline tpot -m qwen3-32b -g ", list(rl.gpus())),
    ("roofline compare -g h100-sxm,b2", ["h100-sxm,b200"]),
    ("roofline gpus show h100", begin(rl.gpus(), "h100")),
    ("roofline check result.json -g mi3", begin(rl.gpus(), "mi3")),
    ("roofline size -q ", list(PRESETS)),
    ("roofline sweep -q bf16,int", [f"bf16,{name}" for name in begin(PRESETS, "int")]),
    ("roofline predict --engine trt", begin(engine_names(), "trt")),
    ("roofline solve --for ba", ["bandwidth", "batch"]),
    ("roofline goodput --workload inf", begin(rl.workloads(), "inf")),
    ("roofline ttft --format ", ["table", "markdown", "csv", "json"]),
    ("roofline sensitivity -f la", ["latex"]),
    ("roofline curve --against ", ["rate", "users"]),
    ("roofline go", ["goodput"]),
    ("roofline ", list(cli.list_commands(None))),
    ("roofline ttft --kv", ["--kv-cache-dtype"]),
    ("roofline ttft --isl", ["--isl", "--isl-cv"]),
    ("roofline gpus sh", ["show"]),
]


def test_bash_completes_commands_options_and_their_values():
    some = COMPLETIONS[1::4]  # each takes a start of the command
    offers = completed(*(line for line, _ in some))
    wrong = {line: offer for (line, expected), offer in zip(some, offers, strict=True) if offer != expected}
    assert wrong == {}


@each(("line", "expected"), COMPLETIONS)
def test_commands_options_and_their_values_are_completed(line, expected):
    _, *words, beginning = line.split(" ")
    shell = BashComplete(cli, {}, "roofline", "_ROOFLINE_COMPLETE")
    assert [item.value for item in shell.get_completions(words, beginning)] == expected


@pytest.mark.parametrize("specs", ["no-such-folder", "~nobody-of-this-name/specs"])
def test_completion_is_silent_where_the_catalog_cannot_be_read(specs):
    assert completed("roofline ttft -g h", ROOFLINE_SPECS=specs) == [[]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell(shell):
    done = subprocess.run(
        [str(COMMANDS / "roofline")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(_ROOFLINE_COMPLETE=f"{shell}_source"),
    )
    assert done.returncode == 0
    assert f"_ROOFLINE_COMPLETE={shell}_complete" in done.stdout


def test_tab_completes_in_a_bash_that_is_typed_into():
    child, terminal = pty.fork()
    if child == 0:
        os.execve(BASH, [BASH, "--norc", "--noprofile", "-i"], environment(PS1="$ ", TERM="dumb"))
    try:
        os.write(terminal, f"{LOAD}; echo loa''ded\n".encode())
        text = read_until(terminal, "loaded")
        os.write(terminal, b"roofline predict -m mixtral-8x7\t-g h200-sx\t")
        text = read_until(terminal, "-g h200-sxm ")
        assert text.endswith("roofline predict -m mixtral-8x7b -g h200-sxm ")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def read_until(terminal, ending, patience=30.0):
    """What a terminal shows, up to a text."""
    shown, last = "", time.monotonic() + patience
    while ending not in shown and time.monotonic() < last:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace").replace("\a", "")
    assert ending in shown
    return shown
