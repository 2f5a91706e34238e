"""The types that a user sees: mypy on users' scripts, and no `Any` in what is public."""

import ast
import builtins
import collections.abc
import importlib
import inspect
import os
import pkgutil
import re
import runpy
import subprocess
import sys
import typing
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import sympy
from every_case import each

import roofline as rl
from roofline.numbers import arrays
from roofline.questions.inputs import options, signatures
from roofline.serving.row_types import Row
from roofline.serving.shown import ROW_KEYS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SCRIPTS = HERE / "user_script.py", HERE / "user_errors.py"  # the first without a mistake
MODULES = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(rl.__path__, "roofline.")
    if not found.name.startswith("roofline.cli")
]
#: Every class of the package by its name, no two of which are the same, and what is imported for types alone.
NAMES = {
    **{name: thing for module in MODULES for name, thing in vars(module).items() if inspect.isclass(thing)},
    **vars(arrays),
    **vars(options),
    **vars(signatures),
    "Expression": sympy.Expr,
    "sympy": sympy,
}
CALLED = [name for name in rl.__all__ if inspect.isfunction(getattr(rl, name))]
RECORDS = [
    name
    for name in rl.__all__
    if inspect.isclass(getattr(rl, name)) and not issubclass(getattr(rl, name), (Exception, dict))
]


@pytest.fixture(scope="module")
def mypy(request, tmp_path_factory):
    """What mypy says of the scripts, in one run, with the settings of a user who asks for strictness."""
    folder = tmp_path_factory.mktemp("mypy")
    kept = getattr(request.config, "cache", None)  # of the last run: what has not changed is not read again
    cache = kept.mkdir("mypy") if kept else folder / "cache"
    empty = folder / "mypy.ini"
    empty.write_text("[mypy]\n", encoding="utf-8")
    strict = [sys.executable, "-m", "mypy", "--strict", "--config-file", empty, "--cache-dir", cache]
    run = subprocess.run(
        [*map(str, strict), "--follow-imports=silent", *map(str, SCRIPTS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    assert not run.stderr
    return run.stdout


def calls(path):
    """Attributes of `rl` that a script uses."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "rl"}


def test_a_users_script_passes_mypy_strict_without_casts(mypy):
    assert mypy.endswith("in 1 file (checked 2 source files)\n")  # in the other
    assert "user_script" not in mypy
    assert not {"cast", "Any"} & set(re.findall(r"\w+", (HERE / "user_script.py").read_text(encoding="utf-8")))


def test_the_users_script_calls_every_public_function():
    assert set(CALLED) <= calls(HERE / "user_script.py")


def test_the_users_script_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(HERE / "user_script.py"), run_name="__main__")
    assert " ms; " in capsys.readouterr().out


def test_mypy_finds_every_mistake_of_a_users_script_and_no_other(mypy):
    path = HERE / "user_errors.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if "# wrong: " in line}
    reported = {int(number) for number in re.findall(r"user_errors\.py:(\d+): error", mypy)}
    assert len(wrong) > 10
    assert reported == wrong


# --- no Any --------------------------------------------------------------------------------------


class Known(dict):
    """Names of a module, then those that it imports for types alone; what neither has stands for itself."""

    def __missing__(self, name):
        if name in NAMES:
            return NAMES[name]
        return getattr(builtins, name) if hasattr(builtins, name) else object


def hints(thing):
    module = vars(sys.modules[thing.__module__])
    known = {**vars(typing), **vars(collections.abc), **module}
    return typing.get_type_hints(thing, globalns=known, localns=Known(module))


def has_any(hint):
    if hint is typing.Any:
        return True
    if typing.get_origin(hint) is np.ndarray:  # of any shape
        return False
    return any(has_any(part) for part in typing.get_args(hint) if not isinstance(part, str))


def annotations(thing):
    """Annotations of a function, those of its overloads where it has some."""
    for signature in typing.get_overloads(thing) or [thing]:
        yield from hints(signature).items()


def attributes(record):
    """Annotations of everything public of a record."""
    for kind in record.__mro__:
        if not kind.__module__.startswith("roofline"):
            continue
        if "__annotations__" in vars(kind):
            yield from ((name, hint) for name, hint in hints(kind).items() if not name.startswith("_"))
        for name, member in vars(kind).items():
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            function = member.func if isinstance(member, cached_property) else function
            if not name.startswith("_") and inspect.isfunction(function):
                yield from ((f"{name}, {part}", hint) for part, hint in annotations(function))


@each("name", CALLED)
def test_no_parameter_or_answer_of_a_public_function_is_any(name):
    stated = list(annotations(getattr(rl, name)))
    assert "return" in {part for part, _ in stated}
    assert [part for part, hint in stated if has_any(hint)] == []


@each("name", RECORDS)
def test_no_public_attribute_of_a_public_record_is_any(name):
    stated = list(attributes(getattr(rl, name)))
    assert stated
    assert [part for part, hint in stated if has_any(hint)] == []


def test_any_is_found_where_it_hides():
    assert has_any(dict[str, list[typing.Any]])
    assert has_any(typing.Any | None)
    assert not has_any(dict[str, float] | None)


# --- stated once ---------------------------------------------------------------------------------


def keys(kind):
    return set(typing.get_type_hints(kind, localns=Known(vars(signatures))))


def test_the_options_for_a_type_checker_are_the_parameters_of_predict():
    stated = set(inspect.signature(rl.predict).parameters) - {"model", "gpu"}
    assert keys(signatures.Case) == stated
    assert keys(signatures.Grid) == stated
    for part in (
        signatures.Unloaded,
        signatures.WithoutLoad,
        signatures.Unmeasured,
        signatures.Unlimited,
        signatures.Loaded,
    ):
        assert keys(part) < stated
    assert stated == set(options.OPTIONS) - set(options.IN_PYTHON)  # the table of options has the same
    for name in rl.workloads():
        assert set(rl.workload_options(name)) <= keys(signatures.WorkloadOptions) < stated


def test_the_rows_for_a_type_checker_have_the_keys_of_the_contract():
    assert list(typing.get_type_hints(Row)) == [*ROW_KEYS, "reason"]


def values_of_rows():
    yield rl.predict("llama-3.1-8b", "h100-sxm").to_dict()
    yield rl.predict("llama-3.1-8b", "h100-sxm", request_rate=2, slo="ttft:300@p95").to_dict()
    yield rl.predict("llama-3.1-8b", "h100-sxm", osl=1, basis="ideal").to_dict()
    yield from rl.table(["llama-3.1-8b", "llama-3.1-405b"], ["h100-sxm", "l40s"], isl=[1000, 200_000])


def test_rows_hold_what_their_type_says():
    kinds = {**typing.get_type_hints(Row), "warnings": list}
    for row in values_of_rows():
        for key, value in row.items():
            kind = kinds[key]
            assert isinstance(value, (int | kind) if kind in (float, float | None) else kind), key


@pytest.mark.parametrize(
    "varied", [{"isl": [500, 1000]}, {"osl": [1, 2]}, {"prefix": [0, 64]}, {"concurrency": [1, 2]}]
)
def test_the_times_of_many_cases_are_arrays_whatever_varies(varied):
    p = rl.predict("llama-3.1-8b", "h100-sxm", **varied)
    for name in ("ttft", "tpot", "e2el", "tpot_first", "tpot_last", "tok_s_user", "output_tok_s", "fits"):
        assert np.shape(getattr(p, name)) == (2,), name
    assert p.fits.dtype == bool
    for name in ("ttft", "tpot"):
        alone = [
            getattr(rl.predict("llama-3.1-8b", "h100-sxm", tp=p.deployment.plan.tp, **{key: value}), name)
            for key, values in varied.items()
            for value in values
        ]
        known = [(both, one) for both, one in zip(getattr(p, name), alone, strict=True) if one is not None]
        assert known
        assert all(both == pytest.approx(one, rel=1e-12) for both, one in known)
