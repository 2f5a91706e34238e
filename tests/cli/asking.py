"""Asking the command line inside this process."""

import csv
import io
import json
import re
from itertools import takewhile

from click.testing import CliRunner

from roofline.cli.main import cli


def ask(*arguments, env=None):
    """Result of a command, which must end by itself or by an exit code: never by a traceback."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], env=env, prog_name="roofline")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"roofline {' '.join(map(str, arguments))}: traceback") from result.exception
    assert "Traceback" not in result.output
    return result


def answered(*arguments, env=None):
    """Standard output of a command that must succeed."""
    result = ask(*arguments, env=env)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments):
    """JSON of a command that must succeed, read strictly."""
    return strict_json(answered(*arguments, "--format", "json"))


def rows(*arguments):
    """Rows of the JSON of a command that must succeed."""
    return document(*arguments)["rows"]


def row(*arguments):
    """The single row of a command that must succeed."""
    (only,) = rows(*arguments)
    return only


def csv_rows(text):
    """Header and rows of a CSV text."""
    table = list(csv.reader(io.StringIO(text)))
    return table[0], table[1:]


def cells(text):
    """Heading cells and rows of cells of the first Markdown table of a text."""
    table = list(takewhile(lambda line: line.startswith("|"), text[text.index("|") :].split("\n")))
    heading, _, *body = (
        [re.sub(r"\\([\\|<])", r"\1", cell).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table
    )
    return [heading, *body]


def shown(*arguments):
    """Heading cells and rows of cells of what a command that must succeed shows to people, nothing left out."""
    return cells(answered(*arguments, "--format", "markdown"))


def noted(*arguments):
    """Notes of a command, which people see with ``--notes`` alone."""
    result = ask(*arguments, "--notes")
    assert "note: " not in result.stdout
    assert ": --notes" not in result.stdout
    return result.stderr


def once(question):
    """A question that is asked once for the same arguments, for commands that show one answer in several ways."""
    answers = {}

    def asked(*arguments, **options):
        key = repr((arguments, options))
        if key not in answers:
            answers[key] = question(*arguments, **options)
        return answers[key]

    return asked


def strict_json(text):
    """JSON without NaN and Infinity, which are none."""

    def refuse(word):
        raise AssertionError(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)
