"""Request traces: lengths of prompts and answers."""

from __future__ import annotations

from roofline.errors import BadInput, shown
from roofline.measurements.csv_rows import csv_file
from roofline.quantity import BILLION

#: Names of the columns: ours, then those of public traces.
_ISL = ("isl", "input_length", "input_tokens", "prompt_tokens", "contexttokens", "request tokens")
_OSL = ("osl", "output_length", "output_tokens", "completion_tokens", "generatedtokens", "response tokens")


def read_trace(path: str) -> list[tuple[float, float]]:
    """Prompt and answer length [tokens] of each request of a CSV with columns isl and osl.

    Names of columns in public traces: Azure/AzurePublicDataset (AzureLLMInferenceTrace), HPMLL/BurstGPT, read 2026-11.
    """
    heading, rows = csv_file(path, "trace of requests")
    names = [name.lower() for name in heading]
    places = []
    for known in (_ISL, _OSL):
        place = next((names.index(name) for name in known if name in names), None)
        if place is None:
            columns = ", ".join(heading) or "not there"
            raise BadInput(f"{path}: no column {known[0]} (or {', '.join(known[1:])}); its columns are {columns}")
        places.append(place)
    lengths = [
        (_length(path, line, row, places[0], "isl"), _length(path, line, row, places[1], "osl")) for line, row in rows
    ]
    if not lengths:
        raise BadInput(f"{path}: has no requests")
    return lengths


def _length(path: str, line: int, row: list[str], place: int, name: str) -> float:
    text = row[place].strip() if place < len(row) else ""
    try:
        length = float(text)
    except ValueError:
        length = 0.0
    if not 1.0 <= length <= BILLION:
        raise BadInput(f"{path}:{line}: {name} = {shown(text)} must be from 1 to a billion tokens")
    return length
