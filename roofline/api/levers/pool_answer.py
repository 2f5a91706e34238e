"""The answer of two pools: latencies, what they are made of, and the questions that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from roofline.analysis.goodput import Goodput
from roofline.analysis.pool_goodput import pool_goodput
from roofline.api.goodput import DEFAULT_SHARE, check_share
from roofline.api.inputs.slo import slo_limits
from roofline.api.levers.one_pool import OnePool, one_pool
from roofline.api.levers.pool_inputs import link_text
from roofline.api.levers.pool_rows import POOL_KEYS, pool_row
from roofline.api.levers.pool_simulation import PoolSimulation, simulation_of_pools
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
from roofline.serving.traffic.load import server_of
from roofline.serving.traffic.mixture import percentile
from roofline.serving.traffic.pools import Pooled, pool_tails
from roofline.serving.traffic.tails import Tails
from roofline.specs.model import Model
from roofline.specs.slo import LATENCIES, P99_WITHIN, metric_and_level

if TYPE_CHECKING:
    from roofline.api.inputs.options import Slo

__all__ = ["Disaggregation"]


@dataclass(frozen=True, repr=False)
class Disaggregation:
    """Latencies of two pools under a load, and what they are made of; times in seconds.

    >>> import roofline as rl
    >>> found = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=2000, osl=200, request_rate=4, basis="ideal")
    >>> found
    <Disaggregation llama-3.1-8b, prefill h100-sxm:tp1, decode h100-sxm:tp1: TTFT 38.3 ms, TPOT 4.9 ms, 4 requests/s>
    >>> round(found.util, 2), found.num_gpus
    (0.13, 2)
    >>> found.latency("ttft_p99") > found.ttft, found.best_ratio(max_gpus=8).prefill, found.goodput("tpot:25").rate > 4
    (True, 3, True)
    >>> found.simulate(requests=50).requests, found.to_dict(["num_gpus"])
    (50, {'num_gpus': 2})
    """

    pools: Pools = field(repr=False)
    workload: Workload
    found: Pooled = field(repr=False)
    slo: Mapping[str, float] = field(default_factory=dict)  # [s]
    warnings: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict, repr=False)  # presets that were stated, by pool

    @property
    def model(self) -> Model:
        """Model that both pools run."""
        return self.pools.decode.model

    @property
    def num_gpus(self) -> int:
        """GPUs of both pools."""
        return self.pools.num_gpus

    @property
    def texts(self) -> dict[str, str]:
        """Both pools in the one grammar."""
        found = {}
        for role in ("prefill", "decode"):
            deployment = getattr(self.pools, role)
            plan = deployment.plan
            stated = {name: getattr(plan, name) for name in ("pp", "ep", "dp") if getattr(plan, name) > 1}
            copies = deployment.replicas if deployment.replicas > 1 else None
            formats = self.formats.get(role)
            found[role] = pool_text(Pool(deployment.gpu.name, plan.tp, **stated, quantization=formats, replicas=copies))
        return found

    @property
    def load(self) -> str:
        """Which load: concurrency (users who ask again) or request_rate (Poisson arrivals)."""
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
        """Of the TTFT what others cost: prompts, caches on the links, slots of the decode pool [s]."""
        return float(self.found.prompt_wait + self.found.transfer_wait + self.found.slot_wait)

    @property
    def transfer(self) -> float:
        """Of the TTFT what the KV cache takes on its way, as far as it shows [s]."""
        return float(self.found.transfer)

    @property
    def parts(self) -> dict[str, float]:
        """The TTFT, by what it is made of [s]."""
        found = self.found
        before = found.ttft - found.prompt - found.prompt_wait - found.transfer - found.transfer_wait
        return {
            "request": float(before - found.step_wait - found.slot_wait),
            "prompts of others": float(found.prompt_wait),
            "prompt": float(found.prompt),
            "transfer": float(found.transfer),
            "transfers of others": float(found.transfer_wait),
            "slot": float(found.slot_wait),
            "decode step": float(found.step_wait),
        }

    @property
    def concurrency(self) -> float:
        """Requests in flight on both pools [requests]."""
        return float(self.found.concurrency)

    @property
    def request_rate(self) -> float:
        """Requests that both pools answer [1/s]."""
        return float(self.found.request_rate)

    @property
    def max_request_rate(self) -> float:
        """Requests that can be answered at most: by the pool, or the link, that is full first [1/s]."""
        return float(self.found.max_request_rate)

    @property
    def utils(self) -> dict[str, float]:
        """Rate over the largest that each part answers alone [1]."""
        found = self.found
        return {
            name: float(found.request_rate / most)
            for name, most in (
                ("prefill", found.max_prefill_rate),
                ("decode", found.max_decode_rate),
                ("link", found.max_link_rate),
            )
        }

    @property
    def util(self) -> float:
        """Of the fullest of them [1]."""
        return max(self.utils.values())

    @property
    def output_tok_s(self) -> float:
        """Output tokens per second [1/s]."""
        return self.request_rate * float(self.workload.osl)

    @property
    def output_tok_s_gpu(self) -> float:
        """Output tokens per second and GPU of both pools [1/s]."""
        return self.output_tok_s / self.num_gpus

    @property
    def usd_per_hour(self) -> float | None:
        """Rental of both pools [USD/h]; None where a price is not known."""
        prices = [(pool.gpu.price, pool.num_gpus) for pool in (self.pools.prefill, self.pools.decode)]
        if any(price is None for price, _ in prices):
            return None
        return sum(price.typical * HOUR * gpus for price, gpus in prices if price is not None)

    @property
    def usd_per_m_output_tok(self) -> float | None:
        """Rental of both pools over their output [USD per million output tokens]."""
        rent = self.usd_per_hour
        return None if rent is None else float(usd_per_m_output_tok(rent / HOUR, self.output_tok_s))

    @cached_property
    def tails(self) -> Tails | None:
        """Distributions of the latencies over requests; None for a run with its start."""
        return None if self.workload.num_prompts is not None else pool_tails(self.pools, self.workload, self.found)

    def latency(self, key: str) -> float | None:
        """A latency by the key of a limit, such as ``ttft`` or ``ttft_p95`` [s] or ``p99_within`` [1].

        None where it does not apply: a TPOT of a single token, a percentile of a run with its start.
        """
        metric, level = metric_and_level(key)
        if metric in LATENCIES and (level is None or getattr(self, metric) is None):
            mean: float | None = getattr(self, metric)
            return mean
        if self.tails is None:
            return None
        if metric == P99_WITHIN:
            named = [self.tails.ttft] if self.tpot is None else [self.tails.ttft, self.tails.tpot]
            return max(float(percentile(each, 99.0) / percentile(each, 50.0)) for each in named)
        return float(percentile(getattr(self.tails, metric), level or 50.0))

    @property
    def slo_shares(self) -> dict[str, float]:
        """What latencies take of their limits, by the keys of the SLO [1]."""
        times = {key: self.latency(key) for key in self.slo}
        return {key: time / self.slo[key] for key, time in times.items() if time is not None}

    @property
    def slo_met(self) -> bool | None:
        """Whether every limit of the SLO is met; None without one."""
        return all(share <= 1.0 for share in self.slo_shares.values()) if self.slo else None

    def goodput(self, slo: Slo | None = None, share: float | str = DEFAULT_SHARE) -> Goodput:
        """The largest rate of random arrivals at which enough requests meet an SLO.

        Args:
            slo: limits as of `predict`; None for those of the case [s].
            share: of the requests that must meet all limits without a percentile together [1].

        Returns:
            The rate, and what binds there.

        Raises:
            BadInput: no limits.
        """
        limits = self.slo if slo is None else slo_limits(slo)
        if not limits:
            raise BadInput("goodput needs an SLO: slo='ttft:300ms@p95,tpot:25ms'")
        return pool_goodput(self.pools, self.workload, limits, check_share(share))

    def best_ratio(self, max_gpus: int | None = None) -> PoolRatio | None:
        """Replicas of both pools that answer most requests per GPU, within the SLO's limit on TPOT where there is one.

        Args:
            max_gpus: GPUs of all replicas; None for as many as there are [1].

        Returns:
            The replicas, beside the ratio at which neither pool waits; None where not one of each is to be had, or
            where the limit on TPOT is missed by a single sequence.
        """
        prefill, decode = self.pools.prefill, self.pools.decode
        each = float(self.found.max_prefill_rate) / prefill.replicas
        most = self.num_gpus if max_gpus is None else max_gpus
        rate = self._decode_rate
        if rate == 0.0 or self.workload.osl <= 1.0:
            return None
        return best_pool_ratio(each, rate, prefill.plan.num_gpus, decode.plan.num_gpus, most)

    @cached_property
    def one_pool(self) -> tuple[OnePool, ...]:
        """One pool of as high a price on each kind of GPU, under the same load."""
        return one_pool(self.pools, self.workload, self.slo)

    def simulate(self, requests: int | None = None, seed: int = 0) -> PoolSimulation:
        """Every pass, transfer and step simulated, beside the closed forms.

        Args:
            requests: to count; None for enough [requests].
            seed: of the random numbers [1].

        Returns:
            Means and percentiles of the simulation.
        """
        return simulation_of_pools(self, requests, seed)

    def to_dict(self, keys: Sequence[str] | None = None) -> dict[str, Json]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        wanted = POOL_KEYS if keys is None else listed_keys(keys)
        check_keys(wanted, POOL_KEYS)
        row = pool_row(self)
        return {key: row[key] for key in wanted}

    def __str__(self) -> str:
        """The latencies, what the first token is made of, and what one pool would do."""
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
        if ratio is not None:
            lines.append(
                f"neither pool waits at {rounded(ratio.exact)} prefill replicas per decode replica; best of at most "
                f"{self.num_gpus} GPUs: {ratio.prefill} and {ratio.decode}, {rounded(ratio.rate_per_gpu)} requests/s "
                f"per GPU ({rounded(ratio.exact_rate_per_gpu)} at the exact ratio)"
            )
        return "\n".join([*lines, *(one.sentence for one in self.one_pool)])

    def __repr__(self) -> str:
        """The answer in one line."""
        texts = self.texts
        tpot = "" if self.tpot is None else f", TPOT {to_text(self.tpot, 's')}"
        pools = f"prefill {texts['prefill']}, decode {texts['decode']}"
        times = f"TTFT {to_text(self.ttft, 's')}{tpot}, {rounded(self.request_rate)} requests/s"
        return f"<Disaggregation {self.model.short_name}, {pools}: {times}>"

    @cached_property
    def _decode_rate(self) -> float:
        """Requests per second that a decode replica answers, with all slots taken or at the limit on TPOT [1/s]."""
        decode = self.pools.decode
        whole = float(self.found.max_decode_rate) / decode.replicas
        limit = self.slo.get("tpot")
        if limit is None:
            return whole
        server = server_of(decode, replace(self.workload, concurrency=None, num_prompts=None, request_rate=1.0))
        slots = float(server.slots)
        number = float(largest_that_holds(lambda b: server.decode(b).total <= limit, slots))
        if number < 1.0:
            return 0.0
        steps = float(server.steps)
        return min(
            number / (steps * float(server.decode(number).total)) * float(lanes(decode)) / decode.replicas, whole
        )
