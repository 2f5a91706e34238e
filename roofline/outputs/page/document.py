"""A page as one HTML text: its parts, and a policy under which a browser runs these parts and loads nothing."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

from roofline.support.records import NamedTuple

_WEB = Path(__file__).with_name("web")
_PLACES = ("csp", "style", "vendor", "data", "script")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"\n]+)";\n', re.MULTILINE)
_LIST = re.compile(r"^export \{([\w$,\s]*)\};\n", re.MULTILINE)
_OTHER_IMPORT = re.compile(
    r"^(?:import\b(?! ?\().*|export (?!(?:async function|function|class|const|let)\b).*)", re.MULTILINE
)
_DECLARED = re.compile(
    r"^(export )?(?:async )?(?:(?:function\*?|class) ([\w$]+)|(?:const|let|var) (?:([\w$]+)|[{\[]([^=]*)[}\]]\s*=))",
    re.MULTILINE,
)
# What would end a script for a parser of HTML, or hide its end.
_ENDS_A_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)
_ENDS_A_STYLE = re.compile(r"</style", re.IGNORECASE)
#: Beside the hashes. Pictures are made on the page; trusted types stop every text from being read as HTML or a script.
_POLICY = (
    "default-src 'none'", "img-src data: blob:", "base-uri 'none'", "form-action 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
)  # fmt: skip


class Parts(NamedTuple):
    """Texts that a page is made of."""

    template: str  # HTML with {{csp}}, {{style}}, {{vendor}}, {{data}} and {{script}}, each of which is a whole element
    style: str  # CSS
    vendor: Mapping[str, str]  # classic scripts of others by file name, in the order in which they run
    modules: Mapping[str, str]  # JavaScript modules by their path, which their imports are relative to


def shipped_parts() -> Parts:
    """The parts in the folder of the package, to which the printed modules are added."""
    scripts = sorted(_WEB.rglob("*.js"))
    texts = {path.relative_to(_WEB).as_posix(): path.read_text(encoding="utf-8") for path in scripts}
    return Parts(
        template=_WEB.joinpath("page.html").read_text(encoding="utf-8"),
        style=_WEB.joinpath("page.css").read_text(encoding="utf-8"),
        vendor={name: text for name, text in texts.items() if name.startswith("vendor/")},
        modules={name: text for name, text in texts.items() if not name.startswith("vendor/")},
    )


def html(parts: Parts, contents: Mapping[str, Any]) -> str:
    """The page with its contents, which its script reads from the element `contents`.

    Raises:
        ValueError: a part that cannot stand in a page: the template lacks a place, a text ends its own element, or
            modules that `one_script` refuses.
    """
    script = one_script(parts.modules)
    for name, text in (*parts.vendor.items(), ("the modules", script)):
        _check(name, text, _ENDS_A_SCRIPT)
    _check("the style", parts.style, _ENDS_A_STYLE)
    scripts = " ".join(map(_source, (*parts.vendor.values(), script)))
    policy = "; ".join((_POLICY[0], f"script-src {scripts}", f"style-src {_source(parts.style)}", *_POLICY[1:]))
    data = json.dumps(contents, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    elements = {
        "csp": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "style": f"<style>{parts.style}</style>",
        "vendor": "\n".join(f"<script>{text}</script>" for text in parts.vendor.values()),
        "data": f'<script type="application/json" id="contents">{data}</script>',
        "script": f'<script type="module">{script}</script>',
    }
    places = re.findall(r"\{\{(\w*)\}\}", parts.template)
    if sorted(places) != sorted(_PLACES):
        raise ValueError(f"the template has places {', '.join(places)}; it needs each of {', '.join(_PLACES)} once")
    return re.sub(r"\{\{(\w*)\}\}", lambda place: elements[place[1]], parts.template)


def one_script(modules: Mapping[str, str]) -> str:
    """Modules as one: each after those that it imports from, without the words import and export.

    Args:
        modules: sources by path, such as ``view/main.js``. Imports are written ``import {a, b} from "./a.js";``, and
            what is declared at the top level starts its line.

    Raises:
        ValueError: an import that no module satisfies, one that goes round in a circle, a form of import or export
            that is not understood, or a name that two modules declare.

    >>> one_script({"main.js": 'import {a} from "./a.js";\\na();\\n', "a.js": "export function a() {}\\n"})
    'function a() {}\\na();\\n'
    """
    imports = {path: list(_imports(path, text, modules)) for path, text in modules.items()}
    exported: dict[str, set[str]] = {}
    homes: dict[str, str] = {}
    for path, text in modules.items():
        names = list(_declarations(text))
        for name, _ in names:
            if name in homes:
                raise ValueError(
                    f"{name} is declared in {homes[name]} and in {path}; names of modules joined in one differ"
                )
            homes[name] = path
        exported[path] = {name for name, is_exported in names if is_exported}
    for path, sources in imports.items():
        for source, names_ in sources:
            missing = sorted(names_ - exported[source])
            if missing:
                raise ValueError(f"{path} imports {', '.join(missing)} from {source}, which does not export it")
    order = _ordered({path: [source for source, _ in sources] for path, sources in imports.items()})
    return "".join(_bare(modules[path]) for path in order)


def _imports(path: str, text: str, modules: Mapping[str, str]) -> Iterator[tuple[str, set[str]]]:
    """Module and names of each import."""
    if other := _OTHER_IMPORT.search(_LIST.sub("", _IMPORT.sub("", text))):
        raise ValueError(
            f'{path}: {other[0]}: write import {{a, b}} from "./file.js"; or export before what is declared'
        )
    for names, source in _IMPORT.findall(text):
        home = normpath(join(dirname(path), source))
        if home not in modules:
            raise ValueError(f"{path} imports from {source}, and there is no {home}")
        yield home, {name.strip() for name in names.split(",") if name.strip()}


def _declarations(text: str) -> Iterator[tuple[str, bool]]:
    """Names that the top level of a module declares, and whether each is exported."""
    listed = {name.strip() for names in _LIST.findall(text) for name in names.split(",")}
    for word, *names, several in _DECLARED.findall(text):
        parts = [part.partition("=")[0].rpartition(":")[2].strip(" \n.[]{}") for part in several.split(",")]
        for name in filter(None, (*names, *parts)):
            yield name, bool(word) or name in listed


def _ordered(imports: Mapping[str, list[str]]) -> list[str]:
    """Modules, each behind those that it imports from."""
    order: list[str] = []
    open_: list[str] = []

    def visit(path: str) -> None:
        if path in open_:
            raise ValueError(f"imports go round: {' -> '.join((*open_[open_.index(path) :], path))}")
        if path in order:
            return
        open_.append(path)
        for source in imports[path]:
            visit(source)
        order.append(open_.pop())

    for path in imports:
        visit(path)
    return order


def _bare(text: str) -> str:
    """A module without the words that join it to others, ended by one line break."""
    return re.sub(r"^export (?=\w)", "", _LIST.sub("", _IMPORT.sub("", text)), flags=re.MULTILINE).strip("\n") + "\n"


def _check(name: str, text: str, end: re.Pattern[str]) -> None:
    """Refuse what a parser of HTML would not hand on as it is."""
    if found := end.search(text):
        raise ValueError(f"{name} contains {found[0]}, which ends its element; write <\\/script or <\\!--")
    if "\r" in text or "\0" in text:
        raise ValueError(f"{name} contains a carriage return or a zero byte, which a browser would change")


def _source(text: str) -> str:
    """A text as a policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
