"""The browser that reads pages in tests: a Chromium of the machine, or one that Playwright has installed.

As a script it says which one there is: ``python tests/page/browser.py``.
"""

import shutil
from contextlib import contextmanager

from playwright.sync_api import Error, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Nothing is looked up, updated or synchronised; containers have no sandbox, and tests no GPU.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
MISSING = (
    f"no browser reads the page: none of {', '.join(NAMES)} is on this machine, and Playwright has none "
    "(python -m playwright install --only-shell chromium)"
)


@contextmanager
def chromium():
    """A browser without a window; None where there is none."""
    with sync_playwright() as driver:
        path = next(filter(None, map(shutil.which, NAMES)), None)
        try:
            browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        except Error as fault:
            if path is not None or "Executable doesn't exist" not in fault.message:
                raise
            yield None
            return
        yield browser
        browser.close()


if __name__ == "__main__":
    with chromium() as browser:
        print(MISSING if browser is None else f"the page was read by Chromium {browser.version}")
