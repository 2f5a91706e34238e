"""Figures that cannot be true are refused on reading, doubtful ones by the check alone; a note answers both."""

import pytest
from spec_texts import FULL_GPU, GPU, faults, line_of

import roofline as rl

# (what is replaced, by what, the field that is named, words of the fault)
SLIPS = [
    ("1000 TFLOP/s, source: sheet}\n  fp8", "1000 GFLOP/s, source: sheet}\n  fp8", "peak.bf16", "check the units"),
    ("1000 TFLOP/s, source: sheet}\n  fp8", "0.9 TFLOP/s, source: sheet}\n  fp8", "peak.bf16", "check the unit,"),
    ("1000 TFLOP/s, source: sheet}\n  fp8", "2100 TFLOP/s, source: sheet}\n  fp8", "peak.bf16", "sparse"),
    ("2000 TFLOP/s", "4000 TFLOP/s", "peak.fp8", "sparse"),
    ("2000 TFLOP/s", "200000 TFLOP/s", "peak.fp8", "100 PFLOP/s"),
    ("4 TB/s", "4 GB/s", "memory.bandwidth", "10 GB/s"),
    ("4 TB/s", "4000 TB/s", "memory.bandwidth", "100 TB/s"),
    ("96 GB", "96 MB", "memory.label", "1 GB"),
    ("94 GiB", "94 MiB", "memory.usable", "1 GB"),
    ("94 GiB", "97 GiB", "memory.usable", "more than the label"),
    ("94 GiB", "76 GB", "memory.usable", "less than 80%"),
    ("450 GB/s", "450 MB/s", "scale_up.bandwidth", "1 GB/s"),
    ("400 Gbit/s", "400 Tbit/s", "scale_out.bandwidth", "10 TB/s"),
    ("4 Texp/s", "4 Gexp/s", "exp_per_s", "10 Gexp/s"),
    ("power: {value: 700 W", "power: {value: 700 kW", "power", "10 kW"),
    ("power: {value: 700 W", "power: {value: 4 W", "power", "5 W"),
    ("low: 1 USD/h", "low: 0.001 USD/h", "price.low", "0.01 USD/h"),
    ("high: 3 USD/h", "high: 3000 USD/h", "price.high", "1000 USD/h"),
]
OF_SEVERAL_PEAKS = ("check the units", "check the unit,")  # fp8 is out of proportion to bf16, too
DOUBTS = [
    ("fp8: {value: 2000 TFLOP/s", "fp8: {value: 1900 TFLOP/s", "peak.fp8", "1.90 times the bf16 peak, not 2"),
    ("int8: {value: 2000 TOP/s", "int8: {value: 500 TOP/s", "peak.int8", "0.50 times the bf16 peak, not 1 or 2"),
    ("fp4: {value: 4000 TFLOP/s", "fp4: {value: 8000 TFLOP/s", "peak.fp4", "8.00 times"),
    ("int4: {value: 4000 TOP/s", "int4: {value: 8000 TOP/s", "peak.int4", "8.00 times"),
    ("tf32: {value: 500 TFLOP/s", "tf32: {value: 1000 TFLOP/s", "peak.tf32", "1.00 times"),
    ("fp16: {value: 1000 TFLOP/s", "fp16: {value: 500 TFLOP/s", "peak.fp16", "0.50 times"),
    ("exp_per_s: {value: 4 Texp/s", "exp_per_s: {value: 400 Texp/s", "exp_per_s", "per core and clock"),
    (
        "bandwidth: {value: 448 GB/s",
        "bandwidth: {value: 4480 GB/s",
        "scale_up.bandwidth",
        "exceeds the memory bandwidth",
    ),
]


def noted(text, changed):
    """The text with a note on the figure that was changed."""
    return text.replace(changed, f"{changed}, note: read from the device" if "{" in changed else changed)


def test_a_slip_of_a_unit_is_refused_on_reading_and_by_the_check_unless_a_note_answers_it(tmp_path):
    for old, new, field, words in SLIPS:
        assert old in GPU
        path = tmp_path / "my-gpu.yaml"
        path.write_text(GPU.replace(old, new, 1))
        with pytest.raises(rl.BadSpec) as caught:
            rl.load_gpu("my-gpu", str(tmp_path))
        assert any(fault.startswith(f"{field}: ") and words in fault for _, fault in faults(caught.value))
        assert any(f" {field}: " in fault and words in fault for fault in rl.check_specs(str(path)))
    for old, new in [
        (old, new) for old, new, _, words in SLIPS if words not in ("more than the label", *OF_SEVERAL_PEAKS)
    ]:
        text = GPU.replace(old, new, 1)
        end = text.index("}", text.index(new))
        (tmp_path / "my-gpu.yaml").write_text(f"{text[:end]}, note: read from the device{text[end:]}")
        assert rl.load_gpu("my-gpu", str(tmp_path)).name == "my-gpu"


def test_prices_out_of_order_and_a_peer_faster_than_all_are_refused_whatever_a_note_says(tmp_path):
    (tmp_path / "my-gpu.yaml").write_text(FULL_GPU.replace("value: 64 GB/s", "value: 640 GB/s"))
    with pytest.raises(rl.BadSpec, match=r"scale_up\.peer_bandwidth: exceeds scale_up\.bandwidth"):
        rl.load_gpu("my-gpu", str(tmp_path))
    for price, words in [
        ("low: 3 USD/h, typical: 2 USD/h, high: 3 USD/h", "must satisfy low <= typical <= high"),
        ("low: 1 USD/h, typical: 4 USD/h, high: 3 USD/h", "must satisfy low <= typical <= high"),
    ]:
        text = GPU.replace("low: 1 USD/h, typical: 2 USD/h, high: 3 USD/h", f"{price}, note: asked")
        (tmp_path / "my-gpu.yaml").write_text(text)
        with pytest.raises(rl.BadSpec, match=words):
            rl.load_gpu("my-gpu", str(tmp_path))


def test_neither_the_full_gpu_of_these_tests_nor_a_shipped_one_has_faults(tmp_path):
    path = tmp_path / "my-gpu.yaml"
    path.write_text(FULL_GPU)
    assert rl.check_specs(str(path)) == []
    for name in rl.gpus():
        from roofline.catalog import find as reader
        from roofline.catalog.checks import slips

        assert list(slips(reader.document(name, "gpu"))) == []


@pytest.mark.parametrize(("old", "new", "field", "words"), DOUBTS, ids=[case[1][:30] for case in DOUBTS])
def test_a_doubtful_figure_can_be_read_and_needs_a_note_for_the_check(tmp_path, old, new, field, words):
    assert old in FULL_GPU
    path = tmp_path / "my-gpu.yaml"
    text = FULL_GPU.replace(old, new)
    path.write_text(text)
    assert rl.load_gpu("my-gpu", str(tmp_path)).name == "my-gpu"
    (fault,) = rl.check_specs(str(path))
    assert fault.startswith(f"{path}:{line_of(text, new)}: {field}: ")
    assert words in fault
    path.write_text(FULL_GPU.replace(old, noted(new, new)))
    assert rl.check_specs(str(path)) == []
