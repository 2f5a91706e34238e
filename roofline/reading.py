"""Reading what somebody names: regular files and pipes, up to a limit, never a wait for what does not come."""

from __future__ import annotations

import os
import stat

__all__ = [
    "CONFIG_BYTES",
    "RESULT_BYTES",
    "SPEC_BYTES",
    "Unreadable",
    "bounded",
    "content",
    "descriptor_of",
    "too_deep",
    "too_long",
    "too_much_json",
]

#: Most bytes of a specification, of a configuration, and of a result or a table of kernels.
SPEC_BYTES, CONFIG_BYTES, RESULT_BYTES = 1 << 20, 1 << 24, 1 << 26

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
# What a reader of JSON spends its time on: lists and mappings (0.3 us each), values (0.1 us each).
_MOST_CONTAINERS, _MOST_VALUES, _DEEPEST = 1 << 20, 1 << 22, 64


class Unreadable(Exception):
    """Why something cannot be read, without its name."""


def content(path: str, most: int) -> bytes:
    """Content of a regular file, or of a pipe that the shell or the caller opened (``/dev/stdin``, ``/dev/fd/63``).

    Args:
        path: the file [path].
        most: longest content allowed [B].

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
            return _read(opened, most)
        finally:
            os.close(opened)
    except (OSError, ValueError, OverflowError) as fault:  # a zero byte in the name is a ValueError
        raise Unreadable(f"cannot be read: {getattr(fault, 'strerror', None) or fault}") from None


def bounded(data: bytes, most: int) -> bytes:
    """Bytes that are not longer than allowed.

    Args:
        data: the bytes.
        most: longest content allowed [B].

    Returns:
        The same bytes.

    Raises:
        Unreadable: there are more.
    """
    if len(data) > most:
        raise Unreadable(too_long(most))
    return data


def too_long(most: int) -> str:
    """What is said of a content that is longer than allowed.

    Args:
        most: longest content allowed [B].

    Returns:
        The text [text].

    >>> too_long(SPEC_BYTES)
    'longer than 1 MiB, the most that is read'
    """
    return f"longer than {most >> _MEBI} MiB, the most that is read"


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


def too_much_json(text: str) -> str | None:
    """Why a JSON text would take too long, known before it is read.

    Args:
        text: of any number of documents [text].

    Returns:
        What is wrong; None where nothing is [text].
    """
    containers = text.count("[") + text.count("{")
    if containers > _MOST_CONTAINERS:
        return f"{containers} lists and mappings; at most {_MOST_CONTAINERS} are read"
    values = text.count(",")
    if values > _MOST_VALUES:
        return f"{values} values; at most {_MOST_VALUES} are read"
    return None


def too_deep(document: object) -> bool:
    """Whether a document of lists and mappings is nested deeper than anything that is read.

    Args:
        document: of a reader of JSON [any].

    Returns:
        True where it is [bool].

    >>> too_deep([[1], {"a": 2}])
    False
    """
    level = [document]
    for _ in range(_DEEPEST):
        level = [
            part
            for node in level
            for part in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
            if isinstance(part, (dict, list))
        ]
        if not level:
            return False
    return True


def _refuse_other_kinds(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise Unreadable(f"cannot be read: {kind}, not a regular file")


def _read(opened: int, most: int) -> bytes:
    pieces, rest = [], most + 1
    while rest and (piece := os.read(opened, min(rest, _PIECE))):
        pieces.append(piece)
        rest -= len(piece)
    return bounded(b"".join(pieces), most)
