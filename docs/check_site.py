"""Checks a built site: python docs/check_site.py FOLDER. It loads nothing from elsewhere; its links lead somewhere."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: What a browser loads by itself, by tag; `link` only where it is more than a relation.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "audio": "src", "video": "src",
          "embed": "src", "object": "data", "link": "href"}  # fmt: skip
RELATIONS = {"next", "prev", "index", "search", "canonical", "author"}


class Page(HTMLParser):
    """What a page loads, where its links lead, and which anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.maths = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag refers to."""
        known = {name: value or "" for name, value in attrs}
        self.anchors |= {known[name] for name in ("id", "name") if name in known}
        self.maths += tag == "math"
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        if tag in LOADED and LOADED[tag] in known and known.get("rel") not in RELATIONS:
            self.loaded.append(known[LOADED[tag]])


def faults(folder: Path) -> list[str]:
    """What is wrong with the site, a line each."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder)
        found += [f"{name}: loads {url}" for url in page.loaded if urlsplit(url).scheme not in ("", "data")]
        found += [f"{name}: loads {url}" for url in page.loaded if url.startswith("//")]
        if path.name == "roofline.html":  # the calculator: tests/page reads it in a browser
            continue
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or not link or link == "#":
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.is_file():
                found.append(f"{name}: {link} leads nowhere")
            elif url.fragment and target in pages and url.fragment not in pages[target].anchors:
                found.append(f"{name}: {link}: no such heading")
        if not any(link.endswith("glossary.html") or name.stem == "glossary" for link in page.links):
            found.append(f"{name}: no link to the glossary")
    sheets = [path for path in folder.rglob("*.css") if "url(http" in path.read_text(encoding="utf-8").replace('"', "")]
    found += [f"{path.relative_to(folder)}: loads from elsewhere" for path in sheets]
    if folder / "roofline.html" not in pages:
        found.append("roofline.html: the calculator is not there")
    if pages[folder / "method.html"].maths < 100:
        found.append("method.html: formulas are not typeset")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).resolve())
    print("\n".join(wrong) or "the site is whole")  # noqa: T201
    raise SystemExit(1 if wrong else 0)
