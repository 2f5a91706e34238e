"""Many cases as one table: the `sweep` command, on a screen, in files, or in blocks that several workers compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import (
    GPUS,
    HBM,
    PLAN,
    PLAN_KEYS,
    TOK_S_GPU,
    USD_TOKENS,
    VARYING,
    case_text,
    differ,
    energy_columns,
    latency,
    load_columns,
    miss_text,
    model_column,
    ranked,
    varying_columns,
    verdict_columns,
)
from roofline.cli.case import question
from roofline.cli.options import (
    FOR_PROGRAMS,
    NOT_ANSWERED,
    Command,
    PathName,
    echo,
    for_people,
    print_blocks,
    print_rows,
    print_table,
    show,
)
from roofline.cli.progress import log_progress
from roofline.cli.screen import Screen, ScreenColumn, cell_text, flags
from roofline.numbers.quantity import MEGA, counted, rounded
from roofline.questions.inputs.arguments import limits_words
from roofline.questions.inputs.case import is_pressing, lasting
from roofline.questions.inputs.load import UNDER_LOAD
from roofline.questions.predict import ROW_KEYS, meeting_first
from roofline.support.errors import BadInput

if TYPE_CHECKING:
    from roofline.questions.blocks import DataSet

_PERCENT = 100.0
_HEADINGS = {
    "bin_low": "from", "bin_high": "to", "row_count": "rows", "row_share": "share", "met_count": "meet the SLO",
    "unknown_count": "not known", "met_share": "share",
}  # fmt: skip
_ENDS = ("bin_low", "bin_high")  # in the unit of the figure; rows without it have neither
_LONG = 10.0  # time from which on the rate is said [s]


# Options of its own.


def _block_options(function: Command) -> Command:
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


def _is_in_blocks(asked: Mapping[str, Any]) -> bool:
    """Whether rows are written to a folder or reduced; refuses options that need it."""
    if asked["out"] is not None or asked["reduce"]:
        return True
    for name in ("resume", "jobs", "dask"):
        if asked[name]:
            raise click.UsageError(f"--{name} is for blocks: give --out FOLDER, --reduce, or both")
    return False


def _keys_named(keys: str | None, output_format: str, *, in_blocks: bool) -> tuple[str, ...] | None:
    """Keys of ``--keys``; None for all."""
    if keys is None:
        return None
    if for_people(output_format) and not in_blocks:
        raise click.UsageError("--keys is of files and programs; add --format csv or json, -o FILE or --out FOLDER")
    names = tuple(name.strip() for name in keys.split(","))
    if not all(names):
        raise click.UsageError(f"--keys {keys!r} has an empty name; write ttft_ms,tpot_ms")
    return names


# The command.


def _columns(rows: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> list[ScreenColumn]:
    answered = lasting(options).answers  # not an input
    varying = [key for key in VARYING if key not in answered and len({str(row[key]) for row in rows}) > 1]
    return [
        *model_column(len({row["model"] for row in rows})),
        GPUS,
        PLAN,
        *varying_columns(varying),
        *latency("ttft", options, with_range=False),
        *latency("tpot", options, with_range=False),
        *verdict_columns(options),
        *load_columns(options),
        ranked(TOK_S_GPU, 2),
        ranked(USD_TOKENS, 1),
        *energy_columns(options),
        *latency("e2el", options, 3, with_range=False),
        ranked(HBM, 4),
        ScreenColumn("no answer", "reason", 0),
    ]


_MOST_SHOWN = 200_000  # rows that are sorted for a screen
_KEYS = tuple(key for key in ROW_KEYS if "knee" not in key)  # knees take longer than everything else


def _is_noted(text: str) -> bool:
    """Of many cases, notes about their loads and what belongs on the first screen."""
    return text.startswith(UNDER_LOAD) or is_pressing(text)


@question(
    "roofline sweep -m llama-3.1-8b -g h100,b200 --isl 1k,4k --batch 1:64:x4",
    "roofline sweep -m gpt-oss-120b -g b200 --tp 1,2,4 -q mxfp4,bf16 -f csv",
    "roofline sweep -m qwen3-32b -g h100 --isl 1:8k:1 --out rows --jobs all",
)
@_block_options
def sweep(
    models: tuple[str, ...], gpus: tuple[str, ...], options: dict[str, Any], output_format: str, **asked: Any
) -> None:
    """Every combination of models, GPUs, lengths, batches, degrees and formats as a table for programs.

    With an SLO, the first screen begins with what meets it; programs get the order of the lists. With --out or
    --reduce, rows are computed in blocks, and there may be 1e8 of them.
    """
    from roofline.questions.table import table_in_blocks

    if _is_in_blocks(asked):
        _answer_in_blocks(models, gpus, options, output_format, asked)
        return
    people = for_people(output_format)
    keys = _keys_named(asked["keys"], output_format, in_blocks=False)
    blocks = table_in_blocks(models, gpus or None, keys=_KEYS if people else keys, **options)
    alone = blocks.only_row() if flags().output is None else None
    if not people:  # programs get the rows in the order of the grid
        if alone is None:
            print_blocks(blocks, output_format)
        else:
            print_rows([alone], output_format, {})
        return
    if blocks.rows > _MOST_SHOWN:
        raise BadInput(
            f"{blocks.rows:,} rows are too many for a screen; write them to a file: -o rows.parquet, or, by "
            "all cores, to a folder: --out rows --jobs all"
        )
    every = (row for block in blocks for row in block) if alone is None else [alone]
    rows = meeting_first(every, lambda row: row["slo_verdict"])
    screen = Screen(
        columns=_columns(rows, options),
        rows=rows,
        case=case_text(dict.fromkeys(row["model"] for row in rows), options),
        answer=miss_text(rows, options, gpus),
        notes=[text for row in rows for text in row["warnings"] if _is_noted(text)],
    )
    show(screen, output_format)


# In blocks.


class _Stopped(click.ClickException):
    """Ctrl-C; the message says what is done."""

    exit_code = 130


def _answer_in_blocks(
    models: Sequence[str],
    gpus: Sequence[str],
    options: Mapping[str, Any],
    output_format: str,
    asked: Mapping[str, Any],
) -> None:
    """Compute a table in blocks, say where they are, and print what was kept."""
    from roofline.questions.table import table

    if len(asked["reduce"]) > 1 and (output_format == "csv" or (flags().output or "").endswith(".csv")):
        raise click.UsageError("csv holds one table; give one --reduce, or --format json")
    if flags().output is not None and not asked["reduce"]:
        raise click.UsageError("-o is for what --reduce keeps; --out FOLDER has the rows: leave out -o")
    if asked["out"] == "-":
        raise click.UsageError("--out - is no folder; give the name of one, or -f csv to print the rows")
    how = {
        **asked,
        "reduce": asked["reduce"] or None,
        "keys": _keys_named(asked["keys"], output_format, in_blocks=True),
    }
    try:
        with log_progress():
            found: DataSet = table(models, gpus or None, **how, **options)
    except KeyboardInterrupt as stopped:
        raise _Stopped(str(stopped) or "stopped") from None
    _say(found)
    if output_format in FOR_PROGRAMS or flags().output is not None:
        whole = found.to_dict()
        rows: Any = whole["rows"]
        print_rows(rows, output_format, {}, {key: value for key, value in whole.items() if key != "rows"})
        return
    for number, (text, rows) in enumerate(found.reduced.items()):
        if number:
            echo()
        _print(text, rows, models, options, output_format)


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
) -> None:
    """What one reduction kept: rows on a screen of their own, or counts."""
    limits = limits_words(options.get("slo") or {}, is_mean=differ(options))
    case = " \u00b7 ".join(filter(None, (text, ", ".join(models), limits)))
    if not rows:
        echo(f"{case}\nno row has these figures{' within the SLO' if limits else ''}")
        return
    if "row" in rows[0]:
        shown = _with_asked(_columns(rows, options), text, rows[0], options)
        show(Screen(columns=shown, rows=rows, case=case, is_curve=text.startswith("frontier")), output_format)
        return
    echo(case)
    from roofline.questions.reducers import unit_of

    keys, unit = list(rows[0]), unit_of(text)
    print_table(
        [f"{_HEADINGS.get(key, key)} {unit if key in _ENDS else ''}".rstrip() for key in keys],
        [[_cell(key, row) for key in keys] for row in rows],
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


def _cell(key: str, row: Mapping[str, Any]) -> str:
    value = row[key]
    if key == _ENDS[0] and row[_ENDS[0]] is None and row[_ENDS[1]] is None:
        return NOT_ANSWERED
    if key in ("row_share", "met_share"):
        return f"{rounded(_PERCENT * value)}%"
    return cell_text(value)
