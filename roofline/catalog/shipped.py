"""Content of the shipped files: as the wheel carries it, parsed when it was built, or from the YAML itself.

`compiled.jsonl` lies beside this module in a wheel, and nowhere else: its first line is an index, every other line the
content of one file. A line answers only for the bytes that it was made of, so that a file that was edited, replaced or
added is read as YAML, and so are all of a checkout.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from itertools import takewhile
from typing import Any
from zlib import crc32

from roofline.catalog.files import shipped_root, spec_text

__all__ = ["COMPILED", "compiled", "shipped_document", "shipped_figures"]

#: Where a wheel has its parsed catalog.
COMPILED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiled.jsonl")


def compiled(paths: Iterable[str]) -> bytes:
    """The parsed catalog that a wheel carries.

    Args:
        paths: shipped files [path].

    Returns:
        Lines of JSON, each an ASCII text: the index by name, then contents.
    """
    import json

    from roofline.catalog.shipped_yaml import content_of_text

    index, lines, start = {}, [b""], 0
    for path in paths:
        line = json.dumps(content_of_text(spec_text(path)), separators=(",", ":")).encode()
        index[_name(path)] = _checksum(path), start, start + len(line)
        lines.append(line)
        start += len(line) + 1
    lines[0] = json.dumps(index, separators=(",", ":")).encode()
    return b"\n".join(lines)


def shipped_document(path: str) -> dict[str, Any]:
    """Content of a shipped specification; a date stays the text it is written as.

    Args:
        path: the file [path].

    Returns:
        The mapping.

    Raises:
        BadSpec: the file cannot be read.
    """
    content = _parsed(path)
    if content is not None:
        return content
    from roofline.catalog.shipped_yaml import content_of_text

    return content_of_text(spec_text(path))


def shipped_figures(path: str) -> dict[str, Any]:
    """Content of a shipped specification without its sources, half of it, of which a record needs one date at most.

    Args:
        path: the file [path].

    Returns:
        The mapping; of the sources that of the price, with its date.

    Raises:
        BadSpec: the file cannot be read.
    """
    content = _parsed(path)
    if content is None:
        from roofline.catalog.shipped_yaml import figures_of_text

        return figures_of_text(spec_text(path))
    figures = dict(takewhile(lambda field: field[0] != "sources", content.items()))
    if figures.get("price") is not None:
        source = figures["price"]["source"]
        stated = content.get("sources", {}).get(source, {})
        figures["sources"] = {source: {"date": stated["date"]}} if "date" in stated else {}
    return figures


def _parsed(path: str) -> dict[str, Any] | None:
    """What the wheel knows of a file as it is now; None where it knows another, or nothing."""
    index, lines = _catalog()
    checksum, start, end = index.get(_name(path), (None, 0, 0))
    if checksum is None or checksum != _checksum(path):
        return None
    from json import loads

    content: dict[str, Any] = loads(lines[start:end])
    return content


@cache
def _catalog() -> tuple[dict[str, tuple[int, int, int]], bytes]:
    """Index of the parsed catalog, name -> checksum and place of its line, and the lines."""
    try:
        with open(COMPILED, "rb", buffering=0) as file:
            index, _, lines = file.read().partition(b"\n")
    except FileNotFoundError:
        return {}, b""
    from json import loads

    return loads(index), lines


def _name(path: str) -> str:
    """Name of a file from the folder of all catalogs on."""
    return path[_home_length() :].replace(os.sep, "/")


@cache
def _home_length() -> int:
    return len(os.path.dirname(shipped_root("gpu"))) + 1


def _checksum(path: str) -> int | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return crc32(file.read())
    except OSError:  # the reader of the file says why
        return None
