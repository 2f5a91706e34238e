"""Hardware that does not exist: a GPU with other figures than its specification states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from roofline.numbers.quantity import BILLION, TERA, from_text, to_text
from roofline.specs.formats import PEAKS
from roofline.specs.gpu import NO_LINK, Gpu, Link
from roofline.specs.names import fold
from roofline.support.errors import BadInput, did_you_mean, shown
from roofline.support.records import NamedTuple, replace

#: Figure of a GPU's file that can be set -> dimension, and the range of plausible values.
FIGURES: Mapping[str, tuple[str, str, str]] = {
    "exp_per_s": ("exp/s", "10 Gexp/s", "1 Pexp/s"),
    "cache": ("B", "100 kB", "100 GB"),
    "memory.label": ("B", "1 GB", "10 TB"),
    "memory.usable": ("B", "1 GB", "10 TB"),
    "memory.bandwidth": ("B/s", "10 GB/s", "100 TB/s"),
    "scale_up.bandwidth": ("B/s", "1 GB/s", "10 TB/s"),
    "scale_up.peer_bandwidth": ("B/s", "1 GB/s", "10 TB/s"),
    "scale_out.bandwidth": ("B/s", "0.1 GB/s", "10 TB/s"),
    "host_link.bandwidth": ("B/s", "0.1 GB/s", "10 TB/s"),
    "power": ("W", "5 W", "10 kW"),
}
#: The same of a dense peak.
PEAK = ("FLOP/s", "1 TFLOP/s", "100 PFLOP/s")
#: Mark of a GPU with figures of one's own.
CHANGED = "*"

_DOMAIN = "scale_up.domain"
_MOST_GPUS = 100_000
_BINARY = 1.08  # GiB over GB, and what rounding adds
_DIGITS = 20  # of a number of GPUs in a text
_LARGEST = BILLION**30
_FARTHEST = 50.0  # ratio to the figure of the specification beyond which the unit must be wrong
_PATHS = (*(f"peak.{dtype}" for dtype in PEAKS), *FIGURES, _DOMAIN)
#: Figure -> field of the record that holds it.
_FIELDS = {
    "exp_per_s": "exp_rate", "cache": "cache", "memory.label": "memory_label", "memory.usable": "memory",
    "memory.bandwidth": "bandwidth", "scale_out.bandwidth": "scale_out", "host_link.bandwidth": "host_link",
    "power": "power",
}  # fmt: skip
_EXAMPLE = "memory.bandwidth=12TB/s or h100-sxm.peak.fp8=2PFLOP/s"


class Setting(NamedTuple):
    """A figure that is set."""

    gpu: str  # whose, as named; empty: of every GPU
    path: str  # as in a GPU's file
    value: float  # [SI], a whole number of GPUs for the domain


def settings_of(value: Any) -> tuple[Setting, ...]:
    """Settings from a text such as ``memory.bandwidth=12TB/s,peak.fp8=2PFLOP/s``, or from a mapping of its pairs.

    Args:
        value: text or mapping; numbers in a mapping are in SI units; a path may begin with the name of a GPU.

    Raises:
        BadInput: an unknown figure, a value that cannot be read, or a figure that is set twice.

    >>> settings_of("b200.memory.bandwidth=12TB/s")
    (Setting(gpu='b200', path='memory.bandwidth', value=12000000000000.0),)
    """
    if value is None:
        return ()
    pairs: list[tuple[Any, Any]]
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        if not parts or any(not (path.strip() and equals and text.strip()) for path, equals, text in parts):
            raise BadInput(f"set = {shown(value)} must be figures with their values, such as {_EXAMPLE}")
        pairs = [(path.strip(), text.strip()) for path, _, text in parts]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        raise BadInput(f"set = {shown(value)} must be a text or a mapping, such as {_EXAMPLE}")
    return once(tuple(_setting(path, given) for path, given in pairs))


def once(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """The settings, none of which may be of the same figure as another."""
    for place, setting in enumerate(settings):
        if any(setting[:2] == other[:2] for other in settings[:place]):
            raise BadInput(f"set: {setting.path} is set twice" + (f" for {setting.gpu}" if setting.gpu else ""))
    return settings


def _setting(path: Any, given: Any) -> Setting:
    if not isinstance(path, str):
        raise BadInput(f"set: {shown(path)} must be the path of a figure, such as {_EXAMPLE}")
    known = next((known for known in _PATHS if path == known or path.endswith(f".{known}")), None)
    if known is None:
        from difflib import get_close_matches

        near = [each for each in _PATHS if path in each.split(".")] or get_close_matches(path, _PATHS, 3, 0.5)
        hint = did_you_mean(near) or f"; choose from {', '.join(_PATHS)}"
        raise BadInput(f"set: {shown(path)} is not a figure that can be set{hint}")
    gpu = path[: -len(known)].removesuffix(".")
    if path != known and (not gpu.strip() or gpu.endswith(".")):
        raise BadInput(f"set: {shown(path)} has a dot too many; write {known}, or the name of a GPU before it")
    if known == _DOMAIN:
        return Setting(gpu, known, _count(path, given))
    unit, low, high = FIGURES.get(known, PEAK)
    number = _number(path, unit, given)
    if not from_text(low, unit) <= number <= from_text(high, unit):
        raise BadInput(f"set: {path} = {to_text(number, unit)} is not between {low} and {high}; check the unit")
    return Setting(gpu, known, number)


def _number(path: str, unit: str, given: Any) -> float:
    given = given.item() if hasattr(given, "item") else given  # numpy's numbers
    if type(given) in (int, float) and -_LARGEST < given < _LARGEST:
        return float(given)
    if not isinstance(given, str):
        raise BadInput(f"set: {path} = {shown(given)} must be a number with its unit, such as {to_text(TERA, unit)}")
    try:
        return from_text(given, unit)
    except BadInput as error:
        raise BadInput(f"set: {path}: {error}") from None


def _count(path: str, given: Any) -> float:
    given = given.item() if hasattr(given, "item") else given
    is_whole = type(given) is int or (isinstance(given, str) and given.isdecimal() and len(given) < _DIGITS)
    number = int(given) if is_whole else 0
    if not 1 <= number <= _MOST_GPUS:
        raise BadInput(f"set: {path} = {shown(given)} must be a whole number of GPUs, at least 1")
    return float(number)


def what_if(gpu: Gpu, settings: tuple[Setting, ...]) -> Gpu:
    """The GPU with figures of one's own, named ``b200*``; settings must be of this GPU.

    Without the other of both, the label and the usable memory keep their ratio. Kernels keep the efficiencies of the
    GPU, the price stays.

    >>> import roofline as rl
    >>> what_if(rl.load_gpu("b200"), settings_of("memory.bandwidth=12TB/s"))
    <Gpu b200*: 2.25 PFLOP/s bf16, 12 TB/s, 192 GB>
    """
    values = {setting.path: setting.value for setting in settings if setting.value != _stated(gpu, setting.path)}
    if not values:
        return gpu
    changes: dict[str, Any] = {_FIELDS[path]: value for path, value in values.items() if path in _FIELDS}
    peaks = {path.partition(".")[2]: value for path, value in values.items() if path.startswith("peak.")}
    changes["peaks"] = {**gpu.peaks, **peaks}
    _check_units(gpu, values)
    stated = {setting.path for setting in settings}  # also what the GPU has already
    if "memory" in changes and "memory.label" not in stated:
        changes["memory_label"] = gpu.memory_label * changes["memory"] / gpu.memory
    elif "memory_label" in changes and "memory.usable" not in stated:
        changes["memory"] = gpu.memory * changes["memory_label"] / gpu.memory_label
    usable, label = changes.get("memory", gpu.memory), changes.get("memory_label", gpu.memory_label)
    if usable > label * _BINARY:
        raise BadInput(f"set: memory.usable = {to_text(usable, 'B')} is more than the label of {to_text(label, 'B')}")
    if any(path.startswith("scale_up.") for path in values):
        changes["link"] = _link(gpu, values)
    name = gpu.name.rstrip(CHANGED)
    said = f"{name}{CHANGED}: {', '.join(_said(gpu, values))}"
    price = gpu.price
    if price is not None and gpu.name == name:
        price = price._replace(source=f"of {name}: {price.source}")
    return replace(gpu, **changes, name=f"{name}{CHANGED}", price=price, cautions=(*gpu.cautions, said))


def changed(gpu: Gpu, settings: tuple[Setting, ...]) -> Gpu:
    """The GPU with figures of one's own, all of which must be of this GPU."""
    own = own_of(settings, gpu)
    foreign = [setting.gpu for setting in settings if setting.gpu and setting not in own]
    if foreign:
        raise BadInput(f"set names {foreign[0]}, which is not the GPU asked about: {gpu.name}")
    return what_if(gpu, own)


def _check_units(gpu: Gpu, values: Mapping[str, float]) -> None:
    """Refuse what is so far from the specification that its unit must be wrong."""
    for path, value in values.items():
        old, unit = _stated(gpu, path), FIGURES.get(path, PEAK)[0]
        if path != _DOMAIN and old and not 1.0 / _FARTHEST <= value / old <= _FARTHEST:
            raise BadInput(
                f"set: {path} = {to_text(value, unit)}, where {gpu.name} has {to_text(old, unit)}; check the unit"
            )


def _stated(gpu: Gpu, path: str) -> float | None:
    """A figure of a GPU [SI]; None where it has none."""
    group, _, name = path.partition(".")
    if path in _FIELDS:
        found: float | None = getattr(gpu, _FIELDS[path])
    elif group == "peak":
        found = gpu.peaks.get(name)
    else:
        found = None if gpu.link.kind == NO_LINK else getattr(gpu.link, name)
    return found


def _link(gpu: Gpu, values: Mapping[str, float]) -> Link:
    figures: dict[str, Any] = {
        path.partition(".")[2]: value for path, value in values.items() if path.startswith("scale_up.")
    }
    if gpu.link.kind == NO_LINK and not {"bandwidth", "domain"} <= set(figures):
        raise BadInput(f"set: {gpu.name} has no scale-up link; set both scale_up.bandwidth and scale_up.domain")
    if "domain" in figures:
        figures["domain"] = int(figures["domain"])
    peer = gpu.link.peer_bandwidth
    if peer is not None and "bandwidth" in figures and "peer_bandwidth" not in figures:
        figures["peer_bandwidth"] = peer * figures["bandwidth"] / gpu.link.bandwidth
    kind = "scale-up" if gpu.link.kind == NO_LINK else gpu.link.kind
    return replace(gpu.link, kind=kind, **figures)


def _said(gpu: Gpu, values: Mapping[str, float]) -> Iterator[str]:
    """What was set, and what the specification states."""
    for path, value in values.items():
        unit = FIGURES.get(path, PEAK)[0]
        stated = [each for each in (value, _stated(gpu, path)) if each]
        texts = [f"{each:g}" if path == _DOMAIN else to_text(float(each), unit) for each in stated]
        yield f"{path} set to {texts[0]}" + (f" instead of {texts[1]}" if len(texts) > 1 else "")


def is_change(caution: str, mark: str) -> bool:
    """Whether a caution of a GPU says what was set; `mark` is its name with a colon."""
    return mark.endswith(f"{CHANGED}: ") and caution.startswith(mark)


def own_of(settings: tuple[Setting, ...], gpu: Gpu) -> tuple[Setting, ...]:
    """The settings that are of this GPU: those that name none, and those that name it, which win."""
    names = {fold(name) for name in (gpu.name.rstrip(CHANGED), *gpu.aliases)}
    own = [setting for setting in settings if setting.gpu and fold(setting.gpu) in names]
    paths = {setting.path for setting in own}
    return (*(setting for setting in settings if not setting.gpu and setting.path not in paths), *own)
