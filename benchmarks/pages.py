"""The page that `roofline page` writes, in a browser. As a script, a worker: pages.py FILE loads the page once."""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import HERE, Missed, Section, judged, number, process_cpu, roofline_command, spread, worker

#: What a reader waits for -> milliseconds that it may take.
BUDGETS: dict[str, float | None] = {
    "the first answer, from the opening of the file": 1000.0,
    "all charts, from the opening of the file": None,
    "another case: its answer is on the page": 20.0,
    "another case: all GPUs are ranked": 200.0,
    "another case: all charts are drawn": None,
}
_SIZE = "the file, compressed by gzip"
_MOST_KB = 500.0
#: That the page waits for further keys [ms]; `PAUSE` of its main.js.
_PAUSE = 120.0
TEXT = """\
The page of the whole catalog, opened from disk in headless Chromium, each round in a new profile. Times are wall time,
except that of an answer, which is how long the browser's one thread is busy. Ranking and charts of another case wait
{pause:.0f} ms for further keys, and are counted from then. Writing the page takes {write} s of CPU time; it is
{raw} kB."""
#: Records when answer, ranking and charts are there; runs before any script of the page.
WATCH = """
window.times = {};
new MutationObserver(() => {
  const place = (id) => document.getElementById(id);
  if (!window.times.answer && place("answer-body")?.childElementCount) {
    window.times.answer = performance.now();
  }
  const plots = document.querySelectorAll("#charts-body .plot > *").length;
  if (!window.times.charts && plots && plots === document.querySelectorAll("#charts-body .plot").length) {
    window.times.charts = performance.now();
  }
}).observe(document, {childList: true, subtree: true});
"""
#: Changes a case, and says how long the thread was taken, and when ranking and charts were there.
CHANGE = """
async (text) => {
  const field = document.getElementById("in-isl");
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const start = performance.now();
  field.value = text;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  document.getElementById("answer-body").getBoundingClientRect();
  const answer = performance.now() - start;
  while (document.querySelector("#ranking[aria-busy=true]")) await frame();
  const ranking = performance.now() - start;
  let charts = ranking;
  const drawn = new MutationObserver(() => {
    charts = performance.now() - start;
  });
  drawn.observe(document.getElementById("charts-body"), {childList: true, subtree: true});
  while (performance.now() - start < charts + 500) await frame();
  return {answer, ranking, charts};
}
"""


def measure(rounds: int) -> Section:
    missed: list[Missed] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "roofline.html")
        write = spread(written(file) for _ in range(rounds))
        raw = file.read_bytes()
        runs = [worker("pages", str(file)) for _ in range(max(rounds, 5))]
    small = spread([len(gzip.compress(raw, mtime=0)) / 1e3])
    rows = [(_SIZE, f"{small.median:.0f} kB", *judged(_SIZE, small, _MOST_KB, ("pages",), missed))]
    for name, budget in BUDGETS.items():
        times = [run[name] for run in runs if name in run]
        if times:
            found = spread(times)
            rows.append((name, f"{found} ms", *judged(name, found, budget, ("pages",), missed)))
        else:
            rows.append((name, "no browser here", "-", "-"))
    text = TEXT.format(pause=_PAUSE, write=number(write.median), raw=f"{len(raw) / 1e3:,.0f}")
    return Section("A page", text, ("what", "median (min-max)", "budget", "met"), rows, missed)


def written(file: Path) -> float:
    """Write the page; CPU time of the process [s]."""
    return process_cpu([*roofline_command(), "page", str(file), "--force"])


def main(file: str = "") -> None:
    """Load the page once, change the case once."""
    sys.path.insert(0, str(HERE.parent / "tests" / "page"))
    from browser import chromium

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        path = Path(file) if file else Path(folder, "roofline.html")
        if not file:
            written(path)
        found = [] if browser is None else loaded(browser.new_page(), path.as_uri())
    print(json.dumps(dict(zip(BUDGETS, found, strict=False))))


def loaded(page: Any, address: str) -> list[float]:
    """Times in the order of `BUDGETS` [ms]."""
    page.add_init_script(WATCH)
    page.goto(address)
    while not page.evaluate("window.times.charts && !document.querySelector('[aria-busy=true]')"):
        page.wait_for_timeout(50)
    times = page.evaluate("window.times")
    for text in ("1900", "3000"):  # the first one compiles
        changed = page.evaluate(CHANGE, text)
    behind = [changed[name] - _PAUSE for name in ("ranking", "charts")]
    return [times["answer"], times["charts"], changed["answer"], *behind]


if __name__ == "__main__":
    main(*sys.argv[1:])
