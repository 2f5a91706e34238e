"""From a spelling to a record: case and separators fold, and what is unknown is answered with the nearest."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.catalog.reader import fold


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100_SXM", "h100-sxm"),
        ("h100 sxm", "h100-sxm"),
        ("  H100-SXM ", "h100-sxm"),
        ("h100  sxm", "h100-sxm"),
        ("H100", "h100-sxm"),
        ("HGX_H100", "h100-sxm"),
        ("A100", "a100-sxm-80gb"),
        ("a100_80GB", "a100-sxm-80gb"),
        ("GB200 NVL72", "gb200-nvl72"),
        ("gb300", "gb300-nvl72"),
        ("L40S", "l40s"),
    ],
)
def test_case_and_separators_of_a_gpu_do_not_matter(spelling, name):
    assert rl.load_gpu(spelling).name == name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("META_LLAMA 3.1 8b instruct", "llama-3.1-8b"),
        ("llama 3.1 70B", "llama-3.1-70b"),
        ("DeepSeek_R1", "deepseek-r1"),
        ("DeepSeek-R1-0528", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("GPT OSS 120B", "gpt-oss-120b"),
        ("Qwen3-235B-A22B", "qwen3-235b-a22b"),
        ("Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("Llama-2-7b-chat-hf", "llama-2-7b"),
    ],
)
def test_case_and_separators_of_a_model_do_not_matter(spelling, name):
    assert rl.load_model(spelling).short_name == name


@given(data=st.data())
def test_any_spelling_that_folds_to_a_name_loads_it(data):
    name = data.draw(st.sampled_from(rl.gpus()))
    letters = [data.draw(st.sampled_from((" ", "_", "-", "__", " - "))) if letter == "-" else letter for letter in name]
    cased = [letter.upper() if data.draw(st.booleans()) else letter for letter in letters]
    assert rl.load_gpu("".join(cased)).name == name


@given(name=st.text(max_size=20))
def test_folding_twice_is_folding_once(name):
    assert fold(fold(name)) == fold(name)


@pytest.mark.parametrize(
    ("load", "asked", "near"),
    [
        (rl.load_gpu, "h1000", "h100-sxm"),
        (rl.load_gpu, "b20", "b200"),
        (rl.load_gpu, "a100-sxm-40gb", "a100-sxm-80gb"),
        (rl.load_gpu, "l40", "l40s"),
        (rl.load_model, "llama-3.1-80b", "llama-3.1-8b"),
        (rl.load_model, "llama-3.1-7b", "llama-3.1-70b"),
        (rl.load_model, "meta-llama/Llama-3.1-71B", "llama-3.1-70b"),
        (rl.load_model, "deepseek-v4", "deepseek-v3"),
        (rl.load_model, "gpt-oss", "gpt-oss-20b"),
    ],
)
def test_an_unknown_name_is_answered_with_the_three_nearest(load, asked, near):
    with pytest.raises(rl.UnknownName) as caught:
        load(asked)
    message = str(caught.value)
    nearest = re.search(r"nearest: ([^,]+), ([^,]+), (.+)\. List them all with: roofline (gpus|models)", message)
    assert repr(asked) in message
    assert nearest
    known = rl.gpus() if load is rl.load_gpu else rl.models()
    assert len(set(nearest.groups()[:3])) == 3
    assert set(nearest.groups()[:3]) <= set(known)
    assert near in nearest.groups()[:3]


@given(name=st.text(max_size=30))
def test_any_text_is_a_name_or_an_unknown_name(name):
    for load in (rl.load_gpu, rl.load_model):
        try:
            record = load(name)
        except rl.UnknownName as error:
            assert repr(name) in str(error)
        else:
            folded = {fold(alias) for alias in (record.name, *record.aliases)}
            assert fold(name) in folded | {alias.rsplit("/", 1)[-1] for alias in folded}


@pytest.mark.parametrize("name", [None, 5, 1.5, ["h100"], b"h100", ("h100",), {"name": "h100"}])
@pytest.mark.parametrize("load", [rl.load_gpu, rl.load_model])
def test_what_is_not_even_a_text_is_no_name(load, name):
    with pytest.raises(rl.UnknownName):
        load(name)
