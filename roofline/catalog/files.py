"""Places of specification files, and the names that each answers to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from typing import Any
from zlib import crc32

from roofline.specs.engine import Engine
from roofline.specs.names import Entry, declared, fold
from roofline.support.errors import BadSpec
from roofline.support.reading import SPEC_BYTES, Unreadable, check_allowed, content, exists

#: Endings of specification files.
ENDINGS = (".yaml", ".yml")

_FOLDERS = {"gpu": "hardware_specs", "model": "model_specs", "engine": "engine_specs", "workload": "workload_specs"}
_HASHED = ("gpu", "model")
#: Folders of what lies beside the entries of a catalog.
_BESIDE = ("calibration", "arguments")
#: Kind -> fields that only its files have, in order of precedence; files with none of them are GPUs.
_FIELDS = {
    "calibration": {"kernels"},
    "arguments": {"arguments"},
    "engine": {
        "prefill_slowdown",
        "stretch",  # its name in older files
        "reserve",
        "full_length_kv",
        "tunings",
        "overlaps",
        "runs",
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
        taken = {name: owner for name in entry.names if (owner := owners.setdefault(name, entry)) is not entry}
        if taken:
            raise BadSpec(_taken_names(entry, taken))
    return merged


def _taken_names(entry: Entry, taken: Mapping[str, Entry]) -> str:
    """A message on all names of a file that others have, with the lines to change."""
    texts = []
    for number, line in enumerate(spec_text(entry.path).split("\n"), 1):
        field, _, value = line.partition(":")
        words = {fold(word.strip(" \"'[]")) for word in value.partition("#")[0].split(",")}
        found = [name for name in taken if field in _HEADER_FIELDS and name in words]
        if found:
            owners = ", ".join(dict.fromkeys(taken[name].short for name in found))
            change = "choose another" if field == "name" else f"delete {'them' if len(found) > 1 else 'it'} here"
            verb = "are" if len(found) > 1 else "is"
            texts.append(f"{entry.path}:{number}: {', '.join(found)} {verb} already taken by {owners}; {change}")
    name, owner = next(iter(taken.items()))
    return "\n".join(texts) or f"{entry.path}:1: the name {name!r} is already taken by {owner.short}; choose another"


def names_a_file(name: str) -> bool:
    """Whether a name would be read as a path; names in untrusted files must not.

    >>> names_a_file("Qwen/Qwen3-8B"), names_a_file("../mine.yaml")
    (False, True)
    """
    path = name.strip()
    is_path = path.startswith(("/", "~", ".", "\\")) or ".." in path
    return path.endswith((*ENDINGS, ".json")) or (is_path and exists(os.path.expanduser(path)))


def own_entry(path: str) -> Entry:
    """Entry of a user's file in any style of YAML; of a faulty file, with the names that can still be read."""
    from roofline.catalog.yaml import read_untrusted

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
    try:
        check_allowed(root)
    except Unreadable as fault:
        raise BadSpec(f"{specs}: {fault}") from None
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
        path for path in yaml_files(shipped_root(kind)) if os.path.basename(os.path.dirname(path)) not in _BESIDE
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


# Content of the shipped files, parsed when the wheel was built or read from the YAML.
#
# Only wheels have a `compiled.jsonl` beside this module: the first line is an index, every other line the content of
# one file. Checksums tell whether a file has changed since; changed and added files, and those of a checkout, are read
# as YAML.

#: The parsed catalog of a wheel.
COMPILED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compiled.jsonl")


def compiled(paths: Iterable[str]) -> bytes:
    """The parsed catalog of a wheel: ASCII lines of JSON, an index by name and then contents."""
    import json

    from roofline.catalog.yaml import content_of_text

    index, lines, start = {}, [b""], 0
    for path in paths:
        line = json.dumps(content_of_text(spec_text(path)), separators=(",", ":")).encode()
        index[_name(path)] = _checksum(path), start, start + len(line)
        lines.append(line)
        start += len(line) + 1
    lines[0] = json.dumps(index, separators=(",", ":")).encode()
    return b"\n".join(lines)


def shipped_document(path: str) -> dict[str, Any]:
    """Content of a shipped specification; dates stay text."""
    content = _parsed(path)
    if content is not None:
        return content
    from roofline.catalog.yaml import content_of_text

    return content_of_text(spec_text(path))


def shipped_figures(path: str) -> dict[str, Any]:
    """Content of a shipped specification without its sources, half of the file; only the date of a price is kept."""
    content = _parsed(path)
    if content is None:
        from roofline.catalog.yaml import figures_of_text

        return figures_of_text(spec_text(path))
    figures = dict(takewhile(lambda field: field[0] != "sources", content.items()))
    if figures.get("price") is not None:
        source = figures["price"]["source"]
        entry = content.get("sources", {}).get(source, {})
        figures["sources"] = {source: {"date": entry["date"]}} if "date" in entry else {}
    return figures


def _parsed(path: str) -> dict[str, Any] | None:
    """Content of a file from the parsed catalog; None where the file is not in it or has changed."""
    index, lines = _catalog()
    checksum, start, end = index.get(_name(path), (None, 0, 0))
    if checksum is None or checksum != _checksum(path):
        return None
    from json import loads

    content: dict[str, Any] = loads(lines[start:end])
    return content


def shipped_by_name(
    name: str, paths: Sequence[str], content_of: Callable[[str], dict[str, Any]]
) -> dict[str, Any] | None:
    """Content of the shipped file with a folded name or alias; None without one. Most names are those of the file."""
    for path in paths:
        if fold(os.path.splitext(os.path.basename(path))[0]) == name:
            return content_of(path)
    contents = map(content_of, paths)
    return next((content for content in contents if name in map(fold, content.get("aliases", ()))), None)


@cache
def _catalog() -> tuple[dict[str, tuple[int, int, int]], bytes]:
    """Index of the parsed catalog (name -> checksum, start and end of its line), and the lines."""
    try:
        with open(COMPILED, "rb", buffering=0) as file:
            index, _, lines = file.read().partition(b"\n")
    except FileNotFoundError:
        return {}, b""
    from json import loads

    return loads(index), lines


def _name(path: str) -> str:
    """Path of a file relative to the folder of all catalogs."""
    return path[_home_length() :].replace(os.sep, "/")


@cache
def _home_length() -> int:
    return len(os.path.dirname(shipped_root("gpu"))) + 1


def _checksum(path: str) -> int | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return crc32(file.read())
    except OSError:  # reading the file reports it
        return None
