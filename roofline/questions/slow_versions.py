"""Versions of engines that are publicly known to be slow: in which part, where, until when, and who says so."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from roofline.measurements.settings import Stated, differences
from roofline.physics.plan import Deployment
from roofline.specs.versions import place_of
from roofline.support.records import NamedTuple

_VERSION = re.compile(r"\d+(?:\.\d+)+(?:rc\d+|\.?post\d+)?")
_DEEPSEEK, _BLACKWELL = r"deepseek-(r1|v3)|kimi-k2", r"b200|b300"


class SlowVersion(NamedTuple):
    """One version, or several in a row, that were slow."""

    engine: str
    first: str
    last: str
    metric: str  # ttft or tpot: the latency that it shows in
    part: str  # as a diagnosis names it
    what: str
    url: str
    fixed: str | None = None  # first version without it, where the source names one
    models: str = ""  # pattern of short names; empty: all
    gpus: str = ""  # pattern of names; empty: all
    least_tp: int = 1

    def holds(self, engine: str | None, version: str | None, deployment: Deployment) -> bool:
        """Whether a server is one of these."""
        match = _VERSION.search(version or "")
        if match is None or engine is None or not engine.startswith(self.engine):
            return False
        return (
            place_of(self.first) <= place_of(match[0]) <= place_of(self.last)
            and re.search(self.models, deployment.model.short_name) is not None
            and re.search(self.gpus, deployment.gpu.name) is not None
            and deployment.plan.tp >= self.least_tp
        )

    @property
    def text(self) -> str:
        versions = self.first if self.first == self.last else f"{self.first} to {self.last}"
        fixed = f"; fixed in {self.fixed}" if self.fixed else ""
        return f"{self.engine} {versions} is known for {self.what}{fixed}: {self.url}"


_VLLM = "https://github.com/vllm-project/vllm"
_TRTLLM = "https://github.com/NVIDIA/TensorRT-LLM"

SLOW_VERSIONS = (
    SlowVersion(
        "vllm", "0.18.0", "0.18.0", "ttft", "kernels",
        "a slower default backend of MLA prefill on Blackwell, which the patch release takes back",
        f"{_VLLM}/releases/tag/v0.18.1", fixed="0.18.1", models=_DEEPSEEK, gpus=_BLACKWELL,
    ),
    SlowVersion(
        "vllm", "0.10.0", "0.10.0", "ttft", "host",
        "a TTFT 33 to 97 % longer than in 0.9.2 at one request (Llama-70B, Qwen-32B on RTX 4090)",
        f"{_VLLM}/issues/21983", models="llama|qwen", gpus="4090", least_tp=2,
    ),
    SlowVersion(
        "vllm", "0.7.0", "0.7.0", "ttft", "kernels",
        "a TTFT three times that of 0.6.1.post2 with prompts of 4k tokens and chunks of 2048 (Llama-3 8B)",
        f"{_VLLM}/issues/14845", models="llama-3",
    ),
    SlowVersion(
        "vllm", "0.6.2", "0.7.2", "tpot", "host",
        "slow steps at batches of 20 and more with tp 1 where requests have penalties, which the CPU computes",
        f"{_VLLM}/issues/13247", models="llama-3", gpus="a100|h100",
    ),
    SlowVersion(
        "vllm", "0.4.2", "0.4.2", "tpot", "host",
        "steps of 48 ms in place of 39 under tensor parallelism in eager mode (Qwen1.5-72B on 8 L20)",
        f"{_VLLM}/issues/4852", fixed="0.5.0", least_tp=2,
    ),
    SlowVersion(
        "trtllm", "1.2.0rc2", "1.2.0rc2", "tpot", "kernels",
        "a major regression of DeepSeek on Blackwell that 1.2.0rc1 does not have",
        f"{_TRTLLM}/issues/9373", models="deepseek-(r1|v3)", gpus=_BLACKWELL,
    ),
    SlowVersion(
        "trtllm", "1.3.0rc5", "1.3.0rc5", "tpot", "kernels",
        "slow activation kernels of GPT-OSS's experts, which came with Triton 3.5.1",
        "https://github.com/SemiAnalysisAI/InferenceX/pull/854", models="gpt-oss",
    ),
    SlowVersion(
        "trtllm", "0.21.0rc2", "0.21.0rc2", "ttft", "host",
        "a TTFT longer than that of 0.19.0 under trtllm-serve (Llama-3.3-70B FP8 on 8 H100)",
        f"{_TRTLLM}/issues/5884", models="llama-3", gpus="h100|h200", least_tp=2,
    ),
    SlowVersion(
        "trtllm", "0.17.0", "0.18.2", "tpot", "kernels",
        "slow all-reduces of NCCL 2.23.4 on hosts with AMD CPUs; NCCL_P2P_LEVEL=SYS is the way around",
        "https://nvidia.github.io/TensorRT-LLM/0.18.2/performance/perf-overview.html", least_tp=2,
    ),
)  # fmt: skip


def known_slow(engine: str | None, version: str | None, deployment: Deployment) -> list[SlowVersion]:
    """What is known against this version of an engine on such a deployment."""
    return [one for one in SLOW_VERSIONS if one.holds(engine, version, deployment)]


def slow_version_notes(
    engine: str | None, version: str | None, deployment: Deployment, late: Collection[str]
) -> list[str]:
    """What is known against this version in a latency that is slower than its range."""
    return [one.text for one in known_slow(engine, version, deployment) if one.metric in late]


def stated_differences(before: Iterable[Any], after: Iterable[Any]) -> tuple[Stated, ...]:
    """Settings, and versions known to be slow, that differ between checks before and after."""
    sides = [list(before), list(after)]
    first, last = (
        [one for run in side[:1] for one in known_slow(run.measured.engine, run.measured.engine_version, _of(run))]
        for side in sides
    )
    return (
        *differences(*([run.measured.settings for run in side] for side in sides)),
        *(Stated(one.part, one.text, -1) for one in first if one not in last),
        *(Stated(one.part, one.text, 1) for one in last if one not in first),
    )


def _of(run: Any) -> Deployment:
    deployment: Deployment = run.expected.deployment
    return deployment
