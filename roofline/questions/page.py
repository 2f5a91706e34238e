"""A page that answers by itself, from names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.catalog import find
from roofline.outputs.files import check_target, is_stream, write_whole
from roofline.physics.plan import Deployment, Plan
from roofline.questions import catalog
from roofline.questions.inputs import arguments
from roofline.questions.inputs.arguments import listed_names, slo_limits
from roofline.questions.inputs.options import understood
from roofline.serving.quantization import NATIVE, PRESETS, resolved_quantization
from roofline.specs.gpu import Gpu, Link
from roofline.specs.model import Model
from roofline.specs.workload import OF_REQUESTS, metric_and_level
from roofline.support.errors import BadInput

if TYPE_CHECKING:
    from roofline.outputs.page.document import Parts

_Record = TypeVar("_Record")

_TIMED, _UNTIMED = "h100-sxm", "mi250x"  # GPUs of a generation whose kernels were timed, and of one whose were not
_NATIVE = "the checkpoint's own formats"
_JOINED = 8  # GPUs that the link of a planner's own joins


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
        gpus: likewise for GPUs.
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
    ...     rl.page(f"{folder}/roofline.html", "llama-3.1-8b", "h100-sxm,b200") < 2_000_000
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
    from roofline.outputs.page.document import html

    return html(*parts_of(models, gpus, specs))


def parts_of(models: list[Model], gpus: list[Gpu], specs: str | None = None) -> tuple[Parts, dict[str, Any]]:
    """What a page is made of: its texts, and the data that its script opens."""
    from roofline.outputs.page.contents import PageData
    from roofline.outputs.page.document import shipped_parts
    from roofline.outputs.page.passes import Kinds
    from roofline.outputs.page.programs import programs

    engines = [find.load_engine(name, specs) for name in find.engine_names()]
    kinds, timed = Kinds(models), find.load_gpu(_TIMED)
    sample = Deployment(models[0], timed, Plan(), resolved_quantization(models[0], timed), engine=engines[0])
    data = PageData(models, gpus, engines, find.run_by, kinds).data(_own_gpu())
    data |= {
        "version": version("roofline"),
        "built": datetime.now(UTC).date().isoformat(),
        "workloads": [*filter(None, map(_workload_row, find.workload_names()))],
        "titles": {NATIVE: _NATIVE, **{name: _title(*formats) for name, formats in PRESETS.items()}},
    }
    parts = shipped_parts()
    return parts._replace(modules={**parts.modules, "engine/programs.js": programs(kinds, sample)}), data


def _title(weights: str, cache: str | None) -> str:
    """A preset of formats in words."""
    return f"{weights} weights" + (f", {cache} KV cache" if cache else "")


def _own_gpu() -> Gpu:
    """A GPU that a planner describes by a few figures: of a generation that nobody timed, eight of them joined."""
    generic = find.load_gpu(_UNTIMED)
    link = Link("link", 1.0, _JOINED)
    return Gpu("own", (), "", "own", {"bf16": 1.0}, 1.0, 1.0, 1.0, link, calibration=generic.calibration)


def _workload_row(name: str) -> dict[str, Any] | None:
    """A named workload of requests that come one by one or from users, with its limits on means and percentiles."""
    workload = find.load_workload(name)
    limits: dict[str, Any] = {}
    for key, limit in (slo_limits(workload.slo) or {}).items() if workload.slo else ():
        metric, level = metric_and_level(key)
        if metric in OF_REQUESTS:
            limits[metric] = {"limit": limit, "level": level}
    row = {each: getattr(workload, each) for each in ("name", "title", "isl", "osl", "prefix")}
    return {**row, "slo": limits}
