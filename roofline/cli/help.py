"""Help pages: options in groups, the common ones first."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import click

#: Group -> its parameters, in the order of the help; the others belong to the command alone.
GROUPS: dict[str, tuple[str, ...]] = {
    "Case": ("models", "model", "gpus", "gpu", "isl", "osl", "prefix", "workload", "slo", "p99_within", "share"),
    "Load": (
        "concurrency", "request_rate", "batch", "num_prompts", "isl_cv", "osl_cv", "lengths", "cold_start",
    ),
    "Prompt cache": ("cache_hit", "cache_tier", "cache_bandwidth", "cache_size", "working_set"),
    "Plan": ("tp", "pp", "ep", "dp", "num_gpus", "allow_oversize"),
    "Speculation": ("draft", "draft_tokens", "acceptance"),
    "Formats": ("quantization", "weights", "kv_cache_dtype", "compute"),
    "Engine and hardware": (
        "engine", "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len", "network",
        "routing", "derate", "measured", "basis", "specs", "assume", "gpu_price",
    ),
    "Output": (
        "output_format", "is_full", "with_notes", "explain", "simulated", "seed", "requests", "plot", "output",
        "force", "help",
    ),
}  # fmt: skip


class Question(click.Command):
    """A command with grouped options in its help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in grouped(self.get_params(ctx), f"Options of {ctx.info_name}"):
            records = [
                (f"{', '.join(names_of(option))}{_value(option, ctx)}", _meaning(option, ctx)) for option in options
            ]
            with formatter.section(title):
                formatter.write_dl(records, col_max=32)


def grouped(parameters: Iterable[click.Parameter], own_title: str = "Other") -> list[tuple[str, list[click.Option]]]:
    """Groups with their options, those of the command alone first."""
    shown = [option for option in parameters if isinstance(option, click.Option) and not option.hidden]
    options = {"help" if "--help" in option.opts else str(option.name): option for option in shown}
    listed = {name for names in GROUPS.values() for name in names}
    others = [option for name, option in options.items() if name not in listed]
    groups = [(title, [options[name] for name in names if name in options]) for title, names in GROUPS.items()]
    return [(title, members) for title, members in [(own_title, others), *groups] if members]


def names_of(option: click.Option) -> list[str]:
    """The short and the first long name; docs/cli.md has the aliases."""
    short = [name for name in option.opts if not name.startswith("--") and len(name) == 2][:1]
    long = [name for name in option.opts if name.startswith("--")][:1]
    return [*short, *long, *option.secondary_opts[:1]]


def _value(option: click.Option, ctx: click.Context) -> str:
    return "" if option.is_flag or option.count else f" {option.make_metavar(ctx)}"


def _meaning(option: click.Option, ctx: click.Context) -> str:
    record = option.get_help_record(ctx)
    return inspect.cleandoc(record[1]) if record else ""
