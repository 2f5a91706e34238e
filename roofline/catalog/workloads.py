"""Named workloads with their SLOs, from their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from roofline.catalog.files import ENDINGS, kind_of, own_entry, own_folder, shipped_root, spec_text, yaml_files
from roofline.catalog.shipped import shipped_document
from roofline.errors import UnknownName, did_you_mean, shown
from roofline.specs.build import without_nulls, workload_record
from roofline.specs.names import Entry, fold, nearest_names
from roofline.specs.workload import NamedWorkload

__all__ = ["load_workload", "workload_names", "workload_paths"]


def workload_names() -> tuple[str, ...]:
    """Names of the shipped workloads.

    Returns:
        Names, sorted [text].
    """
    return tuple(sorted(os.path.basename(path)[: -len(ENDINGS[0])] for path in workload_paths()))


@cache
def workload_paths() -> tuple[str, ...]:
    """Files of the shipped workloads.

    Returns:
        Their paths, sorted [path].
    """
    return tuple(yaml_files(shipped_root("workload")))


def load_workload(name: str, specs: str | None = None) -> NamedWorkload:
    """Workload of a name or alias, or of a file of one's own.

    Args:
        name: e.g. ``chat``, or the path of a YAML file [text].
        specs: folder of specifications of one's own, searched first; default $ROOFLINE_SPECS [path].

    Returns:
        The record.

    Raises:
        UnknownName: no such workload; the message names the nearest three.
        BadSpec: the file has faults.

    >>> import roofline as rl
    >>> rl.load_workload("chat")
    <NamedWorkload chat: isl 1155, osl 211; SLO ttft:300ms,tpot:25ms,p99:2x>
    """
    if not isinstance(name, str):
        raise UnknownName(f"workload = {shown(name)} must be the name of a workload, as text")
    if name.endswith(ENDINGS):
        return _own_record(os.path.expanduser(name))
    own = tuple(_own_entries(specs or os.environ.get("ROOFLINE_SPECS")))
    for entry in own:
        if fold(name) in entry.names:
            return _own_record(entry.path)
    found = _shipped(fold(name))
    if found is None:
        near = did_you_mean(dict.fromkeys(nearest_names(name, (*own, *_shipped_entries()))))
        folder = shipped_root("workload")
        raise UnknownName(
            f"unknown workload {name!r}{near} (all: roofline workloads; or give your own YAML file, as in {folder})"
        )
    return found


def _own_entries(specs: str | None) -> Iterator[Entry]:
    """Workloads in a folder of the user's own, each called as it says and like its file."""
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "workload":
            entry = own_entry(path)
            stem = fold(os.path.splitext(os.path.basename(path))[0])
            yield entry._replace(names=tuple(dict.fromkeys((*entry.names, stem))))


@cache
def _shipped(folded: str) -> NamedWorkload | None:
    """Shipped workload of a folded name; None where there is none."""
    for path in workload_paths():  # most are asked for by the name of their file
        if fold(os.path.basename(path)[: -len(ENDINGS[0])]) == folded:
            return workload_record(_content(path))
    for path in workload_paths():
        if folded in {fold(alias) for alias in _content(path).get("aliases", ())}:
            return workload_record(_content(path))
    return None


def _shipped_entries() -> Iterator[Entry]:
    for path in workload_paths():
        content = _content(path)
        yield Entry(path, tuple(fold(name) for name in (content["name"], *content.get("aliases", ()))))


def _own_record(path: str) -> NamedWorkload:
    """Record of a file of the user's own that keeps its schema."""
    from roofline.catalog.checks import checked_document

    return workload_record(without_nulls(checked_document(path, "workload")))


@cache
def _content(path: str) -> dict[str, Any]:
    return shipped_document(path)
