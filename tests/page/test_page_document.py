"""A page is its parts in a row, and a browser is told to run these parts and to load nothing."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from every_case import each
from py_mini_racer import MiniRacer

from roofline.outputs.page.document import Parts, html, one_script

TEMPLATE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{{csp}}<title>a {b}</title>{{style}}</head>\n'
    "<body>{{vendor}}{{data}}{{script}}</body></html>\n"
)
MODULES = {
    "view/main.js": 'import {twice} from "../engine/times.js";\nimport {shown} from "./text.js";\n\nshown(twice(2));\n',
    "view/text.js": "export const shown = (value) => `is\n${value}`;\n",
    "engine/times.js": 'import {\n  two\n} from "./two.js";\n// Twice.\nexport function twice(x) {return two * x;}\n',
    "engine/two.js": "const two = 2;\nconst {a, b: [c]} = {b: []};\nexport { two,\n  a };\n",
}
VENDOR = {"vendor/1.js": "var d = 1;", "vendor/2.js": 'd += "<b>&amp;";'}
PARTS = Parts(TEMPLATE, "p > a { color: red }", VENDOR, MODULES)
HOSTILE = {"name": "</script><img src=x onerror=alert(1)><!-- {{script}} \u2028\ud800", "empty": None}


class Reader(HTMLParser):
    """Elements with their attributes and texts, in their order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        self.elements.append((None, {}, []))

    def handle_data(self, data):
        if self.elements:
            self.elements[-1][2].append(data)


def elements(text, tag):
    return [(attributes, "".join(texts)) for name, attributes, texts in Reader(text).elements if name == tag]


def test_the_parts_stand_in_their_places_and_the_data_survives_any_name():
    text = html(PARTS, HOSTILE)
    assert [text for _, text in elements(text, "style")] == [PARTS.style]
    *vendor, (kind, data), (module, script) = elements(text, "script")
    assert [text for _, text in vendor] == list(VENDOR.values())
    assert (kind, module) == ({"type": "application/json", "id": "contents"}, {"type": "module"})
    assert json.loads(data) == HOSTILE
    assert script == one_script(MODULES)
    assert not elements(text, "img")
    assert text.isascii()


def test_the_policy_names_every_part_by_its_hash_and_allows_nothing_else():
    text = html(PARTS, {})
    (policy,) = (one["content"] for one, _ in elements(text, "meta") if "http-equiv" in one)
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split("; ")}
    runs = [text for kind, text in elements(text, "script") if "id" not in kind]
    assert rules["script-src"] == [hashed(text) for text in runs]
    assert rules["style-src"] == [hashed(text) for _, text in elements(text, "style")]
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    assert rules["img-src"] == ["data:", "blob:"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert text.index("Content-Security-Policy") < text.index("<style") < text.index("<script")


def hashed(text):
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_the_same_parts_make_the_same_page():
    assert html(PARTS, HOSTILE) == html(PARTS, HOSTILE)


def test_modules_come_after_those_they_import_from_and_run_as_one():
    script = one_script(MODULES)
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    places = [script.index(name) for name in ("const two", "function twice", "const shown", "shown(twice(2))")]
    assert places == sorted(places)
    context = MiniRacer()
    context.eval(script)
    assert context.eval("shown(twice(4))") == "is\n8"


@each("changed, said", [
    ({"engine/two.js": "export const too = 2;\n"}, "engine/times.js imports two from engine/two.js, which does not"),
    ({"engine/two.js": "const two = 2;\n"}, "which does not export it"),
    ({"view/main.js": 'import {x} from "./x.js";\n'}, "view/main.js imports from ./x.js, and there is no view/x.js"),
    ({"view/main.js": 'import {x} from "x";\n'}, "there is no view/x"),
    ({"view/text.js": "export const shown = 1;\nfunction two() {}\n"}, "two is declared in"),
    ({"view/text.js": "export const shown = 1;\nasync function twice() {}\n"}, "twice is declared in"),
    ({"view/text.js": "export const shown = 1;\nlet c;\n"}, "c is declared in"),
    ({"engine/two.js": 'import {twice} from "./times.js";\nexport const two = 2;\n'},
     "imports go round: engine/times.js -> engine/two.js -> engine/times.js"),
    ({"engine/two.js": 'import {two} from "./two.js";\nexport const two = 2;\n'}, "engine/two.js -> engine/two.js"),
    ({"view/main.js": 'import "./text.js";\n'}, 'view/main.js: import "./text.js";: write import'),
    ({"view/main.js": 'import {shown as text} from "./text.js";\n'}, "imports shown as text from"),
    ({"view/main.js": 'import * as text from "./text.js";\n'}, "write import {a, b}"),
    ({"view/text.js": "export default 1;\n"}, "view/text.js: export default 1;"),
    ({"view/text.js": 'export {two} from "../engine/two.js";\n'}, "view/text.js: export {two}"),
    ({"view/text.js": 'export const shown = "</script>";\n'}, "the modules contains </script"),
    ({"view/text.js": 'export const shown = "<!-- x";\n'}, "the modules contains <!--"),
    ({"view/text.js": "export const shown = 1;\r\n"}, "carriage return"),
])  # fmt: skip
def test_modules_that_cannot_be_one_script_are_refused(changed, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        html(PARTS._replace(modules={**MODULES, **changed}), {})


@each("parts, said", [
    (PARTS._replace(style="p {} </STYLE >"), "the style contains </STYLE"),
    (PARTS._replace(vendor={"vendor/1.js": "'</script x'"}), "vendor/1.js contains </script"),
    (PARTS._replace(template=TEMPLATE.replace("{{csp}}", "")), "each of csp, style, vendor, data, script once"),
    (PARTS._replace(template=TEMPLATE + "{{style}}"), "each of csp, style, vendor, data, script once"),
    (PARTS._replace(template=TEMPLATE + "{{title}}"), "title; it needs each of"),
])  # fmt: skip
def test_parts_that_a_browser_would_read_otherwise_are_refused(parts, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        html(parts, {})
