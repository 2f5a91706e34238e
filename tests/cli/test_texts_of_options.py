"""A value is written in one way: the shell and Python read the same texts as the same values."""

import pytest
from asking import row, rows
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.questions.inputs.arguments import all_values, listed_names, plain_options, plain_value
from roofline.specs.written import PromptShare

CASE = ("llama-3.1-8b", "h100-sxm")


# text of an option -> what it stands for in Python
ALIKE = [
    ("isl", "4k", 4096),
    ("isl", "32K", 32768),
    ("isl", "1.5k", 1536),
    ("osl", "500", 500),
    ("batch", "16", 16),
    ("prefix", "1k", 1024),
    ("concurrency", "12.5", 12.5),
    ("concurrency", "1k", 1024),
    ("request_rate", "2.5", 2.5),
    ("tp", "2", 2),
    ("num_gpus", "4", 4),
    ("network", "20ms", 0.02),
    ("network", "0.02s", 0.02),
    ("gpu_memory_utilization", "80%", 0.8),
    ("gpu_memory_utilization", "0.8", 0.8),
    ("max_num_seqs", "64", 64),
    ("max_num_batched_tokens", "8k", 8192),
    ("max_model_len", "128k", 131072),
    ("quantization", "w8a8-fp8", "fp8"),
    ("kv_cache_dtype", "fp8_e4m3", "fp8"),
    ("slo", "ttft:300@p95,tpot:25ms", {"ttft_p95": 0.3, "tpot": 0.025}),
    ("cold_start", "1%:2s", (0.01, 2.0)),
    ("derate", "bandwidth:5%", {"bandwidth": 0.05}),
    ("measured", "tpot=14.2,batch=1", {"tpot": 0.0142, "batch": 1}),
    ("isl_cv", "30%", 0.3),
]
LOADED = ("slo", "cold_start", "isl_cv")


def alike(first, second):
    """The same, but for the last digits of a sum."""
    return first == (pytest.approx(second, rel=1e-12) if isinstance(second, float) else second)


@each(("name", "text", "value"), ALIKE)
def test_shell_and_python_read_a_text_as_the_same_value(name, text, value):
    load = {"concurrency": 4} if name in LOADED else {}
    words = ["-c", "4"] if load else []
    expected = rl.predict(*CASE, **load, **{name: value}).to_dict()
    said = ("warnings",) if name in ("quantization", "measured") else ()
    for found in (
        rl.predict(*CASE, **load, **{name: text}).to_dict(),
        row("predict", "-m", CASE[0], "-g", CASE[1], *words, f"--{name.replace('_', '-')}", text),
    ):
        differing = {key for key, value in expected.items() if not alike(found[key], value) and key not in said}
        assert differing == set()


@each("name, text, values", [
    ("isl", "1k,4k", [1024, 4096]),
    ("batch", "1:16:x4", [1, 4, 16]),
    ("concurrency", "2:6:2", [2, 4, 6]),
    ("request_rate", "0.5:2:x2", [0.5, 1.0, 2.0]),
    ("prefix", "0,50%", [0, 512]),
    ("tp", "1,2", [1, 2]),
    ("quantization", "bf16, awq", ["bf16", "int4"]),
])  # fmt: skip
def test_lists_are_the_same_in_a_sweep_and_in_a_table(name, text, values):
    expected = rl.table(*CASE, **{name: values})
    for found in (
        rl.table(*CASE, **{name: text}),
        rl.table(*CASE, **{name: text.split(",")}) if ":" not in text else expected,
        rows("sweep", "-m", CASE[0], "-g", CASE[1], f"--{name.replace('_', '-')}", text),
    ):
        assert len(found) == len(expected)
        for line, other in zip(found, expected, strict=True):  # to rounding: a program may compute what formulas did
            assert {key for key, value in other.items() if not alike(line[key], value) and key != "warnings"} == set()


def test_a_share_of_the_prompt_follows_every_prompt():
    found = rl.table(*CASE, isl="1k,3k", prefix="50%", keys=["isl", "prefix"])
    assert [(line["isl"], line["prefix"]) for line in found] == [(1024, 512), (3072, 1536)]
    arrays = rl.predict(*CASE, isl=[1000, 2000], prefix="80%").workload.prefix
    assert arrays.tolist() == [800.0, 1600.0]
    columns = {"isl": [1000, 3000], "osl": [10, 30]}
    assert rl.predict(*CASE, lengths=columns, prefix="50%", concurrency=4).workload.prefix == 1000.0
    refused = rl.table(*CASE, tp=1, isl="1k", prefix="50%", batch="1000k", keys=["prefix"])
    assert refused[0]["prefix"] == 512


def test_targets_shares_and_counts_of_other_questions_are_texts_too():
    assert rl.solve(*CASE, "batch", tpot="30ms").value == rl.solve(*CASE, "batch", tpot=0.03).value
    one, other = (rl.goodput(*CASE, slo="ttft:500,tpot:50", share=share)[0] for share in ("95%", 0.95))
    assert one.rate == other.rate
    assert rl.curve(*CASE, isl="1k", prefix="50%").rows == rl.curve(*CASE, isl=1024, prefix=512).rows
    assert str(rl.size(*CASE, slo="tpot:50", isl="2k", concurrency="8")) == str(
        rl.size(*CASE, slo="tpot:50", isl=2048, concurrency=8)
    )
    text, mapping = (rl.calibrate_once(*CASE, m) for m in ("tpot=9ms,isl=1k", {"tpot": "9 ms", "isl": "1k"}))
    assert text == mapping
    gpus = "h100, b200"
    assert str(rl.compare(CASE[0], gpus, isl="1k")) == str(rl.compare(CASE[0], ["h100", "b200"], isl=1024))


@each("options, said", [
    ({"isl": "4k tokens"}, "isl = '4k tokens' is not a whole number such as 4096, 4k or 32K"),
    ({"isl": "1k,4k"}, "a single value is wanted"),
    ({"batch": "1:8:x2"}, "a single value is wanted"),
    ({"prefix": "most"}, "prefix = 'most' is neither tokens"),
    ({"network": "20"}, "network = '20' has no unit; write 20ms or 20s"),
    ({"gpu_memory_utilization": "most"}, "gpu_memory_utilization = 'most' is not a share such as 80%"),
    ({"tp": "two"}, "tp = 'two' is not a whole number"),
    ({"concurrency": "many"}, "concurrency = 'many' is not a number such as 64"),
    ({"concurrency": 4, "isl_cv": "wide"}, "isl_cv = 'wide' is not a share"),
    ({"measured": "tpot:12"}, "measured = 'tpot:12' is not key=value"),
    ({"measured": {"tpot": "12"}}, "tpot = '12' has no unit"),
    ({"cold_start": "1%:soon", "concurrency": 4}, "'soon' is not a time such as 300ms"),
    ({"slo": {"ttft": "300"}}, "must be a time in seconds, such as 0.3 or '300 ms'"),
])  # fmt: skip
def test_a_text_that_is_none_is_refused_under_the_name_of_its_option(options, said):
    with pytest.raises(rl.BadInput) as caught:
        rl.predict(*CASE, **options)
    assert said in str(caught.value)


def test_a_comma_separates_names_and_a_path_stays_whole(tmp_path):
    path = tmp_path / "a,b.yaml"
    path.write_text("name: x")
    assert listed_names("gpus", [f"{path}", "h100:tp4, b200"]) == [str(path), "h100:tp4", "b200"]
    with pytest.raises(rl.BadInput, match="empty name"):
        listed_names("gpus", "h100,,b200")


@given(st.sampled_from(["isl", "tp", "share", "network", "prefix", "concurrency"]), st.integers(1, 10**6))
def test_a_number_stays_the_number_that_it_is(name, number):
    assert plain_value(name, number) == number
    assert all_values(name, [number, number]) == [number, number]


def test_options_of_words_stay_words():
    options = {"engine": "vllm", "quantization": "awq", "lengths": "uniform", "routing": "0.5", "isl": "2k"}
    assert plain_options(options) == {**options, "isl": 2048}
    assert plain_options({"isl": 1000, "prefix": "80%"})["prefix"] == 800.0
    assert plain_options({"prefix": "80%"})["prefix"] == PromptShare(0.8)
