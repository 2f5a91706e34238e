"""The JSON Schemas for editors: current, true of every shipped file, and false of the usual mistakes."""

import json
import runpy
from pathlib import Path

import jsonschema
import pytest
import yaml
from every_case import each
from spec_texts import CALIBRATION, ENGINE, FULL_GPU, GPU, MIXED_MODEL, MODEL
from test_bad_specs import GPU_FAULTS, MODEL_FAULTS
from test_engines import ENGINE_FAULTS
from test_engines import FILES as ENGINE_FILES
from test_shipped_specs import CALIBRATION_FILES, GPU_FILES, MODEL_FILES
from test_workloads import FILES as WORKLOAD_FILES
from test_workloads import WORKLOAD, WORKLOAD_FAULTS

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("gpu", "model", "calibration", "engine", "workload")
BUILT = runpy.run_path(str(ROOT / "docs" / "build_schema.py"))
VALIDATORS = {
    kind: jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "schema" / f"{kind}.schema.json").read_text()))
    for kind in KINDS
}


class PlainLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML as editors read it: a date is a text."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("timestamp", "merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def errors(kind, text):
    return list(VALIDATORS[kind].iter_errors(yaml.load(text, Loader=PlainLoader)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_schemas_are_current(kind):
    written = (ROOT / "docs" / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert written == BUILT["schemas"]()[f"{kind}.schema.json"], "run: python docs/build_schema.py"


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one_and_explains_every_field(kind):
    schema = VALIDATORS[kind].schema
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in (schema, *schema["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            assert field["description"].endswith("."), name


@each(
    ("kind", "path"),
    [
        *(("gpu", path) for path in GPU_FILES),
        *(("model", path) for path in MODEL_FILES),
        *(("calibration", path) for path in CALIBRATION_FILES),
        *(("engine", path) for path in ENGINE_FILES),
        *(("workload", path) for path in WORKLOAD_FILES),
    ],
    ids=lambda part: getattr(part, "stem", None),
)
def test_a_shipped_file_keeps_its_schema(kind, path):
    assert errors(kind, path.read_text(encoding="utf-8")) == []


@each(
    ("kind", "text"),
    [
        ("gpu", GPU),
        ("gpu", FULL_GPU),
        ("model", MODEL),
        ("model", MIXED_MODEL),
        ("calibration", CALIBRATION),
        ("engine", ENGINE),
        ("workload", WORKLOAD),
    ],
)
def test_the_texts_of_these_tests_keep_their_schema(kind, text):
    assert errors(kind, text) == []


MISTAKES = [
    ("gpu", GPU, "4 TB/s", "4 Tb/s"),
    ("gpu", GPU, "4 TB/s", "4"),
    ("gpu", GPU, "4 TB/s", "4e12"),
    ("gpu", GPU, "1000 TFLOP/s", "1000 TFLOPS"),
    ("gpu", GPU, "1000 TFLOP/s", "-1000 TFLOP/s"),
    ("gpu", GPU, "  fp8: {", "  fp9: {"),
    ("gpu", GPU, "vendor: Acme\n", ""),
    ("gpu", GPU, "vendor:", "vender:"),
    ("gpu", GPU, "{value: 96 GB, source: sheet}", "96 GB"),
    ("gpu", GPU, "{value: 96 GB, source: sheet}", "{value: 96 GB}"),
    ("gpu", GPU, "domain: {value: 8,", "domain: {value: 0,"),
    ("gpu", GPU, "low: 1 USD/h", "low: 1 EUR/h"),
    ("gpu", GPU, "date: 2026-01-02", "date: soon"),
    ("gpu", GPU, "generation: hopper", "generation: hopper\nstatus: rumoured"),
    ("model", MODEL, "kv_heads: 4, ", ""),
    ("model", MODEL, "kind: gqa", "kind: mqa"),
    ("model", MODEL, "experts: fp8_block", "experts: fp7"),
    ("model", MODEL, "value: 1.2 B", "value: 1.2 GB"),
    ("model", MODEL, "value: 1.2 B", "value: -5"),
    ("model", MODEL, "    ffn: {kind: dense, width: 8192, gated: true}\n", ""),
    ("model", MODEL, "tied: false", "tied: maybe"),
    ("calibration", CALIBRATION, "gemm:", "gem:"),
    ("calibration", CALIBRATION, "eta_m: 0.5", "eta_m: 1.5"),
    ("calibration", CALIBRATION, "t0: 3 us", "t0: 3"),
    ("engine", ENGINE, "request: 5 ms", "request: 5"),
    ("engine", ENGINE, "request: 5 ms", "request: 5 GB"),
    ("engine", ENGINE, "step: 0.5 ms", "stepp: 0.5 ms"),
    ("engine", ENGINE, "prefill_slowdown: 1.1", "prefill_slowdown: 0.5"),
    ("engine", ENGINE, "scheduler: prompts first", "scheduler: prompts"),
    ("engine", ENGINE, "max_num_batched_tokens: 4096", "chunk: 4096"),
    ("engine", ENGINE, "max_num_seqs: 128", "max_num_seqs: 0"),
    ("engine", ENGINE, "gpu_memory_utilization: 0.9", "gpu_memory_utilization: 90"),
    ("engine", ENGINE, "kind: gemm", "kind: matmul"),
    ("engine", ENGINE, "memory: 0.8", "memory: -1"),
    ("workload", WORKLOAD, "isl: 1800", "isl: 1.8k"),
    ("workload", WORKLOAD, "osl: 240\n", ""),
    ("workload", WORKLOAD, "isl_cv: 0.9", "isl_cv: -0.9"),
    ("workload", WORKLOAD, "lengths: lognormal", "lengths: normal"),
    ("workload", WORKLOAD, "share: 0.95", "share: 95"),
    ("workload", WORKLOAD, "arrivals: users", "arrivals: poisson"),
]


@each(("kind", "text", "old", "new"), MISTAKES, ids=[case[3][:30] for case in MISTAKES])
def test_a_usual_mistake_is_underlined(kind, text, old, new):
    assert old in text
    assert errors(kind, text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("kind", "text", "cases"),
    [
        ("gpu", GPU, GPU_FAULTS),
        ("model", MODEL, MODEL_FAULTS),
        ("engine", ENGINE, ENGINE_FAULTS),
        ("workload", WORKLOAD, WORKLOAD_FAULTS),
    ],
    ids=["gpu", "model", "engine", "workload"],
)
def test_most_of_what_reading_refuses_is_underlined(kind, text, cases):
    seen = missed = 0
    for old, new, _, _words in cases:
        try:
            found = errors(kind, text.replace(old, new, 1))
        except (yaml.YAMLError, TypeError, ValueError):
            continue
        seen, missed = seen + bool(found), missed + (not found)
    assert seen > 3 * missed
