"""The page in a browser, from disk: it answers, says what is wrong, can be taken elsewhere, and loads nothing."""

import csv
import re
import shlex
import xml.etree.ElementTree as ET

import matplotlib.image
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import MISSING, chromium
from cli.asking import ask, strict_json
from every_case import each
from spec_texts import GPU, MODEL

import roofline as rl

MODELS, GPUS = ("llama-3.1-8b", "gpt-oss-20b"), ("h100-sxm", "b200", "l4", "mi300x")
EVIL = "<img src=x onerror=alert(1)>"
CHARTS = 6
#: Controls by their name in the form, with something else than they say at first.
CONTROLS = {
    "model": "gpt-oss-20b", "gpu": "b200", "quantization": "fp8", "isl": "4k", "osl": "200", "prefix": "25%",
    "cacheHit": "50%", "load": "request_rate", "amount": "0.3", "ttft": "900", "ttftLevel": "p50", "tpot": "40ms",
    "tpotLevel": "p99", "e2el": "9s", "e2elLevel": "p50", "price": "1.25", "plan": "2", "engine": "vllm",
    "kv": "bf16", "pp": "2", "ep": "2", "replicas": "2", "network": "30ms", "basis": "ideal",
}  # fmt: skip
#: What nobody can answer, by the control that takes it.
IMPOSSIBLE = {
    "isl": ("", "-5", "1e400", "0,5", "nan"), "amount": ("0", "1e400"), "prefix": ("120%",), "ttft": ("-3", "0,3"),
    "price": ("x",), "model": ("lama-9",), "gpu": ("",),
}  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        if found is None:
            pytest.skip(MISSING)
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Address of a page of two models and four GPUs, and of one of each whose names are HTML."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "specs").mkdir()
    (folder / "specs" / "gpu.yaml").write_text(
        GPU.replace("name: my-gpu", f'name: "{EVIL}"').replace("- prototype", f'- "{EVIL}"')
    )
    (folder / "specs" / "model.yaml").write_text(MODEL.replace("name: acme/Tiny-1B", f'name: "acme/{EVIL}"'))
    rl.page(folder / "page.html", (*MODELS, "tiny-1b"), (*GPUS, "mine"), specs=str(folder / "specs"))
    return (folder / "page.html").as_uri()


def until(page, expression):
    """Wait for something to be true on the page, whose policy forbids the way in which Playwright would do that."""
    for _ in range(300):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(30)
    raise AssertionError(f"not within 9 s: {expression}")


def settle(page):
    """Wait for what follows the answer: ranking, reasons and charts."""
    until(page, f"document.querySelectorAll('#charts-body .plot > *').length === {CHARTS}")
    until(page, "document.querySelector('[aria-busy=true]') === null")


@pytest.fixture(scope="module")
def window(browser, address):
    """A window in which all must happen without an error, a violation of the page's policy, and a request."""
    context = browser.new_context()
    wrong, requests = [], []
    context.add_init_script(
        "document.addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective))"
    )
    context.on("console", lambda message: wrong.append(message.text))
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    context.on("dialog", lambda dialog: wrong.append(dialog.message))
    context.on("request", lambda request: requests.append(request.url))
    context.route(re.compile("^https?:"), lambda route: route.abort())
    yield context.new_page()
    context.close()
    assert wrong == []
    assert address in requests
    assert [url for url in requests if not url.startswith(("data:", "blob:", "about:blank", address))] == []


@pytest.fixture
def page(window, address):
    """The page as one opens it."""
    window.goto("about:blank")
    window.set_viewport_size({"width": 1280, "height": 900})
    window.emulate_media(media="screen")
    window.goto(address)
    return window


def said(page):
    return page.inner_text("#answer-body")


def put(page, control, text):
    """Type into a control, or choose; what follows at once is there when this returns."""
    element = page.locator(f"#in-{control}")
    tag, role, width = element.evaluate("one => [one.tagName, one.role, one.offsetWidth]")
    if width == 0:
        page.click("#more-toggle")
    if tag == "SELECT":
        element.select_option(text)
        return
    element.fill(text)
    if role == "combobox":
        element.press("Enter" if text in (*MODELS, *GPUS) else "Tab")


def texts(page):
    """What all controls say."""
    return page.eval_on_selector_all(
        "input[id^=in-], select[id^=in-]", "all => Object.fromEntries(all.map((one) => [one.id, one.value]))"
    )


def seconds(text):
    """The first time in a text."""
    figure, unit = re.search(r"([\d.]+)\s*(s|ms|µs)\b", text).groups()
    return float(figure) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit]


def saved(page, name, folder):
    """The file that a button hands to the browser."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_an_answer_is_there_at_once_and_is_that_of_the_line_of_python_and_of_the_command_that_it_shows(page):
    for changes in ({}, {"load": "request_rate", "amount": "2", "ttft": "300", "ttftLevel": "mean", "gpu": "b200"}):
        for control, text in changes.items():
            put(page, control, text)
        command, python = page.locator("#elsewhere-body .code:not([hidden]) code").all_inner_texts()
        answer = eval(python, {"rl": rl})
        (row,) = strict_json(ask(*shlex.split(command)[1:], "--format", "json").stdout)["rows"]
        shown = page.locator("#answer-body .large").all_inner_texts()
        assert len(shown) == 2
        for metric, text in zip(("ttft", "tpot"), shown, strict=True):
            level = texts(page)[f"in-{metric}Level"]
            name = metric if level == "mean" else f"{metric}_{level}"
            assert seconds(text) == pytest.approx(answer.latency(name), rel=6e-3), python
            assert 1e-3 * row[f"{name}_ms"] == pytest.approx(answer.latency(name)), command
        assert row["slo_verdict"] in page.inner_text("#answer-body .verdict")
    until(page, "document.querySelector('#live').textContent.includes('TTFT')")


def test_every_control_changes_the_answer_and_the_address_brings_all_of_it_back(page):
    seen = [said(page)]
    for control, text in CONTROLS.items():
        put(page, control, text)
        assert said(page) != seen[-1], control
        seen.append(said(page))
    assert page.locator("[aria-invalid=true]").count() == 0
    until(page, "location.hash.includes('basis=ideal')")
    link, asked = page.url, texts(page)
    page.goto("about:blank")
    page.goto(link)
    assert texts(page) == asked
    assert said(page) == seen[-1]
    settle(page)
    page.evaluate("location.hash = '#m=llama-3.1-8b&g=l4&isl=2000&osl=100&batch=1'")
    until(page, "document.querySelector('#in-gpu').value === 'l4'")
    assert "l4" in said(page)
    assert said(page) != seen[-1]
    page.click("#reset")
    assert said(page) == seen[0]


def test_a_workload_fills_lengths_and_limits_and_a_copied_link_asks_the_same(page):
    page.select_option("#workload", "chat")
    chat = rl.load_workload("chat")
    assert [texts(page)[f"in-{name}"] for name in ("isl", "osl")] == [str(chat.isl), str(chat.osl)]
    assert page.locator("#answer-body .verdict:not(.none)").count() == 1
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-link")
    until(page, "document.querySelector('#copy-link').textContent === 'Copied'")
    page.focus("#ranking-filter")
    page.keyboard.press("Control+V")
    link = page.input_value("#ranking-filter")
    assert link.startswith(page.url.partition("#")[0])
    assert f"isl={chat.isl:g}" in link


def test_what_cannot_be_is_said_at_its_field_and_the_last_answer_stays(page):
    before, first = said(page), texts(page)
    state = (
        "one => [one.ariaInvalid, document.getElementById(one.getAttribute('aria-describedby'))?.innerText ?? '',"
        " document.getElementById('answer-body').innerText, document.getElementById('stale').innerText]"
    )
    for control, wrong in IMPOSSIBLE.items():
        for text in wrong:
            put(page, control, text)
            is_invalid, message, answer, stale = page.locator(f"#in-{control}").evaluate(state)
            assert (is_invalid, answer) == ("true", before), (control, text)
            assert len(message) > 10, (control, text)
            assert len(stale) > 10, (control, text)
        put(page, control, first[f"in-{control}"])
        assert page.locator(f"#in-{control}").evaluate(state) == [None, "", before, ""], control


def test_an_address_with_nonsense_is_said_and_never_run(page, address):
    page.goto("about:blank")
    page.goto(f"{address}#m={EVIL}&g=h100-sxm&isl=%ff&osl=1e400&tp=<b>&zeta=1&ttft=x@p12&own=;;;;;;&users=%00")
    assert page.locator("[aria-invalid=true]").count() >= 5
    assert "zeta" in page.inner_text("#notice")
    assert page.locator("img, main b").count() == 0


def test_a_gpu_of_ones_own_takes_five_figures_and_comes_as_a_file(page, tmp_path):
    before = said(page)
    page.click("#more-toggle")
    figures = {"Name": "mine2", "Peak": "1.2 PFLOP/s", "Bandwidth": "5 TB/s", "Memory": "96 GB", "Link": "450 GB/s"}
    for name, text in figures.items():
        put(page, f"own{name}", text)
    page.click("#use-own")
    assert said(page) != before
    assert "mine2" in said(page)
    assert "?" in page.inner_text("#answer-body .badge")
    settle(page)
    assert page.locator("#ranking-body tr[data-gpu=mine2]").count() == 1
    command, _, file = page.locator("#elsewhere-body .code:not([hidden]) code").all_inner_texts()
    assert saved(page, "Save", tmp_path).name in shlex.split(command)
    assert (tmp_path / "mine2.yaml").read_text() == file
    put(page, "ownBandwidth", "5")
    assert page.get_attribute("#in-ownBandwidth", "aria-invalid") == "true"


def test_the_ranking_sorts_and_picks_and_says_why_a_gpu_has_no_answer(page):
    put(page, "quantization", "fp8")
    put(page, "amount", "4000")
    settle(page)
    rows = page.locator("#ranking-body tbody tr")
    assert rows.count() == len(GPUS) + 1
    names = [text.strip() for text in rows.locator(".pick").all_inner_texts()]
    assert sorted(names) == sorted((*GPUS, EVIL))
    page.get_by_role("button", name="GPU", exact=True).click()
    assert [text.strip() for text in rows.locator(".pick").all_inner_texts()] != names
    page.locator("#ranking-body tr[data-gpu=l4] .pick").click()
    assert page.input_value("#in-gpu") == "l4"


def test_names_that_are_html_stay_text(page, address, tmp_path):
    page.goto("about:blank")
    page.goto(f"{address}#m=tiny-1b&g=mine&isl=1000&osl=100")
    settle(page)
    assert page.locator("img").count() == 0
    assert EVIL in said(page)
    assert EVIL in page.inner_text("#ranking-body")
    assert EVIL in page.title()
    path = saved(page, "SVG: Memory of one GPU", tmp_path)
    assert "img" not in {element.tag.rpartition("}")[2] for element in ET.parse(path).iter()}


def test_answers_leave_as_tables(page, tmp_path):
    settle(page)
    for name, columns in (("CSV: GPUs", {"gpu", "ttft_s", "reason"}), ("Answer as CSV", {"model", "gpu", "ttft_s"})):
        rows = list(csv.DictReader(saved(page, name, tmp_path).read_text("utf-8").splitlines()))
        assert columns <= set(rows[0])
        assert len(rows) == (1 if "model" in columns else len(GPUS) + 1)


def test_every_chart_leaves_as_a_table_and_as_pictures(page, tmp_path):
    settle(page)
    titles = page.locator("#charts-body h3").all_inner_texts()
    assert len(titles) == CHARTS
    for place, title in enumerate(titles):
        if place == CHARTS / 2:  # a browser hands out ten files at once
            page.reload()
            settle(page)
        rows = list(csv.reader(saved(page, f"CSV: {title}", tmp_path).read_text("utf-8").splitlines()))
        assert len(rows) > 1, title
        assert {len(row) for row in rows} == {len(rows[0])}, title
        drawing = ET.parse(saved(page, f"SVG: {title}", tmp_path)).getroot()
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        kinds = [element.tag.rpartition("}")[2] for element in drawing.iter()]
        assert len(kinds) > 20, title
        assert not {"script", "style", "image", "foreignObject"} & set(kinds)
        assert "var(" not in ET.tostring(drawing, "unicode")
        picture = matplotlib.image.imread(saved(page, f"PNG: {title}", tmp_path))
        assert picture.shape[1] == 2 * float(drawing.get("width"))
        assert picture[..., :3].std() > 0.02, title


def test_all_of_it_works_with_the_keyboard_alone(page):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"
    page.focus("#skip")
    reached = []
    while True:
        page.keyboard.press("Tab")
        where, is_marked = page.evaluate(
            "() => {const it = document.activeElement, style = getComputedStyle(it);"
            " return [it.id || it.getAttribute('aria-label') || it.textContent.slice(0, 40),"
            " it.tagName === 'BODY' || style.outlineStyle !== 'none' || style.boxShadow !== 'none']}"
        )
        if not where or where in reached[:1] or len(reached) > 150:
            break
        assert is_marked, where
        reached.append(where)
    visible = {"in-model", "in-gpu", "in-isl", "in-load", "in-ttftLevel", "workload", "more-toggle", "ranking-csv"}
    assert visible <= set(reached)
    assert len(reached) < 150
    page.focus("#in-gpu")
    page.keyboard.type("b20")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#in-gpu") == "b200"
    page.focus("#more-toggle")
    page.keyboard.press("Space")
    assert page.locator("#in-engine").is_visible()
    settle(page)
    page.focus("#ranking-body .pick[tabindex='0']")
    page.keyboard.press("ArrowDown")
    chosen = page.evaluate("document.activeElement.textContent.trim()")
    page.keyboard.press("Enter")
    assert page.input_value("#in-gpu") == chosen


def test_no_width_needs_scrolling_sideways_and_paper_will_do(page):
    settle(page)
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        until(page, "document.documentElement.scrollWidth <= innerWidth")
    page.emulate_media(media="print")
    assert page.locator("#answer-body .large").first.is_visible()
    assert not page.locator("#copy-link").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")


@each("scheme, rules", [("light", {}), ("dark", {"runOnly": ["color-contrast"]})])
def test_nothing_that_a_reader_depends_on_is_missing(page, scheme, rules):
    settle(page)
    page.emulate_media(color_scheme=scheme)
    page.click("#more-toggle")
    put(page, "isl", "-1")
    found = Axe().run(page, options={"resultTypes": ["violations"], **rules}).response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in grave] == []
