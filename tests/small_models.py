"""Small models of which every width is known, and their kernels as tests work them out by hand."""

from dataclasses import replace

import pytest
from conftest import deploy

import roofline as rl
from roofline.physics.assembly import Assembly
from roofline.physics.equation import Work
from roofline.physics.kernels import Span
from roofline.physics.layers.kinds import MIXER_KINDS
from roofline.physics.plan import Plan
from roofline.specs.model import DenseFfn, Gqa, Group, Layer, MoeFfn

#: Prompts of 10 tokens after some cached ones, and four decode steps from 20 tokens on; 3 sequences on a rank.
PROMPT, AFTER, STEP = Span(10.0, 0.0), Span(10.0, 20.0), Span(4.0, 20.0, is_decode=True)
ATTENTION, DENSE = Gqa(heads=4, kv_heads=2, head_dim=16, v_head_dim=16), DenseFfn(200)
EXPERTS = MoeFfn(experts=8, top_k=2, width=30, shared_width=50)
SPREAD = Plan(tp=2, dp=2, ep=2)


def model(*layers, **changes):
    groups = tuple(Group(1, (layer,)) for layer in layers)
    plain = {"hidden": 100, "vocab": 1000, "groups": groups, "tied": False}
    return replace(rl.load_model("llama-3.1-8b"), **{**plain, **changes})


def deployed(*layers, plan=Plan(tp=2), **changes):  # noqa: B008  frozen
    """In 16 bits, under uniform routing."""
    return replace(deploy("llama-3.1-8b", "h100-sxm", plan, routing_skew=None), model=model(*layers, **changes))


def counted(kernels):
    return {kernel.name: (kernel.count, kernel.work) for kernel in kernels}


def mixed(mixer, span):
    """Kernels of a mixer for 3 sequences of a rank."""
    assembly = Assembly(deployed(Layer(mixer, DENSE)), 3.0, 1.0 if span.is_decode else span.new)
    MIXER_KINDS[type(mixer)].add_kernels(assembly, 1, mixer, span)
    return counted(assembly.kernels)


def assert_kernels(found, expected):
    assert list(found) == list(expected)
    for name, (count, work) in expected.items():
        assert found[name][0] == count, name
        assert found[name][1]._asdict() == pytest.approx(work._asdict(), rel=1e-12), name


def multiplied(tokens, columns, inner, times=1):
    """A multiplication in 16 bits: each operand is read once, each result written once."""
    moved = 2 * tokens * inner + 2 * tokens * columns
    return times, Work(2 * tokens * columns * inner, 2 * columns * inner, activation_bytes=moved, depth=inner)


def moved(nbytes, weights=0, times=1):
    return times, Work(weight_bytes=weights, activation_bytes=nbytes)


def sent(nbytes):
    return 1, Work(link_bytes=nbytes)
