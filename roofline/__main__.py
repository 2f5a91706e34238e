"""The `roofline` command, before anything of it is imported."""

from __future__ import annotations

import atexit
import gc

__all__ = ["start"]

_RARELY = 1 << 17  # objects more, between searches for garbage


def start() -> None:
    """Run the command line."""
    gc.set_threshold(_RARELY)  # next to nothing that one answer builds is garbage before its end
    atexit.register(gc.freeze)  # nor is there anything to look for in it after that
    from roofline.cli.main import main

    main()


if __name__ == "__main__":
    start()
