"""Draws docs/page.png, the picture of the README: python docs/build_picture.py. It takes playwright and a Chromium."""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "page"))

from browser import MISSING, chromium  # noqa: E402

import roofline as rl  # noqa: E402

CASE = "m=llama-3.3-70b&g=h100-sxm&q=fp8&tp=4&isl=4096&osl=500&users=16&ttft=1200@p95&tpot=40"

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            raise SystemExit(MISSING)
        rl.page(f"{folder}/roofline.html")
        window = browser.new_page(viewport={"width": 1280, "height": 900})
        window.goto(f"{Path(folder, 'roofline.html').as_uri()}#{CASE}")
        window.wait_for_timeout(1500)
        window.screenshot(path=str(ROOT / "docs" / "page.png"))
