"""From a spelling to a record: case and separators fold, and what is unknown is answered with the nearest."""

import re

import pytest
from every_case import each
from hypothesis import example, given
from hypothesis import strategies as st

import roofline as rl
from roofline.catalog.find import find_gpu, find_model
from roofline.specs.names import Entry, fold, match_name


def test_case_separators_seams_and_the_vendor_do_not_matter():
    for spelling, name in [
        ("H100_SXM", "h100-sxm"), ("h100 sxm", "h100-sxm"), ("  H100-SXM ", "h100-sxm"), ("h100  sxm", "h100-sxm"),
        ("H100", "h100-sxm"), ("HGX_H100", "h100-sxm"), ("A100", "a100-sxm-80gb"), ("a100_80GB", "a100-sxm-80gb"),
        ("GB200 NVL72", "gb200-nvl72"), ("gb300", "gb300-nvl72"), ("L40S", "l40s"),
    ]:  # fmt: skip
        assert rl.load_gpu(spelling).name == name
    for spelling, name in [
        ("Meta-Llama-3.1-8B", "llama-3.1-8b"), ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"), ("META_LLAMA 3.1 8b instruct", "llama-3.1-8b"),
        ("llama 3.1 70B", "llama-3.1-70b"), ("DeepSeek_R1", "deepseek-r1"), ("DeepSeek-R1-0528", "deepseek-r1"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"), ("GPT OSS 120B", "gpt-oss-120b"),
        ("Qwen3-235B-A22B", "qwen3-235b-a22b"), ("Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("Llama-2-7b-chat-hf", "llama-2-7b"),
    ]:  # fmt: skip
        assert rl.load_model(spelling).short_name == name
    for load, spelling, name in [
        (rl.load_gpu, "h100sxm", "h100-sxm"), (rl.load_gpu, "NVIDIA H100 SXM", "h100-sxm"),
        (rl.load_gpu, "nvidia/h100-sxm", "h100-sxm"), (rl.load_gpu, "AMD MI300X", "mi300x"),
        (rl.load_gpu, "rtx4090", "rtx-4090"), (rl.load_model, "llama-3-1-8b", "meta-llama/Llama-3.1-8B"),
        (rl.load_model, "llama3.1-8b", "meta-llama/Llama-3.1-8B"),
        (rl.load_model, "meta-llama/Llama-3-1-8B", "meta-llama/Llama-3.1-8B"),
    ]:  # fmt: skip
        assert load(spelling).name == name


def test_the_beginning_of_a_name_is_said_in_a_prediction_too_and_of_a_number_is_none():
    for find, typed, note in [
        (find_gpu, "h100-sxm", None), (find_gpu, "H100_SXM", None), (find_gpu, "h100sxm", None),
        (find_gpu, "nvidia h100-sxm", None), (find_gpu, "H100", None), (find_gpu, "H100-SXM-80GB", None),
        (find_gpu, "h100-sx", "h100-sx is read as h100-sxm: the only GPU with this prefix"),
        (find_gpu, "mi300", "mi300 is read as mi300x: the only GPU with this prefix"),
        (find_model, "llama-3.1-8b", None), (find_model, "Llama 3.1 8B", None), (find_model, "llama-3-1-8b", None),
        (find_model, "meta-llama/Llama-3.1-8B", None), (find_model, "Meta-Llama-3.1-8B", None),
        (find_model, "meta-llama/Llama-3.1-8B-Instruct", None),
        (find_model, "qwen3-0.6", "qwen3-0.6 is read as qwen3-0.6b: the only model with this prefix"),
    ]:  # fmt: skip
        assert find(typed).note == note
    for name, asked in [
        ("b200", "b20"), ("h100-sxm", "h10"), ("kimi-k2.5", "kimi-k2"), ("kimi-k2-5", "kimi-k2"),
        ("llama-70b", "llama-7"),
    ]:  # fmt: skip
        assert match_name(asked, [Entry("file.yaml", (name,))], "gpu") is None
    for asked in ["", " ", "m", "mi", "meta-llama/", "meta-llama/Llama-3.1-8", "/", "-"]:
        entries = [Entry("a.yaml", ("mi300x",)), Entry("b.yaml", ("meta-llama/llama-3.1-8b", "llama-3.1-8b"))]
        assert match_name(asked, entries, "gpu") is None
    said = rl.predict("Meta-Llama-3.1-8B", "h100-sx", isl=100, osl=10).warnings
    assert said[0].startswith("h100-sx is read as h100-sxm")
    for gpu in ("h100_sxm", "H100"):
        texts = rl.predict("Meta-Llama-3.1-8B", gpu, isl=100, osl=10).warnings
        assert not any("is read as" in text for text in texts)


def test_what_fits_several_entries_is_refused_with_all_of_them():
    for names, asked, candidates in [
        (["mi300x", "mi300a"], "mi300", "mi300a, mi300x"),
        (["org/big-70b", "org/big-8b"], "big", "big-8b, big-70b"),
        (["a-1.5", "a-1-5"], "a1-5", "a-1-5, a-1.5"),
    ]:
        entries = [Entry(f"{name}.yaml", (name,)) for name in names]
        with pytest.raises(rl.UnknownName, match=f"{asked}' is ambiguous: {candidates}; choose one"):
            match_name(asked, entries, "gpu")
    with pytest.raises(rl.UnknownName, match="'mixtral' is ambiguous: mixtral-8x7b, mixtral-8x22b"):
        rl.load_model("mixtral")


@given(data=st.data())
def test_any_spelling_that_folds_to_a_name_loads_it(data):
    name = data.draw(st.sampled_from(rl.gpus()))
    letters = [data.draw(st.sampled_from((" ", "_", "-", "__", " - "))) if letter == "-" else letter for letter in name]
    cased = [letter.upper() if data.draw(st.booleans()) else letter for letter in letters]
    assert rl.load_gpu("".join(cased)).name == name


@given(name=st.text(max_size=20))
def test_folding_twice_is_folding_once(name):
    assert fold(fold(name)) == fold(name)


@each(
    ("load", "asked", "near"),
    [
        (rl.load_gpu, "h1000", "h100-sxm"), (rl.load_gpu, "b20", "b200"),
        (rl.load_gpu, "a100-sxm-60gb", "a100-sxm-80gb"), (rl.load_gpu, "l40x", "l40s"),
        (rl.load_model, "llama-3.1-80b", "llama-3.1-8b"), (rl.load_model, "llama-3.1-7b", "llama-3.1-70b"),
        (rl.load_model, "meta-llama/Llama-3.1-71B", "llama-3.1-70b"), (rl.load_model, "deepseek-v33", "deepseek-v3"),
        (rl.load_model, "gpt-oss-21b", "gpt-oss-20b"),
    ],
)  # fmt: skip
def test_an_unknown_name_is_answered_with_the_three_nearest(load, asked, near):
    with pytest.raises(rl.UnknownName) as caught:
        load(asked)
    message = str(caught.value)
    nearest = re.search(
        r"did you mean ([^,]+), ([^,]+) or (.+)\? \(all: roofline (gpus|models); yours: specs = DIR\)", message
    )
    assert repr(asked) in message
    assert nearest
    known = rl.gpus() if load is rl.load_gpu else rl.models()
    assert len(set(nearest.groups()[:3])) == 3
    assert set(nearest.groups()[:3]) <= set(known)
    assert near in nearest.groups()[:3]


@given(name=st.text(max_size=30))
@example(name="")
@example(name=" \n")
def test_any_text_is_a_name_or_an_unknown_name(name):
    for load in (rl.load_gpu, rl.load_model):
        try:
            record = load(name)
        except rl.UnknownName as error:
            assert (repr(name) if name.strip() else " is empty; all: roofline ") in str(error)
        else:
            spelt = re.sub(r"[^a-z0-9]", "", name.lower())
            known = [re.sub(r"[^a-z0-9/]", "", alias.lower()) for alias in (record.name, *record.aliases)]
            assert any(spelt in alias.rpartition("/")[2] or spelt == alias.replace("/", "") for alias in known)


@each("name", [None, 5, 1.5, ["h100"], b"h100", ("h100",), {"name": "h100"}])
@each("load", [rl.load_gpu, rl.load_model])
def test_what_is_not_even_a_text_is_no_name_and_folding_twice_is_folding_once(load, name):
    with pytest.raises(rl.UnknownName):
        load(name)
