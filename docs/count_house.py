"""Counts how the code is spread over files: python docs/count_house.py [ROOT] [--json] [--files].

ROOT is a checkout, this one by default. The Python that runs this script must have the package's dependencies; nothing
outside ROOT is counted. What is counted, the same way for any layout of `roofline/`:

* Lines. Logical lines hold at least one token that is neither a comment nor part of a docstring; blank lines hold none,
  and a text over several lines counts on each. Lengths of modules are lines of the file, as an editor numbers them.
* The path of one answer, `roofline predict -m llama-3.1-8b -g h100-sxm --isl 2000`: the files under `roofline/` whose
  functions are called, and the calls that cross from one of them to another. The caller is the nearest frame under
  `roofline/`, so that a call through click or functools counts for the file that made it. A generator counts once, when
  it starts; a constructor that `records.py` compiles has no file, and counts nowhere. Imports are no part of the path,
  nor is what runs at the top level of a module: one process answers and names the modules that are loaded then, another
  imports all of them and answers under `sys.setprofile`. Its answer is its first, as the next would find the catalog,
  its deployment and compiled programs remembered, and skip most of the path.
* Places to edit: files under `roofline/` that know one representative, of several the median. A file knows a name
  where it occurs as an identifier, as a keyword, as a whole text (``"tpot"``, ``--isl-cv``), or as the last part of the
  dotted path of a module; words within sentences do not count. All files that know a name are counted, those that use
  it among them, so the figure is an upper bound of what a new one of its kind must touch.

  - load kind: files that branch on which load a case has: that compare `concurrency`, `request_rate` or `num_prompts`
    with None (or take it for a condition), or a kind of load (`load`, `BURST`, ``"burst"``, a class `Burst`, and the
    same of the other loads) by ``==``, ``!=``, isinstance or match. A new kind must answer each of these questions.
    Beside it: the branches; those that ask for None, and their files; the files that know both `concurrency` and
    `request_rate`.
  - command: files that know its function of the API, or the class of its answer. Lists that hold it under another name,
    such as keys of its rows, are not found.
  - layer kind: files that know its record. Readers of a `config.json` (files below a folder `huggingface`) are left
    out: each knows what its models consist of.
  - lever: files with the text of its kind.
  - option: files that know its name, in any spelling.
  - output key: files with its text, or with the property of the same name. Files that a script of docs/ writes, as
    their docstrings say, are left out of all places.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

QUESTION = ("predict", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--isl", "2000")

#: Kind -> representatives, each with the names that stand for it.
PLACES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "command": {
        "quantize": ("quantize", "Quantization"),
        "speculate": ("speculate", "Speculation"),
        "disaggregate": ("disaggregate", "Disaggregation"),
        "curve": ("curve", "Curve"),
        "pareto": ("pareto", "Pareto"),
        "sensitivity": ("sensitivity", "Sensitivities"),
        "levers": ("levers", "Levers"),
        "sheet": ("sheet",),
    },
    "layer kind": {name: (name,) for name in ("Gdn", "Kda", "Lightning", "Mamba1", "Mamba2", "ShortConv")},
    "lever": {
        name: (name,)
        for name in ("smaller model", "more bandwidth", "separate pools", "shorter answers", "token budget")
    },
    "option": {
        name: (name,)
        for name in ("cold_start", "routing", "max_num_seqs", "max_model_len", "derate", "gpu_price", "cache_hit")
    },
    "output key": {
        name: (name,)
        for name in ("tok_s_user", "usd_per_request", "max_request_rate", "cache_load_ms", "knee_bound", "weight_dtype")
    },
}
#: Options that say which load a case has, and what its kinds are called, in lower case.
LOADS = frozenset({"concurrency", "request_rate", "num_prompts"})
KINDS_OF_LOAD = frozenset({"burst", "users", "rate", "concurrency", "request_rate"})
_READERS = "huggingface"

_SILENT = frozenset({
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
})  # fmt: skip
_DOTTED = re.compile(r"[\w.]*\.(\w+)")

_LOADED = """
import sys
from roofline.cli.main import cli
try:
    cli({question!r}, prog_name="roofline")
except SystemExit as end:
    if end.code:
        raise
sys.stderr.write("\\n".join(sys.modules))
"""
_PROFILED = """
import json, sys
from contextlib import suppress
from importlib import import_module
from inspect import CO_GENERATOR
from pathlib import Path

for name in {modules!r}:
    with suppress(ImportError):
        import_module(name)
import roofline
from roofline.cli.main import cli

package = str(Path(roofline.__file__).parent) + "/"
files, crossings, pairs, calls, generators = set(), 0, set(), 0, {{}}


def called(frame, event, argument):
    global crossings, calls
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(package) or code.co_name == "<module>":
        return
    if code.co_flags & CO_GENERATOR:
        if id(frame) in generators:
            return
        generators[id(frame)] = frame  # kept, so that no other frame has its id
    calls += 1
    files.add(code.co_filename)
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(package):
        caller = caller.f_back
    if caller is not None and caller.f_code.co_filename != code.co_filename:
        crossings += 1
        pairs.add((caller.f_code.co_filename, code.co_filename))


sys.setprofile(called)
try:
    cli({question!r}, prog_name="roofline")
except SystemExit as end:
    if end.code:
        raise
finally:
    sys.setprofile(None)
found = {{"files": sorted(files), "crossings": crossings, "pairs": len(pairs), "calls": calls}}
sys.stderr.write(json.dumps({{**found, "package": package}}))
"""


class Module:
    """One file: its lines, its tree and the names that it knows."""

    def __init__(self, path: Path, package: Path) -> None:
        self.place = path.relative_to(package).as_posix()
        self.source = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.lines = len(self.source.splitlines())
        self.is_written = "Written by docs/" in (ast.get_docstring(self.tree) or "")
        docstrings = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Expr) and _is_text(node.value)]
        self.logical = self._logical_lines({(text.lineno, text.col_offset) for text in docstrings})
        skipped = {id(part) for text in docstrings for part in ast.walk(text)}
        self.names = {name for node in ast.walk(self.tree) if id(node) not in skipped for name in _names(node)}
        self.of_none = sum(_asks_for_none(node) for node in ast.walk(self.tree))
        self.branches = self.of_none + sum(_asks_for_a_kind(node) for node in ast.walk(self.tree))

    def knows(self, names: Iterable[str]) -> bool:
        return not self.names.isdisjoint(names)

    def _logical_lines(self, docstrings: set[tuple[int, int]]) -> int:
        encoded = [line.encode() for line in self.source.splitlines()]
        held: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            (row, column), (last, _) = token.start, token.end
            if token.type in _SILENT or not token.string:
                continue
            offset = len(encoded[row - 1].decode()[:column].encode())
            if token.type != tokenize.STRING or (row, offset) not in docstrings:
                held.update(range(row, last + 1))
        return len(held)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _names(node: ast.AST) -> Iterator[str]:
    """Identifiers of a node, and what its texts are as identifiers: ``--isl-cv`` is isl_cv."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.alias(name=name):
            yield name.rpartition(".")[2]
        case ast.ImportFrom(module=str(path)):
            yield path.rpartition(".")[2]
        case ast.Constant(value=str(text)):
            yield text
            yield text.removeprefix("--").replace("-", "_")
            if found := _DOTTED.fullmatch(text):
                yield found[1]
        case _:
            return


def _identifier(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _asks_for_none(node: ast.AST) -> bool:
    """Whether a comparison or a condition asks whether an option that states the load is given."""
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        is_of_none = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
        return is_of_none and any(_identifier(side) in LOADS for side in sides)
    return isinstance(node, ast.If | ast.IfExp) and _identifier(node.test) in LOADS


def _asks_for_a_kind(node: ast.AST) -> bool:
    """Whether a comparison, an isinstance or a pattern asks which kind of load a case has."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return "load" in (_identifier(left), _identifier(right)) or _is_kind(left) or _is_kind(right)
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Tuple(elts=classes)]):
            return any(map(_is_kind, classes))
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]) | ast.MatchClass(cls=kind):
            return _is_kind(kind)
        case ast.MatchValue(value=kind):
            return _is_kind(kind)
        case _:
            return False


def _is_kind(node: ast.AST) -> bool:
    """Whether a text or a constant, or a class, bears the name of a kind of load."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value in KINDS_OF_LOAD
    name = _identifier(node)
    return name[:1].isupper() and name.lower() in KINDS_OF_LOAD


def modules_of(root: Path) -> list[Module]:
    package = root / "roofline"
    return [Module(path, package) for path in sorted(package.rglob("*.py"))]


def sizes(modules: Sequence[Module]) -> dict[str, Any]:
    """Files, logical lines, and the longest and the median module."""
    longest = max(modules, key=lambda module: module.lines)
    return {
        "logical_lines": sum(module.logical for module in modules),
        "lines": sum(module.lines for module in modules),
        "files": len(modules),
        "init_files": sum(module.place.endswith("__init__.py") for module in modules),
        "longest_module": {"file": longest.place, "lines": longest.lines},
        "median_module": median(module.lines for module in modules),
    }


def path_of_an_answer(root: Path, question: Sequence[str] = QUESTION) -> dict[str, Any]:
    """Files entered and crossings between them while one question is answered."""
    loaded = _in_a_process(root, _LOADED.format(question=list(question)))
    modules = [name for name in loaded.split("\n") if not name.startswith("__")]
    found = json.loads(_in_a_process(root, _PROFILED.format(question=list(question), modules=modules)))
    if found["package"] != f"{root / 'roofline'}/":
        raise SystemExit(f"{found['package']} answered, not {root}")
    files = [name.removeprefix(found["package"]) for name in found["files"]]
    return {
        "question": " ".join(question),
        "files_entered": len(files),
        "crossings": found["crossings"],
        "pairs_of_files": found["pairs"],
        "calls": found["calls"],
        "files": files,
    }


def _in_a_process(root: Path, code: str) -> str:
    """What Python code of ours writes to stderr, with the package of the checkout."""
    start = f"import sys\nsys.path.insert(0, {str(root)!r})\n"
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stderr


def places(modules: Sequence[Module]) -> dict[str, Any]:
    """Files that know each representative of a kind, and their median."""
    modules = [module for module in modules if not module.is_written]
    branching = [module for module in modules if module.branches]
    listing = [module for module in modules if module.knows(["concurrency"]) and module.knows(["request_rate"])]
    found: dict[str, Any] = {
        "load kind": {
            "places": len(branching),
            "branches": sum(module.branches for module in branching),
            "branches_for_none": sum(module.of_none for module in branching),
            "files_that_ask_for_none": sum(module.of_none > 0 for module in branching),
            "files_that_know_both_loads": len(listing),
            "of": {"branches": {module.place: module.branches for module in branching}},
        }
    }
    for kind, representatives in PLACES.items():
        of = {
            name: [
                module.place
                for module in modules
                if module.knows(names) and not (kind == "layer kind" and _READERS in module.place.split("/"))
            ]
            for name, names in representatives.items()
        }
        found[kind] = {"places": median(map(len, of.values())), "of": of}
    return found


def text(counts: Mapping[str, Any], *, with_files: bool) -> str:
    """The counts as lines for people."""
    size, path = counts["sizes"], counts["path"]
    lines = [
        f"logical lines   {size['logical_lines']:,} of {size['lines']:,}",
        f"files           {size['files']} ({size['init_files']} of them __init__.py)",
        f"longest module  {size['longest_module']['lines']} lines, {size['longest_module']['file']}",
        f"median module   {size['median_module']:g} lines",
        f"path of roofline {path['question']}",
        f"  files entered {path['files_entered']}",
        f"  crossings     {path['crossings']:,} of {path['calls']:,} calls",
        f"                between {path['pairs_of_files']} pairs of files",
        "places to edit",
    ]
    for kind, found in counts["places"].items():
        if kind == "load kind":
            more = (
                f"{found['branches']} branches, {found['branches_for_none']} of them for None in "
                f"{found['files_that_ask_for_none']} files; {found['files_that_know_both_loads']} files know both loads"
            )
        else:
            more = ", ".join(f"{name} {len(files)}" for name, files in found["of"].items())
        lines.append(f"  {kind:<14}{found['places']:g}  ({more})")
        if with_files:
            lines += [f"    {name}: {_listed(files)}" for name, files in found["of"].items()]
    return "\n".join([*lines, *(["files entered: " + " ".join(path["files"])] if with_files else [])]) + "\n"


def _listed(files: Sequence[str] | Mapping[str, int]) -> str:
    counted = files.items() if isinstance(files, Mapping) else ()
    return " ".join(f"{name} ({count})" for name, count in counted) or " ".join(files)


def main() -> None:
    """Count, and print for people or programs."""
    parser = argparse.ArgumentParser(description="Counts how the code is spread over files.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", action="store_true", help="print for programs, with all files")
    parser.add_argument("--files", action="store_true", help="name the files that were counted")
    options = parser.parse_args()
    root = options.root.resolve()
    modules = modules_of(root)
    counts = {"sizes": sizes(modules), "path": path_of_an_answer(root), "places": places(modules)}
    sys.stdout.write(json.dumps(counts, indent=2) + "\n" if options.json else text(counts, with_files=options.files))


if __name__ == "__main__":
    main()
