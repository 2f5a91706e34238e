"""Number formats of modules, as every method of quantization states them."""

from __future__ import annotations

from roofline.catalog.huggingface.blocks import Fields, Names
from roofline.support.records import NamedTuple

#: Bits of integers that are a number format.
BITS = {8: "int8", 4: "int4"}
_FEW_BITS = (2, 3)  # of integers that are no number format of their own
SMALL_GROUP = 32  # weights per scale
#: Eight bits in the blocks of OCP Microscaling.
MXFP8 = "fp8_block@8.25bpw"  # an 8-bit scale for each 32 weights


class Rules(NamedTuple):
    """Number formats of modules."""

    default: str | None  # of modules without a rule of their own; None: unquantized
    ignored: Names  # modules that are not quantized
    named: tuple[tuple[Names, str], ...] = ()  # formats of modules by name
    experts_only: bool = False
    head: bool = False  # whether the head is quantized too, unless it is ignored
    embed: bool = False  # the same of the embedding
    cautions: tuple[str, ...] = ()


def integer(config: Fields, name: str) -> str:
    """Format of integers with one scale per group."""
    bits = config.count(name, "w_bit", default=4, least=0)
    if bits in _FEW_BITS:
        group = config.optional("group_size", "q_group_size", least=-1) or -1
        return weight_only(bits, group, 16 + bits)
    if bits not in BITS:
        raise config.fault(name, f"{bits} bits: not supported; only {', '.join(map(str, sorted((*_FEW_BITS, *BITS))))}")
    small = bits == 4 and config.optional("group_size", "q_group_size", least=-1) == SMALL_GROUP
    return "int4_g32" if small else BITS[bits]


def weight_only(bits: float, group: int, extra: float) -> str:
    """Format of weights that are stored in `bits`, with `extra` bits for each group of them."""
    total = bits + (extra / group if group > 0 else 0.0)
    return f"{total:.5f}".rstrip("0").rstrip(".") + "bpw"


def names_of(config: Fields, *fields: str) -> Names:
    """Names of modules under the first of the fields that is there."""
    name = next((field for field in fields if config.has(field)), fields[0])
    return Names(texts(config, name), config, name)


def texts(config: Fields, name: str) -> tuple[str, ...]:
    """A list of texts; empty where there is none."""
    value = config.values.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise config.fault(name, "must be a list of texts")
    return tuple(value)
