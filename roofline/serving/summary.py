"""A prediction as text: one line for a REPL, a summary of one case, a small table of many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, figure_text, span_text
from roofline.numbers.quantity import HOUR, MILLI, counted, rounded, to_text
from roofline.physics.plan import PLAIN_SPREAD
from roofline.serving.latency import Workload, cold_start_text
from roofline.serving.prompts import cached_text, hit_rate, is_a_mixture, load_time
from roofline.serving.quantization import summary
from roofline.serving.shown import (
    deployed_text,
    draft_name,
    plan_text,
    rent_of_a_month,
    verdict_text,
)
from roofline.serving.verdict import DERATED, OUTSIDE, is_pressing
from roofline.specs.engine import HBM
from roofline.specs.load import LASTING, OPTIONS, RUN
from roofline.specs.what_if import is_change
from roofline.specs.workload import (
    LEVELS,
    key_of,
)
from roofline.support.dates import OLD, price_age

if TYPE_CHECKING:
    from roofline.serving.prediction import Prediction
    from roofline.specs.engine import Engine


_ROUNDED = 0.0005  # of the turns: less is shown as none
_WIDTH = 80  # columns of a terminal
_INDENT = " " * 13  # of continuation lines
_MOST_ROWS = 10  # of a table
_LENGTHS = ("isl", "osl", "prefix", *OPTIONS)
_NAMES = {**{name: kind.unit for name, kind in LASTING.items()}, RUN: "requests of a run"}


def prediction_line(prediction: Prediction[Any, Any, Any]) -> str:
    """One line: what runs where, latencies, lengths and load."""
    times = {"TTFT": prediction.ttft, "TPOT": prediction.tpot}
    answer = ", ".join(f"{name} {span_text(time, 's')}" for name, time in times.items() if time is not None)
    end = "" if prediction.basis == "calibrated" else f", {prediction.basis}"
    if prediction.slo_verdict is not None and not _shape(prediction):
        end += f", SLO {prediction.slo_verdict.text}"
    return f"{_title(prediction)}: {answer}; {_count(prediction)}{_case(prediction)}{end}"


def prediction_text(prediction: Prediction[Any, Any, Any], most: int | None = None) -> str:
    """A prediction as text of at most 80 columns; of one case without what matters least, where it has `most` lines."""
    return _table(prediction) if _shape(prediction) else _summary(prediction, most)


#: Labels of a summary by what goes first where lines are scarce: of each the last part, such as the percentiles.
_LEAST_FIRST = (
    "cost", "memory", "E2EL", "knee", "load", "TPOT", "engine", "limit", "queue", "knee", "TTFT", "basis", "memory",
    "derated", "what if", "output", "drafts", "adapters", "offload", "measured", "cost", "workload", "E2EL", "energy",
    "plan",
)  # fmt: skip


def prediction_facts(prediction: Prediction[Any, Any, Any]) -> dict[str, tuple[str, ...]]:
    """What is known of one case, by labels: parts of texts, of which the last may be left out."""
    deployment, workload = prediction.deployment, prediction.workload
    weights, kv, compute = summary(deployment.model, deployment.quantization)
    plan = plan_text(deployment.plan, replicas=deployment.replicas)
    speeds = f"{figure_text(prediction.tok_s_user)} tok/s per user, {figure_text(prediction.output_tok_s)} tok/s, "
    speeds += figure_text(prediction.output_tok_s_gpu)
    facts: dict[str, tuple[str, ...]] = {
        "plan": (f"{plan}; weights {weights}, KV cache {kv}, compute {compute}",),
        "workload": (_workload(prediction),),
        **_said(prediction),
        **_load(prediction),
        **_sessions(prediction),
        **_side_weights(prediction),
        "TTFT": (
            f"{_with_interval(prediction, 'ttft')}, {prediction.prefill.bound}-bound{_prompts(workload)}",
            _percentiles(prediction, "ttft"),
        ),
        **_encoder(prediction),
        "TPOT": (
            f"{_with_interval(prediction, 'tpot')}, {prediction.decode.bound}-bound",
            _percentiles(prediction, "tpot") + _longest_gaps(prediction),
        ),
        **_draft(prediction),
        "E2EL": (_with_interval(prediction, "e2el"), _percentiles(prediction, "e2el")),
        **_slo(prediction),
        "limit": (_limit(prediction),),
        "output": (f"{speeds} tok/s per GPU",),
        **_knee(prediction),
        "memory": _memory(prediction),
        **_experts(prediction),
        "cost": _cost(prediction),
        **_energy_facts(prediction),
        "basis": (prediction.basis_detail,),
        "engine": (_engine(prediction),),
        **_measured(prediction),
    }
    if prediction.tpot is None:
        facts["TPOT"] = ("none: a single output token",)
    return facts


def _summary(prediction: Prediction, most: int | None) -> str:
    deployment, facts = prediction.deployment, prediction_facts(prediction)
    title = _wrapped_lines(deployed_text(deployment, f"({deployment.model.name})"), "  ")
    lines = [*title, *_fact_lines(facts)]
    for label in _LEAST_FIRST:
        if most is None or len(lines) <= most:
            break
        facts[label] = facts.get(label, ())[:-1]
        lines = [*title, *_fact_lines(facts)]
    return "\n".join(lines)


def _energy_facts(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Power and energy, where a power cap, a PUE or a price of energy is stated."""
    gpu = prediction.deployment.gpu
    if gpu.power_cap is None and gpu.electricity is None:
        return {}
    from roofline.serving.energy import energy_facts

    return energy_facts(prediction)


def _fact_lines(facts: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [
        line
        for label, parts in facts.items()
        for number, text in enumerate("".join(parts).split("\n") if parts else ())
        for line in _wrapped_lines(f"  {'' if number else label:<10} {text}", _INDENT)
    ]


def _wrapped_lines(line: str, indent: str) -> list[str]:
    from textwrap import wrap

    return wrap(line, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True)


def _title(prediction: Prediction) -> str:
    deployment = prediction.deployment
    return deployed_text(deployment, summary(deployment.model, deployment.quantization)[0])


def _case(prediction: Prediction) -> str:
    """Lengths and load in a few words."""
    workload = prediction.workload
    parts = [f"isl {span_text(workload.text)}{_media_text(prediction)}", f"osl {span_text(workload.osl)}"]
    if getattr(workload.prefix, "shape", ()) or workload.prefix:
        is_mixed = is_a_mixture(workload.cache)
        parts.append(f"prefix {span_text(workload.prefix)}{' for some requests' if is_mixed else ''}")
    parts.append(workload.load.text(span_text, " in "))
    return ", ".join([*parts, *([] if workload.arrivals is None else [str(workload.arrivals)])])


def _media_text(prediction: Prediction) -> str:
    media = prediction.deployment.media
    return "" if media is None else f" + {media.tokens:,} of {media.text}"


def _encoder(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    if prediction.deployment.media is None:
        return {}
    from roofline.serving.media_shown import encoder_facts

    return encoder_facts(prediction.deployment, prediction.prefill)


def _workload(prediction: Prediction) -> str:
    """Lengths, burst size, how lengths vary, cold starts."""
    workload = prediction.workload
    parts = [f"isl {figure_text(workload.text)}{_media_text(prediction)}", f"osl {figure_text(workload.osl)}"]
    parts += [f"batch {figure_text(workload.batch)}"] if prediction.served is None else []
    parts += _cached(prediction)
    parts += [] if workload.lengths is None else [f"lengths {workload.lengths}"]
    parts += [] if workload.cold_start is None else [cold_start_text(*workload.cold_start)]
    parts += [] if workload.arrivals is None else [str(workload.arrivals)]
    parts += [] if workload.sessions is None else [str(workload.sessions)]
    return ", ".join(parts)


def _cached(prediction: Prediction) -> list[str]:
    """How many tokens of a prompt are cached, where, and for how many requests."""
    workload, deployment = prediction.workload, prediction.deployment
    if not workload.prefix:
        return [] if workload.cache is None else ["none of the prompt cached"]
    isl, prefix = figure_text(workload.isl), figure_text(workload.prefix)
    if workload.cache is None or workload.sessions is not None:
        return [cached_text(isl, prefix)]
    share, time = (float(of(deployment, workload.prefix, workload.cache)) for of in (hit_rate, load_time))
    return [cached_text(isl, prefix, workload.cache.tier, share, f"loads in {to_text(time, 's')}" if time else "")]


def _load(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Users or request rate, utilization, queue."""
    if prediction.served is None:
        return {}
    rate = f"{figure_text(prediction.request_rate)} requests/s"
    stated = prediction.workload.load
    load = stated.flow(rate, figure_text(prediction.concurrency))
    if prediction.workload.think and not stated.is_open:
        load = f"{stated.flow(rate, figure_text(stated.amount))}, {figure_text(prediction.concurrency)} in flight"
    process = prediction.workload.arrivals
    if process is not None and not process.is_poisson:
        load = load.replace(" at random times", " in bunches")
    if stated.is_queue:
        load = f"{stated.text(figure_text)}, answered in {figure_text(prediction.duration, 's')}; {load}"
    elif stated.is_run:
        load += f"{stated.run_text(figure_text, ', in ')} that all users begin together"
    most = f"{_percent(prediction.util)} of the largest, {figure_text(prediction.max_request_rate)}/s"
    requests = (
        f"{counted(figure_text(prediction.running), 'request')} running, {figure_text(prediction.waiting)} waiting"
    )
    return {
        "load": (load, f"; {most}"),
        "queue": (f"{figure_text(prediction.queue, 's')} of the TTFT; {requests}",),
    }


def _sessions(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """What turns find of their context; times of the first, the middle and the last turn, and of a session."""
    times, sessions = prediction.session_times, prediction.workload.sessions
    if times is None or sessions is None:
        return {}
    found, last = times.found, len(times.turns) - 1
    ways = [f"{_percent(found.hit)} of later turns find their context in GPU memory"]
    if prediction.workload.cache is not None and prediction.workload.cache.tier != HBM:
        ways.append(f"{_percent(found.loaded)} load it from {prediction.workload.cache.tier}")
    if found.hit + found.loaded < 1.0 - _ROUNDED:
        ways.append(f"{_percent(1.0 - found.hit - found.loaded)} compute it again")
    some = [times.turns[place] for place in dict.fromkeys((0, last // 2, last))]
    ttft = ", ".join(f"turn {each.turn} {figure_text(each.ttft, 's')}" for each in some)
    waits = f"contexts of {found.waiting:,.0f} tokens wait at a rank, with room for {found.room:,.0f}"
    return {
        "sessions": (
            ", ".join(ways) if last else "no later turns",
            f"\nTTFT: {ttft}; a session takes {figure_text(times.duration, 's')}\n{waits}",
        )
    }


def _percentiles(prediction: Prediction, metric: str) -> str:
    """Percentiles under a load, on a line of their own."""
    if prediction.tails is None:
        return ""
    times = [(level, prediction.latency(key_of(metric, level))) for level in LEVELS]
    text = ", ".join(f"p{level:g} {figure_text(time, 's')}" for level, time in times if time is not None)
    return f"\n{text}" if text else ""


def _longest_gaps(prediction: Prediction) -> str:
    """The p99 of single gaps between tokens, under a load, beside the percentiles of TPOT."""
    time = None if prediction.served is None or prediction.tails is None else prediction.latency("itl_p99")
    return "" if time is None else f"; ITL p99 {figure_text(time, 's')}"


def _draft(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    draft = prediction.deployment.draft
    if draft is None or prediction.itl is None:
        return {}
    proposed = f"{counted(draft.tokens, 'proposed token')}"
    step = f"{rounded(draft.acceptance.tokens)} tokens per step of {figure_text(prediction.itl, 's')} (ITL)"
    return {"drafts": (f"{draft_name(draft)}, {proposed}: {step}",)}


def _slo(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Each limit, the latency compared with it, and the verdict on all of them."""
    judged, slo = prediction.slo_verdict, prediction.slo
    if judged is None:
        return {}
    times = {key: share * slo[key] for key, share in prediction.slo_shares.items()}
    reason = "not validated" if str(judged.reason).startswith(OUTSIDE) else None  # a note has the conditions
    return {"SLO": (verdict_text(judged, slo, times, is_mean=prediction.workload.is_mean, reason=reason),)}


def _limit(prediction: Prediction) -> str:
    """Shares of the hardware limit."""
    shares = prediction.ideal_share
    reached = f"{_percent(shares['prefill'])} of the hardware limit in prefill"
    if prediction.tpot is not None:
        reached += f", {_percent(shares['decode'])} in decode"
    if prediction.basis != "ideal":
        return reached
    return f"these times are the hardware limit; calibrated kernels reach {reached.replace('the hardware limit', 'it')}"


def _knee(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    knees = prediction.knees
    if knees.memory is None:
        return {}
    candidates = {"ridge": knees.ridge, "half": knees.half, "memory": knees.memory, "SLO": knees.slo}
    listed = ", ".join(f"{name} {figure_text(knee)}" for name, knee in candidates.items() if knee is not None)
    listed += (
        ", SLO not known" if knees.slo is None and prediction.slo_verdict and prediction.slo_verdict.binding else ""
    )
    unit = "batch" if prediction.served is None else "users"
    bound = "the SLO" if prediction.knee_bound == "slo" else prediction.knee_bound
    return {"knee": (f"{unit} {figure_text(prediction.knee)}, set by {bound}", f" ({listed})")}


def _memory(prediction: Prediction) -> tuple[str, ...]:
    memory = prediction.memory
    taken = f"weights {figure_text(memory.weights, 'B')}, KV cache {figure_text(memory.kv_cache, 'B')}"
    fits = "yes" if prediction.fits else "no"
    longest = f"longest context {figure_text(prediction.longest_context)} tokens"
    return f"{taken} of {figure_text(memory.usable, 'B')} per GPU; fits: {fits}", f"; {longest}"


def _cost(prediction: Prediction) -> tuple[str, ...]:
    """Hourly rent, and the price per million tokens of each kind."""
    if prediction.usd_per_hour is None:
        return ("no price known",)
    hourly = f"{figure_text(prediction.usd_per_hour)} USD/h"
    if prediction.usd_per_m_output_tok is None:
        return (hourly,)  # pragma: no cover - for the type checker: known wherever a price is
    figures = f"{hourly}, {figure_text(prediction.usd_per_m_output_tok)} USD per million output tokens at this load"
    prices, price, count = prediction.token_prices, prediction.price, prediction.deployment.num_gpus
    if prices is None or price is None:
        return (figures,)  # pragma: no cover - likewise
    kinds = {"input": prices.input, "cached": prices.cached, "decode": prices.output}
    parts = ", ".join(f"{figure_text(value)} {name}" for name, value in kinds.items() if math.isfinite(value))
    low, high = (rounded(rent * HOUR * count) for rent in (price.low, price.high))
    age = price_age(price.source)
    source = price.source if age is None or age <= OLD else f"{price.source} ({age} days ago)"
    rent = source if low == high else f"{source}, {low}-{high} USD/h"
    month = f"{rent_of_a_month(prediction.usd_per_hour):,.0f} USD/month"
    return figures, f"; by the time that each takes {parts}; rent: {rent}, {month}"


def fitted_on(engine: Engine) -> str:
    """The versions that a profile was fitted on, which may be others than the version that it stands for."""
    fitted = ", ".join(part for part in (engine.versions, engine.year) if part)
    return f"profile of {fitted}" if fitted and "@" in engine.name else fitted


def _engine(prediction: Prediction) -> str:
    """Engine, and the versions that its constants were fitted on."""
    engine = prediction.deployment.engine
    if prediction.engine == "none":
        return "none: kernels only"
    fitted = fitted_on(engine)
    words = {
        "max_num_batched_tokens": f"{engine.max_num_batched_tokens} tokens a step",
        "max_num_seqs": f"at most {engine.max_num_seqs} sequences",
        "gpu_memory_utilization": f"{_percent(engine.gpu_memory_utilization)} of the memory",
        "max_model_len": f"requests up to {engine.max_model_len} tokens",
        "network": f"network {to_text(engine.network, 's')}",
    }
    limits = [words[name] for name in engine.stated]
    return ", ".join([engine.name + (f" ({fitted})" if fitted else ""), *limits])


def _side_weights(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Adapters, and weights in host memory."""
    if prediction.deployment.adapters is None and prediction.deployment.offload is None:
        return {}
    from roofline.serving.side_weights import side_weight_facts

    return side_weight_facts(prediction)


def _measured(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Factors of a measurement of this deployment."""
    factors = {"TTFT": prediction.correction.ttft, "TPOT": prediction.correction.tpot}
    corrections = ", ".join(f"{name} x {rounded(factor)}" for name, factor in factors.items() if factor != 1.0)
    return {"measured": (f"scaled by a measurement of this deployment: {corrections}",)} if corrections else {}


def _said(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Warnings that may not wait for ``--notes``, and what was taken from the hardware."""
    lost = [text.removeprefix(DERATED) for text in prediction.said if text.startswith(DERATED)]
    pressing = [text for text in prediction.warnings if is_pressing(text)]
    mark = f"{prediction.deployment.gpu.name}: "
    changed = [text.removeprefix(mark) for text in prediction.deployment.gpu.cautions if is_change(text, mark)]
    return {
        **({"what if": ("; ".join(changed),)} if changed else {}),
        **({"derated": ("; ".join(lost),)} if lost else {}),
        **({"warning": ("; ".join(pressing),)} if pressing else {}),
    }


def _prompts(workload: Workload) -> str:
    """The first token of a burst waits for all of its prompts."""
    return f"; a burst: all {workload.batch:g} prompts together" if workload.batch > 1.0 else ""


def _with_interval(prediction: Prediction, result: str) -> str:
    """A time with its 80 % interval."""
    time, ends = getattr(prediction, result), getattr(prediction, f"{result}_interval")
    interval = (
        "" if time is None or ends is None else f" (80 %: {figure_text(ends[0], 's')} to {figure_text(ends[1], 's')})"
    )
    return figure_text(time, "s") + interval


def _table(prediction: Prediction[Any, Any, Any]) -> str:
    """One row per case, up to `_MOST_ROWS`."""
    numbers = prediction.workload.numbers
    columns = {_NAMES.get(name, name): numbers[name] for name in _LENGTHS if _is_array(numbers.get(name))}
    columns |= {
        "TTFT [ms]": prediction.ttft / MILLI,
        "TPOT [ms]": None if prediction.tpot is None else prediction.tpot / MILLI,
        "E2EL [ms]": prediction.e2el / MILLI,
        "tok/s/GPU": prediction.output_tok_s_gpu,
        "USD/M": prediction.usd_per_m_output_tok,
        "SLO": None if prediction.slo_verdict is None else prediction.slo_verdict.word,
    }
    shape = _shape(prediction)
    flattened = {name: _flat(value, shape) for name, value in columns.items() if value is not None}
    size = math.prod(shape)
    rows = [[_cell(values[place]) for values in flattened.values()] for place in range(min(size, _MOST_ROWS))]
    table = [list(flattened), *rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    more = [f"... {size - _MOST_ROWS} more"] if size > _MOST_ROWS else []
    plan = plan_text(prediction.deployment.plan, replicas=prediction.deployment.replicas)
    heading = f"{_title(prediction)}, {plan}; {_count(prediction)}{_case(prediction)}, {prediction.basis}"
    return "\n".join([*_wrapped_lines(heading, "  "), *lines, *more])


def _is_array(value: Real) -> bool:
    return bool(getattr(value, "shape", ()))


def _shape(prediction: Prediction[Any, Any, Any]) -> tuple[int, ...]:
    """Axes of the cases; () for a single one."""
    return getattr(prediction.ttft, "shape", ())


def _count(prediction: Prediction[Any, Any, Any]) -> str:
    shape = _shape(prediction)
    return f"{' x '.join(map(str, shape))} cases, " if shape else ""


def _flat(values: Real, shape: tuple[int, ...]) -> list[Any]:
    """Elements in the order of the cases; smaller arrays broadcast, and one word is that of all cases."""
    if isinstance(values, str):
        return [values] * math.prod(shape)
    broadcast = values if getattr(values, "shape", ()) == shape else values + 0.0 * _zeros(shape)
    return list(broadcast.ravel().tolist())


def _zeros(shape: tuple[int, ...]) -> Real:
    from roofline.numbers.arrays import as_array

    return as_array("shape", [0.0] * math.prod(shape)).reshape(shape)


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return rounded(value) if math.isfinite(value) else "-"


def _percent(share: Real) -> str:
    return f"{100.0 * share:.0f} %"


def _experts(prediction: Prediction) -> dict[str, tuple[str, ...]]:
    """Balance of the experts and what it costs, half batches, the exchange; where one of them is asked for."""
    if prediction.deployment.spread is PLAIN_SPREAD:
        return {}
    from roofline.serving.expert_balance import balance_text

    return {"experts": balance_text(prediction)}
