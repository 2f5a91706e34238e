"""Parameters of whole models counted by hand, to the unit: layers, what is beside them, active ones, draft modules."""

from dataclasses import replace

import pytest

import roofline as rl
from roofline.physics.memory import active_parameters, layer_parameters, mtp_parameters, parameters
from roofline.specs.model import DenseFfn, Gqa, Group, Layer, MoeFfn

HIDDEN = 100
ATTENTION = Gqa(heads=4, kv_heads=2, head_dim=16, v_head_dim=16)
DENSE = Layer(ATTENTION, DenseFfn(200))
EXPERTS = Layer(ATTENTION, MoeFfn(experts=10, top_k=3, width=30, shared_width=50, shared_gate=True, expert_bias=True))
OF_ATTENTION = 100 * (64 + 32 + 32) + 64 * 100  # q, k, v, output
OF_DENSE = 3 * 100 * 200
OF_EXPERT = 3 * 100 * 30 + (30 + 30 + 100)  # with biases


def model(*layers, **changes):
    """A model of a layer each, of which every width is known."""
    groups = tuple(Group(1, (layer,)) for layer in layers)
    plain = {"hidden": HIDDEN, "vocab": 1000, "groups": groups, "tied": False, "stated_total": None}
    return replace(rl.load_model("llama-3.1-8b"), **{**plain, **changes})


def test_parameters_of_a_model_are_those_counted_by_hand():
    count = parameters(model(DENSE, EXPERTS))
    assert count._asdict() == {
        "linear": OF_DENSE,
        "attention": 2 * OF_ATTENTION,
        "shared": 3 * 100 * 50,
        "experts": 10 * 3 * 100 * 30,
        "router": 10 * 100 + 100,
        "norm": 2 * 2 * 100 + 100 + 10 * (30 + 30 + 100),
        "embed": 100_000,
        "head": 100_000,
    }
    assert count.total == sum(count)


def test_parameters_of_an_expert_layer_on_a_rank_are_those_counted_by_hand():
    count = layer_parameters(model(EXPERTS), EXPERTS, tp=2, expert_ranks=5)
    assert (count.attention, count.shared, count.experts) == (OF_ATTENTION / 2, 3 * 50 * 50, 3 * 100 * 30 * 10 / 5)
    assert (count.router, count.norm) == (1100, 200 + (30 + 30 + 100) * 10 / 5)


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"tied": True}, -100_000),
        ({"norm_bias": True}, 5 * 100),
        ({"norm_weights": False}, -5 * 100),
        ({"norms": 4}, 2 * 2 * 100),
        ({"final_norms": 2}, 100),
        ({"head_bias": True}, 1000),
        # of a layer two of 3 (3 + 2) weights from 3 x 100, as many biases and 3 scales; 3 x 300, 3, 1 before the head
        ({"streams": 3}, 2 * 2 * (15 * 300 + 15 + 3) + 3 * 300 + 3 + 1),
        ({"streams": 3, "stream_average": True}, 2 * 2 * (15 * 300 + 15 + 3)),
        # gates of rank 7, down and up, wider norms, and 3 x 300 in each of two places of a layer; a gate at the head
        ({"streams": 3, "stream_rank": 7}, 2 * 2 * (2 * 7 * 300 + 200 + 3 * 300) + 2 * 7 * 300 + 200),
    ],
)
def test_what_a_model_has_beside_its_layers_is_what_was_counted_by_hand(changes, more):
    plain = 2 * OF_ATTENTION + 2 * OF_DENSE + 5 * 100 + 200_000
    assert parameters(model(DENSE, DENSE, **changes)).total == plain + more


@pytest.mark.parametrize(
    ("tied", "convention", "left_out"),
    [
        (False, "all", 0),
        (False, "no-embedding", 100_000),
        (False, "no-embedding-no-head", 200_000),
        (True, "no-embedding", 0),  # the table is the head, too
        (True, "no-embedding-no-head", 100_000),
    ],
)
def test_active_parameters_leave_out_seven_of_ten_experts_and_what_a_convention_says(tied, convention, left_out):
    asked = model(DENSE, EXPERTS, tied=tied)
    assert active_parameters(asked, convention) == parameters(asked).total - 7 * OF_EXPERT - left_out


def test_draft_modules_have_a_last_layer_a_matrix_over_two_inputs_and_three_norms():
    layer = OF_ATTENTION + 3 * 100 * 50 + 1100 + 10 * OF_EXPERT
    module = layer + 2 * 100 + 200 * 100 + 3 * 100
    assert mtp_parameters(model(DENSE, EXPERTS, mtp_layers=2)) == 2 * module
    assert mtp_parameters(model(DENSE, EXPERTS, mtp_layers=1, norm_bias=True)) == module + 5 * 100
    assert mtp_parameters(model(DENSE, EXPERTS)) == 0
