"""A pool of GPUs in one word: which GPU, how many, its plan, its number format, its replicas."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from roofline.errors import BadInput, UnknownName, shown
from roofline.records import dataclass
from roofline.specs.formats import is_format
from roofline.specs.names import Entry, match_name

__all__ = [
    "DEGREES",
    "POOL_EXAMPLE",
    "Pool",
    "counted_name",
    "counted_refusal",
    "is_pool",
    "pool_of_text",
    "pool_text",
]

#: Parallel degrees that a pool may state.
DEGREES = ("tp", "pp", "ep", "dp")

#: What a pool looks like.
POOL_EXAMPLE = "8xh100, b200:tp4 or b200:tp4:fp8x2 (GPU, plan, format, replicas)"

_COUNTED = r"([0-9]{1,6})\s*[x\u00d7*]\s*(\S.*)"
_NO_NAME = r"[0-9]+\s*[x\u00d7*]"
_BEHIND = r"(\S.*?)\s*[x\u00d7*]\s*([0-9]{1,6})"
_SPACED = r"([0-9]{1,6})\s+(\S.*)"
_TIMES = r"(.*?)[x\u00d7*]([0-9]{1,6})"
_PLAN = r"(?:(?:tp|pp|ep|dp)=?[0-9]{1,6})+"
_DEGREE = r"(tp|pp|ep|dp)=?([0-9]+)"
_NATIVE = "native"  # the checkpoint's own formats
_LONGEST = 500  # characters


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs of one kind that run a model alike; None is left to the options or to the search."""

    gpu: str  # name, alias or path
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    dp: int | None = None
    quantization: str | None = None  # preset of number formats
    num_gpus: int | None = None  # GPUs of all replicas
    replicas: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What it states of the keyword arguments of `predict`, replicas apart."""
        names = (*DEGREES, "quantization", "num_gpus")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def is_pool(text: str) -> bool:
    """Whether a text may be more than the name of a GPU; the name of one may look so, too.

    Args:
        text: as given [text].

    Returns:
        True or false.

    >>> is_pool("8xh100"), is_pool("b200:tp4"), is_pool("rtx-5090")
    (True, True, False)
    """
    return ":" in text or re.fullmatch(_COUNTED, text.strip(), re.IGNORECASE) is not None


def pool_of_text(text: str) -> Pool:
    """A pool from text.

    Args:
        text: such as ``h100``, ``8xh100`` (8 GPUs in all), ``b200:tp4pp2:fp8`` or ``b200:tp4:fp8x2`` (two replicas);
            plan and format in any order [text].

    Returns:
        The pool.

    Raises:
        BadInput: a part that is none of these, or that is stated twice.

    >>> pool_of_text("b200:tp4:fp8x2")
    Pool(gpu='b200', tp=4, pp=None, ep=None, dp=None, quantization='fp8', num_gpus=None, replicas=2)
    """
    whole = shown(text)
    if len(text) > _LONGEST:
        raise BadInput(f"{whole} is not a GPU; write {POOL_EXAMPLE}")
    name, *parts = text.split(":")
    counted = re.fullmatch(_COUNTED, name.strip(), re.IGNORECASE)
    stated: dict[str, Any] = {}
    if counted is not None:
        name = counted[2]
        _state(stated, "num_gpus", _count(counted[1], whole), whole)
    name = name.strip()
    if not name or re.fullmatch(_NO_NAME, name, re.IGNORECASE):
        raise BadInput(f"{whole} names no GPU; write {POOL_EXAMPLE}")
    for place, part in enumerate(parts):
        _read_part(re.sub(r"\s+", "", part).lower(), stated, whole, is_last=place == len(parts) - 1)
    return Pool(name, **_checked(stated, whole))


def pool_text(pool: Pool) -> str:
    """The text of a pool, which reads as the same pool.

    Args:
        pool: the record.

    Returns:
        Text such as ``8xb200:tp4:fp8`` [text].

    >>> pool_text(Pool("b200", tp=4, quantization="fp8", replicas=2))
    'b200:tp4:fp8x2'
    """
    plan = "".join(f"{name}{getattr(pool, name)}" for name in DEGREES if getattr(pool, name) is not None)
    parts = [part for part in (plan, pool.quantization) if part]
    if pool.replicas is not None:
        parts = [*parts[:-1], f"{parts[-1] if parts else ''}x{pool.replicas}"]
    count = "" if pool.num_gpus is None else f"{pool.num_gpus}x"
    return ":".join((count + pool.gpu, *parts))


def counted_name(text: str) -> tuple[str, str] | None:
    """Name and number of a text that puts a number of GPUs where no pool has it.

    Args:
        text: such as ``h100x8`` or ``8 h100`` [text].

    Returns:
        Name and number [text]; None for any other text.

    >>> counted_name("h100x8"), counted_name("8 h100"), counted_name("h100")
    (('h100', '8'), ('h100', '8'), None)
    """
    behind = re.fullmatch(_BEHIND, text.strip(), re.IGNORECASE)
    if behind is not None:
        return behind[1].rstrip(" -_"), behind[2]
    before = re.fullmatch(_SPACED, text.strip())
    return None if before is None else (before[2], before[1])


def counted_refusal(name: str, known: tuple[Entry, ...]) -> str | None:
    """The refusal of a name with a number of GPUs where no pool has it, such as h100x8.

    Args:
        name: what was asked for [text].
        known: all GPUs [record].

    Returns:
        The message; None where the name is none with a number [text].
    """
    counted = counted_name(name)
    with suppress(UnknownName):  # several begin so: they are still GPUs
        if counted is None or match_name(counted[0], known, "gpu") is None:
            return None
    gpu, n = counted or ("", "")
    return f"unknown GPU {name!r}; write {n}x{gpu} for {n} GPUs in all, or {gpu}:x{n} for {n} replicas"


def _read_part(part: str, stated: dict[str, Any], whole: str, *, is_last: bool) -> None:
    """Plan, format or replicas of one part between colons."""
    body, count = part, None
    if not is_format(part):
        times = re.fullmatch(_TIMES, part)
        if times is not None:
            body, count = times.groups()
    if count is not None:
        if not is_last:
            raise BadInput(f"replicas come last: {shown(part)} in {whole} is not the last part; write {POOL_EXAMPLE}")
        _state(stated, "replicas", _count(count, whole), whole)
        if not body:
            return
    if re.fullmatch(_PLAN, body):
        for name, degree in re.findall(_DEGREE, body):
            _state(stated, name, _count(degree, whole), whole)
        return
    if body != _NATIVE and not is_format(body):
        hint = ""
        if body.isdecimal():
            hint = f" (x{body} for {body} replicas, or {body}x before the name for {body} GPUs in all)"
        raise BadInput(
            f"{shown(body)} in {whole} is neither a plan (tp4, tp4pp2), a number format (fp8) nor replicas (x2)"
            f"{hint}; write {POOL_EXAMPLE}"
        )
    _state(stated, "quantization", body, whole)


def _state(stated: dict[str, Any], name: str, value: Any, whole: str) -> None:
    if name in stated:
        what = {"quantization": "the number format", "num_gpus": "the number of GPUs"}.get(name, name)
        raise BadInput(f"{what} is stated twice in {whole}; leave one out")
    stated[name] = value


def _count(digits: str, whole: str) -> int:
    count = int(digits)
    if count < 1:
        raise BadInput(f"{digits} in {whole} must be at least 1; write {POOL_EXAMPLE}")
    return count


def _checked(stated: dict[str, Any], whole: str) -> dict[str, Any]:
    """Parts that agree; GPUs and replicas together say the tp where the plan leaves it open."""
    if "num_gpus" not in stated or "replicas" not in stated:
        return stated
    others = stated.get("pp", 1) * stated.get("dp", 1)
    each, rest = divmod(stated["num_gpus"], stated["replicas"])
    tp, more = divmod(each, others)
    if rest or more or not tp or stated.get("tp", tp) != tp:
        of_one = f"{stated.get('tp', 1) * others} GPUs" if "tp" in stated else f"a multiple of {others} GPUs"
        raise BadInput(
            f"{whole} disagrees with itself: {stated['num_gpus']} GPUs are not {stated['replicas']} replicas of "
            f"{of_one}; leave out the number in front, or the replicas"
        )
    return {**stated, "tp": tp}
