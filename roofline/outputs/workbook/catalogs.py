"""Sheets of the catalogs: tables that formulas look up, rows of the planner's own, sources and notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roofline.numbers.quantity import BITS_PER_BYTE, KIBI, KILO
from roofline.outputs.workbook.case import Contents
from roofline.outputs.workbook.cells import CellPool
from roofline.outputs.workbook.tables import (
    HOST_COLUMNS,
    MOST_STAGES,
    OWN_GPU,
    OWN_MODEL,
    SERVED_COLUMNS,
    Catalog,
    Table,
    stages_of_one_kind,
)
from roofline.outputs.workbook.typed import FORMS, JOINT, UNREADABLE, WILDCARDS, reading
from roofline.outputs.workbook.writer import Book, Rule, Sheet, address
from roofline.serving.quantization import NATIVE
from roofline.specs.formats import COMPUTE, KV_FORMATS

_OWN_GPU_NOTE = (
    f"{OWN_GPU} is yours to fill in: change any yellow cell, also its name. Figures may be numbers or texts such as "
    "12 TB/s. Its kernels are as efficient as those of the GPU in 'kernels like', and its ranges "
    "wider, since nobody timed them. Blank: not stated."
)
_OWN_MODEL_NOTE = (
    f"{OWN_MODEL} is yours to fill in: change any yellow cell, also its name. Each kind of layer has its number of "
    "layers (0: none) and its shape; a kind that a model lacks shows the shape of another model. With pp > 1, memory "
    "is exact if all layers are of one kind, else an upper bound. kv cache: the format that 'auto' stands for."
)
_GAP = 5  # rows between a table and its rules

_STYLES = {
    "bandwidth": "traffic", "memory": "bytes", "link_bandwidth": "link", "peer_bandwidth": "link", "scale_out": "link",
    "host_link": "link", "exp_rate": "rate", "usd_per_hour": "number", **dict.fromkeys(COMPUTE, "flops"),
}  # fmt: skip
_HEADINGS = {
    "kernels_like": "kernels like", "bandwidth": "HBM bandwidth [B/s]", "memory": "usable HBM [B]",
    "link_bandwidth": "link per direction [B/s]", "peer_bandwidth": "link to one peer [B/s]",
    "domain": "GPUs per scale-up domain", "host_link": "PCIe beyond a bridge [B/s]",
    "host_domain": "GPUs of a host, where bridges join fewer", "in_switch": "in-switch reduction",
    "exp_rate": "exponentials [1/s]", "scale_out": "network per GPU [B/s]", "usd_per_hour": "typical price [USD/h]",
    "formats_like": "formats like", "max_num_batched_tokens": "tokens per step at most",
    "max_num_seqs": "sequences at most",
    "gpu_memory_utilization": "share of memory that the engine uses",
    "slow_prefill": "factor on prefill passes", "slow_decode": "factor on decode steps",
    "sigma_prefill": "sigma of the former", "sigma_decode": "sigma of the latter",
    **{dtype: f"{dtype} peak, dense [FLOP/s]" for dtype in COMPUTE},
}  # fmt: skip


#: Columns of GPUs that are read with a unit: the unit as it ends a text, and its factor.
_RATES = {"B/s": 1.0, "bit/s": 1.0 / BITS_PER_BYTE}
_PEAKS = dict.fromkeys(("FLOP/s", "FLOPS", "OP/s", "OPS"), 1.0)
UNITS: Mapping[str, Mapping[str, float]] = {
    "bandwidth": _RATES, "memory": {"B": 1.0}, "link_bandwidth": _RATES, "peer_bandwidth": _RATES,
    "host_link": _RATES, "exp_rate": {"exp/s": 1.0}, "scale_out": _RATES, "usd_per_hour": {"USD/h": 1.0},
    **dict.fromkeys(COMPUTE, _PEAKS),
}  # fmt: skip
_EXAMPLES = {"memory": "80 GB", "exp_rate": "4 Texp/s", "usd_per_hour": "2.5", **dict.fromkeys(COMPUTE, "990 TFLOP/s")}
_NUMBER, _NUMBER_OR_TEXT = "IF(ISNUMBER({0}),{0}>=0,FALSE)", "IF(ISNUMBER({0}),{0}>=0,LEN(TRIM({0}))>0)"
_NAME_MESSAGE = f"A name of your own, without {' '.join(WILDCARDS + JOINT)}."
_PREFIXES, _BINARY = "kMGTPE", "KiMiGiTi"
_OWN_FIRST = 2  # row of the first figure on the sheet Read


_BEHIND = {
    "Sources": "Every figure of the models and GPUs with its source, address and date.",
    "Kernels": "Every kernel of a prompt and of a mean decode step: work, rates, efficiencies and time.",
    "Lookups": "Intermediate values that several formulas of the answer share.",
    "Knees": "The search for the batch beyond which decode stops being cheap: each column tries another batch.",
    "Stages": "Layers of the pipeline stages that may be the fullest.",
    "Formats": "Number formats of weights and caches, and every spelling of a name.",
    "Efficiency": "Constants of the kernels and collectives, by GPU and format.",
    "Pairs": "The case of the sheet Answer on every GPU, for the sheet Fleet.",
    "Read": "Figures of your own GPU, as read from what was typed.",
}


def write_tables(book: Book, sheets: Mapping[str, Sheet], catalog: Catalog) -> None:
    """Write the tables that formulas look up, and name their columns."""
    _write_table(book, sheets["GPUs"], catalog.gpus, 0, own=1)
    rows = len(catalog.gpus.rows)
    read = _write_read(book, sheets["Read"], catalog)
    listed = f"={address(1, 0)}:{address(rows - 1, 0)}"
    for column, name in enumerate(catalog.gpus.names):
        if name == "kernels_like":
            rule = Rule("kernels like", "The GPU of this sheet whose kernels are as efficient.", listed)
        elif name == "name":
            rule = Rule("name", _NAME_MESSAGE)
        elif name in UNITS:
            message = f"A number in the unit of the heading, or text such as {_EXAMPLES.get(name, '900 GB/s')}."
            rule = Rule(_HEADINGS[name], f"{message} Blank: not stated.", allowed=_NUMBER_OR_TEXT)
        else:
            rule = Rule(_HEADINGS.get(name, name), "A number of at least 0; blank: not stated.", allowed=_NUMBER)
        if name not in (*SERVED_COLUMNS, "basis", "check"):
            sheets["GPUs"].rule(rows, rows, column, rule)
    sheets["GPUs"].paragraph(rows + 2, len(catalog.gpus.names) - 1, _OWN_GPU_NOTE)
    _check_gpu(sheets["GPUs"], catalog, read)
    sheets["GPUs"].prints(rows + 3, len(catalog.gpus.names))
    _write_models(book, sheets["Models"], catalog)
    _write_stages(book, sheets["Stages"], catalog)
    place = _write_table(book, sheets["Formats"], catalog.quantizations, 0)
    place = _write_table(book, sheets["Formats"], catalog.formats, place)
    place = _write_table(book, sheets["Formats"], catalog.caches, place)
    place = _write_table(book, sheets["Formats"], catalog.dtypes, place)
    place = _write_table(book, sheets["Formats"], catalog.bases, place)
    _write_table(book, sheets["Formats"], catalog.names, place)
    place = _write_table(book, sheets["Efficiency"], catalog.kernels, 0)
    _write_table(book, sheets["Efficiency"], catalog.collectives, place)


def write_notes(sheets: Mapping[str, Sheet], contents: Contents) -> None:
    """Write the sources of all figures, and the notes about the workbook."""
    sheet = sheets["Sources"]
    sheet.texts(0, ("of", "figure", "value", "source", "address", "date", "note"))
    for line, figure in enumerate(contents.figures, 1):
        for column, text in enumerate(figure):
            sheet.value(line, column, text, "wrapped")
    sheet.head(1, 0, (len(contents.figures), 7) if contents.figures else None)
    for column, width in enumerate((18, 26, 22, 50, 40, 12, 50)):
        sheet.widen(column, column, width)
    _write_behind(sheets["Behind"])
    sheet = sheets["About"]
    for line, (label, text) in enumerate(contents.about):
        sheet.text(line, 0, label, "bold")
        sheet.text(line, 1, text, "wrapped")
    sheet.widen(0, 0, 22)
    sheet.widen(1, 1, 110)
    sheet.prints(len(contents.about), 2)


def _write_behind(sheet: Sheet) -> None:
    """Write the divider: what the sheets after it hold."""
    sheet.text(0, 0, "Behind the answers", "title")
    sheet.text(1, 0, "The sheets after this one hold sources, and the formulas in steps. They are not printed.", "note")
    for line, (name, text) in enumerate(_BEHIND.items(), 3):
        sheet.text(line, 0, name, "bold")
        sheet.text(line, 1, text, "wrapped")
    sheet.widen(0, 0, 22)
    sheet.widen(1, 1, 110)
    sheet.prints(4 + len(_BEHIND), 2, pages=1)


def _write_table(book: Book, sheet: Sheet, table: Table, place: int, own: int = 0, *, no_zeros: bool = False) -> int:
    """Write a table from a column on; returns the next free column, after a gap. A blank reads as zero."""
    last = len(table.rows)
    for column, name in enumerate(table.names, place):
        sheet.text(0, column, _HEADINGS.get(name, name.replace("_", " ")), "head")
        if not (own and table.prefix == "g" and name in UNITS):  # which the sheet Read holds
            book.define(f"{table.prefix}_{name}", f"{address(1, column, sheet.name)}:{address(last, column)}")
        style = _STYLES.get(name, "general")
        for line, row in enumerate(table.rows, 1):
            cell_style = f"{style} input" if line > last - own else style
            if not (no_zeros and row[column - place] == 0):
                sheet.value(line, column, row[column - place], cell_style)
    sheet.head(1, 1)
    sheet.widen(place, place, 22)
    sheet.widen(place + 1, place + len(table.names) - 1, 13)
    return place + len(table.names) + 1


def _write_models(book: Book, sheet: Sheet, catalog: Catalog) -> None:
    table = catalog.models
    _write_table(book, sheet, table, 0, own=1)
    last = len(table.rows)
    mixers = [f"{name}_layers" for name in catalog.mixer_names]
    layers = [address(last, table.names.index(name)).replace("$", "") for name in mixers]
    column = table.names.index("layers")
    sheet.formula(last, column, "+".join(layers), table.rows[-1][column])
    listed = f"={address(1, 0)}:{address(last - 1, 0)}"
    for place, name in enumerate(table.names):
        if name == "formats_like":
            rule = Rule("formats like", "The model of this sheet whose number formats it has.", listed)
        elif name == "name":
            rule = Rule("name", _NAME_MESSAGE)
        elif name == "model_id":
            rule = Rule("model id", "For people; no formula reads it.")
        elif name == "kv_cache":
            rule = Rule("kv cache", "The format that 'auto' stands for.", list(KV_FORMATS))
        else:
            rule = Rule(name.replace("_", " "), "A number of at least 0.", allowed=_NUMBER)
        if name not in ("check", "layers"):
            sheet.rule(last, last, place, rule)
    sheet.widen(1, 1, 34)
    sheet.paragraph(last + 2, table.names.index("kv_cache"), _OWN_MODEL_NOTE)
    _check_model(sheet, catalog)
    sheet.prints(last + 3, table.names.index("kv_cache") + 1)  # and not the shape of every kind of layer


def _write_read(book: Book, sheet: Sheet, catalog: Catalog) -> dict[str, str]:
    """Write the figures of the planner's own GPU as read from what is typed, and the columns that formulas look up.

    Returns the address of each figure of the own GPU, by its column.
    """
    table = catalog.gpus
    held = [name for name in table.names if name in UNITS]
    own = len(table.rows)
    headings = ("figure", "as typed", "without its unit", "factor of the unit", "place of Ki, Mi, Gi, Ti",
                "place of k, M, G, T, P, E", "without its prefix", "number")  # fmt: skip
    sheet.text(0, 0, "Figures of the GPU in the last row of GPUs, read from numbers or texts such as 12 TB/s.", "note")
    sheet.texts(1, headings)
    read = {}
    for line, name in enumerate(held, _OWN_FIRST):
        place = table.names.index(name)
        value = table.rows[-1][place]
        at = [address(line, column) for column in range(len(headings))]
        cell = address(own, place, "GPUs")
        sheet.text(line, 0, _HEADINGS[name])
        sheet.formula(line, 1, f'IF({cell}="","",{cell})', "" if value is None else value)
        for column, text in enumerate(_steps(at, UNITS[name]), 2):
            sheet.formula(line, column, text, _PLAIN[column - 2])
        sheet.formula(line, 7, reading(at[1], at[6], _factor(at)), "" if value is None else value)
        read[name] = address(line, 7, "Read")
    first = len(headings) + 1
    for column, name in enumerate(held, first):
        sheet.text(1, column, _HEADINGS[name], "head")
        place = table.names.index(name)
        for line, row in enumerate(table.rows, _OWN_FIRST):
            cell = address(line - 1, place, "GPUs")
            own_cell = address(_OWN_FIRST + held.index(name), 7)
            is_own = line - 1 == own
            formula = f"IF(ISNUMBER({own_cell}),{own_cell},0)" if is_own else cell
            sheet.formula(line, column, formula, row[place] or 0.0, _STYLES.get(name, "general"))
        book.define(f"{table.prefix}_{name}", _below(column, own))
    peaks = [first + held.index(dtype) for dtype in COMPUTE]
    book.define(catalog.peaks.name, f"{address(_OWN_FIRST, peaks[0], 'Read')}:{address(own + 1, peaks[-1])}")
    sheet.widen(0, 0, 30)
    sheet.widen(1, first + len(held), 14)
    return read


#: Values of the steps where a number is typed.
_PLAIN: tuple[Any, ...] = ("", 1, 0, 0, "")


def _below(column: int, rows: int) -> str:
    return f"{address(_OWN_FIRST, column, 'Read')}:{address(rows + 1, column)}"


def _steps(at: Sequence[str], units: Mapping[str, float]) -> tuple[str, ...]:
    """Formulas that take unit and prefix off a text."""
    text = f'SUBSTITUTE({at[1]}," ","")'
    bare, factor = text, "1"
    for unit, value in sorted(units.items(), key=lambda entry: len(entry[0])):  # the longest is asked first
        ends = f'EXACT(RIGHT({text},{len(unit)}),"{unit}")'
        bare = f"IF({ends},LEFT({text},LEN({text})-{len(unit)}),{bare})"
        factor = f"IF({ends},{value:g},{factor})"
    is_text = f"IF(ISNUMBER({at[1]}),{{}},{{}})"
    return (
        is_text.format('""', bare),
        is_text.format("1", factor),
        f'IF({at[2]}="",0,IFERROR(FIND(RIGHT({at[2]},2),"{_BINARY}"),0))',
        f'IF({at[2]}="",0,IFERROR(FIND(RIGHT({at[2]},1),"{_PREFIXES}"),0))',
        f"IF({at[4]}>0,LEFT({at[2]},LEN({at[2]})-2),IF({at[5]}>0,LEFT({at[2]},LEN({at[2]})-1),{at[2]}))",
    )


def _factor(at: Sequence[str]) -> str:
    return f"{at[3]}*IF({at[4]}>0,POWER({KIBI},({at[4]}+1)/2),POWER({KILO:g},{at[5]}))"


def _check_gpu(sheet: Sheet, catalog: Catalog, read: Mapping[str, str]) -> None:
    """Write the rules for the planner's own GPU; `read` are its figures as read."""
    table = catalog.gpus
    at = {name: address(len(table.rows), place) for place, name in enumerate(table.names)} | dict(read)
    rules = [_name_rule(at["name"])]
    rules += [
        (
            f'{cell}="{UNREADABLE}"',
            f"{_HEADINGS[name]} is text where a number belongs; write a number, or {_EXAMPLES.get(name, '900 GB/s')}",
        )
        for name, cell in read.items()
    ]
    rules += [
        (_not_positive(at[name]), f"{_HEADINGS[name]} must be a number above 0")
        for name in ("bandwidth", "memory", "domain", *catalog.settings)
    ]
    host = HOST_COLUMNS if catalog.has_bridges else ()
    optional = ("link_bandwidth", "peer_bandwidth", "in_switch", "exp_rate", "scale_out", "usd_per_hour", *COMPUTE)
    rules += [(_negative(at[name]), f"{_HEADINGS[name]} must be a number, or blank") for name in (*host, *optional)]
    known = f'MATCH({at["kernels_like"]}&"|gemm|16-bit",{catalog.kernels.column("key").name},0)'
    rules += [(f"NOT(ISNUMBER({known}))", "kernels like must name a GPU of this sheet")]
    rules += [(f"MAX({at['bf16']},{at['fp16']})<=0", "the bf16 or fp16 peak is missing")]
    _write_checks(sheet, len(table.rows), table.names.index("check"), rules)
    _write_basis(sheet, table, at["kernels_like"])


def _write_basis(sheet: Sheet, table: Table, like: str) -> None:
    """Write the basis of the planner's own GPU, `like` one of the others: nobody timed its kernels."""
    rows, names = len(table.rows), table.names
    basis, listed = (
        f"{address(1, names.index(name))}:{address(rows - 1, names.index(name))}" for name in ("basis", "name")
    )
    untimed = f'IFERROR(INDEX({basis},MATCH({like},{listed},0))="generic",FALSE)'
    text = f'IF({untimed},"generic","inherited")'
    told = [name for name in SERVED_COLUMNS if name in names]
    if told:
        text = f'IF(IFERROR(INDEX({basis},MATCH({like},{listed},0))="served",FALSE),"served",{text})'
    sheet.formula(rows, names.index("basis"), text, table.rows[-1][-2])
    for name in told:
        place = names.index(name)
        column = f"{address(1, place)}:{address(rows - 1, place)}"
        sheet.formula(rows, place, f"IFERROR(INDEX({column},MATCH({like},{listed},0)),1)", table.rows[-1][place])


def _check_model(sheet: Sheet, catalog: Catalog) -> None:
    """Write the rules for the planner's own model."""
    table = catalog.models
    at = {name: address(len(table.rows), place) for place, name in enumerate(table.names)}
    rules = [_name_rule(at["name"])]
    rules += [(_not_positive(at[name]), f"{name} must be a number above 0") for name in ("layers", "hidden", "vocab")]
    layers = {kind.name: at[f"{kind.name}_layers"] for kind in catalog.layer_kinds}
    rules += [(_negative(cell), f"layers of {name} must be a number") for name, cell in layers.items()]
    networks = [cell for name, cell in layers.items() if name not in catalog.mixer_names]
    mixers = [layers[name] for name in catalog.mixer_names]
    rules += [(f"{'+'.join(mixers)}<>{'+'.join(networks)}", "mixers and networks must have the same number of layers")]
    for kind in catalog.layer_kinds:
        numbers = [at[f"{kind.name}_{name}"] for name in kind.numbers]
        if numbers:
            good = ",".join(f"ISNUMBER({cell}),{cell}>0" for cell in numbers)
            rule = f"IF({layers[kind.name]}>0,NOT(AND({good})),FALSE)"
            rules.append((rule, f"figures of {kind.name} must be numbers above 0"))
        if "kv_heads" in kind.numbers:
            heads, shared = at[f"{kind.name}_heads"], at[f"{kind.name}_kv_heads"]
            rule = f"IF({layers[kind.name]}>0,MOD({heads},{shared})<>0,FALSE)"
            rules.append((rule, f"kv heads of {kind.name} must divide its heads"))
    known = f"ISNUMBER(MATCH({at['kv_cache']},{catalog.caches.column('name').name},0))"
    rules.append((f"NOT({known})", "kv cache must be a known format"))
    known = f'MATCH({at["formats_like"]}&"|{NATIVE}",{catalog.quantizations.column("key").name},0)'
    rules.append((f"NOT(ISNUMBER({known}))", "formats like must name a model of this sheet"))
    _write_checks(sheet, len(table.rows), table.names.index("check"), rules)


def _name_rule(cell: str) -> tuple[str, str]:
    clean = FORMS["clean"].pattern.format(cell)
    return f"{clean}<>{cell}", f"the name must be a text without {' '.join(WILDCARDS + JOINT)} and outer blanks"


def _not_positive(cell: str) -> str:
    return f"IF(ISNUMBER({cell}),{cell}<=0,TRUE)"


def _negative(cell: str) -> str:
    return f'IF(ISNUMBER({cell}),{cell}<0,{cell}<>"")'


def _write_checks(sheet: Sheet, rows: int, place: int, rules: Sequence[tuple[str, str]]) -> None:
    """Write rules for the last row of a table; that row then names the first broken rule, or ok."""
    first = rows + _GAP
    sheet.texts(first - 1, ("1 where the rule is broken", "rule"))
    for line, (condition, rule) in enumerate(rules, first):
        sheet.formula(line, 0, f"IF({condition},1,0)", 0)
        sheet.text(line, 1, rule)
    last = first + len(rules) - 1
    broken, texts = (f"{address(first, column)}:{address(last, column)}" for column in (0, 1))
    sheet.formula(rows, place, f'IFERROR(INDEX({texts},MATCH(1,{broken},0)),"ok")', "ok")


def _write_stages(book: Book, sheet: Sheet, catalog: Catalog) -> None:
    """Write the fullest pipeline stages; those of the planner's own model are formulas of its row."""
    table = catalog.stages
    _write_table(book, sheet, table, 0, no_zeros=True)
    last = len(catalog.models.rows)
    start = len(table.rows) - MOST_STAGES
    name = address(last, 0, "Models")
    pool, kinds = CellPool(), [kind.name for kind in catalog.layer_kinds]
    place = catalog.models.names.index
    held = [catalog.models.rows[-1][place(f"{kind}_layers")] for kind in kinds]
    at = (address(last, place(f"{kind}_layers"), "Models") for kind in kinds)
    counts = [pool.input(cell, np.array([float(count)])) for cell, count in zip(at, held, strict=True)]
    for pp in range(1, MOST_STAGES + 1):
        line = start + pp
        sheet.formula(line, 0, f'{name}&"|{pp}"', table.rows[line - 1][0])
        for number, stage in enumerate(stages_of_one_kind(counts, pp), 1):
            for kind, cell in zip(kinds, stage, strict=False):  # without its ends, which do not change
                sheet.cell(line, table.names.index(f"{number}_{kind}"), cell, {})
