"""Every example runs and prints something."""

import subprocess
import sys
from pathlib import Path

from every_case import each

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@each("path", EXAMPLES, ids=lambda path: path.name)
def test_the_example_runs(path):
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_examples():
    assert EXAMPLES
