"""Reading what somebody names: regular files and pipes, up to a limit, never a wait for what does not come."""

from __future__ import annotations

import os
import stat

__all__ = [
    "CONFIG_BYTES",
    "HEADER_BYTES",
    "RESULT_BYTES",
    "SPEC_BYTES",
    "Unreadable",
    "bounded",
    "check_json_amount",
    "check_json_depth",
    "content",
    "descriptor_of",
    "excerpt",
]

#: Most bytes of a specification, of a configuration, and of a result or a table of kernels.
SPEC_BYTES, CONFIG_BYTES, RESULT_BYTES = 1 << 20, 1 << 24, 1 << 26

#: Most bytes of the header of a file of weights: as many as safetensors itself allows are never needed.
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
# What readers of JSON spend their time on: lists and mappings, fields (1 us each) and values (0.3 us each).
_MOST_CONTAINERS, _MOST_FIELDS, _MOST_VALUES, _DEEPEST = 1 << 19, 3 << 18, 1 << 22, 64


class Unreadable(Exception):
    """Why something cannot be read, without its name."""


def content(path: str, most: int, kind: str) -> bytes:
    """Content of a regular file, or of a pipe that the shell or the caller opened (``/dev/stdin``, ``/dev/fd/63``).

    Args:
        path: the file [path].
        most: longest content allowed [B].
        kind: what it should be, for the message [text].

    Returns:
        The bytes.

    Raises:
        Unreadable: not there, not allowed, another kind of file, longer than allowed.
    """
    try:
        stream = descriptor_of(path)
        if stream is None:
            _refuse_other_kinds(os.stat(path))  # before it is opened, which alone wakes the other end of a FIFO
        opened = os.open(path, _OPENED) if stream is None else os.dup(stream)
        try:
            if stream is None:
                _refuse_other_kinds(os.fstat(opened))  # what is there now
            return bounded(_read(opened, most + 1), most, kind)
        finally:
            os.close(opened)
    except (OSError, ValueError, OverflowError) as fault:  # a zero byte in the name is a ValueError
        raise Unreadable(f"cannot be read: {getattr(fault, 'strerror', None) or fault}") from None


def excerpt(path: str, start: int, length: int, kind: str) -> tuple[bytes, int]:
    """Part of a regular file, however large the file is.

    Args:
        path: the file [path].
        start: first byte [B].
        length: most bytes to read [B].
        kind: what the file should be, for the message [text].

    Returns:
        The bytes, fewer at the end of the file, and the size of the file [B].

    Raises:
        Unreadable: not there, not allowed, another kind of file.
    """
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
    """Bytes that are not longer than allowed.

    Args:
        data: the bytes.
        most: longest content allowed [B].
        kind: what it should be, for the message [text].

    Returns:
        The same bytes.

    Raises:
        Unreadable: there are more.
    """
    if len(data) > most:
        raise Unreadable(f"is too large for a {kind}: the limit is {most >> _MEBI} MiB")
    return data


def descriptor_of(path: str) -> int | None:
    """Number of the open file that a path stands for, its own links followed.

    Args:
        path: e.g. ``/dev/stdin`` or ``/dev/fd/63`` [path].

    Returns:
        The number; None for any other path [1].

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
        except (OSError, ValueError):  # no link
            return None
    return None


def check_json_amount(text: str) -> None:
    """Refuse a JSON text that would take too long, before it is read.

    Args:
        text: of any number of documents [text].

    Raises:
        Unreadable: too many lists, mappings or values.
    """
    containers, fields, values = text.count("[") + text.count("{"), text.count(":"), text.count(",")
    if containers > _MOST_CONTAINERS:
        raise Unreadable(f"has {containers} lists and mappings; the limit is {_MOST_CONTAINERS}")
    if fields > _MOST_FIELDS:
        raise Unreadable(f"has {fields} fields; the limit is {_MOST_FIELDS}")
    if values > _MOST_VALUES:
        raise Unreadable(f"has {values} values; the limit is {_MOST_VALUES}")


def check_json_depth(document: object) -> None:
    """Refuse a document that later readers, which call themselves, could not follow.

    Args:
        document: of a reader of JSON [any].

    Raises:
        Unreadable: nested deeper than anything that is read.

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
