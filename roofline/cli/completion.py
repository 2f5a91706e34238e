"""Values that the shell completes: presets, engines, inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from roofline.cli.values import Words
from roofline.errors import RooflineError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["Suggested", "SuggestedWords", "completions"]


class Suggested(click.ParamType):
    """A text that the shell completes from a list, and that may be another: whoever reads it decides."""

    def __init__(self, name: str, values: Callable[[], Iterable[str]]) -> None:
        """Take the name that help shows, and where the values come from."""
        self.name = name
        self._values = values

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Values that begin like that; of a list with commas, of its last part."""
        done, comma, last = incomplete.rpartition(",")
        return completions((done + comma + value for value in self._values()), done + comma + last)


class SuggestedWords(Words):
    """Words with commas between them, each completed from a list."""

    def __init__(self, values: Callable[[], Iterable[str]]) -> None:
        """Take where the values come from."""
        self._listed = Suggested(self.name, values)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Values that begin like the last part."""
        return self._listed.shell_complete(ctx, param, incomplete)


def completions(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """Names that begin like that.

    Args:
        names: that there are [text].
        incomplete: what was typed [text].

    Returns:
        Items of the completion; none where the names cannot be read.
    """
    from click.shell_completion import CompletionItem

    try:
        return [CompletionItem(name) for name in names if name.startswith(incomplete.lower()) and name.isprintable()]
    except RooflineError:
        return []
