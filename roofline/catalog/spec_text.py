"""Text of a model's specification file, in the layout of the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.specs.layers import FFNS, MIXERS
from roofline.specs.yaml_text import yaml_date, yaml_quoted, yaml_scalar

_COMMENTS = {"norms": "# norm vectors of the hidden width per layer", "mtp": "# draft modules, not in the totals"}
_COMMENTS_AT = 30  # column
_ALWAYS_QUOTED = ("note", "title")


def spec_yaml(document: Mapping[str, Any]) -> str:
    """Text of a specification file; name and aliases are on the first two lines, repeated layer parts have anchors."""
    lines: list[str] = []
    for key, value in document.items():
        if key == "groups":
            lines += ["groups:", *_group_lines(value)]
        elif key == "sources":
            lines += ["sources:", *_source_lines(value)]
        elif key == "notes":
            lines += ["notes:", *(f"  - {yaml_quoted(note)}" for note in value)] if value else ["notes: []"]
        elif key == "parameters":
            lines += ["parameters:", *(f"  {_entry(name, figure)}" for name, figure in value.items())]
        else:
            line, comment = _entry(key, value), _COMMENTS.get(key)
            lines.append(f"{line:<{_COMMENTS_AT - 1}} {comment}" if comment else line)
    return "\n".join(lines) + "\n"


def _source_lines(sources: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for key, source in sources.items():
        yield f"  {yaml_scalar(key)}:"
        for name, value in source.items():
            yield f"    {_entry(name, value)}"


class _Parts:
    """Mixers and feed-forward networks of a document; equal ones share an anchor at the first."""

    def __init__(self, groups: list[Mapping[str, Any]]) -> None:
        self._uses: dict[str, int] = {}
        self._anchors: dict[str, str] = {}
        for layer in (layer for group in groups for layer in group.get("pattern") or [group]):
            for part in (layer["mixer"], layer["ffn"]):
                self._uses[repr(part)] = self._uses.get(repr(part), 0) + 1

    def text(self, part: Mapping[str, Any]) -> str:
        """A part as YAML, or the alias of an earlier equal one."""
        key = repr(part)
        if key in self._anchors:
            return f"*{self._anchors[key]}"
        if self._uses[key] < 2 or part["kind"] in ("none", "linear"):
            return _flow(part)
        name = self._anchors[key] = self._free(_anchor(part))
        return f"&{name} {_flow(part)}"

    def is_short(self, layer: Mapping[str, Any]) -> bool:
        """Whether a layer fits on one line because its parts are aliases."""
        return all(part["kind"] == "none" or repr(part) in self._anchors for part in (layer["mixer"], layer["ffn"]))

    def _free(self, name: str) -> str:
        taken = set(self._anchors.values())
        candidates = (name, *(f"{name}{number}" for number in range(2, 2000)))
        return next(candidate for candidate in candidates if candidate not in taken)


def _group_lines(groups: list[Mapping[str, Any]]) -> Iterator[str]:
    parts = _Parts(groups)
    for group in groups:
        yield f"  - repeat: {yaml_scalar(group['repeat'])}"
        if "pattern" not in group:
            yield f"    mixer: {parts.text(group['mixer'])}"
            yield f"    ffn: {parts.text(group['ffn'])}"
            continue
        yield "    pattern:"
        for layer in group["pattern"]:
            if parts.is_short(layer):
                yield f"      - {{mixer: {parts.text(layer['mixer'])}, ffn: {parts.text(layer['ffn'])}}}"
            else:
                yield f"      - mixer: {parts.text(layer['mixer'])}"
                yield f"        ffn: {parts.text(layer['ffn'])}"


def _anchor(part: Mapping[str, Any]) -> str:
    """Name of the anchor of a part."""
    kind = str(part["kind"])
    if kind == "gqa":
        names = (("window", "local"), ("chunk", "chunked"), ("indexer", "sparse"))
        return next((name for field, name in names if field in part), "full")
    if kind == "csa":
        return f"csa{part.get('ratio', 0)}"
    if kind == "mla" and not part.get("indexer", {}).get("own", True):
        return "follower"
    return {"dense": "mlp"}.get(kind, kind) if kind in (*MIXERS, *FFNS) else "part"


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(_entry(key, item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return yaml_scalar(value)


def _entry(key: str, value: Any) -> str:
    if isinstance(value, str) and key in _ALWAYS_QUOTED:
        return f"{yaml_scalar(key)}: {yaml_quoted(value)}"
    if isinstance(value, str) and key == "date":
        return f"{key}: {yaml_date(value)}"
    return f"{yaml_scalar(key)}: {_flow(value)}"
