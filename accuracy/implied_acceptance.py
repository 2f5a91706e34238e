"""Prints how many tokens per step the MTP runs of a public wheel imply: they state TPOT, but no acceptance.

    pip install aiconfigurator-core==0.12.0 && python accuracy/implied_acceptance.py

takes about a minute. For each run of accuracy/serving_rows.py that speculated, the equal acceptance of all proposals is
found with which the predicted TPOT is the measured one. How many tokens were proposed is not stated either: three are
assumed, one where attention is data-parallel, as the recipes of InferenceX have it. Errors of the predicted steps are in
these figures, so that nothing is fitted to them, and nothing judged.
"""

from __future__ import annotations

import statistics
from collections import defaultdict

from serving_rows import ServingRow, serving_rows

import roofline as rl
from roofline.specs.engine import Acceptance

_DRAFTS, _DATA_PARALLEL_DRAFTS = 3, 1
_HALVINGS = 16


def implied(row: ServingRow, drafts: int) -> float:
    """Tokens per step at which a run's TPOT is predicted; 1 or all where none or all of the proposals do not suffice."""

    def tpot(rate: float) -> float:
        found = rl.predict(
            row.model, row.gpu, isl=round(row.mean_isl), osl=round(row.mean_osl), quantization=row.quantization,
            kv_cache_dtype=row.kv_cache_dtype, engine=row.engine, tp=row.tp, pp=row.pp, ep=row.ep, dp=row.dp,
            concurrency=row.concurrency, draft="mtp", acceptance=[rate] * drafts,
        )  # fmt: skip
        return found.tpot or 0.0

    low, high = 0.0, 1.0
    if tpot(low) <= row.tpot:
        return 1.0
    if tpot(high) >= row.tpot:
        return drafts + 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if tpot(middle) > row.tpot else (low, middle)
    return Acceptance((high,) * drafts).tokens


def main() -> None:
    """Print medians and quartiles by GPU, engine and number of proposals."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in serving_rows():
        if row.excluded == "speculative":
            drafts = _DRAFTS if row.dp == 1 else _DATA_PARALLEL_DRAFTS
            tokens = implied(row, drafts)
            for key in ((row.gpu, row.engine, f"{drafts} proposed"), ("all", f"{drafts} proposed")):
                found[key].append(tokens)
    for key, tokens in sorted(found.items()):
        low, middle, high = statistics.quantiles(tokens, n=4)
        print(f"{', '.join(key)}: {middle:.2f} tokens per step ({low:.2f} to {high:.2f}), {len(tokens)} runs")


if __name__ == "__main__":
    main()
