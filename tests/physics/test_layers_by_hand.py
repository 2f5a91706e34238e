"""Every kernel of small layers worked out by hand: what it multiplies, reads, writes and sends on one of two ranks."""

import pytest
from small_models import (
    ATTENTION,
    EXPERTS,
    PROMPT,
    SPREAD,
    STEP,
    assert_kernels,
    counted,
    deployed,
    mixed,
    moved,
    multiplied,
    sent,
)

from roofline.physics.assembly import Assembly
from roofline.physics.equation import Work
from roofline.physics.layers.kinds import NETWORK_KINDS
from roofline.specs.model import Gdn, Kda, Layer, Lightning, Mamba1, Mamba2, MoeFfn, ShortConv

# --- recurrent mixers ----------------------------------------------------------------------------

MIXERS = {
    # columns read from the stream, channels of the convolution, width, and per token: of a prompt 4 s and products of a
    # chunk of 64, or of Mamba-1 a scan; of a step 5 or 7 operations a value; values read and written; decays
    "gdn": (
        Gdn(k_heads=4, v_heads=8, k_dim=16, v_dim=32, conv=4),
        {"in": (328, 100)}, 192, 128, 4 * 2048 + 3 * 64 * 4 * 48, 7, 2048, 128 + 192, 0,
    ),
    "kda": (
        Kda(heads=8, dim=16, conv=4),
        {"in": (3 * 64 + 16 + 16 + 4, 100), "decay": (64, 16), "gate": (64, 16)},
        192, 64, 4 * 1024 + 3 * 64 * 4 * 32, 7, 1024, 64 + 192, 0,
    ),
    "mamba2": (
        Mamba2(heads=8, head_dim=8, groups=2, state=16, conv=4),
        {"in": (32 + 32 + 32 + 4, 100)}, 64, 32, 4 * 512 + 64 * 4 * 24, 5, 512, 32 + 64, 0,
    ),
    "mamba1": (
        Mamba1(inner=64, state=16, dt_rank=6, conv=4),
        {"in": (64, 100), "x_proj": (38, 32), "dt_proj": (32, 6)}, 32, 32, 7 * 512, 7, 512, 2 * 32, 512 + 2 * 32,
    ),
}  # fmt: skip


@pytest.mark.parametrize("span", [PROMPT, STEP], ids=["prompt", "step"])
@pytest.mark.parametrize("tag", MIXERS)
def test_kernels_of_a_recurrent_mixer_are_those_worked_out_by_hand(tag, span):
    mixer, matrices, channels, width, prompt, step, values, touched, decays = MIXERS[tag]
    tokens = 3 if span.is_decode else 30
    carried = Work(
        flop=tokens * (step * values if span.is_decode else prompt),
        weight_bytes=2 * decays,
        kv_bytes=2 * 3 * (4 * values + 2 * 3 * channels),  # read and written
        activation_bytes=2 * tokens * touched,
        serial_depth=1 if span.is_decode else 10,
    )
    expected = {
        **{f"{name} ({tag})": multiplied(tokens, *shape) for name, shape in matrices.items()},
        f"conv ({tag})": (1, Work(2 * 4 * channels * tokens, 2 * 4 * channels, 0, 4 * channels * tokens)),
        f"recurrence ({tag})": (1, carried),
        f"gated norm ({tag})": moved(3 * 2 * tokens * width),
        f"out ({tag})": multiplied(tokens, 100, width),
        f"mixer all-reduce ({tag})": sent(2 * tokens * 100),
    }
    assert_kernels(mixed(mixer, span), expected)


@pytest.mark.parametrize("span", [PROMPT, STEP], ids=["prompt", "step"])
def test_kernels_of_lightning_attention_are_those_worked_out_by_hand(span):
    tokens = 3 if span.is_decode else 30
    carried = Work(  # 4 heads of 16 x 16; products of a chunk of 64 with keys and with values
        flop=tokens * (5 * 1024 if span.is_decode else 4 * 1024 + 64 * 4 * 2 * 16),
        kv_bytes=2 * 3 * 4 * 1024,
        activation_bytes=2 * tokens * 4 * 64,
        serial_depth=1 if span.is_decode else 10,
    )
    expected = {
        "in (lightning)": multiplied(tokens, 4 * 64, 100),
        "recurrence (lightning)": (1, carried),
        "gated norm (lightning)": moved(3 * 2 * tokens * 64),
        "out (lightning)": multiplied(tokens, 100, 64),
        "mixer all-reduce (lightning)": sent(2 * tokens * 100),
    }
    assert_kernels(mixed(Lightning(heads=8, dim=16), span), expected)


def test_kernels_of_a_gated_short_convolution_are_those_worked_out_by_hand():
    # 32 channels, filters of 3: two gates beside; three inputs, an output, the last two inputs read and written
    conv = Work(
        flop=(2 * 3 + 2) * 32 * 30,
        weight_bytes=2 * 3 * 32,
        kv_bytes=2 * 3 * 2 * 2 * 32,
        activation_bytes=4 * 2 * 32 * 30,
    )
    expected = {
        "in (short conv)": multiplied(30, 3 * 32, 100),
        "conv (short conv)": (1, conv),
        "out (short conv)": multiplied(30, 100, 32),
        "mixer all-reduce (short conv)": sent(2 * 30 * 100),
    }
    assert_kernels(mixed(ShortConv(width=64, conv=3), PROMPT), expected)


# --- experts -------------------------------------------------------------------------------------


def test_kernels_of_experts_spread_over_ranks_are_those_worked_out_by_hand():
    # 6 sequences, 3 on each of 2 data-parallel ranks: 30 tokens, 60 pooled; 4 of 8 experts, half of each, on a rank
    assembly = Assembly(deployed(Layer(ATTENTION, EXPERTS), plan=SPREAD), 6.0, 10.0)
    NETWORK_KINDS[MoeFfn].add_kernels(assembly, 1, EXPERTS)
    touched = 4 * (1 - (1 - 2 / 8) ** 60)
    experts = Work(
        flop=2 * 3 * 60 * 100 * 15,
        weight_bytes=touched * 3 * 100 * 15 * 2,
        serial_bytes=2 * (2 * 60 * 100 + 2 * 30 * 100 + 3 * 60 * 15),
        serial_depth=100 + 15,
        items=touched,
    )
    expected = {
        "router": multiplied(30, 8, 100),
        "top-k": moved(4 * 30 * 8),
        "dispatch": sent(1 / 2 * 30 / 2 * 2 * 100 * 2),
        "experts all-gather": sent(1 / 2 * 60 * 100 * 2),
        "experts": (1, experts),
        "experts reduce-scatter": sent(1 / 2 * 60 * 100 * 2),
        "combine": sent(1 / 2 * 30 / 2 * 2 * 100 * 2),
        "shared gate, up": multiplied(30, 2 * 25, 100),
        "shared activation": moved(3 * 2 * 30 * 25),
        "shared down": multiplied(30, 100, 25),
        "shared add": moved(3 * 2 * 30 * 100),
        "ffn all-gather": sent(1 / 2 * 2 * 30 * 100),
    }
    assert_kernels(counted(assembly.kernels), expected)
