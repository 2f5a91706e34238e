"""Fits the start-up constants of engine_specs/vllm.yaml: python accuracy/fit_start_up.py

Copies of the logits in the sampler before and from vLLM 0.16, workspaces before and from 0.20, and communication
buffers, by the least sum of absolute errors of the memory left for the KV cache, on the fitted half of the public logs
(`start_up_rows.py`). What the driver keeps is what nvidia-smi reports less what a process sees.
"""

from __future__ import annotations

from start_up_rows import LoggedStart, logged_starts

from roofline.physics.memory import start_up_memory
from roofline.specs.engine import StartUp
from roofline.specs.versions import place_of
from roofline.support.records import dataclass, replace

_GIB = 1024.0**3
NAMES = ("sampler_old", "sampler_new", "fixed_old", "fixed_new", "linked")
_ROUNDS = 6
_STEPS = (0.5, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 2.0)  # factors that are tried


@dataclass(frozen=True)
class Constants:
    """What is fitted."""

    sampler_old: float = 8.0  # [1]
    sampler_new: float = 5.0  # [1]
    fixed_old: float = 0.2  # [GiB]
    fixed_new: float = 0.2  # [GiB]
    linked: float = 0.5  # [GiB]

    def rule(self, rule: StartUp, version: str) -> StartUp:
        """A rule of a version with these constants."""
        place = place_of(version)
        return replace(
            rule,
            sampler=self.sampler_old if place < place_of("0.16") else self.sampler_new,
            fixed=_GIB * (self.fixed_old if place < place_of("0.20") else self.fixed_new),
            linked=_GIB * self.linked,
        )


def cost(constants: Constants, rows: list[LoggedStart]) -> float:
    """Sum of the absolute errors [GiB], each at most one."""
    total = 0.0
    for start in rows:
        deployment = start.fit.deployment
        assert deployment is not None
        rule = constants.rule(deployment.engine.start_up[0], start.row["version"])
        changed = replace(deployment, engine=replace(deployment.engine, start_up=(rule,)))
        left = start_up_memory(changed).kv_cache / _GIB - float(start.row["kv_cache_gib"])
        total += min(abs(left), 1.0)
    return total


def main() -> None:
    """Print the constants."""
    rows = [
        start
        for start in logged_starts()
        if not start.judges and start.row["engine"] == "vllm" and start.row["kv_cache_gib"] and start.fit.deployment
    ]
    best = Constants()
    least = cost(best, rows)
    for _ in range(_ROUNDS):
        for name in NAMES:
            for factor in _STEPS:
                tried = replace(best, **{name: getattr(best, name) * factor})
                value = cost(tried, rows)
                if value < least:
                    best, least = tried, value
    print(f"{len(rows)} logs, mean absolute error {least / len(rows):.2f} GiB")
    for name in NAMES:
        print(f"{name}: {getattr(best, name):.2f}")


if __name__ == "__main__":
    main()
