"""Cases kept in files: what was asked, as texts under the names of the options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roofline.catalog.entries import yaml_scalar
from roofline.catalog.yaml import fault_text, read_untrusted
from roofline.outputs.files import write_whole
from roofline.questions.inputs.arguments import slo_limits, with_p99_within
from roofline.questions.inputs.options import ALL, FLAG, IN_PYTHON, OPTIONS, SPELLINGS, Option
from roofline.questions.listing import workload_options
from roofline.specs.load import LASTING
from roofline.support.errors import BadInput, BadSpec, RooflineError, did_you_mean, shown

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import SavedCase

#: Keys of a case beside the options.
NAMES = ("model", "gpu")

_HEAD = "# A case of roofline: roofline predict --case FILE, or rl.predict(**rl.load_case(FILE)).\n"


def load_case(path: str | Path) -> SavedCase:
    """Keyword arguments of `predict` from a file that ``--save`` wrote, or that was written by hand.

    The file is YAML: ``model``, ``gpu`` and options by their names (or vLLM's), with values as in the shell:
    ``isl: 4k``, ``slo: ttft:300@p95,tpot:25``, ``workload: chat``. Several values are a list, or joined by commas.

    Args:
        path: path of the file.

    Returns:
        Arguments in SI, as `predict` takes them; ``gpu`` is a list where the file names several.

    Raises:
        BadSpec: the file cannot be read, or names no option.
        BadInput: a value cannot be read.

    >>> import pathlib, tempfile
    >>> import roofline as rl
    >>> file = pathlib.Path(tempfile.mkdtemp(), "chat.yaml")
    >>> _ = file.write_text("{model: llama-3.1-8b, gpu: h100-sxm, workload: 2k/200, concurrency: 8, network: 20}")
    >>> case = rl.load_case(file)
    >>> case["isl"], case["network"], rl.predict(**case).concurrency
    (2048, 0.02, 8.0)
    """
    texts = case_texts(path)
    options: dict[str, Any] = {}
    for name, value in texts.items():
        if name in NAMES:
            names = [part.strip() for part in str(value).split(",")]
            options[name] = names[0] if len(names) == 1 else names
        else:
            options[name] = _value(OPTIONS[name], value)
    return cast("SavedCase", in_python(options))


def in_python(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options as Python takes them: what the shell alone has (`IN_PYTHON`) said in its way, a text read as there."""
    options = {
        name: _value(OPTIONS[name], value) if name in IN_PYTHON and isinstance(value, str) else value
        for name, value in values.items()
    }
    if options.pop("enable_expert_parallel", None):
        options["ep"] = ALL
    if options.pop("enable_eplb", None):
        options.setdefault("eplb", 0)
    workload, within = options.pop("workload", None), options.pop("p99_within", None)
    if isinstance(workload, tuple):
        options["isl"], options["osl"] = workload
    elif workload is not None:
        is_loaded = any(name in options for name in LASTING)
        options = {**workload_options(workload, options.get("specs"), loaded=is_loaded), **options}
    if within is not None:
        options["slo"] = with_p99_within(slo_limits(options.get("slo")), within)
    return options


def case_texts(path: str | Path) -> dict[str, str | bool]:
    """What a file states, as texts of the shell under the names of the options; True for a flag."""
    file = str(path)
    document, lines, faults = read_untrusted(file)
    if faults:
        raise BadSpec(faults[0])
    if not isinstance(document, Mapping):
        raise BadSpec(fault_text(file, 1, "a case is a mapping of options, such as model: llama-3.1-8b"))
    texts: dict[str, str | bool] = {}
    for key, value in document.items():
        name = str(key).replace("-", "_")
        name = name if name in (*NAMES, *OPTIONS) else SPELLINGS.get(name, name)
        line = lines.get((key,), 1)
        if name not in (*NAMES, *OPTIONS):
            from difflib import get_close_matches

            near = did_you_mean(get_close_matches(name, [*NAMES, *OPTIONS, *SPELLINGS], 3))
            raise BadSpec(fault_text(file, line, f"unknown option {shown(key)}{near}"))
        if name in texts:
            raise BadSpec(fault_text(file, line, f"{name} is stated twice"))
        if value is None:
            continue
        try:
            text = _text(name, value)
        except BadInput as error:
            raise BadSpec(fault_text(file, line, str(error))) from None
        if text is not False:
            texts[name] = text
    return texts


def write_case(path: str, texts: Mapping[str, str | bool], *, force: bool = False) -> None:
    """Write what was asked to a file that `load_case` reads."""
    if not path.lower().endswith((".yaml", ".yml")):
        raise BadInput(f"{path}: a case is YAML; end the name in .yaml")
    lines = [f"{name}: {yaml_scalar(value)}\n" for name, value in texts.items()]
    text = _HEAD + "".join(lines)
    write_whole(path, lambda file: file.write_text(text, encoding="utf-8"), force=force)


def _text(name: str, value: Any) -> str | bool:
    """A value of a file as the shell spells it."""
    is_flag = name in OPTIONS and OPTIONS[name].value is FLAG
    if isinstance(value, bool):
        if not is_flag:
            raise BadInput(f"{name}: {str(value).lower()} is neither a number nor a text; write it in quotes")
        return value
    if is_flag:
        raise BadInput(f"{name}: write true or false")
    if isinstance(value, (int, float, str)):
        return str(value)
    if isinstance(value, list) and all(isinstance(part, (int, float, str)) for part in value) and value:
        return ",".join(map(str, value))
    if isinstance(value, Mapping) and value:
        joint = "=" if name in ("measured", "set") else ":"
        return ",".join(f"{key}{joint}{part}" for key, part in value.items())
    raise BadInput(f"{name}: {shown(value)} is not a value; write it as in the shell")


def _value(option: Option, text: str | bool) -> Any:
    """What a text stands for in Python."""
    value = option.value
    if isinstance(text, bool):
        return text
    try:
        if "," in text and value.read_all is not None:
            return value.read_all(text)
        return (value.in_shell or value.read or str)(text)
    except RooflineError as error:
        raise BadInput(f"{option.name}: {error}") from None
