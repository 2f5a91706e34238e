"""What pyproject.toml declares is imported by something, and by the part of the project that it is declared for."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from every_case import each
from source_trees import tree

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOLDERS = ("roofline", "accuracy", "tests", "docs", "examples")
#: Import names that are not the distribution's in lower case with an underscore for the hyphen.
NAMES = {"mini-racer": "py_mini_racer", "pyyaml": "yaml"}
#: Declared without an import, and why.
TOOLS = {
    "build": "tests/test_packaging.py and .ci/run run it as a command",
    "import-linter": "checks the import contracts of this file",
    "ipykernel": "runs the notebooks of examples, as a process of its own", "mypy": "checks types",
    "oxlint": "lints the JavaScript of the page",
    "pre-commit": "runs the checks of .pre-commit-config.yaml before a commit",
    "pytest-xdist": "a plugin of pytest: -n auto", "ruff": "formats and lints", "types-pyyaml": "stubs for mypy",
    "types-tabulate": "stubs for mypy",
}  # fmt: skip
#: Calls that import a module, or ask for it, by name.
LOADERS = ("import_module", "find_spec", "importorskip")


def imports(path):
    """Top-level names of what a file imports."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in LOADERS:
            yield from (arg.value.split(".")[0] for arg in node.args if isinstance(arg, ast.Constant))


@cache
def texts(folder):
    return {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}


def is_imported(name, folder):
    """Whether a file imports a module: of those that mention it, the first one that does."""
    return any(name in imports(path) for path, text in texts(folder).items() if name in text)


def declared():
    """Each requirement with the folders one of which has to import it."""
    groups = {"dependencies": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    for group, requirements in groups.items():
        # What a user installs is for the package; the measurements have scripts; developers need the rest.
        folders = {"dev": FOLDERS, "accuracy": ("accuracy", "roofline"), "docs": ("docs",)}.get(group, ("roofline",))
        for requirement in requirements:
            name = re.match(r"[\w.-]+", requirement)[0].lower()
            yield pytest.param(name, folders, id=f"{group}-{name}")


@each(("name", "folders"), list(declared()))
def test_every_declared_dependency_is_imported_by_the_part_that_it_is_declared_for(name, folders):
    module = NAMES.get(name, name.replace("-", "_"))
    conf = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8") if folders == ("docs",) else ""  # themes by name
    assert name in TOOLS or f'"{module}"' in conf or any(is_imported(module, folder) for folder in folders)


def test_tools_are_for_developers_alone_and_every_extra_that_is_named_is_declared():
    groups = PROJECT["optional-dependencies"]
    of_developers = {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in groups["dev"]}
    assert set(TOOLS) <= of_developers
    others = [*PROJECT["dependencies"], *(each for name in groups if name != "dev" for each in groups[name])]
    assert not set(TOOLS) & {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in others}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "accuracy").glob("*.py")]
    named = set()
    for path in [*pages, *(ROOT / "roofline").rglob("*.py")]:
        for extras in re.findall(r"pip install (?:-q )?['\"]?(?:roofline|\.)\[([\w,]+)\]", path.read_text("utf-8")):
            named |= set(extras.split(","))
    assert "dev" in named
    assert named <= set(PROJECT["optional-dependencies"])
