"""Content of the shipped files, parsed when the wheel was built or read from the YAML.

Only wheels have a `compiled.jsonl` beside this module: the first line is an index, every other line the content of one
file. Checksums tell whether a file has changed since; changed and added files, and those of a checkout, are read as
YAML.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import Any
from zlib import crc32

from roofline.catalog.files import shipped_root, spec_text
from roofline.specs.names import fold

#: The parsed catalog of a wheel.
COMPILED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiled.jsonl")


def compiled(paths: Iterable[str]) -> bytes:
    """The parsed catalog of a wheel: ASCII lines of JSON, an index by name and then contents."""
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
    """Content of a shipped specification; dates stay text."""
    content = _parsed(path)
    if content is not None:
        return content
    from roofline.catalog.shipped_yaml import content_of_text

    return content_of_text(spec_text(path))


def shipped_figures(path: str) -> dict[str, Any]:
    """Content of a shipped specification without its sources, half of the file; only the date of a price is kept."""
    content = _parsed(path)
    if content is None:
        from roofline.catalog.shipped_yaml import figures_of_text

        return figures_of_text(spec_text(path))
    figures = dict(takewhile(lambda field: field[0] != "sources", content.items()))
    if figures.get("price") is not None:
        source = figures["price"]["source"]
        entry = content.get("sources", {}).get(source, {})
        figures["sources"] = {source: {"date": entry["date"]}} if "date" in entry else {}
    return figures


def _parsed(path: str) -> dict[str, Any] | None:
    """Content of a file from the parsed catalog; None where the file is not in it or has changed."""
    index, lines = _catalog()
    checksum, start, end = index.get(_name(path), (None, 0, 0))
    if checksum is None or checksum != _checksum(path):
        return None
    from json import loads

    content: dict[str, Any] = loads(lines[start:end])
    return content


def shipped_by_name(
    name: str, paths: Sequence[str], content_of: Callable[[str], dict[str, Any]]
) -> dict[str, Any] | None:
    """Content of the shipped file with a folded name or alias; None without one. Most names are those of the file."""
    for path in paths:
        if fold(os.path.splitext(os.path.basename(path))[0]) == name:
            return content_of(path)
    contents = map(content_of, paths)
    return next((content for content in contents if name in map(fold, content.get("aliases", ()))), None)


@cache
def _catalog() -> tuple[dict[str, tuple[int, int, int]], bytes]:
    """Index of the parsed catalog (name -> checksum, start and end of its line), and the lines."""
    try:
        with open(COMPILED, "rb", buffering=0) as file:
            index, _, lines = file.read().partition(b"\n")
    except FileNotFoundError:
        return {}, b""
    from json import loads

    return loads(index), lines


def _name(path: str) -> str:
    """Path of a file relative to the folder of all catalogs."""
    return path[_home_length() :].replace(os.sep, "/")


@cache
def _home_length() -> int:
    return len(os.path.dirname(shipped_root("gpu"))) + 1


def _checksum(path: str) -> int | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return crc32(file.read())
    except OSError:  # reading the file reports it
        return None
