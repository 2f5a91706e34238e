"""Writes tests/measured/kernels.csv: a few rows of every kind of kernel, so that the tests can judge without the wheel.

python accuracy/kernel_rows.py kernels/
python accuracy/sample_kernels.py kernels/
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from zlib import crc32

from kernel_rows import COLUMNS, GPUS, Row, write_rows

OUT = Path(__file__).parent.parent / "tests" / "measured" / "kernels.csv"
HELD_OUT = ("h200-sxm", "b300")
#: Rows per GPU, kind, dtype and engine, and as many of experts spread over ranks: more of the GPUs that no fit has seen.
KEPT_HELD_OUT, KEPT = 10, 3
#: Kinds of which only SGLang has tables beside TensorRT-LLM's.
SGLANG = ("mla_prefill", "mla_decode", "moe_dispatch", "moe_combine")


def main() -> None:
    """Write the sample."""
    folder = Path(sys.argv[1])
    chosen: list[Row] = []
    for name in GPUS.values():
        with (folder / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        groups: dict[tuple[str, str, str, bool], list[Row]] = {}
        for row in rows:
            if row["engine"] != "sglang" or row["kind"] in SGLANG:
                groups.setdefault((row["kind"], row["dtype"], row["engine"], row["ep"] not in ("", "1")), []).append(
                    row
                )
        for group in groups.values():
            group.sort(key=lambda row: crc32(repr([row[name] for name in COLUMNS[3:21]]).encode()) ^ 0x5A5A5A5A)
            chosen += group[: KEPT_HELD_OUT if name in HELD_OUT else KEPT]
    write_rows(OUT, chosen)
    print(f"{OUT.name}: {len(chosen)} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
