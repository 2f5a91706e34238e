"""Documentation that cannot rot: docstrings, glossary and pages agree with the code."""

import ast
import re
import runpy
from functools import cache
from pathlib import Path

import pytest
from every_case import each
from source_trees import tree

import roofline

ROOT = Path(__file__).parents[1]
PACKAGE = Path(roofline.__file__).parent
SECTIONS = ("Args:", "Returns:", "Raises:", "Valid:", "Source:")
#: Of the API, functions that are documented where they read, and `size`, the former name of `plan`.
READERS = {"load_gpu", "load_model", "load_workload", "size"}
MODULES = {"plot"}  # of functions
NUMBERS = re.compile(r"\b(Real|float|int)\b")


def is_overload(node):
    """Whether a function states one of several signatures, of which the last has the docstring."""
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


@cache
def documented_functions():
    """Functions of the API and formulas: those whose docstrings say all that a caller or a checker needs."""
    return list(_documented_functions())


def _documented_functions():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        for node in tree(path).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or is_overload(node):
                continue
            docstring = ast.get_docstring(node) or ""
            is_formula = place.startswith(("physics/", "serving/")) and (
                "Source:" in docstring or ".. math::" in docstring
            )
            if is_formula or (place.startswith("questions/") and node.name in roofline.__all__):
                yield pytest.param(node, id=f"{place}:{node.name}")


def test_functions_are_documented_in_full_and_files_that_the_docs_name_are_there():
    found = [case.values[0] for case in documented_functions()]
    named = {node.name for node in found}
    assert {name for name in roofline.__all__ if name.islower()} - named == READERS | MODULES
    for name in MODULES:
        functions = [node for node in tree(PACKAGE / f"{name}.py").body if isinstance(node, ast.FunctionDef)]
        assert all(ast.get_docstring(node) for node in functions if not node.name.startswith("_")), name
    formulas = [node for node in found if node.name not in roofline.__all__]
    assert len(formulas) > 120
    for node in formulas:
        assert "Source:" in ast.get_docstring(node), node.name
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    named = [(page.name, *found) for page in pages for found in _NAMED_FILES.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 40
    for page, file, names in named:
        if file.startswith("my-specs/"):  # of a reader's own
            continue
        path = next((home / file for home in (PACKAGE, ROOT) if (home / file).exists()), None)
        assert path is not None or "retention" in file, f"{page}: {file}"
        for name in filter(None, names.split(", ")):
            assert re.search(rf"\b{name}\b", path.read_text(encoding="utf-8")), f"{page}: {file}: {name}"


def parameters(node):
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    extra = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
    return [argument for argument in arguments + extra if argument.arg not in ("self", "cls")]


def section(docstring, name):
    match = re.search(rf"^{name}\n((?:    .*\n|\n)*)", docstring + "\n", re.MULTILINE)
    return match[1] if match else ""


@each("node", documented_functions)
def test_a_public_docstring_names_parameters_in_order_with_units_and_keeps_the_order_of_sections(node):
    docstring = ast.get_docstring(node)
    assert docstring, "no docstring"
    stated = re.findall(r"^    (\w+): ((?:.|\n        )*)", section(docstring, "Args:"), re.MULTILINE)
    arguments = parameters(node)
    assert [name for name, _ in stated] == [argument.arg for argument in arguments]
    for (name, text), argument in zip(stated, arguments, strict=True):
        kind = ast.unparse(argument.annotation) if argument.annotation else ""
        if (
            NUMBERS.search(kind)
            and "Callable" not in kind
            and "Mapping" not in kind
            and argument is not node.args.kwarg
        ):
            assert re.search(r"\[[^\]]+\]", text), f"{name} has no [unit]"
    found = [line for line in docstring.splitlines() if line in SECTIONS]
    assert found == sorted(found, key=SECTIONS.index)
    returns = ast.unparse(node.returns) if node.returns else "None"
    assert ("Returns:" in found) == (returns != "None")


def test_pages_are_current_their_links_lead_somewhere_and_parameters_are_in_the_glossary():
    built = runpy.run_path(str(ROOT / "docs" / "build_cli.py"))
    assert (ROOT / "docs" / "cli.md").read_text() == built["page"](), "run: python docs/build_cli.py"
    readme = (ROOT / "README.md").read_text()
    assert "pip install . && roofline ttft --model llama-3.1-70b --isl 2000" in readme
    assert 'pip install ".[dev]" && python -m pytest' in readme
    ci = (ROOT / ".ci" / "run").read_text()
    assert 'pip install -q ".[dev]"' in ci
    assert "python -m pytest 2" in ci
    for page in (ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    names = {
        argument.arg
        for module in (PACKAGE / "questions").glob("*.py")
        for node in tree(module).body
        if isinstance(node, ast.FunctionDef) and node.name in roofline.__all__
        for argument in parameters(node)
    }
    missing = {name for name in names - {"options", "model", "gpu", "name"} if f"`{name}`" not in glossary}
    assert not missing


#: Files of the package that the docs name, in the room they say, and what they say is in them.
_NAMED_FILES = re.compile(r"`((?:\w+/)+\w+\.(?:py|yaml))(?:: ([\w, ]+))?`")
