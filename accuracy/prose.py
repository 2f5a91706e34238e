"""Lines of a written page: sentences and list items in at most 118 columns; tables, code and headings as they are."""

import re
import textwrap
from collections.abc import Iterator

WIDTH = 118
_ITEM = re.compile(r" *(?:[*-]|\d+\.) ")
_CODE = re.compile(r"`[^`\n]+`")


def wrapped(page: str) -> str:
    """The page with its long paragraphs in lines."""
    return "\n".join(line for block in _blocks(page.splitlines()) for line in _filled(block)) + "\n"


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs and list items; everything else line by line."""
    block: list[str] = []
    fenced = False
    for line in lines:
        is_fence = line.lstrip().startswith("```")
        fenced ^= is_fence
        apart = fenced or is_fence or not line.strip() or line.startswith(("|", "#", "<", "!"))
        if block and (apart or _ITEM.match(line)):
            yield block
            block = []
        if apart or (line.startswith("    ") and not block and not _ITEM.match(line)):
            yield [line]
        else:
            block.append(line)
    if block:
        yield block


def _filled(block: list[str]) -> list[str]:
    if max(map(len, block)) <= WIDTH + 2 or block[0].startswith("|"):
        return block
    item = _ITEM.match(block[0])
    lead = item[0] if item else re.match(" *", block[0])[0]
    words = " ".join([block[0][len(lead) :], *(line.strip() for line in block[1:])])
    whole = _CODE.sub(lambda code: code[0].replace(" ", "\0") if len(code[0]) < WIDTH // 2 else code[0], words)
    lines = textwrap.wrap(
        whole, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
    return [line.replace("\0", " ") for line in lines]
