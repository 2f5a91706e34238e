"""A case from its options: the decorator that adds them to a command, and how they become arguments of the API."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import click

from roofline.api.inputs.slo import with_p99_within
from roofline.api.inputs.texts import plain_options
from roofline.api.predict import LOADS
from roofline.cli.case_options import CASE, LISTS
from roofline.cli.options import Command, gpu_option, model_option, specs_option
from roofline.cli.values import split_names

__all__ = ["case_options", "list_options", "one_case"]


def case_options(
    function: Command,
    without: tuple[str, ...] = (),
    *,
    one: bool = False,
    of_loads: bool = False,
    of_pools: bool = False,
) -> Command:
    """Add every option of a case; the command gets them as keyword arguments of `predict`.

    Args:
        function: the command, called with `models`, `gpus`, `options`, and options of its own by name [function].
        without: parameters whose options the command has no use for, or adds in a form of its own [text].
        one: whether the command takes a single model and a single GPU [bool].
        of_loads: whether it asks about requests that come one by one, whatever the options say [bool].
        of_pools: whether its GPUs are named by options of its own [bool].

    Returns:
        The command with the options [function].
    """
    wanted = inspect.signature(function).parameters

    @functools.wraps(function)
    def command(models: tuple[str, ...], gpus: tuple[str, ...] = (), **given: Any) -> Any:
        models, gpus = split_names(models), split_names(gpus)
        own = {name: given.pop(name) for name in tuple(given) if name in wanted}
        is_loaded = of_loads or str(own.get("unknown", "")).replace("-", "_") in LOADS[1:]
        options = _arguments(given, of_loads=is_loaded, with_share="share" in wanted)
        return function(models=models, gpus=gpus, options=options, **own)

    for option in reversed(CASE):
        command = option(command)
        parameters: list[click.Parameter] = vars(command)["__click_params__"]
        if parameters[-1].name in without:
            parameters.pop()
    with_specs = specs_option(command)
    return model_option(with_specs if of_pools else gpu_option(with_specs, one=one), one=one)


def list_options(function: Command, without: tuple[str, ...] = ()) -> Command:
    """Add the options of a case that may be given several times, as lists; `case_options` without them goes outside.

    Args:
        function: the command [function].
        without: parameters whose options the command has no use for [text].

    Returns:
        The command with the options [function].
    """
    for option in reversed(LISTS):
        function = option(function)
        parameters: list[click.Parameter] = vars(function)["__click_params__"]
        if parameters[-1].name in without:
            parameters.pop()
    return function


def one_case(models: tuple[str, ...], gpus: tuple[str, ...]) -> tuple[str, str]:
    """The model and the GPU of a question that is asked of one case.

    Args:
        models: models named [text].
        gpus: GPUs named [text].

    Returns:
        Model and GPU [text].

    Raises:
        click.UsageError: not just one of each.
    """
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError("this command takes one case; give one model (-m) and one GPU (-g)")
    return models[0], gpus[0]


def _arguments(given: Mapping[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Keyword arguments of the API from options as given; what was left out keeps the API's default."""
    options = {name: value for name, value in given.items() if value is not None}
    within = options.pop("p99_within", None)
    workload = options.pop("workload", None)
    if workload is not None:
        if "isl" in options or "osl" in options:
            raise click.UsageError("--workload sets both lengths; leave out --isl and --osl")
        if isinstance(workload, str):
            options = _named(workload, options, of_loads=of_loads, with_share=with_share)
        else:
            options["isl"], options["osl"] = workload
    if within is not None:
        options["slo"] = with_p99_within(options.get("slo"), within)
    return plain_options(options)


def _named(workload: str, options: dict[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Options with those that a named workload stands for, where they are not given themselves."""
    from roofline.api.workloads import load_workload, workload_options

    found = load_workload(workload, options.get("specs"))
    is_loaded = of_loads or bool(set(LOADS[1:]) & set(options))
    stands_for: dict[str, Any] = dict(workload_options(found, loaded=is_loaded))
    if with_share:
        stands_for["share"] = found.share
    if options.get("prefix"):
        stands_for.pop("prefix")
    else:
        options.pop("prefix", None)
    return {**stands_for, **options}
