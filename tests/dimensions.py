"""Numbers that carry dimensions: formulas run on them, and fail where they add, say, bytes to seconds.

Factors, tokens and sequences are pure numbers, as in the formulas. A result without dimensions is a float again, so
that a function that takes numbers only, such as `exp`, refuses everything else.
"""

import inspect
import math
import operator
import re
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

import pytest

import roofline.physics
from roofline.numbers.operations import Operations, register
from roofline.numbers.quantity import NANO
from roofline.physics import assembly

#: Plain numbers that may stand for an amount of anything: nothing, no limit, and what guards a division by zero.
_NEGLIGIBLE = NANO
_DIGITS = 9  # of an exponent: the third power of a cube root is the number itself
_NONE = ()  # units of a plain number


class Dimensioned:
    """A value in SI units, with pairs of a unit and its exponent; a plain number where there are none.

    >>> Dimensioned(6.0, (("B", 1),)) / Dimensioned(2.0, (("B", 1), ("s", -1)))
    3.0 [s]
    >>> Dimensioned(6.0, (("B", 1),)) / Dimensioned(2.0, (("B", 1),))
    3.0
    """

    __slots__ = ("amount", "units")

    def __new__(cls, amount, units):
        if not units:
            return amount
        number = super().__new__(cls)
        number.amount, number.units = amount, units
        return number

    def __repr__(self):
        return f"{self.amount!r} [{dimension(self)}]"

    def __add__(self, other):
        return _together(self, other, "+", operator.add)

    def __radd__(self, other):
        return _together(other, self, "+", operator.add)

    def __sub__(self, other):
        return _together(self, other, "-", operator.sub)

    def __rsub__(self, other):
        return _together(other, self, "-", operator.sub)

    def __mul__(self, other):
        return _multiplied(self, other, operator.mul, 1)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return _multiplied(self, other, operator.truediv, -1)

    def __rtruediv__(self, other):
        return _multiplied(other, self, operator.truediv, -1)

    def __pow__(self, power):
        assert _is_plain(power), f"[{dimension(self)}] to the power of [{dimension(power)}]"
        return Dimensioned(self.amount**power, _power(self.units, power))

    def __rpow__(self, base):
        raise AssertionError(f"{base!r} to the power of [{dimension(self)}]")

    def __neg__(self):
        return Dimensioned(-self.amount, self.units)

    def __abs__(self):
        return Dimensioned(abs(self.amount), self.units)

    def __bool__(self):
        return bool(self.amount)

    def __hash__(self):
        return hash((self.amount, self.units))


def dimension(number):
    """Units of a number as text; 1 for a plain number.

    >>> dimension(2.0 * BYTE / SECOND), dimension(2.0)
    ('B/s', '1')
    """
    units = _split(number)[1]
    above, below = ([_raised(unit, sign * n) for unit, n in units if sign * n > 0] for sign in (1, -1))
    return "/".join(["*".join(above) or "1", *below])


def bare(number):
    """The value of a number without its dimensions; of records, tuples, lists and mappings those of their parts.

    >>> bare((2.0 * SECOND, 3.0))
    (2.0, 3.0)
    """
    if is_dataclass(number):
        return replace(number, **{field.name: bare(getattr(number, field.name)) for field in fields(number)})
    if isinstance(number, dict):
        return {name: bare(each) for name, each in number.items()}
    if isinstance(number, (tuple, list)):
        values = [bare(each) for each in number]
        return type(number)(*values) if hasattr(number, "_fields") else type(number)(values)
    return _split(number)[0]


def _raised(unit, power):
    return unit if power == 1 else f"{unit}^{power:g}"


def _split(number):
    """Value and units of a number."""
    return (number.amount, number.units) if type(number) is Dimensioned else (number, _NONE)


def _is_plain(number):
    return type(number) is not Dimensioned


def _is_absent(number):
    """Whether a plain number says that there is nothing, or no limit."""
    return type(number) is not Dimensioned and (number == 0.0 or not math.isfinite(number))


def _common(left, right, sign):
    """Units of two numbers, which must be the same."""
    left_units, right_units = _split(left)[1], _split(right)[1]
    if left_units == right_units or _is_absent(left) or (not left_units and abs(left) <= _NEGLIGIBLE):
        return right_units
    if _is_absent(right) or (not right_units and abs(right) <= _NEGLIGIBLE):
        return left_units
    raise AssertionError(f"[{dimension(left)}] {sign} [{dimension(right)}]: {left} {sign} {right}")


def _together(left, right, sign, operation):
    return Dimensioned(operation(_split(left)[0], _split(right)[0]), _common(left, right, sign))


def _compared(relation, left, right, meaning=""):
    _common(left, right, relation.__name__)
    return relation(_split(left)[0], _split(right)[0])


def _relation(relation):
    return lambda left, right: _compared(relation, left, right)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Dimensioned, f"__{_name}__", _relation(getattr(operator, _name)))


def _multiplied(left, right, operation, sign):
    (first, left_units), (second, right_units) = _split(left), _split(right)
    value = operation(first, second)
    return (
        value if _is_absent(left) or _is_absent(right) else Dimensioned(value, _product(left_units, right_units, sign))
    )


@cache
def _product(left, right, sign):
    """Units of a product, or of a quotient where the sign is negative."""
    units = dict(left)
    for unit, power in right:
        units[unit] = units.get(unit, 0) + sign * power
    return tuple((unit, power) for unit, power in sorted(units.items()) if round(power, _DIGITS))


@cache
def _power(units, power):
    return tuple((unit, round(each * power, _DIGITS)) for unit, each in units if round(each * power, _DIGITS))


def _refused(name):
    def operation(number, *_):
        raise AssertionError(f"{name} of [{dimension(number)}]")

    return operation


register(
    Dimensioned,
    Operations(
        maximum=lambda a, b, _: _together(a, b, "maximum", max),
        minimum=lambda a, b, _: _together(a, b, "minimum", min),
        ceil=_refused("ceil"),
        where=_refused("where"),
        compared=_compared,
    ),
)


def _unit(name):
    return Dimensioned(1.0, ((name, 1),))


SECOND, BYTE, FLOP, EXPONENTIAL, ELEMENT, ITEM, USD, WATT = map(
    _unit, ("s", "B", "FLOP", "exp", "element", "item", "USD", "W")
)

# Records of the package with the dimensions that their comments state.

#: Units of the fields of efficiencies that are not plain seconds.
_PER = {"kappa": SECOND / ELEMENT, "kappa_s": SECOND / ELEMENT, "eps": SECOND / ITEM}
#: Type of a field -> its unit.
_OF_TYPE = {"Seconds": SECOND, "Bytes": BYTE, "BytesPerSecond": BYTE / SECOND, "Watts": WATT}


def with_units(record, **units):
    """A record whose fields of seconds, bytes, rates and watts carry them; `units` are those of further fields."""
    of_fields = {
        name: _OF_TYPE[kind]
        for name, text in type(record).__annotations__.items()
        if (kind := str(text).split(" ")[0]) in _OF_TYPE
    }
    changes = {
        name: getattr(record, name) * unit
        for name, unit in (of_fields | units).items()
        if getattr(record, name) is not None
    }
    return replace(record, **changes)


def gpu_with_units(gpu):
    """A GPU whose rates, memory, price and calibration carry dimensions."""
    calibration = gpu.calibration
    if calibration is not None:
        kernels = {key: with_units(entry, **_PER) for key, entry in calibration.kernels.items()}
        collectives = {key: with_units(entry) for key, entry in calibration.collectives.items()}
        calibration = replace(calibration, kernels=kernels, collectives=collectives)
    price = gpu.price
    if price is not None:
        price = price._replace(**{name: getattr(price, name) * USD / SECOND for name in ("low", "typical", "high")})
    return replace(
        with_units(gpu, exp_rate=EXPONENTIAL / SECOND),
        peaks={name: peak * FLOP / SECOND for name, peak in gpu.peaks.items()},
        link=with_units(gpu.link),
        price=price,
        calibration=calibration,
    )


def quantization_with_units(quantization):
    """Formats of a model whose bytes per value carry their dimension."""
    sections = {
        name: scheme._replace(
            weight_nbytes=scheme.weight_nbytes * BYTE, activation_nbytes=scheme.activation_nbytes * BYTE
        )
        for name, scheme in quantization.sections.items()
    }
    return quantization._replace(sections=sections, kv_nbytes=quantization.kv_nbytes * BYTE)


def deployment_with_units(deployment):
    """A deployment whose GPU, formats and engine carry dimensions."""
    draft = deployment.draft
    if draft is not None and draft.quantization is not None:
        draft = replace(draft, quantization=quantization_with_units(draft.quantization))
    return replace(
        deployment,
        draft=draft,
        gpu=gpu_with_units(deployment.gpu),
        quantization=quantization_with_units(deployment.quantization),
        engine=replace(
            with_units(deployment.engine), start_up=tuple(with_units(rule) for rule in deployment.engine.start_up)
        ),
        prefix_cache=deployment.prefix_cache * BYTE,
    )


_PHYSICS = [import_module(name) for _, name, _ in walk_packages(roofline.physics.__path__, "roofline.physics.")]

#: Amounts of a kernel's work that its makers give as plain counts -> their units in the one equation.
_COUNTED = {"flop": FLOP, "exponentials": EXPONENTIAL, "depth": ELEMENT, "serial_depth": ELEMENT, "items": ITEM}


def measured_work(work):
    """The work of a kernel, whose bytes must be bytes and whose other amounts counts, with the units of the counts."""
    for name, amount in work._asdict().items():
        expected = "1" if name in _COUNTED else "B"
        assert _is_absent(amount) or dimension(amount) == expected, f"{name} in [{dimension(amount)}]"
    return work._replace(**{name: getattr(work, name) * unit for name, unit in _COUNTED.items()})


def give_units_to_constants(patch):
    """Make bytes per value, which modules hold as constants, bytes; and count the work of every kernel in its units."""
    for module in _PHYSICS:
        for constant, value in list(vars(module).items()):
            if constant.endswith("_NBYTES") and type(value) is float:
                patch.setattr(module, constant, value * BYTE)
    equation = assembly.kernel_time
    patch.setattr(assembly, "kernel_time", lambda work, roof: equation(measured_work(work), roof))


def measured(function, deployment, *numbers):
    """An answer about a deployment with units, whose figures must be those of plain numbers."""
    deployment = replace(deployment, engine=deployment.engine.on(deployment.gpu))
    plain = function(deployment, *map(bare, numbers))
    with pytest.MonkeyPatch.context() as patch:
        give_units_to_constants(patch)
        answer = function(deployment_with_units(deployment), *numbers)
    same = pytest.approx(_amounts(plain), rel=1e-9, nan_ok=True)
    assert _amounts(bare(answer)) == same, f"{_amounts(bare(answer))} with units, {same} without"
    return answer


def dimensions_of(answer):
    """Dimensions of the numbers of an answer, apart from nothing and no limit."""
    return {dimension(number) for number in _leaves(answer) if not _is_absent(number)}


def _amounts(answer):
    """Numbers of an answer; a host that adds nothing may be left out."""
    return [number for number in _leaves(answer) if number != 0.0]


def _leaves(answer):
    """Numbers of a number, or of records, tuples, lists and mappings."""
    if isinstance(answer, (tuple, list, dict)):
        for each in answer.values() if isinstance(answer, dict) else answer:
            yield from _leaves(each)
    elif answer is not None and not isinstance(answer, str):
        yield answer


#: Units in comments and docstrings -> their dimensions as texts, where these differ.
STATED = dict.fromkeys(("tokens", "sequences", "requests"), "1") | {
    "USD/h": "USD/s",
    "USD per million output tokens": "USD",
    "USD per million tokens": "USD",
}


def stated_units(record):
    """Units that the comments of a record's fields state, as texts of `dimension`.

    >>> from roofline.physics.equation import Work
    >>> stated_units(Work)["flop"], stated_units(Work)["weight_bytes"]
    ('FLOP', 'B')
    """
    units = re.findall(r"^    (\w+): .*?# .*?\[([^\]]+)\]", inspect.getsource(record), re.MULTILINE)
    return {name: STATED.get(unit, unit) for name, unit in units}


def check_units(*records):
    """Fail where a field of a record has not the dimension that its comment states."""
    for record in records:
        for name, unit in stated_units(type(record)).items():
            value = getattr(record, name)
            assert value is None or _is_absent(value) or dimension(value) == unit, f"{name}: {value}, not [{unit}]"


def altered(patch, module, name, right, wrong, user=None):
    """Replace a function of a module, as `user` calls it, by one in which a piece of its text reads otherwise."""
    source = inspect.getsource(getattr(module, name))
    assert source.count(right) == 1, f"{name} has {right!r} {source.count(right)} times"
    made = {}
    exec(source.replace(right, wrong), vars(module), made)
    patch.setattr(user or module, name, made[name])
