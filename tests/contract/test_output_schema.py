"""docs/schema/output.schema.json: what every command prints with --format json, key by key."""

import json
import runpy
from pathlib import Path

import jsonschema
from cli.asking import ask, strict_json
from every_case import each
from test_family import SHELLS, document

from roofline.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
BUILT = runpy.run_path(str(ROOT / "docs" / "build_schema.py"))
KEYS = BUILT["_MEANINGS"]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "output.schema.json").read_text(encoding="utf-8"))
RESULT = ROOT / "tests" / "fixtures" / "results" / "vllm.json"
M, G = ("-m", "llama-3.1-8b"), ("-g", "h100")
USERS, RATE, SLO = ("-c", "8"), ("--request-rate", "2"), ("--slo", "ttft:300@p95,tpot:25")
TOO_LARGE = ("-m", "llama-3.1-405b", "-g", "b200:tp8,h100:tp1")
REDUCED = ("--reduce", "best:ttft:gpu", "--reduce", "histogram:ttft:9,50:tp", "--reduce", "share")
SIMULATED = ("--simulate", "--requests", "20")

#: What each command is asked beside `SHELLS`: without answers, with limits and loads that they miss, under show.
QUESTIONS = {
    "ttft": [(*M, *G, "--explain"), TOO_LARGE],
    "tpot": [(*M, *G, "--osl", "1")],
    "predict": [
        (*M, "-g", "h100:tp2:fp8,b200", *SLO, *USERS),
        (*M, *G, *USERS, "--num-prompts", "20", *SIMULATED),
        (*M, *G, "--basis", "ideal"),
        (*M, "-g", "h100,b200", "--request-rate", "40", "--tp", "1"),
    ],
    "knee": [(*M, *G, "--slo", "tpot:25"), (*M, *G, *USERS)],
    "plan": [(*M, "-g", "h100,l40s", "--slo", "ttft:1")],
    "goodput": [(*M, *G, "--slo", "ttft:1")],
    "cost": [(*M, *G, "--slo", "ttft:1"), TOO_LARGE],
    "cache": [(*M, "-g", "b200,rtx-4090", "--prefix", "900", "-c", "4", "--cache-hit", "60%")],
    "curve": [(*M, *G, "--slo", "ttft:300")],
    "budgets": [
        (*M, *G, "--over", "max-num-seqs", *USERS, "--slo", "tpot:25"),
        (*M, *G, "--over", "max-num-seqs", *USERS),
    ],
    "fits": [(*M, "-g", "h100,l4", "--max-model-len", "128k"), ("-m", "llama-3.1-405b", *G)],
    "pareto": [(*M, *G, "--tp", "1", *SLO), (*M, "-g", "h100,b100", "--against", "rate", "--y", "usd_per_hour")],
    "disaggregate": [(*M, "--prefill", "h100", "--decode", "h100", *USERS, *SLO, "--isl-cv", "0.3")],
    "sweep": [
        (*M, "-g", "h100:tp2,b200", "--isl", "1k,200k"),
        (*M, *G, "-c", "1:4:x2", "--slo", "ttft:300", "--keys", "gpu,ttft_ms"),
        (*M, *G, "-b", "1,9", "--slo", "ttft:300", *REDUCED),
    ],
    "compare": [TOO_LARGE, (*M, "-g", "h100,b200", *USERS)],
    "quantize": [(*M, *G, *USERS)],
    "levers": [(*M, *G, *USERS, "--slo", "tpot:25", "--for", "goodput")],
    "speculate": [(*M, *G, "--draft", "llama-3.2-1b", "--acceptance", "0.7", "-c", "1,64,100000")],
    "sensitivity": [],
    "solve": [("--for", "concurrency", *SLO, *M, *G), ("--for", "bandwidth", "--tpot", "1us", *M, *G)],
    "formula": [("knee", *M, *G)],
    "check": [(RESULT, *G, "--tp", "1")],
    "gpus": [()],
    "models": [("--family", "qwen")],
    "workloads": [("chat", "rag")],
    "gpus show": [("h100",)],
    "models show": [("llama-3.1-8b",)],
}
#: Commands that print no rows: they write files, check them, or speak a protocol.
SILENT = {"sheet", "page", "calibrate", "check-specs", "mcp"}


def test_the_schema_is_current_and_a_schema():
    assert json.loads(BUILT["schemas"]()["output.schema.json"]) == SCHEMA, "run: python docs/build_schema.py"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def errors(command, document):
    schema = {**SCHEMA, "$ref": f"#/$defs/{command.replace(' ', '%20')}"}
    del schema["anyOf"]
    found = jsonschema.Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message[:200]}" for error in found]


@each("command, words", [(command, words) for command, questions in QUESTIONS.items() for words in questions], few=10)
def test_what_a_command_prints_keeps_the_schema(command, words):
    done = ask(*command.split(), *words, "--format", "json")
    found = strict_json(done.stdout)
    assert found["rows"], done.output
    assert errors(command, found) == []


@each("name", SHELLS)
def test_the_rows_of_every_question_keep_the_schema(name):
    assert errors(SHELLS[name][0], document(name)) == []


def test_a_row_of_the_schema_refuses_a_key_that_is_not_listed_and_one_that_is_missing():
    document = strict_json(ask("ttft", *M, *G, "--format", "json").stdout)
    document["rows"][0]["kv_dtype"] = "bf16"
    assert errors("ttft", document)
    del document["rows"][0]["kv_dtype"]
    assert errors("ttft", document) == []
    del document["rows"][0]["tpot_ms"]
    assert errors("ttft", document)


def test_every_command_that_prints_json_has_a_definition_and_a_question():
    names = set(cli.list_commands(None)) - SILENT
    assert names | {"gpus show", "models show", "knee"} == set(QUESTIONS)
    assert {name for name in SCHEMA["$defs"] if not name.endswith("Row")} - {"Keys"} == set(QUESTIONS)


def test_types_for_editors_and_the_glossary_are_written_from_the_keys():
    assert BUILT["stale"]() == [], "run: python docs/build_schema.py"


def test_every_key_says_what_it_means_in_a_sentence_with_its_unit():
    for name, key in KEYS.items():
        assert key.meaning.endswith("."), name
        assert (key.unit is not None) == (key.kind in ("number", "integer", "value")), name
        if name.endswith(("_ms", "_us", "_gb")):
            assert key.unit == {"_ms": "ms", "_us": "us", "_gb": "GB"}[name[-3:]], name
