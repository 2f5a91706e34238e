"""The two readers of YAML: users' files with the line of every field, and shipped files quickly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from roofline.support.errors import BadSpec, printable
from roofline.support.reading import SPEC_BYTES, Unreadable, content

# Untrusted YAML files: their data with the line of every field, within limits.

#: Path of keys and positions of a field -> its line, from one.
Lines = dict[tuple[str | int, ...], int]

# A specification has about 100 fields; a file with far more is a mistake or an attack ("billion laughs": aliases of
# aliases that expand to gigabytes).
_MOST_CHARACTERS = 2 * SPEC_BYTES  # in all texts, aliases expanded
_MOST_NODES = 20_000
_MOST_EVENTS = 3 * _MOST_NODES
_DEEPEST = 32
_LONGEST_KEY, _LONGEST_NUMBER, _LONGEST_FAULT = 200, 400, 2000  # [characters]
_SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_FAULTS_OF_A_SCALAR = (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)


def read_untrusted(path: str) -> tuple[Any, Lines, list[str]]:
    """Data, the line of every field, and faults such as duplicate keys, as ``file:line: field: fault``."""
    text = _text(path)
    try:
        _check_depth(path, text)
        node = yaml.compose(text, Loader=_SAFE_LOADER)
    except yaml.YAMLError as fault:
        raise _yaml_fault(path, text, fault) from None
    if node is None:
        raise BadSpec(fault_text(path, 1, "the file is empty"))
    lines: Lines = {}
    faults: list[str] = []
    scalars = list(_walk(path, node, lines, faults))
    return _constructed(path, node, scalars), lines, faults


def fault_text(path: str, line: int, text: str) -> str:
    """``file:line: text`` as one line that is safe to print."""
    short = text if len(text) <= _LONGEST_FAULT else f"{text[:_LONGEST_FAULT]}..."
    return printable(f"{path}:{line}: {' '.join(short.split())}")


def _fault(path: str, part: Any, text: str) -> BadSpec:
    """The error for a node or an event."""
    return BadSpec(fault_text(path, _line(part), text))


def _text(path: str) -> str:
    try:
        data = content(path, SPEC_BYTES, "specification")
        text = data.decode("utf-8")
    except Unreadable as fault:
        raise BadSpec(fault_text(path, 1, str(fault))) from None
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise BadSpec(fault_text(path, line, f"not UTF-8 text: {fault.reason}")) from None
    directive = f"\n{text}".find("\n%")
    if directive >= 0:  # libyaml compares each with all others, in quadratic time
        raise BadSpec(fault_text(path, text.count("\n", 0, directive) + 1, "YAML directives (%) are not supported"))
    return text


def _check_depth(path: str, text: str) -> None:
    """Refuse deep nesting before the recursive parser runs."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_SAFE_LOADER)):
        if number > _MOST_EVENTS:
            raise _fault(path, event, f"more than {_MOST_NODES} fields")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _fault(path, event, f"nested deeper than {_DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _walk(path: str, root: yaml.Node, lines: Lines, faults: list[str]) -> Iterator[yaml.Node]:
    """Yield the scalars; add the line of every field to `lines`, and faulty or duplicate keys to `faults`."""
    stack: list[tuple[tuple[str | int, ...], yaml.Node]] = [((), root)]
    seen = characters = 0
    while stack:
        where, node = stack.pop()
        seen += 1
        if seen > _MOST_NODES or len(where) > _DEEPEST:
            raise _fault(path, node, f"more than {_MOST_NODES} fields after expanding aliases")
        lines.setdefault(where, _line(node))
        if isinstance(node, yaml.ScalarNode):
            characters += len(node.value)
            if characters > _MOST_CHARACTERS:
                raise _fault(path, node, f"more than {_MOST_CHARACTERS} characters after expanding aliases")
            _check_characters(path, node)
            _check_number(path, node)
            yield node
        elif isinstance(node, yaml.SequenceNode):
            stack += [((*where, position), item) for position, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else "a collection"
                if len(name) > _LONGEST_KEY:
                    raise _fault(path, key, f"key too long: {len(name)} characters, at most {_LONGEST_KEY}")
                if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                    faults.append(fault_text(path, _line(key), f"key {name!r} must be plain text"))
                elif name in keys:
                    field = ".".join(map(str, (*where, name)))
                    faults.append(fault_text(path, _line(key), f"{field}: duplicate key"))
                keys.add(name)
                lines[(*where, name)] = _line(key)
                stack += [((*where, name), value), ((*where, name), key)]


def _check_characters(path: str, node: yaml.ScalarNode) -> None:
    """Refuse lone surrogates, which cannot be encoded."""
    try:
        node.value.encode("utf-8")
    except UnicodeEncodeError:
        raise _fault(path, node, f"{node.value!a} is not valid Unicode") from None


def _check_number(path: str, node: yaml.ScalarNode) -> None:
    """Refuse base-60 numbers, which take quadratic time to read, and numbers of too many digits."""
    if node.tag not in _NUMBERS:
        return
    if ":" in node.value:
        raise _fault(path, node, f"{node.value[:60]!r} is a base-60 number in YAML; quote it if it is text")
    if len(node.value) > _LONGEST_NUMBER:
        raise _fault(path, node, f"number too long: {len(node.value)} characters, at most {_LONGEST_NUMBER}")


def _constructed(path: str, root: yaml.Node, scalars: list[yaml.Node]) -> Any:
    """Data of a document, or a fault on the line of the scalar that cannot be read."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(root)
    except _FAULTS_OF_A_SCALAR as fault:
        for scalar in scalars:
            try:
                loader.construct_object(scalar)
            except _FAULTS_OF_A_SCALAR:
                kind = scalar.tag.rpartition(":")[2]
                raise _fault(path, scalar, f"{scalar.value[:60]!r} cannot be read as {kind}") from None
        mark = getattr(fault, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        raise BadSpec(fault_text(path, line, getattr(fault, "problem", None) or str(fault))) from None


def _line(part: Any) -> int:
    """Line of a node or an event, counted from one."""
    return int(part.start_mark.line) + 1


def _yaml_fault(path: str, text: str, fault: yaml.YAMLError) -> BadSpec:
    mark = getattr(fault, "problem_mark", None)
    position = getattr(fault, "position", None)
    line = 1
    if mark is not None:
        line = mark.line + 1
    elif isinstance(position, int):  # a character that YAML does not allow
        line = _line_of(text, position)
    problem = getattr(fault, "problem", None) or getattr(fault, "reason", None) or str(fault)
    return BadSpec(fault_text(path, line, str(problem)))


def _line_of(text: str, position: int) -> int:
    """Line of a forbidden character; the position that PyYAML reports may count bytes or characters."""
    for number, line in enumerate(text.splitlines(), 1):
        if any((ord(character) < ord(" ") and character != "\t") or character == "\x7f" for character in line):
            return number
    return text.count("\n", 0, position) + 1


# Fast reader of the YAML subset of the shipped files: texts, whole numbers, decimals, true, false and null.
#
# PyYAML's safe loader spends half of its time on resolving and constructing scalars. The tests compare both on every
# shipped file; `read_untrusted` reads users' files.

_TEXT_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)").fullmatch
_DECIMAL = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?").fullmatch
_DATED = r"^  {}:\n(?:    .*\n)*?    date: (\S+)"  # of a source


def content_of_text(text: str) -> dict[str, Any]:
    """Content of a shipped specification; dates stay text.

    >>> content_of_text("name: a\\ndomain: {value: 8, source: sheet}")
    {'name': 'a', 'domain': {'value': 8, 'source': 'sheet'}}
    """
    loader = _TEXT_LOADER(text)
    try:
        loader.get_event()  # of the stream
        loader.get_event()  # of the document
        content: dict[str, Any] = _value(loader.get_event(), loader.get_event, {})
    finally:
        loader.dispose()
    return content


def figures_of_text(text: str) -> dict[str, Any]:
    """Content of a shipped specification without its sources, half of the file; only the date of a price is kept."""
    figures, _, sources = text.partition("\nsources:\n")
    content = content_of_text(figures)
    price = content.get("price")
    if price is not None:
        dated = re.search(_DATED.format(re.escape(price["source"])), sources, re.MULTILINE)
        content["sources"] = {} if dated is None else {price["source"]: {"date": dated[1]}}
    return content


def _value(event: Any, following: Callable[[], Any], anchors: dict[str, Any]) -> Any:
    """Value that begins with an event; `following` returns the next one."""
    kind = type(event)
    if kind is yaml.ScalarEvent:
        return event.value if event.style else _plain(event.value)
    if kind is yaml.AliasEvent:
        return anchors[event.anchor]
    value: Any = {} if kind is yaml.MappingStartEvent else []
    if event.anchor is not None:
        anchors[event.anchor] = value
    if kind is yaml.MappingStartEvent:
        while type(key := following()) is yaml.ScalarEvent:
            value[key.value] = _value(following(), following, anchors)
    else:
        while type(item := following()) is not yaml.SequenceEndEvent:
            value.append(_value(item, following, anchors))
    return value


def _plain(text: str) -> Any:
    """Value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-0123456789":
        if _WHOLE(text):
            return int(text)
        if _DECIMAL(text):
            return float(text)
    return text
