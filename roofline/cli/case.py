"""Commands about a case: their options from the one table, and what is typed as arguments of a question."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from roofline.cli.answers import PLAN, varying_columns
from roofline.cli.main import Question
from roofline.cli.options import GPU, MODEL, TEXTS, Parsed, PathName, echo, for_people, output_options, split_names
from roofline.cli.screen import Screen, ScreenColumn, flags, keys_of
from roofline.questions.inputs.arguments import OF_REQUESTS, plain_options, slo_limits, with_p99_within
from roofline.questions.inputs.case import PRESETS, engine_names
from roofline.questions.inputs.options import ALL, FLAG, LISTED, OPTIONS, QUESTIONS, Option, Value, combinations
from roofline.questions.inputs.options import Question as Taken
from roofline.questions.predict import LOADS
from roofline.support.records import replace

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Answer = Callable[..., Any]

_NOT_NAMES = r"[0-9.]+(ms|us|s|k|m|%)?|(ttft|tpot|e2el|itl|tps|p99)\b.*"
_JOIN = "several values of an option are joined by commas, e.g. -g h100,b200 or --slo ttft:300,tpot:25"


# Options from the table.


def _workload_names() -> Iterable[str]:
    from roofline.questions.listing import workloads

    return workloads()


_WIDE = 30  # characters of words that are chosen from, beyond which help names them

_KNOWN: Mapping[str, Callable[[], Iterable[str]]] = {
    "": tuple, "format": PRESETS.keys, "engine": engine_names, "workload": _workload_names,
}  # fmt: skip


def _type(value: Value, *, of_several: bool) -> click.ParamType[Any]:
    """How click reads a value, or several."""
    if value.choices:
        return click.Choice(value.choices)
    names = _KNOWN[value.known]
    if of_several:
        return Parsed(value.names, value.read_all or str, names)
    if value.name == "path":
        return PathName()
    return Parsed(value.name, value.in_shell or value.read or str, names)


def with_names(text: str) -> str:
    """A help text with the names of formats and engines that it stands for."""
    return text.format(formats=", ".join(PRESETS), engines=", ".join(engine_names())) if "{" in text else text


def meaning(option: Option, taken: Taken) -> str:
    """Help of an option of the table as a question takes it."""
    text = taken.helps.get(option.name) or (option.name in taken.several and option.each) or option.help
    return f"{text}  [default: {option.default}]" if option.default and option.name not in taken.helps else text


class _Option(click.Option):
    """An option whose help names formats and engines, which are looked up where somebody reads it."""

    @property
    def help(self) -> str:
        return with_names(self._text)

    @help.setter  # noqa: A003 - the name that click reads
    def help(self, text: str) -> None:
        self._text = text


def option_of(option: Option, taken: Taken) -> click.Option:
    """An option of the table as a question takes it."""
    value, text = taken.kinds.get(option.name, option.value), meaning(option, taken)
    if value is FLAG:
        return _Option([option.name, *option.flags], is_flag=True, default=None, help=text)
    of_several = option.name in taken.several or (taken.each and option.name in LISTED)
    kind = _type(value, of_several=of_several)
    metavar = "WORD" if len(value.name) > _WIDE and value.choices else None
    return _Option(
        [option.name, *option.flags], type=kind, multiple=of_several or value.is_joined, help=text, metavar=metavar
    )


def stated_options(question: str) -> Callable[[Answer], Answer]:
    """Decorator: add what a question takes to a command that is not about a case."""

    def add(function: Answer) -> Answer:
        options = [option_of(option, QUESTIONS[question]) for option in QUESTIONS[question].taken]
        vars(function).setdefault("__click_params__", []).extend(reversed(options))
        return function

    return add


# Commands.


def question(
    *examples: str, output: Callable[[Answer], Answer] = output_options, takes: str = ""
) -> Callable[[Answer], Question]:
    """Decorator: a command with the options of a case that its question takes, those of its own, and an output.

    The function has the name of the question, unless it `takes` the options of another. It gets `models`, `gpus`, and
    `options`, keyword arguments of `predict`; or `cases`, a list of them, where it answers a row for each of several
    values. Arguments of its own may stand anywhere among model and GPUs, or be options.
    """

    def as_command(function: Answer) -> Question:
        name = takes or function.__name__.replace("_", "-")
        taken = QUESTIONS.get(name, Taken())
        own = inspect.signature(function).parameters

        def command(
            words: tuple[str, ...] = (),
            models: tuple[str, ...] = (),
            gpus: tuple[str, ...] = (),
            **values: Any,
        ) -> Any:
            rest = {key: values.pop(key) for key in tuple(values) if key not in OPTIONS}
            case_file, save, launched = rest.pop("case"), rest.pop("save"), rest.pop("command")
            if launched is not None:
                models = _from_command(launched, taken, values, models, words)
            if case_file is not None:
                models, gpus = _from_file(case_file, taken, values, models, gpus, words)
            for place in places:
                if rest.get(str(place.name)) is None:
                    rest[str(place.name)], words = _word_of(place, words)
            models, gpus = _names(words, models, gpus)
            if save is not None:
                _save(save, values, models, gpus)
            is_loaded = taken.is_loaded or str(rest.get("unknown", "")).replace("-", "_") in LOADS[1:]
            is_loaded = is_loaded or rest.get("rate_by_hour") is not None
            with_share = "share" in rest
            _note_replaced_limits(values)
            cases = [_arguments(case, of_loads=is_loaded, with_share=with_share) for case in _cases(values, taken)]
            asked: dict[str, Any] = {"models": models, "gpus": gpus, "cases": cases, "options": cases[0]}
            return function(**{key: value for key, value in asked.items() if key in own}, **rest)

        described = output(function)
        params: list[click.Parameter] = list(reversed(vars(described).pop("__click_params__")))
        places = [param for param in params if isinstance(param, click.Argument)]
        names = [model_option(single=taken.single), *([gpu_option(taken)] if taken.names_gpus else [])]
        others = [option_of(option, taken) for option in taken.taken]
        usage = [place.human_readable_name for place in places]
        usage.append("[MODEL [GPU]...]" if taken.names_gpus else "[MODEL]")
        words = click.Argument(["words"], nargs=-1, metavar=" ".join(usage), shell_complete=partial(_completed, places))
        return Question(
            name,
            callback=command,
            params=[words, *names, *others, *_files(), *(param for param in params if param not in places)],
            help=function.__doc__,
            epilog="\b\nExamples:" + "".join(f"\n  {example}" for example in examples),
        )

    return as_command


def without_output(function: Answer) -> Answer:
    """For a command that prints no rows."""
    return function


def _files() -> list[click.Option]:
    """Options for a case that is kept in a file."""
    return [
        click.Option(["--case"], type=PathName(), help="Ask about the case of this file; what is typed comes first."),
        click.Option(["--save"], type=PathName(), help="Keep the case in this file (YAML)."),
        click.Option(["--command"], metavar="TEXT", help="Ask about the server that this command starts."),
    ]


def _from_command(
    text: str, taken: Taken, values: dict[str, Any], models: tuple[str, ...], words: tuple[str, ...]
) -> tuple[str, ...]:
    """The model, and in `values` the options, of a launch command where nothing was typed for them."""
    from roofline.questions.commands import read_command

    read = read_command(text)
    case = dict(read.options)
    model = str(case.pop("model"))
    texts = {name: str(value) for name, value in case.items()}
    _fill(texts, taken, values, "the command")
    for note in read.notes:
        echo(f"note: {note}", err=True)
    if models and model not in models:
        echo(f"note: the command serves {model}; asked about {', '.join(models)}", err=True)
    return models if models or len(words) > 1 else (model,)


def _fill(texts: Mapping[str, str | bool], taken: Taken, values: dict[str, Any], source: str) -> None:
    """Options in texts, where nothing was typed for them."""
    context = click.get_current_context()
    params = {str(param.name): param for param in context.command.params}
    lengths = {"isl", "osl", "workload"}
    typed = {name for name, value in values.items() if value not in (None, (), False)}
    left_out = []
    for name, text in texts.items():
        if name in typed or (name in lengths and typed & lengths and "workload" in {*typed & lengths, name}):
            continue
        if name in LOADS and typed & set(LOADS):
            continue
        if name not in params or name not in values:
            left_out.append(f"{name} ({taken.refused[name]})" if name in taken.refused else name)
            continue
        param = params[name]
        value = text if isinstance(text, bool) else param.type.convert(text, param, context)
        values[name] = (value,) if param.multiple else value
    if left_out:
        echo(f"note: {source}: left out here: {', '.join(left_out)}", err=True)


def _from_file(
    path: str,
    taken: Taken,
    values: dict[str, Any],
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    words: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Model and GPUs, and in `values` the options, of a case in a file where nothing was typed for them."""
    from roofline.questions.saved import case_texts

    texts = case_texts(path)
    model, gpu = texts.pop("model", None), texts.pop("gpu", None)
    _fill(texts, taken, values, path)
    further = len(words) if models else len(words) - 1  # words that are GPUs
    if not words and model and not models:
        models = (str(model),)
    if further <= 0 and gpu and not gpus and taken.names_gpus:
        gpus = (str(gpu),)
    return models, gpus


def _save(path: str, values: Mapping[str, Any], models: tuple[str, ...], gpus: tuple[str, ...]) -> None:
    """Keep a case as it was typed."""
    from roofline.questions.saved import write_case

    typed = click.get_current_context().meta.get(TEXTS, {})
    texts: dict[str, str | bool] = {"model": ",".join(models)}
    if gpus:
        texts["gpu"] = ",".join(gpus)
    for name in OPTIONS:
        value = values.get(name)
        if value not in (None, (), False):
            texts[name] = True if value is True else ",".join(typed.get(name) or [str(value)])
    write_case(path, texts, force=flags().force)
    echo(f"wrote {path}", err=True)


def model_option(*, single: bool) -> click.Option:
    ends = "." if single else "; several with commas."
    text = f"Model: short name, alias or Hugging Face id{ends}"
    return click.Option(["-m", "--model", "--model-path", "models"], type=MODEL, multiple=True, help=text)


def gpu_option(taken: Taken) -> click.Option:
    ends = "." if taken.single else "; several with commas." + ("" if taken.needs_gpus else "  [default: all]")
    text = f"GPU, e.g. h100, 8xh100 or b200:tp4:fp8x2{ends}"
    return click.Option(["-g", "--gpu", "--system", "--hardware", "gpus"], type=GPU, multiple=True, help=text)


def varying(cases: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names of the options of which several values were given."""
    return tuple(name for name in cases[0] if any(case[name] != cases[0][name] for case in cases))


def together(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Options of all cases, with a list of values where they vary."""
    return {**cases[0], **{name: list(dict.fromkeys(case[name] for case in cases)) for name in varying(cases)}}


def with_varying(columns: Sequence[ScreenColumn], cases: Sequence[Mapping[str, Any]]) -> list[ScreenColumn]:
    """Columns with those of what varies behind the plan."""
    place = 1 + next((place for place, column in enumerate(columns) if column.heading == PLAN.heading), -1)
    return [*columns[:place], *varying_columns(varying(cases)), *columns[place:]]


def one_answer(screen: Screen, cases: Sequence[object]) -> Screen:
    """A screen; its sentence is about one case, and left out where there are several."""
    return screen if len(cases) == 1 else replace(screen, answer="")


def one_case(models: tuple[str, ...], gpus: tuple[str, ...]) -> tuple[str, str]:
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError("this command takes one case; give one model (-m) and one GPU (-g)")
    return models[0], gpus[0]


#: Keys that sentences above a table read.
_ALWAYS = (
    "gpu",
    "num_gpus",
    "basis",
    "usd_per_hour",
    "usd_per_month",
    "price_source",
    "gpu_status",
    "usd_per_m_output_tok",
    "slo_verdict",
    "slo_binding",
    "reason",
)


def shown_keys(columns: Sequence[ScreenColumn], output_format: str, own: str) -> tuple[str, ...] | None:
    """Keys that a screen reads; None for all, where the rows themselves are the answer."""
    if output_format != "table" or not for_people(output_format):
        return None
    return tuple(dict.fromkeys((*keys_of(columns), *_ALWAYS, own)))


# What is typed, as arguments.


def _completed(
    places: Sequence[click.Argument], ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completions of the arguments of a command's own."""
    return [item for place in places for item in place.type.shell_complete(ctx, place, incomplete)]


def _word_of(place: click.Argument, words: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """The value of an argument from the first word that can be it, and the other words."""
    context = click.get_current_context()
    if not words:
        raise click.MissingParameter(ctx=context, param=place)
    refusals = []
    for number, word in enumerate(words):
        try:
            return place.type.convert(word, place, context), (*words[:number], *words[number + 1 :])
        except click.BadParameter as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _names(
    words: tuple[str, ...], models: tuple[str, ...], gpus: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Models and GPUs of the options; words without one are the model, where none is named, and GPUs."""
    stray = next((word for word in words if re.fullmatch(_NOT_NAMES, word, re.IGNORECASE)), None)
    if words and models and gpus:
        stray = words[0]
    if stray is not None:
        raise click.UsageError(f"Got unexpected extra argument ({stray}); {_JOIN}")
    if not models:
        if not words:
            raise click.UsageError("Missing option '-m' / '--model': a model, as roofline models lists them.")
        models, words = words[:1], words[1:]
    return split_names(models), split_names((*gpus, *words))


def _cases(values: Mapping[str, Any], taken: Taken) -> list[dict[str, Any]]:
    """Each combination of values, where a question answers a row for each; an option may be repeated."""
    joined = {
        name: list(chain(*value)) if isinstance(value, tuple) and (name in LISTED or name in taken.several) else value
        for name, value in values.items()
    }
    texts = {
        name: ",".join(value) if value else None
        for name, value in joined.items()
        if isinstance(value, tuple) and _is_joined(name)
    }
    joined.update(texts)
    return combinations({name: value for name, value in joined.items() if value not in (None, [])}, taken)


def _is_joined(name: str) -> bool:
    option = OPTIONS.get(name)
    return option is not None and option.value.is_joined


def _arguments(values: Mapping[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Keyword arguments of the API; options left out keep its defaults."""
    options = dict(values)
    within = options.pop("p99_within", None)
    if options.pop("enable_expert_parallel", None):
        if "ep" in options:
            raise click.UsageError("--enable-expert-parallel is --ep all; keep one of them")
        options["ep"] = ALL
    if options.pop("enable_eplb", None):
        options.setdefault("eplb", 0)
    workload = options.pop("workload", None)
    if workload is not None:
        if "isl" in options or "osl" in options:
            raise click.UsageError("--workload sets both lengths; leave out --isl and --osl")
        if isinstance(workload, str):
            options = _with_named_workload(workload, options, of_loads=of_loads, with_share=with_share)
        else:
            options["isl"], options["osl"] = workload
    if within is not None:
        options["slo"] = with_p99_within(options.get("slo"), within)
    return plain_options(options)


def _with_named_workload(workload: str, options: dict[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Options over those of a named workload."""
    from roofline.questions.listing import load_workload, workload_options

    named = load_workload(workload, options.get("specs"))
    is_loaded = of_loads or bool(set(LOADS[1:]) & set(options))
    stands_for: dict[str, Any] = dict(workload_options(named, loaded=is_loaded))
    if with_share:
        stands_for["share"] = named.share
    if options.get("prefix"):
        stands_for.pop("prefix")
    else:
        options.pop("prefix", None)
    return {**stands_for, **options}


def _note_replaced_limits(values: Mapping[str, Any]) -> None:
    """Say where limits that are given leave none of those of a named workload."""
    workload, slo = values.get("workload"), values.get("slo")
    if not isinstance(workload, str) or not slo:
        return
    from roofline.questions.listing import load_workload

    named = load_workload(workload, values.get("specs"))
    if set(slo_limits(named.slo or None) or ()) - set(slo):
        echo(f"note: --slo replaces all limits of {named.name}, {named.slo}", err=True)


def required_share(options: dict[str, Any], share: float | None) -> float | None:
    """The share of ``--share``, else that of a workload, which is taken out of the options of the case.

    A workload's share goes with its limits: where others replace them that no share can be of, it goes too.
    """
    of_workload = options.pop("share", None)
    if not any(key in OF_REQUESTS for key in options.get("slo") or ()):
        if share is None:
            return None
        raise click.UsageError(
            "--share is of requests that meet limits on TTFT, TPOT or E2EL without a percentile; add one, e.g. --slo "
            "ttft:300,tpot:25"
        )
    return of_workload if share is None else share
