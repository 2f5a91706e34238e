"""Any command line ends with exit code 0, 1 or 2, and with one message where there is no answer: never a traceback."""

import os
import shutil
import tempfile
from pathlib import Path

import tiers
from cli.asking import ask, strict_json
from fuzz.strategies import SPECIFICATIONS, command_lines
from hypothesis import example, given, settings
from measurements.test_kernel_table import TABLE
from measurements.test_results import FOLDER

_RESULTS = ("vllm.json", "aiperf.json", "passes.csv", "sglang.jsonl")
#: Files that a command line may name.
FILES = (*_RESULTS, "kernels.csv", "own", "own/gpu.yaml", "own/engine.yaml", "missing.yaml")


def filled(folder):
    """The folder with a file of each kind in it."""
    for name in _RESULTS:
        shutil.copy(FOLDER / name, folder)
    (folder / "own").mkdir()
    (folder / "kernels.csv").write_text(TABLE, encoding="utf-8")
    for kind, (text, *_) in SPECIFICATIONS.items():
        (folder / "own" / f"{kind}.yaml").write_text(text, encoding="utf-8")


@given(arguments=command_lines(FILES))
@example(arguments=["predict", "-m", "llama-3.1-8b", "-m", "llama-3.1-8b"])
@settings(max_examples=tiers.times(20, 100))
def test_any_command_line_ends_with_an_answer_or_one_message(arguments):
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        filled(Path(folder))
        os.chdir(folder)
        try:
            result = ask(*arguments)
        finally:
            os.chdir(here)
    assert result.exit_code in (0, 1, 2)
    messages = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    asks_for_help = {"-h", "--help"} & set(arguments)
    if result.exit_code == 0 or asks_for_help:
        assert messages == []
        assert result.stdout or result.stderr
    else:
        assert len(messages) == 1
    if {"json"} & set(arguments) and result.stdout.startswith("{"):
        assert strict_json(result.stdout)
