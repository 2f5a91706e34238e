"""What in the catalogs has grown old, and where to look for something newer.

    python docs/list_stale.py             rents over 120 days old, GPUs that ship without one, announced ones to check,
                                          sets of kernels and engine profiles by date
    python docs/list_stale.py --days 60   the same for rents over 60 days old

Reads the shipped specifications alone; fetches nothing, changes nothing. Ages are those of the day on which it runs, or
of $SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from roofline.catalog.yaml import content_of_text
from roofline.specs.gpu import ANNOUNCED
from roofline.support.dates import OLD, days_since

ROOT = Path(__file__).resolve().parents[1]
_CHECKED = 90  # days after which the status of an announced GPU is worth another look


def contents(folder: str, *, kernels: bool = False) -> Iterator[dict[str, Any]]:
    """Specifications of a folder of the repository; of GPUs, or of sets of kernels."""
    for path in sorted((ROOT / folder).rglob("*.yaml")):
        if ("calibration" in path.parts) == kernels:
            yield content_of_text(path.read_text(encoding="utf-8"))


def newest(content: Mapping[str, Any]) -> str:
    """Date of the newest source of a specification."""
    return max(str(source["date"]) for source in content["sources"].values())


def rents(days: int) -> Iterator[str]:
    """Rents older than so many days, the oldest first."""
    priced = [content for content in contents("hardware_specs") if content.get("price")]
    dated = [(str(content["sources"][content["price"]["source"]]["date"]), content) for content in priced]
    for date, content in sorted(dated, key=lambda pair: pair[0]):
        age, price = days_since(date) or 0, content["price"]
        if age > days:
            source = content["sources"][price["source"]]
            yield f"{content['name']}: {price['typical']} of {date}, {age} days; {source.get('url', source['title'])}"


def without_a_rent() -> Iterator[str]:
    for content in contents("hardware_specs"):
        if content.get("status", "shipping") == "shipping" and not content.get("price"):
            yield f"{content['name']}: ships without a rent"


def announced() -> Iterator[str]:
    """Announced GPUs, whose newest source is some months old: they may ship by now."""
    for content in contents("hardware_specs"):
        if content.get("status") in ANNOUNCED:
            date = newest(content)
            if (days_since(date) or 0) > _CHECKED:
                yield f"{content['name']}: {content['status']}; newest source of {date}"


def kernels() -> Iterator[str]:
    """Sets of kernels, the oldest first."""
    for content in sorted(contents("hardware_specs", kernels=True), key=newest):
        yield f"{content['name']}: {newest(content)}, {', '.join(content.get('engines', ()))}"


def engines() -> Iterator[str]:
    for content in contents("engine_specs"):
        yield f"{content['name']}: {content.get('versions', 'no version')}; newest source of {newest(content)}"


def main() -> None:
    """Print each list under its heading."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=OLD, help="age from which a rent is old")
    options = parser.parse_args()
    for heading, lines in (
        (f"rents over {options.days} days old", rents(options.days)),
        ("GPUs that ship without a rent", without_a_rent()),
        (f"announced GPUs without news for {_CHECKED} days", announced()),
        ("sets of kernels", kernels()),
        ("engine profiles", engines()),
    ):
        sys.stdout.write("\n  ".join([f"{heading}:", *(list(lines) or ["none"])]) + "\n")


if __name__ == "__main__":
    main()
