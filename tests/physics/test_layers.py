"""Kinds of layers: what a kind says of its matrices is what its kernels multiply with and a model counts."""

from dataclasses import replace

import pytest
from conftest import deploy
from every_case import each

import roofline as rl
from roofline.physics.assembly import Assembly
from roofline.physics.kernels import Span
from roofline.physics.layers.kinds import MIXER_KINDS, NETWORK_KINDS, cache_bytes, mixer_parameters
from roofline.physics.memory import layer_parameters
from roofline.physics.plan import Plan
from roofline.specs.gpu import GEMM, INDEXER, MOE
from roofline.specs.model import FFNS, MIXERS, Csa, DenseFfn, Gqa, Indexer, Layer, Mla, MoeFfn

HIDDEN = 4096
#: Attention with an indexer, and the same over what another layer's indexer chose.
OWN, REUSED = Indexer(heads=4, dim=128, top_k=512), Indexer(heads=4, dim=128, top_k=512, own=False)
GROUPED = {indexer: Gqa(64, 4, 128, 128, indexer=indexer) for indexer in (OWN, REUSED)}
COMPRESSED = {indexer: Csa(64, 512, 1024, 1024, 8, 128, ratio=4, indexer=indexer) for indexer in (OWN, REUSED)}
LATENT = {indexer: Mla(64, 512, 128, 64, 128, q_rank=1536, indexer=indexer) for indexer in (OWN, REUSED)}
SPANS = {"prompt": Span(700.0, 0.0), "decode": Span(1.0, 3000.0, is_decode=True)}


def every_layer():
    """The distinct layers of the catalog."""
    found = {}
    for name in rl.models():
        model = rl.load_model(name)
        for group in model.groups:
            for layer in group.layers:
                found.setdefault((layer, model.hidden), model)
    return found


def assembled(deployment, mixer=None, network=None, span=SPANS["decode"]):
    """Kernels of one layer's mixer or network."""
    assembly = Assembly(deployment, 2.0, 1.0 if span.is_decode else span.new)
    if mixer is not None:
        MIXER_KINDS[type(mixer)].add_kernels(assembly, 1, mixer, span)
    if network is not None:
        NETWORK_KINDS[type(network)].add_kernels(assembly, 1, network)
    return assembly.kernels


def on_16_bit_weights(model, tp):
    """A model with every section in 16 bits, whatever its checkpoint has."""
    return replace(deploy("llama-3.1-8b", "h100-sxm", Plan(tp=tp)), model=model)


@pytest.mark.parametrize("tp", [1, 2])
def test_the_weights_that_kernels_read_are_the_matrices_that_parameters_count(tp):
    """In 16 bits, of a decode step: every matrix is read once. Biases are vectors; of experts, those touched."""
    for (layer, hidden), model in every_layer().items():
        deployment = on_16_bit_weights(model, tp)
        read = sum(kernel.work.weight_bytes for kernel in assembled(deployment, layer.mixer) if kernel.kind is GEMM)
        matrices, _ = mixer_parameters(layer.mixer, hidden, tp)
        biases = [
            matrix for matrix in MIXER_KINDS[type(layer.mixer)].matrices.whole(layer.mixer, hidden) if matrix.bias
        ]
        assert read == 2.0 * matrices if not biases else 2.0 * matrices < read < 2.02 * matrices, layer.mixer
        if isinstance(layer.ffn, DenseFfn) and not layer.ffn.bias:
            kernels = assembled(deployment, network=layer.ffn)
            linear = layer_parameters(model, layer, tp).linear
            assert sum(kernel.work.weight_bytes for kernel in kernels if kernel.kind is GEMM) == 2.0 * linear


def test_experts_have_the_weights_that_parameters_count():
    network = MoeFfn(experts=4, top_k=4, width=1024)  # all are touched
    model = rl.load_model("mixtral-8x7b")
    deployment = on_16_bit_weights(model, 1)
    (kernel,) = (kernel for kernel in assembled(deployment, network=network) if kernel.kind is MOE)
    count = layer_parameters(model, Layer(model.groups[0].layers[0].mixer, network))
    assert kernel.work.weight_bytes == 2.0 * count.experts == 2.0 * 4 * 3 * model.hidden * 1024


def test_every_record_of_a_specification_has_a_kind():
    assert all(MIXER_KINDS[mixer].matrices for mixer in MIXERS.values())
    assert all(NETWORK_KINDS[network].matrices for network in FFNS.values())


# --- a selection that another layer made ---------------------------------------------------------


@pytest.mark.parametrize(
    ("mixers", "matrices", "vectors", "cached"),
    [
        # queries of 4 heads and one key of 128; two norms of it; a key of 128 in the cache's format
        (GROUPED, HIDDEN * (4 + 1) * 128, 2 * 128, 2 * 128),
        # queries of 4 heads from the latent of 1536, a key and 4 head weights from the stream; keys in fp8 with scales
        (LATENT, 1536 * 4 * 128 + HIDDEN * (128 + 4), 2 * 128, 128 + 4),
        # queries from the latent of 1024, 4 head weights, contents and gates of overlapping index keys of 128; their
        # norm and two position biases for each of 4 tokens; a key of 128 for every 4 tokens
        (COMPRESSED, 1024 * 4 * 128 + HIDDEN * (4 + 4 * 128), 128 + 2 * 4 * 128, 2 * 128 / 4),
    ],
)
def test_a_layer_that_reuses_a_selection_has_no_index_matrices_and_no_index_keys(mixers, matrices, vectors, cached):
    own, reused = (mixer_parameters(mixers[indexer], HIDDEN) for indexer in (OWN, REUSED))
    assert (own[0] - reused[0], own[1] - reused[1]) == (matrices, vectors)
    assert cache_bytes(mixers[OWN], 100.0, 2.0) - cache_bytes(mixers[REUSED], 100.0, 2.0) == pytest.approx(100 * cached)


@each("span", SPANS.values(), ids=SPANS)
@each("mixers", [GROUPED, LATENT, COMPRESSED], ids=["gqa", "mla", "csa"])
def test_a_layer_that_reuses_a_selection_multiplies_and_scores_nothing_for_it(mixers, span):
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    own, reused = (assembled(deployment, mixers[indexer], span=span) for indexer in (OWN, REUSED))
    assert INDEXER in {kernel.kind for kernel in own}
    assert INDEXER not in {kernel.kind for kernel in reused}
    assert not [kernel.name for kernel in reused if kernel.name.startswith("index")]

    def multiplied(kernels):
        return sum(kernel.work.flop for kernel in kernels if kernel.kind is GEMM)

    def attended(kernels):
        return [kernel.work for kernel in kernels if kernel.kind.is_attention]

    assert multiplied(reused) < multiplied(own)
    assert attended(reused) == attended(own)  # what was chosen is attended to all the same


@pytest.mark.parametrize("mixers", [GROUPED, LATENT, COMPRESSED], ids=["gqa", "mla", "csa"])
def test_a_selection_that_is_reused_is_never_slower(mixers):
    deployment = deploy("llama-3.1-8b", "h100-sxm")
    for span in SPANS.values():
        own, reused = (
            sum(kernel.time for kernel in assembled(deployment, mixers[indexer], span=span))
            for indexer in (OWN, REUSED)
        )
        assert reused < own
