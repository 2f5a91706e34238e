"""Where specification files lie, and the names that each of them answers to."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import cache, lru_cache

from roofline.errors import BadSpec
from roofline.reading import SPEC_BYTES, Unreadable, content
from roofline.specs.engine import Engine
from roofline.specs.figures import declared
from roofline.specs.names import Entry, fold

__all__ = [
    "ENDINGS",
    "entries",
    "fingerprint",
    "kind_of",
    "kind_of_fields",
    "names_a_file",
    "own_entry",
    "own_folder",
    "shipped_entries",
    "shipped_entry",
    "shipped_root",
    "spec_text",
    "yaml_files",
]

#: Endings of the name of a specification file.
ENDINGS = (".yaml", ".yml")

_FOLDERS = {"gpu": "hardware_specs", "model": "model_specs", "engine": "engine_specs", "workload": "workload_specs"}
_HASHED = ("gpu", "model")
#: Kind -> fields that only its files have, in the order of asking; what has none of them is a GPU.
_FIELDS = {
    "calibration": {"kernels"},
    "engine": {
        "stretch",
        "reserve",
        "tunings",
        "scheduler",
        "max_num_batched_tokens",
        "max_num_seqs",
        "gpu_memory_utilization",
        "max_model_len",
        *(name for name, kind in declared(Engine).items() if kind == "Seconds"),
    },
    "model": {"groups", "hidden", "vocab"},
    "workload": {"isl", "osl", "isl_cv", "osl_cv", "lengths", "prefix", "slo", "share", "arrivals"},
}
_HEADER_FIELDS = ("name", "aliases")
_MOST_FILES, _MOST_NAMES = 2000, 50_000  # of one's own folder: specifications, and names of any kind below it
_HEADER_BYTES = 4096  # a shipped file begins with its name and its aliases, on a line each


def entries(kind: str, specs: str | None) -> tuple[Entry, ...]:
    """Files of the user's own, then the shipped ones that they do not replace; no name is given twice.

    Args:
        kind: ``gpu`` or ``model`` [text].
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        The entries.

    Raises:
        BadSpec: a folder or file cannot be read, or a name belongs to two entries.
    """
    own = _own_entries(specs or os.environ.get("ROOFLINE_SPECS"), kind)
    if not own:
        return shipped_entries(kind)
    replaced = {entry.names[0] for entry in own}
    found = (*own, *(entry for entry in shipped_entries(kind) if entry.names[0] not in replaced))
    owners: dict[str, Entry] = {}
    for entry in reversed(found):
        for name in entry.names:
            other = owners.setdefault(name, entry)
            if other is not entry:
                raise BadSpec(f"{entry.path}:1: the name {name!r} is already taken by {other.short}; choose another")
    return found


def names_a_file(name: str) -> bool:
    """Whether a name would be read as a way to a file, were it typed: what a stranger's file may not do.

    Args:
        name: of a model, a GPU or an engine [text].

    Returns:
        Whether it ends like a file that is read, or leads to one from anywhere but here [bool].

    >>> names_a_file("Qwen/Qwen3-8B"), names_a_file("../mine.yaml")
    (False, True)
    """
    path = name.strip()
    is_way = path.startswith(("/", "~", ".", "\\")) or ".." in path
    return path.endswith((*ENDINGS, ".json")) or (is_way and os.path.exists(os.path.expanduser(path)))


def own_entry(path: str) -> Entry:
    """A file of the user's own, whatever style of YAML it is written in.

    Args:
        path: the file [path].

    Returns:
        The entry; of a broken file with whatever names can still be seen.
    """
    from roofline.catalog.yaml_lines import read_untrusted

    try:
        data, _, _ = read_untrusted(path)
        names = tuple(dict.fromkeys(fold(name) for name in (data["name"], *(data.get("aliases") or ()))))
        return Entry(path, names, own=True, vendor=fold(str(data.get("vendor") or "")))
    except (BadSpec, KeyError, TypeError, AttributeError):
        names = _header(spec_text(path)) or (fold(os.path.splitext(os.path.basename(path))[0]),)
        return Entry(path, names, own=True)


def own_folder(specs: str) -> str:
    """A folder of the user's own.

    Args:
        specs: its path, with or without a tilde [path].

    Returns:
        The path [path].

    Raises:
        BadSpec: no folder, or one that cannot be read.
    """
    root = os.path.expanduser(specs)
    if not os.path.isdir(root) or not os.access(root, os.R_OK | os.X_OK):
        raise BadSpec(f"{specs}: not a readable folder of specifications")
    return root


@lru_cache(maxsize=2)
def shipped_entries(kind: str) -> tuple[Entry, ...]:
    """All shipped files of a kind.

    Args:
        kind: ``gpu`` or ``model`` [text].

    Returns:
        The entries, in the order of their paths.
    """
    return tuple(_shipped_entry(path, kind) for path in _shipped_paths(kind))


def shipped_entry(name: str, kind: str) -> Entry | None:
    """Shipped file that is called like a name, found without a look into the others.

    Args:
        name: any spelling; every shipped file is called like the name of its entry [text].
        kind: ``gpu`` or ``model`` [text].

    Returns:
        The entry; None where no file is called so.
    """
    wanted = os.sep + fold(name).rpartition("/")[2] + ENDINGS[0]
    for path in _shipped_paths(kind):
        if path.endswith(wanted):
            return _shipped_entry(path, kind)
    return None


@cache
def shipped_root(kind: str) -> str:
    """Catalog inside the installed package, or beside it in a checkout.

    Args:
        kind: ``gpu``, ``model``, ``engine`` or ``workload`` [text].

    Returns:
        Its folder [path].
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, _FOLDERS[kind])
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), _FOLDERS[kind])


def yaml_files(root: str) -> list[str]:
    """YAML files below a folder.

    Args:
        root: the folder [path].

    Returns:
        Their paths, sorted [path].

    Raises:
        BadSpec: a folder below cannot be read, or there are too many files.
    """

    def unreadable(fault: OSError) -> None:
        raise BadSpec(f"{fault.filename}:1: cannot be read: {fault.strerror}")

    found: list[str] = []
    seen = 0
    for folder, folders, names in os.walk(root, onerror=unreadable):  # links to folders are not followed
        seen += len(folders) + len(names)
        found += [os.path.join(folder, name) for name in names if name.endswith(ENDINGS)]
        if seen > _MOST_NAMES or len(found) > _MOST_FILES:
            most = f"at most {_MOST_FILES} specifications among {_MOST_NAMES} files and folders are read"
            raise BadSpec(f"{root}:1: too many files; {most}")
    return sorted(found)


def fingerprint(specs: str | None) -> str:
    """Hash of the catalogs that answers stand on: shipped files of GPUs, calibrations and models, and one's own.

    Args:
        specs: folder of specifications of one's own; default $ROOFLINE_SPECS [path].

    Returns:
        Twelve hexadecimal digits of SHA-256 over the files' names and contents [text].

    Raises:
        BadSpec: a folder or file cannot be read.
    """
    import hashlib

    own = specs or os.environ.get("ROOFLINE_SPECS")
    digest = hashlib.sha256()
    for root in (*(shipped_root(kind) for kind in _HASHED), *([] if own is None else [own_folder(own)])):
        for path in yaml_files(root):
            digest.update(f"{os.path.relpath(path, root)}\n{spec_text(path)}".encode())
    return digest.hexdigest()[:12]


def kind_of(text: str) -> str:
    """Kind of a specification, by a field that only this kind has.

    Args:
        text: content of the file [text].

    Returns:
        ``gpu``, ``model``, ``calibration``, ``engine`` or ``workload`` [text].
    """
    return kind_of_fields(re.findall(r"^(\w+):", text, re.MULTILINE))


def kind_of_fields(fields: Collection[str]) -> str:
    """Kind of a specification, by a field that only this kind has.

    Args:
        fields: of the file, those within others apart [text].

    Returns:
        ``gpu``, ``model``, ``calibration``, ``engine`` or ``workload`` [text].
    """
    return next((kind for kind, own in _FIELDS.items() if not own.isdisjoint(fields)), "gpu")


def spec_text(path: str) -> str:
    """Text of a file.

    Args:
        path: the file [path].

    Returns:
        Its content; bytes that are no UTF-8 are replaced [text].

    Raises:
        BadSpec: it cannot be read, is no regular file, or is too long.
    """
    try:
        text = content(path, SPEC_BYTES, "specification").decode("utf-8", "replace")
    except Unreadable as fault:
        raise BadSpec(f"{path}:1: {fault}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=2)
def _shipped_paths(kind: str) -> tuple[str, ...]:
    return tuple(path for path in yaml_files(shipped_root(kind)) if not _is_calibration(path))


@cache
def _shipped_entry(path: str, kind: str) -> Entry:
    """A shipped file by its first two lines, which hold nothing else; a GPU's vendor is its folder."""
    try:
        with open(path, "rb", buffering=0) as file:
            name, aliases, *_ = (file.read(_HEADER_BYTES) + b"\n\n").split(b"\n", 2)
    except OSError as fault:
        raise BadSpec(f"{path}:1: cannot be read: {fault.strerror}") from None
    listed = fold((name[len("name: ") :] + b"," + aliases[len("aliases: [") :]).decode("utf-8", "replace"))
    names = tuple(dict.fromkeys(stripped for part in listed.split(",") if (stripped := part.strip("-[]\"'"))))
    return Entry(path, names, vendor=os.path.basename(os.path.dirname(path)) if kind == "gpu" else "")


def _is_calibration(path: str) -> bool:
    return os.path.basename(os.path.dirname(path)) == "calibration"


def _own_entries(specs: str | None, kind: str) -> tuple[Entry, ...]:
    if not specs:
        return ()
    return tuple(own_entry(path) for path in yaml_files(own_folder(specs)) if kind_of(spec_text(path)) == kind)


def _header(text: str) -> tuple[str, ...]:
    """Folded names from the `name` and `aliases` lines, without parsing the file."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        field, colon, value = line.partition(":")
        if colon and field in _HEADER_FIELDS:
            fields[field] = value.partition("#")[0].strip(" \t")
    names = [fields.get("name", "").strip("\"'")]
    names += [alias.strip(" \"'") for alias in fields.get("aliases", "").strip("[]").split(",")]
    return tuple(dict.fromkeys(fold(name) for name in names if name))
