"""Writes docs/cli.md from the commands themselves: python docs/build_cli.py."""

import inspect
import re
import textwrap
from pathlib import Path

import click

from roofline.cli.main import SECTIONS, cli, grouped, names_of

PAGE = Path(__file__).with_name("cli.md")


def page() -> str:
    """Commands by question, the options that they share once, and every command with its own options and examples."""
    commands = _commands(("roofline",), cli)
    shared = _shared([command for _, command in commands])
    parts = ["# Command line", "", "Generated from the commands by `python docs/build_cli.py`.", ""]
    parts += ["| question | command | |", "|---|---|---|"]
    for section, entries in SECTIONS.items():
        for place, (names, _, sentence) in enumerate(entries):
            links = ", ".join(f"[{name}](#roofline-{name})" for name in names)
            parts.append(f"| {'' if place else section} | {links} | {sentence} |")
    parts += ["", "## Options that commands share", ""]
    parts += ["Names of other tools for the same thing are accepted; underscores may stand for hyphens."]
    for title, options in grouped(shared.values()):
        parts += ["", f"### {title}", "", *_table(options)]
    for words, command in commands[1:]:
        parts += ["", f"## {' '.join(words)}", "", *_help(command.help)]
        options = [one for one in command.params if isinstance(one, click.Option)]
        own = [one for one in options if not _is_shared(one, shared)]
        parts += ["", *_table(own)] if own else []
        parts += ["", _sentence(options, own, shared)] if len(own) < len(options) else []
        if command.epilog:
            parts += ["", *_help(command.epilog)]
    return "\n".join(parts) + "\n"


def _shared(commands: list[click.Command]) -> dict[str, click.Option]:
    """Options with the same names and the same help in three commands or more, by parameter."""
    seen: dict[tuple[str, str], list[click.Option]] = {}
    for command in commands:
        for option in command.params:
            if isinstance(option, click.Option):
                seen.setdefault((str(option.name), _meaning(option)), []).append(option)
    several = sorted((len(options), name, options[0]) for (name, _), options in seen.items() if len(options) > 2)
    return {name: option for _, name, option in several}


def _is_shared(option: click.Option, shared: dict[str, click.Option]) -> bool:
    other = shared.get(str(option.name))
    return other is not None and _meaning(other) == _meaning(option) and other.opts == option.opts


def _sentence(options: list[click.Option], own: list[click.Option], shared: dict[str, click.Option]) -> str:
    """Which of the shared options a command takes: those of a group, or all but some."""
    taken = [str(option.name) for option in options if option not in own]
    parts = []
    for title, members in grouped(shared.values()):
        inside = [option for option in members if str(option.name) in taken]
        left = [option for option in members if option not in inside and option.name not in {o.name for o in own}]
        if not inside:
            continue
        link = f"[{title}](#{title.lower().replace(' ', '-')})"
        if not left:
            parts.append(link)
        elif len(left) < len(inside):
            parts.append(f"{link} but for {', '.join(f'`{names_of(option)[-1]}`' for option in left)}")
        else:
            parts.append(", ".join(f"`{names_of(option)[-1]}`" for option in inside))
    return _filled(f"Shared options: {'; '.join(parts)}.")


def _table(options: list[click.Option]) -> list[str]:
    return ["| option | meaning |", "|---|---|", *(f"| {_names(option)} | {_meaning(option)} |" for option in options)]


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
        lines += [*([""] if lines else []), *(["```", body, "```"] if verbatim else [_filled(body)])]
    return lines


def _filled(text: str) -> str:
    """A paragraph in lines of at most 118 columns, which no link or code is broken by."""
    whole = re.sub(r"\[[^\]]*\]\(|`[^`]*`", lambda part: part[0].replace(" ", "\0"), " ".join(text.split()))
    return textwrap.fill(whole, 118, break_on_hyphens=False, break_long_words=False).replace("\0", " ")


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
