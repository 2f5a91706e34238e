"""Separate prefill and decode pools: the `disaggregate` command."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from roofline.api.inputs.case import engine_names
from roofline.api.levers import disaggregate as api
from roofline.api.levers.pool_answer import Disaggregation
from roofline.api.levers.pool_inputs import link_text
from roofline.api.levers.pool_verdict import limits_beside_latencies, verdict_text
from roofline.cli.answers import output_price
from roofline.cli.case import case_options
from roofline.cli.help import Question
from roofline.cli.options import FOR_PROGRAMS, output_options
from roofline.cli.render import show
from roofline.cli.screen import Row, Screen, ScreenColumn, prose
from roofline.cli.values import COUNT, GPU, suggested
from roofline.quantity import MILLI, rounded, to_text

#: Options of a case that the pools state here, or of no use.
_OWN = ("batch", "tp", "pp", "ep", "dp", "num_gpus", "measured", "allow_oversize", "derate")
_SMALL = 0.005  # share of the TTFT below which a part is left out
_BUSY = (("prefill", "prefill_util"), ("decode", "decode_util"), ("link", "link_util"))


@click.command(
    cls=Question,
    epilog="\b\nExamples:\n"
    "  roofline disaggregate -m qwen3-32b --prefill b200:x2 --decode h200 --rate 9\n"
    "  roofline disaggregate -m deepseek-r1 --prefill 8xb200 --decode 8xb200 -c 64\n"
    "  roofline disaggregate -m qwen3-32b --prefill 8xh100 --decode 8xh100 -c 64",
)
@partial(case_options, without=_OWN, of_loads=True, of_pools=True)
@click.option(
    "--prefill",
    type=GPU,
    required=True,
    help="Pool that computes prompts, e.g. b200:tp4x2 (GPU, plan, replicas).",
)
@click.option("--decode", type=GPU, required=True, help="Pool that writes answers, e.g. h200:tp8:fp8x3.")
@click.option("--prefill-engine", type=suggested("engine", engine_names), help="Engine of the prefill pool alone.")
@click.option("--decode-engine", type=suggested("engine", engine_names), help="Engine of the decode pool alone.")
@click.option(
    "--kv-link",
    help="What KV caches move over: nvlink, rdma, pcie, or a rate per GPU such as '50 GB/s'.  "
    "[default: nvlink in one scale-up domain, else rdma]",
)
@click.option("--layerwise", is_flag=True, help="Send the KV cache layer by layer while the prompt is computed.")
@click.option(
    "--prefill-gpu-price", metavar="USD/H", type=float, help="Price of a prefill GPU.  [default: the catalog's]"
)
@click.option(
    "--decode-gpu-price", metavar="USD/H", type=float, help="Price of a decode GPU.  [default: the catalog's]"
)
@click.option("--max-gpus", type=COUNT, help="GPUs for the best ratio of both pools.  [default: as many as there are]")
@output_options
def disaggregate(
    models: tuple[str, ...],
    gpus: tuple[str, ...],
    options: dict[str, Any],
    output_format: str,
    *,
    prefill: str,
    decode: str,
    prefill_engine: str | None,
    decode_engine: str | None,
    kv_link: str | None,
    layerwise: bool,
    prefill_gpu_price: float | None,
    decode_gpu_price: float | None,
    max_gpus: int | None,
) -> None:
    """Latencies, throughput and cost of a prefill pool and a decode pool, beside one pool of the same rent."""
    del gpus
    answers = [
        api.disaggregate(
            model, prefill, decode,
            prefill_engine=prefill_engine, decode_engine=decode_engine, kv_link=kv_link, layerwise=layerwise,
            prefill_gpu_price=prefill_gpu_price, decode_gpu_price=decode_gpu_price, **options,
        )
        for model in models
    ]  # fmt: skip
    rows = [answer.to_dict() for answer in answers]
    if output_format in FOR_PROGRAMS:
        show(Screen(_COLUMNS, rows), output_format, rows)
        return
    for answer, row in zip(answers, rows, strict=True):
        show(_screen(answer, row, max_gpus), output_format)


def _screen(answer: Disaggregation, row: dict[str, Any], max_gpus: int | None) -> Screen:
    """One row for the two pools, then one for a single pool of the same rent on each kind of GPU."""
    apart = {
        "way": "two pools", "num_gpus": answer.num_gpus, "ttft_ms": row["ttft_ms"], "ttft_p99_ms": row["ttft_p99_ms"],
        "tpot_ms": row["tpot_ms"], "max_request_rate": answer.max_request_rate,
    }  # fmt: skip
    others = [
        {
            "way": f"one pool, {pool.gpu}:tp{pool.tp}",
            "num_gpus": float(rounded(pool.num_gpus)) if pool.num_gpus else None,
            "ttft_ms": None if pool.ttft is None else pool.ttft / MILLI,
            "ttft_p99_ms": None if pool.ttft_p99 is None else pool.ttft_p99 / MILLI,
            "tpot_ms": None if pool.tpot is None else pool.tpot / MILLI,
            "max_request_rate": pool.max_request_rate or None,
        }
        for pool in answer.one_pool
    ]
    parts = [f"{name} {to_text(time, 's')}" for name, time in answer.parts.items() if time > _SMALL * answer.ttft]
    texts, ratio = answer.texts, answer.best_ratio(max_gpus)
    verdict = "" if answer.slo_verdict is None else f", SLO {answer.slo_verdict.text}"
    cost = answer.usd_per_m_output_tok
    price = "" if cost is None else f", {output_price(cost)}"
    tpot = "" if answer.tpot is None else f", TPOT {to_text(answer.tpot, 's')}"
    busy = ", ".join(f"{name} {row[key]:.0%}" for name, key in _BUSY)
    lines = [f"TTFT = {' + '.join(parts)}", f"busy: {busy}; KV cache over {link_text(answer.pools.link)}"]
    if answer.slo_verdict is not None:
        limits = limits_beside_latencies(answer.slo, answer.latency)
        lines.insert(0, f"SLO: {limits}: {verdict_text(answer.slo_verdict)}")
    if ratio is not None:
        counted = "; of the SLO, only mean TPOT counts here" if {*answer.slo} - {"tpot"} else ""
        lines.append(
            f"ratio: {rounded(ratio.exact)} prefill replicas per decode replica keep both busy; best whole numbers: "
            f"{ratio.prefill} and {ratio.decode}, {rounded(ratio.rate_per_gpu)} requests/s per GPU (at most "
            f"{rounded(ratio.exact_rate_per_gpu)}){counted}"
        )
    for pool in answer.one_pool:
        answers = pool.ranking if pool.within is None else pool.within.sentence
        lines.append(f"{pool.gpu}: {pool.reason or answers}")
    case = f"{answer.model.short_name}, isl {row['isl']:g}, osl {row['osl']:g}, {_load_text(row)}"
    return Screen(
        columns=_COLUMNS,
        rows=[apart, *others],
        case=f"{case}: prefill {texts['prefill']}, decode {texts['decode']}",
        answer=f"TTFT {to_text(answer.ttft, 's')}{tpot}{verdict}{price}",
        lines=[part for line in lines for part in prose(line).split("\n")],
        notes=answer.warnings,
        is_whole=True,
    )


def _load_text(row: Row) -> str:
    if row["load"] == "concurrency":
        return f"{row['concurrency']:g} users"
    return f"{rounded(float(row['request_rate']))} requests/s"


def _saturation_text(row: Row) -> str:
    most = row.get("max_request_rate")
    return rounded(float(most)) if most else "-"


_COLUMNS = [
    ScreenColumn("way to serve", "way"),
    ScreenColumn("GPUs", "num_gpus"),
    ScreenColumn("TTFT ms", "ttft_ms"),
    ScreenColumn("TTFT p99 ms", "ttft_p99_ms", 2),
    ScreenColumn("TPOT ms", "tpot_ms"),
    ScreenColumn("at most req/s", "max_request_rate", 1, cell=_saturation_text),
]
