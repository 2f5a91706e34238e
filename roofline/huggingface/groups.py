"""Layers one by one to the shortest list of groups that says the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.huggingface.layers import LayerList
from roofline.records import NamedTuple

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
    >>> [group["repeat"] for group in groups([(window, ffn), (full, ffn)] * 9 + [(full, ffn)])]
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
    """How many layers from each on equal the one at a distance behind them."""
    counts = [0] * (len(keys) + 1)
    for index in range(len(keys) - distance - 1, -1, -1):
        counts[index] = counts[index + 1] + 1 if keys[index] == keys[index + distance] else 0
    return counts


def _repeats(most: int) -> tuple[int, ...]:
    """How often to say a pattern that occurs so often: each time, once less, or once."""
    return (1,) if most == 1 else (most, most - 1, 1) if most > 2 else (2, 1)


def _cost(repeat: int, length: int) -> int:
    if length == 1:
        return _SINGLE
    return _PATTERN + (length if repeat > 1 else 2 * length)
