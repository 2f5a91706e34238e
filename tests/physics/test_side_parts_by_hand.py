"""What models have beside attention and networks, worked out by hand: tables, layer inputs, streams, idle layers."""

from dataclasses import replace

import pytest
from conftest import deploy

import roofline as rl
from roofline.physics.equation import Work
from roofline.physics.layers.kinds import cache_bytes, mixer_parameters
from roofline.physics.memory import (
    activation_bytes,
    attends,
    kv_bytes_per_token,
    kv_growth_per_token,
    ngram_parameters,
    parameters,
    state_bytes_per_sequence,
)
from roofline.physics.passes import prefill_pass
from roofline.physics.plan import Plan
from roofline.specs.gpu import P2P
from roofline.specs.model import (
    CrossAttention,
    DenseFfn,
    Gdn,
    Gqa,
    Group,
    Layer,
    Linear,
    LinearFfn,
    Ngrams,
    NoFfn,
    NoMixer,
)

DENSE = Layer(NoMixer(), DenseFfn(200))
PLAIN = 2 * (3 * 100 * 200 + 2 * 100) + 100 + 2 * 1000 * 100  # two layers, norms, embedding and head
TOKENS = 30


def model(*layers, **changes):
    groups = tuple(Group(1, (layer,)) for layer in layers or (DENSE, DENSE))
    plain = {"hidden": 100, "vocab": 1000, "groups": groups, "tied": False, "max_context": 1000}
    return replace(rl.load_model("llama-3.1-8b"), **{**plain, **changes})


def kernels(asked, plan=Plan()):  # noqa: B008  frozen
    """Of a pass over 3 prompts of 10 tokens, by name."""
    deployment = replace(deploy("llama-3.1-8b", "h100-sxm", plan), model=asked)
    return {kernel.name: kernel for kernel in prefill_pass(deployment, 3.0, 10.0).kernels}


def assert_more(found, plain, expected):
    """That a pass has these kernels beside those of a plain one."""
    assert found.keys() - plain.keys() == expected.keys()
    for name, (count, work) in expected.items():
        assert found[name].count == count, name
        assert found[name].work._asdict() == pytest.approx(work._asdict(), rel=1e-12), name


def multiplied(columns, inner, times=1, tokens=TOKENS):
    moved = 2 * tokens * inner + 2 * tokens * columns
    return times, Work(2 * tokens * columns * inner, 2 * columns * inner, activation_bytes=moved, depth=inner)


def moved(nbytes, times=1, weights=0):
    return times, Work(weight_bytes=weights, activation_bytes=nbytes)


def test_a_row_of_learned_positions_is_read_and_added_for_each_token():
    asked = model(positions=50)
    assert parameters(asked).total == PLAIN + 50 * 100
    row = 2 * TOKENS * 100
    assert_more(
        kernels(asked), kernels(model()), {"positions": moved(row, weights=row), "positions, add": moved(3 * row)}
    )


def test_inputs_of_every_layer_are_looked_up_projected_and_taken_in():
    asked = model(layer_input=7, layer_vocab=200)
    assert parameters(asked).total == PLAIN + 200 * 2 * 7 + 2 * (2 * 100 * 7) + 100 * 2 * 7 + 7
    expected = {
        "layer inputs": moved(2 * TOKENS * 14, weights=2 * TOKENS * 14),
        "layer inputs, projection": multiplied(14, 100),
        "layer inputs, add": moved(3 * 2 * TOKENS * 14),
        "layer input, gate": multiplied(7, 100, times=2),
        "layer input, activation": moved(3 * 2 * TOKENS * 7, times=2),
        "layer input, projection": multiplied(100, 7, times=2),
    }
    assert_more(kernels(asked), kernels(model()), expected)


def test_alternating_streams_are_predicted_and_corrected_around_every_layer():
    asked = model(altup=3, laurel=5)
    of_layer = 2 * 100 * 5 + (3 * 100 + 3**2 + 3**3) + 3 * 100
    assert parameters(asked).total == PLAIN + 2 * of_layer + 2 * 2 * 100 * 100
    assert parameters(model(laurel=5)).total == PLAIN + 2 * (2 * 100 * 5 + 100)
    expected = {
        "streams, projection": multiplied(100, 100, times=2 * 2),
        "stream router": multiplied(3, 100, times=2 * 2),
        "stream mix": (2, Work(2 * TOKENS * 100 * (9 + 3), activation_bytes=2 * TOKENS * 100 * 16)),
        "laurel, down": multiplied(5, 100, times=2),
        "laurel, up": multiplied(100, 5, times=2),
        "laurel, add": moved(3 * 2 * TOKENS * 100, times=2),
    }
    assert_more(kernels(asked), kernels(model()), expected)
    (handed,) = (each for each in kernels(asked, Plan(pp=2)).values() if each.kind is P2P)
    assert handed.work.link_bytes == 3 * 2 * TOKENS * 100  # all streams go to the next stage


def test_hyper_connections_mix_all_streams_twice_a_layer():
    plain = kernels(model())
    mixed = kernels(model(streams=3))
    assert_more(mixed, plain, {"stream mix": multiplied(3 * 5, 300, times=4)})
    assert mixed["norm"].work == Work(weight_bytes=2 * 100, activation_bytes=(2 * 3 + 2) * 2 * TOKENS * 100)
    gates = {"stream gate, down": multiplied(7 + 3, 300, times=4), "stream gate, up": multiplied(300, 7, times=4)}
    assert_more(kernels(model(streams=3, stream_rank=7)), plain, gates)


def test_embeddings_of_ngrams_are_looked_up_gated_and_convolved():
    asked = model(streams=3, ngrams=Ngrams(rows=1000, width=8, lookups=3, tables=2, conv=4))
    count = ngram_parameters(asked)
    assert (count.linear, count.norm, count.embed) == (2 * 24 * (300 + 100), 2 * (3 + 4) * 300, 8000)
    assert ngram_parameters(asked, 4).embed == 2000
    assert ngram_parameters(model()).total == 0
    assert parameters(asked).total == parameters(model(streams=3)).total + count.total
    expected = {
        "n-gram embedding": moved(2 * TOKENS * 24, times=2, weights=2 * TOKENS * 24),
        "n-gram key, value": multiplied(400, 24, times=2),
        "n-gram gate": moved(3 * 2 * TOKENS * 300, times=2),
        "n-gram conv": moved(2 * 2 * TOKENS * 300, times=2),
    }
    assert_more(kernels(asked), kernels(model(streams=3)), expected)


# --- layers that do little -----------------------------------------------------------------------


def test_a_layer_that_attends_to_images_is_held_and_passed_over():
    mixer = CrossAttention(heads=8, kv_heads=2, head_dim=16, width=200)
    assert mixer_parameters(mixer, 100) == (2 * 100 * 128 + 2 * 100 * 32 + 3 * 100 * 200, 2 * 16 + 2)
    assert mixer_parameters(mixer, 100, 4) == (2 * 100 * 32 + 2 * 100 * 16 + 3 * 100 * 50, 2 * 16 + 2)
    assert cache_bytes(mixer, 500.0, 2.0) == 0.0
    found, plain = kernels(model(DENSE, Layer(mixer, NoFfn()))), kernels(model(DENSE))
    assert {name: (each.count, each.work) for name, each in found.items()} == {
        name: (each.count, each.work) for name, each in plain.items()
    }
    assert found["norm"].count == 2


def test_one_square_matrix_stands_in_the_place_of_a_mixer_and_of_a_network():
    assert mixer_parameters(Linear(), 100) == (10_000, 0)
    assert mixer_parameters(Linear(), 100, 4) == (2_500, 0)
    assert cache_bytes(Linear(), 500.0, 2.0) == cache_bytes(NoMixer(), 500.0, 2.0) == 0.0
    square = model(Layer(Linear(), NoFfn()), Layer(NoMixer(), LinearFfn()))
    count = parameters(square)
    assert (count.attention, count.linear, count.norm) == (10_000, 10_000, 5 * 100)
    assert activation_bytes(square, Plan(), 1.0, 10.0) == 10 * 2 * (4 * 100 + 100) + 4 * 1000
    assert kernels(square)["linear"].work == multiplied(100, 100)[1]
    half = kernels(square, Plan(tp=2))
    assert half["linear"].work == multiplied(100, 50)[1]
    assert half["linear all-reduce"].work == Work(link_bytes=2 * TOKENS * 100)


def test_what_a_model_keeps_of_a_token_and_of_a_sequence_is_counted_by_hand():
    full = Gqa(heads=4, kv_heads=2, head_dim=16, v_head_dim=16)
    delta = Gdn(k_heads=4, v_heads=8, k_dim=16, v_dim=32, conv=4)
    asked = model(*(Layer(mixer, DenseFfn(200)) for mixer in (full, replace(full, window=16), delta)))
    one = 2 * (16 + 16) * 2  # two KV heads, 16 bits
    assert kv_bytes_per_token(asked) == 2 * one
    assert kv_growth_per_token(asked) == kv_growth_per_token(replace(asked, max_context=None)) == one
    assert kv_growth_per_token(replace(asked, max_context=16)) == 2 * one  # the window fills with the last token
    assert state_bytes_per_sequence(asked) == 4 * 8 * 16 * 32 + 2 * 3 * 384
    assert attends(asked)
    assert not attends(model(Layer(delta, DenseFfn(200))))
