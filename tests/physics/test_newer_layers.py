"""Lookup memories, caches that layers share, pre-selected candidates, relative attention: all counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import deploy
from small_models import AFTER, DENSE, PROMPT, STEP, assert_kernels, counted, deployed, mixed, moved, multiplied, sent

import roofline as rl
import roofline.numbers.arrays
from roofline.physics.assembly import Assembly
from roofline.physics.equation import Work
from roofline.physics.kernels import Span
from roofline.physics.layers.attention import scored_pairs
from roofline.physics.layers.candidates import selected_pairs
from roofline.physics.layers.cross_layer import computed
from roofline.physics.layers.kinds import NETWORK_KINDS, cache_bytes, mixer_parameters
from roofline.physics.layers.memories import NGRAM_ROWS
from roofline.physics.memory import (
    active_parameters,
    kv_growth_per_token,
    memory,
    parameters,
    state_bytes_per_sequence,
)
from roofline.physics.offload import READ
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.latency import Workload
from roofline.serving.load.server import Server
from roofline.specs.model import (
    Blocks,
    Csa2,
    DenseFfn,
    Gqa,
    Group,
    Indexer,
    Layer,
    MemoryFfn,
    Mla,
    MoeFfn,
    Ngrams,
    Relative,
)

FLASH = "deepseek-v4.1-flash"


# DeepSeek-V4.1: tensors of the checkpoint, one after the other.


def test_deepseek_v41_has_the_tensors_of_its_checkpoint_and_the_cache_of_its_report():
    hidden, streams = 5120, 4
    attention = 1280 * 5120 + 1280 + 64 * 512 * 1280 + 512 * 5120 + 512 + 64  # wq_a, q_norm, wq_b, wkv, kv_norm, sinks
    attention += 8 * 1024 * (64 * 512 // 8) + 5120 * 8 * 1024  # wo_a, wo_b
    mixing = 2 * ((streams + 2) * streams * (streams * hidden + 1) + 3 + hidden)  # fn, base, scale, norm, twice
    experts = 384 * hidden + 384 + 385 * 3 * hidden * 2304  # gate, bias, experts and the shared one
    layers = 40 * (attention + mixing + experts)
    owners = sum((2 if ratio > 1 else 1) * 512 * hidden + 512 + 128 * 512 + 128 for ratio in (2, 2, 2, 1))
    indexers = 8 * (32 * 128 * 1280 + 32 * hidden)
    ends = 2 * 129280 * hidden + hidden + streams * streams * hidden + streams + 1
    backbone = layers + owners + indexers + ends
    engram = (384006168 + 384016682) * 256 + 2 * (25600 * 6144 + 2 * streams * hidden)
    model = rl.load_model(FLASH)
    assert parameters(model).total == backbone + engram == model.stated_total
    assert f"{(backbone + engram - 768022850 * 256) / 1e9:.0f}" == "552"
    assert f"{active_parameters(model) / 1e9:.0f}" == "16"
    assert kv_growth_per_token(model) == 890.0  # three layers at ratio 2 and one at 1, in FP4 with scales
    # beyond that, a window of 128 key-values in each layer
    window = sum(count * cache_bytes(mixer, 128.0, 2.0) for count, mixer in model.mixers) - 128 * 890
    assert window == 40 * 128 * 512 * 2


def test_a_prompt_passes_the_last_nineteen_layers_for_its_last_window_alone():
    model = rl.load_model(FLASH)
    deployment = deploy(model, "b200", Plan(tp=8))
    assert (model.late, model.last) == (19, 128)
    whole = replace(model, groups=tuple(Group(g.repeat, tuple(map(_through, g.layers))) for g in model.groups))
    through = replace(deployment, model=whole)
    skipped, computed_all = (prefill_pass(each, 1.0, 8192.0).flop for each in (deployment, through))
    assert 0.53 < skipped / computed_all < 0.6  # 21 of 40 layers, a 64th of the others, the scores of early indexers
    short = (prefill_pass(each, 1.0, 128.0).flop for each in (deployment, through))
    assert len(set(short)) == 1
    steps = (decode_pass(each, 3.0, 9000.0, 10.0).time for each in (deployment, through))
    assert next(steps) == pytest.approx(next(steps), rel=1e-12)


def _through(layer):
    """A layer that computes all tokens."""
    return Layer(replace(layer.mixer, last=0), replace(layer.ffn, last=0))


def test_late_layers_of_a_mixed_step_compute_all_that_decode_and_the_end_of_the_prompt():
    plain, late = (
        deployed(*(Layer(replace(WINDOW, last=last), replace(DENSE, last=last)) for last in lasts), plan=Plan())
        for lasts in ((0, 0), (0, 10))
    )
    alone = deployed(Layer(WINDOW, DENSE), plan=Plan())

    def linear(deployment, decoding, prompt):
        return Server(deployment, 100.0, 10.0).linear(decoding, prompt)

    for decoding, prompt in ((5.0, 0.0), (1.0, 9.0), (40.0, 500.0)):
        of_a_layer = [
            linear(plain, decoding, tokens) - linear(alone, decoding, tokens) for tokens in (prompt, min(prompt, 10.0))
        ]
        missing = of_a_layer[0] - of_a_layer[1]
        assert linear(late, decoding, prompt) == pytest.approx(linear(plain, decoding, prompt) - missing, rel=1e-9)


WINDOW = Csa2(heads=4, head_dim=16, q_rank=24, o_rank=12, o_groups=2, window=8)
FULL = replace(WINDOW, ratio=2, indexer=Indexer(heads=3, dim=6, top_k=4))
REINDEX = replace(FULL, kv_shared=True, indexer=Indexer(heads=3, dim=6, top_k=4, candidates=5))
REUSE = replace(FULL, kv_shared=True, indexer=Indexer(heads=3, dim=6, top_k=4, own=False))


def test_layers_that_share_entries_have_neither_their_matrices_nor_their_cache():
    common = 24 * 100 + 16 * 100 + 64 * 24 + 24 * (64 // 2) + 100 * 24
    full, norms = mixer_parameters(FULL, 100)
    assert full == common + 2 * 16 * 100 + 3 * 100 + 18 * 24 + 6 * 16  # pooled entries, indexer, key from the entry
    assert norms == 24 + 16 + 4 + 16 + 6
    assert mixer_parameters(replace(FULL, ratio=1), 100)[0] == full - 16 * 100  # nothing to pool: no gate
    assert mixer_parameters(REINDEX, 100) == (common + 3 * 100 + 18 * 24, 24 + 16 + 4)
    assert mixer_parameters(REUSE, 100) == (common, 24 + 16 + 4)
    window = 16 * 8 * 2.0
    assert cache_bytes(FULL, 100.0, 2.0) == window + 100 * (16 + 6) * 2.0 / 2
    assert cache_bytes(replace(FULL, packed=True), 100.0, 2.0) == window + 100 * (16 * 0.5625 + 6 * 0.53125) / 2
    assert cache_bytes(REUSE, 100.0, 2.0) == cache_bytes(REINDEX, 100.0, 2.0) == window


def test_the_kernels_of_a_step_that_reads_entries_of_another_layer():
    # tp 2: two heads and one group of each rank; the context is 20 to 24 tokens, the window 8, 4 entries of 2 tokens
    tag, tokens, seen = " (reindex 1/2)", 3, 8 + 4
    assert_kernels(
        mixed(REINDEX, STEP),
        {
            "q_a, kv" + tag: multiplied(tokens, 24 + 16 + 3, 100),
            "q_b" + tag: multiplied(tokens, 32, 24),
            "q latent norm" + tag: moved(4 * tokens * 24),
            "rope, append" + tag: (1, Work(weight_bytes=2 * 24, kv_bytes=tokens * 16 * 2)),
            "index q" + tag: multiplied(tokens, 18, 24),
            "index scores": (
                1,  # within 5 entries of 2 tokens: 10 tokens a sequence, of 6 x 2 B for each two
                Work(
                    flop=2 * 3 * 6 * tokens * 5,
                    kv_bytes=6 * 2 / 2 * tokens * 10,
                    activation_bytes=8 * tokens * 5 + 2 * 3 * 6 * tokens,
                    depth=6,
                ),
            ),
            "attention" + tag: (
                1,
                Work(
                    flop=4 * 2 * 16 * tokens * seen,
                    kv_bytes=tokens * 16 * 2 * seen,
                    activation_bytes=4 * tokens * 2 * 16,
                    serial_depth=seen,
                ),
            ),
            "o_a" + tag: multiplied(tokens, 12, 32),
            "o_b" + tag: multiplied(tokens, 100, 12),
            "attention all-reduce" + tag: sent(2 * tokens * 100),
        },
    )
    assert not {"index q (reuse 1/2)", "index scores"} & set(mixed(REUSE, STEP))
    assert mixed(FULL, STEP)["index k (full 1/2)"] == multiplied(tokens / 2, 6, 16)


def test_a_late_layer_computes_the_last_tokens_of_a_prompt():
    late, whole = mixed(replace(REUSE, last=4), PROMPT), mixed(REUSE, PROMPT)
    name = "q_b (reuse 1/2)"
    assert late[name][1].flop == 4 / 10 * whole[name][1].flop
    assert computed(PROMPT, 4) == Span(4.0, 6.0)
    assert computed(STEP, 4) == STEP
    assert computed(PROMPT, 0) == computed(PROMPT, 50) == PROMPT


# Candidates and blocks.


def test_an_indexer_scores_candidates_alone():
    few, many = Indexer(3, 6, 4, candidates=5), Indexer(3, 6, 4)
    span = Span(10.0, 0.0)
    assert scored_pairs(many, span, 2) == 55.0
    assert scored_pairs(few, span, 1) == sum(min(t, 5) for t in range(1, 11))
    assert scored_pairs(few, span, 2) == 55.0  # five entries of two tokens are all there are


BLOCKS = Blocks(heads=4, kv_heads=2, head_dim=16, v_head_dim=16, block=4, top_k=2, stride=2, dense=12)


def test_blocks_are_selected_beyond_the_length_that_is_attended_to_whole():
    for cached in range(30):
        for new in (1, 5):
            by_hand = [t if t <= 12 else 8 for t in range(cached + 1, cached + new + 1)]
            scored = [0 if t <= 12 else t for t in range(cached + 1, cached + new + 1)]
            found = selected_pairs(BLOCKS, Span(float(new), float(cached), is_decode=True))
            assert found == (sum(scored), sum(by_hand))
    assert selected_pairs(BLOCKS, Span(12.0, 0.0)) == (0.0, 78.0)
    assert selected_pairs(BLOCKS, Span(13.0, 0.0)) == (91.0, 36.0 + 5 * 8.0)  # a longer prompt: every token selects
    assert selected_pairs(replace(BLOCKS, dense=0), Span(12.0, 0.0)) == (78.0, 36.0 + 4 * 8.0)


def test_the_kernels_and_the_cache_of_selected_blocks():
    # tp 2: two heads and one KV head of each rank; contexts of 21 to 24 tokens select two blocks of four
    tokens, seen, scored = 3, 8, 22.5 / 2
    found = mixed(BLOCKS, STEP)
    assert found["block scores"] == (
        1,
        Work(
            flop=2 * 2 * 16 * tokens * scored,
            kv_bytes=16 * 2 * tokens * scored,
            activation_bytes=8 * tokens * scored,
            exponentials=2 * tokens * scored,
            depth=16,
        ),
    )
    assert found["attention (blocks)"] == (
        1,
        Work(
            flop=2 * 2 * 32 * tokens * seen,
            kv_bytes=32 * 2 * tokens * seen,
            activation_bytes=2 * tokens * 32 * 2,
            serial_depth=seen,
        ),
    )
    assert mixed(BLOCKS, PROMPT)["block scores"][0] == 0  # ten tokens are attended to whole
    assert mixed(BLOCKS, AFTER)["block scores"][0] == 1
    assert cache_bytes(BLOCKS, 50.0, 2.0) == 50 * 2 * (16 + 16 + 16 / 2) * 2.0
    assert mixer_parameters(BLOCKS, 100) == mixer_parameters(Gqa(4, 2, 16, 16), 100)


def test_minicpm_reads_no_more_than_96_blocks_of_a_long_context():
    deployment = deploy("minicpm4.1-8b", "h100-sxm")
    read = {
        context: counted(decode_pass(deployment, 1.0, context).kernels)["attention (blocks)"][1].kv_bytes
        for context in (8191.0, 8192.0, 60_000.0)
    }
    token = 2 * (128 + 128) * 2
    assert [*read.values()] == [8192 * token, 6144 * token, 6144 * token]


# Relative attention.

BIASED = Relative(heads=4, kv_heads=2, head_dim=16, v_head_dim=16, extent=6, rank=3, conv=4, conv_out=200)


def test_relative_attention_has_profiles_and_convolutions_beside_its_matrices():
    plain = mixer_parameters(Gqa(4, 2, 16, 16), 100)
    matrices, vectors = mixer_parameters(BIASED, 100)
    assert matrices == plain[0] + 100 * 4 * 3 + 3 * 6
    assert vectors == plain[1] + 4 * (2 * 2 * 16 + 200)
    table = Relative(heads=4, kv_heads=2, head_dim=16, v_head_dim=16, extent=32)
    assert mixer_parameters(table, 100) == (plain[0], plain[1] + 32 * 4)  # T5: a bucket for each head
    distances = replace(table, pair_keys=True)
    assert mixer_parameters(distances, 100) == (plain[0] + 100 * 64, plain[1] + 32 * 4 + 2 * 64)  # Transformer-XL
    kept = 3 * 2.0 * (2 * 32 + 200)
    assert cache_bytes(BIASED, 50.0, 2.0) == 50 * 2 * 32 * 2.0 + kept
    assert cache_bytes(replace(BIASED, window=8), 50.0, 1.0) == 8 * 2 * 32 * 1.0 + kept


def test_the_kernels_of_relative_attention():
    # tp 2: two heads and one KV head of each rank; a step at 21 to 24 tokens, of which six have a bias
    tokens, seen, tag = 3, 22.5, " (relative)"
    plain = counted_plain = mixed(Gqa(4, 2, 16, 16), STEP)["attention"][1]
    found = mixed(BIASED, STEP)
    assert found["qkv" + tag] == multiplied(tokens, (2 + 1 + 1) * 16 + 2 * 3, 100)
    assert found["relative bias" + tag] == (
        1,
        Work(2 * 2 * tokens * 3 * 6, 2 * 3 * 6, activation_bytes=2 * 2 * tokens * (3 + 6), depth=3),
    )
    assert found["attention" + tag][1] == plain._replace(
        flop=plain.flop + 2 * tokens * 6, activation_bytes=plain.activation_bytes + 2 * 2 * 6 * tokens
    )
    channels = 1 * 32 + 200
    assert found["convolutions" + tag] == (
        1,
        Work(
            flop=9 * channels * tokens,
            weight_bytes=8 * channels,
            kv_bytes=2 * 2 * 3 * channels * tokens,
            activation_bytes=4 * channels * tokens,
        ),
    )
    table = replace(BIASED, rank=0, conv=0, conv_out=0)
    found = mixed(table, STEP)
    assert not {"relative bias" + tag, "convolutions" + tag} & set(found)
    assert found["attention" + tag][1] == plain._replace(flop=plain.flop + 2 * tokens * seen)
    found = mixed(replace(table, pair_keys=True), STEP)["attention" + tag][1]
    assert found.flop == counted_plain.flop + 2 * tokens * seen + 2 * 2 * 16 * tokens * seen
    prompt = mixed(Gqa(4, 2, 16, 16), PROMPT)["attention"][1]
    found = mixed(BIASED, PROMPT)["attention" + tag][1]
    assert found.flop == prompt.flop + 2 * 3 * sum(min(t, 6) for t in range(1, 11))


#: Parameters of `InklingTextModel`, and of the buffers of its routers' biases: transformers 5.24 on the meta device.
@pytest.mark.parametrize(
    ("name", "counted_by_torch", "biases", "scales", "head"),
    [
        ("inkling", 945_790_456_386, 16_384, 66, 201024 * 6144),
        ("inkling-small", 262_831_794_730, 10_240, 42, 201024 * 4096),
    ],
)
def test_inkling_has_the_parameters_of_its_class(name, counted_by_torch, biases, scales, head):
    model = rl.load_model(name)
    assert parameters(model).total == counted_by_torch + biases - scales + head
    assert state_bytes_per_sequence(model) > 0.0  # the last inputs of its convolutions


# Latents that layers share: MistralLarge4TextModel, transformers 5.24 on the meta device, without 8 scales of RoPE.


@pytest.mark.parametrize(
    ("sources", "kinds", "counted_by_torch"),
    [
        (range(8), ["full"] * 8, 7_988_616),
        ([0, 0, 2, 2, 4, 4, 4, 4], ["full", "full", "shared", "shared"] * 2, 7_723_816),
    ],
)
def test_latents_of_another_layer_have_no_projection(sources, kinds, counted_by_torch):
    layers = []
    for index, (source, kind) in enumerate(zip(sources, kinds, strict=True)):
        rope = 16 if (index + 1) % 4 else 0
        mixer = Mla(
            heads=4, kv_rank=64, nope=32 - rope, rope=rope, v=32, log_scale=True, kv_shared=source != index,
            indexer=Indexer(heads=4, dim=32, top_k=64, own=kind == "full"),
        )  # fmt: skip
        layers.append(Layer(mixer, DenseFfn(512) if not index else MoeFfn(8, 2, 128, shared_width=128)))
    model = deployed(*layers, hidden=256).model
    assert parameters(model).total - parameters(model).head == counted_by_torch - 8
    cached = sum(64 + (16 if (index + 1) % 4 else 0) for index, source in enumerate(sources) if index == source)
    keys = kinds.count("full") * 32 * (1 + 4 / 128)
    assert sum(count * cache_bytes(mixer, 1.0, 2.0) for count, mixer in model.mixers) == 2 * cached + keys


# Memories.

MEMORY = MemoryFfn(keys=10, heads=2, key_dim=6, top_k=3, width=40)


def test_a_memory_of_product_keys_by_hand():
    rows, matrices = 100 * 40, 12 * 100 + 2 * 100 * 40
    model = deployed(Layer(Gqa(4, 2, 16, 16), MEMORY), plan=Plan()).model
    whole = parameters(model)
    assert whole.linear == rows + matrices
    assert active_parameters(model, "all") == whole.total - (100 - 2 * 3) * 40
    shared = replace(MEMORY, shared=True)
    assert NETWORK_KINDS[MemoryFfn].matrices.values(shared, 100)["linear"] == matrices
    assembly = Assembly(deployed(Layer(Gqa(4, 2, 16, 16), MEMORY)), 3.0, 1.0)
    NETWORK_KINDS[MemoryFfn].add_kernels(assembly, 1, MEMORY)
    assert_kernels(
        counted(assembly.kernels),
        {
            "memory q": multiplied(3, 12, 100),
            "memory scores": (
                1,
                Work(
                    flop=2 * 2 * 10 * 6 * 3,
                    weight_bytes=2 * 2 * 10 * 6,
                    activation_bytes=8 * 2 * 3 * (20 + 9) + 2 * 2 * 3 * 6,
                    depth=3,
                ),
            ),
            "memory rows": (1, Work(flop=2 * 18 * 20, weight_bytes=18 * 20 * 2, activation_bytes=2 * 3 * 20)),
            "memory gate": multiplied(3, 20, 100),
            "memory activation": moved(6 * 3 * 20),
            "memory out": multiplied(3, 100, 20),
            "memory all-reduce": sent(2 * 3 * 100),
        },
    )


def test_n_grams_of_the_input_are_projected_once():
    ngrams = Ngrams(rows=500, width=5, lookups=12, conv=0, norms=0, gated=False)
    with_, without = (deployed(Layer(Gqa(4, 2, 16, 16), DENSE), plan=Plan(), ngrams=each) for each in (ngrams, None))
    assert parameters(with_.model).total - parameters(without.model).total == 500 * 5 + 12 * 5 * 100
    found = counted(prefill_pass(with_, 3.0, 10.0).kernels)
    assert found[NGRAM_ROWS][1].weight_bytes == 30 * 12 * 5 * 2
    assert found["n-gram projection"] == multiplied(30, 100, 60)
    lite = rl.load_model("longcat-flash-lite")
    assert lite.ngrams.rows == sum(78 * 131072 + 2 * table + 1 for table in range(12))
    assert f"{parameters(lite).total / 1e9:.1f}" == "68.6"


def test_tables_in_host_memory_leave_the_gpu_and_send_the_rows_that_are_looked_up():
    held, away = (rl.predict(FLASH, "b200", tp=4, isl=1000, offload=offload) for offload in (None, "tables"))
    tables = 768022850 * 256 * (1 + 1 / 32) / 4
    assert tables / 2**30 == pytest.approx(47.2, abs=0.05)  # GiB per rank at TP=4, vLLM pull request 57491
    assert held.memory.weights - away.memory.weights == pytest.approx(tables, rel=1e-12)
    (kernel,) = (each for each in away.prefill.kernels if each.name == READ)
    assert kernel.work.link_bytes == pytest.approx(2 * 1000 * 24 * 256 * (1 + 1 / 32) / 4)
    assert memory(away.deployment, 1.0, 2000.0).fits
    with pytest.raises(rl.BadInput, match="no tables of n-grams"):
        rl.predict("llama-3.1-8b", "b200", offload="tables")
    with pytest.raises(rl.BadInput, match="multiplies nothing"):
        rl.predict(FLASH, "b200", tp=8, offload="tables", cpu_bandwidth="90GB/s")


def test_what_is_not_predicted_of_them_is_refused_by_name():
    for name, what in ((FLASH, "compressed"), ("inkling", "relative"), ("minicpm4.1-8b", "selected blocks")):
        with pytest.raises(rl.BadInput, match=what):
            rl.predict(name, "b300-sxm", tp=8, cp=2)
    with pytest.raises(rl.BadInput, match="skip most of a prompt"):
        rl.predict(FLASH, "b300-sxm", tp=8, lora="4:16")
    with pytest.raises(rl.BadInput, match=r"compressed attention \(csa2\)"):
        rl.sheet("case.xlsx", FLASH, "b200")


def test_arrays_and_floats_agree():
    lengths = np.array([5.0, 127.0, 128.0, 9000.0])
    for name in (FLASH, "inkling-small", "minicpm4.1-8b"):
        deployment = deploy(name, "b300-sxm", Plan(tp=8))
        for make in (lambda d, n: prefill_pass(d, 2.0, n, 50.0), lambda d, n: decode_pass(d, 2.0, n, 9.0)):
            together = make(deployment, lengths).time
            assert together == pytest.approx([make(deployment, length).time for length in lengths.tolist()], rel=1e-12)
    assert Workload(100.0, 10.0).isl == 100.0
