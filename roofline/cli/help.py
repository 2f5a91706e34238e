"""Help pages: options in groups, the common ones first, each with its own names alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import click

__all__ = ["GROUPS", "Question", "grouped", "names_of"]

#: Group of options -> parameters in it, in the order of the help; those in no group are a question's own.
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
    """A command whose help shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each group that has options."""
        for title, options in grouped(self.get_params(ctx), f"Options of {ctx.info_name}"):
            records = [
                (f"{', '.join(names_of(option))}{_value(option, ctx)}", _meaning(option, ctx)) for option in options
            ]
            with formatter.section(title):
                formatter.write_dl(records, col_max=32)


def grouped(parameters: Iterable[click.Parameter], own_title: str = "Other") -> list[tuple[str, list[click.Option]]]:
    """Options by group, a question's own first.

    Args:
        parameters: of a command.
        own_title: of the options that are in no group [text].

    Returns:
        Title of each group that has options, and these in their order.
    """
    shown = [one for one in parameters if isinstance(one, click.Option) and not one.hidden]
    options = {"help" if "--help" in one.opts else str(one.name): one for one in shown}
    listed = {name for names in GROUPS.values() for name in names}
    own = [option for name, option in options.items() if name not in listed]
    groups = [(title, [options[name] for name in names if name in options]) for title, names in GROUPS.items()]
    return [(title, members) for title, members in [(own_title, own), *groups] if members]


def names_of(option: click.Option) -> list[str]:
    """The names that help shows: the short one and the first long one; docs/cli.md has the others.

    Args:
        option: of a command.

    Returns:
        One or two names, and the way to say no [text].
    """
    short = [name for name in option.opts if not name.startswith("--") and len(name) == 2][:1]
    long = [name for name in option.opts if name.startswith("--")][:1]
    return [*short, *long, *option.secondary_opts[:1]]


def _value(option: click.Option, ctx: click.Context) -> str:
    return "" if option.is_flag or option.count else f" {option.make_metavar(ctx)}"


def _meaning(option: click.Option, ctx: click.Context) -> str:
    record = option.get_help_record(ctx)
    return inspect.cleandoc(record[1]) if record else ""
