"""Sessions: chats and agents whose context grows from turn to turn, and waits while they think."""

from __future__ import annotations

from itertools import pairwise

from roofline.numbers.operations import Real
from roofline.numbers.quantity import counted, rounded, to_text
from roofline.support.records import NamedTuple, dataclass

_GROUPS = 3  # of later turns, each with its mean context


class TurnGroup(NamedTuple):
    """Turns that follow each other, by their mean."""

    weight: float  # share of all turns [1]
    cached: float  # [tokens] that are in the KV cache where nothing was dropped


@dataclass(frozen=True, slots=True)
class Sessions:
    """Turns of a session: each sends what was said before, and more.

    >>> agents = Sessions(20, 5.0, 800.0, 300.0, 2000.0)
    >>> agents.isl, agents.prefix, agents.cached(1), agents.cached(20)
    (13250.0, 12450.0, 2000.0, 22900.0)
    """

    turns: int
    think: float  # [s] mean time from an answer to the next turn
    new: float  # [tokens] that a turn adds to the prompt, mean
    answer: float  # [tokens] of an answer, mean
    system: float = 0.0  # [tokens] that all sessions begin with

    @property
    def grown(self) -> float:
        """Tokens by which the context grows from one turn to the next."""
        return self.new + self.answer

    @property
    def prefix(self) -> float:
        """Mean context before a turn [tokens]."""
        return self.system + (self.turns - 1) / 2.0 * self.grown

    @property
    def isl(self) -> float:
        """Mean prompt [tokens]."""
        return self.prefix + self.new

    def cached(self, turn: int) -> float:
        """Context before a turn, the first of which is 1 [tokens]."""
        return self.system + (turn - 1) * self.grown

    @property
    def groups(self) -> tuple[TurnGroup, ...]:
        """The first turn, and groups of later ones."""
        later = self.turns - 1
        count = min(later, _GROUPS)
        ends = [1 + round(later * place / count) for place in range(count + 1)] if count else [1]
        groups = [TurnGroup(1.0 / self.turns, self.cached(1))]
        for start, end in pairwise(ends):
            mean = self.system + (start + 1 + end - 2) / 2.0 * self.grown
            groups.append(TurnGroup((end - start) / self.turns, mean))
        return tuple(groups)

    def kept(self, shift: Real = 0.0) -> Real:
        """Mean context that waits for the next turn, of all turns but the last [tokens]."""
        return self.system + self.turns / 2.0 * self.grown + shift

    def __str__(self) -> str:
        """The sessions in words.

        >>> print(Sessions(20, 5.0, 800.0, 300.0, 2000.0))
        sessions of 20 turns, 5 s apart, that grow by 800 in and 300 out from 2,000 tokens
        """
        start = f" from {self.system:,.0f} tokens" if self.system else ""
        apart = f", {to_text(self.think, 's')} apart" if self.think else ""
        return (
            f"sessions of {counted(self.turns, 'turn')}{apart}, that grow by {rounded(self.new)} in and "
            f"{rounded(self.answer)} out{start}"
        )
