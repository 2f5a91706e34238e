"""The answer for two pools: latencies, their parts, and follow-up questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from roofline.analysis.goodput import Goodput
from roofline.analysis.pool_goodput import pool_goodput
from roofline.api.goodput import check_share
from roofline.api.inputs.slo import slo_limits
from roofline.api.levers.one_pool import OnePool, one_pool
from roofline.api.levers.pool_inputs import link_text
from roofline.api.levers.pool_rows import POOL_KEYS, pool_row
from roofline.api.levers.pool_simulation import PoolSimulation, simulation_of_pools
from roofline.api.levers.pool_verdict import limits_beside_latencies, pool_intervals, pool_verdict, verdict_text
from roofline.elements import is_nan
from roofline.errors import BadInput
from roofline.grammar.pools import Pool, pool_text
from roofline.number_types import Json
from roofline.quantity import HOUR, MILLI, rounded, to_text
from roofline.records import dataclass, field, replace
from roofline.roots import largest_that_holds
from roofline.serving.cost import usd_per_m_output_tok
from roofline.serving.disaggregation import PoolRatio, Pools, best_pool_ratio
from roofline.serving.latency import Workload, load_text
from roofline.serving.row import check_keys, listed_keys
from roofline.serving.served import lanes
from roofline.serving.targets import equal_steps, latency_over_requests
from roofline.serving.traffic.load import server_of
from roofline.serving.traffic.pools import Pooled, pool_tails
from roofline.serving.traffic.tails import Tails
from roofline.serving.verdict import LIKELY, PASS, Verdict
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, metric_and_level

if TYPE_CHECKING:
    from roofline.api.inputs.options import Slo


@dataclass(frozen=True, repr=False)
class Disaggregation:
    """Latencies of two pools under a load, and their parts; times in seconds.

    >>> import roofline as rl
    >>> result = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=2000, osl=200, request_rate=4, basis="ideal")
    >>> result
    <Disaggregation llama-3.1-8b, prefill h100-sxm:tp1, decode h100-sxm:tp1: TTFT 38.3 ms, TPOT 4.9 ms, 4 requests/s>
    >>> round(result.util, 2), result.num_gpus
    (0.13, 2)
    >>> result.latency("ttft_p99") > result.ttft, result.best_ratio(max_gpus=8).prefill
    (True, 3)
    >>> result.goodput("tpot:25").rate > 4
    True
    >>> result.simulate(requests=50).requests, result.to_dict(["num_gpus"])
    (50, {'num_gpus': 2})
    """

    pools: Pools = field(repr=False)
    workload: Workload
    found: Pooled = field(repr=False)
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    warnings: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict, repr=False)  # presets given, by pool

    @property
    def model(self) -> Model:
        return self.pools.decode.model

    @property
    def num_gpus(self) -> int:
        return self.pools.num_gpus

    @property
    def texts(self) -> dict[str, str]:
        """Both pools as text, such as ``b200:tp4x2``."""
        texts = {}
        for role in ("prefill", "decode"):
            deployment = getattr(self.pools, role)
            plan = deployment.plan
            degrees = {name: getattr(plan, name) for name in ("pp", "ep", "dp") if getattr(plan, name) > 1}
            copies = deployment.replicas if deployment.replicas > 1 else None
            formats = self.formats.get(role)
            pool = Pool(deployment.gpu.name, plan.tp, **degrees, quantization=formats, replicas=copies)
            texts[role] = pool_text(pool)
        return texts

    @property
    def load(self) -> str:
        """The kind of load: ``concurrency`` or ``request_rate``."""
        return self.workload.load

    @property
    def ttft(self) -> float:
        """Time to first token, mean over requests [s]."""
        return float(self.found.ttft)

    @property
    def tpot(self) -> float | None:
        """Mean time per output token after the first [s]; None for a single output token."""
        return float(self.found.tpot) if self.workload.osl > 1.0 else None

    @property
    def e2el(self) -> float:
        """End-to-end latency [s]."""
        return float(self.found.ttft + self.found.decode)

    @property
    def queue(self) -> float:
        """Part of the TTFT spent waiting for others: prompts, transfers and slots of the decode pool [s]."""
        return float(self.found.prompt_wait + self.found.transfer_wait + self.found.slot_wait)

    @property
    def transfer(self) -> float:
        """Part of the TTFT for the transfer of the KV cache, as far as it is not hidden [s]."""
        return float(self.found.transfer)

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the TTFT [s]."""
        load = self.found
        before = load.ttft - load.prompt - load.prompt_wait - load.transfer - load.transfer_wait
        return {
            "request": float(before - load.step_wait - load.slot_wait),
            "prompts of others": float(load.prompt_wait),
            "prompt": float(load.prompt),
            "transfer": float(load.transfer),
            "transfers of others": float(load.transfer_wait),
            "slot": float(load.slot_wait),
            "decode step": float(load.step_wait),
        }

    @property
    def concurrency(self) -> float:
        """Requests in flight on both pools [requests]."""
        return float(self.found.concurrency)

    @property
    def request_rate(self) -> float:
        """Requests answered [1/s]."""
        return float(self.found.request_rate)

    @property
    def max_request_rate(self) -> float:
        """Saturation: of the pool, or the link, that fills first [1/s]."""
        return float(self.found.max_request_rate)

    @property
    def utils(self) -> dict[str, float]:
        """Utilization of each part: its rate over the largest that it answers alone [1]."""
        load = self.found
        return {
            name: float(load.request_rate / most)
            for name, most in (
                ("prefill", load.max_prefill_rate),
                ("decode", load.max_decode_rate),
                ("link", load.max_link_rate),
            )
        }

    @property
    def util(self) -> float:
        """Utilization of the fullest part [1]."""
        return max(self.utils.values())

    @property
    def output_tok_s(self) -> float:
        """Output tokens per second [1/s]."""
        return self.request_rate * float(self.workload.osl)

    @property
    def output_tok_s_gpu(self) -> float:
        """Output tokens per second, per GPU of both pools [1/s]."""
        return self.output_tok_s / self.num_gpus

    @property
    def usd_per_hour(self) -> float | None:
        """Rent of both pools [USD/h]; None where a price is unknown."""
        prices = [(pool.gpu.price, pool.num_gpus) for pool in (self.pools.prefill, self.pools.decode)]
        if any(price is None for price, _ in prices):
            return None
        return sum(price.typical * HOUR * gpus for price, gpus in prices if price is not None)

    @property
    def usd_per_m_output_tok(self) -> float | None:
        """Rent of both pools per million output tokens [USD]."""
        rent = self.usd_per_hour
        return None if rent is None else float(usd_per_m_output_tok(rent / HOUR, self.output_tok_s))

    @cached_property
    def tails(self) -> Tails | None:
        """Distributions of the latencies over requests; None for a run of `num_prompts`."""
        return None if self.workload.num_prompts is not None else pool_tails(self.pools, self.workload, self.found)

    def latency(self, key: str) -> float | None:
        """A latency by the key of a limit, such as ``ttft`` or ``ttft_p95`` [s] or ``p99_within`` [1].

        None where it does not apply: a TPOT of a single token, a percentile of a run of `num_prompts`; and where the
        closed form of a percentile contradicts its mean.
        """
        metric, level = metric_and_level(key)
        if metric in LATENCIES and (level is None or getattr(self, metric) is None):
            mean: float | None = getattr(self, metric)
            return mean
        if self.tails is None:
            return None
        means = {"ttft": self.ttft, "tpot": self.tpot, "e2el": self.e2el}
        time = float(latency_over_requests(self.tails, means, equal_steps(self.workload), metric, level or 50.0))
        return None if is_nan(time) else time

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]] | None:
        """Ends of the 80 % intervals of TTFT, TPOT and E2EL, by their names [s]; None on the ideal basis."""
        return pool_intervals(self.pools, self.workload, self.found)

    @property
    def slo_shares(self) -> dict[str, float]:
        """Latencies over their limits, by the keys of the SLO [1]; without those that are not known."""
        times = {key: self.latency(key) for key in self.slo}
        return {key: time / self.slo[key] for key, time in times.items() if time is not None}

    @property
    def slo_met(self) -> bool | None:
        """Whether the central estimate meets every limit of the SLO; None without one that applies."""
        judged = self.slo_verdict
        return None if judged is None or judged.binding is None else judged.word in (PASS, LIKELY)

    @cached_property
    def slo_verdict(self) -> Verdict | None:
        """The verdict on the SLO with its reason and the limit that binds; None without an SLO."""
        if not self.slo:
            return None
        return pool_verdict(self.pools, self.workload, self.found, self.slo, self.latency, self.intervals)

    @property
    def verdict(self) -> str | None:
        """``pass``, ``pass?``, ``fail?`` or ``fail``; None without an SLO, or where the case cannot be judged by it.

        It cannot where a limited percentile is not known, and where no limit applies: one token has no TPOT.

        ``pass`` needs a load inside the validated range, and 80 % ranges that end below every limit.
        """
        return None if self.slo_verdict is None else self.slo_verdict.word

    def goodput(self, slo: Slo | None = None, share: float | str | None = None) -> Goodput:
        """The largest Poisson rate at which an SLO is met.

        Args:
            slo: limits as in `predict`; None for those of the case [s].
            share: of the requests that must meet all limits without a percentile together; None: these
                limit means [1].

        Returns:
            The rate, and the limit that binds.

        Raises:
            BadInput: no limits.
        """
        limits = self.slo if slo is None else slo_limits(slo)
        if not limits:
            raise BadInput("goodput needs an SLO: slo='ttft:300ms@p95,tpot:25ms'")
        return pool_goodput(self.pools, self.workload, limits, check_share(share))

    def best_ratio(self, max_gpus: int | None = None) -> PoolRatio | None:
        """Replicas of both pools with the most requests per GPU, within the SLO's limit on TPOT if there is one.

        Args:
            max_gpus: GPUs of all replicas; None for as many as now [1].

        Returns:
            The replicas, and the exact ratio at which neither pool waits; None where the GPUs do not hold one replica
            of each, or where a single sequence misses the limit on TPOT.
        """
        prefill, decode = self.pools.prefill, self.pools.decode
        per_replica = float(self.found.max_prefill_rate) / prefill.replicas
        most = self.num_gpus if max_gpus is None else max_gpus
        rate = self._decode_rate
        if rate == 0.0 or self.workload.osl <= 1.0:
            return None
        return best_pool_ratio(per_replica, rate, prefill.plan.num_gpus, decode.plan.num_gpus, most)

    @cached_property
    def one_pool(self) -> tuple[OnePool, ...]:
        """One pool for the same rent, on each kind of GPU, under the same load."""
        ends = (self.intervals or {}).get("tpot", (1.0, 1.0))
        return one_pool(self.pools, self.workload, self.slo, ends[1] / ends[0])

    def simulate(self, requests: int | None = None, seed: int = 0) -> PoolSimulation:
        """Every pass, transfer and step simulated, compared with the closed forms.

        Args:
            requests: to count; None for enough [requests].
            seed: of the random numbers [1].

        Returns:
            Means and percentiles of the simulation.
        """
        return simulation_of_pools(self, requests, seed)

    def to_dict(self, keys: Sequence[str] | None = None) -> dict[str, Json]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        columns = POOL_KEYS if keys is None else listed_keys(keys)
        check_keys(columns, POOL_KEYS)
        row = pool_row(self)
        return {key: row[key] for key in columns}

    def __str__(self) -> str:
        texts, ratio = self.texts, self.best_ratio()
        head = f"{self.model.short_name}: prefill {texts['prefill']}, decode {texts['decode']}, {self.num_gpus} GPUs"
        tpot = "" if self.tpot is None else f", TPOT {to_text(self.tpot, 's')}"
        parts = [f"{name} {to_text(time, 's')}" for name, time in self.parts.items() if time > self.ttft * MILLI]
        used = ", ".join(f"{name} {share:.0%}" for name, share in self.utils.items())
        lines = [
            f"{head}; {load_text(self.workload)}",
            f"TTFT {to_text(self.ttft, 's')}{tpot}, E2EL {to_text(self.e2el, 's')}",
            f"TTFT = {' + '.join(parts)}; KV cache over {link_text(self.pools.link)}",
            f"busy: {used}; at most {rounded(self.max_request_rate)} requests/s",
        ]
        if self.slo_verdict is not None:
            lines.append(f"SLO: {limits_beside_latencies(self.slo, self.latency)}: {verdict_text(self.slo_verdict)}")
        if ratio is not None:
            lines.append(
                f"neither pool waits at {rounded(ratio.exact)} prefill replicas per decode replica; best of at most "
                f"{self.num_gpus} GPUs: {ratio.prefill} and {ratio.decode}, {rounded(ratio.rate_per_gpu)} requests/s "
                f"per GPU ({rounded(ratio.exact_rate_per_gpu)} at the exact ratio)"
            )
        return "\n".join([*lines, *(alternative.sentence for alternative in self.one_pool)])

    def __repr__(self) -> str:
        texts = self.texts
        tpot = "" if self.tpot is None else f", TPOT {to_text(self.tpot, 's')}"
        pools = f"prefill {texts['prefill']}, decode {texts['decode']}"
        times = f"TTFT {to_text(self.ttft, 's')}{tpot}, {rounded(self.request_rate)} requests/s"
        return f"<Disaggregation {self.model.short_name}, {pools}: {times}>"

    @cached_property
    def _decode_rate(self) -> float:
        """Requests per second of a decode replica, with all slots taken or at the limit on TPOT [1/s]."""
        decode = self.pools.decode
        full_rate = float(self.found.max_decode_rate) / decode.replicas
        limit = self.slo.get("tpot")
        if limit is None:
            return full_rate
        server = server_of(decode, replace(self.workload, concurrency=None, num_prompts=None, request_rate=1.0))
        batch = float(largest_that_holds(lambda b: server.decode(b).total <= limit, float(server.slots)))
        if batch < 1.0:
            return 0.0
        rate_of_rank = batch / (float(server.steps) * float(server.decode(batch).total))
        return min(rate_of_rank * float(lanes(decode)) / decode.replicas, full_rate)
