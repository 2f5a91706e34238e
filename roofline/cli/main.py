"""The `roofline` command: one noun per question."""

from __future__ import annotations

import errno
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

import roofline
from roofline.support.errors import RooflineError, did_you_mean, printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_HOME = "roofline.cli."
#: Section -> commands, their module, a sentence of help. Modules are imported when their command runs.
SECTIONS: dict[str, tuple[tuple[tuple[str, ...], str, str], ...]] = {
    "Ask": (
        (("predict", "sweep"), "predict", "Predict a case, or every combination of many."),
        (("ttft", "tpot"), "predict", "Show one of these on every GPU, best first."),
    ),
    "Decide": (
        (("plan",), "plan", "Rank deployments within an SLO, and say why."),
        (("fits",), "start", "Say whether a server starts, and its flags."),
        (("goodput", "curve", "budgets"), "capacity", "Find loads within an SLO; vary the budgets."),
        (("pareto",), "pareto", "Find the best plans: per user against per GPU."),
        (("cost",), "capacity", "Price tokens, and compare with an API."),
    ),
    "Why": (
        (("compare", "quantize"), "compare", "Compare GPUs or formats, and say why."),
        (("sensitivity", "solve"), "why", "Rank inputs; find one that meets a target."),
        (("formula",), "why", "Write out the closed form of an answer."),
    ),
    "Improve": (
        (("levers", "disaggregate"), "improve", "Rank levers; separate prompts from answers."),
        (("cache", "speculate"), "improve", "See what cached prompts or drafts bring."),
    ),
    "Measure": ((("check", "calibrate"), "measure", "Judge a benchmark; fit constants to yours."),),
    "Keep": ((("sheet", "page"), "improve", "Write a workbook or a page that answers."),),
    "Agents": ((("mcp",), "mcp", "Answer agents over the Model Context Protocol."),),
    "Catalog": ((("gpus", "models", "workloads"), "catalog", "List them, show one, check your own."),),
}
#: Earlier names of commands, which work.
_EARLIER = {"size": "plan", "knee": "predict", "check-specs": "catalog"}
_SHOWN = {name: _HOME + module for entries in SECTIONS.values() for names, module, _ in entries for name in names}
#: Commands that are shown beside another one's, and have a module of their own.
_APART = {"sweep": _HOME + "sweep"}
_COMMANDS = {**_SHOWN, **{name: _HOME + module for name, module in _EARLIER.items()}, **_APART}
_PLANS = "sheet-of-plans"  # what `sheet --plan` runs
_GAP = 2


class _Questions(click.Group):
    """A group that turns errors of the API into a message and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_SHOWN)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        home = _HOME + "plan" if cmd_name == _PLANS else _COMMANDS.get(cmd_name)
        command: click.Command | None = (
            None if home is None else getattr(import_module(home), cmd_name.replace("-", "_"))
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments; ``curve --pareto``, ``curve --over`` and ``sheet --plan`` are their own."""
        if args[:1] == ["curve"] and "--pareto" in args:
            args = ["pareto", *(word for word in args[1:] if word != "--pareto")]
        if args[:1] == ["sheet"] and "--plan" in args:
            return "sheet --plan", self.get_command(ctx, _PLANS), [word for word in args[1:] if word != "--plan"]
        if args[:1] == ["curve"] and any(word.partition("=")[0] == "--over" for word in args):
            args = ["budgets", *args[1:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        rows = [
            (section if place == 0 else "", ", ".join(names), sentence)
            for section, entries in SECTIONS.items()
            for place, (names, _, sentence) in enumerate(entries)
        ]
        wide = [max(len(row[column]) for row in rows) + _GAP for column in (0, 1)]
        formatter.write("\n")
        for section, names, sentence in rows:
            formatter.write(f"{section.ljust(wide[0])}{names.ljust(wide[1])}{sentence}\n")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write commands only; the usage shows both options."""
        self.format_commands(ctx, formatter)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _reworded_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        from roofline.cli.progress import progress

        with _reworded_errors(), progress():
            try:
                return super().invoke(ctx)
            except RooflineError as error:
                raise click.ClickException(str(error)) from None


@contextmanager
def _reworded_errors() -> Iterator[None]:
    """Reword errors of click, and escape what they quote."""
    try:
        yield
    except click.ClickException as error:
        reword(error, tuple(_COMMANDS))
        raise


_SETTINGS: dict[str, Any] = {
    "help_option_names": ["--help", "-h"],
    "token_normalize_func": lambda token: token.replace("_", "-"),  # --tensor_parallel_size
}


@click.group(
    cls=_Questions,
    context_settings=_SETTINGS,
    options_metavar="[--help | --version]",
    subcommand_metavar="COMMAND [--help | OPTIONS]",
    help="How fast will this model answer on this GPU, and why?",
    epilog="\b\nroofline ttft -m llama-3.1-70b --isl 2000     every GPU, the fastest first"
    "\nroofline plan -m llama-3.1-70b -q fp8 --slo ttft:300 --isl 4k -c 64",
)
@click.version_option(roofline.__version__, prog_name="roofline")
def cli() -> None:
    """Entry point; the commands do the work."""


def main() -> None:
    """Run the command line; a closed pipe ends silently, a full disk or a closed output with one message."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # letters missing in the terminal's encoding
    try:
        try:
            cli()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                click.echo(f"Error: cannot write the answer: {error.strerror}", err=True)
        _discard()
        sys.exit(1)
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            _discard()


def _open_streams() -> None:
    """Replace standard streams that the caller closed: writing to stdout fails as on a full disk, stderr is lost.

    Their file descriptors are taken, so that no text ends in a file opened later.
    """
    for number, name, mode in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, mode)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)
        setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _discard() -> None:
    """Send what is still buffered to the null device, as the output cannot take it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            os.dup2(nowhere, stream.fileno())


# Error messages of click in the words of this program.

#: Words of the field in the name of an unknown option -> what it takes here.
_MEANT = {
    "qps": "--request-rate", "rps": "--request-rate", "prompt": "--isl", "input": "--isl", "output": "--osl",
    "answer": "--osl", "completion": "--osl", "generation": "--osl", "streams": "--concurrency",
    "users": "--concurrency",
    "dtype": "--quantization", "precision": "--quantization", "bits": "--quantization", "gpus": "--num-gpus",
    "replicas": "--num-gpus", "nodes": "--num-gpus", "memory": "--gpu-memory-utilization", "price": "--gpu-price",
    "sla": "--slo", "target": "--slo", "latency": "--slo", "speculative": "--draft", "spec": "--draft",
    "hit": "--cache-hit",
    "backend": "--engine", "runtime": "--engine", "framework": "--engine", "file": "--output", "out": "--output",
}  # fmt: skip
_NEAR = 0.75  # likeness of a mistyped name


def reword(error: click.ClickException, commands: tuple[str, ...]) -> None:
    """Rewrite the message of an error in place, with unprintable characters escaped."""
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        error.param_hint = error.param_hint or " / ".join(f"'{name}'" for name in names_of(error.param))
    message = error.message
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        message = _no_such_option(error.option_name.replace("_", "-"), error.ctx)
        vars(error)["possibilities"] = []
    elif message.startswith("No such command"):
        from difflib import get_close_matches

        typed = message.partition("'")[2].rpartition("'")[0]
        message = f"unknown command '{typed}'{did_you_mean(get_close_matches(typed, commands, 3))}"
    if re.search(r"[`=_]", message):
        from roofline.cli.screen import refusal_words

        message = refusal_words(message)
    message = printable(message, lines=True)
    vars(error)["message"] = _wrapped(f"Error: {message}").removeprefix("Error: ") if sys.stderr.isatty() else message


def _wrapped(text: str) -> str:
    from roofline.cli.screen import prose

    return "\n".join(prose(line) for line in text.split("\n"))


def _no_such_option(typed: str, ctx: click.Context) -> str:
    """Why a command does not take an option of others, or which one may be meant."""
    from difflib import get_close_matches

    from roofline.questions.inputs.options import OPTIONS, QUESTIONS

    question = QUESTIONS.get(str(ctx.command.name))
    words = [_MEANT[word] for word in typed.strip("-").split("-") if word in _MEANT]
    for name in (typed, *words):
        option = next((option for option in OPTIONS.values() if name in option.flags), None)
        if option is not None and question is not None and option.name in question.refused:
            why = re.sub(r"`(\w+)`", lambda name: f"--{name[1].replace('_', '-')}", question.refused[option.name])
            return f"{ctx.info_name} takes no {typed}: {why}"
    known = [name for param in ctx.command.params if isinstance(param, click.Option) for name in param.opts]
    long = [name for name in known if name.startswith("--")]
    same = [name for name in long if name.replace("-", "") == typed.replace("-", "")]
    near = same or get_close_matches(typed, long, 3, _NEAR)
    meant = [name for name in words if name in known]
    return f"No such option: {typed}{did_you_mean(dict.fromkeys([*near, *meant]))}"


# Help pages: options in groups, the common ones first.

#: Options of the help that are not in the table of a case, by group.
_NAMED = {
    "Case": ("models", "model", "gpus", "gpu"),
    "Output": (
        "output_format", "output", "force", "is_full", "with_notes", "emit", "explain", "simulated", "seed", "requests",
        "plot", "help",
    ),
}  # fmt: skip
_BEHIND = {"Case": ("share", "case", "save", "command")}  # behind those of the table
_TOKENS = re.compile(r"\s*\d+(\.\d*)?\s*[kKmM]?\s*").fullmatch
#: Short for ``--format``.
_FORMATS = ("--json", "--csv", "--markdown", "--latex")


class Question(click.Command):
    """A command with grouped options in its help, which takes ``--json`` for ``--format json``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names = {arg.partition("=")[0] for arg in args}
        if "--dtype" in names and names & {"-q", "--quantization"}:
            raise click.UsageError("--dtype and -q both name the number format; keep one of them", ctx)
        return super().parse_args(ctx, with_system(with_formats(args)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in grouped(self.get_params(ctx), f"Options of {ctx.info_name}"):
            records = [
                (f"{', '.join(names_of(option))}{_value(option, ctx)}", _meaning(option, ctx)) for option in options
            ]
            with formatter.section(title):
                formatter.write_dl(records, col_max=32)


def groups() -> dict[str, tuple[str, ...]]:
    """Group of the help -> names of its options, in their order; the others belong to a command alone."""
    from roofline.questions.inputs.options import CASE

    return {
        title: (*_NAMED.get(title, ()), *(option.name for option in CASE.get(title, ())), *_BEHIND.get(title, ()))
        for title in dict.fromkeys((*CASE, *_NAMED))
    }


def with_formats(args: Sequence[str]) -> list[str]:
    """Arguments with ``--json`` and the like written out."""
    return [f"--format={arg[2:]}" if arg in _FORMATS else arg for arg in args]


def with_system(args: Sequence[str]) -> list[str]:
    """Arguments with ``--system 2k``, tokens, told from ``--system h100``, which names a GPU in other tools.

    >>> with_system(["--system", "2k"]), with_system(["--system=h100"])
    (['--system-prompt', '2k'], ['--system=h100'])
    """
    changed = list(args)
    for place, arg in enumerate(changed):
        name, equals, value = arg.partition("=")
        if name == "--system" and _TOKENS(value if equals else "".join(changed[place + 1 : place + 2])):
            changed[place] = f"--system-prompt{equals}{value}"
    return changed


def grouped(parameters: Iterable[click.Parameter], own_title: str = "Other") -> list[tuple[str, list[click.Option]]]:
    """Groups with their options, those of the command alone first."""
    shown = [option for option in parameters if isinstance(option, click.Option) and not option.hidden]
    options = {"help" if "--help" in option.opts else str(option.name): option for option in shown}
    names_of_group = groups()
    listed = {name for names in names_of_group.values() for name in names}
    others = [option for name, option in options.items() if name not in listed]
    known = [(title, [options[name] for name in names if name in options]) for title, names in names_of_group.items()]
    return [(title, members) for title, members in [(own_title, others), *known] if members]


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


# Shell completion of option values.

_BEFORE = r"(?:.*,)?\s*(?:[0-9]+\s*[xX]\s*)?"  # other names, and a number of GPUs


def completions(names: Callable[[], Iterable[str]], incomplete: str) -> list[CompletionItem]:
    """Completions of the last of several names; none where the catalog cannot be read."""
    from click.shell_completion import CompletionItem

    before = re.match(_BEFORE, incomplete)
    done = before[0] if before is not None else ""
    typed = incomplete[len(done) :].lower()
    try:
        return [CompletionItem(done + name) for name in names() if name.startswith(typed) and name.isprintable()]
    except RooflineError:
        return []
