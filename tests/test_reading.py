"""Reading is bounded: no wait for a pipe that nobody fills, no file without an end, no text that takes minutes."""

import io
import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from spec_texts import CALIBRATION, ENGINE, GPU, MODEL

import roofline as rl
from roofline.catalog.files import own_entry, yaml_files
from roofline.catalog.find import profile_of
from roofline.cli.main import cli
from roofline.cli.measure import _reading
from roofline.measurements.results import read_results, results
from roofline.measurements.tables import kernel_groups
from roofline.numbers.quantity import count_from_text, from_text
from roofline.questions.catalog import spec_report
from roofline.questions.listing import imported_model
from roofline.support.reading import RESULT_BYTES, SPEC_BYTES, Unreadable, content, descriptor_of

FIXTURES = Path(__file__).parent / "fixtures"
LLAMA = json.loads((FIXTURES / "configs" / "meta-llama__Llama-2-13b-hf.json").read_text())
MANY = 100_000  # a quadratic scan of so many characters takes minutes


@contextmanager
def soon(seconds=2.0):
    """Ends what hangs, and refuses what computes for longer."""

    def late(*_):
        raise AssertionError("hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    start = time.process_time()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - start < seconds


def refused(read, *arguments, **options):
    with soon(), pytest.raises(rl.RooflineError) as fault:
        read(*arguments, **options)
    assert len(str(fault.value)) < 30_000
    return str(fault.value)


def spec(folder, text, name="x.yaml"):
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_path_by_name_is_a_regular_file_for_every_reader(tmp_path):
    (tmp_path / "specs").mkdir()
    (tmp_path / "model").mkdir()
    fifos = [tmp_path / name for name in ("a.yaml", "a.json", "a.csv", "a", "specs/a.yaml", "model/config.json")]
    for fifo in fifos:
        os.mkfifo(fifo)
    (tmp_path / "link.yaml").symlink_to("a.yaml")
    yaml, js, table, plain = map(str, fifos[:4])
    case = ("ttft", "-m", "llama-3.1-8b", "-g", "h100-sxm")
    for question in (
        ("ttft", "-m", "llama-3.1-8b", "-g", yaml),
        ("ttft", "-m", "llama-3.1-8b", "-g", str(tmp_path / "link.yaml")),
        ("ttft", "-m", yaml, "-g", "h100-sxm"),
        ("ttft", "-m", js, "-g", "h100-sxm"),
        (*case, "--engine", yaml),
        (*case, "--specs", str(tmp_path / "specs")),
        ("gpus", "--specs", str(tmp_path / "specs")),
        ("check", plain),
        ("check", js),
        ("check", "/dev/zero"),
        ("calibrate", table, "-g", "h100-sxm"),
        ("calibrate", "/dev/zero", "-g", "h100-sxm"),
        ("models", "import", plain),
        ("models", "import", js),
        ("models", "import", str(tmp_path / "model")),
        ("models", "import", "/dev/zero"),
        ("check-specs", str(tmp_path / "specs")),
    ):
        with soon():
            done = CliRunner().invoke(cli, question)
        assert done.exit_code == 1, question
        assert isinstance(done.exception, SystemExit), question
        assert "not a regular file" in done.output, question
    for load, name in ((rl.load_model, plain), (rl.load_model, str(tmp_path / "model")), (rl.load_gpu, plain)):
        assert "unknown " in refused(load, name)


def test_what_the_shell_or_the_caller_opened_is_read_up_to_the_same_limit(tmp_path):
    row = "model,gpu,tp,isl,osl,batch,ttft_ms\nllama-3.1-8b,h100-sxm,1,1000,100,1,20\n"
    reading, writing = os.pipe()
    os.write(writing, row.encode())
    os.close(writing)
    assert len(read_results(f"/dev/fd/{reading}").measurements) == 1
    os.close(reading)
    path = tmp_path / "rows.csv"
    path.write_text(row)
    with path.open() as file:
        assert len(read_results(f"/proc/self/fd/{file.fileno()}").measurements) == 1
    with Path("/dev/zero").open("rb") as file:
        assert "the limit is 64 MiB" in refused(read_results, f"/dev/fd/{file.fileno()}")
        assert "the limit is 16 MiB" in refused(imported_model, f"/dev/fd/{file.fileno()}")
        with soon(), pytest.raises(Unreadable, match="the limit is 1 MiB"):
            content(f"/dev/fd/{file.fileno()}", SPEC_BYTES, "specification")
    assert "cannot be read" in refused(read_results, "/dev/fd/987654")
    assert "the limit is 64 MiB" in refused(results, bytes(RESULT_BYTES + 1), "stdin")
    assert descriptor_of("/dev/fd/x") is None


def test_standard_input_is_read_no_further_than_a_file(monkeypatch):
    class Endless(io.RawIOBase):
        def read(self, size=-1):
            assert 0 <= size <= RESULT_BYTES + 1
            return b"x" * size

    class Stdin:
        buffer = Endless()

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert "the limit is 64 MiB" in refused(_reading, "-", None)


def test_a_file_or_a_folder_has_an_end(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    assert content(str(path), 100, "result") == bytes(100)
    with pytest.raises(Unreadable, match="too large for a result"):
        content(str(path), 99, "result")
    for missing in ("missing", "a/b", "a\0b", "x" * 5000):
        with pytest.raises(Unreadable, match="cannot be read"):
            content(str(tmp_path / missing), 99, "result")
    for number in range(6):
        (tmp_path / f"{number}.yaml").write_text("")
    (tmp_path / "circle").symlink_to(".")
    assert len(yaml_files(str(tmp_path))) == 6
    monkeypatch.setattr("roofline.catalog.files._MOST_FILES", 5)
    assert "too many files" in refused(yaml_files, str(tmp_path))
    monkeypatch.setattr("roofline.catalog.files._MOST_FILES", 10)
    monkeypatch.setattr("roofline.catalog.files._MOST_NAMES", 6)
    assert "too many files" in refused(yaml_files, str(tmp_path))


UNCITED = "".join(f"  s{number}: {{title: 'tttt ttt', date: 2026-01-02}}\n" for number in range(150))
SLOW = {
    "a heading of blanks": "name: a" + " " * MANY + "b\n\tc: 1",
    "sixties": GPU.replace("value: 8", "value: 1" + ":1" * MANY),
    "decimal sixties": GPU.replace("value: 8", "value: 1" + ":1" * MANY + ".5"),
    "sixties as a text": GPU.replace("Acme\n", "12:30:45\n", 1),
    "sixties as a key": GPU + "12:30: 5\n",
    "forced sixties": GPU.replace("value: 8", "value: !!int '1" + ":1" * MANY + "'"),
    "digits": GPU.replace("value: 8", "value: " + "9" * MANY),
    "binary digits": GPU.replace("value: 8", "value: 0b" + "1" * MANY),
    "hexadecimal digits": GPU.replace("value: 8", "value: 0x" + "f" * MANY),
    "digits of a quantity": GPU.replace("700 W", '"' + "1" * MANY + '\\nx"'),
    "blanks of a quantity": GPU.replace("700 W", '"1 a' + " " * MANY + 'b\\nx"'),
    "tags": "".join(f"%TAG !a{number}! tag:x{number}\n" for number in range(20_000)) + "---\n" + GPU,
    "unknown keys": GPU + "".join(f"k{number}: 1\n" for number in range(2500)),
    "a long key many times": GPU + "? &a " + "k" * MANY + "\n: 1\n" + "? *a\n: 1\n" * 3000,
    "a long text many times": GPU + "z: &a " + "k" * MANY + "\ny: [" + ", ".join(["*a"] * 6000) + "]\n",
    "merges of merges": GPU + "a: &a {x: 1}\nb: &b {<<: [" + "*a," * 99 + "]}\nc: {<<: [" + "*b," * 99 + "]}\n",
    "a tag": GPU + "z: !" + "a" * MANY + " 1\n",
    "a date": GPU.replace("2026-01-02", '"' + "2" * MANY + '"'),
    "brackets": GPU + "z: " + "[" * MANY,
    "a model of blanks": MODEL.replace("1.2 B", '"1' + " " * MANY + 'x"'),
    "an engine of sixties": ENGINE + "prefill_slowdown: 1" + ":1" * MANY,
    "constants of sixties": CALIBRATION + "date: 1" + ":1" * MANY,
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_a_specification_is_refused_in_no_time(tmp_path, text):
    path = spec(tmp_path, text)
    with soon():
        assert spec_report(path).faults
        own_entry(path)
    refused(rl.load_model if "groups:" in text else rl.load_gpu, path)


def test_sixties_and_uncited_sources_are_told_in_no_time(tmp_path):
    message = refused(rl.load_gpu, spec(tmp_path, GPU.replace("Acme\n", "12:30\n", 1)))
    assert "x.yaml:3: '12:30' is a base-60 number in YAML; quote it if it is text" in message
    path = spec(tmp_path, GPU.replace("Acme\n", "'12:30'\n", 1))
    assert rl.load_gpu(path).vendor == "12:30"
    text = GPU.replace("sources:\n", f"sources:\n{UNCITED}").replace(
        "- prototype", "- " + "\n  - ".join(["ttt " * 4_900] * 30)
    )
    path = spec(tmp_path, text)
    with soon():
        assert len(spec_report(path).faults) == 150
        rl.load_gpu(path)


def test_quantities_versions_and_names_without_an_end_are_read_in_no_time(tmp_path, monkeypatch):
    for text in ("1" * MANY + "\nx", "1 a" + " " * MANY + "b\nx", " " * MANY + "x"):
        assert "characters" in refused(from_text, text, "B/s")
        assert "characters" in refused(count_from_text, text)
    with soon():
        assert profile_of("trtllm", "1" * MANY + ".0") == "trtllm"
    for name, most in {"model": 500, "gpu": 500, "engine": 500, "note": 2000}.items():
        row = dict.fromkeys(HEAD.strip().split(","), "1") | {name: "x" * 100_000}
        text = ",".join(row) + "\n" + ",".join(row.values()) + "\n"
        with soon():
            (fault,) = results(text.encode(), "a.csv").faults
        assert f"{name} has 100000 characters; the limit is {most}" in str(fault)
    with monkeypatch.context() as impatient:  # honest names are judged by the patience that users get
        impatient.setattr("roofline.catalog.huggingface.blocks._PATIENCE", 0.1)
        assert "too costly to match" in refused(imported_model, configuration(tmp_path, quantized(["re:.*.*.*.*x"])))
    honest = [r"re:model\.layers\.\d+\.mlp\.experts\.\d+\.(gate|up)_proj.*", "re:.*lm_head", "*self_attn*"]
    with soon():
        imported_model(configuration(tmp_path, quantized(honest)))


def configuration(folder, content):
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def quantized(ignore):
    weights = {"num_bits": 8, "type": "float"}
    groups = {"config_groups": {"g": {"targets": ["Linear"], "weights": weights}}, "ignore": ignore}
    return {**LLAMA, "num_hidden_layers": 200, "quantization_config": {"quant_method": "compressed-tensors", **groups}}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"a": [' + "[]," * 1_100_000 + "0]}", "lists and mappings"),
        ('{"a": [' + "0," * 4_200_000 + "0]}", "values"),
        ("{" + '"":0,' * 1_100_000 + '"":0}', "fields"),
        ('{"model_type": ' + "[" * 500 + "]" * 500 + "}", "deeper than 64"),
        ("[" * MANY, "unreadable JSON"),
        ('{"hidden_size": ' + "9" * 1_000_000 + "}", "unreadable JSON"),
        ({**LLAMA, "hidden_size": float("nan")}, "hidden_size"),
        ({**LLAMA, "hidden_size": int("9" * 4000)}, "hidden_size"),
        ({**LLAMA, "model_type": "a" * 5_000_000}, "model_type: text of 5000000 characters"),
        (quantized([f"n{number}" for number in range(200_001)]), "200001 names"),
        (quantized([f"*n{number}*x" for number in range(50_000)]), "characters of patterns"),
        (quantized([f"re:a{number}" for number in range(501)]), "501 regular expressions"),
        (quantized(["re:(a|a)*b"]), "too complex a pattern"),
        (quantized(["re:" + ".?" * 100 + "x"]), "too complex a pattern"),
        (quantized(["re:" + ".*" * 100 + "x"]), "too complex a pattern"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 50 else "",
)
def test_a_configuration_is_refused_in_no_time(tmp_path, content, words):
    assert words in refused(imported_model, configuration(tmp_path, content))


HEAD = "model,gpu,tp,isl,osl,batch,ttft_ms\n"
KERNELS = "gpu,kind,dtype,m,n,k,latency_us\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "a" * 200_000 + "\n", "a.csv:2: not CSV: field larger than"),
        (HEAD + '"' + "a\n" * 90_000, "not CSV"),
        (HEAD + "," * 1_000_000, "1000001 columns"),
        (HEAD + "\n" * 3 * MANY, "100000 lines"),
        (HEAD + "1\n" * 21_000, "more than 20000 results"),
        (",".join(f"c{number}" for number in range(400)) + ",ttft_ms\n" + ("," * 400 + "\n") * 8000, "cells so far"),
        ("{}\n" * 21_000, "more than 20000 results"),
        ("[" + "0," * 21_000 + "0]", "more than 20000 results"),
        ("[" * 1000 + "]" * 1000, "deep"),
        ("[" + "[]," * 1_100_000 + "0]", "lists and mappings"),
        (json.dumps({"a": 1})[:-1] + ', "b": ' + "9" * 1_000_000 + "}", "too long"),
    ],
    ids=lambda value: value if len(value) < 50 else "",
)
def test_a_result_is_refused_in_no_time(tmp_path, text, words):
    path = tmp_path / "a.csv"
    path.write_text(text)
    message = refused(read_results, str(path))
    assert words in message
    assert message.startswith(str(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (KERNELS + "a" * 200_000 + "\n", "a.csv:2: not CSV: field larger than"),
        (KERNELS + '"a\n', "not CSV"),
        (KERNELS + "1\n" * (MANY + 1), "100000 lines"),
        (KERNELS[:-1] + ",x" * 600 + "\n", "columns"),
        ("kind,latency_us,kind\n", "two columns are called 'kind'"),
        (KERNELS + "h100-sxm,gemm,bf16,1,1,\0,1\n", "k = "),
        (KERNELS + "h100-sxm,gemm,bf16,1,1," + "9" * 100_000 + ",1\n", "k = "),
    ],
    ids=lambda value: value if len(value) < 50 else "",
)
def test_a_table_of_kernels_is_refused_in_no_time(tmp_path, text, words):
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert words in refused(kernel_groups, [str(path)])
