"""Reading files and pipes that a user names: up to a size limit, without waiting on a FIFO, and where it is allowed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from roofline.support.records import NamedTuple

#: Size limits of a specification, of a configuration, and of a result or kernel table [B].
SPEC_BYTES, CONFIG_BYTES, RESULT_BYTES = 1 << 20, 1 << 24, 1 << 26

#: Size limit of the header of a weights file [B]; safetensors allows more, but no file needs it.
HEADER_BYTES = 1 << 26

_MEBI = 20  # bits
_PIECE = 1 << 20
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_FOLDERS_OF_STREAMS = ("/dev/fd/", "/proc/self/fd/")
_MOST_LINKS = 40
_OPENED = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
# What a JSON reader spends its time on: lists and mappings, fields (1 us each), values (0.3 us each).
_MOST_CONTAINERS, _MOST_FIELDS, _MOST_VALUES, _DEEPEST = 1 << 19, 3 << 18, 1 << 22, 64


class Unreadable(Exception):
    """Why a file cannot be read; the message leaves out its name."""


# Where files may be read: anywhere, or below some folders alone.


class _Bounds(NamedTuple):
    """What may be read while somebody else chooses the paths: real paths of folders."""

    folders: tuple[str, ...]  # that whoever started the process allows
    own: tuple[str, ...]  # of the package itself
    how: str  # a further one is allowed


_bounds: list[_Bounds] = []  # of the whole process, the last holds: an answer may be worked out in another thread


@contextmanager
def only_below(folders: Iterable[str], own: Iterable[str], how: str) -> Iterator[None]:
    """Read nothing but what lies below some folders, links followed, and nothing of a network.

    Args:
        folders: that whoever started the process allows.
        own: folders of the package itself, which no message names.
        how: how a further folder is allowed, for the messages.
    """
    _bounds.append(_Bounds(tuple(map(os.path.realpath, folders)), tuple(map(os.path.realpath, own)), how))
    try:
        yield
    finally:
        _bounds.pop()


def is_bounded() -> bool:
    """Whether only some folders may be read."""
    return bool(_bounds)


def allowed(path: str) -> bool:
    """Whether a path may be looked at, whether there is something or not.

    >>> with only_below(["/srv/results"], [], "--folder"):
    ...     allowed("/srv/results/run.json"), allowed("/srv/results/../keys"), allowed("/dev/stdin")
    (True, False, False)
    """
    if not _bounds:
        return True
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):  # a zero byte, or links without an end
        return False
    return any(_is_below(real, folder) for folder in (*_bounds[-1].folders, *_bounds[-1].own))


def check_allowed(path: str) -> None:
    """Refuse a path outside the folders that may be read, before anything is asked about it."""
    if allowed(path):
        return
    listed = ", ".join(_bounds[-1].folders) or "none"
    raise Unreadable(f"not read: it is outside the folders that are allowed ({listed}); {_bounds[-1].how}")


def exists(path: str) -> bool:
    """Whether there is something at a path that may be read; false for invalid paths."""
    return allowed(path) and os.path.exists(path)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# Contents.


def content(path: str, most: int, kind: str) -> bytes:
    """Bytes of a regular file, or of a pipe that the shell or the caller opened (``/dev/stdin``, ``/dev/fd/63``).

    `most` is the size limit [B]; `kind` says in the message what the file should be.
    """
    check_allowed(path)
    try:
        stream = descriptor_of(path)
        if stream is None:
            _refuse_other_kinds(os.stat(path))  # before opening it, which would wake the other end of a FIFO
        opened = os.open(path, _OPENED) if stream is None else os.dup(stream)
        try:
            if stream is None:
                _refuse_other_kinds(os.fstat(opened))  # it may have changed since
            return bounded(_read(opened, most + 1), most, kind)
        finally:
            os.close(opened)
    except (OSError, ValueError, OverflowError) as fault:  # ValueError: a zero byte in the name
        raise Unreadable(f"cannot be read: {getattr(fault, 'strerror', None) or fault}") from None


def excerpt(path: str, start: int, length: int, kind: str) -> tuple[bytes, int]:
    """Bytes of a part of a regular file, fewer at its end, and the size of the whole file [B]."""
    check_allowed(path)
    try:
        if descriptor_of(path) is not None:
            raise Unreadable(f"cannot be read: a {kind} cannot come through a pipe")
        _refuse_other_kinds(os.stat(path))
        opened = os.open(path, _OPENED)
        try:
            _refuse_other_kinds(os.fstat(opened))
            os.lseek(opened, start, os.SEEK_SET)
            return _read(opened, length), os.fstat(opened).st_size
        finally:
            os.close(opened)
    except (OSError, ValueError, OverflowError) as fault:
        raise Unreadable(f"cannot be read: {getattr(fault, 'strerror', None) or fault}") from None


def bounded(data: bytes, most: int, kind: str) -> bytes:
    """The data, unless it exceeds the size limit [B]."""
    if len(data) > most:
        raise Unreadable(f"is too large for a {kind}: the limit is {most >> _MEBI} MiB")
    return data


def descriptor_of(path: str) -> int | None:
    """File descriptor that a path such as /dev/stdin stands for, links followed; None for any other path.

    >>> descriptor_of("/dev/stdout"), descriptor_of("/dev/fd/63"), descriptor_of("a.yaml")
    (1, 63, None)
    """
    for _ in range(_MOST_LINKS):
        if path in _STREAMS:
            return _STREAMS[path]
        folder = next((start for start in _FOLDERS_OF_STREAMS if path.startswith(start)), None)
        if folder is not None:
            number = path[len(folder) :]
            return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else None
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except (OSError, ValueError):  # not a link
            return None
    return None


def check_json_amount(text: str) -> None:
    """Refuse JSON that would take too long to parse."""
    containers, fields, values = text.count("[") + text.count("{"), text.count(":"), text.count(",")
    if containers > _MOST_CONTAINERS:
        raise Unreadable(f"has {containers} lists and mappings; the limit is {_MOST_CONTAINERS}")
    if fields > _MOST_FIELDS:
        raise Unreadable(f"has {fields} fields; the limit is {_MOST_FIELDS}")
    if values > _MOST_VALUES:
        raise Unreadable(f"has {values} values; the limit is {_MOST_VALUES}")


def check_json_depth(document: object) -> None:
    """Refuse a document nested too deeply for recursive readers.

    >>> check_json_depth([[1], {"a": 2}])
    """
    level: list[object] = [document]
    for _ in range(_DEEPEST):
        level = [
            part
            for node in level
            for part in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
            if isinstance(part, (dict, list))
        ]
        if not level:
            return
    raise Unreadable(f"is nested deeper than {_DEEPEST} levels")


def _refuse_other_kinds(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise Unreadable(f"cannot be read: it is {kind}, not a regular file")


def _read(opened: int, most: int) -> bytes:
    pieces, rest = [], most
    while rest and (piece := os.read(opened, min(rest, _PIECE))):
        pieces.append(piece)
        rest -= len(piece)
    return b"".join(pieces)
