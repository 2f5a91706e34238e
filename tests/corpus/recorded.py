"""Commands, what they answer, and whether two answers are the same."""

import re
import shlex
import shutil
from functools import cache
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from roofline.catalog import checks, files
from roofline.cli.main import cli

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ANSWERS = HERE / "answers"
#: Folders that commands name, beside the one in which they run.
FOLDERS = (HERE / "catalog", HERE / "inputs", HERE.parent / "fixtures" / "results")
SHIPPED = "shipped"
PROMPT = "$ roofline "
_SHOWN = {".csv", ".json"}  # written files whose text is part of the answer
_CLOSE, _TINY = 1e-9, 1e-14  # figures that differ by less are the same: platforms round the last digits differently
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)")


def commands():
    """Command lines by the name of the file of their answers: that of the command."""
    lines = {SHIPPED: _lines(HERE / "shipped.txt")}
    for line in _lines(HERE / "commands.txt"):
        lines.setdefault(_file_of(line), []).append(line)
    return lines


def _lines(path):
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def _file_of(line):
    word = line.split()[0]
    return word if word.isidentifier() and cli.get_command(None, word) else "roofline"


def answered(name, lines):
    """Answers to command lines, one block each, by the line."""
    return dict(zip(lines, _blocks(name, lines), strict=True))


def _blocks(name, lines):
    specs = None if name == SHIPPED else "catalog"
    environment = {"COLUMNS": "80", "NO_COLOR": None, "ROOFLINE_SPECS": specs}
    runner = CliRunner(env=environment)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as place:
        patch.chdir(place)
        for folder in FOLDERS:
            shutil.copytree(folder, folder.name)
        # Users' files are read for every question: here, each once.
        patch.setattr(checks, "checked_document", cache(checks.checked_document))
        patch.setattr(files, "own_entry", cache(files.own_entry))
        for line in lines:
            yield _block(runner, line)


def _block(runner, line):
    words, _, source = line.partition(" < ")
    typed = Path(source).read_text(encoding="utf-8") if source else None
    before = set(Path().iterdir())
    result = runner.invoke(cli, shlex.split(words), input=typed, prog_name="roofline")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"roofline {line}: traceback") from result.exception
    parts = [f"{PROMPT}{line}\n", result.stdout]
    if result.stderr:
        parts.append(f"--- stderr\n{result.stderr}")
    if result.exit_code:
        parts.append(f"--- exit code {result.exit_code}\n")
    for path in sorted(set(Path().iterdir()) - before):
        parts.append(f"--- {path}\n{path.read_text(encoding='utf-8') if path.suffix in _SHOWN else ''}")
        path.unlink()
    text = "".join(part if part.endswith("\n") or not part else part + "\n" for part in parts)
    return text.rstrip("\n").replace(str(ROOT), "ROOT") + "\n"


def stored(name):
    """Blocks of a file of answers, by their command lines."""
    path = ANSWERS / f"{name}.txt"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    blocks = re.split(rf"^(?={re.escape(PROMPT)})", text, flags=re.MULTILINE)[1:]
    return {block.partition("\n")[0].removeprefix(PROMPT): block.rstrip("\n") + "\n" for block in blocks}


def is_same(one, other):
    """Whether two texts differ in the last digits of figures at most.

    >>> is_same("TTFT 61.123456789012 ms", "TTFT 61.123456789013 ms"), is_same("TTFT 61.1 ms", "TTFT 61.2 ms")
    (True, False)
    """
    if one == other:
        return True
    left, right = _NUMBER.split(one), _NUMBER.split(other)
    return len(left) == len(right) and all(map(_is_same_part, left, right))


def _is_same_part(one, other):
    if one == other:
        return True
    if not (_NUMBER.fullmatch(one) and _NUMBER.fullmatch(other)):
        return False
    return isclose(float(one), float(other), rel_tol=_CLOSE, abs_tol=_TINY)
