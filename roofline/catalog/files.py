"""Places of specification files, and the names that each answers to."""

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

#: Endings of specification files.
ENDINGS = (".yaml", ".yml")

_FOLDERS = {"gpu": "hardware_specs", "model": "model_specs", "engine": "engine_specs", "workload": "workload_specs"}
_HASHED = ("gpu", "model")
#: Kind -> fields that only its files have, in order of precedence; files with none of them are GPUs.
_FIELDS = {
    "calibration": {"kernels"},
    "engine": {
        "prefill_slowdown",
        "stretch",  # its name in older files
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
    "workload": {"isl", "osl", "isl_cv", "osl_cv", "lengths", "prefix", "slo", "share", "arrivals", "waits_for"},
}
_HEADER_FIELDS = ("name", "aliases")
_MOST_FILES, _MOST_NAMES = 2000, 50_000  # specifications, and names of any kind, below a user's folder
_HEADER_BYTES = 4096  # enough for the first two lines of a shipped file, name and aliases


def entries(kind: str, specs: str | None) -> tuple[Entry, ...]:
    """Users' files of a kind (``gpu`` or ``model``), then shipped files that they do not replace; names are unique."""
    users = _user_entries(specs or os.environ.get("ROOFLINE_SPECS"), kind)
    if not users:
        return shipped_entries(kind)
    replaced = {entry.names[0] for entry in users}
    merged = (*users, *(entry for entry in shipped_entries(kind) if entry.names[0] not in replaced))
    owners: dict[str, Entry] = {}
    for entry in reversed(merged):
        for name in entry.names:
            other = owners.setdefault(name, entry)
            if other is not entry:
                raise BadSpec(f"{entry.path}:1: the name {name!r} is already taken by {other.short}; choose another")
    return merged


def names_a_file(name: str) -> bool:
    """Whether a name would be read as a path; names in untrusted files must not.

    >>> names_a_file("Qwen/Qwen3-8B"), names_a_file("../mine.yaml")
    (False, True)
    """
    path = name.strip()
    is_path = path.startswith(("/", "~", ".", "\\")) or ".." in path
    return path.endswith((*ENDINGS, ".json")) or (is_path and os.path.exists(os.path.expanduser(path)))


def own_entry(path: str) -> Entry:
    """Entry of a user's file in any style of YAML; of a faulty file, with the names that can still be read."""
    from roofline.catalog.yaml_lines import read_untrusted

    try:
        data, _, _ = read_untrusted(path)
        names = tuple(dict.fromkeys(fold(name) for name in (data["name"], *(data.get("aliases") or ()))))
        return Entry(path, names, own=True, vendor=fold(str(data.get("vendor") or "")))
    except (BadSpec, KeyError, TypeError, AttributeError):
        names = _header(spec_text(path)) or (fold(os.path.splitext(os.path.basename(path))[0]),)
        return Entry(path, names, own=True)


def own_folder(specs: str) -> str:
    """Path of a user's folder, its tilde expanded."""
    root = os.path.expanduser(specs)
    if not os.path.isdir(root) or not os.access(root, os.R_OK | os.X_OK):
        raise BadSpec(f"{specs}: not a readable folder of specifications")
    return root


@lru_cache(maxsize=2)
def shipped_entries(kind: str) -> tuple[Entry, ...]:
    """All shipped files of a kind, ``gpu`` or ``model``, sorted by path."""
    return tuple(_shipped_entry(path, kind) for path in _shipped_paths(kind))


def shipped_entry(name: str, kind: str) -> Entry | None:
    """Shipped file with this name, by its file name alone, without opening the others; None without one."""
    ending = os.sep + fold(name).rpartition("/")[2] + ENDINGS[0]
    for path in _shipped_paths(kind):
        if path.endswith(ending):
            return _shipped_entry(path, kind)
    return None


@cache
def shipped_root(kind: str) -> str:
    """Folder of a catalog: inside the installed package, or beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, _FOLDERS[kind])
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), _FOLDERS[kind])


def yaml_files(root: str) -> list[str]:
    """Paths of the YAML files below a folder, sorted."""

    def unreadable(fault: OSError) -> None:
        raise BadSpec(f"{fault.filename}:1: cannot be read: {fault.strerror}")

    paths: list[str] = []
    seen = 0
    for folder, folders, names in os.walk(root, onerror=unreadable):  # symbolic links are not followed
        seen += len(folders) + len(names)
        paths += [os.path.join(folder, name) for name in names if name.endswith(ENDINGS)]
        if seen > _MOST_NAMES or len(paths) > _MOST_FILES:
            most = f"at most {_MOST_FILES} specifications among {_MOST_NAMES} files and folders are read"
            raise BadSpec(f"{root}:1: too many files; {most}")
    return sorted(paths)


def fingerprint(specs: str | None) -> str:
    """Hash of the files that answers depend on, shipped and the user's, in 12 hexadecimal digits."""
    import hashlib

    specs = specs or os.environ.get("ROOFLINE_SPECS")
    digest = hashlib.sha256()
    for root in (*(shipped_root(kind) for kind in _HASHED), *([] if specs is None else [own_folder(specs)])):
        for path in yaml_files(root):
            digest.update(f"{os.path.relpath(path, root)}\n{spec_text(path)}".encode())
    return digest.hexdigest()[:12]


def kind_of(text: str) -> str:
    """Kind of the specification in a text: ``gpu``, ``model``, ``calibration``, ``engine`` or ``workload``."""
    return kind_of_fields(re.findall(r"^(\w+):", text, re.MULTILINE))


def kind_of_fields(fields: Collection[str]) -> str:
    """Kind of a specification by its top-level fields."""
    return next((kind for kind, names in _FIELDS.items() if not names.isdisjoint(fields)), "gpu")


def spec_text(path: str) -> str:
    """Text of a file with plain line ends; bytes that are not UTF-8 are replaced."""
    try:
        text = content(path, SPEC_BYTES, "specification").decode("utf-8", "replace")
    except Unreadable as fault:
        raise BadSpec(f"{path}:1: {fault}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=2)
def _shipped_paths(kind: str) -> tuple[str, ...]:
    return tuple(
        path for path in yaml_files(shipped_root(kind)) if os.path.basename(os.path.dirname(path)) != "calibration"
    )


@cache
def _shipped_entry(path: str, kind: str) -> Entry:
    """Entry of a shipped file from its first two lines, name and aliases; the vendor of a GPU is its folder."""
    try:
        with open(path, "rb", buffering=0) as file:
            name, aliases, *_ = (file.read(_HEADER_BYTES) + b"\n\n").split(b"\n", 2)
    except OSError as fault:
        raise BadSpec(f"{path}:1: cannot be read: {fault.strerror}") from None
    header = fold((name[len("name: ") :] + b"," + aliases[len("aliases: [") :]).decode("utf-8", "replace"))
    names = tuple(dict.fromkeys(stripped for part in header.split(",") if (stripped := part.strip("-[]\"'"))))
    return Entry(path, names, vendor=os.path.basename(os.path.dirname(path)) if kind == "gpu" else "")


def _user_entries(specs: str | None, kind: str) -> tuple[Entry, ...]:
    if not specs:
        return ()
    return tuple(own_entry(path) for path in yaml_files(own_folder(specs)) if kind_of(spec_text(path)) == kind)


def _header(text: str) -> tuple[str, ...]:
    """Folded names from the `name` and `aliases` lines of a file that is not valid YAML."""
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        field, colon, value = line.partition(":")
        if colon and field in _HEADER_FIELDS:
            fields[field] = value.partition("#")[0].strip(" \t")
    names = [fields.get("name", "").strip("\"'")]
    names += [alias.strip(" \"'") for alias in fields.get("aliases", "").strip("[]").split(",")]
    return tuple(dict.fromkeys(fold(name) for name in names if name))
