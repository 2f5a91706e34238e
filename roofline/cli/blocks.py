"""Tables in blocks: what `sweep --out` wrote, and what `--reduce` kept, on a screen or for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import PLAN, PLAN_KEYS, differ, ranked, varying_columns
from roofline.cli.options import FOR_PROGRAMS, Command, PathName, echo, for_people, print_rows, print_table, show
from roofline.cli.progress import log_progress
from roofline.cli.screen import Row, Screen, ScreenColumn, cell_text, flags
from roofline.numbers.quantity import MEGA, counted, rounded
from roofline.questions.inputs.arguments import limits_words

if TYPE_CHECKING:
    from roofline.questions.blocks import DataSet

_STOPPED = 130  # exit code of a command that Ctrl-C stopped
_PERCENT = 100.0
_HEADINGS = {
    "bin_low": "from", "bin_high": "to", "row_count": "rows", "row_share": "share", "met_count": "meet the SLO",
    "unknown_count": "not known", "met_share": "share",
}  # fmt: skip
_LONG = 10.0  # time from which on the rate is said [s]


def block_options(function: Command) -> Command:
    """Add ``--keys``, ``--out``, ``--resume``, ``--reduce``, ``--jobs`` and ``--dask``."""
    for option in (
        click.option(
            "--dask",
            metavar="ADDRESS",
            help="Scheduler of a Dask cluster that computes, or its scheduler file; needs the extra dask.",
        ),
        click.option("--jobs", metavar="N|all", help="Processes of this machine that compute.  [default: 1]"),
        click.option(
            "--reduce",
            metavar="KIND:KEY[:PER]",
            multiple=True,
            help="Keep this of the rows: best:KEY, top:N:KEY, frontier:KEY,KEY (within --slo), histogram:KEY[:EDGES] "
            "or share, each per group: best:ttft:gpu,tp.",
        ),
        click.option("--resume", is_flag=True, help="Compute only the blocks that are missing in --out."),
        click.option(
            "--out",
            type=PathName(),
            metavar="FOLDER",
            help="Write the rows to a folder of Parquet files, block by block; of any number.",
        ),
        click.option("--keys", metavar="KEY,...", help="Keys of the rows of files and programs.  [default: all]"),
    ):
        function = option(function)
    return function


def is_in_blocks(asked: Mapping[str, Any]) -> bool:
    """Whether rows are written to a folder or reduced; refuses options that need it."""
    if asked["out"] is not None or asked["reduce"]:
        return True
    for name in ("resume", "jobs", "dask"):
        if asked[name]:
            raise click.UsageError(f"--{name} is for blocks: give --out FOLDER, --reduce, or both")
    return False


def keys_named(keys: str | None, output_format: str, *, in_blocks: bool) -> tuple[str, ...] | None:
    """Keys of ``--keys``; None for all."""
    if keys is None:
        return None
    if for_people(output_format) and not in_blocks:
        raise click.UsageError("--keys is of files and programs; add --format csv or json, -o FILE or --out FOLDER")
    names = tuple(name.strip() for name in keys.split(","))
    if not all(names):
        raise click.UsageError(f"--keys {keys!r} has an empty name; write ttft_ms,tpot_ms")
    return names


def answer_in_blocks(
    models: Sequence[str],
    gpus: Sequence[str],
    options: Mapping[str, Any],
    output_format: str,
    asked: Mapping[str, Any],
    columns: Callable[[Sequence[Row], Mapping[str, Any]], list[ScreenColumn]],
) -> None:
    """Compute a table in blocks, say where they are, and print what was kept; `columns` are those of rows."""
    from roofline.questions.table import table

    if len(asked["reduce"]) > 1 and (output_format == "csv" or (flags().output or "").endswith(".csv")):
        raise click.UsageError("csv holds one table; give one --reduce, or --format json")
    if flags().output is not None and not asked["reduce"]:
        raise click.UsageError("-o is for what --reduce keeps; --out FOLDER has the rows: leave out -o")
    if asked["out"] == "-":
        raise click.UsageError("--out - is no folder; give the name of one, or -f csv to print the rows")
    how = {**asked, "reduce": asked["reduce"] or None, "keys": keys_named(asked["keys"], output_format, in_blocks=True)}
    try:
        with log_progress():
            found: DataSet = table(models, gpus or None, **how, **options)
    except KeyboardInterrupt as stopped:
        echo(f"Error: {stopped or 'stopped'}", err=True)
        raise click.exceptions.Exit(_STOPPED) from None
    _say(found)
    if output_format in FOR_PROGRAMS or flags().output is not None:
        whole = found.to_dict()
        rows: Any = whole["rows"]
        print_rows(rows, output_format, {}, {key: value for key, value in whole.items() if key != "rows"})
        return
    for number, (text, rows) in enumerate(found.reduced.items()):
        if number:
            echo()
        _print(text, rows, models, options, output_format, columns)


def _say(found: DataSet) -> None:
    """Where the rows are, and how fast they came."""
    rows = counted(f"{found.rows:,}", "row")
    text = f"reduced {rows}"
    if found.folder is not None:
        blocks = counted(f"{found.blocks:,}", "block")
        text = f"wrote {found.folder}: {rows} in {blocks}, {rounded(found.nbytes / MEGA)} MB"
        if found.computed < found.rows:
            text += f"; {found.computed:,} rows were missing" if found.computed else "; nothing was missing"
    if found.seconds >= _LONG:
        text += f"; {rounded(found.seconds)} s, {found.computed / found.seconds:,.0f} rows/s"
    echo(text, err=True)


def _print(
    text: str,
    rows: Sequence[Mapping[str, Any]],
    models: Sequence[str],
    options: Mapping[str, Any],
    output_format: str,
    columns: Callable[[Sequence[Row], Mapping[str, Any]], list[ScreenColumn]],
) -> None:
    """What one reduction kept: rows on a screen of their own, or counts."""
    limits = limits_words(options.get("slo") or {}, is_mean=differ(options))
    case = " \u00b7 ".join(filter(None, (text, ", ".join(models), limits)))
    if not rows:
        echo(f"{case}\nno row has these figures{' within the SLO' if limits else ''}")
        return
    if "row" in rows[0]:
        shown = _with_asked(columns(rows, options), text, rows[0], options)
        show(Screen(columns=shown, rows=rows, case=case, is_curve=text.startswith("frontier")), output_format)
        return
    echo(case)
    keys = list(rows[0])
    print_table(
        [_HEADINGS.get(key, key) for key in keys],
        [[_cell(key, row[key]) for key in keys] for row in rows],
        output_format,
    )


def _with_asked(
    columns: Sequence[ScreenColumn], text: str, row: Mapping[str, Any], options: Mapping[str, Any]
) -> list[ScreenColumn]:
    """Columns with those of every option that has several values, and of the figures of a reduction."""
    known = {column.key for column in columns}
    several = [name for name, value in options.items() if isinstance(value, list) and len(value) > 1]
    of_options = [column for column in varying_columns(several) if column.key not in known]
    named = {key for part in text.split(":")[1:] for key in part.split(",")} & row.keys()
    of_text = [ScreenColumn(key, key, 0) for key in row if key in named - known - {"gpu", "model", *PLAN_KEYS}]
    place = 1 + next((place for place, column in enumerate(columns) if column.heading == PLAN.heading), -1)
    every = [*columns[:place], *of_options, *columns[place:], *of_text]
    return [ranked(column, 0) if column.key in named else column for column in every]


def _cell(key: str, value: Any) -> str:
    if key in ("row_share", "met_share"):
        return f"{rounded(_PERCENT * value)}%"
    return cell_text(value)
