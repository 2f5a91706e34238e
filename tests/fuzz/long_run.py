"""Fuzz for as long as you like: the properties of this folder, on inputs drawn anew from a seed.

    python tests/fuzz/long_run.py --seed 1 --inputs 1e6 --minutes 60
    python tests/fuzz/long_run.py --only texts,results --minutes 5

Kinds take turns, a batch each, until there are as many inputs or CPU minutes as asked for. Printed are the inputs of
each kind and what took longest; each failure is shrunk to the smallest input that fails, and its kind is then let be.
Exit code: 0 where nothing failed; an interrupt ends the run early. The same seed and version draw the same inputs.
"""

import argparse
import inspect
import os
import sys
import time
import traceback
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parents[1])]

import conftest  # noqa: E402, F401  as pytest would: the profile of hypothesis, and where accuracy/ is
from hypothesis import HealthCheck, Phase, seed, settings  # noqa: E402

_BATCH = {"workbooks": 10, "texts": 2000}  # inputs of a turn: what costs about as much as those of the others
_KINDS = sorted(path.stem.removeprefix("test_fuzz_") for path in FOLDER.glob("test_fuzz_*.py"))


class Kind:
    """A kind of input with the test of its property, and what became of the inputs."""

    def __init__(self, name):
        module = import_module(f"fuzz.test_fuzz_{name}")
        (self.test,) = (each for each in vars(module).values() if hasattr(each, "hypothesis"))
        self.name, self.inputs, self.failure, self.slowest, self.cpu = name, 0, None, (0.0, ""), 0.0
        self._property = self.test.hypothesis.inner_test
        counted = lambda *drawn, **named: self._counted(*drawn, **named)  # noqa: E731, PLW0108  hypothesis reads its signature
        counted.__name__ = self._property.__name__
        counted.__signature__ = inspect.signature(self._property)
        self.test.hypothesis.inner_test = counted

    def _counted(self, *drawn, **named):
        self.inputs += 1
        start = time.process_time()
        try:
            self._property(*drawn, **named)
        finally:
            self.slowest = max(self.slowest, (time.process_time() - start, repr(drawn or named)[:300]))

    def turn(self, number):
        """Draw a batch; a failure is kept with the smallest input that shows it."""
        start = time.process_time()
        self.test._hypothesis_internal_use_settings = settings(
            max_examples=_BATCH.get(self.name, 300),
            database=None,
            deadline=None,
            derandomize=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        )
        try:
            seed(number)(self.test)()
        except Exception:  # noqa: BLE001  whatever the package lets through is what is looked for
            self.failure = traceback.format_exc()
        self.cpu += time.process_time() - start


def main():
    """Exit code: 0 where no input failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=float, default=1e6)
    parser.add_argument("--minutes", type=float, default=60.0, help="of CPU time")
    parser.add_argument("--only", default=",".join(_KINDS), help="kinds, joined by commas: %(default)s")
    asked = parser.parse_args()
    os.environ.pop("ROOFLINE_SPECS", None)
    warnings.simplefilter("error")
    kinds = [Kind(name) for name in asked.only.split(",")]
    with suppress(KeyboardInterrupt):
        draw(kinds, asked)
    return report(kinds, asked)


def draw(kinds, asked):
    """Let the kinds take turns until it is enough."""
    number = asked.seed
    while time.process_time() < 60.0 * asked.minutes and sum(kind.inputs for kind in kinds) < asked.inputs:
        number += 1_000_003  # another seed each turn, none of which another --seed near it draws
        left = [kind for kind in kinds if kind.failure is None]
        if not left:
            break
        for kind in left:
            kind.turn(number)


def report(kinds, asked):
    """Print what became of the inputs; exit code: 0 where none failed."""
    for kind in kinds:
        state = "ok" if kind.failure is None else "FAILED"
        longest, drawn = kind.slowest
        print(f"{kind.name:15} {kind.inputs:9,d} inputs {kind.cpu:6.0f} s  {state}; slowest {longest:.2f} s: {drawn}")
    failures = {kind.name: kind.failure for kind in kinds if kind.failure is not None}
    for name, failure in failures.items():
        print(f"\n== {name}\n{failure}")
    inputs, cpu = sum(kind.inputs for kind in kinds), time.process_time()
    print(f"{inputs:,d} inputs, seed {asked.seed}, {cpu:.0f} CPU s: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
