"""The README and the pages show what the commands print, and say nothing that does not run."""

import json
import re
import runpy
import shlex
from pathlib import Path

import pytest
import tiers
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TRUST = (ROOT / "docs" / "howto" / "read-a-screen.md").read_text(encoding="utf-8")
#: Pages whose commands a reader types.
PAGES = [
    README,
    *(
        page.read_text(encoding="utf-8")
        for folder in ("", "tutorials", "howto")
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
        if folder or page.stem in ("index", "measurements")
    ),
]
RESULTS = ROOT / "tests" / "fixtures" / "results"
EXAMPLES = runpy.run_path(str(ROOT / "docs" / "build_examples.py"))

#: What a reader brings along.
RESULT = """{"model_id": "meta-llama/Llama-3.1-8B", "mean_ttft_ms": 180.0, "mean_tpot_ms": 12.0, "max_concurrency": 16,
"num_prompts": 160, "completed": 160, "total_input_tokens": 163840, "total_output_tokens": 20480,
"request_throughput": 8.0, "duration": 20.0, "median_ttft_ms": 175.0, "median_tpot_ms": 12.0}"""

#: Timed kernels, engines and pictures of sweeps have tests of their own; dots stand for the reader's own options.
_NOT_RUN = ("kernels.csv", "-o sweep.png", " ... ", "my-specs", "--engine mine.yaml", "roofline predict -q")


def plain_commands(text):
    """Commands in fences and between backticks that are not shown with their output."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    fenced = [line for language, block in fences if not language for line in block.splitlines()]
    inline = [" ".join(found.split()) for found in re.findall(r"`(roofline [a-z][^`]*)`", text)]
    starts = [line.split("#")[0].strip() for line in fenced if line.startswith("roofline ")]
    return [command for command in (*starts, *inline) if " -" in command and not any(no in command for no in _NOT_RUN)]


@pytest.mark.parametrize("page", EXAMPLES["PAGES"], ids=lambda page: page.stem)
def test_every_output_shown_is_what_the_command_prints(page):
    text = page.read_text(encoding="utf-8")
    assert EXAMPLES["commands"](text)
    assert EXAMPLES["with_outputs"](text) == text, "run: python docs/build_examples.py"


@tiers.has_more_cases
@pytest.mark.parametrize(
    "command",
    tiers.some(
        dict.fromkeys(
            command
            for page in PAGES
            for command in plain_commands(page)
            if "-o docs/curve.svg" not in command  # `test_the_picture_is_what_its_command_draws` runs it
        ),
        8,
    ),
)
def test_every_command_named_runs(command, tmp_path, monkeypatch):
    for name in ("result.json", "before.json", "after.json"):
        (tmp_path / name).write_text(RESULT)
    (tmp_path / "passes.csv").write_bytes((RESULTS / "passes.csv").read_bytes())
    for name in ("docs", "before", "after", "results"):
        (tmp_path / name).mkdir()
    for users in (4, 16, 64):
        run = RESULT.replace('"max_concurrency": 16', f'"max_concurrency": {users}, "gpu": "h100-sxm", "tp": "1"')
        (tmp_path / "results" / f"{users}.json").write_text(run)
    for side in ("before", "after"):
        (tmp_path / side / "a.json").write_bytes((RESULTS / "vllm.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    words = [
        file for word in shlex.split(command)[1:] for file in (map(str, Path().glob(word)) if "*" in word else [word])
    ]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, f"{command}: {result.output}"
    assert result.stdout.strip() or "wrote" in result.stderr


def test_the_readme_is_two_screens_and_its_python_answers():
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {}
    exec(block, names)
    p = names["p"]
    assert isinstance(p.slo_met, bool)
    assert p.ttft < p.latency("ttft_p95")
    scalar, element = (
        rl.ttft("llama-3.1-8b", "h100", isl=1000, batch=8),
        rl.ttft("llama-3.1-8b", "h100", isl=[1000], batch=8),
    )
    assert element[0] == pytest.approx(scalar, rel=1e-12)
    assert len(README.splitlines()) <= 120
    first = README.split("```console\n")[1].split("```")[0].splitlines()
    assert len(first) <= 23
    assert max(map(len, first)) <= 80


def test_the_figures_of_the_promise_are_those_of_the_accuracy_page():
    rows = json.loads((ROOT / "docs" / "accuracy.json").read_text(encoding="utf-8"))["summary"]

    def figures(dataset, metric, split):
        (row,) = (row for row in rows if (row["dataset"], row["metric"], row["split"]) == (dataset, metric, split))
        return f"{row['median']:.0f} %", f"({row['coverage']:.0f} %"

    run, steady = "`-c` with `--num-prompts`, a run", "`-c`, a steady state"
    server = "servers under load"
    (ttft, ttft_inside), (tpot, tpot_inside) = (
        figures(server, f"{key}: {run}", "held out") for key in ("ttft", "tpot")
    )
    settled, settled_inside = figures(server, f"ttft: {steady}", "held out")
    single, single_inside = figures("published", "ttft concurrency-1", "not fitted")
    forecast = {row[0]: (row[3], row[6]) for row in _tables("forecasts.md", 11) if row[1] == "TPOT"}
    (ours, ours_inside), (theirs, theirs_inside) = forecast["NVIDIA"], forecast["AMD"]
    promise = re.sub(r"\s+", " ", README.split("**Honest.**")[1].split("**Explained")[0])
    for said in (
        f"On {_count(rows, server, run):,} servers whose GPU or model no fit has seen",
        f"is typically {ttft} off {ttft_inside} inside the range), the time per token {tpot} {tpot_inside})",
        f"is {settled} off in TTFT {settled_inside})",
        f"to an idle server is {single} off {single_inside})",
        f"its servers are {ours} % off on NVIDIA's GPUs ({ours_inside} %), {theirs} % on AMD's ({theirs_inside} %)",
    ):
        assert said in promise, said


def _count(rows, dataset, how):
    counts = {
        row["count"] for row in rows if row["dataset"] == dataset and how in row["metric"] and row["split"] != "fit"
    }
    assert len(counts) == 1
    return counts.pop()


def _tables(page, columns):
    """Rows of all tables of a page that have so many columns."""
    lines = (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
    rows = ([cell.strip(" *") for cell in line.strip().strip("|").split("|")] for line in lines if line.startswith("|"))
    return [row for row in rows if len(row) == columns]


def test_the_errors_that_the_pages_state_are_those_of_the_accuracy_page():
    guide = re.sub(r"\s+", " ", TRUST.split("How far off is it?")[1])
    summary = {tuple(row[:3]): row[3:] for row in _tables("accuracy.md", 10) if row[3].isdigit()}
    seen = {data: float(row[1]) for (data, _, split), row in summary.items() if split == "held out"}
    run = "`-c` with `--num-prompts`, a run"
    ttft, tpot = (summary["servers under load", f"{metric}: {run}", "held out"] for metric in ("ttft", "tpot"))
    inside = sorted(round(float(row[5])) for row in (ttft, tpot))
    kernels = ("gemm", "attention_decode", "attention_prefill", "moe", "moe, ep > 1")
    ideal = [round(float(row[6])) for row in (ttft, tpot)]
    ideal += [round(float(summary[f"kernels, {kind}", "time", "held out"][6])) for kind in kernels]
    count = sum(int(row[0]) for (data, *_), row in summary.items() if data.startswith("kernels"))
    runs = sum(
        int(row[0])
        for (data, metric, _), row in summary.items()
        if (data, metric) == ("servers under load", f"ttft: {run}")
    )
    published = sum(int(row[0]) for (data, *_), row in summary.items() if data == "published")
    gemm, decode, prefill, experts, spread = (seen[f"kernels, {kind}"] for kind in kernels)
    for said in (
        f"{round(count, -3):,} timed kernels, {runs:,} runs of servers, {published} published figures",
        f"{gemm:.1f} % for GEMMs, {decode:.1f} % for decode attention, {prefill:.0f} % for prefill attention",
        f"{experts:.0f} % for experts ({spread:.1f} % with expert parallelism)",
        f"{float(tpot[1]):.1f} % for the TPOT and {float(ttft[1]):.0f} % for the TTFT",
        f"{inside[0]} to {inside[1]} % of those servers lie inside",
        f"off by {min(ideal)} to {max(ideal)} %",
        *_errors_of_the_closed_forms(),
    ):
        assert said in guide, said


def _errors_of_the_closed_forms():
    (tpot, ttft) = next(row[2:4] for row in _tables("load.md", 6) if row[0] == "all, inside the domain")
    yield f"mean of {_mean(tpot)} % (TPOT) and {_mean(ttft)} % (TTFT)"
    inside = [row for row in _tables("load.md", 13) if row[0].endswith(", inside the domain")]
    tails = [sorted((_mean(row[column]) for row in inside), key=float) for column in (7, 5)]  # TPOT, TTFT
    yield "their p99 by " + " and ".join(f"{errors[0]} to {errors[-1]} %" for errors in tails)


def _mean(errors):
    """Of median / mean / 90th percentile."""
    return errors.split(" / ")[1]


def test_the_errors_by_arrivals_that_the_pages_state_are_those_of_the_accuracy_page():
    fit = {row[0]: row[3:5] for row in _tables("accuracy.md", 9) if row[1] == "fit"}
    shown = [row[1:] for row in _tables("howto/read-a-screen.md", 3) if row[1].endswith("%)")]
    arrivals = ("`-c` with `--num-prompts`, a run", "`-c`, a steady state")
    assert len(shown) == len(arrivals)
    for cells, name in zip(shown, arrivals, strict=True):
        for cell, metric in zip(cells, ("ttft", "tpot"), strict=True):
            for number, error in zip(re.findall(r"[\d.]+", cell), fit[f"{metric}: {name}"], strict=True):
                assert float(number) == pytest.approx(float(error), abs=0.05 if "." in number else 0.5), name


def test_the_figures_of_speed_are_those_of_the_performance_page():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]

    def cell(place, *of):
        (row,) = (row for row in rows if row[: len(of)] == list(of))
        return float(row[place].split()[0].replace(",", ""))

    promise = re.sub(r"\s+", " ", README.split("**Instant.**")[1].split("## Plan")[0])
    llama = "Llama-3.1-8B on H100"
    one_by_one, in_arrays = (cell(-1, *of) for of in ((f"{llama}, after many",), (llama, "1,000,000")))
    load, loads = (cell(place, f"{llama}, 3 requests/s, means") for place in (4, -1))
    bursts, loads_one_by_one = float(f"{one_by_one:.2g}"), float(f"{1e6 / load:.2g}")
    said = f"one core answers {bursts:,.0f} bursts or {loads_one_by_one:,.0f} loads a second one by one"
    assert said in promise, f"{said}; measured by python benchmarks/run.py"
    assert "some hundred times as many in arrays" in promise
    assert all(70 < ratio < 250 for ratio in (in_arrays / one_by_one, loads * load / 1e6))


def test_the_picture_is_what_its_command_draws(tmp_path):
    pytest.importorskip("matplotlib")
    kept = (ROOT / "docs" / "curve.svg").read_text(encoding="utf-8")
    EXAMPLES["picture"](tmp_path / "curve.svg")
    drawn = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    version = re.compile(r"Matplotlib v[\d.]+")
    if version.search(drawn)[0] == version.search(kept)[0]:
        assert drawn == kept, "run: python docs/build_examples.py"
    assert drawn.count("<path") > 20
