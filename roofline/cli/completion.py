"""Shell completion of option values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from roofline.errors import RooflineError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_BEFORE = r"(?:.*,)?\s*(?:[0-9]+\s*[xX]\s*)?"  # other names, and a number of GPUs


def completions(names: Callable[[], Iterable[str]], incomplete: str) -> list[CompletionItem]:
    """Completions of the last of several names; none where the catalog cannot be read."""
    from click.shell_completion import CompletionItem

    before = re.match(_BEFORE, incomplete)
    done = before[0] if before is not None else ""
    typed = incomplete[len(done) :].lower()
    try:
        return [CompletionItem(done + name) for name in names() if name.startswith(typed) and name.isprintable()]
    except RooflineError:
        return []
