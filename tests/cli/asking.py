"""Asking the command line inside this process."""

import csv
import io
import json

from click.testing import CliRunner

from roofline.cli.main import cli


def ask(*arguments, env=None):
    """Result of a command, which must end by itself or by an exit code: never by a traceback."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], env=env)
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
    """Heading cells and rows of cells of a plain table, split where the rule below the headings says."""
    heading, rule, *lines = text.split("\n\n")[0].rstrip("\n").split("\n")
    starts = [place for place in range(len(rule)) if rule[place] == "-" and (place == 0 or rule[place - 1] == " ")]
    ends = [*starts[1:], None]
    return [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in (heading, *lines)]


def strict_json(text):
    """JSON without NaN and Infinity, which are none."""

    def refuse(word):
        raise AssertionError(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)
