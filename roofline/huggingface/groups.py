"""A list of layers as the shortest equivalent list of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.huggingface.layers import LayerList
from roofline.records import NamedTuple

_LONGEST_PATTERN = 48  # layers; no known model repeats more at once

# Cost of a group in lines of a specification file: repeat, mixer and ffn of a single layer; repeat and heading of a
# pattern, to which each layer adds a line. Layers of a pattern that does not repeat count double: it reads badly.
_SINGLE = 3
_PATTERN = 2


class _Step(NamedTuple):
    """First group of the shortest description from some layer on."""

    cost: int  # of the whole description [lines]
    repeat: int
    length: int


def groups(layers: LayerList) -> list[dict[str, Any]]:
    """Groups of a specification from its layers.

    >>> full, window, ffn = {"kind": "a"}, {"kind": "b"}, {"kind": "f"}
    >>> [group["repeat"] for group in groups([(window, ffn), (full, ffn)] * 9 + [(full, ffn)])]
    [9, 1]
    """
    keys = _keys(layers)
    runs: list[dict[str, Any]] = []
    start = 0
    for step in _shortest(keys):
        block = layers[start : start + step.length]
        if step.length == 1:
            runs.append({"repeat": step.repeat, "mixer": block[0][0], "ffn": block[0][1]})
        else:
            pattern = [{"mixer": mixer, "ffn": ffn} for mixer, ffn in block]
            runs.append({"repeat": step.repeat, "pattern": pattern})
        start += step.repeat * step.length
    return runs


def _keys(layers: LayerList) -> list[int]:
    """A small number per layer, the same for equal layers."""
    seen: dict[str, int] = {}
    return [seen.setdefault(repr(layer), len(seen)) for layer in layers]


def _shortest(keys: Sequence[int]) -> list[_Step]:
    """Cheapest sequence of groups, by dynamic programming from the last layer to the first."""
    longest = min(_LONGEST_PATTERN, len(keys))
    alike = {length: _alike(keys, length) for length in range(1, longest + 1)}
    best: list[_Step] = [_Step(0, 0, 0)] * (len(keys) + 1)
    for start in range(len(keys) - 1, -1, -1):
        best[start] = min(
            (
                _Step(_cost(repeat, length) + best[start + repeat * length].cost, repeat, length)
                for length in range(1, min(longest, len(keys) - start) + 1)
                for repeat in _repeats(1 + alike[length][start] // length)
            ),
            key=lambda step: (step.cost, step.length, -step.repeat),
        )
    steps, start = [], 0
    while start < len(keys):
        steps.append(best[start])
        start += best[start].repeat * best[start].length
    return steps


def _alike(keys: Sequence[int], distance: int) -> list[int]:
    """Number of consecutive layers, from each one on, that equal the layer `distance` after them."""
    counts = [0] * (len(keys) + 1)
    for index in range(len(keys) - distance - 1, -1, -1):
        counts[index] = counts[index + 1] + 1 if keys[index] == keys[index + distance] else 0
    return counts


def _repeats(most: int) -> tuple[int, ...]:
    """Repeats to consider for a pattern that occurs `most` times in a row: all, one less, or one."""
    return (1,) if most == 1 else (most, most - 1, 1) if most > 2 else (2, 1)


def _cost(repeat: int, length: int) -> int:
    if length == 1:
        return _SINGLE
    return _PATTERN + (length if repeat > 1 else 2 * length)
