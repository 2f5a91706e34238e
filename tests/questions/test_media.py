"""Images, video and audio of a request: tokens, times, memory, load, pools, and what refuses them."""

import pathlib

import pytest
from every_case import each

import roofline as rl

CASE = {"model": "qwen3-vl-8b", "gpu": "h100-sxm", "isl": 1000, "osl": 100}


def asked(**options):
    return rl.predict(**{**CASE, **options})


def test_nothing_else_than_text_is_as_without_the_option_to_the_bit():
    plain = asked()
    for nothing in ({"images": 0}, {"video_frames": 0}, {"audio": 0}, {"images": 0, "image_size": "64x64"}):
        other = asked(**nothing)
        assert other == plain
        assert other.to_dict() == plain.to_dict()
    assert plain.to_dict(["media", "media_tokens", "encoder_ms"]) == dict.fromkeys(
        ("media", "media_tokens", "encoder_ms")
    )


def test_images_lengthen_the_prompt_and_are_encoded_before_it():
    with_images, longer = asked(images=2), asked(isl=1000 + 2 * 1026)
    row = with_images.to_dict()
    assert (row["isl"], row["media"], row["media_tokens"]) == (1000, "2 images of 1024x1024", 2052)
    assert with_images.ttft == pytest.approx(longer.ttft + row["encoder_ms"] / 1e3, rel=1e-12)
    assert with_images.tpot == longer.tpot
    assert with_images.memory.kv_cache == longer.memory.kv_cache
    assert with_images.memory.weights - longer.memory.weights == 2 * 576_388_336
    assert with_images.memory.activations > longer.memory.activations
    assert sum(time for name, time in with_images.breakdown["prefill"].items() if name.startswith("vision")) == (
        pytest.approx(row["encoder_ms"] / 1e3, rel=1e-12)
    )


def test_more_or_larger_images_are_never_faster():
    for steps in (
        [{"images": count} for count in (1, 2, 4, 16)],
        [{"images": 1, "image_size": side} for side in (64, 256, 1000, 4000)],
        [{"video_frames": count} for count in (1, 2, 9, 64)],
    ):
        for metric in ("ttft", "tpot"):
            times = [getattr(asked(**step), metric) for step in steps]
            assert times == sorted(times)


def test_arrays_of_lengths_and_loads_have_the_figures_of_single_cases():
    for name, values in (("isl", [100, 1000, 9000]), ("request_rate", [0.5, 2.0])):
        together = asked(images=2, **{name: values})
        for place, value in enumerate(values):
            alone = asked(images=2, **{name: value})
            assert together.ttft[place] == pytest.approx(alone.ttft, rel=1e-12)
            assert together.tpot[place] == pytest.approx(alone.tpot, rel=1e-12)
    assert list(asked(images=2, isl=[100, 1000]).to_dict(["isl"])["isl"]) == [100.0, 1000.0]


def test_a_compiled_answer_is_that_of_the_formulas():
    first = [asked(images=2, isl=length, request_rate=1.0).ttft for length in (500, 1500)]
    for length in range(600, 1400, 10):
        asked(images=2, isl=length, request_rate=1.0)
    assert [asked(images=2, isl=length, request_rate=1.0).ttft for length in (500, 1500)] == first


def test_under_load_encoding_occupies_the_gpu_as_prompts_do():
    text, images = asked(isl=3052, request_rate=4), asked(images=2, request_rate=4)
    assert images.ttft > text.ttft + asked(images=2).to_dict(["encoder_ms"])["encoder_ms"] / 1e3
    assert images.tpot > text.tpot
    assert images.max_request_rate < text.max_request_rate
    simulated = rl.simulate(**CASE, images=2, request_rate=4, requests=1000)
    assert images.ttft == pytest.approx(simulated.ttft, rel=0.1)
    assert images.tpot == pytest.approx(simulated.tpot, rel=0.05)


def test_the_isl_that_meets_a_limit_is_text_beside_the_images():
    answer = rl.solve("qwen3-vl-8b", "h100-sxm", "isl", images=2, slo="ttft:200")
    assert asked(isl=answer.value, osl=128, images=2).ttft == pytest.approx(0.2, rel=1e-3)


def test_a_measurement_states_the_text():
    scaled = asked(images=2, measured={"ttft": 2 * asked(images=2, isl=500).ttft, "isl": 500})
    assert scaled.ttft == pytest.approx(2 * asked(images=2).ttft, rel=1e-12)


def test_dp_ranks_share_the_images_and_tp_ranks_the_tower():
    burst = asked(images=2, batch=4)
    encoding = [each.to_dict(["encoder_ms"])["encoder_ms"] for each in (burst, asked(images=2, batch=4, dp=2))]
    assert 1.7 < encoding[0] / encoding[1] < 2.0  # half of the requests, and starts of kernels
    sharded = asked(images=2, tp=2, basis="ideal").to_dict(["encoder_ms"])["encoder_ms"]
    assert sharded < asked(images=2, basis="ideal").to_dict(["encoder_ms"])["encoder_ms"]


REFUSED = [
    ({"model": "llama-3.1-8b", "images": 2}, "llama-3.1-8b takes no images: .* models that do: llama-4-scout"),
    ({"audio": "30s"}, "qwen3-vl-8b takes no audio"),
    ({"image_size": 448}, "give images or video_frames"),
    ({"images": 1, "image_size": "448x"}, "width x height"),
    ({"images": 1, "image_size": (448, 0)}, "width x height"),
    ({"images": -1}, "whole number from 0 to 10,000"),
    ({"images": 1.5}, "whole number"),
    ({"images": True}, "whole number"),
    ({"audio": "-3s"}, "audio = '-3s'"),
    (
        {"images": 1, "turns": 2, "grow": "in:10,out:10", "request_rate": 1, "isl": 1024, "osl": 128},
        "turns of sessions",
    ),
]


@each("options, reason", REFUSED)
def test_what_is_no_request_is_refused_with_the_reason(options, reason):
    with pytest.raises(rl.BadInput, match=reason):
        asked(**options)


def test_sizes_may_be_written_in_several_ways():
    tokens = {
        asked(images=1, image_size=size).to_dict(["media_tokens"])["media_tokens"]
        for size in ("448x448", "448 X 448", 448, "448", (448, 448), [448, 448])
    }
    assert tokens == {14 * 14 + 2}


def test_a_model_with_a_tower_says_that_images_are_left_out_and_with_them_what_they_add():
    assert any("images are left out unless asked" in note for note in asked().warnings)
    notes = asked(images=2, tp=2).warnings
    assert any("2,052 tokens of the prompt" in note for note in notes)
    assert any("mm-encoder-tp-mode" in note for note in notes)
    assert not any("left out unless asked" in note for note in rl.predict("llama-3.1-8b", "h100-sxm").warnings)


def test_a_configuration_with_a_tower_is_not_said_to_have_none_where_it_is_asked_for():
    model = str(pathlib.Path(__file__).parents[1] / "corpus" / "inputs" / "vision.json")
    said = "vision and audio encoders are left out"
    assert any(said in note for note in rl.predict(model, "h100-sxm").warnings)
    assert not any(said in note for note in rl.predict(model, "h100-sxm", images=1).warnings)


def test_the_prefill_pool_encodes_unless_there_is_one_for_it():
    load = {"isl": 1000, "osl": 100, "images": 2, "request_rate": 2}
    two = rl.disaggregate("qwen3-vl-8b", "h100", "h100", **load)
    three = rl.disaggregate("qwen3-vl-8b", "h100", "h100", encode="h100", **load)
    assert two.parts["prompt"] - three.parts["prompt"] == pytest.approx(three.parts["encoding"], rel=1e-9)
    for answer in (two, three):
        assert sum(answer.parts.values()) == pytest.approx(answer.ttft, rel=1e-12)
    assert (two.num_gpus, three.num_gpus) == (2, 3)
    row = three.to_dict()
    assert row["encode_util"] == pytest.approx(2 * row["encode_ms"] / 1e3)
    sent = 2 * 2 * 1024 * 4096 / float(three.pools.link.bandwidth)  # two images, 16-bit embeddings of the width
    assert row["embeddings_ms"] == pytest.approx(sent * 1e3)
    assert two.to_dict(["encode_pool"]) == {"encode_pool": None}
    assert three.max_request_rate > two.max_request_rate


def test_the_wait_for_the_encode_pool_grows_with_the_rate_until_it_is_full():
    load = {"isl": 100, "osl": 20, "images": 2, "encode": "h100"}
    waits = [
        rl.disaggregate("qwen3-vl-8b", "h100:x4", "h100", request_rate=rate, **load).to_dict()["encode_wait_ms"]
        for rate in (0.01, 10, 30)
    ]
    assert waits[0] < 0.01
    assert waits == sorted(waits)
    with pytest.raises(rl.Overloaded, match="the encode pool answers at most"):
        rl.disaggregate("qwen3-vl-8b", "h100:x8", "h100", request_rate=60, **load)


def test_percentiles_have_the_waits_of_an_encode_pool_that_is_nearly_full():
    load = {"isl": 100, "osl": 20, "images": 2, "request_rate": 36}
    full, wide = (
        rl.disaggregate("qwen3-vl-8b", "h100:x4", "h100", encode=pool, **load) for pool in ("h100", "h100:x8")
    )
    assert sum(part.weight * (part.least + part.mean) for part in full.tails.ttft) == pytest.approx(full.ttft)
    assert full.latency("ttft_p99") - full.ttft > 1.5 * (wide.latency("ttft_p99") - wide.ttft)


def test_users_wait_for_an_encode_pool_at_the_rate_that_it_leaves():
    load = {"isl": 100, "osl": 100, "images": 2, "concurrency": 16}
    answer = rl.disaggregate("qwen3-vl-8b", "h100:x2", "h100", encode="h100", **load)
    pool = answer.encoding
    assert answer.request_rate == pytest.approx(16 / (answer.ttft + 99 * answer.tpot), rel=1e-6)
    assert pool.wait == pytest.approx(pool.at(answer.request_rate * 15 / 16).wait, rel=1e-6)


def test_an_encode_pool_needs_media_and_only_gpus():
    with pytest.raises(rl.BadInput, match="give images"):
        rl.disaggregate("qwen3-vl-8b", "h100", "h100", encode="h100", request_rate=1)
    with pytest.raises(rl.BadInput, match="encoders have no pp"):
        rl.disaggregate("qwen3-vl-8b", "h100", "h100", encode="h100:tp1pp2", images=1, request_rate=1)


def test_smaller_images_are_a_lever():
    answer = rl.levers(**CASE, images=2, request_rate=2, slo="ttft:100")
    assert any(lever.name == "images of 512x512" for lever in answer.alone)
