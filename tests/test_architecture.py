"""The house, beyond what import-linter checks: formulas use ops, powers of ten live in one place, names are unique."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from every_case import each
from source_trees import tree

import roofline

PACKAGE = Path(roofline.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))


def inside(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_imports_are_absolute_and_public_names_sorted():
    relative = [
        inside(path)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []
    assert list(roofline.__all__) == sorted(roofline.__all__)
    assert all(hasattr(roofline, name) for name in roofline.__all__)


@each("path", MODULES, ids=inside)
def test_a_module_has_its_powers_of_ten_elsewhere_and_ends_within_920_lines(path):
    code = re.sub(r'"""(.|\n)*?"""|#.*', "", path.read_text())
    found = re.findall(r"\b\d?1e-?\d+\b|\b10(?:\.0)?\s*\*\*|\b1024\b|[*/] 8\b", code)
    assert not found or inside(path) == "numbers/quantity.py", f"{inside(path)}: {found}"
    assert len(path.read_text().splitlines()) <= 920


@each("path", [p for p in MODULES if inside(p).startswith("physics/")], ids=inside)
def test_formulas_use_ops_and_never_the_functions_of_one_kind_of_number(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math":
            assert node.attr == "inf", f"{inside(path)}: math.{node.attr}"


def imported_by(question: list[str]) -> set[str]:
    """Modules of ours that a question to the command imports."""
    code = (
        "import sys\n"
        "from roofline.cli.main import cli\n"
        f"try:\n    cli({question!r})\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(*(name for name in sys.modules if name.startswith('roofline.')), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_help_imports_nothing_that_answers_and_a_burst_nothing_of_loads():
    assert imported_by(["--help"]) == imported_by(["--version"])
    assert imported_by(["--help"]) <= {
        "roofline.cli", "roofline.cli.main", "roofline.support", "roofline.support.errors",
    }  # fmt: skip
    burst = imported_by(["ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm"])
    rooms = ("serving.load", "symbolic", "formulas", "measurements", "outputs.workbook", "outputs.pictures")
    assert not [name for name in burst if name.startswith(tuple(f"roofline.{room}" for room in rooms))]
    questions = {name.split(".")[2] for name in burst if name.startswith("roofline.questions.")}
    assert questions == {"catalog", "inputs", "predict"}
    layers = {name.rpartition(".")[2] for name in burst if name.startswith("roofline.physics.layers.")}
    assert layers == {"attention", "kinds", "networks"}
    listed = imported_by(["gpus"])
    assert "roofline.questions.predict" in burst
    assert "roofline.questions.predict" not in listed
    under_load = imported_by(["ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm", "-c", "8"])
    assert "roofline.serving.load.equations" in under_load
    code = (
        "import sys\n"
        "from roofline.cli.main import cli\n"
        "for question in (['ttft', '-m', 'llama-3.1-70b', '--isl', '2000'],"
        " ['ttft', '-m', 'llama-3.1-8b', '-g', 'h100-sxm', '--format', 'json'],"
        " ['sweep', '-m', 'llama-3.1-8b', '-g', 'h100-sxm'], ['gpus'], ['--help']):\n"
        "    try:\n"
        "        cli(question)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, question\n"
        "heavy = {'numpy', 'sympy', 'pydantic', 'scipy'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip().splitlines()[-1] == "[]"


def names_of_a_door(path: Path) -> list[str] | None:
    """What `__all__` of a module lists, if it has one."""
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return None


def test_a_module_lists_the_names_of_others_that_it_passes_on_and_none_of_its_own():
    for path in MODULES:
        listed = names_of_a_door(path)
        if listed is None or path == Path(roofline.__file__):
            continue
        imported = {
            name.asname or name.name
            for node in ast.walk(tree(path))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in node.names
        }
        own = sorted(set(listed) - imported)
        assert not own, f"{inside(path)}: {own} are its own, public without an underscore; leave them out of __all__"


#: Name that two modules of a room may give to a class or a public function -> why.
EXCEPTIONS: dict[str, str] = {}


def is_command(function):
    """Whether a function is the callback of a command, which bears the command's name."""
    called = [decorator.func for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
    names = {getattr(decorator, "attr", getattr(decorator, "id", "")).removeprefix("_") for decorator in called}
    return bool(names & {"command", "group", "question"})


def is_overload(function):
    """Whether it states one of several signatures of the function that follows."""
    return any(isinstance(decorator, ast.Name) and decorator.id == "overload" for decorator in function.decorator_list)


def homes(kinds, is_named):
    """Modules in which a name is given, by room and name."""
    found = defaultdict(list)
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, kinds) and is_named(node):
                found[path.relative_to(PACKAGE).parts[0], node.name].append(inside(path))
    return found


def classes():
    return homes(ast.ClassDef, lambda node: True)


def functions():
    return homes(ast.FunctionDef, lambda node: not (node.name.startswith("_") or is_command(node) or is_overload(node)))


def shared(found):
    return {key: modules for key, modules in found.items() if len(modules) > 1 and key[1] not in EXCEPTIONS}


def test_no_two_classes_functions_or_commands_of_a_room_share_a_name():
    assert len(classes()) > 100
    assert shared(classes()) == {}
    assert len(functions()) > 200
    assert shared(functions()) == {}
    commands = homes(ast.FunctionDef, is_command)
    assert all(module.startswith("cli/") for modules in commands.values() for module in modules)
    assert {"predict", "ttft", "plan", "compare"} <= {name for _, name in commands}
    assert shared(commands) == {}
    used = {name for found in (classes(), functions()) for (_, name), modules in found.items() if len(modules) > 1}
    assert set(EXCEPTIONS) <= used
    assert all(reason.endswith(".") for reason in EXCEPTIONS.values())
