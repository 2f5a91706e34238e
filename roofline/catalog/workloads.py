"""Named workloads, from their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from roofline.catalog.files import ENDINGS, kind_of, own_entry, own_folder, shipped_root, spec_text, yaml_files
from roofline.catalog.shipped import shipped_by_name, shipped_document
from roofline.errors import UnknownName, did_you_mean, shown
from roofline.specs.build import without_nulls, workload_record
from roofline.specs.names import Entry, fold, nearest_names
from roofline.specs.workload import NamedWorkload


def workload_names() -> tuple[str, ...]:
    """Names of the shipped workloads."""
    return tuple(sorted(os.path.basename(path)[: -len(ENDINGS[0])] for path in workload_paths()))


@cache
def workload_paths() -> tuple[str, ...]:
    return tuple(yaml_files(shipped_root("workload")))


def load_workload(name: str, specs: str | None = None) -> NamedWorkload:
    """Workload by name or alias, or from your own file.

    Args:
        name: e.g. ``chat``, or the path of a YAML file.
        specs: folder of your own specifications, searched first; default $ROOFLINE_SPECS.

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
        return _user_record(os.path.expanduser(name))
    users = tuple(_user_entries(specs or os.environ.get("ROOFLINE_SPECS")))
    for entry in users:
        if fold(name) in entry.names:
            return _user_record(entry.path)
    workload = _shipped(fold(name))
    if workload is None:
        near = did_you_mean(dict.fromkeys(nearest_names(name, (*users, *_shipped_entries()))))
        folder = shipped_root("workload")
        raise UnknownName(
            f"unknown workload {name!r}{near} (all: roofline workloads; or give your own YAML file, as in {folder})"
        )
    return workload


def _user_entries(specs: str | None) -> Iterator[Entry]:
    """Workloads in a user's folder, under their names and that of the file."""
    for path in yaml_files(own_folder(specs)) if specs else ():
        if kind_of(spec_text(path)) == "workload":
            entry = own_entry(path)
            stem = fold(os.path.splitext(os.path.basename(path))[0])
            yield entry._replace(names=tuple(dict.fromkeys((*entry.names, stem))))


@cache
def _shipped(folded: str) -> NamedWorkload | None:
    """Shipped workload by folded name; None without one."""
    content = shipped_by_name(folded, workload_paths(), _content)
    return None if content is None else workload_record(content)


def _shipped_entries() -> Iterator[Entry]:
    for path in workload_paths():
        content = _content(path)
        yield Entry(path, tuple(fold(name) for name in (content["name"], *content.get("aliases", ()))))


def _user_record(path: str) -> NamedWorkload:
    """Record of a user's file, checked against the schema."""
    from roofline.catalog.checks import checked_document

    return workload_record(without_nulls(checked_document(path, "workload")))


@cache
def _content(path: str) -> dict[str, Any]:
    return shipped_document(path)
