"""Records are what the standard library's dataclasses and named tuples would be, made in another way."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import pprint
import typing
from collections.abc import Mapping
from dataclasses import FrozenInstanceError

import pytest

import roofline
from roofline.specs.gpu import Gpu
from roofline.support import records

SPELLED = """
from __future__ import annotations
from {home} import {names}

@dataclass(frozen=True, slots=True)
class Slotted:
    '''Of three.'''
    first: int
    second: float | None = None
    third: tuple[int, ...] = ()

    @property
    def twice(self) -> int:
        return 2 * self.first

@dataclass(frozen=True)
class Open:
    first: int
    hidden: str = field(repr=False)
    held: list[int] = field(default_factory=list)
    aside: int = field(default=3, compare=False)

@dataclass(frozen=True, kw_only=True, repr=False)
class Named:
    second: int = 2
    first: int

@dataclass(frozen=True, kw_only=True)
class Child(Named):
    third: int = 3

@dataclass(slots=True)
class Changing:
    first: int
    held: list[int] = field(default_factory=list)

@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    first: int = 1

@dataclass(frozen=True, slots=True)
class Empty:
    pass

@dataclass(frozen=True)
class One:
    only: float
"""
ARGUMENTS = {
    "Slotted": [((1,), {}), ((1, 2.0, (3,)), {}), ((1,), {"third": (4,)})],
    "Open": [((1, "a"), {}), ((1, "a", [2], 4), {}), ((1, "b"), {"aside": 7})],
    "Named": [((), {"first": 1}), ((), {"first": 1, "second": 5})],
    "Child": [((), {"first": 1}), ((), {"first": 1, "third": 5})], "Changing": [((1,), {}), ((1, [2]), {})],
    "Itself": [((), {}), ((1,), {})], "Empty": [((), {}), ((), {})], "One": [((2.0,), {}), ((1.0,), {})],
}  # fmt: skip


def spelled(home, names):
    """The same classes, made by another library."""
    import sys
    from types import ModuleType

    name = f"spelled_with_{home.replace('.', '_')}"
    module = sys.modules[name] = ModuleType(name)
    exec(SPELLED.format(home=home, names=names), vars(module))
    return module


OURS, THEIRS = (spelled(home, "dataclass, field") for home in ("roofline.support.records", "dataclasses"))


def pairs():
    return [pytest.param(getattr(OURS, name), getattr(THEIRS, name), ARGUMENTS[name], id=name) for name in ARGUMENTS]


def built(cls, arguments):
    return [cls(*args, **named) for args, named in arguments]


@pytest.mark.parametrize(("ours", "theirs", "arguments"), pairs())
def test_a_record_does_what_a_dataclass_does(ours, theirs, arguments):
    mine, standard = built(ours, arguments), built(theirs, arguments)
    if ours.__repr__ is not object.__repr__ and " object at " not in repr(standard[0]):
        assert list(map(repr, mine)) == list(map(repr, standard))
        assert list(map(pprint.pformat, mine)) == list(map(pprint.pformat, standard))
    for name in ours.__record_fields__:
        assert str([getattr(one, name) for one in mine]) == str([getattr(one, name) for one in standard])
    again, also = built(ours, arguments), built(theirs, arguments)
    assert [[one == other for other in again] for one in mine] == [[one == other for other in also] for one in standard]
    assert mine[0] != standard[0] and mine[0].__eq__(standard[0]) is NotImplemented
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if ours.__hash__ is not None and "held" not in ours.__record_fields__:
        same = [hash(one) == hash(other) for one in mine for other in again]
        assert same == [hash(one) == hash(other) for one in standard for other in also]
    if ours.__eq__ is not object.__eq__:
        for one in mine:
            for copied in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
                assert (type(copied) is ours and repr(copied) == repr(one)) or " object at " in repr(one)
                assert copied == one
    with pytest.raises(TypeError):
        ours(1, 2, 3, 4, 5, 6)
    with pytest.raises(TypeError):
        ours(unheard_of=1)


@pytest.mark.parametrize(("ours", "theirs", "arguments"), pairs())
def test_a_record_is_described_like_a_dataclass(ours, theirs, arguments):
    del arguments
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__name__ == theirs.__name__ and ours.__qualname__ == theirs.__qualname__
    assert hasattr(ours, "__slots__") == hasattr(theirs, "__slots__")
    assert dataclasses.is_dataclass(ours)
    facts = ("name", "type", "default", "repr", "compare", "init", "kw_only")
    for mine, standard in zip(dataclasses.fields(ours), dataclasses.fields(theirs), strict=True):
        assert [getattr(mine, fact) for fact in facts] == [getattr(standard, fact) for fact in facts]


def test_what_is_frozen_says_so_and_records_are_changed_by_both_functions_alike():
    one = OURS.Open(1, "a", aside=9)
    assert records.replace(one, first=2) == dataclasses.replace(one, first=2)
    assert records.replace(one, first=2).aside == 9
    with pytest.raises(TypeError, match="unheard_of"):
        records.replace(one, unheard_of=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        OURS.Slotted(1).first = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'first'"):
        del OURS.Slotted(1).first
    first, second = OURS.Open(1, "a"), OURS.Open(1, "a")
    first.held.append(1)
    assert second.held == []
    hints = typing.get_type_hints(Gpu)
    assert hints["bandwidth"] is float
    assert hints["peaks"] == Mapping[str, float]


def all_records():
    for found in pkgutil.walk_packages(roofline.__path__, "roofline."):
        if found.name == "roofline.__main__":
            continue
        for thing in vars(importlib.import_module(found.name)).values():
            if isinstance(thing, type) and thing.__module__ == found.name and "__record_fields__" in vars(thing):
                yield thing


def test_every_record_of_the_project_has_the_constructor_of_a_dataclass_and_states_nothing_else():
    found = list(all_records())
    assert len(found) > 80
    for record in found:
        fields = [
            (one.name, one.type, dataclasses.field(default=one.default, kw_only=one.kw_only))
            if one.default_factory is dataclasses.MISSING
            else (one.name, one.type, dataclasses.field(default_factory=one.default_factory, kw_only=one.kw_only))
            for one in dataclasses.fields(record)
        ]
        mine = inspect.signature(record.__init__)
        standard = inspect.signature(dataclasses.make_dataclass(record.__name__, fields).__init__)
        assert list(mine.parameters) == list(standard.parameters), record
        for name, parameter in mine.parameters.items():
            other = standard.parameters[name]
            assert (parameter.kind, parameter.annotation) == (other.kind, other.annotation), (record, name)
            assert (parameter.default is inspect.Parameter.empty) == (other.default is inspect.Parameter.empty)
    for record in all_records():
        assert not hasattr(record, "__post_init__"), record
        assert not [kind for kind in record.__annotations__.values() if "ClassVar" in kind or "InitVar" in kind]


class Ours(records.NamedTuple):
    """Of two."""

    first: "int"
    second: "float | None" = None

    @property
    def twice(self):
        return 2 * self.first


class Theirs(typing.NamedTuple):
    """Of two."""

    first: "int"
    second: "float | None" = None

    @property
    def twice(self):
        return 2 * self.first


def test_a_named_tuple_is_that_of_the_standard_library():
    mine, standard = Ours(1), Theirs(1)
    assert mine == standard == (1, None)
    assert repr(mine) == repr(standard).replace("Theirs", "Ours")
    assert mine.twice == 2
    assert mine._replace(second=2.0)._asdict() == {"first": 1, "second": 2.0}
    assert Ours._fields == Theirs._fields and Ours._field_defaults == Theirs._field_defaults
    assert Ours.__doc__ == Theirs.__doc__ and Ours.__bases__ == (tuple,)
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert pickle.loads(pickle.dumps(mine)) == mine and type(pickle.loads(pickle.dumps(mine))) is Ours
    with pytest.raises(AttributeError):
        mine.first = 2
    with pytest.raises(TypeError, match="first"):
        Ours()
