"""Pools of GPUs in one word: what each text means, its inverse, and the slips that are refused."""

from dataclasses import replace

import pytest
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

from roofline.specs.written import Pool, counted_name, pool_of_text, pool_text
from roofline.support.errors import BadInput

DEGREE = st.none() | st.integers(1, 64)


@st.composite
def pools(draw):
    """Pools that can be written: a number of GPUs beside replicas says the tp, which is then stated."""
    degrees = {name: draw(DEGREE) for name in ("tp", "pp", "ep", "dp")}
    replicas = draw(st.none() | st.integers(1, 9))
    gpu = draw(st.sampled_from(["h100", "b200", "mi300x", "gb200-nvl72", "rtx-5090", "./own/8x.yaml", "a100 80gb"]))
    preset = draw(st.none() | st.sampled_from(["fp8", "w4a16", "mxfp4", "native", "w8a8-fp8", "fp8_block"]))
    count = draw(st.none() | st.integers(1, 9))
    if count is not None and replicas is not None:
        degrees["tp"] = degrees["tp"] or 2
        count = replicas * degrees["tp"] * (degrees["pp"] or 1) * (degrees["dp"] or 1)
    return Pool(gpu, **degrees, quantization=preset, num_gpus=count, replicas=replicas)


@given(pools())
def test_the_text_of_a_pool_reads_as_the_same_pool_in_any_case(pool):
    assert pool_of_text(pool_text(pool)) == pool
    name, colon, parts = pool_text(pool).partition(":")
    spaced = (name + colon + parts.upper()).replace(":", " : ")
    assert pool_of_text(f" {spaced} ") == pool


def test_what_a_text_means_and_a_pool_is_not_changed():
    for text, pool in [
        ("h100", Pool("h100")),
        ("8xh100", Pool("h100", num_gpus=8)),
        ("8 x h100", Pool("h100", num_gpus=8)),
        ("8*h100", Pool("h100", num_gpus=8)),
        ("b200:tp4:fp8x2", Pool("b200", tp=4, quantization="fp8", replicas=2)),
        ("b200:fp8:tp4x2", Pool("b200", tp=4, quantization="fp8", replicas=2)),
        ("b200:fp8:tp4:x2", Pool("b200", tp=4, quantization="fp8", replicas=2)),
        ("b200:tp4x2", Pool("b200", tp=4, replicas=2)),
        ("b200:x2", Pool("b200", replicas=2)),
        ("b200:tp4pp2ep8dp2", Pool("b200", tp=4, pp=2, ep=8, dp=2)),
        ("b200:pp2:tp4", Pool("b200", tp=4, pp=2)),
        ("8xb200:fp8x2", Pool("b200", tp=4, quantization="fp8", num_gpus=8, replicas=2)),
        ("b200:mxfp4", Pool("b200", quantization="mxfp4")),
        ("B200:TP4:W8A8", Pool("B200", tp=4, quantization="w8a8")),
    ]:
        assert pool_of_text(text) == pool
    pool = pool_of_text("b200:tp4")
    assert replace(pool, tp=8) == pool_of_text("b200:tp8")
    with pytest.raises(AttributeError):
        pool.tp = 8


@each(
    ("text", "advice"),
    [
        ("b200:", "write 8xh100, b200:tp4"), (":tp4", "names no GPU"), ("8x:tp4", "names no GPU"),
        ("b200:tp0", "must be at least 1"), ("0xb200", "must be at least 1"), ("b200:tp4:tp8", "tp is stated twice"),
        ("b200:fp8:int8", "the number format is stated twice"), ("b200:fp8x2:tp4", "replicas come last"),
        ("b200:tp4x2:x2", "replicas come last"),
        ("b200:8", "x8 for 8 replicas, or 8x before the name for 8 GPUs in all"),
        ("b200:tq4", "neither a plan (tp4, tp4pp2), a number format (fp8) nor replicas (x2)"),
        ("b200:fp9", "a number format (fp8)"), ("8xb200:tp4x3", "8 GPUs are not 3 replicas of 4 GPUs"),
        ("7xb200:x2", "leave out the number in front, or the replicas"), ("b200:tp-4", "neither a plan"),
        ("b200;tp4:fp9", "neither a plan"),
    ],
)  # fmt: skip
def test_a_slip_is_refused_with_what_to_write_instead(text, advice):
    with pytest.raises(BadInput) as caught:
        pool_of_text(text)
    assert advice in str(caught.value)
    assert len(str(caught.value)) < 300


@given(st.text(max_size=40))
def test_any_text_is_a_pool_or_refused(text):
    try:
        pool = pool_of_text(text)
    except BadInput:
        return
    assert pool_of_text(pool_text(pool)) == pool or counted_name(pool.gpu) or pool.gpu != pool.gpu.strip()
