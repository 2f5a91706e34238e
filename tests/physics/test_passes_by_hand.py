"""Every kernel of small passes worked out by hand: what it multiplies, reads, writes and sends on one of two ranks."""

import pickle
from dataclasses import replace

import pytest
from small_models import (
    ATTENTION,
    DENSE,
    EXPERTS,
    SPREAD,
    assert_kernels,
    counted,
    deployed,
    model,
    moved,
    multiplied,
    sent,
)

from roofline.physics.equation import Terms, Work
from roofline.physics.memory import activation_bytes, weight_bytes
from roofline.physics.passes import Pass, decode_pass, draft_pass, mtp_module, prefill_pass
from roofline.physics.plan import Draft, Plan
from roofline.specs.engine import Acceptance
from roofline.specs.model import DenseFfn, Layer, NoMixer

# --- a whole pass --------------------------------------------------------------------------------


def test_every_kernel_of_a_prefill_is_the_one_worked_out_by_hand():
    # 3 prompts of 10 tokens after 6 cached ones: 30 tokens; 10 x 6 + 55 = 115 pairs each; 2 of 4 heads, 1 of 2 KV heads
    passed = prefill_pass(deployed(Layer(ATTENTION, DENSE)), 3.0, 10.0, 6.0)
    attention = Work(
        flop=2 * 2 * 32 * 3 * 115,
        kv_bytes=3 * 6 * 32 * 2,
        activation_bytes=2 * 30 * 32 * (2 + 1),
        exponentials=2 * 3 * 115,
        serial_depth=16 * 16 / 128,
    )
    expected = {
        "embedding": moved(2 * 30 * 100, 30 * 100 * 2),
        "norm": moved(4 * 2 * 30 * 100, 2 * 100, times=2),
        "qkv": multiplied(30, 32 + 16 + 16, 100),
        "rope, append": (1, Work(kv_bytes=30 * 32 * 2)),
        "attention": (1, attention),
        "o": multiplied(30, 100, 32),
        "attention all-reduce": sent(2 * 1 / 2 * 2 * 30 * 100),
        "gate, up": multiplied(30, 2 * 100, 100),
        "activation": moved(3 * 2 * 30 * 100),
        "down": multiplied(30, 100, 100),
        "ffn all-reduce": sent(2 * 1 / 2 * 2 * 30 * 100),
        "final norm": moved(4 * 2 * 3 * 100, 2 * 100),
        "head": multiplied(3, 500, 100),  # of the last position of each prompt
        "logits all-gather": sent(1 / 2 * 2 * 3 * 1000),
        "sample": moved(4 * 3 * 1000),  # in fp32
    }
    assert_kernels(counted(passed.kernels), expected)
    assert passed.flop == pytest.approx(sum(count * work.flop for count, work in expected.values()))
    assert passed.nbytes == pytest.approx(sum(count * work.nbytes for count, work in expected.values()))
    assert passed.launches == 16
    assert passed.time == pytest.approx(sum(kernel.count * kernel.terms.total for kernel in passed.kernels))


def test_a_decode_step_verifies_three_proposals_of_each_sequence_at_the_head():
    draft = Draft("ngram", Acceptance((0.5,) * 3))
    passed = decode_pass(replace(deployed(Layer(ATTENTION, DENSE)), draft=draft), 3.0, 20.0, 4.0)
    found = counted(passed.kernels)
    assert found["head"] == multiplied(12, 500, 100)
    assert found["sample"] == moved(4 * 12 * 1000)
    assert found["logits all-gather"] == sent(1 / 2 * 2 * 12 * 1000)
    length = (21 + 22 + 23 + 24) / 4
    attention = Work(2 * 2 * 32 * 3 * length * 4, 0, 3 * length * 32 * 2, 2 * 3 * 2 * 32 * 4, serial_depth=length)
    assert found["attention"][1]._asdict() == pytest.approx(attention._asdict())


def test_a_module_proposes_with_its_layer_the_head_and_a_matrix_over_two_inputs():
    deployment = deployed(Layer(NoMixer(), DENSE), Layer(ATTENTION, EXPERTS), mtp_layers=1)
    module = mtp_module(deployment.model)
    draft = Draft("mtp", Acceptance((0.8, 0.8)), module, deployment.quantization, joined=2)
    alone = draft_pass(replace(deployment, draft=draft), 3.0, 20.0, 4.0)
    layer = decode_pass(replace(deployment, model=module), 3.0, 20.0, 4.0)
    found = counted(alone.kernels)
    assert found.pop("draft, join") == multiplied(3, 100, 200)
    assert found == {f"draft, {name}": rest for name, rest in counted(layer.kernels).items()}
    step = counted(decode_pass(replace(deployment, draft=draft), 3.0, 20.0, 4.0).kernels)
    assert {name: rest for name, rest in step.items() if name in found} == {
        name: (2 * count, work) for name, (count, work) in found.items()
    }
    assert draft_pass(deployment, 3.0, 20.0).kernels == ()
    assert draft_pass(replace(deployment, draft=Draft("ngram", Acceptance((0.5,)))), 3.0, 20.0).kernels == ()


def test_a_kernel_whose_terms_are_equal_is_bound_by_the_first_of_them():
    names = ("compute", "memory", "exponentials", "link", "latency")
    plain = prefill_pass(deployed(Layer(ATTENTION, DENSE)), 3.0, 10.0).kernels[0]
    for place, name in enumerate(names):
        terms = Terms(1.0, **{each: 0.5 if each in names[place:] else 0.0 for each in names})
        assert terms.bound == name
        assert Pass((plain._replace(count=1, terms=terms),)).bound == name


def test_several_queries_share_the_cache_and_write_their_part_of_a_state():
    work = Work(10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0)
    assert work.of_queries(4.0) == Work(40.0, 20.0, 30.0, 160.0, 50.0, 240.0, 70.0, 80.0, 90.0, 100.0)
    assert work.of_queries(4.0, 0.5).kv_bytes == 30.0 * (1 + 0.5 * 3)
    assert (work.overlapped_bytes, work.nbytes) == (90.0, 140.0)


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "plan", "per_token"),
    [
        (DENSE, Plan(tp=2), 2 * (4 * 100 + 2 * 100 + 100)),  # four streams, gate and up, what becomes of them
        (DenseFfn(200, gated=False), Plan(), 2 * (4 * 100 + 200 + 200)),
        # 2 of 8 experts over 2 groups of ranks, of twice the tokens: 2 copies in and out with half of three widths; and
        # half of the shared expert
        (EXPERTS, SPREAD, 2 * (4 * 100 + 2 * (2 * 100 + 3 * 15) + 25)),
        (replace(EXPERTS, latent=40), Plan(), 2 * (4 * 100 + 2 * (2 * 40 + 3 * 30) + 50)),
    ],
)
def test_activations_are_those_of_the_widest_point_and_logits_of_every_sequence(network, plan, per_token):
    asked = model(Layer(ATTENTION, network), Layer(ATTENTION, DenseFfn(10)))
    logits = 4 * 3 * 1000 / plan.tp
    assert activation_bytes(asked, plan, 3.0, 50.0) == 150 * per_token + logits
    assert activation_bytes(asked, plan, 3.0, 50.0, 5.0) == 150 * per_token + 5 * logits
    assert activation_bytes(asked, plan, 3.0, 5000.0) == 8192 * per_token + logits


@pytest.mark.parametrize("tied", [True, False])
def test_the_last_of_two_stages_holds_the_head_whether_or_not_it_is_tied(tied):
    deployment = deployed(Layer(ATTENTION, DENSE), Layer(ATTENTION, DENSE), tied=tied)
    layer = 100 * 128 + 64 * 100 + 3 * 100 * 200
    small = 2 * 100  # norms, on every rank
    staged, whole = (
        weight_bytes(deployment.model, Plan(tp=2, pp=stages), deployment.quantization) for stages in (2, 1)
    )
    assert staged == 2 * (layer / 2 + small + 100_000 / 2 + 100)
    assert whole == 2 * (2 * layer / 2 + 2 * small + (1 if tied else 2) * 100_000 / 2 + 100)


def test_a_pass_is_copied_and_shown_by_its_kernels():
    passed = prefill_pass(deployed(Layer(ATTENTION, DENSE)), 3.0, 10.0)
    assert pickle.loads(pickle.dumps(passed)) == passed
    assert repr(Pass(())) == "Pass(kernels=())"
    assert repr(passed) == f"Pass(kernels={passed.kernels!r})"


@pytest.mark.parametrize(("final", "norms"), [(0, 4), (1, 4), (2, 5), (3, 6)])
def test_norms_of_a_pass_are_two_a_layer_and_all_outside_of_layers_but_the_last(final, norms):
    passed = prefill_pass(deployed(Layer(ATTENTION, DENSE), Layer(ATTENTION, DENSE), final_norms=final), 3.0, 10.0)
    assert counted(passed.kernels)["norm"][0] == norms
