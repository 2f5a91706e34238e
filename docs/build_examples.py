"""Runs every command that a page shows with its output, and writes the output below it: python docs/build_examples.py.

A fence ```console holds commands after `$ `, each above what it prints on a terminal of 80 columns.
"""

import os
import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from roofline.cli.main import cli

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"```console\n(.*?)```", re.DOTALL)
PAGES = tuple(
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.stem != "contributing"  # its commands read files of its own: tests/test_contributing.py runs them
    and _FENCE.search(page.read_text(encoding="utf-8"))
)


def commands(text: str) -> list[str]:
    """Commands of a page that are shown with their output."""
    return [line[2:] for block in _FENCE.findall(text) for line in block.splitlines() if line.startswith("$ ")]


def with_outputs(text: str) -> str:
    """The page with what its commands print today."""
    return _FENCE.sub(lambda fence: f"```console\n{_block(fence[1])}```", text)


def _block(block: str) -> str:
    lines = [line for line in block.splitlines() if line.startswith("$ ")]
    return "\n".join(f"{line}\n{printed(line[2:])}" for line in lines) + "\n"


def printed(command: str) -> str:
    """What a command prints to its output on a terminal of 80 columns."""
    program, *arguments = shlex.split(command)
    if program != "roofline":
        raise SystemExit(f"{command}: only roofline is run here")
    os.environ["COLUMNS"] = "80"
    os.environ["SOURCE_DATE_EPOCH"] = "1795737600"  # 2026-11-27: ages of prices do not change with the day of the build
    result = CliRunner().invoke(cli, arguments, prog_name="roofline")
    if result.exit_code:
        raise SystemExit(f"{command}: exit code {result.exit_code}: {result.output}")
    return result.stdout.rstrip("\n")


def picture(path: Path) -> str:
    """The command that a page names below its picture, with the picture written elsewhere."""
    page = ROOT / "docs" / "howto" / "keep-an-slo.md"
    command = re.search(r"`(roofline curve [^`]*) -o docs/curve\.svg`", page.read_text(encoding="utf-8"))
    if command is None:
        raise SystemExit(f"{page.name}: no command draws docs/curve.svg")
    return printed(f"{command[1]} -o {path} --force")


if __name__ == "__main__":
    picture(ROOT / "docs" / "curve.svg")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        current = with_outputs(text)
        if current != text:
            page.write_text(current, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: updated")  # noqa: T201
