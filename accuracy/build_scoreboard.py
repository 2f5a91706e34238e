"""Judges every prediction against public measurements and writes docs/accuracy.md and docs/accuracy.json.

    pip install ".[accuracy,calibrate]" && python accuracy/build_scoreboard.py

Kernels and servers come from the public wheel `aiconfigurator-core`, static batches and single requests from
tests/measured/published.csv. Takes some three minutes, most of them reading the wheel's kernel tables; with
`--kernels FOLDER` the tables that kernel_rows.py wrote are used. It writes no limits: tests/measured/gates.json,
which the tests hold the medians against, is edited by hand.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cases import Case, Score, is_impossible, offline_cases, predicted, published_cases, score, server_cases, sliced
from kernel_rows import GPUS, kernel_rows, write_tables
from peer_rows import PEERS, read_answers
from pool_rows import pool_cases, pool_rows
from prose import wrapped
from serving_rows import ServingRow, serving_rows

import roofline as rl
from roofline.catalog.find import load_engine, run_by
from roofline.measurements.tables import kernel_groups
from roofline.questions.calibrate import Judged, judged
from roofline.serving.verdict import HALF_WIDTH, INHERITED

DOCS = Path(__file__).parent.parent / "docs"
Table = list[dict[str, Any]]
Answers = dict[str, dict[str, dict[str, Any]]]

#: What the product is asked of a server with users, and what is then compared.
USERS, RUN = "`-c`, a steady state", "`-c` with `--num-prompts`, a run"
#: Which slices are held to their intervals: by size, and the share that must lie inside [%].
SLICE, LEAST, MOST = 50, 70.0, 90.0
#: Kind of kernel and engine that are in the tables by engine alone.
JUDGED_APART = {("elementwise", "sglang"), ("all_reduce", "nccl")}
#: Why an interval misses: part of a slice's name -> cause, the first that fits.
CAUSES = {
    "moe_dispatch": "timed under one engine, on one GPU of each generation: boards of the same chip differ by a quarter",
    "moe_combine": "as dispatch",
    "mla_prefill": "sets of H100 on a GPU with other bandwidth",
    "mla_decode": "sets of H100 on a GPU of 1.4 times its bandwidth",
    "attention_decode": "TensorRT-LLM's kernel of that version reads a long cache at 1.65 times the bandwidth: no set of its own",
    "moe, ep > 1": "one sigma for ranks that share experts and for those that hold all of them, which are half as far off",
    "l40s moe": "as experts with ep > 1, from the other side",
    "a100-sxm-80gb moe": "as experts with ep > 1, from the other side",
    "all_reduce": "sets of single versions, each of some seventy rows: boards of the same chip differ by more than their sigma",
    "all_gather": "NCCL's versions under the set of the newest",
    "all_to_all": "sigma of GB300, widened for a sibling, and the sibling is as near",
    "elementwise": "a pass over what the cache still holds is faster than its bytes",
    "ttft MLA": "DeepSeek on SGLang: first tokens of seconds that no term explains",
    "concurrency-1": "single requests of SGLang's cookbook to models with recurrent layers or many small experts, and "
    "accelerators of which nothing was timed (MI300X, Trainium)",
    "servers: tpot": "one width for all loads and engines: few in flight and experts scatter less than it, SGLang on H200 more",
    "servers: ttft": "one width for an engine: it is set by the sweeps whose runs are not stated",
    "published: ttft": "programs and accelerators of one kind each: their own width would be that of a few rows",
    "published: tpot": "wide for programs without a server, whose hosts differ",
}

HEADINGS = {
    "slice": "slice",
    "split": "split",
    "count": "n",
    "median": "median",
    "mean": "mean",
    "p90": "p90",
    "bias": "bias",
    "coverage": "in 80 %",
    "ideal": "ideal",
}


def kernel_table(folder: Path) -> Table:
    """Rows of the scoreboard for kernels: one a GPU, kind, dtype and version of an engine.

    An engine's kernels are judged by its own sets, those of NCCL by the pooled ones.
    """
    found: Table = []
    for name in GPUS.values():
        gpu = rl.load_gpu(name)
        for path in sorted((folder / name).glob("*.csv")):
            engine, _, version = path.stem.partition("-")
            own = gpu if engine == "nccl" else run_by(gpu, load_engine(f"{engine}@{version}"))
            for group in kernel_groups([str(path)]):
                for basis, calibration in (("own", own.calibration), ("pooled", gpu.calibration)):
                    assert calibration is not None
                    result = judged(group, gpu, calibration)
                    if result is None:
                        continue
                    found += _judged_rows(result, name in gpu.calibration.measured_on, engine, version, basis)
    return found


def _judged_rows(result: Judged, is_fitted: bool, engine: str, version: str, basis: str) -> Iterator[dict[str, Any]]:
    """A judged group; of experts, those that are spread over ranks apart."""
    group = result.group
    spread = [ep > 1 for ep in group.columns.get("ep", [1] * len(group.engines))]
    for is_spread in sorted(set(spread)):
        keep = [each == is_spread for each in spread]
        yield {
            "gpu": group.gpu,
            "kind": f"{group.kind}, ep > 1" if is_spread else group.kind,
            "dtype": group.dtype,
            "engine": engine,
            "version": version,
            "basis": basis,
            "split": "fit" if is_fitted else "held out",
            "logs": [float(value) for value, wanted in zip(result.log_ratios, keep, strict=True) if wanted],
            "ideal_logs": [float(value) for value, wanted in zip(result.ideal_log_ratios, keep, strict=True) if wanted],
            "sigma": result.sigma and result.sigma * (1.0 if is_fitted else INHERITED),
        }


def kernel_rows_of(table: Table, by: Callable[[dict[str, Any]], str]) -> Table:
    """Scores of kernels by a slice."""
    groups: dict[tuple[str, str], Table] = {}
    for row in table:
        groups.setdefault((by(row), row["split"]), []).append(row)
    found = []
    for (name, split), rows in sorted(groups.items()):
        logs = [value for row in rows for value in row["logs"]]
        ideal = [value for row in rows for value in row["ideal_logs"]]
        errors = sorted(100.0 * abs(math.expm1(value)) for value in logs)
        known = [(value, row["sigma"]) for row in rows if row["sigma"] for value in row["logs"]]
        inside = sum(abs(value) <= HALF_WIDTH * sigma for value, sigma in known)
        found.append(
            {
                "slice": name,
                "split": split,
                "count": len(logs),
                "median": statistics.median(errors),
                "mean": statistics.fmean(errors),
                "p90": errors[math.ceil(0.9 * len(errors)) - 1],
                "bias": 100.0 * statistics.median(logs),
                "coverage": 100.0 * inside / len(known) if known else None,
                "ideal": statistics.median(100.0 * abs(math.expm1(value)) for value in ideal),
            }
        )
    return found


def coverage_rows(parts: dict[str, Table]) -> Table:
    """Slices whose interval holds too few or too many, each with the cause."""
    found = []
    for name in ("kernels_by_kind", "servers_ttft_load", "servers_tpot_load", "servers_ttft_kind", "servers_tpot_kind",
                 "servers_ttft_engine", "servers_tpot_engine", "published_metric", "published_kind"):  # fmt: skip
        dataset = name.split("_")[0]
        for row in parts[name]:
            inside = row["coverage"]
            if inside is None or row["count"] < SLICE or LEAST <= inside <= MOST:
                continue
            metric = f"{name.split('_')[1]} " if dataset == "servers" else ""
            text = f"{dataset}: {metric}{row['slice']}"
            cause = next((why for part, why in CAUSES.items() if part in text), "not known")
            found.append({**row, "slice": text, "cause": cause})
    return found


def case_rows(cases: Iterable[Case], by: Callable[[Case], str]) -> Table:
    """Scores of cases by a slice and split."""
    found = []
    for name, members in sliced(cases, by).items():
        for split, rows in sliced(members, lambda case: case.split).items():
            found.append({"slice": name, "split": split, **_figures(score(rows))})
    return found


def _figures(of: Score) -> dict[str, Any]:
    return {name: getattr(of, name) for name in ("count", "median", "mean", "p90", "bias", "coverage", "ideal")}


def arrival_rows(rows: list[ServingRow], runs: list[Case]) -> Table:
    """Scores of servers by what the product was asked."""
    ways = {USERS: server_cases(rows, prompts_per_user=math.inf), RUN: runs}
    return [
        {**row, "slice": f"{row['slice']}: {name}"}
        for name, cases in ways.items()
        for row in case_rows(cases, lambda case: case.metric)
    ]


def peer_answers() -> Answers:
    """What other calculators answer: name of the tool -> name of the row -> ttft and tpot [s], or error."""
    return {peer.name: read_answers(peer.path) for peer in PEERS.values()}


def peer_coverage(rows: list[ServingRow], answers: Answers) -> Table:
    """How many rows each calculator answers."""
    return [
        {
            "tool": name,
            "version": PEERS[name].version,
            "asked": len(rows),
            "answered": sum(_is_answered(row, found) for row in rows),
        }
        for name, found in answers.items()
    ]


def peer_rows(
    rows: list[ServingRow], runs: list[Case], answers: Answers, by: Callable[[Case], str] | None = None
) -> Table:
    """Errors of ours and of other calculators by a slice, on the rows that all answer.

    Args:
        rows: usable runs.
        runs: `server_cases` of them.
        answers: as of `peer_answers`.
        by: name of the slice; None for all rows.

    Returns:
        One record a metric, slice and split; who has the smallest median leads.
    """
    found = []
    for metric in ("ttft", "tpot"):
        cases = [case for case in runs if case.metric == metric]
        groups: dict[tuple[str, str], list[tuple[str, Case]]] = {}
        for row, case in zip(rows, cases, strict=True):
            if all(_is_answered(row, each) for each in answers.values()):
                groups.setdefault((by(case) if by else "all", case.split), []).append((row.name, case))
        for (name, split), members in sorted(groups.items()):
            ours = score(case for _, case in members)
            medians, means = {"ours": ours.median}, {"ours": ours.mean}
            for tool, each in answers.items():
                errors = [100.0 * abs(each[row][metric] / case.measured - 1.0) for row, case in members]
                medians[tool], means[tool] = statistics.median(errors), statistics.fmean(errors)
            found.append(
                {"metric": metric, "slice": name, "split": split, "count": ours.count}
                | {f"{tool} median": median for tool, median in medians.items()}
                | {f"{tool} mean": mean for tool, mean in means.items()}
                | {"ideal median": ours.ideal, "leads": min(medians, key=lambda tool: medians[tool])}
            )
    return found


def _is_answered(row: ServingRow, answers: Mapping[str, Mapping[str, Any]]) -> bool:
    return "ttft" in answers.get(row.name, {})


def _regime(case: Case) -> str:
    if case.load != "loaded":
        return case.load
    return "concurrency 2-8" if case.batch <= 8 else "concurrency 9-64" if case.batch <= 64 else "concurrency > 64"


def _batch(case: Case) -> str:
    return (
        "batch 1"
        if case.batch <= 1
        else "batch 2-8"
        if case.batch <= 8
        else "batch 9-64"
        if case.batch <= 64
        else "batch > 64"
    )


def impossible_rows(rows: Iterable[ServingRow]) -> Table:
    """Rows set aside because their requests take less time than at the hardware limit."""
    found = []
    for row in rows:
        if row.excluded != "impossible":
            continue
        limit = predicted(row, prompts_per_user=None if row.states_prompts else math.inf, basis="ideal")
        gaps = limit.workload.osl - 1.0
        found.append(
            {
                "server": f"{row.engine} {row.engine_version or ''}, {row.model} {row.quantization or ''}, {row.gpu}, tp {row.tp}",
                "split": row.split,
                "load": f"{row.isl}/{row.osl}, {row.concurrency} in flight",
                "measured": row.ttft + gaps * row.tpot,
                "limit": limit.ttft + gaps * limit.tpot,
            }
        )
    return found


def markdown(rows: Table, headings: dict[str, str]) -> str:
    """A table in Markdown, worst median first."""
    if not rows:
        return "(no data)\n"
    kept = {key: text for key, text in headings.items() if any(row.get(key) is not None for row in rows)}
    lines = ["| " + " | ".join(kept.values()) + " |", "|" + "---|" * len(kept)]
    for row in sorted(rows, key=lambda row: -row.get("median", 0.0)):
        lines.append("| " + " | ".join(_cell(row.get(key)) for key in kept) + " |")
    return "\n".join(lines) + "\n"


def _whole(rows: Table) -> str:
    """A table in Markdown with a column for every key."""
    return markdown(rows, {key: key for row in rows for key in row})


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


INTRODUCTION = """# Accuracy

Generated by `python accuracy/build_scoreboard.py`; every figure is a comparison with a public measurement.

Errors are |predicted / measured - 1| in per cent: median, mean, 90th percentile. `bias` is the median of
ln(predicted / measured) in per cent: negative means predicted too fast. `in 80 %` is the share of measurements inside
the 80 % interval that the prediction states. `ideal` is the median error of the textbook roofline on the same rows.
`fit` rows were used to fit constants; `held out` rows never were, by GPU (H200, B300, GB300 and, for kernels, GB200) or
by model (Kimi-K2.5, GLM-5, Qwen3.5-397B, MiniMax-M2.5); `not fitted` rows are the others that no fit used. Tables are
sorted worst first.

What the choices rest on: kernels of A100, L40S, H100, B200, GB300 and RTX PRO 6000 (constants and forms); servers on
H100 and B200 with models that are not held out (constants of engines, which sets are an engine's own, how many kernels
the host launches around one, slow versions, lengths of runs that are not stated, widths); 13 single requests
and the static batches and programs that profiles were fitted on (`fit` below, and `eager`); GB300 is fitted in kernels
and held out in servers. Coverage of held-out rows was in view when widths were chosen. Their errors were printed
beside those of the development rows while engines got kernels of their own. No constant and no form was chosen by
them, and where they grew, they were left to grow. One choice was undone after they had been seen: experts of vLLM 0.19
and 0.22 on B200 are sets of their own again, by the rule of nearest versions.

Worst, and why: collectives of the L40S (errors above 80 %: its PCIe rates fall with the group in a way that no form
here follows), element-wise passes under SGLang (zeros in its tables where passes are fused, so that they are not
fitted), FP8 experts of vLLM on Hopper (four times TensorRT-LLM's time), first tokens of SGLang servers (seconds that
no term explains), and accelerators whose kernels were never timed: what is forecast of each generation from those
before it, beside what came, is in [Forecasts](forecasts.md).
"""

PEERS_TEXT = """Two calculators by NVIDIA, asked for the same rows by `accuracy/peer_rows.py`; only rows that both
answer are compared, and the smallest median leads. AISimulate is the successor of aiconfigurator: it replays the
scheduler step by step over all requests of the run (`aisimulate predict`), where aiconfigurator estimates a steady
state (`cli_estimate`, mode agg). All three are told the plan, the formats and the mean lengths of the row; ours and
AISimulate also the number of requests and the share of memory that the launch script sets, where it is known. The
token budget of the script goes to ours alone: AISimulate keeps its default of 8,192, which was chosen on the `fit`
rows. With the budget of the script its median TTFT error is 33.5 % on these and 31.8 % on held-out rows.

The trial is not fair in every row, in either direction. For them: both come with the rows that we judge by
(`silicon_sample.csv` is in their wheels). The terms of aiconfigurator for the first tokens of vLLM are calibrated to a
corpus of such runs, so it may have seen what we hold out; whether AISimulate was tuned on them cannot be told from its
compiled replay. Ours are fitted on the `fit` rows alone, and `held out` is the comparison to read. Against them: their
tables are those of newer engines (vLLM 0.24, SGLang 0.5.14, TensorRT-LLM 1.3) than the rows of 2025-26, and some
formats are those of the nearest checkpoint that they know. The small GEMMs of MiniMax-M2.5 and Llama-8B in FP8 on
vLLM, 236 rows, which its tables time as launch-bound, make half of the mean TPOT error of aiconfigurator.
"""


def page(parts: dict[str, Any]) -> str:
    """The Markdown of the scoreboard."""
    text = [
        INTRODUCTION,
        "## Summary\n",
        markdown(parts["summary"], {"dataset": "data", "metric": "figure", **HEADINGS}),
    ]
    text += [
        "### Where the intervals miss\n",
        f"Slices of {SLICE} measurements or more of which fewer than {LEAST:.0f} or more than {MOST:.0f} in a hundred lie "
        "inside the 80 % interval, by kind of kernel, of server and of publication; all others hold.\n",
        markdown(
            parts["coverage"], {"slice": "slice", "split": "split", "count": "n", "coverage": "in 80 %", "cause": "why"}
        ),
        "## Kernels\n",
        "Timed kernels of `aisimulate` 0.13 (versions of TensorRT-LLM, vLLM and SGLang), thinned by a hash of their "
        "shape; one GPU of each generation is fitted. Each row is judged by the sets of its engine and version. "
        "SGLang's element-wise passes and NCCL's all-reduces, which no engine runs in that form, appear only in the "
        "tables by engine.\n",
        "### By GPU and kind\n",
        markdown(parts["kernels_by_kind"], HEADINGS),
        "### By GPU, kind and dtype\n",
        markdown(parts["kernels_by_dtype"], HEADINGS),
        "### By engine and kind\n",
        markdown(parts["kernels_by_engine"], HEADINGS),
        "### By engine and kind, under the pooled sets (`--engine generic`)\n",
        markdown(parts["kernels_pooled"], HEADINGS),
        "## Servers under load\n",
        "End-to-end runs in the same wheel, mostly InferenceX: 1 to 512 requests in flight. Left out: duplicates, "
        "disaggregated and speculative runs, runs whose deployment is not stated, overloaded ones, and those listed "
        "below as impossible. Predicted with the profile of the row's engine, and with the token budget that the "
        "launch script of the run set (`accuracy/serving_rows.py`; sweeps of NVIDIA state none: the engine's "
        "default).\n",
        "### What was asked\n",
        "`roofline predict -m M -g G --tp T -c C --isl I --osl O --engine E`, the default, answers for C users who "
        "have been there for a long time. A benchmark starts all users at once, and its means include that start: the "
        "same command with `--num-prompts N`. InferenceX sends N = 10 C. NVIDIA's sweeps state no N: they are read as "
        "10 C, too, which the `fit` rows of TensorRT-LLM and vLLM bear out. Those of SGLang do not, and are read as N "
        "= C. All tables below this one are with `--num-prompts`.\n",
        markdown(parts["servers_arrivals"], HEADINGS),
        "### Impossible rows\n",
        "Set aside by a rule: with that many requests in flight, a whole request (TTFT and the gaps after it) took "
        "less time than at the hardware limit (`--basis ideal`), in the run if its length is stated, else in the "
        "steady state. Times in seconds.\n",
        markdown(parts["servers_impossible"], {key: key for key in ("server", "split", "load", "measured", "limit")}),
    ]
    for metric in ("ttft", "tpot"):
        for name in ("engine", "gpu", "kind", "family", "dtype", "load", "tp", "ep", "basis", "model"):
            text += [f"### {metric.upper()} by {name}\n", markdown(parts[f"servers_{metric}_{name}"], HEADINGS)]
    text += [
        "### The one profile `generic` for all engines\n",
        markdown(parts["servers_generic"], HEADINGS),
        "### One measurement\n",
        "An oracle: every deployment (GPU, model, engine, formats, plan, lengths) multiplied by one constant of its "
        "own, the median over its loads. The error that remains is the best that `--measured` can reach.\n",
        markdown(parts["servers_once"], HEADINGS),
        "### Beside aiconfigurator and AISimulate\n",
        PEERS_TEXT,
        _whole(parts["peer_coverage"]),
        "#### By split\n",
        _whole(parts["peer"]),
        "#### By engine and kind of model\n",
        _whole(parts["peer_families"]),
        "## Separate pools\n",
        "Runs of the same wheel with prefill and decode on separate GPUs, where the row states both pools and no "
        "other export repeats it (`accuracy/pool_rows.py`); nothing is fitted on them but the factor 2 of a run's "
        "start, which was chosen on rows of GB200. Users of a run of ten requests each; a pass takes one prompt, as "
        "the rows state, unless the run answered more than that. Labels `moe_tp = dp, moe_ep = 1` are read as the "
        "recipes have them: plain tensor parallelism for workers of up to four ranks, experts spread over all ranks "
        "beyond.\n\nWhat the rows cannot identify: the transfer, below 1 % of the TTFT of nearly all rows of "
        "DeepSeek-R1 and 3 % of Qwen3-32B's, whatever the link; how requests are routed; what else an engine does "
        "between both pools. First tokens of seconds at a few users (TensorRT-LLM, 1k prompts) are many times the "
        "time of any prompt: some runs include start-up effects that no equation has.\n",
        "### By GPU and model\n",
        markdown(parts["pools_deployment"], HEADINGS),
        "### By engine\n",
        markdown(parts["pools_engine"], HEADINGS),
        "## Offline\n",
        "tests/measured/offline.csv: NVIDIA's figures of `trtllm-bench throughput`, every request queued at once. "
        "What is compared is the time per output token and GPU over the run of 1,000 to 3,000 requests that the page "
        "states (`--num-prompts`); no row was fitted, although the dense rows showed that full steps have no "
        "`prefill_slowdown`. Steps of experts with hundreds of sequences are predicted too fast: ranks of "
        "data-parallel attention are taken to be equally full, and the kernels that were timed are newer than the "
        "benchmark.\n",
        "### By model\n",
        markdown(parts["offline_model"], HEADINGS),
        "### By GPU\n",
        markdown(parts["offline_gpu"], HEADINGS),
        "## Published static batches and single requests\n",
        "tests/measured/published.csv: points transcribed from public pages. Three groups were fitted (`fit`): the "
        "two sweeps of the profiles `trtllm-0.9` and `nim-2024`, the TTFT and TPOT of the programs of `eager`, and 13 "
        "TTFTs of single requests, which fix what an idle server takes (`request` and `launch`). Programs without a "
        "server are predicted with `eager` where the host launches every kernel (AutoAWQ, Transformers, llama.cpp), "
        "with `none` where graphs are replayed or passes compiled (gpt-fast, torchao, MLC, TinyChat) and where "
        "nothing is known of them. Of a page without an open licence only a few rows are quoted, chosen without "
        "looking at any prediction (NOTICE).\n",
    ]
    for name in ("metric", "engine", "gpu", "kind", "batch", "basis", "source"):
        text += [f"### By {name}\n", markdown(parts[f"published_{name}"], HEADINGS)]
    return "\n".join(text)


def compact(parts: dict[str, Table]) -> str:
    """JSON with one row a line."""
    tables = [f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]" for name, rows in parts.items()]
    return "{\n" + ",\n".join(tables) + "\n}\n"


def main() -> None:
    """Judge everything, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, help="folder of tables that kernel_rows.py wrote")
    parser.add_argument("--out", type=Path, default=DOCS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.kernels or Path(scratch)
        if options.kernels is None:
            for gpu, name in GPUS.items():
                write_tables(folder / name, kernel_rows(gpu))
        judged_kernels = kernel_table(folder)
    every = serving_rows(impossible=is_impossible)
    rows = [row for row in every if row.excluded is None]
    servers, published = server_cases(rows), published_cases()
    kernels = [row for row in judged_kernels if row["basis"] == "own"]
    named = [row for row in kernels if (row["kind"], row["engine"]) not in JUDGED_APART]
    offline = offline_cases()
    pools = list(pool_cases(pool_rows(is_unique=True)))
    answers = peer_answers()
    parts: dict[str, Any] = {
        "kernels_by_kind": kernel_rows_of(named, lambda row: f"{row['gpu']} {row['kind']}"),
        "kernels_by_dtype": kernel_rows_of(named, lambda row: f"{row['gpu']} {row['kind']} {row['dtype']}"),
        "kernels_by_engine": kernel_rows_of(kernels, lambda row: f"{row['engine']} {row['kind']}"),
        "kernels_pooled": kernel_rows_of(
            [row for row in judged_kernels if row["basis"] == "pooled"], lambda row: f"{row['engine']} {row['kind']}"
        ),
        "servers_generic": case_rows(server_cases(rows, "generic"), lambda case: f"{case.metric} {case.engine}"),
        "servers_once": case_rows(server_cases(rows, corrected=True), lambda case: case.metric),
        "servers_arrivals": arrival_rows(rows, servers),
        "servers_impossible": impossible_rows(every),
        "peer_coverage": peer_coverage(rows, answers),
        "peer": peer_rows(rows, servers, answers),
        "peer_families": peer_rows(rows, servers, answers, lambda case: f"{case.engine} {case.kind}"),
        "pools_deployment": case_rows(pools, lambda case: f"{case.metric} {case.gpu} {case.model}"),
        "pools_engine": case_rows(pools, lambda case: f"{case.metric} {case.gpu} {case.engine}"),
        "offline_kind": case_rows(offline, lambda case: case.kind),
        "offline_gpu": case_rows(offline, lambda case: f"{case.gpu} {'dense' if case.kind == 'dense' else 'experts'}"),
        "offline_model": case_rows(offline, lambda case: case.model),
        "published_metric": case_rows(published, lambda case: f"{case.metric} {case.load}"),
        "published_engine": case_rows(published, lambda case: f"{case.metric} {case.engine}"),
        "published_gpu": case_rows(published, lambda case: f"{case.metric} {case.gpu}"),
        "published_kind": case_rows(published, lambda case: f"{case.metric} {case.kind}"),
        "published_batch": case_rows(published, lambda case: f"{case.metric} {_batch(case)}"),
        "published_basis": case_rows(published, lambda case: f"{case.metric} {case.basis}"),
        "published_source": case_rows(published, lambda case: f"{case.metric} {case.source}"),
    }
    slices: dict[str, Callable[[Case], str]] = {
        "engine": lambda case: case.engine, "gpu": lambda case: case.gpu, "kind": lambda case: case.kind,
        "family": lambda case: f"{case.engine} {case.kind}", "ep": lambda case: "ep > 1" if case.ep > 1 else "ep = 1",
        "dtype": lambda case: case.dtype, "load": _regime, "tp": lambda case: f"{case.tp} GPUs",
        "basis": lambda case: case.basis, "model": lambda case: case.model,
    }  # fmt: skip
    for metric in ("ttft", "tpot"):
        chosen = [case for case in servers if case.metric == metric]
        for name, by in slices.items():
            parts[f"servers_{metric}_{name}"] = case_rows(chosen, by)
    summary = [
        {"dataset": f"kernels, {row['slice']}", "metric": "time", **row, "slice": None}
        for row in kernel_rows_of(named, lambda row: row["kind"])
    ]
    summary += [
        {"dataset": "servers under load", "metric": row["slice"], **row, "slice": None}
        for row in parts["servers_arrivals"]
    ]
    summary += [
        {"dataset": "published", "metric": row["slice"], **row, "slice": None} for row in parts["published_metric"]
    ]
    summary += [
        {"dataset": "offline", "metric": f"time per token, {row['slice']}", **row, "slice": None}
        for row in parts["offline_kind"]
    ]
    summary += [
        {"dataset": "separate pools", "metric": row["slice"], **row, "slice": None}
        for row in case_rows(pools, lambda case: case.metric)
    ]
    parts["summary"] = summary
    parts["coverage"] = coverage_rows(parts)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "accuracy.md").write_text(wrapped(page(parts)), encoding="utf-8")
    small = {key: parts[key] for key in ("summary", "kernels_by_kind", "servers_ttft_engine", "servers_tpot_engine",
             "servers_arrivals", "servers_impossible", "servers_ttft_family", "servers_tpot_family", "servers_ttft_ep", "servers_tpot_ep", "servers_once",
             "servers_generic", "peer_coverage", "peer", "peer_families", "published_engine", "published_metric", "offline_kind", "coverage", "pools_deployment", "pools_engine")}  # fmt: skip
    rounded = json.loads(json.dumps(small), parse_float=lambda text: round(float(text), 2))
    (options.out / "accuracy.json").write_text(compact(rounded), encoding="utf-8")
    for row in summary:
        print({key: _cell(value) for key, value in row.items() if value is not None})


if __name__ == "__main__":
    main()
