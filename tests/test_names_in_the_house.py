"""Names in a room: whoever reads a class's or a function's name knows which one is meant."""

import ast
from collections import defaultdict
from pathlib import Path

from source_trees import tree

import roofline

PACKAGE = Path(roofline.__file__).parent

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
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in tree(path).body:
            if isinstance(node, kinds) and is_named(node):
                module = path.relative_to(PACKAGE)
                found[module.parts[0], node.name].append(module.as_posix())
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
    assert {"predict", "ttft", "size", "compare"} <= {name for _, name in commands}
    assert shared(commands) == {}
    used = {name for found in (classes(), functions()) for (_, name), modules in found.items() if len(modules) > 1}
    assert set(EXCEPTIONS) <= used
    assert all(reason.endswith(".") for reason in EXCEPTIONS.values())
