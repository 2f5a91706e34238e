"""What commands share of an answer: columns of tables, and sentences above them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from roofline.cli.screen import MOST_MS, Row, ScreenColumn, cell_text
from roofline.numbers.quantity import MILLI, counted, rounded, to_text
from roofline.questions.catalog import ANNOUNCED, ROUGH
from roofline.questions.inputs.arguments import OF_REQUESTS, binding_text, limits_words, tokens_of_prefix
from roofline.questions.inputs.arrivals import process_of
from roofline.questions.inputs.case import (
    LASTING,
    LAWS,
    RUN,
    TIERS,
    cached_text,
    cold_start_of,
    cold_start_text,
    lasting,
    preset_name,
)
from roofline.questions.inputs.deployment import PLAN_DEGREES, pool_of
from roofline.questions.inputs.options import OPTIONS
from roofline.questions.inputs.sessions import sessions_of
from roofline.questions.predict import DEFAULT_ENGINE, DEFAULTS, ROW_KEYS, meets
from roofline.support.records import replace

# Sentences above a table: the case, and the answer where there is a load or an SLO.

#: Options of a case by what they say of it, where they are not the default.
_OPTION_TEXTS = {
    "weights": "weights {}",
    "kv_cache_dtype": "KV cache {}",
    "compute": "compute {}",
    "routing": "routing {}",
    "engine": "engine {}",
    "max_num_batched_tokens": "{} tokens a step",
    "max_num_seqs": "at most {} sequences",
    "gpu_memory_utilization": "{} of the memory",
    "max_model_len": "requests up to {} tokens",
    "set": "set {}",
    "derate": "derated {}",
    "assume": "read as {}",
}
#: Keys of a row that say what runs where.
PLAN_KEYS = ("gpu", "num_gpus", *PLAN_DEGREES)
#: Options of a prompt cache by what they say of it.
_CACHE = {
    "cache_bandwidth": ("at {}", "B/s"),
    "cache_size": ("cache of {}", "B"),
    "working_set": ("hits by a working set of {}", "B"),
}


def case_text(
    models: Iterable[str],
    options: Mapping[str, Any],
    formats: Iterable[str] = (),
    end: str = "",
    *,
    load: bool = True,
    is_mean: bool | None = None,
    share: float | None = None,
) -> str:
    """Text such as ``llama-3.1-70b fp8 · 2000 in, 300 out · 64 users``; the format of the weights only if it is one.

    It has every option of the case that is not the default. `is_mean`: a limit without a percentile is on the mean over
    requests; by default where the options have a load. `share`: of the requests, that must meet these limits instead.
    """
    names = tuple(dict.fromkeys(formats))
    model = ", ".join(models) + (f" {names[0]}" if len(names) == 1 and names[0] else "")
    limits = _limits(options.get("slo") or {}, share, is_mean=differ(options) if is_mean is None else is_mean)
    parts = [model, _lengths(options), load_words(options) if load else "", *_unusual(options, names), limits, end]
    if options.get("basis") == "ideal":
        parts.append("hardware limit")
    return " \u00b7 ".join(part for part in parts if part)


def differ(options: Mapping[str, Any]) -> bool:
    """Whether requests differ, so that a latency is a mean over them: under a load, and where some find a cache."""
    some = options.get("cache_hit") not in (None, 0.0, 1.0) or options.get("working_set") is not None
    return some or not lasting(options).is_burst


def _limits(slo: Mapping[str, float], share: float | None, *, is_mean: bool) -> str:
    """Limits in words; with a share, those that it must meet come first."""
    if share is None:
        return limits_words(slo, is_mean=is_mean)
    plain = {key: limit for key, limit in slo.items() if key in OF_REQUESTS}
    rest = {key: limit for key, limit in slo.items() if key not in plain}
    among = f"for {100.0 * share:g} % of requests"
    return ", ".join(part for part in (limits_words(plain, among=among), limits_words(rest, is_mean=True)) if part)


def asked_format(options: Mapping[str, Any]) -> list[str]:
    """The chosen quantizations by their canonical names, or none."""
    names = options.get("quantization")
    listed = names if isinstance(names, list) else [] if names is None else [names]
    return [preset_name(name) if name.lower() != "native" else name for name in listed]


def load_words(options: Mapping[str, Any]) -> str:
    """Text such as ``64 users``, ``4 requests/s`` or ``16 requests at once, idle server``."""
    kind, run = lasting(options), options.get(RUN)
    amount = DEFAULTS["batch"] if options.get(kind.option) is None else options[kind.option]
    end = (
        ", idle server"
        if kind.is_burst
        else ""
        if run is None or kind.is_queue
        else f" in a run of {counted(_number(run), 'request')}"
    )
    return f"{_number(amount)}{kind.one if amount == 1 else kind.many}{end}"


def gpus_text(row: Row) -> str:
    """Text such as ``4x b200``."""
    return f"{row['num_gpus']}x {row['gpu']}" if row.get("num_gpus") else str(row["gpu"])


def plan_of(row: Row) -> str:
    """Text such as ``tp4``, ``tp8 ep8 dp8`` or ``tp2 x4`` (replicas)."""
    if row.get("tp") is None:
        return "-"
    degrees = [f"{name}{row[name]}" for name in PLAN_DEGREES if name == "tp" or (row.get(name) or 1) > 1]
    replicas = (row.get("num_gpus") or ranks_of(row)) // ranks_of(row)
    return " ".join([*degrees, *([f"x{replicas}"] if replicas > 1 else [])])


def ranks_of(row: Row) -> int:
    """GPUs of one replica."""
    return (row.get("tp") or 1) * (row.get("pp") or 1) * (row.get("dp") or 1) * (row.get("cp") or 1)


def deployed_text(row: Row) -> str:
    """Text such as ``8x h100-sxm as tp4 x2``; a single GPU leaves no choice."""
    return gpus_text(row) + (f" as {plan_of(row)}" if (row.get("num_gpus") or 1) > 1 else "")


def is_idle(row: Row) -> bool:
    """Whether a goodput is next to nothing, so that no price at it says anything."""
    from roofline.questions.goodput import IDLE  # only questions about a goodput load what answers them

    return (row.get("goodput_util") or 1.0) < IDLE


def without_idle_prices(row: Row, *, is_load_stated: bool) -> Row:
    """The row as screens show it: without prices at a goodput that is next to nothing."""
    if not is_idle(row):
        return row
    kinds = ("usd_per_m_blended_tok_goodput",) if is_load_stated else ("usd_per_m_", "usd_per_request")
    return {key: None if key.startswith(kinds) else value for key, value in row.items()}


def rent_text(row: Row) -> str:
    """Rent of the GPUs of a row, by the hour and by the month."""
    return f"{rounded(row['usd_per_hour'])} USD/h ({row['usd_per_month']:,.0f} USD/month)"


def output_price(usd: Any) -> str:
    """Rent per million output tokens; the rent over all tokens is another figure."""
    return f"{rounded(usd)} USD/M output tokens"


def named_gpus(gpus: Sequence[str]) -> str:
    return ", ".join(gpus) if gpus else "any GPU of the catalog"


def answer_text(rows: Sequence[Row], options: Mapping[str, Any], gpus: Sequence[str], *, others: bool = False) -> str:
    """The answer in a sentence; empty without a load or an SLO. Rows are best first, `others` stand below the rule.

    `gpus`: as they were asked for, with or without a plan.
    """
    if not rows:
        return ""
    if options.get("slo"):
        return _slo_answer(rows, options, gpus, is_part=others)
    if lasting(options).is_burst:
        return ""
    fastest = rows[0]
    times = ", ".join(_time(fastest, key) for key in ("ttft", "tpot") if fastest.get(f"{key}_ms") is not None)
    util = fastest.get("util")
    busy = "" if util is None else f", at {100.0 * util:.0f} % of its capacity"
    leader = f"{'fastest: ' if len(rows) > 1 else ''}{gpus_text(fastest)}{by_estimate(fastest)}"
    return f"{leader}, {times}{busy}"


def passing(rows: Iterable[Row]) -> list[Row]:
    """Rows that meet the SLO by the central estimate."""
    return [row for row in rows if meets(row.get("slo_verdict"))]


def for_sale(rows: Sequence[Row]) -> list[Row]:
    """Rows of GPUs that are not only announced; all where there is none."""
    return [row for row in rows if row.get("gpu_status") not in ANNOUNCED] or list(rows)


def by_estimate(row: Row) -> str:
    """What a sentence adds to GPUs whose kernels were never timed."""
    return " by a rough estimate" if row.get("basis") in ROUGH else ""


def miss_text(rows: Sequence[Row], options: Mapping[str, Any], gpus: Sequence[str], *, is_part: bool = False) -> str:
    """That none of the rows meets the SLO, and which comes nearest; empty where one does. Others may be `is_part`.

    Where no plan was asked for, more GPUs may meet it: `plan` tells.
    """
    slo, is_mean = options.get("slo") or {}, differ(options)
    if not rows or not slo or passing(rows):
        return ""
    unknown = [row for row in rows if row.get("slo_verdict") is None]
    if len(unknown) == len(rows):
        if all(row.get("slo_binding") is None for row in rows):
            return "no limit of the SLO applies to answers of one token"
        which = f"{gpus_text(rows[0])}{by_estimate(rows[0])}" if len(rows) == 1 else f"of any of {len(rows)}"
        return (
            f"{which}: not known whether it meets the SLO"
            if len(rows) == 1
            else f"not known {which} whether it meets the SLO"
        )
    nearest = min((row for row in rows if row.get("slo_verdict") is not None), key=lambda row: _excess(row, slo))
    latency = _binding(nearest, is_mean=is_mean)
    named = f"{gpus_text(nearest)}{by_estimate(nearest)}" + (f", {latency}" if latency else "")
    tried = "" if _has_plan(options, gpus) else " at its smallest plan (see plan)"
    if len(rows) == 1:
        return f"{gpus_text(nearest)} misses it{by_estimate(nearest)}{tried}" + (f": {latency}" if latency else "")
    known = "is known to meet" if unknown else "meets"
    which = "nearest known miss" if unknown else "nearest"
    none = "neither" if len(rows) == 2 and not is_part else f"none of {len(rows)}{' timed GPUs' if is_part else ''}"
    return f"{none} {known} it{tried}; {which}: {named}"


def others_text(rows: Sequence[Row]) -> str:
    """How many of the rows miss the SLO, and of how many it is not known; empty where all meet it."""
    unknown = sum(row.get("slo_verdict") is None for row in rows)
    missing = len(rows) - len(passing(rows)) - unknown
    counts = ((missing, "miss it"), (unknown, "not known"))
    return ", ".join(f"{count} {text}" for count, text in counts if count)


def _has_plan(options: Mapping[str, Any], gpus: Sequence[str]) -> bool:
    """Whether a number of GPUs or a plan was asked for, as an option or with a GPU."""
    pools = [pool for name in gpus if (pool := pool_of(name, options.get("specs"))) is not None]
    asked = [options, *(pool.options for pool in pools)]
    is_counted = any(each.get(name) is not None for each in asked for name in ("num_gpus", "tp"))
    is_split = any((each.get(name) or 1) not in (1, [1], (1,)) for each in asked for name in PLAN_DEGREES[1:])
    return is_counted or is_split or any(pool.replicas is not None for pool in pools)


def _slo_answer(rows: Sequence[Row], options: Mapping[str, Any], gpus: Sequence[str], *, is_part: bool) -> str:
    """The cheapest GPUs that meet the SLO, or the nearest miss."""
    missed = miss_text(rows, options, gpus, is_part=is_part)
    if missed:
        return missed
    meeting_rows = passing(for_sale(passing(rows)))
    if len(rows) == 1:
        return f"{gpus_text(rows[0])} meets it{by_estimate(rows[0])}: {_binding(rows[0], is_mean=differ(options))}"
    priced = [row for row in meeting_rows if row.get("usd_per_m_output_tok") is not None]
    best = min(priced, key=lambda row: float(row["usd_per_m_output_tok"])) if priced else meeting_rows[0]
    cost = f" at {output_price(best['usd_per_m_output_tok'])}" if priced else ""
    superlative = "cheapest" if priced else "fastest"
    others = others_text(rows)
    rest = f"; {superlative} of {len(meeting_rows)} that do" + (f", {others}" if others else "")
    alone = f", the only one of {len(rows)}"
    return f"{gpus_text(best)} meets it{by_estimate(best)}{cost}{rest if len(meeting_rows) > 1 else alone}"


def _excess(row: Row, slo: Mapping[str, float]) -> float:
    """Largest ratio of a latency over its limit, of the latencies that rows have."""
    times = {key: row.get(f"{key}_ms") for key in slo}
    return max((time * MILLI / slo[key] for key, time in times.items() if time is not None), default=float("inf"))


def _binding(row: Row, *, is_mean: bool) -> str:
    key = row.get("slo_binding")
    if key is None:
        return ""
    name = binding_text(str(key), is_mean=is_mean)
    return f"{name} {_milliseconds(row[f'{key}_ms'])}" if row.get(f"{key}_ms") is not None else f"{name} binds"


def _time(row: Row, key: str) -> str:
    return f"{binding_text(key)} {_milliseconds(row[f'{key}_ms'])}"


def _milliseconds(time: float) -> str:
    """A time [ms] as text; long ones are in seconds."""
    return f"{rounded(time)} ms" if time <= MOST_MS else to_text(time * MILLI, "s")


def _lengths(options: Mapping[str, Any]) -> str:
    """Text such as ``4096 in, 500 out, 1024 of 4096 cached, isl cv 0.5``."""
    law = options.get("lengths")
    is_trace = law is not None and law not in LAWS
    isl, osl = (options.get(name, DEFAULTS[name]) for name in ("isl", "osl"))
    sessions = sessions_of(*(options.get(name) for name in ("turns", "think", "grow", "system")))
    parts = ["lengths of a trace"] if is_trace else [f"{_number(isl)} in", f"{_number(osl)} out"]
    parts = parts if sessions is None else [str(sessions)]
    parts += _media(options)
    if options.get("prefix"):
        parts.append(_cached(options, None if is_trace else isl))
    spread = [f"{name} cv {options[f'{name}_cv']:g}" for name in ("isl", "osl") if options.get(f"{name}_cv")]
    parts += [f"{law} {', '.join(spread)}" if law == LAWS[1] and spread else ", ".join(spread)] if spread else []
    return ", ".join(parts)


def _media(options: Mapping[str, Any]) -> Iterator[str]:
    """Texts such as ``2 images of 1024x1024``."""
    for name, one in (("images", "image"), ("video_frames", "video frame")):
        if options.get(name):
            size = OPTIONS["image_size"].default if options.get("image_size") is None else options["image_size"]
            yield f"{counted(_number(options[name]), one)} of {size}"
    if options.get("audio"):
        yield f"{to_text(options['audio'], 's')} of audio"


def _cached(options: Mapping[str, Any], isl: Any) -> str:
    """Text such as ``4096 of 6144 cached in host memory for 80 % of requests``."""
    prefix = tokens_of_prefix(options["prefix"], isl) if type(isl) in (int, float) else options["prefix"]
    share = options.get("cache_hit")
    known = [(options[name], text, unit) for name, (text, unit) in _CACHE.items() if options.get(name) is not None]
    details = [text.format(value if isinstance(value, str) else to_text(value, unit)) for value, text, unit in known]
    whole = "the prompt" if isl is None else _number(isl)
    tier = options.get("cache_tier") or TIERS[0]
    return cached_text(whole, _number(prefix), tier, 1.0 if share is None else share, ", ".join(details))


def _unusual(options: Mapping[str, Any], formats: Sequence[str]) -> Iterator[str]:
    """What else is not the default: drafts, formats, engine and its limits, hardware lost, cold starts, price."""
    if options.get("draft") is not None:
        settings = [f"{_number(options['draft_tokens'])} tokens"] if options.get("draft_tokens") is not None else []
        kept = options.get("acceptance")
        settings += [] if kept is None else [f"acceptance {kept if isinstance(kept, str) else _number(kept)}"]
        yield f"{options['draft']} drafts" + (f" ({', '.join(settings)})" if settings else "")
    for name, text in _OPTION_TEXTS.items():
        value = options.get(name)
        if value in (None, DEFAULT_ENGINE if name == "engine" else None) or (name == "weights" and formats):
            continue
        yield text.format(f"{100.0 * value:g} %" if name == "gpu_memory_utilization" else _number(value))
    if options.get("network"):
        yield f"network {to_text(options['network'], 's')}"
    process = process_of(options.get("arrivals"), options.get("router"))
    if process is not None:
        yield str(process)
    cold = cold_start_of(options.get("cold_start"))
    if cold is not None:
        yield cold_start_text(*cold)
    price = options.get("gpu_price")
    if price is not None:
        yield f"{'-'.join(map(_number, price)) if isinstance(price, tuple) else _number(price)} USD/h a GPU"


def _number(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_number, value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else cell_text(value)


# Columns that tables share: GPUs, plans, latencies with ranges, verdicts, cost.

_SMALL = 0.01  # shares below get a decimal place


def percent(key: str) -> Callable[[Row], str]:
    """A cell with a share in percent."""

    def cell(row: Row) -> str:
        share = row.get(key)
        if share is None:
            return "-"
        return f"{100.0 * share:.0f}%" if share >= _SMALL or not share else f"{100.0 * share:.1f}%"

    return cell


def percent_column(heading: str, key: str, rank: int = 0) -> ScreenColumn:
    return ScreenColumn(heading, key, rank, cell=percent(key))


def speedup_column(heading: str, key: str, rank: int = 0) -> ScreenColumn:
    return ScreenColumn(heading, key, rank, cell=lambda row: "-" if row.get(key) is None else f"{row[key]:.2f}x")


def _verdict(row: Row) -> str:
    return str(row.get("slo_verdict") or "-")


def _bound_column(key: str) -> ScreenColumn:
    return ScreenColumn("bound by", key, 1, cell=lambda row: str(row.get("refusal") or row.get(key) or "-"))


#: Legend of verdicts that are not certain.
UNSURE = "pass?, fail?: likely, not certain"

#: Why rows stand below the rule.
BELOW_RULE = "not timed, or no rental price known"


def split_by_rule(statuses: Iterable[str], rows: Sequence[Row], *, is_named: bool) -> tuple[list[Row], list[Row]]:
    """Rows above and below the rule; all above where GPUs were named or no row qualifies.

    Above stand shipping GPUs with a known rental price and timed kernels; and where none of them meets the SLO, first
    of all those that do. GPUs that are only announced never lead; of named ones they follow those with their verdict.
    """
    known = list(zip(statuses, rows, strict=True))
    known.sort(key=lambda pair: (is_named and not passing([pair[1]]), pair[0] in ANNOUNCED))  # stable
    is_above = [
        is_named or (status == "shipping" and row["basis"] not in ROUGH and row.get("usd_per_hour") is not None)
        for status, row in known
    ]
    ordered = [row for _, row in known]
    if not any(is_above):
        return ordered, []
    first, others = list(compress(ordered, is_above)), list(compress(ordered, [not above for above in is_above]))
    sold = [row for status, row in known if status not in ANNOUNCED]
    lifted = [] if passing(first) else [row for row in passing(others) if row in sold]
    return [*lifted, *first], [row for row in others if row not in lifted]


GPUS = ScreenColumn("GPU", "gpu", cell=gpus_text, also=("num_gpus", "gpu"))
PLAN = ScreenColumn("plan", "tp", 1, cell=plan_of, also=PLAN_KEYS[1:])
WEIGHTS = ScreenColumn("weights", "weight_dtype", 4)
SLO_MET = ScreenColumn("SLO", "slo_verdict", cell=_verdict)
BOUND = {
    "prefill": _bound_column("prefill_bound"),
    "decode": _bound_column("decode_bound"),
}
HBM = percent_column("HBM", "hbm_used_frac", 7)
TOK_S_USER = ScreenColumn("tok/s/user", "tok_s_user", 3)
TOK_S_GPU = ScreenColumn("tok/s/GPU", "output_tok_s_gpu", 3)
USD_HOUR = ScreenColumn("USD/h", "usd_per_hour", 1)
USD_MONTH = ScreenColumn(
    "USD/month", "usd_per_month", 4,
    cell=lambda row: "-" if row.get("usd_per_month") is None else f"{row['usd_per_month']:,.0f}",
)  # fmt: skip
USD_TOKENS = ScreenColumn("USD/M out", "usd_per_m_output_tok", 2)


def energy_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Power and energy, where a power cap, a PUE or a price of energy is stated."""
    is_priced = options.get("kwh_price") is not None
    if not is_priced and options.get("pue") is None and options.get("power_cap") is None:
        return []
    price = [ScreenColumn("kWh USD/M", "energy_usd_per_m_output_tok", 1)] if is_priced else []
    power = ScreenColumn("W/GPU", "mean_power_w", 2, cell=_power, also=("mean_power_w", "energy_basis"))
    return [power, ScreenColumn("kWh/M out", "kwh_per_m_output_tok", 4), *price]


def _power(row: Mapping[str, Any]) -> str:
    """Mean power of a GPU; at most its TDP where no power was measured."""
    if row.get("mean_power_w") is None:
        return "-"
    return f"{'<' if row['energy_basis'] == 'bound' else ''}{rounded(row['mean_power_w'])}"


def ranked(column: ScreenColumn, rank: int) -> ScreenColumn:
    """A column with another rank; narrow terminals leave out high ranks first."""
    return replace(column, rank=rank)


def model_column(models: int) -> list[ScreenColumn]:
    return [ScreenColumn("model", "model")] if models > 1 else []


def latency(metric: str, options: Mapping[str, Any], rank: int = 0, *, with_range: bool = True) -> list[ScreenColumn]:
    """A latency with its 80 % range: the percentiles that the SLO limits, else the mean."""
    limited = [key for key in options.get("slo") or () if key.startswith(f"{metric}_p") and f"{key}_ms" in ROW_KEYS]
    is_mean = not limited or metric in (options.get("slo") or ())
    columns = []
    for key in [*([metric] if is_mean else []), *limited]:
        name = binding_text(key)
        if with_range and options.get("basis") != "ideal":
            ends = (f"{key}_low_ms", f"{key}_high_ms")
            columns.append(ScreenColumn(f"{name} ms (80 %)", f"{key}_ms", rank, ends))
        else:
            columns.append(ScreenColumn(f"{name} ms", f"{key}_ms", rank))
    share = f"{metric}_light_frac"
    if options.get("basis") == "ideal" and share in ROW_KEYS:
        columns.append(percent_column("reached", share, rank))
    return columns


#: What may vary from row to row -> heading.
VARYING = {
    "weight_dtype": "weights", "kv_cache_dtype": "KV cache", "draft_tokens": "drafts", "isl": "isl", "osl": "osl",
    "prefix": "prefix", "batch": "burst",
    **{name: kind.heading for name, kind in LASTING.items() if name in ROW_KEYS},
}  # fmt: skip
_FORMATS_OF = {"quantization": "weight_dtype", "weights": "weight_dtype"}


def varying_columns(names: Iterable[str]) -> list[ScreenColumn]:
    """What differs between rows: keys, or options of which several values were given; a plan has its own column."""
    keys = dict.fromkeys(_FORMATS_OF.get(name, name) for name in names)
    return [ScreenColumn(VARYING[key], key) for key in keys if key in VARYING]


def with_refusals(columns: Sequence[ScreenColumn], refusals: Sequence[Row]) -> list[ScreenColumn]:
    """Columns; those with the reasons of refusals are never left out."""
    return [ranked(column, 0) if refusals and column in BOUND.values() else column for column in columns]


_RATE, _IN_FLIGHT = ScreenColumn("req/s", "request_rate", 4), ScreenColumn("in flight", "concurrency", 5)


def load_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Utilization under a load, beside the rate for users or the requests in flight for a rate."""
    kind = lasting(options)
    flow = [column for column in (_RATE, _IN_FLIGHT) if column.key in kind.answers]
    return [] if kind.is_burst else [*flow, percent_column("util", "util", 2)]


def verdict_columns(options: Mapping[str, Any]) -> list[ScreenColumn]:
    """Whether the SLO is met, and which limit binds."""
    return [SLO_MET, limit_column("binds", "slo_binding", 3, lambda _: differ(options))] if options.get("slo") else []


def limit_column(
    heading: str, key: str, rank: int, is_mean: Callable[[str], bool], where: str | None = None
) -> ScreenColumn:
    """The limit that binds, in rows that have a value of `where`, if given."""

    def cell(row: Row) -> str:
        is_known = row.get(key) and (where is None or row.get(where))
        return binding_text(row[key], is_mean=is_mean(row[key])) if is_known else "-"

    return ScreenColumn(heading, key, rank, cell=cell, also=(key,) if where is None else (where, key))
