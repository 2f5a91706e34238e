"""The JSON Schemas for editors: current, true of every shipped file, and false of the usual mistakes."""

import json
import runpy
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest
import yaml
from spec_texts import CALIBRATION, ENGINE, FULL_GPU, GPU, MIXED_MODEL, MODEL, WORKLOAD
from test_bad_specs import GPU_FAULTS, MODEL_FAULTS
from test_engines import ENGINE_FAULTS
from test_engines import FILES as ENGINE_FILES
from test_shipped_specs import CALIBRATION_FILES, GPU_FILES, MODEL_FILES
from test_workloads import FILES as WORKLOAD_FILES
from test_workloads import WORKLOAD_FAULTS

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
def test_a_schema_is_current_and_explains_every_field(kind):
    written = (ROOT / "docs" / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert written == BUILT["schemas"]()[f"{kind}.schema.json"], "run: python docs/build_schema.py"
    schema = VALIDATORS[kind].schema
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in (schema, *schema["$defs"].values()):
        for name, field in part.get("properties", {}).items():
            assert field["description"].endswith("."), name


SHIPPED = (GPU_FILES, MODEL_FILES, CALIBRATION_FILES, ENGINE_FILES, WORKLOAD_FILES)
TEXTS = {"gpu": GPU, "model": MODEL, "calibration": CALIBRATION, "engine": ENGINE, "workload": WORKLOAD}


def test_shipped_files_and_the_texts_of_these_tests_keep_their_schema():
    for kind, paths in zip(KINDS, SHIPPED, strict=True):
        assert [path.name for path in paths if errors(kind, path.read_text(encoding="utf-8"))] == []
    for kind, text in (*TEXTS.items(), ("gpu", FULL_GPU), ("model", MIXED_MODEL)):
        assert errors(kind, text) == [], kind


#: Mistakes beside those that reading refuses.
MISTAKES = [
    ("gpu", "4 TB/s", "4 Tb/s", "4", "4e12"),
    ("gpu", "1000 TFLOP/s", "-1000 TFLOP/s"),
    ("model", "kv_heads: 4, ", ""),
    ("model", "kind: gqa", "kind: mqa"),
    ("model", "experts: fp8_block", "experts: fp7"),
    ("model", "    ffn: {kind: dense, width: 8192, gated: true}\n", ""),
    ("model", "tied: false", "tied: maybe"),
    ("calibration", "gemm:", "gem:"),
    ("calibration", "eta_m: 0.5", "eta_m: 1.5"),
    ("calibration", "t0: 3 us", "t0: 3"),
    ("engine", "prefill_slowdown: 1.1", "prefill_slowdown: 0.5"),
    ("engine", "memory: 0.8", "memory: -1"),
]
FAULTS = {"gpu": GPU_FAULTS, "model": MODEL_FAULTS, "engine": ENGINE_FAULTS, "workload": WORKLOAD_FAULTS}
#: What reading refuses and no schema of an editor sees: sums, references, figures too large, keys given twice.
UNSEEN = {
    "gpu": {"96 GB, source: shet", "0 GB", "1e999 GB", "2100 TFLOP/s", "4000 TFLOP/s", "", "domain: {value: 8.0,",
            "vendor: Acme\nvendor: Bcme", "  bf16: {value: 2000"},
    "model": {"hidden: 2048.0", "kv_heads: 5, head_dim: 128}\n    ffn", "window: 1024, chunk: 512", "top_k: 32",
              "architecture: {source: crad}"},
    "engine": {"request: 0 ms", "request: 1e999 ms", "prefill_slowdown: .inf", "prefill_slowdown: .nan", "year: soon",
               "step: 1 ms"},
    "workload": {"isl_cv: .nan", "lengths: uniform", "prefix: 1801", 'slo: "ttft:1s@p100"', 'slo: "ttft:1s,ttft:2s"',
                 'slo: "speed:1s"', "osl_cv: 0.25"},
}  # fmt: skip


def test_a_usual_mistake_is_underlined():
    for kind, old, *wrong in MISTAKES:
        assert old in TEXTS[kind]
        assert all(errors(kind, TEXTS[kind].replace(old, new, 1)) for new in wrong), (kind, wrong)


@pytest.mark.parametrize("kind", FAULTS)
def test_what_reading_refuses_is_underlined_as_far_as_a_schema_can_see_it(kind):
    text = TEXTS[kind]
    unseen = []
    for old, new, *_ in FAULTS[kind]:
        with suppress(yaml.YAMLError, TypeError, ValueError):  # what no editor can read at all
            unseen += [] if errors(kind, text.replace(old, new, 1)) else [(old, new)]
    assert {new for _, new in unseen} == UNSEEN[kind]
    assert [old for old, new in unseen if not new] == ["  bf16: {value: 1000 TFLOP/s, source: sheet}\n"] * (
        kind == "gpu"
    )
