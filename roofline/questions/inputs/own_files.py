"""Files of the user that a question reads, carried with it to workers that do not have them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from roofline.catalog import find
from roofline.catalog.files import ENDINGS, own_folder, shipped_root, yaml_files
from roofline.questions.inputs.deployment import pool_of
from roofline.specs.workload import LAWS
from roofline.support.errors import BadInput, BadSpec
from roofline.support.reading import RESULT_BYTES, SPEC_BYTES, Unreadable, content
from roofline.support.records import NamedTuple

_SPECS = "specs"
_VARIABLE = "ROOFLINE_SPECS"
_PLACE = "\x01own\x01"  # stands for the folder with the files, in texts of the question
#: Options that may name a file, and how large it may be.
_OPTIONS = {"engine": SPEC_BYTES, "price_file": SPEC_BYTES, "lengths": RESULT_BYTES}
_KINDS = ("gpu", "model", "engine", "workload")


class Carried(NamedTuple):
    """Names and options of a question, without paths, and its files."""

    models: list[Any]
    gpus: list[Any]
    options: dict[str, list[Any]]
    files: dict[str, bytes]  # by their place in the folder
    paths: dict[str, str]  # place in the folder -> path as the user wrote it


def carried(models: Sequence[Any], gpus: Sequence[Any], options: Mapping[str, Sequence[Any]]) -> Carried:
    """A question with the files that it names; models of files are records.

    Raises:
        BadSpec, BadInput: a file that cannot be read.
    """
    found = _Files()
    plain = {name: list(values) for name, values in options.items()}
    if plain.get(_SPECS, [None]) == [None] and os.environ.get(_VARIABLE):
        plain[_SPECS] = [os.environ[_VARIABLE]]
    folders = [None if folder is None else os.fspath(folder) for folder in plain.get(_SPECS, [])]
    plain.update({_SPECS: [None if folder is None else found.folder(folder) for folder in folders]} if folders else {})
    specs = next(iter(folders), None)
    for name, most in _OPTIONS.items():
        if name in plain:
            plain[name] = [found.text(value, most) if _is_file(name, value) else value for value in plain[name]]
    assume = next(iter(plain.get("assume", [])), None)
    if "draft" in plain:
        plain["draft"] = [_record(value, specs, None) for value in plain["draft"]]
    own = [_record(model, specs, assume) for model in models]
    return Carried(own, [_gpu(gpu, specs, found) for gpu in gpus], plain, found.files, found.paths)


class _Files:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.paths: dict[str, str] = {}

    def text(self, path: str, most: int) -> str:
        """A text that names the copy of a file."""
        known = next((place for place, known in self.paths.items() if known == path), None)
        if known is None:
            known = f"{len(self.paths)}/{Path(path).name}"
            try:
                self.files[known] = content(str(Path(path).expanduser()), most, "file")
            except Unreadable as fault:
                raise BadInput(f"{path} {fault}") from None
            self.paths[known] = path
        return f"{_PLACE}/{known}"

    def folder(self, path: str) -> str:
        """A text that names the copy of a folder of specifications."""
        place = f"{len(self.paths)}"
        root = own_folder(path)
        for file in yaml_files(root):
            try:
                data = content(file, SPEC_BYTES, "specification")
            except Unreadable as fault:
                raise BadSpec(f"{file}:1: {fault}") from None
            self.files[f"{place}/{os.path.relpath(file, root).replace(os.sep, '/')}"] = data
        self.paths[place] = path
        return f"{_PLACE}/{place}"


def _is_file(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    return value.endswith(ENDINGS) if name == "engine" else value not in LAWS


def _record(model: Any, specs: str | None, assume: str | None) -> Any:
    """A model by its name in a catalog, or as a record where its name is that of a file."""
    if not isinstance(model, str) or not find.is_file_of_model(model, specs):
        return model
    return find.find_model(model, specs, assume).record


def _gpu(gpu: Any, specs: str | None, found: _Files) -> Any:
    """A GPU or a pool as it is written, with the place of its file."""
    if not isinstance(gpu, str):
        return gpu
    pool = pool_of(gpu, specs)
    path = gpu.strip() if pool is None else pool.gpu
    return gpu.replace(path, found.text(path, SPEC_BYTES)) if path.endswith(ENDINGS) else gpu


# On a worker.


@contextmanager
def unpacked(files: Mapping[str, bytes]) -> Iterator[str]:
    """A folder with the files of a question, as long as they are needed; $ROOFLINE_SPECS of the worker is no part."""
    from tempfile import TemporaryDirectory

    of_worker = os.environ.pop(_VARIABLE, None)
    try:
        with TemporaryDirectory(prefix="roofline-") if files else nullcontext("") as folder:
            for place, data in files.items():
                path = Path(folder, *place.split("/"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            yield folder
    finally:
        if of_worker is not None:
            os.environ[_VARIABLE] = of_worker


def placed(value: Any, folder: str) -> Any:
    """A name or an option whose file is in a folder."""
    return value.replace(_PLACE, folder) if isinstance(value, str) else value


def as_written(text: str, folder: str, paths: Mapping[str, str]) -> str:
    """A text with the paths that the user wrote, in place of those in a folder."""
    if folder not in text:
        return text
    for place, path in paths.items():
        text = text.replace(str(Path(folder, *place.split("/"))), path)
    return text


def described(value: Any) -> Any:
    """A name or an option without the mark of its folder."""
    return value.replace(_PLACE, "own") if isinstance(value, str) else value


def catalog_fingerprint() -> str:
    """Hash of all files of the shipped catalog, in 16 hexadecimal digits."""
    import hashlib

    digest = hashlib.sha256()
    for kind in _KINDS:
        root = shipped_root(kind)
        for path in yaml_files(root):
            name = os.path.relpath(path, root).replace(os.sep, "/")
            digest.update(f"{kind}/{name}\n".encode())
            digest.update(Path(path).read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:16]
