"""Layers that share, skip, pre-select or look up: what no model can be is refused, with its line, in words."""

import pytest
from spec_texts import MODEL

import roofline as rl

FFN = "{kind: dense, width: 8192}"
LATE, EARLIER = "{kind: dense, width: 8192, last: 128}", "{kind: dense, width: 8192, last: 64}"
CSA2 = "kind: csa2, heads: 16, head_dim: 64, q_rank: 128, o_rank: 64, o_groups: 4, window: 128"
OWN, SHARED = f"{{{CSA2}, ratio: 2}}", f"{CSA2}, ratio: 2, kv_shared: true"
SCORES = "indexer: {heads: 4, dim: 32, top_k: 64"
BLOCKS = "kind: blocks, heads: 16, kv_heads: 4, head_dim: 128, block: 64, top_k: 8, stride: 16"
RELATIVE = "kind: relative, heads: 16, kv_heads: 4, head_dim: 128, extent: 64"
MEMORY = "kind: memory, keys: 64, heads: 4, key_dim: 32, top_k: 8, width: 256"
MLA = "{kind: mla, heads: 16, q_rank: 512, kv_rank: 256, nope: 64, rope: 32, v: 64, kv_shared: true}"

VALID = [
    ([(OWN, FFN), (f"{{{SHARED}, last: 128}}", LATE)], 1),
    ([(f"{{{CSA2}, ratio: 2, {SCORES}}}}}", FFN), (f"{{{SHARED}, {SCORES}, candidates: 256}}}}", FFN)], 0),
    (
        [
            (f"{{{BLOCKS}, dense: 512}}", f"{{{MEMORY}}}"),
            (f"{{{RELATIVE}, rank: 8, conv: 4}}", f"{{{MEMORY}, shared: true}}"),
        ],
        0,
    ),
]
REFUSED = [
    ([(OWN, FFN), (f"{{{SHARED}, last: 128}}", FFN)], "must compute the same last tokens"),
    ([(OWN, FFN), (f"{{{SHARED}, last: 128}}", LATE), (OWN, FFN)], "are the last ones"),
    ([(OWN, FFN), (f"{{{SHARED}, last: 64}}", EARLIER), (f"{{{SHARED}, last: 128}}", LATE)], "give them one last"),
    ([(f"{{{CSA2}, last: 128}}", LATE)], "are the last ones"),
    ([(OWN, FFN), (f"{{{CSA2}, ratio: 2, last: 128}}", LATE)], "needs every token of a prompt"),
    ([(f"{{{SHARED}}}", FFN), (OWN, FFN)], "none does so"),
    ([(f"{{{CSA2}, ratio: 1}}", FFN), (f"{{{SHARED}}}", FFN)], "none does so"),
    ([(MLA, FFN)], "none does so"),
    ([(OWN, f"{{{MEMORY}, shared: true}}")], "none does so"),
    ([(OWN, FFN), (f"{{{SHARED}, {SCORES}, candidates: 256}}}}", FFN)], "none does so"),
    ([(f"{{{CSA2}, ratio: 2, {SCORES}, candidates: 256}}}}", FFN)], "candidates are those of an earlier layer"),
    ([(f"{{{CSA2}, kv_shared: true}}", FFN)], "kv_shared is about compressed entries"),
    ([(f"{{{CSA2}, ratio: 2, {SCORES}, candidates: 32}}}}", FFN)], "top_k (64) must not exceed candidates (32)"),
    ([(f"{{{BLOCKS}, dense: 511}}", FFN)], "dense (511) must be at least the 8 blocks of 64 tokens"),
    ([(f"{{{RELATIVE}, conv_out: 2048}}", FFN)], "conv_out is about convolutions"),
    ([(OWN, f"{{{MEMORY.replace('key_dim: 32', 'key_dim: 33')}}}")], "key_dim (33) must be even"),
    ([(OWN, f"{{{MEMORY.replace('top_k: 8', 'top_k: 65')}}}")], "top_k (65) must not exceed keys (64)"),
]  # fmt: skip


def loaded(folder, layers):
    """A model of one's own with these layers, twenty of the first."""
    before, _, rest = MODEL.partition("groups:\n")
    groups = "".join(
        f"  - repeat: {1 if number else 20}\n    mixer: {mixer}\n    ffn: {ffn}\n"
        for number, (mixer, ffn) in enumerate(layers)
    )
    text = f"{before}groups:\n{groups}native:{rest.partition('native:')[2]}"
    (folder / "tiny.yaml").write_text(text.replace("{value: 1.2 B, source: card}", "{value: 1 B, source: card}"))
    return rl.load_model("tiny-1b", str(folder))


@pytest.mark.parametrize(("layers", "late"), VALID)
def test_layers_that_fit_each_other_are_a_model(tmp_path, layers, late):
    model = loaded(tmp_path, layers)
    assert (model.layers, model.late, model.last) == (21, late, 128 * late)


def test_layers_that_no_model_can_have_are_refused_in_words(tmp_path):
    for number, (layers, said) in enumerate(REFUSED):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(rl.BadSpec) as error:
            loaded(folder, layers)
        assert said in str(error.value), layers
