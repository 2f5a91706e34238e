"""Text from outside is text: no name, note or cell of a file becomes code, a formula or a command to a terminal."""

import ast
import builtins
import copy
import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import yaml
from cli.asking import answered, ask
from configurations import LLAMA
from every_case import each
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from spec_texts import CALIBRATION, ENGINE, FULL_GPU, GPU, MIXED_MODEL, MODEL

import roofline as rl
from roofline.catalog.checks import SCHEMAS, checked_document
from roofline.catalog.entries import spec_yaml
from roofline.catalog.huggingface.config import config_document
from roofline.cli.options import print_table
from roofline.formulas.closed import Stages
from roofline.outputs.files import csv_text, json_text, write_rows
from roofline.outputs.workbook.cells import text_literal
from roofline.questions.calibrate import calibrate, calibration_text
from roofline.specs.names import name_fault
from roofline.support.errors import printable, shown

#: What a terminal obeys, what turns or breaks a line, and what no file can hold.
UNPRINTABLE = ("\x1b[31m", "\u202e", "\u2066", "\u200f", "\u2028", "\x85", "\x00", "\x7f", "\ufeff", "\U000e0041", "\r")
DOCUMENTS = {"gpu": FULL_GPU, "model": MIXED_MODEL, "calibration": CALIBRATION, "engine": ENGINE}
PROSE = {"note", "notes", "title", "url"}
CODE = 'x"""\n    raise SystemExit("attacked")\n    """'


RUN = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tp": 1, "isl": 100, "osl": 10, "batch": 1, "ttft_ms": 20}


def write_row(path, row):
    """Writes a table of one row."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)


def harmless(text):
    return all(line.isprintable() for line in text.split("\n"))


def texts(value, where=()):
    """Paths of all texts of a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from texts(item, (*where, key))
    if isinstance(value, str):
        yield where


def put(document, where, value):
    """The document with another value, or with another key where the value is a function of the key."""
    found = inner = copy.deepcopy(document)
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    return found


def at(document, where):
    return at(document[where[0]], where[1:]) if where else document


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_no_text_of_a_specification_has_an_unprintable_character_and_no_name_a_quote(kind):
    document = yaml.safe_load(DOCUMENTS[kind])
    SCHEMAS[kind].model_validate(document)
    places = list(texts(document))
    assert len(places) > 10
    for number, where in enumerate(places):
        text = at(document, where)
        attacks = [text + UNPRINTABLE[number % len(UNPRINTABLE)], UNPRINTABLE[-1 - number % len(UNPRINTABLE)] + text]
        if PROSE.isdisjoint(where):
            attacks += [f"{text}\n", f"{text}\nevil: 1", f'{text}"""', f"{text}'", f"{text}\\", f"`{text}`", "x" * 201]
        for attack in attacks:
            with pytest.raises(ValidationError):
                SCHEMAS[kind].model_validate(put(document, where, attack))


def test_keys_names_and_prose_keep_the_rules_of_any_alphabet(tmp_path):
    document = yaml.safe_load(CALIBRATION)
    for where, key in ((("sources",), "a\x1b[31m"), (("sources",), "a\nb"), (("kernels", "gemm"), 'fp8"')):
        first = next(iter(at(document, where).values()))
        with pytest.raises(ValidationError):
            SCHEMAS["calibration"].model_validate(put(document, (*where, key), first))
    text = GPU.replace("title: Acme data sheet", "title: 数据表, données “à jour”, \u06af\u200c\u0627")
    text = text.replace("[mine,", "[加速器-96gb, Größe,").replace("- prototype", "- |\n    two\n    lines")
    (tmp_path / "my-gpu.yaml").write_text(text, encoding="utf-8")
    assert rl.load_gpu("加速器-96GB", str(tmp_path)).name == "my-gpu"
    shown_text = answered("gpus", "show", "my-gpu", "--specs", tmp_path, "--all")
    assert "数据表, données “à jour”" in shown_text
    assert "- two lines\n" in shown_text


@pytest.mark.parametrize("evil", ["\\x1b[31m", "\\u202E", "\\u2028", "\\0", '\\"', "\\n", "\\\\"])
def test_a_name_of_an_own_file_is_refused_on_its_line_in_a_message_that_any_terminal_can_print(tmp_path, evil):
    for kind, text, old in (("gpu", GPU, "[mine,"), ("model", MODEL, "[tiny-1b,")):
        path = tmp_path / f"{kind}.yaml"
        path.write_text(text.replace(old, f'["evil{evil}",', 1), encoding="utf-8")
        result = ask("check-specs", path)
        assert result.exit_code == 1
        assert re.search(rf"{kind}\.yaml:2: aliases\.0: a name must ", result.output)
        assert harmless(result.output)


@each("name", ["a\x1b[31m", "a\u202eb", "a\nb", 'a"b', "a'b", "a\\b", "\u2028", " ", "x" * 201, None, 7])
def test_an_imported_model_keeps_the_rule_of_all_names(name):
    assert name_fault(name) is not None
    with pytest.raises(rl.BadSpec, match=r"cannot be a model name.*`name`") as caught:
        config_document(LLAMA, name)
    assert harmless(str(caught.value))
    assert config_document(LLAMA, "模型 1.5B").document["name"] == "模型 1.5B"


def test_a_configuration_cannot_bring_a_name_or_a_note_that_is_no_text(tmp_path):
    folder = tmp_path / "evil\u202emodel"
    folder.mkdir()
    config = LLAMA | {"model_type": "odd\x1b[2J", "_name_or_path": "a/b\u202e"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    refused = ask("models", "import", folder)
    assert refused.exit_code == 1
    assert "--name" in refused.output
    for result in (refused, ask("models", "import", folder, "--name", "mine"), ask("ttft", "-m", folder, "-g", "b200")):
        assert harmless(result.output)


def test_the_printed_python_of_a_formula_runs_no_name(tmp_path, monkeypatch):
    gpu = rl.load_gpu("h100-sxm")
    gpu = replace(gpu, name=CODE, generation=CODE, link=replace(gpu.link, kind=CODE))
    model = replace(rl.load_model("llama-3.1-8b"), short_name=CODE, name=CODE)
    for result in ("ttft", "tpot"):
        found = rl.formula(model, gpu, result, tp=2)
        source = found.to_python()
        (function,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        assert CODE.partition("\n")[0] in ast.get_docstring(function)
        names: dict = {"__name__": "printed"}
        exec(compile(source, "printed", "exec"), names)
        assert names[result]() == pytest.approx(found.value, rel=1e-12)
        assert harmless(source)
        assert harmless(str(found))
        assert CODE not in found.to_latex()
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False, timeout=60)
    assert "attacked" not in done.stderr
    assert float(done.stdout) == pytest.approx(found.value, rel=1e-12)


def test_what_is_evaluated_has_no_builtins_and_a_tuning_stays_a_symbol(tmp_path):
    stages = Stages()
    assert stages.evaluated("sqrt(4.0) + ceiling(0.5)", {}) == 3.0
    for text in ("__import__('os')", "open('x')", "print()"):
        with pytest.raises(NameError):
            stages.evaluated(text, {})
    assert builtins.__import__ is not None
    odd = "b200 (rev. 2), 1+1"
    path = tmp_path / "serve.yaml"
    path.write_text(ENGINE.replace("generation: hopper", f'generation: "{odd}"'), encoding="utf-8")
    gpu = replace(rl.load_gpu("h100-sxm"), generation=odd)
    found = rl.formula("llama-3.1-8b", gpu, "ttft", engine=str(path))
    (name,) = [name for name in found.inputs if name.startswith("tuning_compute_gemm")]
    assert name.isidentifier()
    compile(found.to_python(), "printed", "exec")
    assert name in json.dumps(found.to_dict())


def test_no_cell_of_a_csv_file_is_calculated_whatever_separates_its_cells():
    signs = "=+-@\uff1d\uff0b\uff0d\uff20"
    cells = [
        f"{before}{sign}1+1" for sign in signs for before in ("", " ", "\t", "\n", "\r\n", "a;", "a; ", "a\t", ";")
    ]
    cells += [[f"{sign}a", f"{sign}b"] for sign in signs]
    for cell in cells:
        text = csv_text([{"first": cell, "figure": -1.5, "last": cell}])
        assert harmless(text)
        (row,) = csv.DictReader(io.StringIO(text))
        assert row["figure"] == "-1.5"
        for part in (row["last"], *row["first"].split(";")):
            assert not part.lstrip().startswith(tuple(signs)), cell
        assert not re.search(rf"[;\t]\s*[{re.escape(signs)}]", text), cell
    assert csv_text([{"a": "8k1k; tp-2"}]) == "a\n8k1k; tp-2\n"


def test_tables_and_files_escape_what_is_not_printable(tmp_path, capsys):
    import openpyxl
    import pyarrow.parquet as pq

    evil = "".join((*UNPRINTABLE, "\n", "\ud800", "|", "<b>", "\\"))
    print_table(["name", "n"], [[evil, "1"]])
    print_table(["name", "n"], [[evil, "1"]], "markdown")
    out = capsys.readouterr().out
    assert harmless(out)
    assert out.count("\n") == 5
    markdown = out.split("\n")[-2]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", markdown)) == 3
    assert r"\<b>" in markdown
    rows = [{"name": evil, "notes": [evil]}]
    assert harmless(csv_text(rows).replace("\r", ""))
    assert json_text(rows).isascii()
    for suffix in ("csv", "json", "parquet", "xlsx"):
        write_rows(rows, str(tmp_path / f"rows.{suffix}"), force=False)
    assert harmless(pq.read_table(tmp_path / "rows.parquet").to_pylist()[0]["name"])
    assert harmless(openpyxl.load_workbook(tmp_path / "rows.xlsx").active["A2"].value)
    assert text_literal('"&A1\x1b') == '"""&A1\\x1b"'


def test_what_is_typed_comes_back_escaped(tmp_path):
    evil = "x\x1b[31m\u202e"
    (tmp_path / f"{evil}.json").write_text('{"a": 1}')
    for arguments in (
        ["ttft", "-m", evil],
        ["ttft", "-m", "llama-3.1-8b", "-g", evil],
        ["ttft", "-m", "llama-3.1-8b", "-g", "b200", "--engine", evil],
        ["ttft", "-m", "llama-3.1-8b", "-g", "b200", "-q", evil],
        ["ttft", "-m", "llama-3.1-8b", "-g", "b200", "--slo", evil],
        ["ttft", "-m", "llama-3.1-8b", "-g", "b200", f"--{evil}"],
        ["gpus", "show", evil],
        [evil],
        [f"--{evil}"],
        ["check", tmp_path / f"{evil}.json"],
        ["check-specs", tmp_path / evil],
        ["gpus", "--specs", tmp_path / evil],
        ["calibrate", tmp_path / f"{evil}.json", "-g", "b200"],
        ["models", "import", tmp_path / f"{evil}.json"],
        ["sheet", tmp_path / evil, "-m", "llama-3.1-8b", "-g", "b200"],
        ["solve", "-m", "llama-3.1-8b", "-g", "b200", "--for", evil, "--ttft", "9ms"],
        ["compare", "-m", "llama-3.1-8b", "-g", evil, "-g", "b200"],
    ):
        result = ask(*arguments)
        assert result.exit_code != 0
        assert harmless(result.output), arguments
        assert r"x\x1b[31m\u202e" in result.output, result.output


def test_messages_and_texts_become_printable(tmp_path):
    for name in ("a\x1b[31m", "\ud800", "a\u2028b"):
        with pytest.raises(rl.UnknownName) as caught:
            rl.load_gpu(name)
        assert harmless(str(caught.value))
    assert str(rl.BadInput("two\nlines\x00")) == "two\nlines\\x00"
    assert harmless(shown(["\x1b", "\u202e"]))
    (tmp_path / "my-gpu.yaml").write_text(GPU)
    shown_document = json.loads(answered("gpus", "show", "my-gpu", "--specs", tmp_path, "-f", "json"))
    assert shown_document["document"]["sources"]["sheet"]["date"] == "2026-01-02"
    with pytest.raises(TypeError):
        json_text([{"a": object()}])


@given(st.text(max_size=40))
def test_a_printable_text_stays_and_any_other_becomes_one(text):
    assert printable(text).isprintable()
    assert (printable(text) == text) == text.isprintable()
    assert printable(text, lines=True).count("\n") == text.count("\n")


def test_a_result_chooses_no_file_to_read(tmp_path):
    profile = tmp_path / "serve.yaml"
    profile.write_text(ENGINE)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    table = tmp_path / "runs.csv"
    for field, value in (("engine", profile), ("gpu", "mine.yaml"), ("model", model), ("model", "../config.json")):
        write_row(table, RUN | {field: value})
        result = ask("check", table)
        assert result.exit_code == 1
        assert f"is a path, which a result must not choose; if it is right, give {field}" in result.output
    for field, value in (("model", "x" * 100_000), ("gpu", "h100\u202e"), ("model", "C:\\models\\llama")):
        write_row(table, RUN | {field: value})
        result = ask("check", table)
        assert result.exit_code == 1
        assert re.search(
            f"{field} = .*: a name must .*; give {field}|{field} has 100000 characters; the limit is ", result.output
        )
        assert len(result.output) < 500
    write_row(table, RUN)
    assert "acme-serve" in answered("check", table, "--engine", profile)


def test_a_table_of_kernels_brings_no_line_into_a_calibration(tmp_path):
    table = tmp_path / "kernels.csv"
    for column, evil, words in (
        ("date", "2026-09\nevil: 1", "is not a date; write it as 2026-11-21, 2026-11 or 2026"),
        ("date", "\uff12\uff10\uff12\uff16", "is not a date; write it as 2026-11-21, 2026-11 or 2026"),
        ("engine", "vllm\u202e", "printable"),
        ("dtype", 'fp8"', "quotes"),
        ("gpu", "h100-sxm\x1b[31m", "printable"),
    ):
        row = {"gpu": "h100-sxm", "kind": "gemm", "m": 1, "n": 2, "k": 3, "latency_us": 4, column: evil}
        write_row(table, row)
        with pytest.raises(rl.BadInput, match=f"kernels.csv:[23]: {column} = .*{words}") as caught:
            calibrate([str(table)], "h100-sxm")
        assert harmless(str(caught.value))


def test_a_calibration_that_no_reader_would_take_is_not_written(tmp_path):
    table = tmp_path / "kernels.csv"
    lines = [f"h100-sxm,gemm,bf16,{m},4096,4096,{20 + m / 10},vllm,0.9,2026-09" for m in range(64, 1024, 24)]
    table.write_text("\n".join(["gpu,kind,dtype,m,n,k,latency_us,engine,engine_version,date", *lines]) + "\n")
    document = yaml.safe_load(calibrate([str(table)], "h100-sxm", title='a: "b" # {c}').text)
    assert 'a: "b" # {c}' in {source["title"] for source in document["sources"].values()}
    for options in ({"name": "a\nevil: 1"}, {"title": "a\x1b"}, {"url": "b\u202e"}, {"title": "\ud800"}):
        with pytest.raises(rl.BadInput):
            calibrate([str(table)], "h100-sxm", **options)


def test_a_configuration_or_a_result_forges_no_line_of_a_message_or_a_note(tmp_path):
    forged = "x\nError: forged\x1b[2J" + "y" * 5000
    path = tmp_path / "config.json"
    for fields in ({"quantization_config": {"quant_method": forged}}, {"model_type": "odd", f"moe_{forged}": 4}):
        path.write_text(json.dumps(LLAMA | fields))
        result = ask("models", "import", path, "--name", "mine")
        assert result.exit_code == 1
        assert result.output.count("\n") == 1
        assert harmless(result.output)
        assert len(result.output) < 2000
    table = tmp_path / "runs.csv"
    write_row(table, RUN | {"note": forged[:1500]})
    for form in ("table", "markdown", "csv", "json"):
        result = ask("check", table, "-f", form)
        assert harmless(result.output)
        assert form == "csv" or not re.search("^Error", result.output, re.MULTILINE)


ANY = st.text(max_size=30)
KEYS = st.text(min_size=1, max_size=30)
FIGURES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 10**9)
WORDS = st.sampled_from(
    ["no", "null", "1e5", "0x1F", "2026", "12:30", "- a", "a: b", "#a", "", " a", "&a", "*a", "1.5", "~"]
)


@given(ANY | WORDS, KEYS | WORDS, ANY | WORDS, FIGURES, ANY)
def test_a_written_calibration_reads_back_as_the_document(name, key, text, figure, title):
    entry = {"t0": text, "p": figure, "note": text, "source": key}
    document = {
        "name": name,
        "measured_on": [text, name],
        "engines": [text],
        "link": "pcie",
        "kernels": {"gemm": {key: entry}, key + "2": {}},
        "collectives": {key: {**entry, key: figure}},
        "sources": {key: {"title": text, "url": text, "date": "2026-09", "engines": [], "gpus": [name]}},
    }
    assert yaml.safe_load(calibration_text(document, title)) == document


@given(ANY | WORDS, KEYS | WORDS, ANY | WORDS, FIGURES)
def test_a_written_model_reads_back_as_the_document(name, key, text, figure):
    document = {
        "name": name, "aliases": [text, name], "family": text, "norms": 2,
        "groups": [{"repeat": 2, "mixer": {"kind": text, key + "3": figure}, "ffn": {"kind": "none"}}] * 2,
        "parameters": {"total": {"value": text, "note": name, "source": key}}, "mtp": {"layers": 1},
        "sources": {key: {"title": text, "url": name, "date": "2026"}}, "notes": [text, name],
    }  # fmt: skip
    assert yaml.safe_load(spec_yaml(document)) == document


def test_a_date_is_written_as_readers_take_it(tmp_path):
    path = tmp_path / "hopper.yaml"
    for date in ("2026-11-21", "2026-11", "2026"):
        path.write_text(calibration_text(yaml.safe_load(CALIBRATION) | {"date": date}, "a\nb: 1"), encoding="utf-8")
        assert str(checked_document(str(path))["date"]) == date
    for figure in (1e-15, 0.1, 1.0, 3):
        document = yaml.safe_load(CALIBRATION)
        document["kernels"]["gemm"]["bf16"]["residual"] = figure
        path.write_text(calibration_text(document, ""), encoding="utf-8")
        assert checked_document(str(path))["kernels"]["gemm"]["bf16"]["residual"] == figure
    for order in (1e300, float("inf")):
        document["kernels"]["gemm"]["bf16"] |= {"residual": 0.1, "p": order}
        path.write_text(calibration_text(document, ""), encoding="utf-8")
        assert checked_document(str(path))["kernels"]["gemm"]["bf16"]["p"] == order
    document["kernels"]["gemm"]["bf16"]["sigma"] = float("inf")
    broken = yaml.safe_load(CALIBRATION) | {"name": "\ud800"}
    for write in (
        lambda: calibration_text(document, ""),
        lambda: calibration_text(broken, ""),
        lambda: spec_yaml({"name": "\udcff"}),
    ):
        with pytest.raises(rl.BadInput):
            write()
