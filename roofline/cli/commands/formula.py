"""The closed form of an answer: the `formula` command."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api import why as questions
from roofline.cli.case import WITHOUT_LIMITS, case_options, one_case
from roofline.cli.help import Question
from roofline.cli.render import SCHEMA_VERSION, echo, notes


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline formula ttft -m llama-3.1-8b -g h100 --isl 2k --basis ideal\n"
    "  roofline formula tpot -m deepseek-r1 -g h200:tp8 --format latex\n"
    "  roofline formula ttft -m llama-3.1-70b -g b200 --format python",
)
@click.argument("result", metavar="RESULT", type=click.Choice(list(questions.FORMULAS)))
@partial(case_options, without=WITHOUT_LIMITS, single=True)
@click.option(
    "-f",
    "--format",
    "output_format",
    type=click.Choice(["text", "latex", "python", "json"]),
    default="text",
    show_default=True,
    help="How to print: for people, for papers, as a program, for programs.",
)
def formula(
    result: str, models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str
) -> None:
    """The closed form of an answer for one case, with its numbers.

    RESULT is ttft, tpot, e2el, a throughput, or knee.
    """
    if result != "knee":
        options.pop("slo", None)  # of a workload
    closed_form = questions.formula(*one_case(models, gpus), result, **options)
    match output_format:
        case "latex":
            echo(closed_form.to_latex())
        case "python":
            echo(closed_form.to_python())
        case "json":
            import json

            echo(json.dumps({"schema_version": SCHEMA_VERSION, "rows": [closed_form.to_dict()]}, indent=2))
        case _:
            echo(str(closed_form))
            if closed_form.is_implicit:
                notes([f"{closed_form.name} has no closed form here; it is the root of the expression"])
