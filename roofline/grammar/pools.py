"""A pool of GPUs in one word: GPU, count, plan, number format and replicas."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from roofline.errors import BadInput, UnknownName, shown
from roofline.records import dataclass
from roofline.specs.formats import is_format
from roofline.specs.names import Entry, match_name

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
    """GPUs of one kind that serve one model; None where options or the search decide."""

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
        """Keyword arguments of `predict` that the pool fixes, without replicas."""
        names = (*DEGREES, "quantization", "num_gpus")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def is_pool(text: str) -> bool:
    """Whether a text may be a pool rather than the name of a GPU; some names look like pools.

    >>> is_pool("8xh100"), is_pool("b200:tp4"), is_pool("rtx-5090")
    (True, True, False)
    """
    return ":" in text or re.fullmatch(_COUNTED, text.strip(), re.IGNORECASE) is not None


def pool_of_text(text: str) -> Pool:
    """A pool from text; plan and number format come in any order, replicas last.

    >>> pool_of_text("b200:tp4:fp8x2")
    Pool(gpu='b200', tp=4, pp=None, ep=None, dp=None, quantization='fp8', num_gpus=None, replicas=2)
    """
    whole = shown(text)
    if len(text) > _LONGEST:
        raise BadInput(f"{whole} is not a GPU; write {POOL_EXAMPLE}")
    name, *parts = text.split(":")
    counted = re.fullmatch(_COUNTED, name.strip(), re.IGNORECASE)
    fields: dict[str, Any] = {}
    if counted is not None:
        name = counted[2]
        _set_once(fields, "num_gpus", _count(counted[1], whole), whole)
    name = name.strip()
    if not name or re.fullmatch(_NO_NAME, name, re.IGNORECASE):
        raise BadInput(f"{whole} names no GPU; write {POOL_EXAMPLE}")
    for place, part in enumerate(parts):
        _read_part(re.sub(r"\s+", "", part).lower(), fields, whole, is_last=place == len(parts) - 1)
    return Pool(name, **_checked(fields, whole))


def pool_text(pool: Pool) -> str:
    """The text that `pool_of_text` reads back as the pool.

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
    """Name and count of a text such as h100x8, whose count stands where a pool cannot have it; else None.

    >>> counted_name("h100x8"), counted_name("8 h100"), counted_name("h100")
    (('h100', '8'), ('h100', '8'), None)
    """
    behind = re.fullmatch(_BEHIND, text.strip(), re.IGNORECASE)
    if behind is not None:
        return behind[1].rstrip(" -_"), behind[2]
    before = re.fullmatch(_SPACED, text.strip())
    return None if before is None else (before[2], before[1])


def counted_refusal(name: str, known: tuple[Entry, ...]) -> str | None:
    """The error message for a text such as h100x8; None for any other text."""
    counted = counted_name(name)
    with suppress(UnknownName):  # ambiguous, but a GPU all the same
        if counted is None or match_name(counted[0], known, "gpu") is None:
            return None
    gpu, n = counted or ("", "")
    return f"unknown GPU {name!r}; write {n}x{gpu} for {n} GPUs in all, or {gpu}:x{n} for {n} replicas"


def _read_part(part: str, fields: dict[str, Any], whole: str, *, is_last: bool) -> None:
    """Record what one part between colons says: plan, number format or replicas."""
    body, count = part, None
    if not is_format(part):
        times = re.fullmatch(_TIMES, part)
        if times is not None:
            body, count = times.groups()
    if count is not None:
        if not is_last:
            raise BadInput(f"replicas come last: {shown(part)} in {whole} is not the last part; write {POOL_EXAMPLE}")
        _set_once(fields, "replicas", _count(count, whole), whole)
        if not body:
            return
    if re.fullmatch(_PLAN, body):
        for name, degree in re.findall(_DEGREE, body):
            _set_once(fields, name, _count(degree, whole), whole)
        return
    if body != _NATIVE and not is_format(body):
        hint = ""
        if body.isdecimal():
            hint = f" (x{body} for {body} replicas, or {body}x before the name for {body} GPUs in all)"
        raise BadInput(
            f"{shown(body)} in {whole} is neither a plan (tp4, tp4pp2), a number format (fp8) nor replicas (x2)"
            f"{hint}; write {POOL_EXAMPLE}"
        )
    _set_once(fields, "quantization", body, whole)


def _set_once(fields: dict[str, Any], name: str, value: Any, whole: str) -> None:
    if name in fields:
        what = {"quantization": "the number format", "num_gpus": "the number of GPUs"}.get(name, name)
        raise BadInput(f"{what} is stated twice in {whole}; leave one out")
    fields[name] = value


def _count(digits: str, whole: str) -> int:
    count = int(digits)
    if count < 1:
        raise BadInput(f"{digits} in {whole} must be at least 1; write {POOL_EXAMPLE}")
    return count


def _checked(fields: dict[str, Any], whole: str) -> dict[str, Any]:
    """The fields of a pool whose parts agree; GPU count and replicas together imply a tp that is not fields."""
    if "num_gpus" not in fields or "replicas" not in fields:
        return fields
    others = fields.get("pp", 1) * fields.get("dp", 1)
    gpus_each, rest = divmod(fields["num_gpus"], fields["replicas"])
    tp, more = divmod(gpus_each, others)
    if rest or more or not tp or fields.get("tp", tp) != tp:
        of_one = f"{fields.get('tp', 1) * others} GPUs" if "tp" in fields else f"a multiple of {others} GPUs"
        raise BadInput(
            f"{whole} disagrees with itself: {fields['num_gpus']} GPUs are not {fields['replicas']} replicas of "
            f"{of_one}; leave out the number in front, or the replicas"
        )
    return {**fields, "tp": tp}
