"""The document of a model to the text of its specification file, in the layout of the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.specs.layers import FFNS, MIXERS
from roofline.specs.yaml_text import yaml_date, yaml_quoted, yaml_scalar

__all__ = ["spec_yaml"]

_NORMS_COMMENT = "# norm vectors of the hidden width per layer"
_MTP_COMMENT = "# draft modules, not in the totals"
_COMMENTS_AT = 30

_ALWAYS_QUOTED = ("note", "title")


def spec_yaml(document: Mapping[str, Any]) -> str:
    """Text of a specification file.

    A mixer or a feed-forward network that occurs again is written once, with an anchor.

    Args:
        document: the specification as a mapping [record].

    Returns:
        YAML that reads back as the document; name and aliases stand on the first two lines [text].

    Raises:
        BadInput: a text that no file holds.
    """
    lines: list[str] = []
    for key, value in document.items():
        if key == "groups":
            lines += ["groups:", *_group_lines(value)]
        elif key == "sources":
            lines += ["sources:", *_source_lines(value)]
        elif key == "notes":
            lines += _note_lines(value)
        elif key == "parameters":
            lines += ["parameters:", *(f"  {_entry(name, figure)}" for name, figure in value.items())]
        else:
            lines.append(_commented(key, _entry(key, value)))
    return "\n".join(lines) + "\n"


def _commented(key: str, line: str) -> str:
    comment = {"norms": _NORMS_COMMENT, "mtp": _MTP_COMMENT}.get(key)
    return f"{line:<{_COMMENTS_AT - 1}} {comment}" if comment else line


def _source_lines(sources: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for key, source in sources.items():
        yield f"  {yaml_scalar(key)}:"
        for name, value in source.items():
            yield f"    {_entry(name, value)}"


def _note_lines(notes: list[str]) -> list[str]:
    return ["notes:", *(f"  - {yaml_quoted(note)}" for note in notes)] if notes else ["notes: []"]


# --- groups ---------------------------------------------------------------------------------------


class _Parts:
    """Mixers and feed-forward networks of a document: an anchor at the first of several, an alias at the others."""

    def __init__(self, groups: list[Mapping[str, Any]]) -> None:
        self._uses: dict[str, int] = {}
        self._anchors: dict[str, str] = {}
        for layer in (layer for group in groups for layer in group.get("pattern") or [group]):
            for part in (layer["mixer"], layer["ffn"]):
                self._uses[repr(part)] = self._uses.get(repr(part), 0) + 1

    def text(self, part: Mapping[str, Any]) -> str:
        """A part as it stands in the file."""
        key = repr(part)
        if key in self._anchors:
            return f"*{self._anchors[key]}"
        if self._uses[key] < 2 or part["kind"] in ("none", "linear"):
            return _flow(part)
        name = self._anchors[key] = self._free(_anchor(part))
        return f"&{name} {_flow(part)}"

    def is_short(self, layer: Mapping[str, Any]) -> bool:
        """Whether a layer fits on one line."""
        return all(part["kind"] == "none" or repr(part) in self._anchors for part in (layer["mixer"], layer["ffn"]))

    def _free(self, name: str) -> str:
        taken = set(self._anchors.values())
        return next(each for each in (name, *(f"{name}{number}" for number in range(2, 2000))) if each not in taken)


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
    """What to call a part."""
    kind = str(part["kind"])
    if kind == "gqa":
        names = (("window", "local"), ("chunk", "chunked"), ("indexer", "sparse"))
        return next((name for field, name in names if field in part), "full")
    if kind == "csa":
        return f"csa{part.get('ratio', 0)}"
    if kind == "mla" and not part.get("indexer", {}).get("own", True):
        return "follower"
    return {"dense": "mlp"}.get(kind, kind) if kind in (*MIXERS, *FFNS) else "part"


# --- scalars --------------------------------------------------------------------------------------


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(_entry(key, item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return yaml_scalar(value)


def _entry(key: str, value: Any) -> str:
    """A field and its value."""
    if isinstance(value, str) and key in _ALWAYS_QUOTED:
        return f"{yaml_scalar(key)}: {yaml_quoted(value)}"
    if isinstance(value, str) and key == "date":
        return f"{key}: {yaml_date(value)}"
    return f"{yaml_scalar(key)}: {_flow(value)}"
