"""Disaggregated serving: latencies with separate prefill and decode pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from roofline.numbers.operations import Json, Real, is_nan, maximum, minimum
from roofline.numbers.quantity import GIGA, HOUR, MILLI, counted, rounded, to_text
from roofline.numbers.roots import largest_that_holds
from roofline.questions.goodput import check_share
from roofline.questions.inputs import case
from roofline.questions.inputs.arguments import (
    number,
    one_case,
    plain_options,
    required_limits,
    slo_limits,
    whole,
    without,
)
from roofline.questions.inputs.case import TRAFFIC, traffic
from roofline.questions.inputs.deployment import check_settings, found_model, pool_of
from roofline.questions.inputs.flags import pool_flags
from roofline.questions.inputs.media import MEDIA, media_of, with_media
from roofline.questions.inputs.options import understood
from roofline.questions.pools import OnePool, deployment_of_pool, kv_link_between, link_text, one_pool
from roofline.questions.predict import DEFAULT_ENGINE, DEFAULTS
from roofline.serving.answers import Answer, selected
from roofline.serving.capacity import Goodput, pool_goodput
from roofline.serving.cost import usd_per_m_output_tok
from roofline.serving.latency import (
    UNIFORM,
    Workload,
    decode,
    lanes,
    lengths_by_law,
    load_text,
    mean_gap,
    prefill,
    time_per_token,
)
from roofline.serving.load.equations import server_of
from roofline.serving.load.limits import equal_steps, latency_over_requests
from roofline.serving.load.pools import (
    Pooled,
    PoolRatio,
    Pools,
    best_pool_ratio,
    outside_pools,
    pool_tails,
    pooled,
    pools_outside,
)
from roofline.serving.load.regions import error_of, nearest, pool_region
from roofline.serving.load.tails import Tails
from roofline.serving.shown import KEYS, rent_of_a_month, times_text, verdict_text
from roofline.serving.verdict import (
    AT_HARDWARE_LIMIT,
    IN_RANGE,
    LIKELY,
    NOT_KERNELS,
    NOT_TIMED,
    PASS,
    POOLED_TPOT,
    Limited,
    Verdict,
    basis_of_range,
    beyond,
    load_sigma,
    pass_sigma,
    served_sigma,
    spread,
    verdict,
    wider,
)
from roofline.specs.gpu import ROUGH, Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells, taken
from roofline.specs.load import LASTING, RUN, Burst, Rate
from roofline.specs.model import Model
from roofline.specs.workload import (
    BETWEEN_TOKENS,
    JUDGED,
    LATENCIES,
    LEVELS,
    Limits,
    key_of,
    limits_text,
    metric_and_level,
)
from roofline.specs.written import DEGREES, Pool, pool_text
from roofline.support.errors import BadInput, NoSteadyState, Overloaded
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.encode_pool import EncodePool
    from roofline.questions.inputs.signatures import Slo, Unlimited


@understood
def disaggregate(
    model: str | Model,
    prefill: str | Gpu,
    decode: str | Gpu,
    *,
    encode: str | Gpu | None = None,
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
    kv_link: str | float | None = None,
    layerwise: bool = False,
    prefill_gpu_price: float | str | None = None,
    decode_gpu_price: float | str | None = None,
    slo: Slo | None = None,
    **options: Unpack[Unlimited],
) -> Disaggregation:
    """Latencies of a model with separate prefill and decode pools.

    Args:
        model: name, alias or record.
        prefill: pool for prompts, such as ``b200:tp4x2``: GPU, plan, formats, replicas.
        decode: pool for answers, such as ``h200:tp8:fp8x3``.
        encode: pool for images, video and audio, such as ``h100:x2``, which holds the encoders alone and sends their
            embeddings over `kv_link`; None: the prefill pool encodes.
        prefill_engine: engine profile of the prefill pool; None for `engine`.
        decode_engine: engine profile of the decode pool; None for `engine`.
        kv_link: link for KV caches: ``nvlink``, ``rdma``, ``pcie``, or its bandwidth per GPU and direction, such as
            ``50 GB/s``, bare numbers in B/s; None for NVLink where one scale-up domain holds both pools, else the
            network at the lower rate of both GPUs [B/s].
        layerwise: send each layer's KV cache while later layers are computed.
        prefill_gpu_price: rent of a GPU of the prefill pool; None for the catalog's [USD/h].
        decode_gpu_price: rent of a GPU of the decode pool; None for the catalog's [USD/h].
        slo: limits as in `predict` [s].
        options: `concurrency` or `request_rate`, lengths, formats and `engine` as in `predict`; formats in a pool's
            text take precedence.

    Returns:
        Latencies, their parts, and the utilization of pools and link.

    Raises:
        UnknownName: no such model, GPU, format, engine or SLO key.
        BadInput: no load, a burst, a link without a bandwidth, or an impossible pool.
        DoesNotFit: the plan of a pool needs more memory than its GPUs have.
        Overloaded: the request rate exceeds the saturation rate.

    >>> import roofline as rl
    >>> result = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=2000, osl=200, request_rate=4, basis="ideal")
    >>> round(result.transfer / (2000 * 131072 / 450e9), 6)  # 131 kB a token over NVLink
    1.0
    """
    asked = pool_case(model, slo, options, prefill_engine, decode_engine)
    plain, workload, record = asked.options, asked.workload, asked.model
    check_settings((prefill, decode), plain)
    first, prefill_notes = deployment_of_pool("prefill", record, prefill, asked.prefill_options, prefill_gpu_price)
    second, decode_notes = deployment_of_pool("decode", record, decode, asked.decode_options, decode_gpu_price)
    pools = Pools(first, second, kv_link_between(first, second, kv_link, layerwise))
    encoding = None
    if encode is not None:
        from roofline.questions.encode_pool import encode_pool, with_encoding

        alone = encode_pool(record, encode, asked.prefill_options, pools.link.bandwidth)
        users = workload.load.users_on(1.0)
        rate = None if users is not None else float(workload.load.rate_on(1.0))
        pools, pooled_load, encoding = with_encoding(pools, alone, lambda both: pooled(both, workload), rate, users)
    else:
        pooled_load = pooled(pools, workload)
    if not pooled_load.is_stable:
        kind = Overloaded if workload.load.is_open else NoSteadyState
        raise kind(_overload_message(pooled_load, workload))
    notes = [*asked.notes]
    if first.quantization.kv_format != second.quantization.kv_format:
        both = f"{first.quantization.kv_format} and {second.quantization.kv_format}"
        notes.append(f"the pools keep KV caches as {both}: converting is taken to be free")
    formats = {}
    for role, text in (("prefill", prefill), ("decode", decode)):
        pool = pool_of(text, plain.get("specs"))
        chosen = None if pool is None else pool.quantization
        if chosen or plain.get("quantization"):
            formats[role] = chosen or plain["quantization"]
    warnings = (*notes, *prefill_notes, *decode_notes, pools_outside(pools, workload, pooled_load))
    return Disaggregation(pools, workload, pooled_load, asked.limits, warnings, formats, encoding)


class PoolCase(NamedTuple):
    """What is asked of two pools, apart from their GPUs."""

    model: Model
    workload: Workload
    limits: Limits
    options: Mapping[str, Any]
    prefill_options: Mapping[str, Any]
    decode_options: Mapping[str, Any]
    notes: tuple[str, ...]


def pool_case(
    model: str | Model,
    slo: Slo | None,
    options: Mapping[str, Any],
    prefill_engine: str | None = None,
    decode_engine: str | None = None,
) -> PoolCase:
    """The case of two pools from keyword arguments of `disaggregate`."""
    own = without("disaggregate", options)
    plain = plain_options({"isl": DEFAULTS["isl"], "osl": DEFAULTS["osl"], "prefix": 0, **own})
    if all(plain.get(name) is None for name in LASTING):
        raise BadInput(f"disaggregate needs a load; give {' or '.join(LASTING)}")
    loads = {name: plain.pop(name, None) for name in (*LASTING, RUN)}
    limits = None if slo is None else slo_limits(slo)
    record, model_notes = found_model(model, plain)
    spreads = {name: plain.get(name) for name in TRAFFIC}
    isl, osl, lengths, cold_start, *_ = traffic(plain["isl"], plain["osl"], **spreads)
    workload = case.workload(isl, osl, None, plain["prefix"], **loads, lengths=lengths, cold_start=cold_start)
    one_case("disaggregate", sum(workload.numbers.values()), "lengths and load")
    held = media_of(record, *(plain.get(name) for name in MEDIA))
    workload = with_media(workload, held)
    if workload.load.is_run and any(key not in LATENCIES for key in limits or ()):
        raise BadInput("percentiles need a steady state: leave out num_prompts, or limit the mean")
    plain["cold_start"] = None  # belongs to the load
    engine = plain.get("engine") or DEFAULT_ENGINE
    decode_options = {**plain, "engine": decode_engine or engine}
    prefill_options = {**plain, "engine": prefill_engine or engine}
    if held is not None:  # the prefill pool encodes; the other one gets their KV cache with that of the text
        decode_options |= {**dict.fromkeys(MEDIA), "isl": float(isl) + held.tokens}
    if lengths is None or lengths.rows is None:  # not a trace
        prefill_options |= {"osl": 1, "osl_cv": None}
    return PoolCase(record, workload, limits or Limits(), plain, prefill_options, decode_options, model_notes)


def _overload_message(load: Pooled, workload: Workload) -> str:
    rates = {
        "the prefill pool": float(load.max_prefill_rate),
        "the decode pool": float(load.max_decode_rate),
        "the link between the pools": float(load.max_link_rate),
    }
    if not workload.load.is_open:
        return f"{NoSteadyState.short} for {workload.load.asked}; ask for fewer, or give more replicas"
    part = min(rates, key=lambda name: rates[name])
    remedy = "a faster link" if part.startswith("the link") else "more replicas"
    return (
        f"{part} answers at most {rounded(rates[part])} requests/s of this kind; "
        f"{workload.load.asked} is too much for it: lower the rate, or give it {remedy}"
    )


# The answer for two pools: latencies, their parts, and follow-up questions.


@dataclass(frozen=True, repr=False)
class Disaggregation(Answer[dict[str, Json]]):
    """Latencies of two pools under a load, and their parts; times in seconds.

    >>> import roofline as rl
    >>> result = rl.disaggregate("llama-3.1-8b", "h100", "h100", isl=2000, osl=200, request_rate=4, basis="ideal")
    >>> result
    <Disaggregation llama-3.1-8b, prefill h100-sxm:tp1, decode h100-sxm:tp1: TTFT 38.3 ms, TPOT 4.9 ms, 4 requests/s>
    >>> round(result.util, 2), result.num_gpus
    (0.13, 2)
    >>> result.load_region, 0.0 < result.load_error("ttft") < 0.2
    ('separate pools, inside', True)
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
    encoding: EncodePool | None = field(default=None, repr=False)  # None: the prefill pool encodes

    @property
    def model(self) -> Model:
        return self.pools.decode.model

    @property
    def num_gpus(self) -> int:
        return self.pools.num_gpus + (0 if self.encoding is None else self.encoding.num_gpus)

    @property
    def texts(self) -> dict[str, str]:
        """Both pools as text, such as ``b200:tp4x2``."""
        texts = {}
        for role in ("prefill", "decode"):
            deployment = getattr(self.pools, role)
            plan = deployment.plan
            degrees = {name: getattr(plan, name) for name in DEGREES[1:] if getattr(plan, name) > 1}
            copies = deployment.replicas if deployment.replicas > 1 else None
            formats = self.formats.get(role)
            pool = Pool(deployment.gpu.name, plan.tp, **degrees, quantization=formats, replicas=copies)
            texts[role] = pool_text(pool)
        return texts if self.encoding is None else {"encode": self.encoding.text, **texts}

    @property
    def load(self) -> str:
        """The kind of load: ``concurrency`` or ``request_rate``."""
        return self.workload.load.name

    @property
    def ttft(self) -> float:
        """Time to first token, mean over requests [s]."""
        return float(self.found.ttft)

    @property
    def tpot(self) -> float | None:
        """Mean time per output token after the first [s]; None for a single output token."""
        return float(self.found.tpot) if self.workload.osl > 1.0 else None

    @property
    def itl(self) -> float | None:
        """Mean inter-token latency, over the gaps of all requests [s]; None for a single output token."""
        if self.tpot is None:
            return None
        return float(mean_gap(self.pools.decode, self.workload, self.found.tpot, self.found.decode))

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
        request, pool, apart = float(before - load.step_wait - load.slot_wait), self.encoding, {}
        if pool is not None:
            request = request - pool.delay
            apart = {"media of others": pool.wait, "encoding": pool.encoding, "embeddings": pool.sending}
        return {
            "request": request,
            **apart,
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
        most = float(self.found.max_request_rate)
        return most if self.encoding is None else min(most, self.encoding.max_rate)

    @property
    def utils(self) -> dict[str, float]:
        """Utilization of each part: its request rate over the largest that it sustains alone [1]."""
        load = self.found
        encoding = () if self.encoding is None else (("encode", self.encoding.max_rate),)
        return {
            name: float(load.request_rate / most)
            for name, most in (
                *encoding,
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
        pools = [self.pools.prefill, self.pools.decode]
        pools += [] if self.encoding is None else [self.encoding.deployment]
        prices = [(pool.gpu.price, pool.num_gpus) for pool in pools]
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
        if self.workload.load.is_run:
            return None
        tails, pool = pool_tails(self.pools, self.workload, self.found), self.encoding
        return tails if pool is None else tails._replace(ttft=pool.spread(tails.ttft), e2el=pool.spread(tails.e2el))

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
        means = {name: getattr(self, name) for name in LATENCIES}
        time = float(latency_over_requests(self.tails, means, equal_steps(self.workload), metric, level or 50.0))
        return None if is_nan(time) else time

    @property
    def load_region(self) -> str:
        """The region of cases like this one, whose errors docs/load.md states."""
        return nearest(self._region)

    def load_error(self, key: str) -> float | None:
        """Error of the closed form against simulation that nine in ten cases of the region stay within [1]."""
        error = error_of(self._region, key)
        return None if is_nan(error) else error

    @property
    def _region(self) -> str:
        conditions = outside_pools(self.pools, self.workload, self.found)
        return pool_region(is_outside=any(fails for fails, _ in conditions))

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
    def slo_text(self) -> str:
        """Each limit that applies, the latency beside it, and the verdict on all of them; empty without an SLO."""
        several = self.tpot is not None
        keys = (key for key in self.slo if several or metric_and_level(key)[0] not in BETWEEN_TOKENS)
        times = {key: self.latency(key) for key in keys}
        return "" if self.slo_verdict is None else verdict_text(self.slo_verdict, self.slo, times)

    @property
    def verdict(self) -> str | None:
        """``pass``, ``pass?``, ``fail?`` or ``fail``; None without an SLO, or where the case cannot be judged.

        It cannot be judged where a percentile with a limit is not known, or where no limit applies: one token has no
        TPOT.

        ``pass`` needs a load inside the validated range, and 80 % ranges that end below every limit.
        """
        return None if self.slo_verdict is None else self.slo_verdict.word

    def goodput(self, slo: Slo | None = None, share: float | str | None = None) -> Goodput:
        """The largest Poisson rate at which an SLO is met.

        Args:
            slo: limits as in `predict`; None for those of the case [s].
            share: share of requests that must meet all limits without a percentile at once; None: these limit means
                [1].

        Returns:
            The rate, and the limit that binds.

        Raises:
            BadInput: no limits.
        """
        if self.encoding is not None:
            raise BadInput("the largest rate beside an encode pool is not searched for; ask at the rates of interest")
        limits = required_limits("goodput", self.slo if slo is None else slo)
        return pool_goodput(self.pools, self.workload, limits, check_share(share, limits))

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
    def own_ratio(self) -> PoolRatio | None:
        """The best ratio on as many GPUs as now."""
        return self.best_ratio()

    @cached_property
    def one_pool(self) -> tuple[OnePool, ...]:
        """One pool for the same rent, on each kind of GPU, under the same load; none beside an encode pool."""
        if self.encoding is not None:
            return ()
        ends = (self.intervals or {}).get("tpot", (1.0, 1.0))
        return one_pool(self.pools, self.workload, self.slo, ends[1] / ends[0])

    def simulate(self, requests: int | None = None, seed: int = 0) -> PoolSimulation:
        """Every pass, transfer and step simulated, compared with the closed forms.

        Args:
            requests: number of requests to count; None for enough [requests].
            seed: seed of the random numbers [1].

        Returns:
            Means and percentiles of the simulation.
        """
        return simulation_of_pools(self, requests, seed)

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Flat row of the JSON contract, or some of its keys; what does not apply is None."""
        return cells(selected(POOL_KEYS, keys), self)

    def __str__(self) -> str:
        texts, ratio = self.texts, self.best_ratio()
        gpus = counted(self.num_gpus, "GPU")
        before = "" if self.encoding is None else f"encode {texts['encode']}, "
        head = f"{self.model.short_name}: {before}prefill {texts['prefill']}, decode {texts['decode']}, {gpus}"
        parts = [f"{name} {to_text(time, 's')}" for name, time in self.parts.items() if time > self.ttft * MILLI]
        used = ", ".join(f"{name} {share:.0%}" for name, share in self.utils.items())
        lines = [
            f"{head}; {load_text(self.workload)}",
            times_text({"ttft": self.ttft, "tpot": self.tpot, "e2el": self.e2el}),
            f"TTFT = {' + '.join(parts)}; KV cache over {link_text(self.pools.link)}",
            f"busy: {used}; at most {rounded(self.max_request_rate)} requests/s",
        ]
        if self.slo_verdict is not None:
            lines.append(f"SLO: {self.slo_text}")
        if ratio is not None:
            lines.append(
                f"neither pool waits at {rounded(ratio.exact)} prefill replicas per decode replica; best of at most "
                f"{self.num_gpus} GPUs: {ratio.prefill} and {ratio.decode}, {rounded(ratio.rate_per_gpu)} requests/s "
                f"per GPU ({rounded(ratio.exact_rate_per_gpu)} at the exact ratio)"
            )
        return "\n".join([*lines, *(alternative.sentence for alternative in self.one_pool)])

    def __repr__(self) -> str:
        pools = ", ".join(f"{role} {text}" for role, text in self.texts.items())
        times = times_text({"ttft": self.ttft, "tpot": self.tpot})
        return f"<Disaggregation {self.model.short_name}, {pools}: {times}, {rounded(self.request_rate)} requests/s>"

    @cached_property
    def _decode_rate(self) -> float:
        """Requests per second of a decode replica, with all slots taken or at the limit on TPOT [1/s]."""
        decode = self.pools.decode
        full_rate = float(self.found.max_decode_rate) / decode.replicas
        limit = min((self.slo[name] for name in BETWEEN_TOKENS if name in self.slo), default=None)
        if limit is None:
            return full_rate
        server = server_of(decode, replace(self.workload, load=Rate(1.0)))
        batch = float(largest_that_holds(lambda b: server.decode(b).total <= limit, float(server.slots)))
        if batch < 1.0:
            return 0.0
        rate_of_rank = batch / (float(server.steps) * float(server.decode(batch).total))
        return min(rate_of_rank * float(lanes(decode)) / decode.replicas, full_rate)


# The answer for two pools as a flat row.

_PERCENTILES = tuple(key_of(name, level) for name in LATENCIES for level in LEVELS)


def _ms(time: float | None) -> float | None:
    return None if time is None else time / MILLI


def _latency(key: str) -> Callable[[Disaggregation], float | None]:
    return lambda d: _ms(d.latency(key))


def _error(key: str) -> Callable[[Disaggregation], float | None]:
    return lambda d: d.load_error(key)


def _part(name: str, meaning: str) -> Key[Disaggregation]:
    return Key.number("ms", meaning, lambda d: _ms(float(getattr(d.found, name))))


def _encode(name: str, meaning: str) -> Key[Disaggregation]:
    return Key.number("ms", meaning, lambda d: None if d.encoding is None else _ms(float(getattr(d.encoding, name))))


def _of_media(answer: Disaggregation, name: str) -> Any:
    deployment = answer.pools.prefill if answer.encoding is None else answer.encoding.deployment
    return None if deployment.media is None else getattr(deployment.media, name)


def _util(part: str, meaning: str) -> Key[Disaggregation]:
    return Key.number("1", meaning, lambda d: d.utils[part])


def _best(kind: Callable[..., Key[Disaggregation]], unit: str, figure: str, meaning: str) -> Key[Disaggregation]:
    return kind(unit, meaning, lambda d: getattr(d.own_ratio, figure, None))


#: Keys of the row of two pools.
POOL_KEYS: Keys[Disaggregation] = {
    **taken(KEYS, model=lambda d: d.model.short_name, model_id=lambda d: d.model.name),
    "prefill_pool": Key.text(
        "Pool that computes prompts: GPU, plan and replicas.", lambda d: d.texts["prefill"], is_open=False
    ),
    "decode_pool": Key.text("Pool that writes answers.", lambda d: d.texts["decode"], is_open=False),
    **taken(KEYS, num_gpus=None),
    "prefill_gpus": Key.integer("1", "GPUs of the prefill pool.", lambda d: d.pools.prefill.num_gpus),
    "decode_gpus": Key.integer("1", "GPUs of the decode pool.", lambda d: d.pools.decode.num_gpus),
    **taken(
        KEYS,
        isl=lambda d: float(d.workload.text),
        osl=lambda d: float(d.workload.osl),
        prefix=lambda d: float(d.workload.prefix),
        isl_cv=lambda d: None if d.workload.lengths is None else d.workload.lengths.prompts.cv,
        osl_cv=lambda d: None if d.workload.lengths is None else d.workload.lengths.answers.cv,
        load=None,
        concurrency=None,
        request_rate=None,
        max_request_rate=None,
        util=None,
    ),
    "prefill_util": _util("prefill", "request_rate over the largest that the prefill pool answers."),
    "decode_util": _util("decode", "request_rate over the largest that the decode pool answers."),
    "link_util": _util("link", "request_rate over the largest that the links between the pools carry."),
    **taken(KEYS, **{f"{key}_ms": _latency(key) for key in (*LATENCIES, *_PERCENTILES)}),
    **taken(KEYS, load_region=None, **{f"load_error_{key}": _error(key) for key in JUDGED}),
    **taken(KEYS, queue_ms=lambda d: _ms(d.queue)),
    "prompt_ms": _part("prompt", "Of the TTFT: one's own prompt on an idle rank."),
    "prompt_wait_ms": _part("prompt_wait", "Of the TTFT: prompts of others."),
    "transfer_ms": Key.number(
        "ms", "Of the TTFT: the KV cache on its way, as far as it shows.", lambda d: _ms(d.transfer)
    ),
    "transfer_wait_ms": _part("transfer_wait", "Of the TTFT: KV caches of others on the same links."),
    "step_wait_ms": _part("step_wait", "Of the TTFT: the end of the decode step that runs."),
    "slot_wait_ms": _part("slot_wait", "Of the TTFT: a slot of the decode pool."),
    "kv_link": Key.text(
        "What KV caches move over: nvlink, rdma, pcie or given.", lambda d: d.pools.link.kind, is_open=False
    ),
    "kv_link_gb_s": Key.number(
        "GB/s",
        "Its bandwidth per GPU and direction; null where it is infinite.",
        lambda d: None if float(d.pools.link.bandwidth) == float("inf") else float(d.pools.link.bandwidth) / GIGA,
    ),
    "layerwise": Key.flag(
        "Whether layers are sent while later ones are computed.", lambda d: d.pools.link.is_layerwise, is_open=False
    ),
    "decode_batch": Key.number(
        "sequences",
        "Sequences of a decode replica that decode together when a request does.",
        lambda d: float(d.found.batch),
    ),
    **taken(
        KEYS,
        output_tok_s=None,
        output_tok_s_gpu=None,
        usd_per_hour=None,
        usd_per_month=lambda d: rent_of_a_month(d.usd_per_hour),
        usd_per_m_output_tok=None,
    ),
    "exact_ratio": _best(
        Key.number, "1", "exact", "Prefill replicas per decode replica at which neither pool waits for the other."
    ),
    "best_prefill_replicas": _best(
        Key.integer, "1", "prefill", "Prefill replicas of the best whole numbers on as many GPUs."
    ),
    "best_decode_replicas": _best(
        Key.integer, "1", "decode", "Decode replicas of the best whole numbers on as many GPUs."
    ),
    "best_rate_per_gpu": _best(
        Key.number, "1/s", "rate_per_gpu", "Requests per second and GPU that these answer at most."
    ),
    **taken(SHARED, slo=lambda d: limits_text(d.slo) if d.slo else None),
    **taken(
        KEYS,
        slo_met=None,
        slo_binding=lambda d: None if d.slo_verdict is None else d.slo_verdict.binding,
        slo_verdict=lambda d: d.verdict,
        slo_reason=lambda d: None if d.slo_verdict is None else d.slo_verdict.reason,
    ),
    "prefill_basis": Key.text("What the figures of the prefill pool stand on.", lambda d: d.pools.prefill.basis),
    "decode_basis": Key.text("What the figures of the decode pool stand on.", lambda d: d.pools.decode.basis),
    **taken(KEYS, warnings=lambda d: list(d.warnings)),
    **taken(
        KEYS,
        media=lambda d: _of_media(d, "text"),
        media_tokens=lambda d: _of_media(d, "tokens"),
    ),
    "encode_pool": Key.text(
        "Pool that encodes images and audio; null where the prefill pool does.", lambda d: d.texts.get("encode")
    ),
    "encode_gpus": Key.integer(
        "1", "Its GPUs; null without one.", lambda d: None if d.encoding is None else d.encoding.num_gpus
    ),
    "encode_util": Key.number(
        "1", "request_rate over the largest that it answers; null without one.", lambda d: d.utils.get("encode")
    ),
    "encode_ms": _encode("encoding", "Of the TTFT: encoding on an idle replica of it; null without one."),
    "encode_wait_ms": _encode("wait", "Of the TTFT: the images and audio of others; null without one."),
    "embeddings_ms": _encode("sending", "Of the TTFT: embeddings on their way to the prefill pool; null without one."),
    "flags": SHARED["flags"]._replace(of=lambda d: pool_flags(d.pools.prefill.engine.name)),
}


# How sure the latencies of two pools are: their 80 % intervals, and the verdict on an SLO.

_Interval = tuple[float, float]


def pool_intervals(pools: Pools, workload: Workload, load: Pooled) -> dict[str, _Interval] | None:
    """Ends of the 80 % intervals of the mean latencies [s]; None on the ideal basis, which is a bound."""
    if is_ideal(pools):
        return None
    single = replace(workload, load=Burst())
    batched = replace(single, load=Burst(load.batch))
    users = load.concurrency / pools.prefill.replicas
    engine, cold = pools.prefill.engine, workload.cold_start
    stated = pools.prefill.effective_engine.network  # by the user, like cold starts: no uncertainty
    stated = stated if cold is None else stated + cold[0] * cold[1]
    own = prefill(pools.prefill, single)
    sigma = load_sigma(own, basis_of_range(pools.prefill), "ttft", load, users, engine.sigma_loaded_ttft)
    sigma = wider(sigma, served_sigma(pools.prefill, "ttft"))
    low, high = spread(load.ttft - stated, sigma)
    least = _least(pools, workload, load)
    first = _around(load.ttft, (low + stated, high + stated), least["ttft"])
    if workload.osl <= 1.0:
        return {"ttft": first, "e2el": first}
    of_step = pass_sigma(decode(pools.decode, batched), basis_of_range(pools.decode), POOLED_TPOT)
    ends = spread(load.tpot, wider(of_step, served_sigma(pools.decode, "tpot")))
    step = _around(load.tpot, ends, least["tpot"])
    low, high = (float(begin + load.decode * (each / load.tpot)) for begin, each in zip(first, step, strict=True))
    ratio = float(mean_gap(pools.decode, workload, load.tpot, load.decode) / load.tpot)
    return {"ttft": first, "tpot": step, "itl": (ratio * step[0], ratio * step[1]), "e2el": (low, high)}


def _least(pools: Pools, workload: Workload, load: Pooled) -> dict[str, Real]:
    """Mean latencies at the hardware limit [s]."""
    single = replace(workload, load=Burst())
    first = prefill(pools.prefill.on("ideal"), single).time
    if workload.osl <= 1.0:
        return {"ttft": first, "e2el": first}
    fastest = decode(pools.decode.on("ideal"), replace(single, load=Burst(load.batch))).time
    step = time_per_token(pools.decode, workload.osl, fastest)
    answer = load.decode * (step / load.tpot)
    gap = mean_gap(pools.decode, workload, step, answer)
    return {"ttft": first, "tpot": step, "itl": gap, "e2el": first + answer}


def is_ideal(pools: Pools) -> bool:
    """Whether the figures are a hardware limit, of either pool."""
    return "ideal" in (pools.prefill.basis, pools.decode.basis)


def pool_verdict(
    pools: Pools,
    workload: Workload,
    load: Pooled,
    slo: Mapping[str, float],
    latency: Callable[[str], float | None],
    intervals: Mapping[str, _Interval] | None,
) -> Verdict:
    """The verdict on an SLO."""
    limited = []
    bases = pools.prefill.basis, pools.decode.basis
    is_timed = not any(basis in ROUGH for basis in bases)
    least: Mapping[str, Real] = {} if is_timed or is_ideal(pools) else _least(pools, workload, load)
    for key, limit in slo.items():
        metric = metric_and_level(key)[0]
        if metric in BETWEEN_TOKENS and workload.osl <= 1.0:
            continue  # does not apply
        time = latency(key)
        if time is None:  # the percentile is not known
            time = float("nan")
        low, high = time, float("inf") if is_ideal(pools) else time
        mean = float(latency(metric) or time) if metric in least or metric in (intervals or ()) else time
        if intervals is not None and metric in intervals:
            low, high = (end * time / mean for end in intervals[metric])
        at_best = least.get(metric, 0.0) * minimum(time / mean, 1.0)
        limited.append(Limited(key, *(share / limit for share in (time, low, high, at_best))))
    if is_ideal(pools):
        return verdict(limited, in_range=AT_HARDWARE_LIMIT, is_mean=True)
    single = replace(workload, load=Burst())
    unchecked = [*outside_pools(pools, workload, load), *beyond(pools.prefill, single)]
    why = NOT_TIMED if "generic" in bases else NOT_KERNELS
    return verdict(limited, unchecked, in_range=IN_RANGE, is_mean=True, is_timed=is_timed, estimate=why)


def _around(time: Real, ends: tuple[Real, Real], least: Real) -> _Interval:
    """Ends of an interval that contains the time, the low end no faster than the hardware limit."""
    return float(minimum(maximum(ends[0], least), time)), float(maximum(ends[1], time))


# Two pools simulated, compared with their closed forms.

_USERS_CV = 0.3 / 3.0**0.5  # equal lengths would keep users in step forever


@dataclass(frozen=True, repr=False)
class PoolSimulation:
    """Means and percentiles over requests of a simulation of two pools."""

    closed: Disaggregation = field(repr=False)
    requests: int
    seed: int
    latencies: Mapping[str, float]  # [s] by the keys of limits, such as `ttft` or `tpot_p99`
    intervals: Mapping[str, tuple[float, float]]  # [s] 95 % intervals of means

    def ratio(self, key: str) -> float | None:
        """Closed form over simulation [1]; None where either does not apply."""
        closed, mean = self.closed.latency(key), self.latencies.get(key)
        return None if closed is None or not mean else closed / mean

    def __repr__(self) -> str:
        pairs = [
            f"{key.upper()} {to_text(self.latencies[key], 's')} (closed form {to_text(closed, 's')})"
            for key in ("ttft", "tpot")
            if (closed := self.closed.latency(key)) is not None and key in self.latencies
        ]
        return f"<PoolSimulation of {self.requests} requests, seed {self.seed}: {', '.join(pairs)}>"


def simulation_of_pools(closed: Disaggregation, requests: int | None, seed: int) -> PoolSimulation:
    """The case of an answer, simulated; users' lengths vary a little, or they would stay in step."""
    from roofline.serving.load.simulation import Arrivals, intervals, pools_simulated, simulated_latencies

    workload = closed.workload
    whole("seed", seed)
    if workload.load.is_run:
        raise BadInput("a simulation of two pools knows the steady state alone; leave out num_prompts")
    rate = workload.load.rate_on(1.0)
    stated = workload.load.users_on(1.0)
    users = 1 if stated is None else round(stated)
    if stated not in (None, users):
        raise BadInput(f"a simulation has whole users; concurrency = {stated:g}")
    count = None if requests is None else int(number("requests", requests, 1.0, 10_000_000.0))
    cv = 0.0 if workload.load.is_open else _USERS_CV
    lengths = workload.lengths or lengths_by_law(UNIFORM, cv, cv)
    finished = pools_simulated(closed.pools, workload, Arrivals(count, rate, users, lengths=lengths, seed=seed))
    return PoolSimulation(closed, len(finished), seed, simulated_latencies(finished), intervals(finished))
