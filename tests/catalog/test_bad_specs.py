"""Files of one's own that nobody has vetted: all faults at once with their lines, or a valid record, nothing else."""

import json

import pytest
from spec_texts import CALIBRATION, GPU, MODEL, every_fault, faults, line_of

import roofline as rl
from roofline.catalog import find as reader
from roofline.catalog.checks import checked_document
from roofline.catalog.entries import figures


def refused(tmp_path, text, load=rl.load_gpu, name="my-gpu"):
    """Faults of a file that must be refused on loading and on checking alike."""
    path = tmp_path / f"{name}.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(rl.BadSpec) as loaded:
        load(name, str(tmp_path))
    with pytest.raises(rl.BadSpec) as checked:
        checked_document(str(path))
    assert str(loaded.value).startswith(f"{path}:")
    assert faults(loaded.value) == faults(checked.value)
    return faults(loaded.value)


def test_the_undamaged_texts_are_valid(tmp_path):
    (tmp_path / "my-gpu.yaml").write_text(GPU)
    gpu = rl.load_gpu("my-gpu", str(tmp_path))
    assert gpu.peaks == {"bf16": 1e15, "fp8": 2e15}
    assert (gpu.bandwidth, gpu.memory, gpu.memory_label) == (4e12, 94 * 2**30, 96e9)
    assert (gpu.scale_out, gpu.host_link, gpu.power) == (50e9, None, 700.0)
    assert gpu.price is not None
    assert gpu.price.typical == pytest.approx(2.0 / 3600.0, rel=1e-15)
    (tmp_path / "tiny.yaml").write_text(MODEL)
    model = rl.load_model("tiny-1b", str(tmp_path))
    assert (model.name, model.short_name, model.layers, model.is_moe) == ("acme/Tiny-1B", "tiny-1b", 16, True)
    assert model.native["experts"] == "fp8_block"
    assert model.stated_total == 1.2e9
    assert model.stated_active is None
    path = tmp_path / "hopper.yaml"
    path.write_text(CALIBRATION)
    assert checked_document(str(path))["measured_on"] == ["my-gpu"]


@pytest.mark.parametrize("date", ["2026-01-02", "2026-01", "'2026'", "'2026-01-02'"])
def test_a_date_is_a_day_a_month_or_a_year(tmp_path, date):
    (tmp_path / "my-gpu.yaml").write_text(GPU.replace("2026-01-02", date))
    found = figures(reader.document("my-gpu", "gpu", str(tmp_path)))
    assert {figure.date for figure in found} == {date.strip("'")}


@pytest.mark.parametrize("field", ["exp_per_s", "scale_out", "host_link", "power", "price", "in_switch_reduction"])
def test_an_optional_figure_may_be_left_out_or_null(tmp_path, field):
    kept = [line for line in GPU.splitlines() if not line.strip().startswith(field + ":")]
    if field == "scale_out":
        kept = [line for line in kept if "Gbit/s" not in line]
    without = "\n".join(kept) + "\n"
    nested = field == "in_switch_reduction"
    null = (
        without.replace("  kind: nvlink4\n", f"  kind: nvlink4\n  {field}: null\n")
        if nested
        else f"{without}{field}: null\n"
    )
    found = []
    for name, text in (("left-out", without), ("null", null)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "my-gpu.yaml").write_text(text)
        found.append(rl.load_gpu("my-gpu", str(tmp_path / name)))
    assert found[0] == found[1]
    attribute = {"exp_per_s": "exp_rate"}.get(field, field)
    assert (found[0].link.in_switch_reduction is False) if nested else (getattr(found[0], attribute) is None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("q_rank: 512", "q_rank: null"),
        ("q_rank: 512, ", ""),
        ("head_dim: 128, window: 1024", "head_dim: 128, v_head_dim: null"),
        ("head_dim: 128, window: 1024", "head_dim: 128, window: null, chunk: null"),
        ("experts: fp8_block, ", "experts: null, "),
        ("experts: fp8_block, ", ""),
        ("max_context: 8192", "max_context: null"),
        ("parameters:\n  total: {value: 1.2 B, source: card}\n", ""),
        ("    total: {value: 1.2 B, source: card}", "    total: null"),
        ("norms: 2\n", ""),
        ("family: tiny\n", ""),
        ("aliases: [tiny-1b, acme/Tiny-1B-Instruct]", "aliases:\n  - tiny-1b\n  - acme/Tiny-1B-Instruct"),
    ],
)
def test_a_model_that_leaves_out_what_is_optional_can_be_predicted(tmp_path, old, new):
    assert old in MODEL or old.startswith("    total")
    (tmp_path / "tiny.yaml").write_text(MODEL.replace(old, new))
    prediction = rl.predict("tiny-1b", "h100-sxm", isl=100, osl=10, specs=str(tmp_path))
    assert 0.0 < prediction.ttft < 1.0
    assert "tiny-1b" in rl.models(str(tmp_path))


# (what is replaced, a part of the line that is named, words of the fault, by what, ...)
GPU_FAULTS = every_fault(
    ("vendor: Acme\n", "name:", "vendor: missing", ""),
    ("    title: Acme data sheet\n", "  sheet:", "sources.sheet.title: missing", ""),
    ("    date: 2026-01-02\n", "  sheet:", "sources.sheet.date: missing", ""),
    ("vendor: Acme", "vender", "unknown key; did you mean vendor?", "vender: Acme"),
    ("  label: {", "  lable", "memory.lable: unknown key; did you mean label?", "  lable: {"),
    ("{value: 96 GB,", "  label", "memory.label.valeu: unknown key; did you mean value?", "{valeu: 96 GB,"),
    ("{value: 96 GB, source: sheet}", "  label", "memory.label", "96 GB"),
    ("{value: 96 GB, source: sheet}", "  label", "memory.label.source: missing", "{value: 96 GB}"),
    ("96 GB, source: sheet", "  label", "'shet' is not listed under sources", "96 GB, source: shet"),
    ("96 GB", "  label", "96 has no unit", "96"),
    ("96 GB", "  label", "has no unit", "'96'", "1e12", "true", "no", "null", "[96 GB]"),
    ("96 GB", "  label", "must be positive", "-96 GB", "0 GB"),
    ("96 GB", "  label", "must be positive and finite", "1e999 GB"),
    ("96 GB", "  label", "is not a unit of B", "96 GB/s"),
    ("400 Gbit/s", "  bandwidth: {value: 400", "ambiguous", "400 Gb/s"),
    ("1000 TFLOP/s", "  bf16", "is not a unit of FLOP/s", "1000 TFLOPS"),
    ("1000 TFLOP/s", "  bf16", "sparse", "1000 TFLOP/s sparse"),
    ("1000 TFLOP/s", "  bf16", "suggests a sparse peak", "2100 TFLOP/s"),
    ("2000 TFLOP/s", "  fp8", "suggests a sparse peak", "4000 TFLOP/s"),
    ("  fp8: {", "peak:", "bf16_sparse: sparse peaks are not accepted", "  bf16_sparse: {"),
    ("  fp8: {", "peak:", "unknown dtype fp9; did you mean fp8", "  fp9: {"),
    ("  fp8: {", "  8: {", "must be plain text", "  8: {"),
    ("  bf16: {value: 1000 TFLOP/s, source: sheet}\n", "peak:", "bf16 or fp16 is missing", ""),
    ("domain: {value: 8,", "  domain", "scale_up.domain.value", "domain: {value: 0,", "domain: {value: 8.0,",
     "domain: {value: '8',", "domain: {value: true,"),
    ("{value: true,", "  in_switch", "scale_up.in_switch_reduction.value", "{value: 1,", "{value: 'yes',"),
    ("low: 1 USD/h", "price:", "price.low", "low: 1 EUR/h"),
    ("low: 1 USD/h, ", "price:", "price.low: missing", ""),
    ("generation: hopper", "generation", "generation", "generation: 5", "generation: ''"),
    ("generation: hopper", "status", "status", "generation: hopper\nstatus: rumoured"),
    ("power: {value: 700 W, source: sheet}", "power:", "power.value: missing", "power: {}"),
    ("power: {value: 700 W, source: sheet}", "power", "confidence",
     "power: {value: 700 W, source: sheet, confidence: sure}"),
    ("notes:\n  - prototype", "notes", "notes", "notes: prototype"),
    ("notes:\n  - prototype", "  - 5", "notes.0", "notes:\n  - 5"),
    ("vendor: Acme", "vendor: Bcme", "vendor: duplicate key", "vendor: Acme\nvendor: Bcme"),
    ("  fp8: {value: 2000", "  bf16: {value: 2000", "peak.bf16: duplicate key", "  bf16: {value: 2000"),
    ("date: 2026-01-02", "    date: soon", "sources.sheet.date", "date: soon"),
    ("date: 2026-01-02", "    date: ''", "sources.sheet.date", "date: ''"),
    ("date: 2026-01-02", "    date: 2026-13", "sources.sheet.date", "date: 2026-13"),
    ("date: 2026-01-02", "    date: 5", "sources.sheet.date", "date: 5"),
    ("date: 2026-01-02", "    date: true", "sources.sheet.date", "date: true"),
    ("date: 2026-01-02", "    date: null", "sources.sheet.date", "date: null"),
    ("  sheet:\n    title: Acme data sheet", "    title", "sources.sheet.title", "  sheet:\n    title: ''"),
    ("notes:", '"no', "unknown key", '"no\\nise": five\nnotes:'),
    ("notes:", "5: five", "must be plain text", "5: five\nnotes:"),
    ("notes:", "null: five", "must be plain text", "null: five\nnotes:"),
    ("notes:", "2026-01-02: five", "must be plain text", "2026-01-02: five\nnotes:"),
    ("notes:", "? [a, b]", "", "? [a, b]\n: five\nnotes:"),
    ("power: {", "<<:", "must be plain text", "<<: {vendor: Bcme}\npower: {"),
)  # fmt: skip

MODEL_FAULTS = every_fault(
    ("hidden: 2048\n", "name:", "hidden: missing", ""),
    ("hidden: 2048", "hiden", "unknown key; did you mean hidden?", "hiden: 2048"),
    ("hidden: 2048", "hidden", "hidden", "hidden: 2048.0", "hidden: '2048'", "hidden: -2048", "hidden: 0",
     "hidden: true", "hidden: 10000000000"),
    ("tied: false", "tied", "tied", "tied: 0", "tied: 'false'", "tied: null"),
    ("aliases: [tiny-1b, acme/Tiny-1B-Instruct]", "aliases", "aliases", "aliases: []"),
    ("aliases: [tiny-1b, acme/Tiny-1B-Instruct]\n", "name:", "aliases: missing", ""),
    ("repeat: 12", "  - repeat: 0", "groups.0.repeat", "repeat: 0"),
    ("repeat: 12", "  - repeat", "groups.0.repeat", "repeat: 1000000"),
    ("kv_heads: 4, head_dim: 128}\n    ffn", "    mixer", "must be a multiple of kv_heads (5)",
     "kv_heads: 5, head_dim: 128}\n    ffn"),
    ("kind: gqa, heads: 16", "    mixer", "groups.0.mixer", "kind: mha, heads: 16", 'kind: "g\\nqa", heads: 16'),
    ("kind: gqa, heads: 16", "    mixer", "groups.0.mixer.heads: missing", "kind: gqa"),
    ("window: 1024", "window: 1024, chunk", "window, chunk and indexer exclude each other", "window: 1024, chunk: 512"),
    ("top_k: 2", "top_k: 32", "top_k (32) must not exceed experts (16)", "top_k: 32"),
    ("top_k: 2", "topk", "did you mean top_k?", "topk: 2"),
    ("    ffn: {kind: dense, width: 8192, gated: true}\n  - repeat", "  - repeat", "either a mixer and an ffn",
     "  - repeat"),
    ("embed: bf16", "native", "native.embed", "embed: bf61"),
    ("kv: bf16", "native", "native.kv", "kv: mxfp4"),
    ("norm: bf16", "native", "did you mean norm?", "norms: bf16"),
    ("value: 1.2 B", "  total", "is not a number of parameters", "value: 1.2", "value: -5", "value: 1.2 GB"),
    ("architecture: {source: card}\n", "name:", "architecture: missing", ""),
    ("architecture: {source: card}", "architecture", "is not listed under sources", "architecture: {source: crad}"),
)  # fmt: skip


@pytest.mark.parametrize(("old", "new", "part", "words"), GPU_FAULTS, ids=[repr(case[1]) for case in GPU_FAULTS])
def test_a_fault_of_a_gpu_is_reported_with_its_line(tmp_path, old, new, part, words):
    assert old in GPU
    text = GPU.replace(old, new, 1)
    found = refused(tmp_path, text)
    assert any(line == line_of(text, part) and words in fault for line, fault in found), found


@pytest.mark.parametrize(("old", "new", "part", "words"), MODEL_FAULTS, ids=[repr(case[1]) for case in MODEL_FAULTS])
def test_a_fault_of_a_model_is_reported_with_its_line(tmp_path, old, new, part, words):
    assert old in MODEL
    text = MODEL.replace(old, new, 1)
    found = refused(tmp_path, text, rl.load_model, "tiny-1b")
    assert any(line == line_of(text, part) and words in fault for line, fault in found), found


def test_a_high_peak_is_refused_unless_a_note_explains_it(tmp_path):
    text = GPU.replace("1000 TFLOP/s, source: sheet", "2100 TFLOP/s, source: sheet, note: the data sheet says dense")
    (tmp_path / "my-gpu.yaml").write_text(text)
    assert rl.load_gpu("my-gpu", str(tmp_path)).peaks["bf16"] == 2.1e15
    for note in ["", ", note: null", ", note: ''"]:
        h100 = GPU.replace("4 TB/s", "3.35 TB/s").replace(
            "1000 TFLOP/s, source: sheet", f"1979 TFLOP/s, source: sheet{note}"
        )
        found = refused(tmp_path, h100.replace("2000 TFLOP/s", "3958 TFLOP/s"))
        lines = [line for line, fault in found if "peak.bf16" in fault and "sparse" in fault]
        assert lines == [line_of(h100, "  bf16")]


@pytest.mark.parametrize("key", ["dense", "moe", "gqa", "mla", "date", "str"])
def test_a_source_may_be_called_like_a_kind_of_layer(tmp_path, key):
    text = GPU.replace("source: sheet", f"source: {key}").replace("    title: Acme data sheet\n", "")
    text = text.replace("  sheet:", f"  {key}:")
    assert refused(tmp_path, text) == [(line_of(text, f"  {key}:"), f"sources.{key}.title: missing")]


def test_all_faults_are_reported_at_once_each_with_its_line(tmp_path):
    text = GPU.replace("1000 TFLOP/s", "1000").replace("96 GB", "96 Gb").replace("700 W", "-700 W")
    found = refused(tmp_path, text)
    assert [line for line, _ in sorted(found)] == [6, 10, 20]
    fields = [fault.split(":")[0] for _, fault in sorted(found)]
    assert fields == ["peak.bf16.value", "memory.label.value", "power.value"]
    text = MODEL.replace("vocab: 32000", "vocab: 32000\nvocab: 32001").replace("top_k: 2", "top_k: 99")
    text = text.replace("source: card}", "source: cart}", 1)
    found = refused(tmp_path, text, rl.load_model, "tiny-1b")
    expected = {
        line_of(text, "vocab: 32001"): "duplicate key",
        line_of(text, "top_k"): "must not exceed",
        line_of(text, "source: cart"): "is not listed under sources",
    }
    assert {line for line, _ in found} == set(expected)
    assert all(expected[line] in fault for line, fault in found)
    for date in ["5", "[]", "2.5"]:
        text = GPU.replace("2026-01-02", date)
        assert [fault.split(": ")[0] for _, fault in refused(tmp_path, text)] == ["sources.sheet.date"]


def test_a_misspelt_calibration_is_refused_like_any_other_file(tmp_path):
    (tmp_path / "my-gpu.yaml").write_text(GPU)
    path = tmp_path / "hopper.yaml"
    path.write_text(CALIBRATION.replace("eta_m: 0.5", "eta_m: 1.5", 1).replace("gemm:", "gem:", 1))
    with pytest.raises(rl.BadSpec) as caught:
        rl.load_gpu("my-gpu", str(tmp_path))
    assert {line for line, _ in faults(caught.value)} == {4, 5}
    for eta in [".nan", "-0.5", "0", "1.01", ".inf", "'0.5'", "true", "null"]:
        path = tmp_path / "hopper.yaml"
        path.write_text(CALIBRATION.replace("eta: 0.5", f"eta: {eta}"))
        with pytest.raises(rl.BadSpec) as caught:
            checked_document(str(path))
        assert [line for line, _ in faults(caught.value)] == [line_of(CALIBRATION, "all_reduce")]


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
NO_SPECIFICATIONS = {
    "empty": b"",
    "blank": b"\n\n  \n",
    "a comment": b"# nothing\n",
    "a document marker": b"---\n",
    "null": b"null\n",
    "a word": b"hopper\n",
    "a number": b"5\n",
    "a list": b"- name: my-gpu\n",
    "a set": b"!!set {a, b}\n",
    "an empty mapping": b"{}\n",
    "two documents": GPU.encode() + b"---\n" + GPU.encode(),
    "a tab": GPU.replace("  label", "\tlabel").encode(),
    "an open bracket": GPU.replace("source: sheet}", "source: sheet", 1).encode(),
    "an open quote": GPU.replace("Acme\n", "'Acme\n", 1).encode(),
    "wrong indentation": GPU.replace("  label", " label").encode(),
    "binary": bytes(range(256)),
    "an ELF file": b"\x7fELF\x02\x01\x01\x00" * 8,
    "latin-1": GPU.replace("Acme", "Acm\u00e9").encode("latin-1"),
    "UTF-16": GPU.encode("utf-16"),
    "a zero byte": GPU.replace("Acme", "Ac\0me").encode(),
    "a control character": GPU.replace("Acme", "Ac\x07me").encode(),
    "a bomb": BOMB.encode(),
    "a bomb in a field": (BOMB + GPU + "extra: *a8\n").encode(),
    "an alias of itself": b"name: my-gpu\npeak: &a [*a]\n",
    "a mapping of itself": b"&a\nname: my-gpu\npeak: *a\n",
    "an unknown alias": b"name: my-gpu\npeak: *nothing\n",
    "an anchor given twice": b"name: my-gpu\nvendor: &a Acme\ngeneration: &a hopper\npeak: *a\n",
    "100000 brackets": b"name: my-gpu\npeak: " + b"[" * 100_000,
    "100000 closed brackets": b"name: my-gpu\npeak: " + b"[" * 100_000 + b"]" * 100_000,
    "100000 braces": b"name: my-gpu\npeak: " + b"{a: " * 100_000,
    "100000 dashes": b"name: my-gpu\npeak:\n  " + b"- " * 100_000,
    "100000 question marks": b"? " * 100_000,
    "too long": GPU.encode() + b"# padding\n" * 150_000,
    "too many fields": GPU.encode() + b"extra: [" + b"1, " * 25_000 + b"1]\n",
    "a Python object": b"name: my-gpu\npeak: !!python/object/apply:os.getcwd []\n",
    "an unknown tag": b"name: my-gpu\npeak: !gpu {}\n",
    "a day that does not exist": GPU.replace("2026-01-02", "2026-02-30").encode(),
    "a month that does not exist": GPU.replace("2026-01-02", "2026-13-01").encode(),
    "a forced timestamp": GPU.replace("2026-01-02", "!!timestamp soon").encode(),
    "a forced truth value": GPU.replace("value: true", "value: !!bool maybe").encode(),
    "a forced integer": GPU.replace("value: 8", "value: !!int eight").encode(),
    "a forced empty integer": GPU.replace("value: 8", "value: !!int ''").encode(),
    "a forced float": GPU.replace("value: 8", "value: !!float eight").encode(),
    "a forced empty float": GPU.replace("value: 8", "value: !!float ''").encode(),
    "a forced binary": GPU.replace("value: 8", "value: !!binary '\u00e9'").encode(),
    "a forced mapping": GPU.replace("value: 8", "value: !!map eight").encode(),
    "an integer of 5000 digits": GPU.replace("value: 8", "value: " + "9" * 5000).encode(),
    "a lone surrogate": GPU.replace("vendor: Acme", 'vendor: "\\ud800"').encode(),
    "a lone surrogate as a dtype": GPU.replace("fp8:", '"\\ud800":').encode(),
    "a lone surrogate as a key": GPU.replace("power:", '"\\ud800":').encode(),
    "a mapping as a key": GPU.replace("power:", "? {a: b}\n:").encode(),
    "a merge of a number": GPU.replace("power:", "<<: 5\npower:").encode(),
}


@pytest.mark.parametrize("content", NO_SPECIFICATIONS.values(), ids=NO_SPECIFICATIONS)
def test_a_file_that_is_hardly_a_specification_is_refused_with_file_and_line(tmp_path, content):
    assert refused(tmp_path, content)


def test_an_unreadable_character_or_day_is_reported_on_its_line_in_a_message_that_can_be_printed_anywhere(tmp_path):
    text = GPU.replace("Acme\n", "Ac\x07me\n", 1)
    assert [line for line, _ in refused(tmp_path, text)] == [line_of(text, "vendor")]
    text = GPU.replace("2026-01-02", "2026-02-30")
    assert [line for line, _ in refused(tmp_path, text)] == [line_of(text, "date")]
    for name in ("a lone surrogate", "a lone surrogate as a dtype", "a lone surrogate as a key"):
        (tmp_path / "my-gpu.yaml").write_bytes(NO_SPECIFICATIONS[name])
        with pytest.raises(rl.BadSpec) as caught:
            rl.load_gpu("my-gpu", str(tmp_path))
        assert str(caught.value).encode("utf-8")


def test_a_folder_called_like_a_file_is_searched(tmp_path):
    (tmp_path / "my-gpu.yaml").mkdir()
    (tmp_path / "my-gpu.yaml" / "inner.yaml").write_text(GPU)
    assert rl.load_gpu("my-gpu", str(tmp_path)).name == "my-gpu"


@pytest.mark.parametrize(
    "generation",
    ["/hopper", "../hopper", "**", "[", "a" * 200, "\u6f22" * 200, "hopper/../calibration/hopper", "hopper/../hopper"],
)
def test_a_strange_generation_has_no_calibration_of_its_own_and_no_way_to_other_files(tmp_path, generation):
    (tmp_path / "my-gpu.yaml").write_text(
        GPU.replace("generation: hopper", f'generation: "{generation}"'), encoding="utf-8"
    )
    assert rl.load_gpu("my-gpu", str(tmp_path)).calibration.name == "generic"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4 TB/s", "1e-200 TB/s"), ("4 TB/s", "1e280 TB/s"),
        ("1000 TFLOP/s, source: sheet", "1e280 TFLOP/s, source: sheet, note: huge"), ("1000 TFLOP/s", "1e-280 TFLOP/s"),
        ("450 GB/s", "1e-290 GB/s"), ("94 GiB", "1e280 GiB"), ("94 GiB", "1e-200 GiB"), ("4 Texp/s", "1e-300 Texp/s"),
        ("low: 1 USD/h, typical: 2 USD/h, high: 3 USD/h", "low: 1 USD/h, typical: 1e300 USD/h, high: 3 USD/h"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("basis", ["ideal", "calibrated"])
def test_an_absurd_figure_is_refused_or_predicted_but_never_breaks_the_arithmetic(tmp_path, old, new, basis):
    assert old in GPU
    (tmp_path / "my-gpu.yaml").write_text(GPU.replace(old, new))
    try:
        prediction = rl.predict("llama-3.1-8b", "my-gpu", isl=100, osl=10, tp=2, basis=basis, specs=str(tmp_path))
    except rl.RooflineError as error:
        assert str(error)
    else:
        assert prediction.ttft >= 0.0
        json.dumps(prediction.to_dict(), allow_nan=False)
