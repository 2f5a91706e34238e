"""The options of a case: the decorators that add them, and their conversion to arguments of the API."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import click

from roofline.api.inputs.slo import with_p99_within
from roofline.api.inputs.texts import plain_options
from roofline.api.predict import LOADS
from roofline.cli.case_options import CASE, LISTS
from roofline.cli.options import Command, gpu_option, model_option, specs_option
from roofline.cli.values import split_names

#: Options that questions have no use for which judge no limit and price nothing.
WITHOUT_LIMITS = ("slo", "p99_within", "gpu_price")


def case_options(
    function: Command,
    without: tuple[str, ...] = (),
    *,
    single: bool = False,
    of_loads: bool = False,
    of_pools: bool = False,
) -> Command:
    """Add the options of a case, which the command gets as keyword arguments of `predict` in `options`.

    `without` leaves out parameters, `single` takes one model and one GPU, `of_loads` is for questions about requests
    that arrive one by one, `of_pools` for commands that name GPUs in options of their own.
    """
    own_parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def command(models: tuple[str, ...], gpus: tuple[str, ...] = (), **case_values: Any) -> Any:
        models, gpus = split_names(models), split_names(gpus)
        own_options = {name: case_values.pop(name) for name in tuple(case_values) if name in own_parameters}
        is_loaded = of_loads or str(own_options.get("unknown", "")).replace("-", "_") in LOADS[1:]
        options = _arguments(case_values, of_loads=is_loaded, with_share="share" in own_parameters)
        return function(models=models, gpus=gpus, options=options, **own_options)

    with_specs = specs_option(_with_options(command, CASE, without))
    return model_option(with_specs if of_pools else gpu_option(with_specs, single=single), single=single)


def list_options(function: Command, without: tuple[str, ...] = ()) -> Command:
    """Add the options that take lists; goes inside a `case_options` without them."""
    return _with_options(function, LISTS, without)


def one_case(models: tuple[str, ...], gpus: tuple[str, ...]) -> tuple[str, str]:
    if len(models) != 1 or len(gpus) != 1:
        raise click.UsageError("this command takes one case; give one model (-m) and one GPU (-g)")
    return models[0], gpus[0]


def _with_options(function: Command, options: Sequence[Command], without: tuple[str, ...]) -> Command:
    for option in reversed(options):
        function = option(function)
        parameters: list[click.Parameter] = vars(function)["__click_params__"]
        if parameters[-1].name in without:
            parameters.pop()
    return function


def _arguments(values: Mapping[str, Any], *, of_loads: bool, with_share: bool) -> dict[str, Any]:
    """Keyword arguments of the API; options left out keep its defaults."""
    options = {name: value for name, value in values.items() if value is not None}
    within = options.pop("p99_within", None)
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
    from roofline.api.workloads import load_workload, workload_options

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
