"""Some 450 commands answer as they did, every seventh in the quick tier.

CONTRIBUTING.md, "A changed screen", says how to write the answers anew.
"""

import difflib
import re

import click
import pytest
import tiers
from every_case import each
from recorded import ANSWERS, SHIPPED, answered, commands, is_same, stored

from roofline.cli.main import cli, groups
from roofline.questions.inputs.options import CASE

COMMANDS = commands()
LINES = [line for name, lines in COMMANDS.items() if name != SHIPPED for line in lines]
KNOWN = {name: cli.get_command(None, name) for name in cli.list_commands(None)}
pytestmark = pytest.mark.usefixtures("_figures_predicted_once")
#: Lines of a command that the quick tier answers: otherwise every seventh one.
FEW = {"sheet": 1, "check": 3}
REWRITE = "if that is right: python tests/corpus/write.py, then read git diff tests/corpus/answers"


@tiers.has_more_cases
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_answer_as_they_did(name):
    before = stored(name)
    changes = []
    lines = tiers.some(COMMANDS[name], FEW.get(name, -(-len(COMMANDS[name]) // 7)))
    for line, block in answered(name, lines).items():
        was = before.get(line, "")
        if not is_same(was, block):
            changes += difflib.unified_diff(was.split("\n"), block.split("\n"), "stored", "now", n=1, lineterm="")
    assert not changes, "\n".join([f"{name} answers otherwise; {REWRITE}", *changes])


def test_every_answer_is_to_a_command_of_the_lists():
    assert {path.stem for path in ANSWERS.glob("*.txt")} == set(COMMANDS)
    assert {name: list(stored(name)) for name in COMMANDS} == COMMANDS


# --- the lists leave nothing out -----------------------------------------------------------------


def options_of(command):
    """Options that its help shows."""
    return [option for option in command.params if isinstance(option, click.Option) and not option.hidden]


def is_written(option, lines):
    """Whether any of some command lines has an option, by any of its names."""
    return any(
        re.search(rf"(?:^| ){re.escape(name)}(?:[ =]|$)", line.replace("_", "-"))
        for name in option.opts
        for line in lines
    )


@each("name", KNOWN)
def test_every_option_of_a_command_is_in_a_line(name):
    shared = {option for names in groups().values() for option in names}
    for option in options_of(KNOWN[name]):
        lines = LINES if option.name in shared else COMMANDS[name]
        assert is_written(option, lines), f"add a line with {name} {option.opts[-1]} to tests/corpus/commands.txt"


def test_every_option_of_a_case_is_in_a_line():
    found = {option.name: option for name in KNOWN for option in options_of(KNOWN[name])}
    for option in (option for options in CASE.values() for option in options):
        assert is_written(found[option.name], LINES), f"add a line with {option.flags[-1]} to tests/corpus/commands.txt"


@each("name", KNOWN)
def test_every_command_answers_and_refuses(name):
    ends = {re.search(r"^--- exit code (\d)$", block, re.MULTILINE) is None for block in stored(name).values()}
    assert ends == {True, False}


#: Long answers, slow ones, commands that write files of one kind, and one that prints no rows.
FEWER_FORMATS = ("quantize", "levers", "calibrate", "sheet", "page", "mcp")


@each("name", [name for name in KNOWN if name not in FEWER_FORMATS])
def test_every_command_is_in_every_format(name):
    (option,) = (option for option in options_of(KNOWN[name]) if option.name == "output_format")
    for written in option.type.choices:
        if written != option.default:
            assert any(re.search(rf"(?:-f|--format) {written}\b|--{written}", line) for line in COMMANDS[name]), written
