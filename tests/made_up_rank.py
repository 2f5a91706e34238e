"""A rank of a server whose times are made up: straight lines, so that a load on it can be worked out on paper."""

from types import SimpleNamespace

from roofline.physics.plan import Plan
from roofline.serving.load.server import PROMPTS_FIRST, Prompt, PromptTimes, Server, StepParts
from roofline.specs.engine import Engine

__all__ = ["PROMPTS_FIRST", "Rank", "prompt_of_length", "rank"]

#: A prompt runs at half its speed among others, a pass costs 4 s more; 1.25 s until a prompt may be computed.
TIMES = {
    "network": 0.25, "request": 1.0, "arrival": 0.5, "prefill": 4.0, "prefill_slowdown": 2.0,
    "handover": 2.0, "max_num_batched_tokens": 203,
}  # fmt: skip


class Rank(Server):
    """A step of b sequences takes 4 + b seconds, 10 + n/10 more of matrices with n tokens of prompts."""

    slots = 64.0

    def decode(self, sequences):
        return StepParts(linear=2.0 + sequences / 2.0, apart=sequences / 2.0, host=2.0)

    def linear(self, sequences, prompt):
        return 2.0 + sequences / 2.0 + (10.0 + prompt / 10.0 if prompt > 0.0 else 0.0)

    def prompt(self, tokens, cached):
        return PromptTimes(
            attention=tokens**2 / 2500.0, head=1.6, alone=13.6 + tokens / 10.0 + tokens**2 / 2500.0, launches=0.0
        )


def rank(isl=50.0, osl=101.0, lengths=None, users=None, cold_start=None, queries=1.0, slots=64.0, **engine):
    """A rank of one GPU, whose answers take a hundred steps."""
    profile = Engine("made up", **{**TIMES, **engine})
    deployment = SimpleNamespace(
        engine=profile,
        effective_engine=profile,
        plan=Plan(),
        queries=queries,
        draft=None,
        replicas=1,
        adapters=None,
        passes=None,
        offload=None,
    )
    others = {} if lengths is None else {"lengths": lengths}
    kind = Rank if slots == Rank.slots else type("Rank", (Rank,), {"slots": slots})
    return kind(deployment, isl, osl, users=users, cold_start=cold_start, **others)


def prompt_of_length(tokens):
    """A prompt of the rank: 1 s of attention, 20 s alone, a head of 1.6 s."""
    return Prompt(tokens * 1.0, attention=1.0, head=1.6, alone=20.0)
