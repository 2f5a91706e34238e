"""Published measurements of whole passes: the table is whole, sourced, and speaks the language of the catalog."""

import csv
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from every_case import each

import roofline as rl
from roofline.serving.quantization import PRESETS

TABLE = Path(__file__).with_name("published.csv")
HEADER = (
    "id,gpu,model,engine,engine_version,tp,pp,ep,dp,quantization,kv_cache_dtype,isl,osl,prefix,batch,concurrency,"
    "request_rate,ttft_ms,tpot_ms,e2el_ms,statistic,date,source,url,licence,note,load"
)
COUNTS = ("tp", "pp", "ep", "dp", "isl", "osl")
LATENCIES = ("ttft_ms", "tpot_ms", "e2el_ms")
MS = 1e3
# The mean of a ratio is not the ratio of means, and pages round.
IDENTITY_TOLERANCE = 0.03


with TABLE.open(newline="") as _handle:
    ROWS: list[dict[str, str]] = list(csv.DictReader(_handle))


def faults(is_fault: Callable[[dict[str, str]], object]) -> list[str]:
    return [row["id"] for row in ROWS if is_fault(row)]


def test_the_header_is_that_of_a_table_of_whole_passes():
    assert TABLE.read_text().splitlines()[0] == HEADER
    assert not faults(lambda row: None in row or None in row.values())


def test_ids_are_short_and_unique():
    assert not [name for name, count in Counter(row["id"] for row in ROWS).items() if count > 1]
    assert not faults(lambda row: not re.fullmatch(r"[a-z0-9.-]{4,24}", row["id"]))


def test_the_table_is_broad_and_no_source_dominates_it():
    assert len(ROWS) >= 150
    per_source = Counter(row["source"] for row in ROWS)
    assert len(per_source) >= 10
    assert max(per_source.values()) <= 25
    assert len({row["gpu"] for row in ROWS}) >= 6
    assert len({row["engine"] for row in ROWS}) >= 4


def test_a_measurement_is_listed_once():
    ignored = {"id", "note"}
    same = Counter(tuple(value for column, value in row.items() if column not in ignored) for row in ROWS)
    assert not [row for row, count in same.items() if count > 1]


@each("gpu, model", {(row["gpu"], row["model"]) for row in ROWS})
def test_every_gpu_and_model_is_named_as_the_catalog_names_it(gpu, model):
    assert (rl.load_gpu(gpu).name, rl.load_model(model).short_name) == (gpu, model)


def test_formats_are_presets_or_blank_and_counts_positive_integers_without_a_cached_prefix():
    assert not faults(lambda row: row["quantization"] not in {"", *PRESETS})
    assert not faults(lambda row: row["kv_cache_dtype"] not in ("", "bf16", "fp8"))
    assert not faults(lambda row: not all(re.fullmatch(r"[1-9]\d*", row[name]) for name in COUNTS))
    assert not faults(lambda row: row["prefix"] != "0")


def test_one_of_batch_and_concurrency_is_given_and_agrees_with_the_load():
    def is_fault(row: dict[str, str]) -> bool:
        amounts = row["batch"], row["concurrency"], row["request_rate"]
        if row["load"] == "static":
            return not re.fullmatch(r"[1-9]\d*", row["batch"]) or amounts[1:] != ("", "")
        return row["load"] != "concurrency-1" or amounts != ("", "1", "")

    assert not faults(is_fault)


def test_each_row_has_a_positive_latency_and_a_time_per_token_needs_more_than_one_token():
    assert not faults(lambda row: not any(row[name] for name in LATENCIES))
    assert not faults(lambda row: any(row[name] and float(row[name]) <= 0.0 for name in LATENCIES))
    assert not faults(lambda row: row["osl"] == "1" and bool(row["tpot_ms"]))
    assert not faults(lambda row: row["ttft_ms"] and row["e2el_ms"] and float(row["ttft_ms"]) >= float(row["e2el_ms"]))


def test_three_latencies_of_a_row_add_up():
    def is_fault(row: dict[str, str]) -> bool:
        if not all(row[name] for name in LATENCIES):
            return False
        ttft, tpot, e2el = (float(row[name]) for name in LATENCIES)
        return abs((ttft + (int(row["osl"]) - 1) * tpot) / e2el - 1.0) > IDENTITY_TOLERANCE

    assert not faults(is_fault)
    assert sum(all(row[name] for name in LATENCIES) for row in ROWS) > 20


def test_no_measurement_is_faster_than_the_ideal_roofline():
    def is_fault(row: dict[str, str]) -> bool:
        shape = {name: int(row[name]) for name in COUNTS}
        formats = {name: row[name] or None for name in ("quantization", "kv_cache_dtype")}
        case = {"batch": int(row["batch"] or row["concurrency"]), "basis": "ideal", "allow_oversize": True}
        found = rl.predict(row["model"], row["gpu"], **case, **shape, **formats)
        ideal = {"ttft_ms": found.ttft, "tpot_ms": found.tpot, "e2el_ms": found.e2el}
        return any(row[name] and float(row[name]) < ideal[name] * MS for name in LATENCIES)

    assert not faults(is_fault)


def test_dates_are_iso_and_sources_have_public_addresses():
    assert not faults(lambda row: not re.fullmatch(r"20\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", row["date"]))
    assert not faults(lambda row: not re.fullmatch(r"https://[^\s/]+\.[^\s/]+/\S*", row["url"]))
    assert not faults(lambda row: not (row["source"] and row["engine"] and row["note"]))
    assert not faults(lambda row: row["statistic"] not in ("mean", "median"))
