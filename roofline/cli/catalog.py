"""The catalog: `gpus`, `models`, `workloads` and `check-specs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import click

from roofline.cli.main import Question, with_formats
from roofline.cli.options import (
    GPU,
    MODEL,
    OUTPUT_FORMATS,
    PARAMETERS,
    echo,
    for_people,
    notes,
    one_line,
    output_options,
    print_rows,
    show,
    specs_option,
)
from roofline.cli.screen import MARK, Screen, ScreenColumn, flags, prose, room
from roofline.numbers.quantity import GIGA, counted, from_text, rounded, to_text
from roofline.questions import catalog, listing
from roofline.questions.catalog import spec_report
from roofline.questions.listing import (
    NO_LINK,
    Ffn,
    Gpu,
    Indexer,
    Mixer,
    Model,
    basis_text,
    figure_row,
    figures,
    model_counts,
    si_value,
    sources,
    with_si,
)
from roofline.support.dates import OLD
from roofline.support.errors import UnknownName

_GPUS = (
    MARK,
    ScreenColumn("GPU", "gpu"),
    ScreenColumn("generation", "generation", 3),
    ScreenColumn("bf16 TFLOP/s", "bf16_tflop_s"),
    ScreenColumn("fp8", "fp8_tflop_s", 1),
    ScreenColumn("fp4", "fp4_tflop_s", 1),
    ScreenColumn("HBM TB/s", "bandwidth_tb_s"),
    ScreenColumn("GB", "memory_gb"),
    ScreenColumn("link GB/s", "link_gb_s", 2),
    ScreenColumn("USD/h", "usd_per_hour", 1),
    ScreenColumn("domain", "domain", 4),
    ScreenColumn("status", "status", 5),
)


def _age(row: Mapping[str, Any]) -> str:
    days = row["price_age_days"]
    return "-" if days is None else f"{days} !" if days > OLD else str(days)


_PRICES = (
    ScreenColumn("GPU", "gpu"),
    ScreenColumn("USD/h", "usd_per_hour"),
    ScreenColumn("low", "usd_per_hour_low", 1),
    ScreenColumn("high", "usd_per_hour_high", 1),
    ScreenColumn("USD/month", "usd_per_month", 2, cell=lambda row: f"{row['usd_per_month']:,.0f}"),
    ScreenColumn("date", "price_date", 2),
    ScreenColumn("days old", "price_age_days", cell=_age),
    ScreenColumn("source", "price_title", 4),
)
_MODELS = (
    ScreenColumn("model", "model"),
    ScreenColumn("params B", "parameters_b"),
    ScreenColumn("active B", "active_b"),
    ScreenColumn("layers", "layers", 2),
    ScreenColumn("weights", "weight_dtype", 1),
    ScreenColumn("max context", "max_context", 1),
    ScreenColumn("Hugging Face id", "model_id", 3),
)
_WORKLOADS = (
    ScreenColumn("workload", "workload"),
    ScreenColumn("isl", "isl"),
    ScreenColumn("cv", "isl_cv", 4),
    ScreenColumn("osl", "osl"),
    ScreenColumn("cv", "osl_cv", 4),
    ScreenColumn("prefix", "prefix", 4),
    ScreenColumn("SLO", "slo"),
    ScreenColumn("waits for", "waits_for", 1),
    ScreenColumn("TTFT/E2EL", "ttft_share", 2),
    ScreenColumn("tightest limit", "tightest", 3),
    ScreenColumn("arrivals", "arrivals", 5),
    ScreenColumn("date of source", "date", 5),
)
_FILE = "yaml"  # format of a specification as it is in its file
_NONE_LEFT = "nothing in the catalog matches all filters"


class _Catalog(click.Group):
    """Entries of a kind: a name alone is shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_formats(args))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["show", *args])


def _print_prices(rows: list[dict[str, Any]], output_format: str) -> None:
    """Rents, the oldest first, and which GPUs that ship have none."""
    priced = [row for row in rows if row["usd_per_hour"] is not None]
    priced.sort(key=lambda row: -(row["price_age_days"] or 0))
    without = [row["gpu"] for row in rows if row["usd_per_hour"] is None and row["status"] == "shipping"]
    old = sum((row["price_age_days"] or 0) > OLD for row in priced)
    said = [f"{old} of {counted(len(priced), 'price')} over {OLD} days old (!)"] if priced else [_NONE_LEFT]
    said += [f"no rent known for {len(without)} that ship: {', '.join(without)}"] if without else []
    notes_of = [f"{row['gpu']}: {row['price_note']}" for row in priced if row["price_note"]]
    lines = [part for text in said for part in prose(text).split("\n")]
    show(Screen(_PRICES, priced, lines=lines, notes=notes_of, is_list=True), output_format)


def _file_options(function: Any) -> Any:
    return output_options(function, (*OUTPUT_FORMATS, _FILE))


def _print_file(name: str, kind: str, specs: str | None) -> None:
    echo(listing.written(name, kind, specs).rstrip("\n"))


@click.group(
    cls=_Catalog,
    invoke_without_command=True,
    epilog="\b\nExamples:\n  roofline gpus\n  roofline gpus --vendor amd --status shipping\n"
    "  roofline gpus --generation blackwell\n  roofline gpus --prices\n  roofline gpus show h100-sxm",
)
@click.option("--vendor", help="Only this vendor, e.g. amd.")
@click.option("--generation", help="Only this generation; blackwell includes blackwell-ultra.")
@click.option("--status", help="Only this status: shipping, announced, pre-release or end-of-life.")
@click.option("--prices", is_flag=True, help="Rents with their range, age and source, the oldest first.")
@output_options
@specs_option
@click.pass_context
def gpus(
    ctx: click.Context,
    vendor: str | None,
    generation: str | None,
    status: str | None,
    output_format: str,
    specs: str | None,
    *,
    prices: bool,
) -> None:
    """GPUs of the catalog: list them, or `show` one with the source of every figure."""
    ctx.default_map = {"show": {"output_format": output_format, "specs": specs}}
    if ctx.invoked_subcommand is not None:
        _refuse_filters(ctx, vendor, generation, status, prices or None)
        return
    rows = listing.gpu_rows(specs, vendor, generation, status)
    if prices:
        _print_prices(rows, output_format)
        return
    _print(rows, output_format, _GPUS)


@gpus.command("show", epilog="\b\nExample:\n  roofline gpus show h100-sxm")
@click.argument("name", type=GPU)
@_file_options
@specs_option
def _show_gpu(name: str, output_format: str, specs: str | None) -> None:
    """Every figure of one GPU with unit, source and date; --format yaml prints its file, to change and use as yours."""
    with _or_command("gpus", name):
        _refuse_pool(name, specs)
        gpu, note = catalog.find_gpu(name, specs)
    if output_format == _FILE:
        _print_file(name, "gpu", specs)
        return
    content = listing.document(name, "gpu", specs)
    _print_entry([*_gpu_lines(gpu), *_figure_lines(content)], content, output_format, note)


@click.group(
    cls=_Catalog,
    invoke_without_command=True,
    epilog="\b\nExamples:\n  roofline models\n  roofline models --family qwen --moe\n"
    "  roofline models --min-size 7B --max-size 80B --dense\n  roofline models show deepseek-v3",
)
@click.option("--family", help="Only this family, e.g. qwen.")
@click.option("--min-size", type=PARAMETERS, help="At least this many parameters, e.g. 7B.")
@click.option("--max-size", type=PARAMETERS, help="At most this many parameters, e.g. 80B.")
@click.option("--moe/--dense", default=None, help="Only mixtures of experts, or only dense models.")
@output_options
@specs_option
@click.pass_context
def models(
    ctx: click.Context,
    family: str | None,
    min_size: float | None,
    max_size: float | None,
    output_format: str,
    specs: str | None,
    *,
    moe: bool | None,
) -> None:
    """Models of the catalog: list them, or `show` one with its layers and sources."""
    ctx.default_map = {"show": {"output_format": output_format, "specs": specs}}
    if ctx.invoked_subcommand is not None:
        _refuse_filters(ctx, family, min_size, max_size, moe)
        return
    _print(listing.model_rows(specs, family, min_size, max_size, moe=moe), output_format, _MODELS)


@models.command("show", epilog="\b\nExample:\n  roofline models show deepseek-v3 --format json")
@click.argument("name", type=MODEL)
@_file_options
@specs_option
def _show_model(name: str, output_format: str, specs: str | None) -> None:
    """Layers, counts, formats and figures of one model with source and date; --format yaml prints its file."""
    with _or_command("models", name):
        model, note = catalog.find_model(name, specs)
    if output_format == _FILE:
        _print_file(name, "model", specs)
        return
    counts = {"counted": listing.model_counts(model)}
    _print_entry(list(_model_lines(model)), listing.document(name, "model", specs), output_format, note, counts)


def _of_workloads(function: Any) -> Any:
    """Add the case whose latencies are shown."""
    for option in (
        click.option("-g", "--gpu", type=GPU, help="GPU whose latencies are shown.  [default: h100-sxm]"),
        click.option(
            "-m", "--model", type=MODEL, help="Model whose latencies are shown.  [default: llama-3.3-70b fp8]"
        ),
    ):
        function = option(function)
    return specs_option(output_options(function))


@click.group(
    cls=_Catalog,
    invoke_without_command=True,
    epilog="\b\nExamples:\n  roofline workloads\n  roofline workloads chat rag -m gpt-oss-120b -g b200\n"
    "  roofline workloads ./mine.yaml --format json",
)
@_of_workloads
@click.pass_context
def workloads(ctx: click.Context, /, **asked: Any) -> None:
    """Workloads by name: lengths, SLO, source, what their users wait for, and how long (--workload NAME)."""
    ctx.default_map = {"show": asked}
    if ctx.invoked_subcommand is None:
        _print_workloads((), **asked)


@workloads.command("show", epilog="\b\nExample:\n  roofline workloads show chat")
@click.argument("names", nargs=-1)
@_of_workloads
def _show_workloads(names: tuple[str, ...], **asked: Any) -> None:
    """Workloads with their sources and reasons."""
    _print_workloads(names, **asked)


def _print_workloads(
    names: tuple[str, ...], model: str | None, gpu: str | None, output_format: str, specs: str | None
) -> None:
    from roofline.questions.listing import workload_rows

    with _or_command("workloads", *names):
        rows = workload_rows(model, gpu, names or None, specs)
    lines = ["why, and where the figures come from: roofline workloads NAME"]
    if names:
        lines = [f"{row['workload']}: {row['why']}; source: {row['source']}, {row['date']}" for row in rows]
    texts = [f"{row['workload']}: {text}" for row in rows for text in (row["url"], *row["notes"])] if names else ()
    show(Screen(_WORKLOADS, rows, lines=lines, notes=texts, is_list=True), output_format)


@models.command(
    "import",
    epilog="\b\nExamples:\n  roofline models import ./my-model/config.json"
    "\n  roofline models import Qwen/Qwen3-8B -o qwen3-8b.yaml",
)
@click.argument("config")
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of printing; - prints.")
@click.option("--name", metavar="ID", help="Name of the model, preferably its Hugging Face id.")
@click.option("--assume", metavar="FAMILY", help="Read a config.json of an unknown family as this one, e.g. llama.")
@click.option("--force", is_flag=True, help="Overwrite the file if it exists.")
def _import_model(config: str, output: str | None, name: str | None, assume: str | None, force: bool) -> None:
    """Specification of the model that CONFIG describes.

    CONFIG is a config.json, a folder that holds one, or a Hugging Face id.
    """
    from roofline.outputs.files import write_whole
    from roofline.questions.listing import imported_model

    text, cautions = imported_model(config, name, assume)
    for caution in cautions:  # on stderr: stdout holds the file
        echo(f"note: {one_line(caution)}", err=True)
    if output is None or output == "-":
        echo(text, nl=False)
        return
    write_whole(output, lambda beside: beside.write_text(text, encoding="utf-8"), force=force)
    echo(f"{output}: written", err=True)


def _check(ctx: click.Context, path: str | None) -> None:
    """Check a folder or a file of specifications; the shipped catalogs where none is given.

    Prints every fault as file:line: field: fault and ends with exit code 1, or says that all is well.
    """
    report = spec_report(path)
    counts = [counted(number, kind) for kind, number in report.counts.items() if number]
    what = ", ".join(counts) or "no readable file"
    for fault in report.faults:
        echo(fault)
    if report.faults:
        echo(f"{counted(len(report.faults), 'fault')} in {what}", err=True)
        ctx.exit(1)
    echo(prose(f"{what}: no faults"))


def _checking(words: str) -> click.Command:
    """A command that checks specifications."""
    return Question(
        words.rsplit(maxsplit=1)[-1],
        callback=click.pass_context(_check),
        params=[click.Argument(["path"], required=False)],
        help=_check.__doc__,
        epilog=f"\b\nExample:\n  roofline {words}",
    )


check_specs = _checking("check-specs")
gpus.add_command(_checking("gpus check"))
models.add_command(_checking("models check"))
workloads.add_command(_checking("workloads check"))


@contextmanager
def _or_command(kind: str, *names: str) -> Iterator[None]:
    """Suggest a command of the kind where one is mistyped, which is then looked up as a name."""
    try:
        yield
    except UnknownName as error:
        from difflib import get_close_matches

        commands = ("check", "import", "show") if kind == "models" else ("check", "show")
        near = get_close_matches("".join(names[:1]), commands, 1)
        text = (
            f"{names[0]!r} is neither a command nor an entry; did you mean roofline {kind} {near[0]}?" if near else ""
        )
        raise UnknownName(text or str(error)) from None


def _refuse_pool(name: str, specs: str | None) -> None:
    from roofline.questions.inputs.deployment import pool_of

    pool = pool_of(name, specs)
    if pool is not None:
        raise UnknownName(f"{name!r} is a pool of GPUs; for the GPU itself: roofline gpus {pool.gpu}")


def _refuse_filters(ctx: click.Context, *filters: Any) -> None:
    if any(value is not None for value in filters):
        raise click.UsageError(f"filters cannot be combined with {ctx.invoked_subcommand!r}", ctx)


def _print(rows: list[dict[str, Any]], output_format: str, columns: Sequence[ScreenColumn]) -> None:
    show(Screen(columns, rows, lines=() if rows else [_NONE_LEFT], is_list=True), output_format)


# One GPU or model of the catalog in full: figures with sources, layers, document.

_FIGURES = {
    "field": "field",
    "value": "value",
    "source": "source",
    "date": "date",
    "confidence": "confidence",
    "note": "note",
}
_GIBI = from_text("1 GiB", "B")
_UNGROUPED = "others"
_DESCRIBED = ("memory", "scale_up", "scale_out", "host_link")  # groups of which the first lines say all
_WORDS = {"True": "yes", "False": "no"}
_PER_DIRECTION = ("scale_up.bandwidth", "scale_up.peer_bandwidth", "scale_out.bandwidth", "host_link.bandwidth")


def _print_entry(
    described: Sequence[str],
    content: Mapping[str, Any],
    output_format: str,
    note: str | None,
    summary: Mapping[str, Any] | None = None,
) -> None:
    """Print what an entry is, behind ``--all`` with every figure and its source; `summary` adds keys to the JSON."""
    people = for_people(output_format)
    left = room(flags()) if output_format == "table" else None
    if output_format == "markdown" and people:
        for line in described:
            text = line.lstrip()
            echo(f"{line[: len(line) - len(text)]}- {text}")
    elif people:
        lines = [part for line in described for part in _wrapped(line)]
        for line in lines if left is None else lines[: left - 1]:
            echo(line)
    if people and left is not None:
        notes([note] if note else [], "notes, and every figure with its source: --all")
        return
    if people:
        echo()
    _print_figures(content, output_format, summary)
    notes([note] if note else [])


def _wrapped(line: str) -> list[str]:
    """Lines of the terminal, indented below the first."""
    start = line[: len(line) - len(line.lstrip())]
    return prose(line, indent=f"{start}  ").split("\n")


def _print_figures(content: Mapping[str, Any], output_format: str, summary: Mapping[str, Any] | None) -> None:
    people = for_people(output_format)
    rows = []
    for figure in figures(content):
        row = figure_row(figure)
        if people:
            row["value"] = _value_text(figure.field, figure.value)
        rows.append(row)
    if output_format == "table" and people:
        _print_listed(rows)
    else:
        print_rows(rows, output_format, _FIGURES, {"document": with_si(content), **(summary or {})})
    if people:
        echo()
        is_document = output_format == "markdown"
        lines = [f"- {one_line(note)}" for note in content.get("notes") or ()]
        lines += [
            one_line(f"{'- ' if is_document else ''}[{source.date}] {source.source} {source.url}")
            for source in sources(content)
        ]
        for line in lines:
            (echo if is_document else _echo_wrapped)(line)


def _print_listed(rows: Sequence[Mapping[str, Any]]) -> None:
    """Figures one below the other, each with its source and note in lines of their own."""
    wide = [max((len(str(row[key])) for row in rows), default=0) for key in ("field", "value")]
    for row in rows:
        name, value = (str(row[key]).ljust(width) for key, width in zip(("field", "value"), wide, strict=True))
        echo(f"{name}  {value}  {row['confidence'] or ''}".rstrip())
        _echo_wrapped(f"    [{row['date']}] {row['source']}")
        if row["note"]:
            _echo_wrapped(f"    {one_line(row['note'])}")


def _echo_wrapped(line: str) -> None:
    for part in _wrapped(line):
        echo(part)


def _figure_lines(content: Mapping[str, Any]) -> Iterator[str]:
    """Figures of a specification by their group, without sources."""
    groups: dict[str, list[str]] = {}
    for figure in figures(content):
        group, _, name = figure.field.partition(".")
        texts = groups.setdefault(group if name else _UNGROUPED, [])
        texts.append(f"{(name or group).replace('_', ' ')} {_value_text(figure.field, figure.value)}".strip())
    for group, texts in groups.items():
        if group not in _DESCRIBED:
            yield f"{group}: {', '.join(texts)}"


def _gpu_lines(gpu: Gpu) -> Iterator[str]:
    yield f"{gpu.name} ({gpu.vendor}, {gpu.generation}, {gpu.status}); basis {basis_text(gpu)}"
    if gpu.aliases:
        yield f"also called {', '.join(gpu.aliases)}"
    rate = to_text(float(gpu.bandwidth), "B/s")
    usable = f"{_binary(gpu.memory)} usable ({_decimal(gpu.memory)})"
    shared = "; unified: CPU and GPU share it" if gpu.is_unified else ""
    yield f"memory: {usable}, sold as {_decimal(gpu.memory_label)}; {rate}{shared}"
    link = gpu.link
    reduction = ", in-switch reduction" if link.in_switch_reduction else ""
    peer = f", {to_text(float(link.peer_bandwidth), 'B/s')} to one peer" if link.peer_bandwidth else ""
    joins = f"{link.domain} GPUs"
    if link.domain == 1:
        joins = "1 GPU: it works alone" if gpu.scale_out is None else "1 GPU: tp > 1 crosses the network"
    rate = "" if link.kind == NO_LINK else f", {to_text(float(link.bandwidth), 'B/s')} per direction and GPU"
    yield f"link: {link.kind}{rate}{peer}, {joins}{reduction}"
    if gpu.host_domain is not None and gpu.host_link is not None:
        yield f"beyond the bridge: {gpu.node_link}, {to_text(float(gpu.host_link), 'B/s')}, {gpu.node} GPUs of a host"
    if gpu.other_nodes:
        yield f"in other nodes: {', '.join(gpu.other_nodes)}"
    if gpu.sustained != 1.0:
        yield f"sustains {rounded(100.0 * gpu.sustained)} % of its peaks, relative to the GPU that was timed"


def _model_lines(model: Model) -> Iterator[str]:
    counts = model_counts(model)
    active = counts["active"]
    yield f"{model.short_name} ({model.name}): {model.layers} layers, width {model.hidden}"
    yield (
        f"parameters {counts['parameters']:,.0f}, active {active['no-embedding']:,.0f} (without input embedding)"
        + _stated_text(model)
    )
    yield f"active with both ends {active['all']:,.0f}, without either {active['no-embedding-no-head']:,.0f}"
    for group in model.groups:
        alike = [(layer, len(list(run))) for layer, run in groupby(group.layers)]
        lines = [f"{_part_text(layer.mixer)} + {_part_text(layer.ffn)}" for layer, _ in alike]
        if len(alike) == 1:
            yield f"  {group.repeat * alike[0][1]} x {lines[0]}"
            continue
        yield f"  {group.repeat} x"
        for (_, number), line in zip(alike, lines, strict=True):
            yield f"    {number} x {line}"
    yield "formats: " + ", ".join(f"{section} {name}" for section, name in model.native.items())
    yield f"cache: {_cache_text(counts)}"
    for tower in model.encoders:
        yield f"{tower.kind} encoder: {tower.layers} layers, width {tower.hidden}, {tower.parameters():,} parameters"


def _value_text(field: str, value: str) -> str:
    """A value, with a remark where it could be misread."""
    if field in _PER_DIRECTION:
        return f"{value} per direction"
    if field == "memory.usable":
        si = si_value(field, value)
        return value if si is None else f"{value} ({_decimal(si[0])})"
    return _WORDS.get(value, value)


def _stated_text(model: Model) -> str:
    counts = {"total": model.stated_total, "active": model.stated_active}
    figures = [f"{name} {value:,.0f}" for name, value in counts.items() if value is not None]
    return f"; stated {', '.join(figures)}" if figures else ""


def _cache_text(counts: Mapping[str, Any]) -> str:
    per_token, growth, state = (
        counts[name] for name in ("kv_bytes_per_token", "kv_growth_bytes_per_token", "state_bytes_per_sequence")
    )
    texts = [f"{per_token:,.0f} B per token in {counts['native']['kv']}"] if per_token else []
    if per_token and rounded(growth) != rounded(per_token):
        texts.append(f"{growth:,.0f} B with full windows")
    if state:
        texts.append(f"state of {to_text(state, 'B')} per sequence")
    return ", ".join(texts) or "none"


def _decimal(nbytes: Any) -> str:
    return f"{rounded(nbytes / GIGA)} GB"


def _binary(nbytes: Any) -> str:
    return f"{rounded(nbytes / _GIBI, 4)} GiB"


def _part_text(part: Mixer | Ffn | Indexer) -> str:
    """Text such as ``gqa (heads 64, kv_heads 8)``."""
    import dataclasses

    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    texts = [_field_text(name, value) for name, value in fields.items() if value]
    name = type(part).__name__.removesuffix("Ffn").lower()
    return f"{name} ({', '.join(texts)})" if texts else name


def _field_text(name: str, value: Any) -> str:
    if value is True:
        return name
    return _part_text(value) if isinstance(value, Indexer) else f"{name} {value}"
