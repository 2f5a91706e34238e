"""`roofline disaggregate`: one screen that says what the first token is made of and what one pool would do."""

import pytest
from asking import ask, strict_json

CASE = (
    "disaggregate", "-m", "llama-3.3-70b", "-q", "fp8", "--prefill", "b200:tp2x2", "--decode", "h200:tp4x3",
    "--isl", "4k", "--osl", "400", "--request-rate", "5",
)  # fmt: skip

ANSWERS = (
    "TTFT = ", "prompts of others", "busy: prefill", "rdma at 50 GB/s per GPU", "SLO fail?", "two pools",
    "SLO: TTFT p99 835 ms > 800 ms, mean TPOT 11.5 ms <= 20 ms",
    "one pool, b200:tp2", "prefill replicas per decode replica", "within the SLO two pools answer",
)  # fmt: skip


def test_the_first_screen_answers():
    done = ask(*CASE, "--slo", "ttft:800@p99,tpot:20", "--max-gpus", "32")
    lines = done.stdout.rstrip("\n").split("\n")
    assert max(map(len, lines)) <= 80
    assert len(lines) < 24
    text = " ".join(lines)
    for said in ANSWERS:
        assert said in text, said


def test_the_row_is_that_of_the_api():
    rows = strict_json(ask(*CASE, "--kv-link", "25 GB/s", "--layerwise", "--format", "json").stdout)["rows"]
    assert rows[0]["kv_link_gb_s"] == 25.0
    assert rows[0]["layerwise"] is True
    assert rows[0]["decode_pool"] == "h200-sxm:tp4:fp8x3"
    plain = strict_json(ask(*CASE, "--kv-link", "25 GB/s", "--format", "json").stdout)["rows"][0]
    assert rows[0]["transfer_ms"] == pytest.approx(plain["transfer_ms"] / 80)  # layers


@pytest.mark.parametrize("words, code, said", [
    (("--decode", "h200:tp4x0"), 1, "decode pool: 'h200:tp4x0' has no GPUs"),
    (("--kv-link", "string"), 1, "neither nvlink, rdma, pcie nor a bandwidth"),
    (("--request-rate", "500"), 1, "the prefill pool answers at most"),
    (("--prefill", "l40s:tp1"), 1, "prefill pool: llama-3.3-70b does not fit"),
])  # fmt: skip
def test_what_cannot_be_is_one_message(words, code, said):
    done = ask(*CASE, *words)
    assert done.exit_code == code
    assert said in " ".join(done.output.split())
