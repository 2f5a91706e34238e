"""Writes docs/cli.md from the commands themselves: python docs/build_cli.py."""

import inspect
import re
import textwrap
from pathlib import Path

import click

from roofline.cli.main import cli

PAGE = Path(__file__).with_name("cli.md")


def page() -> str:
    """Every command with its help, options and examples, as one Markdown page."""
    parts = ["# Command line", "", "Generated from the commands by `python docs/build_cli.py`."]
    for words, command in _commands(("roofline",), cli):
        parts += ["", f"## {' '.join(words)}", "", *_help(command.help)]
        options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
        if options:
            parts += ["", "| option | meaning |", "|---|---|"]
            parts += [f"| {_names(option)} | {_meaning(option)} |" for option in options]
        if command.epilog:
            parts += ["", *_help(command.epilog)]
    return "\n".join(parts) + "\n"


def _commands(words: tuple[str, ...], command: click.Command) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(words, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None:
                found += _commands((*words, name), child)
    return found


def _help(text: str | None) -> list[str]:
    """Paragraphs; what click keeps as it is (after \\b) becomes a code block."""
    lines = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        verbatim = paragraph.lstrip().startswith("\b")
        body = textwrap.dedent(re.sub(r"^\s*\x08\n", "", paragraph)).rstrip()
        lines += [*([""] if lines else []), *(["```", body, "```"] if verbatim else [body])]
    return lines


def _names(option: click.Option) -> str:
    return ", ".join(f"`{name}`" for name in option.opts)


def _meaning(option: click.Option) -> str:
    choices = getattr(option.type, "choices", None)
    listed = f" One of {', '.join(choices)}." if choices else ""
    value = ", ".join(option.default) if isinstance(option.default, tuple) else option.default
    default = f" Default: {value}." if option.show_default else ""
    return ((option.help or "") + listed + default).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
