"""Reading a YAML file that nobody has vetted: data with the line of every field, within limits."""

from __future__ import annotations

from typing import Any

import yaml

from roofline.errors import BadSpec

__all__ = ["Lines", "read_untrusted"]

#: Line of every field, by its path of keys and positions.
Lines = dict[tuple[str | int, ...], int]

# A specification has some hundred fields; far beyond that it is a mistake or an attack
# ("billion laughs": aliases of aliases that expand to gigabytes).
_MOST_CHARACTERS = 1 << 20
_MOST_NODES = 20_000
_DEEPEST = 32


def read_untrusted(path: str) -> tuple[Any, Lines, list[str]]:
    """Content of a YAML file, the line of every field, and faults of the YAML itself.

    Args:
        path: the file [path].

    Returns:
        Data, lines, and faults such as duplicate keys as ``line: text``.

    Raises:
        BadSpec: unreadable, not YAML, too large or too deep.
    """
    text = _text(path)
    try:
        _check_depth(path, text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as fault:
        raise BadSpec(_yaml_fault(path, fault)) from None
    except RecursionError:
        raise BadSpec(f"{path}: nested too deeply") from None
    if node is None:
        raise BadSpec(f"{path}:1: the file is empty")
    lines: Lines = {}
    faults: list[str] = []
    _walk(path, node, lines, faults)
    try:
        data = yaml.SafeLoader("").construct_document(node)
    except yaml.YAMLError as fault:
        raise BadSpec(_yaml_fault(path, fault)) from None
    except (ValueError, TypeError) as fault:
        raise BadSpec(f"{path}: {fault}") from None
    return data, lines, faults


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as fault:
        raise BadSpec(f"{path}: cannot be read: {fault}") from None
    if len(text) > _MOST_CHARACTERS:
        raise BadSpec(f"{path}: {len(text)} characters are too many for a specification")
    return text


def _check_depth(path: str, text: str) -> None:
    """Refuse deep nesting before any recursive reader sees it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise BadSpec(f"{path}:{_line(event)}: nested deeper than {_DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _walk(path: str, root: yaml.Node, lines: Lines, faults: list[str]) -> None:
    """Lines of all fields with aliases expanded, up to a limit; notes duplicate keys on the way."""
    stack: list[tuple[tuple[str | int, ...], yaml.Node]] = [((), root)]
    seen = 0
    while stack:
        where, node = stack.pop()
        seen += 1
        if seen > _MOST_NODES or len(where) > _DEEPEST:
            raise BadSpec(f"{path}:{_line(node)}: aliases expand to more than {_MOST_NODES} fields")
        lines.setdefault(where, _line(node))
        if isinstance(node, yaml.SequenceNode):
            stack += [((*where, position), item) for position, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else repr(key.tag)
                line = _line(key)
                if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                    faults.append(f"{path}:{line}: key {name!r} is not a plain text")
                elif name in keys:
                    faults.append(f"{path}:{line}: {'.'.join(map(str, (*where, name)))}: duplicate key")
                keys.add(name)
                lines[(*where, name)] = line
                stack.append(((*where, name), value))


def _line(part: Any) -> int:
    """Line of a node or an event, counted from one."""
    return int(part.start_mark.line) + 1


def _yaml_fault(path: str, fault: yaml.YAMLError) -> str:
    mark = getattr(fault, "problem_mark", None)
    problem = getattr(fault, "problem", None) or str(fault)
    return f"{path}:{mark.line + 1}: {problem}" if mark is not None else f"{path}: {problem}"
