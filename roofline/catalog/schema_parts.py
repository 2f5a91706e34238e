"""Parts of the schemas of specification files, and schemas made of records.

pydantic is imported here, in the schemas and in `checks` alone, which only users' files need.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from roofline.errors import BadInput, printable
from roofline.quantity import BILLION, from_text
from roofline.specs.figures import Bytes, Seconds, Share
from roofline.specs.formats import FORMATS, STORED_BITS, is_format
from roofline.specs.names import name_fault


def _check_name(value: str) -> str:
    fault = name_fault(value)
    if fault is not None:
        raise PydanticCustomError("name", "{fault}", {"fault": fault})
    return value


def _check_line(value: str) -> str:
    """One line of prose in any alphabet, without control characters."""
    for character in value:
        if not (character.isprintable() or character in _JOINERS or unicodedata.category(character) == "Zs"):
            text = f"text must be printable; found {printable(character)}"
            raise PydanticCustomError("text", "{fault}", {"fault": text})
    return value


def _check_prose(value: str) -> str:
    """Prose of several lines."""
    for line in value.split("\n"):
        _check_line(line)
    return value


_JOINERS = "\u200c\u200d"  # part of words in Persian, Hindi and others

Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
_NameOrNone = Annotated[str, Field(max_length=200), AfterValidator(lambda value: value and _check_name(value))]
Title = Annotated[str, Field(max_length=2000), AfterValidator(_check_line)]
Prose = Annotated[str, Field(max_length=20_000), AfterValidator(_check_prose)]
Count = Annotated[int, Field(ge=1, le=int(BILLION))]
WholeNumber = Annotated[int, Field(ge=0, le=int(BILLION))]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(gt=0.0, le=1.0)]
#: Standard deviation of ln(predicted / measured); 5 is a factor of 148.
Deviation = Annotated[float, Field(gt=0.0, le=5.0, allow_inf_nan=False)]


class OneOf:
    """Annotation: a text that is one of the names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema([*self._names])


class FormatOfWeights:
    """Annotation: a number format of weights, or bits per weight, such as ``4.9bpw``."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._check, core_schema.literal_schema([*FORMATS]))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        bits = rf"^(({'|'.join(FORMATS)})@)?[0-9]{{1,3}}(\.[0-9]{{1,6}})?bpw$"
        return {"anyOf": [{"enum": [*FORMATS]}, {"enum": [*STORED_BITS]}, {"pattern": bits}], "type": "string"}

    def _check(self, value: object, handler: Any) -> Any:
        is_plain = isinstance(value, str) and value == value.strip().lower()
        is_stored = is_plain and (value in STORED_BITS or (str(value).endswith("bpw") and is_format(str(value))))
        return value if is_stored else handler(value)


class Quantity:
    """Annotation: a quantity of one dimension, as a text with its unit."""

    def __init__(self, dimension: str) -> None:
        self._dimension = dimension

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {**handler(schema), "dimension": self._dimension}

    def _check(self, value: object) -> object:
        return check_readable(from_text, value, self._dimension)


def check_readable(read: Callable[..., object], value: object, *arguments: str) -> object:
    """The value itself if `read` accepts it, else its `BadInput` as an error of pydantic."""
    if isinstance(value, str):
        _check_line(value)
    try:
        read(value, *arguments)
    except BadInput as fault:
        raise PydanticCustomError("quantity", "{fault}", {"fault": str(fault)}) from None
    return value


class Strict(BaseModel):
    """No silent conversion, no unknown key."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Cited(Strict):
    """Where something comes from."""

    source: Name
    note: Prose | None = None
    confidence: Literal["high", "medium", "low"] | None = None


_DATE = r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?"


def _check_date(value: object) -> object:
    """A day, month or year as text; YAML turns days into dates."""
    if isinstance(value, dt.datetime) or not isinstance(value, (dt.date, str)):
        raise PydanticCustomError("date", "a date must be written as 2026-11-21, 2026-11 or '2026'", {})
    if isinstance(value, str) and not re.fullmatch(_DATE, value, re.ASCII):
        text = "{value} is not a date; write it as 2026-11-21, 2026-11 or '2026'"
        raise PydanticCustomError("date", text, {"value": printable(value)})
    return str(value)


Date = Annotated[str, BeforeValidator(_check_date)]


class _Source(Strict):
    title: Annotated[Title, Field(min_length=1)]
    url: Title | None = None
    date: Date
    engines: list[Name] | None = None
    gpus: list[Name] | None = None


class Document(Strict):
    """What every file has."""

    name: Name
    sources: dict[Name, _Source] = Field(min_length=1)
    notes: list[Prose] = []


#: Type of a field in a record -> type in a file.
_FILE_TYPES: dict[Any, Any] = {
    int: Count,
    str: Name,
    float: Positive,
    Any: Positive,
    Seconds: Annotated[str, Quantity("s")],
    Bytes: Annotated[str, Quantity("B")],
    Share: Fraction,
}
_EMPTY_TYPES = {int: WholeNumber, str: _NameOrNone}  # the same for fields with a default of zero or ""


def of_record(
    record: type,
    otherwise: Mapping[str, tuple[Any, Any]],
    *,
    base: type[Strict] = Strict,
    without: Collection[str] = (),
    nulls: bool | None = None,
    fault: Callable[[Any], str | None] | None = None,
) -> type[Strict]:
    """Schema of a record in a file: its fields with their types and defaults, named and described like the record.

    Whole numbers are positive, or not negative where zero is the default; times are texts with units; shares lie in
    (0, 1]; other numbers are positive and finite. `otherwise` has type and default of fields that differ, or that only
    files have; `without` names fields that no file has. `nulls` says whether fields with a default may be null (None:
    those that may be None in the record). `fault` checks the fields together.
    """
    hints = get_type_hints(record, include_extras=True)
    members: dict[str, Any] = {name: kind for name, kind in otherwise.items() if name not in hints}
    for field in fields(record):
        hint, default = hints[field.name], field.default
        parts = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        types = [_file_type(part, default) for part in parts if part is not NoneType]
        if default is not MISSING and (NoneType in parts if nulls is None else nulls):
            types.append(NoneType)
        # times are texts in a file, so that the default of the record cannot be that of the file
        members[field.name] = (
            reduce(or_, types),
            ... if default is MISSING else None if hint in {Seconds, Bytes} else default,
        )
    members.update(otherwise)
    checks: dict[str, Any] = {} if fault is None else {"_check": model_validator(mode="after")(_raising(fault))}
    schema: type[Strict] = create_model(
        record.__name__,
        __base__=base,
        __doc__=record.__doc__,
        __validators__=checks,
        **{name: kind for name, kind in members.items() if name not in without},
    )
    return schema


def _file_type(hint: Any, default: Any) -> Any:
    file_type = _FILE_TYPES.get(hint, hint)
    return _EMPTY_TYPES.get(hint, file_type) if default in {0, ""} else file_type


def _raising(fault: Callable[[Any], str | None]) -> Callable[[Any], Any]:
    """Validator that raises what `fault` returns."""

    def check(value: Any) -> Any:
        text = fault(value)
        if text is not None:
            raise PydanticCustomError("fields", "{fault}", {"fault": text})
        return value

    return check
