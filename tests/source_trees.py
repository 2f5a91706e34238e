"""Syntax trees of the package's modules, which several tests read: each parsed once."""

import ast
from functools import cache


@cache
def tree(path):
    """Syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))
