"""Mutation testing: would the suite notice a wrong formula? Draws small faults and counts those that a test sees.

    pip install -e ".[dev]" cosmic-ray coverage
    python tests/mutants.py                          # 200 mutants of roofline/physics and roofline/serving
    python tests/mutants.py --mutants 50 --seed 7 --minutes 10

Cosmic Ray makes the mutants. The tests of `FAST` are collected once; each mutant lives in a process forked from there,
which runs the tests that reach the mutated statement, the quickest first, until one fails. A mutant of a line that
runs at import has a process of its own. Mutants that no test can kill are listed, with the reason, in
`tests/equivalent_mutants.txt`.
"""

import argparse
import ast
import functools
import gc
import importlib.machinery
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import CodeType, FunctionType

import pytest

HOME = Path(__file__).resolve().parents[1]
MUTATED = ("roofline/physics", "roofline/serving")
#: The fast part of the suite that judges: what mirrors the mutated rooms, and the questions that rest on them alone.
FAST = (
    "tests/physics",
    "tests/serving",
    "roofline/physics",
    "roofline/serving",
    "tests/api/test_answers_in_words.py",  # the text of an answer is written in serving/
)
#: Left out where the fast part starts anew for a mutant: simulations take half of its time.
SLOW = ("tests/serving/test_simulation.py",)
_MOST_APART = 600  # CPU seconds of the fast part where it starts anew, several times what it takes
EQUIVALENT = HOME / "tests/equivalent_mutants.txt"
#: Operators whose mutants are wrong answers rather than errors of type, and no wider than the faults that people make.
_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_ORDER = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
OPERATORS = (
    *(f"ReplaceBinaryOperator_{old}_{new}" for old in _ARITHMETIC for new in _ARITHMETIC if old != new),
    *(f"ReplaceComparisonOperator_{old}_{new}" for old in _ORDER for new in _ORDER if old != new),
    "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is", "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not", "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr",
    "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer",
    "ZeroIterationForLoop",
)  # fmt: skip


def all_mutants():
    """Every mutant as (file, operator, occurrence, line), in a fixed order."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    for folder in MUTATED:
        for path in sorted((HOME / folder).rglob("*.py")):
            tree = get_ast(path.read_text())
            for name in OPERATORS:
                operator, occurrence = get_operator(f"core/{name}")(), 0
                for node in ast_nodes(tree):
                    for start, _ in operator.mutation_positions(node):
                        yield str(path.relative_to(HOME)), name, occurrence, start[0]
                        occurrence += 1


def mutated(mutant):
    """Source of the mutant's file, and of its line before and after."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    path, name, occurrence, _ = mutant
    before = (HOME / path).read_text()
    after = mutate_code(before, get_operator(f"core/{name}")(), occurrence)
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)  # a mutant may join two lines
    return after, next(pair for pair in pairs if pair[0] != pair[1])


def statement(path, line):
    """Lines of the smallest statement around a line, and whether it belongs to a function."""
    nodes = [node for node in ast.walk(ast.parse((HOME / path).read_text())) if isinstance(node, ast.stmt)]
    begins = {
        node: min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))]) for node in nodes
    }
    around = [node for node in nodes if begins[node] <= line <= node.end_lineno]
    least = min(around, key=lambda node: node.end_lineno - begins[node])
    functions = [node for node in around if isinstance(node, ast.FunctionDef) and node is not least]
    inside = any(node.body[0].lineno <= line for node in functions)
    return range(begins[least], least.end_lineno + 1), inside


def patch_functions(path, source):
    """Give every living function of a file the mutant's code, forget what was remembered; how many got it."""
    full, codes = str(HOME / path), {}

    def collect(code):
        for part in code.co_consts:
            if isinstance(part, CodeType):
                codes[part.co_qualname, part.co_firstlineno] = part
                collect(part)

    collect(compile(source, full, "exec", dont_inherit=True))
    gc.unfreeze()  # what the tests freeze after their collection is not listed otherwise
    patched = 0
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and thing.__code__.co_filename == full:
            code = thing.__code__
            thing.__code__ = codes.get((code.co_qualname, code.co_firstlineno), code)
            patched += thing.__code__ is not code
        elif isinstance(thing, functools._lru_cache_wrapper) and str(thing.__module__).startswith(
            ("roofline.physics", "roofline.serving")
        ):
            thing.cache_clear()
    return patched


class Judge:
    """The plugin that holds what is collected, and judges mutants in forked processes."""

    def __init__(self, options):
        self.options, self.failed, self.items = options, [], []
        self.ran, self.seconds = {}, {}  # tests by file and line; CPU time by test

    def pytest_runtest_logreport(self, report):
        """Remember failures."""
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session):
        """In the place of running what is collected once."""
        self.items = session.items
        for path in (path for folder in MUTATED for path in (HOME / folder).rglob("*.py")):
            importlib.import_module(".".join(path.relative_to(HOME).with_suffix("").parts).removesuffix(".__init__"))
        self.null_mutant()
        judge_all(self, self.options)
        return True

    def run(self, item):
        """Run one test; whether it passes."""
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.failed

    def null_mutant(self):
        """Run everything unchanged under coverage: all must pass, and what each test reaches is remembered."""
        kept = Path(self.options.reach) if self.options.reach else None
        known = json.loads(kept.read_text()) if kept and kept.exists() else {}
        fresh = {item.nodeid: item for item in self.items if item.nodeid not in known}
        known |= self.reached(fresh)
        if kept:
            kept.write_text(json.dumps(known))
        broken = [item.nodeid for item in self.items if not known.get(item.nodeid, {"passes": False})["passes"]]
        if broken:
            raise SystemExit(f"the null mutant dies: {broken[:5]}")
        for number, item in enumerate(self.items):
            self.seconds[number] = known[item.nodeid]["seconds"]
            for path, lines in known[item.nodeid]["lines"].items():
                for line in lines:
                    self.ran.setdefault((path, line), set()).add(number)
        total = sum(known[name]["seconds"] for name in fresh)
        say(f"null mutant: {len(fresh)} of {len(self.items)} tests pass in {total:.0f} CPU seconds, with coverage")

    def reached(self, items):
        """Whether tests pass, how long they take and which lines they run, by their names, from a process forked."""
        import coverage

        reader, writer = os.pipe()
        if not os.fork():
            os.close(reader)
            measured = coverage.Coverage(data_file=None, source=[str(HOME / each) for each in MUTATED])
            measured.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported"])
            measured.start()
            found = {}
            for name, item in items.items():
                began = time.process_time()
                measured.switch_context(name)
                passes = self.run(item)
                found[name] = {"passes": passes, "seconds": time.process_time() - began, "lines": {}}
                self.failed.clear()
            measured.stop()
            data = measured.get_data()
            for path in data.measured_files():
                for line, names in data.contexts_by_lineno(path).items():
                    for name in filter(None, names):
                        found[name]["lines"].setdefault(str(Path(path).relative_to(HOME)), []).append(line)
            with os.fdopen(writer, "w") as pipe:
                json.dump(found, pipe)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            found = json.load(pipe)
        os.wait()
        return found

    def verdict(self, mutant):
        """`killed`, `survived` or `not run`, and by which test."""
        source, _ = mutated(mutant)
        lines, is_inside = statement(mutant[0], mutant[3])
        if not is_inside:
            return judged_apart(mutant[0], source)
        reached = set().union(*(self.ran.get((mutant[0], line), ()) for line in lines))
        if not reached:
            return "not run", ""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            limit_cpu(4 * self.options.limit)
            if not patch_functions(mutant[0], source):
                os._exit(3)
            began = time.process_time()
            for number in sorted(reached, key=self.seconds.__getitem__):
                if not self.run(self.items[number]):
                    os.write(writer, self.failed[0].encode())
                    os._exit(1)
                if time.process_time() - began > self.options.limit:
                    os._exit(2)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            test = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 3:
            raise SystemExit(f"no living function of {mutant[0]} takes the mutant's code")
        if code == 2:
            return "survived", f"within {self.options.limit} CPU seconds"
        return ("survived", "") if code == 0 else ("killed", test or "it does not end")


def judged_apart(path, source):
    """A mutant of what runs at import: the fast part in a process of its own, from the start."""
    command = [sys.executable, __file__, "--apart", path]
    done = subprocess.run(command, input=source, text=True, capture_output=True, cwd=HOME, check=False)
    failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ("survived", "") if done.returncode == 0 else ("killed", failures[0] if failures else "at import")


def limit_cpu(seconds):
    """End this process after so many further seconds of its own, however slow the machine is."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    most = int(usage.ru_utime + usage.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def run_apart(path):
    """Run the fast part where a file has the source that comes in."""
    limit_cpu(_MOST_APART)
    full, source, read = str(HOME / path), sys.stdin.read(), importlib.machinery.SourceFileLoader.get_code

    def get_code(loader, name):
        is_mutant = os.path.realpath(loader.path) == full
        return compile(source, full, "exec", dont_inherit=True) if is_mutant else read(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code
    return pytest.main(["-x", *(f"--ignore={HOME / each}" for each in SLOW), *arguments()])


def arguments():
    """Options of pytest in the place of the project's own, which spread tests over cores and report each of them."""
    options = [
        "-o",
        "addopts=--doctest-modules",
        "-m",
        "not exhaustive",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        f"--rootdir={HOME}",
    ]
    return [*options, *(str(HOME / each) for each in FAST)]


def equivalents():
    """Mutants that no test can kill: (file, line before, line after), stripped."""
    entries = [line for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#")]
    return {tuple(part.strip() for part in line.split(" | ")[:3]) for line in entries}


def judge_all(judge, options):
    """Draw, judge and count."""
    mutants = random.Random(options.seed).sample(sorted(all_mutants()), options.mutants)
    known, began, count = equivalents(), time.monotonic(), dict.fromkeys(("killed", "survived", "not run"), 0)
    equivalent = 0
    for number, mutant in enumerate(mutants):
        if time.monotonic() - began > 60 * options.minutes:
            say(f"stopped by the clock after {number} of {options.mutants} mutants")
            break
        path, name, _, line = mutant
        _, (before, after) = mutated(mutant)
        if (path, before.strip(), after.strip()) in known:
            equivalent += 1
            continue
        outcome, by = judge.verdict(mutant)
        count[outcome] += 1
        if outcome != "killed" or options.verbose:
            say(f"{outcome}: {path}:{line} {name} {by}\n    - {before.strip()}\n    + {after.strip()}")
    judged = sum(count.values())
    say(
        f"seed {options.seed}: {judged + equivalent} mutants, {equivalent} equivalent; of the other {judged} "
        f"{count['killed']} killed ({count['killed'] / max(judged, 1):.1%}), {count['survived']} survived, "
        f"{count['not run']} reached by no test; {(time.monotonic() - began) / 60:.0f} minutes"
    )


def say(text):
    print(text, file=sys.__stderr__, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so many")
    parser.add_argument("--limit", type=int, default=30, help="CPU seconds of tests for one mutant")
    parser.add_argument("--reach", help="a file that keeps which test reaches which line, for another run")
    parser.add_argument("--verbose", action="store_true", help="print the killed ones and by which test, too")
    parser.add_argument("--apart", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.chdir(HOME)
    sys.path.insert(0, str(HOME))
    if options.apart:
        return run_apart(options.apart)
    return pytest.main([*arguments(), "-p", "no:terminal"], plugins=[Judge(options)])


if __name__ == "__main__":
    raise SystemExit(main())
