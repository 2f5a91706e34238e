"""Dataclasses that are cheap to define.

One question from the shell defines dozens of record classes and builds few records, but `dataclasses` compiles half a
dozen methods for each class. Here they are closures, and the constructor alone is compiled, when the first record is
built. `dataclasses.fields`, `replace`, `asdict`, `pprint` and type checkers take these records as dataclasses. Not
supported: `order`, `unsafe_hash`, `InitVar`, `ClassVar`, `__post_init__`, and options of `field` beyond its default,
`repr` and `compare`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["NamedTuple", "dataclass", "field", "replace"]


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import NamedTuple
else:
    from collections import namedtuple
    from operator import attrgetter
    from reprlib import recursive_repr
    from sys import modules

    class _Unset:
        def __repr__(self) -> str:
            return "<factory>"

    _UNSET = _Unset()
    _OF_THE_CLASS = {"__dict__", "__weakref__"}  # of every class
    _OF_THE_TUPLE = {"__annotations__", "__module__", "__qualname__"}

    class _TupleType(type):
        """Turns classes into named tuples; annotations stay texts, which `typing` would compile one by one."""

        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            kinds = space["__annotations__"]
            defaults = [space[field] for field in kinds if field in space]
            made = namedtuple(name, kinds, defaults=defaults, module=space["__module__"])
            made.__annotations__ = made.__new__.__annotations__ = kinds
            for attribute, value in space.items():
                if attribute not in kinds and attribute not in _OF_THE_TUPLE:
                    setattr(made, attribute, value)
            return made

    class NamedTuple(metaclass=_TupleType):
        """Base of named tuples, like `typing.NamedTuple`, which generic ones still need."""

    class field:  # noqa: N801  stands in for the function
        """Default of a field, whether `repr` shows it, and whether it takes part in comparisons."""

        __slots__ = ("compare", "default", "default_factory", "repr")

        def __init__(self, *, default=_UNSET, default_factory=_UNSET, repr=True, compare=True) -> None:  # noqa: A002
            self.default, self.default_factory, self.repr, self.compare = default, default_factory, repr, compare

    class _Late:
        """A class attribute that is made on first access."""

        def __init__(self, make) -> None:
            self.make = make

        def __set_name__(self, owner, name) -> None:
            self.owner, self.name = owner, name

        def __get__(self, instance, owner):
            made = self.make(self.owner)
            setattr(self.owner, self.name, made)
            return made.__get__(instance, owner) if hasattr(made, "__get__") else made

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True, kw_only=False):  # noqa: A002
        """Like `dataclasses.dataclass`."""
        options = {"frozen": frozen, "eq": eq, "repr": repr, "kw_only": kw_only}
        if cls is None:
            return lambda cls: dataclass(cls, slots=slots, **options)
        attributes = {name: value for name, value in vars(cls).items() if name not in _OF_THE_CLASS}
        own_names = tuple(cls.__annotations__)
        fields = {}
        for base in reversed(cls.__mro__):
            fields |= getattr(base, "__record_fields__", {})
        for name in own_names:
            default = attributes.pop(name, _UNSET)
            fields[name] = default if isinstance(default, field) else field(default=default)
        made = _methods(fields, slots=slots, **options) | attributes
        made |= {
            "__init__": _Late(_constructor),
            "__dataclass_fields__": _Late(lambda record: _standard(record).__dataclass_fields__),
            "__dataclass_params__": _Late(lambda record: _standard(record).__dataclass_params__),
            "__match_args__": () if kw_only else tuple(fields),
            "__record_fields__": fields,
            "__record_options__": options,
        }
        if slots:
            made["__slots__"] = own_names
        else:
            made |= {name: fields[name].default for name in own_names if fields[name].default is not _UNSET}
        return type(cls)(cls.__name__, cls.__bases__, made)

    def replace(record, /, **changes):
        """Like `dataclasses.replace`."""
        kept = {name: getattr(record, name) for name in record.__record_fields__ if name not in changes}
        return type(record)(**kept, **changes)

    def _methods(fields, *, frozen, slots, eq, repr, kw_only):  # noqa: A002, ARG001
        """Methods of a record by the options of its class."""
        names = [name for name, one in fields.items() if one.compare]
        values = attrgetter(*names) if len(names) > 1 else lambda one: tuple(getattr(one, name) for name in names)
        methods = {"__replace__": replace}

        def equal(one, other):
            return values(one) == values(other) if other.__class__ is one.__class__ else NotImplemented

        def hashed(one):
            return hash(values(one))

        def refused(_, name, *value):
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")

        def state(one):
            return [getattr(one, name) for name in fields]

        def restore(one, state):
            for name, value in zip(fields, state, strict=True):
                object.__setattr__(one, name, value)

        if eq:
            methods |= {"__eq__": equal, "__hash__": hashed if frozen else None}
        if repr:
            methods["__repr__"] = _text
        if frozen:
            methods |= {"__setattr__": refused, "__delattr__": refused}
        if frozen and slots:
            methods |= {"__getstate__": state, "__setstate__": restore}
        return methods

    @recursive_repr()
    def _text(record):
        """`repr` of a record."""
        shown = [f"{name}={getattr(record, name)!r}" for name, one in record.__record_fields__.items() if one.repr]
        return f"{type(record).__qualname__}({', '.join(shown)})"

    def _constructor(cls):
        """`__init__` of a record class, one line for each field."""
        fields, options = cls.__record_fields__, cls.__record_options__
        arguments, lines, known = ["self", "*"] if options["kw_only"] else ["self"], [], {"_unset": _UNSET}
        for name, one in fields.items():
            value = name
            if one.default_factory is not _UNSET:
                known[f"_{name}"], value = one.default_factory, f"_{name}() if {name} is _unset else {name}"
                arguments.append(f"{name}=_unset")
            elif one.default is not _UNSET:
                known[f"_{name}"] = one.default
                arguments.append(f"{name}=_{name}")
            else:
                arguments.append(name)
            lines.append(f"_set(self, {name!r}, {value})" if options["frozen"] else f"self.{name} = {value}")
        known["_set"] = object.__setattr__
        body = "\n  ".join(lines) or "pass"
        text = f"def make({', '.join(known)}):\n def __init__({', '.join(arguments)}):\n  {body}\n return __init__"
        space = {}
        exec(text, vars(modules[cls.__module__]), space)  # noqa: S102  made of identifiers alone
        made = space["make"](**known)
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        made.__annotations__ = {**_annotations(cls), "return": None}
        return made

    def _annotations(cls):
        """Type annotations by field, those of bases included."""
        annotations = {}
        for base in reversed(cls.__mro__):
            if "__record_fields__" in vars(base):
                annotations |= base.__annotations__
        return annotations

    def _standard(cls):
        """The standard dataclass with the same fields, for `__dataclass_fields__` and `__dataclass_params__`."""
        import dataclasses

        fields = []
        for name, kind in _annotations(cls).items():
            one = cls.__record_fields__[name]
            facts = {fact: value for fact in field.__slots__ if (value := getattr(one, fact)) is not _UNSET}
            fields.append((name, kind, dataclasses.field(**facts)))
        return dataclasses.make_dataclass(cls.__name__, fields, **cls.__record_options__)
