"""Layers one by one to the shortest list of groups that says the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from roofline.catalog.hf_layers import LayerList

__all__ = ["groups"]

_LONGEST_PATTERN = 48  # layers; no model known repeats more at once

# What a group costs to read, in lines of a specification file: a single layer has its repeat, mixer and
# ffn, a pattern has its repeat, its heading and a line a layer. A pattern said once reads badly, so its
# lines count double.
_SINGLE = 3
_PATTERN = 2


class _Step(NamedTuple):
    """A group that a shortest description begins with."""

    cost: int
    repeat: int
    length: int


def groups(layers: LayerList) -> list[dict[str, Any]]:
    """Groups of a specification from its layers in order.

    Args:
        layers: one mixer and one feed-forward network each [record].

    Returns:
        The groups, each a repeat with a mixer and an ffn, or with a pattern of layers.

    >>> full, window, ffn = {"kind": "a"}, {"kind": "b"}, {"kind": "f"}
    >>> [group["repeat"] for group in groups([(window, ffn), (full, ffn)] * 9 + [(window, ffn)])]
    [9, 1]
    """
    keys = _keys(layers)
    found, start = [], 0
    for step in _shortest(keys):
        block = layers[start : start + step.length]
        if step.length == 1:
            found.append({"repeat": step.repeat, "mixer": block[0][0], "ffn": block[0][1]})
        else:
            pattern = [{"mixer": mixer, "ffn": ffn} for mixer, ffn in block]
            found.append({"repeat": step.repeat, "pattern": pattern})
        start += step.repeat * step.length
    return found


def _keys(layers: LayerList) -> list[int]:
    """A small number for each distinct layer."""
    seen: dict[str, int] = {}
    return [seen.setdefault(repr(layer), len(seen)) for layer in layers]


def _shortest(keys: Sequence[int]) -> list[_Step]:
    """Cheapest sequence of groups, by dynamic programming from the last layer to the first."""
    best: list[_Step] = [_Step(0, 0, 0)] * (len(keys) + 1)
    for start in range(len(keys) - 1, -1, -1):
        best[start] = min(
            (
                _Step(_cost(repeat, length) + best[start + repeat * length].cost, repeat, length)
                for length in range(1, min(_LONGEST_PATTERN, len(keys) - start) + 1)
                for repeat in _repeats(keys, start, length)
            ),
            key=lambda step: (step.cost, step.length, -step.repeat),
        )
    steps, start = [], 0
    while start < len(keys):
        steps.append(best[start])
        start += best[start].repeat * best[start].length
    return steps


def _repeats(keys: Sequence[int], start: int, length: int) -> tuple[int, ...]:
    """How often a pattern can repeat from here: as often as it does, once less, or once."""
    pattern, most = keys[start : start + length], 1
    while keys[start + most * length : start + (most + 1) * length] == pattern:
        most += 1
    return tuple(dict.fromkeys((most, max(1, most - 1), 1)))


def _cost(repeat: int, length: int) -> int:
    if length == 1:
        return _SINGLE
    return _PATTERN + (length if repeat > 1 else 2 * length)
