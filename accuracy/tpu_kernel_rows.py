"""The matrix multiplications of Google's recipe for TPU7x, in the columns that `roofline calibrate` reads.

    python accuracy/tpu_kernel_rows.py tpu-recipes/microbenchmarks/ironwood/README.md kernels/

writes kernels/tpu-v7x/xla.csv from a checkout of github.com/AI-Hypercomputer/tpu-recipes (Apache-2.0). The recipe states
TFLOP/s of square matrices in BF16 on one device, which is half a chip.
"""

from __future__ import annotations

import argparse
import csv
import re
from pathlib import Path

DATE = "2026-08"  # of the checkout, @c8cfe2f68908
_TERA_PER_MICRO = 1e6  # FLOP of a microsecond at 1 TFLOP/s


def main() -> None:
    """Write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readme", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    path = options.folder / "tpu-v7x" / "xla.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        file.write("# Extract of github.com/AI-Hypercomputer/tpu-recipes, Apache-2.0; rates turned into times.\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("gpu", "kind", "dtype", "m", "n", "k", "latency_us", "engine", "date"))
        for size, rate in re.findall(r"(?m)^\| (\d+) \| ([\d.]+) \|$", options.readme.read_text()):
            time = 2 * int(size) ** 3 / (float(rate) * _TERA_PER_MICRO)
            writer.writerow(("tpu-v7x", "gemm", "bf16", size, size, size, f"{time:.6g}", "xla", DATE))


if __name__ == "__main__":
    main()
