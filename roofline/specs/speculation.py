"""Speculative decoding: how many of the proposed tokens a decode step keeps."""

from __future__ import annotations

from itertools import accumulate, pairwise
from operator import mul

from roofline.records import NamedTuple, dataclass

#: How tokens are proposed without a separate draft model -> explanation.
METHODS = {
    "mtp": "multi-token prediction: a module that was trained with the model",
    "eagle": "a head of one layer over hidden states of the model (EAGLE-3)",
    "ngram": "a search for the last tokens in the text so far (prompt lookup)",
}

#: Most tokens proposed before a step.
MOST_DRAFTS = 32


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Probability that each proposal is kept, given that all before it are.

    >>> Acceptance((0.9, 0.8)).tokens  # 1 + 0.9 + 0.9 * 0.8
    2.62
    """

    rates: tuple[float, ...]  # [1] of the first proposal, the second, ...
    source: str = ""

    @property
    def drafts(self) -> int:
        """Proposed tokens per step [tokens]."""
        return len(self.rates)

    @property
    def kept(self) -> tuple[float, ...]:
        """Probability that at least one, two, ... proposals are kept [1]."""
        return tuple(accumulate(self.rates, mul))

    @property
    def tokens(self) -> float:
        r"""Mean tokens per step: the kept proposals and the one that the step itself gives.

        .. math:: \tau = 1 + \sum_{k=1}^{g} \prod_{j \le k} a_j

        Returns:
            Tokens [tokens].

        Source:
            Leviathan et al., arXiv:2211.17192, section 3.1; with equal rates a it is (1 - a^(g+1)) / (1 - a).
        """
        return 1.0 + sum(self.kept)

    @property
    def variance(self) -> float:
        """Variance of the tokens per step, for independent steps [tokens^2]."""
        square = 1.0 + sum((2 * place + 3) * share for place, share in enumerate(self.kept))
        return square - self.tokens**2

    def of(self, drafts: int) -> Acceptance:
        """The same for fewer proposals, or for more that are accepted like the last one."""
        return Acceptance((self.rates + self.rates[-1:] * drafts)[:drafts], self.source)


class AcceptancePreset(NamedTuple):
    """Published rates; `acceptance` derives them from the published tokens per step."""

    method: str
    tokens: tuple[float, ...]  # per step, with one proposal, two, ...
    meaning: str
    source: str

    @property
    def acceptance(self) -> Acceptance:
        """Rate k is the gain in tokens per step from proposal k over the gain from proposal k - 1."""
        gains = [more - less for less, more in pairwise((1.0, *self.tokens))]
        rates = [gains[0], *(more / less for less, more in pairwise(gains))]
        return Acceptance(tuple(rates), self.source)


#: Name in `--acceptance` -> published acceptance.
PRESETS_OF_ACCEPTANCE = {
    "deepseek-r1-mtp": AcceptancePreset(
        "mtp",
        (1.92, 2.58, 2.82, 2.99, 3.01),
        "tokens per step of DeepSeek-R1 with one to five autoregressive MTP layers, strict verification",
        "https://nvidia.github.io/TensorRT-LLM/blogs/tech_blog/"
        "blog1_Pushing_Latency_Boundaries_Optimizing_DeepSeek-R1_Performance_on_NVIDIA_B200_GPUs.html",
    ),
    "deepseek-v3-mtp": AcceptancePreset(
        "mtp",
        (1.875,),
        "the second token is kept in 85 to 90 % of the steps, by topic; the middle of both",
        "https://arxiv.org/abs/2412.19437",
    ),
}
