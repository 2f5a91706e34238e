"""The house: arrows point inward only, heavy imports have one home, powers of ten live in one place."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roofline

PACKAGE = Path(roofline.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# Inner rings first; a module may import from its own ring and from those before it.
RINGS = [
    ("errors", "quantity", "ops"),
    ("catalog",),
    ("physics",),
    ("serving",),
    ("evaluate",),
    ("outputs",),
    ("case", "api", "servers", "calibration", "questions", "comparisons", "fleet", "tables", "sheets"),
    ("__init__",),
    ("cli",),
]
# What a ring may know of the catalog: records and formats, and where kernels are fitted, the rows of their tables and
# the texts of what was fitted; never the readers of the catalog's files.
RECORDS = {"records", "formats"}
KNOWN = {"physics": RECORDS, "serving": RECORDS, "evaluate": {*RECORDS, "kernel_table", "calibration_text"}}
HOMES = {
    "numpy": {
        "evaluate/arrays.py",
        "evaluate/calibrate.py",
        "evaluate/fitting.py",
        "evaluate/kernel_work.py",
        "evaluate/cell.py",
        "evaluate/lookups.py",
        "evaluate/book_",
    },
    "sympy": {"evaluate/symbols.py", "evaluate/expressions.py", "evaluate/formula.py", "evaluate/formula_text.py"},
    "matplotlib": {"evaluate/tornado.py"},
    "pydantic": {"catalog/schema.py", "catalog/model_schema.py", "catalog/checks.py"},
    "pydantic_core": {"catalog/schema.py", "catalog/model_schema.py", "catalog/checks.py"},
    "yaml": {"catalog/shipped_yaml.py", "catalog/yaml_lines.py"},
    "click": {"cli/"},
    "tabulate": {"cli/render.py"},
    "scipy": {"evaluate/fitting.py"},
    "pandas": set(),
    "xlsxwriter": {"evaluate/book_writer.py"},
    "pyarrow": {"outputs.py"},
}


def ring(name: str) -> int:
    for depth, members in enumerate(RINGS):
        if name.split("/", maxsplit=1)[0].removesuffix(".py") in members:
            return depth
    raise AssertionError(f"{name} is in no ring")


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [node.module] if node.module != "roofline" else []
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=inside)
def test_arrows_point_inward_only(path):
    here = ring(inside(path))
    for name in imports(path):
        if name == "roofline":
            assert here > ring("__init__"), f"{inside(path)} imports the package itself"
        elif name.startswith("roofline."):
            target = name.split(".")[1]
            if any(target in members for members in RINGS):
                assert ring(target) <= here, f"{inside(path)} imports {name}, which lies further out"


@pytest.mark.parametrize("path", MODULES, ids=inside)
def test_physics_and_serving_see_records_but_never_files(path):
    known = KNOWN.get(inside(path).split("/")[0])
    for name in imports(path):
        if known is not None and name.startswith("roofline.catalog"):
            assert name.split(".")[2] in known, f"{inside(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=inside)
def test_heavy_imports_have_one_home_each(path):
    for name in imports(path):
        homes = HOMES.get(name.split(".")[0])
        if homes is not None:
            assert any(inside(path).startswith(home) for home in homes), f"{inside(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=inside)
def test_powers_of_ten_live_in_quantity_alone(path):
    if path.name == "quantity.py":
        return
    code = re.sub(r'"""(.|\n)*?"""|#.*', "", path.read_text())
    found = re.findall(r"\b\d?1e-?\d+\b|\b10(?:\.0)?\s*\*\*|\b1024\b|[*/] 8\b", code)
    assert not found, f"{inside(path)}: {found}"


@pytest.mark.parametrize("path", [p for p in MODULES if inside(p).startswith("physics/")], ids=inside)
def test_formulas_use_ops_and_never_the_functions_of_one_kind_of_number(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math":
            assert node.attr == "inf", f"{inside(path)}: math.{node.attr}"


@pytest.mark.parametrize("path", MODULES, ids=inside)
def test_modules_stop_at_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


def test_the_answer_from_the_shell_imports_neither_numpy_nor_sympy_nor_pydantic():
    code = (
        "import sys\n"
        "from roofline.cli.main import cli\n"
        "for question in (['ttft', '-m', 'llama-3.1-70b', '--isl', '2000'],"
        " ['ttft', '-m', 'llama-3.1-8b', '-g', 'h100-sxm', '--format', 'json'], ['gpus'], ['--help']):\n"
        "    try:\n"
        "        cli(question)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, question\n"
        "heavy = {'numpy', 'sympy', 'pydantic', 'scipy'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def test_the_public_names_are_sorted_and_complete():
    assert list(roofline.__all__) == sorted(roofline.__all__)
    assert all(hasattr(roofline, name) for name in roofline.__all__)
    for path in MODULES:
        tree = ast.parse(path.read_text())
        stated = [
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ]
        if not stated:
            continue
        public = {
            node.name
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        }
        assert public <= set(stated[0]), f"{inside(path)}: {public - set(stated[0])} missing from __all__"
