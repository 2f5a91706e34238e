"""Tables of timed kernels: read into groups of numbers, refused with file and line where they are faulty."""

import re
from pathlib import Path

import pytest
from every_case import each

import roofline as rl
from roofline.measurements.tables import kernel_groups
from roofline.specs.gpu import SHAPES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "measurements.md").read_text(encoding="utf-8")
TABLE = """\
# timed on a quiet machine
gpu,kind,dtype,m,n,k,latency_us,engine,engine_version,date
h100-sxm,gemm,bf16,16,4096,4096,12.5,trtllm,1.3,2026-09

h100-sxm,gemm,bf16,32,4096,4096,13,vllm,0.24,2026-10-02
# another GPU
b200,gemm,bf16,16,4096,4096,8,trtllm,1.3,2026-09
h100-sxm,gemm,fp8,16,4096,4096,9,trtllm,1.3,2026-09
"""


@pytest.fixture
def table(tmp_path):
    """Writes a table and gives its path."""

    def written(text, name="kernels.csv", **how):
        path = tmp_path / name
        path.write_text(text, encoding=how.get("encoding", "utf-8"), newline="")
        return str(path)

    return written


def refused(path):
    with pytest.raises(rl.BadInput) as caught:
        kernel_groups([path])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_are_grouped_in_any_order_of_columns_files_and_line_ends(table):
    groups = kernel_groups([table(TABLE)])
    assert [(group.gpu, group.kind, group.dtype) for group in groups] == [
        ("h100-sxm", "gemm", "bf16"),
        ("b200", "gemm", "bf16"),
        ("h100-sxm", "gemm", "fp8"),
    ]
    first = groups[0]
    assert first.columns["m"] == [16.0, 32.0]
    assert first.columns["n"] == first.columns["k"] == [4096.0, 4096.0]
    assert first.columns["latency"] == pytest.approx([12.5e-6, 13e-6], rel=1e-12)
    assert first.engines == ("trtllm", "vllm")
    assert first.versions == ("trtllm 1.3", "vllm 0.24")
    assert first.dates == ("2026-09", "2026-10-02")
    assert first.routing == ()
    head, *lines = [line for line in TABLE.splitlines() if line and not line.startswith("#")]
    paths = [table(f"{head}\n{line}\n", f"{place}.csv") for place, line in enumerate(lines)]
    assert kernel_groups(paths) == kernel_groups([table(TABLE)])
    text = "latency_us,note,k,kind,n,m,gpu\n12.5,quiet,4096,gemm,4096,16,h100-sxm\n"
    (group,) = kernel_groups([table(text)])
    assert group.dtype == "bf16"  # where none is stated
    assert (group.columns["m"], group.columns["k"]) == ([16.0], [4096.0])
    assert (group.engines, group.versions, group.dates) == (("",), (), ())
    for ending in ["\n", "\r\n"]:
        text = TABLE.replace("\n", ending)
        assert kernel_groups([table(text, encoding="utf-8-sig")]) == kernel_groups([table(TABLE, "plain.csv")])


def test_experts_have_a_routing_and_are_whole_on_one_rank_where_neither_tp_nor_ep_is_stated(table):
    text = (
        "gpu,kind,dtype,tokens,hidden,width,top_k,experts,tp,ep,routing,latency_us\n"
        "h100-sxm,moe,bf16,16,2048,768,8,128,,,,100\n"
        "h100-sxm,moe,bf16,16,2048,768,8,128,4,8,skewed,60\n"
    )
    (group,) = kernel_groups([table(text)])
    assert (group.columns["tp"], group.columns["ep"]) == ([1.0, 4.0], [1.0, 8.0])
    assert group.routing == ("uniform", "skewed")


def test_the_example_of_the_page_has_every_kind_of_kernel(table):
    example = re.search(r"^## Kernels\n.*?^```csv\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    groups = kernel_groups([table(example)])
    assert {group.kind for group in groups} == set(SHAPES)
    for group in groups:
        assert set(group.columns) == {*SHAPES[group.kind], "latency"}
        assert all(1e-6 < latency < 1e-3 for latency in group.columns["latency"])
        assert rl.load_gpu(group.gpu).name == group.gpu


@each(
    ("old", "new", "line", "words"),
    [
        ("gemm,bf16,32", "gem,bf16,32", 5, ("kind 'gem'", "gemm, attention_prefill")),
        ("gemm,bf16,32", ",bf16,32", 5, ("kind ''",)),
        ("16,4096,4096,12.5", "0,4096,4096,12.5", 3, ("m = ", "must be a positive number")),
        ("16,4096,4096,12.5", "-16,4096,4096,12.5", 3, ("m = ", "must be a positive number")),
        ("16,4096,4096,12.5", "many,4096,4096,12.5", 3, ("m = ", "'many'")),
        ("16,4096,4096,12.5", ",4096,4096,12.5", 3, ("m = ", "must be a positive number")),
        ("16,4096,4096,12.5", "16,4096,nan,12.5", 3, ("k = ", "must be a positive number")),
        ("16,4096,4096,12.5", "16,4096,4096,inf", 3, ("latency_us = ", "must be a positive number")),
        ("16,4096,4096,12.5", "16,4096,4096,", 3, ("latency_us = ", "must be a positive number")),
        ("b200,gemm,bf16,16,4096,4096,8", "b200,gemm,bf16,16,4096,4096,0", 7, ("latency_us = ",)),
    ],
)
def test_a_faulty_row_is_refused_with_its_line(table, old, new, line, words):
    assert old in TABLE
    path = table(TABLE.replace(old, new))
    message = refused(path)
    assert message.startswith(f"{path}:{line}: ")
    assert all(word in message for word in words)


def test_rows_and_files_that_are_no_table_or_cannot_be_routed_are_refused(table, tmp_path):
    text = "gpu,kind,tokens,hidden,width,top_k,experts,ep,latency_us\nh100-sxm,moe,16,2048,768,2,8,16,100\n"
    assert "ep = 16 exceeds experts = 8" in refused(table(text))
    text = "gpu,kind,tokens,hidden,width,top_k,experts,routing,latency_us\nh100-sxm,moe,16,2048,768,8,128,zipf,100\n"
    message = refused(table(text))
    assert "routing 'zipf'" in message
    assert "uniform, balanced, skewed" in message
    for text, words in [
        ("", "is not a table of kernels: its first line must name the columns"),
        ("\n\n# nothing\n", "is not a table of kernels: its first line must name the columns"),
        ("gpu,m,n,k\nh100-sxm,1,2,3\n", "its first line must name the columns, with kind and latency_us"),
        ("gpu,kind,m,n,k\nh100-sxm,gemm,1,2,3\n", "latency_us"),
        ("gpu,kind,m,n,k,latency_us\n", "has no rows"),
        ("h100-sxm,gemm,1,2,3,4\n", "its first line must name the columns, with kind and latency_us"),
    ]:
        assert words in refused(table(text))
    for content in [b"\xff\xfe\x00", b"gpu,kind,latency_us\n\xff,gemm,1\n"]:
        path = tmp_path / "kernels.csv"
        path.write_bytes(content)
        assert "cannot be read" in refused(str(path))
    for path in ["no-such-file.csv", ".", "a\0b.csv", "x" * 5000]:
        message = refused(path)
        assert path.replace("\0", r"\x00") in message
        assert "cannot be read" in message
