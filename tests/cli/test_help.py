"""Help pages: one screen of commands by question; options in groups; no line wider than a terminal."""

import re

import click
from asking import answered
from every_case import each

from roofline.cli.main import SECTIONS, Question, cli, groups, names_of

CONTEXT = click.Context(cli)
NAMES = cli.list_commands(CONTEXT)
GROUPED = [name for name in NAMES if isinstance(cli.get_command(CONTEXT, name), Question)]


def pages():
    """Words of every help page."""
    for name in NAMES:
        command = cli.get_command(CONTEXT, name)
        yield (name,)
        if isinstance(command, click.Group):
            yield from ((name, each) for each in command.list_commands(CONTEXT))


def sections(text):
    """Options of each group of a help page, each by its first name."""
    found = {}
    for title, body in re.findall(r"^(\w[\w ]*):\n((?:  .*\n|\n)+)", text, re.MULTILINE):
        lines = re.findall(r"^  (-\w, )?(--[\w-]+)", body, re.MULTILINE)
        if lines:
            found[title] = [long for _, long in lines]
    return found


@each("words", list(pages()), ids=" ".join)
@each("columns", ["80", "200"])
def test_no_line_of_help_is_wider_than_80_columns(words, columns):
    lines = answered(*words, "--help", env={"COLUMNS": columns}).split("\n")
    assert [line for line in lines if len(line) > 80] == []


def test_the_first_help_fits_a_screen():
    lines = answered("--help").rstrip("\n").split("\n")
    assert [line for line in lines if len(line) > 80] == []
    assert len(lines) < 24  # and the prompt


def test_every_command_stands_under_its_question_with_a_sentence():
    text = answered("--help")
    listed = [name for entries in SECTIONS.values() for names, _, _ in entries for name in names]
    assert listed == NAMES
    assert len(set(listed)) == len(listed)
    assert list(SECTIONS) == ["Ask", "Decide", "Why", "Improve", "Measure", "Keep", "Agents", "Catalog"]
    for section, entries in SECTIONS.items():
        for place, (names, _, sentence) in enumerate(entries):
            heading = section if place == 0 else ""
            assert re.search(rf"^{heading} +{', '.join(names)} +{re.escape(sentence)}$", text, re.MULTILINE), sentence
            assert re.fullmatch(r"[A-Z][a-z]+ [^.]{10,}\.", sentence), sentence


@each("words", list(pages()), ids=" ".join)
def test_a_page_begins_with_a_whole_sentence(words):
    text = answered(*words, "--help")
    paragraph = " ".join(text.split("\n\n")[1].split())
    assert re.fullmatch(r"[A-Z].*[.?]", paragraph), paragraph


def test_all_but_the_catalog_show_their_options_in_groups():
    assert {name for name in NAMES if name not in GROUPED} <= {"gpus", "models", "workloads"}


@each("name", GROUPED)
def test_options_stand_in_groups_each_once_and_the_common_ones_first(name):
    command = cli.get_command(CONTEXT, name)
    found = sections(answered(name, "--help"))
    order = [f"Options of {name}", *groups()]
    assert list(found) == [title for title in order if title in found]
    shown = [option for options in found.values() for option in options]
    context = click.Context(command)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and not one.hidden]
    wanted = [next(text for text in names_of(one) if text.startswith("--")) for one in options]
    assert sorted(shown) == sorted(wanted)
    assert "--help" in found["Output"]
    for title, names in groups().items():
        long = [f"--{each.replace('_', '-')}" for each in names]
        kept = [option for option in found.get(title, ()) if option in long]
        assert kept == [option for option in long if option in kept]


@each("name", ["predict", "ttft", "tpot", "compare", "sweep", "goodput", "plan"])
def test_a_question_about_a_case_begins_with_the_case(name):
    found = sections(answered(name, "--help"))
    case = next(iter(title for title in found if not title.startswith("Options of")))
    assert case == "Case"
    assert found["Case"][:4] == ["--model", "--gpu", "--isl", "--osl"]
    assert found["Plan"][0] == "--tp"
    assert "--quantization" in found["Formats"]
    assert found["Output"][:5] == ["--format", "--output", "--force", "--all", "--notes"]
