"""Entry point of the `roofline` command; what it needs is imported when it runs."""

from __future__ import annotations

import atexit
import gc
import sys

_RARELY = 1 << 17  # new objects between two collections


def start() -> None:
    gc.set_threshold(_RARELY)  # one answer leaves next to no garbage behind
    atexit.register(gc.freeze)  # nor at exit
    try:
        from roofline.cli.main import main

        main()
    except KeyboardInterrupt:  # before or after the command itself runs
        sys.stderr.write("\nAborted!\n")
        sys.exit(1)


if __name__ == "__main__":
    start()
