"""Published runs of servers on accelerators of which hardly any kernel was timed, as one table.

    python accuracy/other_server_rows.py sources/ other_servers.csv

`sources/` holds what the URLs in `SOURCES` give, under the names there: pages of Intel, saved as HTML or as text with
cells between bars, and files of two repositories. Fixed-length batches of Gaudi tell tokens generated per second of the
whole run, prompts included; "Latency" there is the time of the first token, as it grows with the prompt. A TPU7x chip is
two devices, over which tp counts; tp 64 of Trainium2 are 16 chips. `fit` is 1 where a factor may rest on the row: other
models judge, and those that are held out everywhere.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]

COLUMNS = (
    "gpu", "tp", "model", "quantization", "kv_cache_dtype", "engine", "isl", "osl", "batch", "concurrency",
    "num_prompts", "max_num_seqs", "max_num_batched_tokens", "ttft_ms", "tpot_ms", "output_tok_s", "fit", "source",
)  # fmt: skip
_GAUDI = "https://www.intel.com/content/www/us/en/developer/platform/gaudi/model-performance"
_NEURON = "https://github.com/aws-neuron/aws-neuron-sdk/blob/81ce03ae261e/libraries/nxd-inference/tutorials"
_TPU = "https://github.com/AI-Hypercomputer/tpu-recipes/blob/c8cfe2f68908/inference/ironwood/vLLM"
SOURCES = {
    "gaudi2.html": f"{_GAUDI}-gaudi2-inference.html",
    "gaudi3.html": f"{_GAUDI}.html",
    "llama405b_perf_comparison.csv": f"{_NEURON}/llama405b_perf_comparison.csv",
    "llama70b_perf_comparison.csv": f"{_NEURON}/llama70b_perf_comparison.csv",
    "qwen3-32b.md": f"{_TPU}/Qwen3-32B/README.md",
    "qwen3.5-397b.md": f"{_TPU}/Qwen3.5-397B/README.md",
    "qwen3-coder-480b.md": f"{_TPU}/Qwen3-Coder-480B-A35B/README.md",
}
#: Models on which factors may rest, by source; all others there judge.
FITTED = {
    "gaudi2.html": ("llama-2-70b", "llama-3.1-8b", "mistral-7b"),
    "gaudi3.html": ("llama-2-70b", "llama-3.1-8b", "mistral-7b"),
    "llama405b_perf_comparison.csv": ("llama-3.1-405b",),
    "qwen3-32b.md": ("qwen3-32b",),
}
_CATALOG = {"mistral-7b": "mistral-7b-v0.1"}
_SHARE = 0.9  # mean length over the nominal one, of lengths that are uniform in 0.8 to 1 of it


class Recipe(NamedTuple):
    """How a recipe runs its server."""

    model: str
    tp: int  # chips
    concurrency: int
    num_prompts: int
    max_num_seqs: int | None
    budget: int | None


RECIPES = {
    "qwen3-32b.md": Recipe("qwen3-32b", 1, 320, 320, 135, 4096),
    "qwen3.5-397b.md": Recipe("qwen3.5-397b-a17b", 4, 128, 640, None, None),
    "qwen3-coder-480b.md": Recipe("qwen3-coder-480b-a35b", 4, 64, 320, 512, 8192),
}


class _Cells(HTMLParser):
    """Rows of the tables of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data.strip()


def table_rows(text: str) -> list[list[str]]:
    """Cells of all tables of a page."""
    if "<tr" in text.lower():
        page = _Cells()
        page.feed(text)
        return page.rows
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if "|" in line]


def gaudi_rows(name: str, text: str) -> Iterator[Row]:
    """Rows of a page of Intel; a row without a model goes on with that above."""
    model = ""
    for found in table_rows(text):
        cells = [cell for cell in found if cell]
        if cells and re.match(r"(llama|mistral)", cells[0], re.IGNORECASE):
            model = _model_of(cells.pop(0))
        if len(cells) < 5 or cells[1] != "fp8" or not model:
            continue
        numbers = [float(cell.replace(",", "")) for cell in (cells[0], *cells[2:])]
        row = {
            "gpu": name.partition(".")[0], "tp": int(numbers[0]), "model": model, "quantization": "fp8-static",
            "kv_cache_dtype": "fp8", "engine": "none", "isl": numbers[1],
        }  # fmt: skip
        if len(numbers) == 5:
            yield row | {"osl": numbers[2], "batch": numbers[3], "output_tok_s": numbers[4]}
        else:
            yield row | {"osl": 1, "batch": numbers[2], "ttft_ms": numbers[3]}


def _model_of(text: str) -> str:
    name = re.sub(r"[^a-z0-9.]+", "-", text.lower().replace("llama ", "llama-")).strip("-")
    return _CATALOG.get(name, name)


def neuron_rows(name: str, text: str) -> Iterator[Row]:
    """Rows of a tutorial of Neuron: medians of one user, 10,000 tokens in and 1,500 out, in BF16."""
    model = "llama-3.1-405b" if "405b" in name else "llama-3.3-70b"
    for row in csv.DictReader(text.splitlines()):
        title, ttft, tpot, _ = row.values()
        found = {
            "gpu": "trainium2", "tp": 16, "model": model, "quantization": "bf16", "engine": "none", "isl": 10000,
            "osl": 1500, "batch": 1, "ttft_ms": float(ttft),
        }  # fmt: skip
        yield found if "draft" in title.lower() else found | {"tpot_ms": float(tpot)}


def recipe_rows(name: str, text: str) -> Iterator[Row]:
    """Rows of a recipe for TPU7x: means of a run whose lengths are 0.8 to 1 of the nominal ones."""
    recipe = RECIPES[name]
    for isl, osl, rate in re.findall(r"(?m)^\s*(\d+)k/(\d+)k\s*\|\s*([\d.]+)", text):
        row = {
            "gpu": "tpu-v7x", "tp": recipe.tp, "model": recipe.model, "quantization": "fp8",
            "kv_cache_dtype": "fp8", "engine": "vllm", "isl": _SHARE * 1024 * int(isl), "osl": _SHARE * 1024 * int(osl),
            "concurrency": recipe.concurrency, "num_prompts": recipe.num_prompts, "output_tok_s": float(rate),
        }  # fmt: skip
        limits = {"max_num_seqs": recipe.max_num_seqs, "max_num_batched_tokens": recipe.budget}
        yield row | {key: value for key, value in limits.items() if value is not None}


def server_rows(folder: Path) -> Iterator[Row]:
    """Rows of all sources that are there."""
    for name, url in SOURCES.items():
        path = folder / name
        if not path.is_file():
            print(f"{name} is not there; it is {url}", file=sys.stderr)
            continue
        read = gaudi_rows if name.startswith("gaudi") else recipe_rows if name.endswith(".md") else neuron_rows
        models = [_CATALOG.get(model, model) for model in FITTED.get(name, ())]
        for row in read(name, path.read_text()):
            yield {**row, "fit": int(row["model"] in models), "source": url}


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path)
    parser.add_argument("table", type=Path)
    options = parser.parse_args()
    with options.table.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(server_rows(options.sources))


if __name__ == "__main__":
    main()
