"""The arithmetic that people in the field do in their heads."""

import pytest
from conftest import close, faster

import roofline as rl
from roofline.physics.equation import Roof, Work, kernel_time
from roofline.serving.latency import e2el
from roofline.specs.formats import number_format

# Databricks is short for the MosaicML team's "LLM Inference Performance Engineering: Best Practices" of October 2023,
# https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices
_WORDS_PER_TOKEN = 0.75  # the usual rule for English text, which the page's 450 words imply


def at_figure(figure, value, **options):
    """Prediction on a machine whose every rate is multiplied until a time has the value wanted."""
    gpu = rl.load_gpu("h100-sxm")
    first = rl.predict("llama-3.1-8b", gpu, basis="ideal", **options)
    return rl.predict("llama-3.1-8b", faster(gpu, getattr(first, figure) / value), basis="ideal", **options)


def test_seven_billion_fp16_weights_in_14_ms_move_a_terabyte_a_second():
    # Databricks, section on model bandwidth utilization: 7B at 16 bits, TPOT 14 ms: 14 GB in 14 ms is 1 TB/s.
    weights = Work(weight_bytes=7e9 * number_format("fp16").nbytes)
    assert close(kernel_time(weights, Roof.ideal(peak=1e15, bandwidth=1e12)).total, 0.014)


def test_half_the_bandwidth_used_is_an_mbu_of_50_percent():
    # The same section: if the peak is 2 TB/s, an achieved 1 TB/s is an MBU of 50 %.
    weights = Work(weight_bytes=7e9 * number_format("fp16").nbytes)
    assert close(kernel_time(weights, Roof.ideal(peak=1e15, bandwidth=2e12)).total / 0.014, 0.5)


def test_100_ms_a_token_are_10_tokens_a_second_or_about_450_words_a_minute():
    # Databricks, definition of TPOT.
    found = at_figure("tpot", 0.1)
    assert close(found.tpot, 0.1)
    assert close(found.tok_s_user, 10.0)
    assert close(found.tok_s_user * 60.0 * _WORDS_PER_TOKEN, 450.0)


def test_488_tokens_a_second_over_64_users_are_7_6_each():
    # How reports of a total are read: 488 / 64 = 7.625.
    found = at_figure("e2el", 64 * 128 / 488.0, batch=64, osl=128, isl=128)
    assert close(found.output_tok_s, 488.0)
    assert abs(found.output_tok_s / found.workload.batch - 7.6) < 0.05


def test_250_ms_and_300_tokens_of_20_ms_take_about_six_seconds():
    # Databricks: latency is TTFT + TPOT x tokens; here the first token is in TTFT, which is 0.3 % less.
    assert abs(e2el(0.25, 0.02, 300.0) - 6.0) < 0.3
    assert close(e2el(0.25, 0.02, 300.0), 0.25 + 299 * 0.02)


@pytest.mark.parametrize("gpu", ["h100-sxm", "h200-sxm", "b200", "a100-sxm-80gb"])
def test_a_single_sequence_of_llama_8b_decodes_at_bytes_over_bandwidth(gpu):
    found = rl.predict("llama-3.1-8b", gpu, isl=1024, osl=2, batch=1, basis="ideal")
    weights = 2.0 * (8_030_261_248 - 128256 * 4096)  # all but the embedding, of which one row is read
    cache = 131072.0 * (1025 + 1)  # 1025 tokens read, one written
    # Activations and logits come on top: within a part in a thousand.
    assert close(found.tpot, (weights + cache) / found.deployment.gpu.bandwidth, 1e-3)
    assert found.bound["decode"] == "memory"


def test_prefill_takes_two_flops_a_weight_and_token_at_the_peak():
    # Kaplan et al., arXiv 2001.08361, section 2.1: 2N FLOP a token without attention over the context.
    found = rl.predict("llama-3.1-70b", "h100-sxm", isl=2048, tp=1, basis="ideal", allow_oversize=True)
    matrices = 70_553_706_496 - 2 * 128256 * 8192
    estimate = 2.0 * matrices * 2048 / 989.4e12
    # Attention adds 2 x 2 x 64 x 128 x 80 x 1024 FLOP a token, 2 %; norms and activations 3 %.
    assert 1.0 < found.ttft / estimate < 1.1
    assert found.bound["prefill"] == "compute"


def test_twice_the_prompt_takes_twice_the_first_token_time_and_somewhat_more():
    short, long = (rl.ttft("llama-3.1-8b", "h100-sxm", isl=isl, basis="ideal") for isl in (4096, 8192))
    assert 2.0 < long / short < 2.5
