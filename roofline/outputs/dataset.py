"""A folder of numbered Parquet files, the blocks of one table, with a manifest of the question.

Each block is written aside and renamed, so that a name stands for a whole block whatever happens meanwhile. One process
writes to a folder at a time, where the system has locks of files; without them two write the same files.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from roofline.outputs.files import InColumns, arrow_table, sync
from roofline.support.errors import BadInput, needing, shown
from roofline.support.records import NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from roofline.outputs.files import ArrowTable

#: Readers of Parquet pass over names that begin with an underscore or a dot.
MANIFEST, REDUCED = "_manifest.json", "_reduced.json"
_LOCK = ".lock"
_ASIDE = ".part"
_BLOCK = re.compile(r"block-(\d{6,9})\.parquet")
_PART = re.compile(r"\.block-\d{6,9}\.parquet\.part|\._(manifest|reduced)\.json\.part")
_GROUP_BYTES = 1 << 25  # of a row group in memory
_QUESTION, _NUMBER, _STATES = b"roofline.question", b"roofline.block", b"roofline.reduced"  # in the footer of a block
#: What of a manifest another question may share.
_ABOUT = ("sha256", "complete")
_MISSING = object()
_FEW = 5  # names in a message


class Kept(NamedTuple):
    """A block that is in the folder."""

    rows: int
    states: list[Any]  # what its reductions keep, as plain values


def block_bytes(tables: Iterable[InColumns], digest: str, number: int, states: list[Any]) -> bytes:
    """The Parquet file of a block, its rows in tables one after the other; reductions go into its footer.

    `states` is read after the last table, and may be filled meanwhile.
    """
    with needing("Parquet needs pyarrow", "parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    writer: Any = None
    waiting: list[Any] = []
    for block in tables:
        arrow = arrow_table(block.columns)
        if writer is None:
            writer = pq.ParquetWriter(sink, arrow.schema, compression="zstd")
        waiting.append(arrow)
        if sum(table.nbytes for table in waiting) >= _GROUP_BYTES:
            writer.write_table(pa.concat_tables(waiting))
            waiting = []
    if waiting:
        writer.write_table(pa.concat_tables(waiting))
    texts = {_QUESTION: digest, _NUMBER: str(number), _STATES: json.dumps(states)}
    writer.add_key_value_metadata({name.decode(): text for name, text in texts.items()})
    writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    return data


class Folder:
    """The folder of a data set, open for writing."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        self.manifest = dict(manifest)

    def block(self, number: int) -> Path:
        """The file of a block."""
        return self.path / f"block-{number:06d}.parquet"

    def kept(self, rows_of: Mapping[int, int]) -> dict[int, Kept]:
        """Whole blocks of this question; what is left of others goes.

        `rows_of`: how many rows each block has.
        """
        found = {}
        with _refusals(self.path):
            for file in sorted(self.path.iterdir()):
                if _PART.fullmatch(file.name):
                    file.unlink()
                match = _BLOCK.fullmatch(file.name)
                if match is None:
                    continue
                number = int(match[1])
                kept = None if file != self.block(number) else self._read(file, number)
                if kept is None or kept.rows != rows_of.get(number):
                    file.unlink()
                else:
                    found[number] = kept
        return found

    def _read(self, file: Path, number: int) -> Kept | None:
        """What the footer of a block says; None where it is none of this question."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            footer = pq.read_metadata(file)
            said = footer.metadata or {}
            if said.get(_QUESTION) != self.manifest["sha256"].encode() or said.get(_NUMBER) != str(number).encode():
                return None
            states = json.loads(said[_STATES])
        except (pa.ArrowException, ValueError, KeyError):  # cut short, or damaged
            return None
        return Kept(footer.num_rows, states)

    def write(self, number: int, data: bytes) -> None:
        """Write a block, whole or not at all."""
        self._write(self.block(number).name, data)

    def finish(self, reduced: Mapping[str, Any] | None) -> None:
        """Write what the rows are reduced to, and that no block is missing."""
        if reduced:
            self._write(REDUCED, (json.dumps(reduced, indent=2) + "\n").encode())
        self.manifest["complete"] = True
        self._write_manifest()

    def _write_manifest(self) -> None:
        self._write(MANIFEST, (json.dumps(self.manifest, indent=1) + "\n").encode())

    def _write(self, name: str, data: bytes) -> None:
        aside = self.path / f".{name}{_ASIDE}"
        with _refusals(self.path):
            try:
                aside.write_bytes(data)
                sync(aside)
                aside.replace(self.path / name)
            except BaseException:
                with suppress(OSError):
                    aside.unlink()
                raise


@contextmanager
def opened(path: str, manifest: Mapping[str, Any], *, resume: bool) -> Iterator[Folder]:
    """The folder of a data set, made where there is none, which nobody else writes to meanwhile.

    Raises:
        BadInput: something else is there, another question's blocks, or blocks without `resume`; or the folder cannot
            be written to.
    """
    from pathlib import Path

    with needing("Parquet needs pyarrow", "parquet"):
        import pyarrow.parquet as _  # noqa: F401 - before anything is computed
    if not path:
        raise BadInput("the folder of the data set has an empty name; give the name of a folder")
    folder = Path(path)
    with _refusals(folder):
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{path} is a file; a data set needs a folder of its own")
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        found = Folder(folder, manifest)
        _check(found, resume=resume)
        found._write_manifest()  # noqa: SLF001 - of this module
        yield found


def _check(found: Folder, *, resume: bool) -> None:
    """Refuse a folder with anything but blocks of this question."""
    folder = found.path
    known = _manifest_in(folder)
    if known is None:
        with _refusals(folder):
            others = [file.name for file in folder.iterdir() if file.name != _LOCK and not _PART.fullmatch(file.name)]
        if any(map(_BLOCK.fullmatch, others)):
            raise BadInput(f"{folder} has blocks, but its {MANIFEST} is missing; put it back, or choose another folder")
        if others:
            raise BadInput(f"{folder} has other files, such as {shown(min(others))}; choose a folder of its own")
        return
    asked, there = _facts(found.manifest), _facts(known)
    differing = [name for name in {**asked, **there} if asked.get(name, _MISSING) != there.get(name, _MISSING)]
    if differing or known.get("sha256") != found.manifest["sha256"]:
        what = ", ".join(differing[:_FEW]) or "checksum"
        raise BadInput(f"{folder} holds another question: other {what}; choose another folder")
    if not resume:
        raise BadInput(f"{folder} has blocks of this question already; go on with `resume`, or choose another folder")


def _manifest_in(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder; None where there is none."""
    file = folder / MANIFEST
    with _refusals(folder):
        if not file.exists():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            content = None
    if not isinstance(content, dict) or "sha256" not in content:
        raise BadInput(f"{file} is no manifest of a data set; choose another folder")
    return content


def _facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of the question, each under its own name."""
    question = manifest.get("question")
    own = {name: value for name, value in manifest.items() if name not in ("question", *_ABOUT)}
    return {**own, **(question if isinstance(question, dict) else {})}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let nobody else write to the folder, where the system can say so."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - without locks of files, two processes write the same
        yield
        return
    with _refusals(folder):
        opened_lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        try:
            fcntl.flock(opened_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"{folder}: another process writes to it; wait until it finishes, or choose another"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(opened_lock)


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as fault:  # ValueError: a zero byte in the name
        raise BadInput(f"{folder} cannot be written: {getattr(fault, 'strerror', None) or fault}") from None


# Reading.


def arrow_of(path: Path, keys: Iterable[str] | None = None) -> ArrowTable:
    """All blocks of a folder as one table of pyarrow; some of its columns, in their order."""
    import pyarrow.parquet as pq

    files = sorted(file for file in path.iterdir() if _BLOCK.fullmatch(file.name))
    columns = None if keys is None else list(keys)
    tables = [pq.read_table(file, columns=columns) for file in files]
    import pyarrow as pa

    return pa.concat_tables(tables)


def size_of(path: Path) -> int:
    """Size of all blocks [B]."""
    return sum(file.stat().st_size for file in path.iterdir() if _BLOCK.fullmatch(file.name))
