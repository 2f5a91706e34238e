"""A page that answers by itself, from names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from roofline.outputs.files import check_target, is_stream, write_whole
from roofline.questions import catalog
from roofline.questions.inputs import arguments
from roofline.questions.inputs.arguments import listed_names
from roofline.questions.inputs.options import understood
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.support.errors import BadInput

_Record = TypeVar("_Record")


@understood
def page(
    path: str,
    models: str | Model | Sequence[str | Model] | None = None,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    specs: str | None = None,
    force: bool = False,
) -> int:
    """Write a page (HTML) that answers for its models and GPUs in any browser: one file, without Python or a network.

    Args:
        path: file, ending in ``.html``.
        models: one name, alias or record, or several; None for all of the catalog.
        gpus: the same of GPUs.
        specs: folder of your own specifications; default $ROOFLINE_SPECS.
        force: overwrite an existing file.

    Returns:
        Size of the page [B].

    Raises:
        UnknownName: no such model or GPU.
        BadSpec: a specification has faults.
        BadInput: a model or GPU twice under one name, or a file that exists or cannot be written.

    >>> import tempfile
    >>> import roofline as rl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rl.page(f"{folder}/roofline.html", "llama-3.1-8b", "h100-sxm,b200") < 1_000_000
    True
    """
    path = arguments.path("path", path)
    if not path.lower().endswith((".html", ".htm")) and not is_stream(path):
        raise BadInput(f"{path}: the file name must end in .html")
    specs, force = arguments.folder(specs), arguments.flag("force", force)
    check_target(path, force=force)
    named_models = catalog.models(specs) if models is None else listed_names("models", models)
    named_gpus = catalog.gpus(specs) if gpus is None else listed_names("gpus", gpus)
    model_records = [name if isinstance(name, Model) else catalog.load_model(name, specs) for name in named_models]
    gpu_records = [name if isinstance(name, Gpu) else catalog.load_gpu(name, specs) for name in named_gpus]
    text = _text(
        _distinct("models", [(record.short_name, record) for record in model_records]),
        _distinct("GPUs", [(record.name, record) for record in gpu_records]),
        specs,
    ).encode()
    write_whole(path, lambda file: file.write_bytes(text), force=force)
    return len(text)


def _distinct(kind: str, named: Iterable[tuple[str, _Record]]) -> list[_Record]:
    """Records, each once: a page knows them by their names."""
    kept: dict[str, _Record] = {}
    for name, record in named:
        if kept.setdefault(name, record) != record:
            raise BadInput(f"two {kind} are called {name}; give one of them another name")
    return list(kept.values())


def _text(models: list[Model], gpus: list[Gpu], specs: str | None) -> str:
    from roofline.outputs.page.contents import contents
    from roofline.outputs.page.document import html, shipped_parts
    from roofline.outputs.page.programs import scripts

    parts = shipped_parts()
    modules = {**parts.modules, **scripts(models, gpus, specs)}
    return html(parts._replace(modules=modules), contents(models, gpus, specs))
