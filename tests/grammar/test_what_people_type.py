"""Values and names as people write them: what each is read as, and what is said about a mistake."""

import json

import pytest
from conftest import close
from every_case import each

import roofline as rl
from roofline.catalog.find import find_gpu, find_model
from roofline.measurements.results import results
from roofline.questions.check import check_readings
from roofline.questions.inputs.arguments import all_values, plain_value, slo_limits
from roofline.questions.inputs.deployment import pool_of
from roofline.specs.names import Entry, label_of, match_words, nearest_names
from roofline.specs.workload import limits_of_text, limits_text
from roofline.specs.written import bare_count, pool_text, price_of_text, rate_of_text, rates_of_text


def test_a_rate_has_a_period_or_is_per_second_and_comes_in_lists():
    for text, per_second in [
        ("4", 4.0),
        ("0.5", 0.5),
        ("1k", 1000.0),
        ("1k/s", 1000.0),
        ("30/s", 30.0),
        ("30 / s", 30.0),
        ("30 requests/s", 30.0),
        ("30 req/sec", 30.0),
        ("30rps", 30.0),
        ("120 QPM", 2.0),
        ("1800/min", 30.0),
        ("7200 per hour", 2.0),
        ("36k/h", 10.0),
        (".5/s", 0.5),
        ("1.728m/day", 20.0),
        ("26.28M/month", 10.0),
        ("31.536m/year", 1.0),
    ]:
        assert close(rate_of_text(text), per_second)
        assert close(plain_value("request_rate", text), per_second)
        assert close(all_values("request_rate", text)[0], per_second)
    for text, rates in [
        ("2,4", [2.0, 4.0]), ("1:8:x2", [1.0, 2.0, 4.0, 8.0]), ("1/s,120/min", [1.0, 2.0]), ("0.5, 3.6k/h", [0.5, 1.0]),
        ("250:1k:x2", [250.0, 500.0, 1000.0]), ("60/min:3/s", [1.0, 2.0, 3.0]),
    ]:  # fmt: skip
        assert rates_of_text(text) == rates


def test_a_rent_has_a_period_or_is_by_the_hour():
    for text, price in [
        ("2.5", 2.5), ("$2.5/h", 2.5), ("2.5 USD/h", 2.5), ("2.5$/gpu/h", 2.5), ("2.5 usd per gpu-hour", 2.5),
        ("36/day", 1.5), ("$1460/month", 2.0), ("1.46k/mo", 2.0), ("17.52k/year", 2.0), ("0.001/s", 3.6),
        ("2-4", (2.0, 4.0)), ("$2-$4/h", (2.0, 4.0)), ("24 to 48 per day", (1.0, 2.0)), ("730-1460/month", (1.0, 2.0)),
        ("1.46k-2.92k/month", (2.0, 4.0)),
    ]:  # fmt: skip
        ends = (price, price) if isinstance(price, float) else price
        found = price_of_text(text)
        assert isinstance(found, float) == isinstance(price, float)
        for one, other in zip((found, found) if isinstance(found, float) else found, ends, strict=True):
            assert close(one, other)
    by_month, by_hour = (
        rl.predict("llama-3.1-8b", "h100", isl=100, osl=10, gpu_price=price) for price in ("1460/month", 2)
    )
    assert close(by_month.deployment.gpu.price.typical, by_hour.deployment.gpu.price.typical)


def test_tokens_per_second_of_a_user_limit_its_tpot():
    for text, limits in [
        ("tps:50", {"tpot": 0.02}), ("tok/s:50", {"tpot": 0.02}), ("tok_s:50", {"tpot": 0.02}),
        ("tokens/s:50", {"tpot": 0.02}), ("TPS:50 tok/s", {"tpot": 0.02}), ("tok/s/user:50/s", {"tpot": 0.02}),
        ("tps:50@p95", {"tpot_p95": 0.02}), ("tps@p95:50", {"tpot_p95": 0.02}), ("tps_p95:50", {"tpot_p95": 0.02}),
        ("tps:50@mean", {"tpot": 0.02}), ("ttft:300 tok/s:50 e2el:8s", {"ttft": 0.3, "tpot": 0.02, "e2el": 8.0}),
    ]:  # fmt: skip
        found = limits_of_text(text)
        assert found.keys() == limits.keys()
        assert all(close(found[key], limit) for key, limit in limits.items())
        assert limits_of_text(limits_text(found)) == found
    for slo in [{"tps": 50}, {"tps": "50"}, {"tok/s": "50/s"}, {"tps": 50.0}]:
        assert slo_limits(slo) == {"tpot": 0.02}
        assert slo_limits({"tps_p95": 50, "ttft": 0.3}) == {"tpot_p95": 0.02, "ttft": 0.3}
        assert slo_limits({"tps": "50@p95"}) == {"tpot_p95": 0.02}


@each(
    ("printed", "name"),
    [  # by InferenceX
        ("dsr1", "deepseek-r1"), ("DeepSeek R1 0528", "deepseek-r1"), ("dsv4", "deepseek-v4-pro"),
        ("gptoss", "gpt-oss-120b"), ("gptoss120b", "gpt-oss-120b"), ("kimik2.5", "kimi-k2.5"),
        ("kimik2.6", "kimi-k2.5"),
        ("kimik3", "kimi-k3"), ("minimaxm2.5", "minimax-m2.5"), ("minimaxm2.7", "minimax-m2.7"),
        ("minimaxm3", "minimax-m3"),
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2.5"),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", "qwen3-235b-a22b-thinking-2507"),
        # by MLPerf Inference
        ("llama2-70b-99.9", "llama-2-70b"), ("llama3.1-405b", "llama-3.1-405b"), ("llama3.1-8b-edge", "llama-3.1-8b"),
        ("gptj-99", "gpt-j-6b"), ("deepseek-r1", "deepseek-r1"), ("gpt-oss-120b", "gpt-oss-120b"),
        ("qwen3-vl-235b-a22b", "qwen3-vl-235b-a22b"), ("mixtral-8x7b", "mixtral-8x7b"),
    ],
)  # fmt: skip
def test_a_model_is_found_as_benchmark_tables_print_it(printed, name):
    assert rl.load_model(printed).short_name == name


def test_a_gpu_is_read_as_tools_and_price_lists_print_it():
    for label, name in [
        ("H100 SXM5 80GB", "h100-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA_H100_80GB_HBM3", "h100-sxm"),
        ("H100 (80 GB SXM5)", "h100-sxm"), ("NVIDIA H100 Tensor Core GPU", "h100-sxm"),
        ("NVIDIA H100 80GB HBM2e", "h100-pcie"), ("NVIDIA H100 PCIe", "h100-pcie"), ("H100 NVL 94GB HBM3", "h100-nvl"),
        ("NVIDIA H200 141GB", "h200-sxm"), ("H200 141 GB HBM3e", "h200-sxm"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"), ("A100 (40 GB PCIe)", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"), ("B200 192GB", "b200"), ("B200 180GB HBM3e", "b200"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"), ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("RTX 4090 24GB", "rtx-4090"), ("RTX A6000 48GB GDDR6", "rtx-a6000"),
        ("AMD Instinct MI300X OAM", "mi300x"), ("AMD_Instinct_MI300X_OAM", "mi300x"), ("MI325X OAM 256GB", "mi325x"),
        ("Tesla T4 16GB", "t4"), ("RTX 6000 Ada 48GB", "rtx-6000-ada"), ("H20 141GB", "h20-3e"),
    ]:  # fmt: skip
        assert rl.load_gpu(label).name == name
    for label in ["H100 40GB", "RTX 6000 96GB", "L40S 24GB", "H20 80GB", "A100 80GB HBM3", "80GB", "gpu 4"]:
        with pytest.raises(rl.UnknownName):
            rl.load_gpu(label)
    assert label_of("h100-sxm") is None
    assert label_of("GPU") is None


def test_a_count_before_a_gpu_needs_no_x():
    for text, pool in [
        ("8h100", "8xh100"), ("8 h100", "8xh100"), ("8H100:tp4", "8xH100:tp4"),
        ("4 NVIDIA H100 80GB HBM3", "4xNVIDIA H100 80GB HBM3"), ("2mi300x:fp8", "2xmi300x:fp8"), ("8x4090", "8x4090"),
    ]:  # fmt: skip
        assert pool_text(pool_of(text)) == pool
    for text in ["4090", "3090ti", "910c", "910d", "h100"]:
        assert pool_of(text) is None
        assert bare_count("8xh100") is None


@each(
    ("typed", "name", "note"),
    [
        ("qwen3-235b", "qwen3-235b-a22b", "qwen3-235b-a22b-fp8, qwen3-235b-a22b-nvfp4, qwen3-235b-a22b-thinking-2507"),
        ("llama3.3", "llama-3.3-70b", "also in the catalog: llama-3.3-nemotron-super-49b"),
        ("llama-3.3", "llama-3.3-70b", "also in the catalog: llama-3.3-nemotron-super-49b"),
        ("llama-70b", "llama-3.3-70b", "also in the catalog: llama-2-70b, llama-3-70b, llama-3.1-70b and 2 more"),
        ("Llama 70B", "llama-3.3-70b", "also in the catalog: llama-2-70b, llama-3-70b, llama-3.1-70b and 2 more"),
        ("llama-8b", "llama-3.1-8b", "also in the catalog: llama-3-8b"),
        ("qwen3:32b", "qwen3-32b", "also in the catalog: qwen3-32b-fp8, qwen3-vl-32b"),
        ("llama3.1:8b", "llama-3.1-8b", "the only model with these words"),
        ("qwen-72b", "qwen2.5-72b", "the only model with these words"),
        ("llama3.1:70b-instruct-q4_K_M", "llama-3.1-70b-instruct", "-q chooses another format"),
        ("qwen3-235b-awq", "qwen3-235b-a22b", "-q chooses another format"),
    ],
)
def test_a_model_is_read_by_some_words_of_its_name(typed, name, note):
    record, said = find_model(typed)
    assert record.short_name == name
    assert said.startswith(f"{typed} is read as {name}")
    assert said.endswith(note)


def test_of_several_models_the_obvious_one_is_meant_or_none():
    for asked, names, meant in [
        ("big-7b", ("org/big-1-7b", "org/big-1.10-7b", "org/big-1.9-7b"), "big-1.10-7b"),  # versions are no decimals
        ("big2", ("org/big-2-7b", "other/big-2-nano-3b"), "big-2-7b"),
        ("big-7b", ("org/big-2-7b", "org/big-3-vl-7b"), "big-2-7b"),  # a picture model is no newer version
        ("big2", ("org/big-2-7b", "org/big-2-7b-instruct-fp8", "org/big-2-7b-chat"), "big-2-7b"),
    ]:
        assert match_words(asked, [Entry(name, (name,)) for name in names]).entry.short == meant
    for asked, names in [
        ("big2", ("org/big-2-7b", "org/big-2-70b")),  # two sizes
        ("big", ("org/big-2-7b", "org/big-3-7b")),  # one word
        ("the-7b", ("org/big-7b",)),  # another first word
        ("org/big-7b", ("org/big-2-7b",)),  # an id names its model in full
    ]:
        try:
            assert match_words(asked, [Entry(name, (name,)) for name in names]) is None
        except rl.UnknownName as error:
            assert "is ambiguous" in str(error)
    entries = [Entry("", (f"llama-{rest}",)) for rest in ("2-7b", "2-13b", "2-70b", "3-70b", "3-70b-fp8", "3-8b")]
    assert set(nearest_names("llama-72b", entries)[:2]) == {"llama-2-70b", "llama-3-70b"}
    assert nearest_names("lama-9b", entries)[0] == "llama-3-8b"


RUN = {
    "model_id": "llama-3.1-8b", "mean_ttft_ms": 80, "mean_tpot_ms": 8, "max_concurrency": 4, "num_prompts": 100,
    "total_input_tokens": 100000, "total_output_tokens": 20000, "completed": 100, "duration": 30,
}  # fmt: skip


@each(
    ("pool", "plain"),
    [
        ("h100:tp1", {"gpu": "h100", "tp": 1}),
        ("h100:tp4:fp8", {"gpu": "h100", "tp": 4, "quantization": "fp8"}),
        ("8h100:tp4", {"gpu": "8xh100", "tp": 4}),
        ("h100:tp2x2", {"gpu": "4xh100", "tp": 2}),
    ],
)
def test_a_measurement_may_name_a_pool(pool, plain):
    readings = [results(json.dumps(RUN).encode(), "run.json")]
    of_file = [results(json.dumps({**RUN, "gpu": pool}).encode(), "run.json")]
    ((found,), _), ((expected,), _) = (check_readings(readings, stated) for stated in ({"gpu": pool}, plain))
    ((in_file,), _) = check_readings(of_file, {})
    for run in (found, in_file):
        assert run.expected.deployment == expected.expected.deployment
        assert close(run.expected.ttft, expected.expected.ttft)


def case(**options):
    return rl.predict("llama-3.1-8b", "h100", isl=1000, osl=100, concurrency=4, **options)


def option(name):
    return lambda value: case(**{name: value})


ALL_MODELS = " (all: roofline models; yours: specs = DIR), or give the path of a Hugging Face config.json"
ALL_GPUS = " (all: roofline gpus; yours: specs = DIR)"
POOLS = "write 8xh100, b200:tp4 or b200:tp4:fp8x2 (GPU, plan, format, replicas)"
SPEEDS = "write tps:30 or tok/s:30@p95, or tpot:33ms for the time per token"
OF_ONE_USER = f"must be between 0.1 and 10,000 tokens per second of one user, not of the deployment; {SPEEDS}"
RATES = "is not a rate such as 4, 30/s, 1800/min or 100k/h"
RENTS = "2.5/h, 2-4/h, 36/day or 1500/month"
PRICES = f"is not a price in USD such as {RENTS} (bare numbers: per hour)"

MISTAKES = [
    # models
    (find_model, "lama-70b",
     f"unknown model 'lama-70b'; did you mean llama-2-70b, llama-3-70b or llama-3.1-70b?{ALL_MODELS}"),
    (find_model, "llama-72b",
     f"unknown model 'llama-72b'; did you mean llama-2-70b, llama-3-70b or llama-3.1-70b?{ALL_MODELS}"),
    (find_model, "llama-3.1-7b",
     f"unknown model 'llama-3.1-7b'; did you mean llama-3.1-8b, llama-3.1-70b or llama-3-8b?{ALL_MODELS}"),
    (find_model, "llama4", "model 'llama4' is ambiguous: llama-4-maverick, llama-4-scout; choose one"),
    (find_model, "gpt-oss", "model 'gpt-oss' is ambiguous: gpt-oss-20b, gpt-oss-120b; choose one"),
    (find_model, "mixtral", "model 'mixtral' is ambiguous: mixtral-8x7b, mixtral-8x22b; choose one"),
    # GPUs and pools
    (find_gpu, "h100 40gb",
     f"unknown GPU 'h100 40gb'; did you mean h100-nvl, h100-sxm or h100-pcie?{ALL_GPUS}"),
    (find_gpu, "h100x8", "unknown GPU 'h100x8'; write 8xh100 for 8 GPUs in all, or h100:x8 for 8 replicas"),
    (find_gpu, "a100-pcie4", "GPU 'a100-pcie4' is ambiguous: a100-pcie-40gb, a100-pcie-80gb; choose one"),
    (pool_of, "8h100:tp4x3", ("'8xh100:tp4x3' disagrees with itself: 8 GPUs are not 3 replicas of 4 GPUs; leave out "
     "the number in front, or the replicas")),
    (pool_of, "h100:8", ("'8' in 'h100:8' is neither a plan (tp4, tp4pp2), a number format (fp8) nor replicas (x2) (x8 "
     f"for 8 replicas, or 8x before the name for 8 GPUs in all); {POOLS}")),
    (pool_of, "0h100", f"0 in '0xh100' must be at least 1; {POOLS}"),
    (pool_of, "h100:tp4:tp2", "tp is stated twice in 'h100:tp4:tp2'; leave one out"),
    # limits
    (limits_of_text, "tps:30ms", f"'tps:30ms' is not in tokens per second; {SPEEDS}"),
    (limits_of_text, "tps:-30", f"'tps:-30' is not in tokens per second; {SPEEDS}"),
    (limits_of_text, "tps:", f"'tps:' is not in tokens per second; {SPEEDS}"),
    (limits_of_text, "tps:0", f"'tps:0' {OF_ONE_USER}"),
    (limits_of_text, "tps:0.03", f"'tps:0.03' {OF_ONE_USER}"),
    (limits_of_text, "tps:50000", f"'tps:50000' {OF_ONE_USER}"),
    (limits_of_text, "tps:30,tpot:25",
     "'tpot' is limited twice in 'tps:30,tpot:25'; keep one (tps and tok/s limit tpot)"),
    (limits_of_text, "tps:30@p955", "p955 is not a percentile; it must be between p0 and p100, such as p95"),
    (limits_of_text, "tps@p95:30@p99", "'tps@p95:30@p99' says twice what is limited; keep one of p95, p99"),
    (limits_of_text, "tpot:30tok/s", ("'tpot:30tok/s': '30tok/s' is not a time; write it as 300, 300ms or 0.3s; tokens "
     "per second are written tps:30")),
    (limits_of_text, "ttft:0.3", "'ttft:0.3' is 0.3 ms; write ttft:0.3s for seconds, or 0.3ms"),
    (option("slo"), {"tps": "30ms"}, f"SLO tps = '30ms' is not in tokens per second; {SPEEDS}"),
    (option("slo"), {"tps": True}, f"SLO tps = True is not in tokens per second; {SPEEDS}"),
    (option("slo"), {"tps": 0}, f"SLO tps = 0 {OF_ONE_USER}"),
    (option("slo"), {"tps": 30, "tpot": 0.025},
     "'tpot' is limited twice in {'tps': 30, 'tpot': 0.025}; keep one (tps and tok/s limit tpot)"),
    # rates
    (rate_of_text, "ten", f"'ten' {RATES}"),
    (rate_of_text, "30 tok/s", f"'30 tok/s' {RATES}"),
    (rate_of_text, "-3/s", f"'-3/s' {RATES}"),
    (rate_of_text, "1,800/min", f"'1,800/min' {RATES}; write 1800/min"),
    (rate_of_text, "1:4/s", f"'1:4/s' {RATES}; a single value is wanted, not a list or a range"),
    (rate_of_text, "5/m", "'5/m': 'm' is not a period: min or month?; write it as 30/s, 1800/min or 100k/h"),
    (rate_of_text, "5/fortnight", "'5/fortnight': 'fortnight' is not a period; write it as 30/s, 1800/min or 100k/h"),
    (rates_of_text, "30/s,x", f"'x' {RATES}, nor a range such as 0.5:8:x2 (in '30/s,x')"),
    (option("measured"), "ttft=300,rate=5/m",
     "measured = rate = '5/m': 'm' is not a period: min or month?; write it as 30/s, 1800/min or 100k/h"),
    # prices
    (price_of_text, "free", f"'free' {PRICES}"),
    (price_of_text, "\u20ac2/h", f"'\u20ac2/h' {PRICES}"),
    (price_of_text, "$1,500/month", f"'$1,500/month' {PRICES}; write $1500/month"),
    (price_of_text, "2k", "'2k' is thousands of USD per hour; add the period, as in 2k/month"),
    (price_of_text, "1-2k/month",
     "'1-2k/month' has a k at one end alone; write both ends alike, as in 1.2k-1.5k/month"),
    (price_of_text, "2.5/m", f"'2.5/m': 'm' is not a period: min or month?; write it as {RENTS}"),
    (option("gpu_price"), "2-4-6", f"gpu_price = '2-4-6' {PRICES}"),
    # shares
    (option("cache_hit"), 80, "cache_hit = 80 must be a number between 0 and 1; write 80% or 0.8"),
    (option("cache_hit"), 1.5, "cache_hit = 1.5 must be a number between 0 and 1"),
    (option("gpu_memory_utilization"), 90,
     "gpu_memory_utilization = 90 must be a share of the memory, such as 0.92; write 90% or 0.9"),
    (option("isl_cv"), 50, "isl_cv = 50 must be between 0 and 3 for lognormal lengths; write 50% or 0.5"),
    (option("osl_cv"), 300, "osl_cv = 300 must be between 0 and 3 for lognormal lengths"),
    (option("derate"), {"bandwidth": 5}, "derate bandwidth = 5 must be a number between 0 and 0.99; write 5% or 0.05"),
    (option("derate"), {"bandwidth": 100}, "derate bandwidth = 100 must be a number between 0 and 0.99"),
    (option("cold_start"), (5, 2), "the share of cold starts = 5 must be a number between 0 and 1; write 5% or 0.05"),
    (option("prefix"), "120%", "prefix = '120%' is not between 0% and 100% of the prompt"),
]  # fmt: skip


@each(("read", "typed", "message"), MISTAKES)
def test_a_mistake_is_answered_with_what_to_write(read, typed, message):
    with pytest.raises(rl.RooflineError) as caught:
        read(typed)
    assert str(caught.value) == message
    assert not any(option in message for option in ("--cache-hit", "--slo", "--request-rate", "--gpu-price"))


def test_there_are_mistakes_of_every_kind():
    assert len(MISTAKES) >= 40
