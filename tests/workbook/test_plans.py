"""The sheet Plans says what `plan` says, and what `plan` would say at another price, load or headroom."""

import csv
import json
import math

import pytest
import tiers
from cli.asking import ask
from recalculation import Live, cells_of, edit, libreoffice_is_installed, names_of, opened, recalculated_many
from workbook.test_look import ruled

import roofline as rl

CASE = {"quantization": "fp8", "isl": 2000, "osl": 200}
GPUS = tiers.times(("h100", "l40s", "mi300x", "a100"), ("h100", "b200", "l40s", "mi300x", "a100", "b300"))
SLO = "ttft:800@p95,tpot:40"
LATENCIES = {"TTFT p95": "ttft_p95", "mean TPOT": "tpot"}
MONTH = 730.0  # h


@pytest.fixture(scope="module")
def plans():
    return rl.plan("llama-3.3-70b", GPUS, slo=SLO, concurrency=120, disaggregate=True, **CASE)


@pytest.fixture(scope="module")
def book(plans, tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "plans.xlsx"
    assert rl.sheet(str(path), plans, spare=1) >= sum(plan.prediction is not None for plan in plans.plans)
    return path


@pytest.fixture(scope="module")
def live(book):
    return Live(book)


def named_inputs(path):
    """Sheet and address of each named input of the plans."""
    return {
        name.removeprefix("in_plan_"): tuple(text.replace("$", "").split("!"))
        for name, text in names_of(path).items()
        if name.startswith("in_plan_")
    }


def blocks(path, cells):
    """The tables of plans: one pool, and two where there are any; a mapping for each row."""
    sheet, formulas = cells_of(path).rows("Plans"), set(cells_of(path).formulas)
    found = []
    for head in (row for row, values in sheet.items() if values.get("A") == "rank"):
        texts = {column: text for column, text in sheet[head].items() if text}
        rows, line = [], head + 1
        while ("Plans", f"A{line}") in formulas:
            values = {text: cells.value("Plans", f"{column}{line}") for column, text in texts.items()}
            rows.append(values | {"line": line})
            line += 1
        found.append(rows)
    return found


def behind(path, cells):
    """Rows of the sheet Planned, by GPU and plan."""
    sheet = cells_of(path).rows("Planned")
    texts = {column: text for column, text in sheet[1].items() if text}
    rows = [{text: cells.value("Planned", f"{column}{row}") for column, text in texts.items()}
            for row in range(2, max(sheet) + 1)]  # fmt: skip
    return {(row["GPU"], row["plan"], row["format"]): row for row in rows}


def says(shown, known):
    """Whether a cell says a figure; a rent that is not known is a word."""
    return shown == "no price" if known is None else math.isclose(shown, known, rel_tol=1e-9)


def check(rows, plans):
    """Rows in the order of the plans, with their figures."""
    assert [row["rank"] for row in rows] == list(range(1, len(plans) + 1))
    assert [row["GPU"] for row in rows] == [plan.gpu.name for plan in plans]
    for row, plan in zip(rows, plans, strict=True):
        prediction = plan.prediction
        deployment = prediction.deployment
        assert (row["replicas"], row["GPUs"]) == (deployment.replicas, deployment.num_gpus), plan
        assert row["plan of a replica"] == plan.text.partition("(")[2].partition(",")[0], plan
        assert row["verdict"] == (plan.verdict or "not known"), plan
        for name, key in LATENCIES.items():
            assert says(row[f"{name} [ms]"], prediction.latency(key) * 1000), plan
        monthly = None if plan.usd_per_hour is None else plan.usd_per_hour * MONTH
        for label, known in (
            ("USD/h", plan.usd_per_hour),
            ("USD/month", monthly),
            ("USD/M output tok", prediction.usd_per_m_output_tok),
        ):
            assert says(row[label], known), (label, plan)


def answered(plans):
    return [plan for plan in plans.plans if plan.prediction is not None]


def prices_of(path, prices):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("gpu", "usd_per_hour"))
        writer.writerows(prices.items())
    return str(path)


def set_prices(live, book, prices):
    """Type prices of GPUs, by their names."""
    inputs = named_inputs(book)
    labels = {live.value(sheet, f"B{cell[1:]}"): (sheet, cell) for name, (sheet, cell) in inputs.items()
              if name.startswith("price")}  # fmt: skip
    live.set_many({labels[gpu]: price for gpu, price in prices.items()})


def test_every_row_has_the_figures_of_its_plan(book, live, plans):
    rows, pools = blocks(book, live)
    check(rows, answered(plans))
    known = behind(book, live)
    for row, plan in zip(rows, answered(plans), strict=True):
        written = known[row["GPU"], row["plan of a replica"], row["format"]]
        for name, key in LATENCIES.items():
            low, high = plan.prediction.latency_interval(key)
            assert says(written[f"{name}, from"], low * 1000)
            assert says(written[f"{name}, to"], high * 1000)
        assert math.isclose(row["spare load"], plan.load_headroom or 0.0, rel_tol=1e-9, abs_tol=1e-12)
        assert row["what binds"] in plan.why
    assert len(pools) == len(plans.pools) > 0
    for row, pair in zip(pools, plans.pools, strict=True):
        both = pair.pools.prefill, pair.pools.decode
        assert row["GPU"] == " + ".join(pool.gpu.name for pool in both)
        assert row["replicas"] == " + ".join(str(pool.replicas) for pool in both)
        assert (row["GPUs"], row["verdict"], row["remark"]) == (pair.num_gpus, pair.verdict, "two pools")
        for name, key in LATENCIES.items():
            assert says(row[f"{name} [ms]"], pair.latency(key) * 1000)
        assert says(row["USD/h"], pair.usd_per_hour)
        assert says(row["USD/M output tok"], pair.usd_per_m_output_tok)


def test_gpus_without_a_plan_are_listed_with_the_reason(book, plans):
    texts = {text for row in cells_of(book).rows("Plans").values() for text in row.values()}
    missed = [plan for plan in plans.plans if plan.prediction is None]
    assert missed
    assert all(plan.reason in texts and plan.gpu.name in texts for plan in missed)


@tiers.has_more_cases
@pytest.mark.parametrize("prices", tiers.some([
    {"mi300x": 30.0}, {"h100-sxm": 0.5}, {"l40s": 0.001, "b200": 0.002},
], 1))  # fmt: skip
def test_order_and_costs_at_other_prices_are_those_of_plan(book, live, plans, tmp_path, prices):
    before = {plan.gpu.name: plan.usd_per_hour / plan.prediction.deployment.num_gpus for plan in answered(plans)}
    set_prices(live, book, {**before, **prices})
    file = prices_of(tmp_path / "prices.csv", prices)
    again = rl.plan("llama-3.3-70b", GPUS, slo=SLO, concurrency=120, price_file=file, **CASE)
    assert [plan.gpu.name for plan in again.plans] != [plan.gpu.name for plan in plans.plans]
    rows, _ = blocks(book, live)
    check(rows, answered(again))
    best = again.best
    gpus = best.prediction.deployment.num_gpus
    rent = round(best.usd_per_hour * MONTH)
    assert live.value("Plans", "B3").startswith(f"{best.gpu.name}, ")
    assert live.value("Plans", "B3").endswith(f": {gpus} GPUs, {rent} USD a month, SLO {best.verdict}")
    set_prices(live, book, before)
    check(blocks(book, live)[0], answered(plans))


def test_a_gpu_without_a_price_comes_last_of_those_that_meet_the_slo(book, live, plans):
    first = answered(plans)[0]
    before = {first.gpu.name: first.usd_per_hour / first.prediction.deployment.num_gpus}
    set_prices(live, book, {first.gpu.name: None})
    rows, _ = blocks(book, live)
    assert rows[-1]["GPU"] == first.gpu.name
    assert {rows[-1][label] for label in ("USD/h", "USD/month", "USD/M output tok")} == {"no price"}
    set_prices(live, book, before)


@tiers.has_more_cases
@pytest.mark.parametrize("users", tiers.some([75, 12, 121, 1300], 1))
def test_replicas_for_another_load_are_those_of_plan_at_it(book, live, plans, users):
    inputs = named_inputs(book)
    live.set_many({inputs["load_1"]: users})
    rows = {row["GPU"]: row for row in blocks(book, live)[0]}
    for plan in answered(plans):
        degrees = {name: getattr(plan.prediction.deployment.plan, name) for name in ("tp", "ep", "dp")}
        again = rl.plan("llama-3.3-70b", plan.gpu.name, slo=SLO, concurrency=users, **degrees, **CASE).plans[0]
        row = rows[plan.gpu.name]
        needed = again.prediction.deployment.num_gpus
        slack = 0.0 if users < 1000 else 1.0 / 120.0  # the largest load of 120 users is a whole number of them
        assert needed <= row["GPUs"] <= needed * (1.0 + slack), (plan, again)
        assert row["verdict"] in (again.verdict, "pass?")
        assert slack or says(row["USD/h"], again.usd_per_hour)
        assert row["spare load"] >= 0.0
    live.set_many({inputs["load_1"]: 120})


def test_headroom_and_hours_raise_what_is_bought_and_paid(book, live, plans):
    inputs = named_inputs(book)
    live.set_many({inputs["headroom"]: 50, inputs["hours"]: 200})
    for row in blocks(book, live)[0]:
        plan = next(plan for plan in answered(plans) if plan.gpu.name == row["GPU"])
        deployment = plan.prediction.deployment
        each = max(plan.largest_load or 0.0, 120) / deployment.replicas
        assert row["replicas"] == max(deployment.replicas, math.ceil(round(240 / each, 9)))
        assert says(row["USD/month"], None if plan.usd_per_hour is None else row["USD/h"] * 200)
        assert row["spare load"] >= 1.0 - 1e-12
    live.set_many({inputs["headroom"]: 0, inputs["hours"]: 730})


def test_what_an_input_cannot_be_is_said_in_place_of_the_plans(book, live):
    inputs = named_inputs(book)
    for name, value, good, said in (
        ("load_1", "many", 120, "load must be a number from 1 to 1e+09"),
        ("headroom", 100, 0, "headroom must be a number from 0 to 99"),
        ("hours", None, 730, "hours a month must be a number from 0 to 744"),
    ):
        live.set_many({inputs[name]: value})
        assert live.value("Plans", "B3") == said
        assert {row["GPUs"] for rows in blocks(book, live) for row in rows} <= {"", None}
        live.set_many({inputs[name]: good})
    assert " USD a month, SLO " in live.value("Plans", "B3")


def test_a_row_of_the_scenarios_is_one_replica_of_each_plan(book, live, plans):
    at = {text: column for column, text in reversed(cells_of(book).rows("Scenarios")[1].items())}
    for row, plan in zip(blocks(book, live)[0], answered(plans), strict=True):
        line = row["row of Scenarios"]
        batch = math.ceil(plan.prediction.decode_batch)
        degrees = {name: getattr(plan.prediction.deployment.plan, name) for name in ("tp", "pp", "ep", "dp")}
        known = rl.predict("llama-3.3-70b", plan.gpu.name, batch=batch, **degrees, **CASE)
        assert live.value("Scenarios", f"{at['gpu']}{line}") == plan.gpu.name
        assert says(live.value("Scenarios", f"{at['TTFT [ms]']}{line}"), known.ttft * 1000)
        assert says(live.value("Scenarios", f"{at['TPOT [ms]']}{line}"), known.tpot * 1000)
        assert live.value("Scenarios", f"{at['GPUs']}{line}") == known.deployment.num_gpus


@pytest.mark.parametrize("options", [
    {"objective": "throughput", "request_rate": 6}, {"objective": "latency", "request_rate": 6, "spend": 150.0},
    {"batch": 16, "quantization": ["fp8", "bf16"], "top": 3}, {"concurrency": 300, "slo": "e2el:12s@p90,itl:60@p99"},
])  # fmt: skip
def test_any_plan_keeps_its_order_and_figures(tmp_path, options):
    options = {"slo": "tpot:40", **CASE, **options}
    plans = rl.plan("llama-3.3-70b", ["h100", "b200", "mi300x"], **options)
    path = tmp_path / "plans.xlsx"
    rl.sheet(str(path), plans)
    live = Live(path)
    (rows,) = blocks(path, live)
    known = answered(plans)
    assert [row["GPU"] for row in rows] == [plan.gpu.name for plan in known]
    for row, plan in zip(rows, known, strict=True):
        assert row["GPUs"] == plan.prediction.deployment.num_gpus
        assert says(row["USD/h"], plan.usd_per_hour)
        assert says(row["USD/M output tok"], plan.prediction.usd_per_m_output_tok)
        assert row["verdict"] == (plan.verdict or "not known")
        times = [(name, value) for name, value in row.items() if name.endswith(" [ms]")]
        assert len(times) >= 2
        for name, value in times:
            metric, _, level = name.removesuffix(" [ms]").removeprefix("mean ").lower().partition(" p")
            time = plan.prediction.latency(f"{metric}_p{level}" if level else metric)
            assert says(value, time * 1000), (name, plan)


def test_several_models_and_loads_are_ranked_case_by_case(tmp_path):
    asked = {"slo": "ttft:900,tpot:20", "request_rate": [2.0, 9.0], "isl": 3000}
    plans = rl.plan(["llama-3.1-8b", "qwen3-32b"], ["h100", "l40s"], **asked)
    path = tmp_path / "plans.xlsx"
    rl.sheet(str(path), plans)
    live = Live(path)
    (rows,) = blocks(path, live)
    known = answered(plans)
    assert [(row["GPU"], row["GPUs"]) for row in rows] == [
        (plan.gpu.name, plan.prediction.deployment.num_gpus) for plan in known
    ]
    assert [row["case"].partition(",")[0] for row in rows] == [plan.model.short_name for plan in known]
    inputs = named_inputs(path)
    assert {"load_1", "load_2", "load_3", "load_4"} <= set(inputs)
    live.set_many({inputs["load_2"]: 90.0})
    again = blocks(path, live)[0]
    grown = [after["GPUs"] > before["GPUs"] for before, after in zip(rows, again, strict=True)]
    assert any(grown)
    assert not all(grown)


def test_shell_python_and_workbook_have_one_order_and_one_verdict(tmp_path):
    gpus = ["h100-sxm", "h200-sxm", "b200", "l40s", "a100-sxm-80gb", "mi300x", "gb200-nvl72", "h100-nvl"]
    words = ("-m", "qwen3-32b", "-g", ",".join(gpus), "--slo", "tpot:30@p95", "--rate", "5", "--isl", "2k")
    path = tmp_path / "plans.xlsx"
    done = ask("sheet", str(path), "--plan", *words)
    assert done.exit_code == 0, done.stderr
    shell = [row for row in json.loads(ask("plan", *words, "--json").stdout)["rows"] if row["num_gpus"]]
    python = answered(rl.plan("qwen3-32b", gpus, slo="tpot:30@p95", request_rate=5, isl=2048))
    live = Live(path)
    (rows,) = blocks(path, live)
    assert len(rows) > 5
    assert [row["GPU"] for row in rows] == [row["gpu"] for row in shell] == [plan.gpu.name for plan in python]
    verdicts = [plan.verdict for plan in python]
    assert [row["verdict"] for row in rows] == [word or "not known" for word in verdicts]
    assert [row["slo_verdict"] for row in shell] == verdicts
    leading = next(row for row in shell if row["leads"])
    assert live.value("Plans", "B3").startswith(f"{leading['gpu']}, ")


def test_plans_without_an_answer_are_refused_with_the_reason(tmp_path):
    path = tmp_path / "none.xlsx"
    plans = rl.plan("llama-3.3-70b", "h100", slo="tpot:0.1", **CASE)
    with pytest.raises(rl.BadInput, match=r"nothing to put into a workbook; nearest: h100-sxm: misses"):
        rl.sheet(str(path), plans)
    done = ask("sheet", str(path), "--plan", "-m", "llama-3.3-70b", "-g", "h100", "--slo", "tpot:0.1")
    assert (done.exit_code, path.exists()) == (1, False)
    assert "nearest: h100-sxm" in done.stderr


def test_plans_have_their_own_gpus_and_options(tmp_path, plans):
    for more in ({"gpus": "h100"}, {"isl": 3}):
        with pytest.raises(rl.BadInput, match="that they were planned with; leave out"):
            rl.sheet(str(tmp_path / "plans.xlsx"), plans, **more)


def test_inputs_of_the_plans_are_open_and_have_prompts_and_the_page_is_one(book):
    sheet = opened(book)["Plans"]
    rules = ruled(sheet)
    unlocked = [cell for row in sheet.iter_rows() for cell in row if not cell.protection.locked]
    assert {("Plans", cell.coordinate) for cell in unlocked} == set(named_inputs(book).values())
    assert all((cell.row, cell.column) in rules for cell in unlocked)
    assert sheet.protection.sheet
    assert opened(book).sheetnames[0] == "Plans"
    assert sheet.page_setup.fitToHeight in (None, 1)
    assert opened(book)["Planned"].print_area.endswith("$XFD$1048576")


def test_without_plans_a_workbook_has_no_sheet_of_them(tmp_path):
    path = tmp_path / "plain.xlsx"
    rl.sheet(str(path), "llama-3.1-8b", "h100", spare=0)
    assert not {"Plans", "Planned"} & set(opened(path).sheetnames)


@pytest.mark.skipif(not libreoffice_is_installed(), reason="LibreOffice is not installed")
def test_libreoffice_ranks_as_plan_does_after_an_edit(book, plans, tmp_path):
    prices = {"mi300x": 30.0, "h100-sxm": 0.5}
    sheet = opened(book)["Plans"]
    changes = {
        place: prices[sheet[f"B{place[1][1:]}"].value]
        for name, place in named_inputs(book).items()
        if name.startswith("price") and sheet[f"B{place[1][1:]}"].value in prices
    }
    assert len(changes) == len(prices)
    edited = tmp_path / "edited.xlsx"
    edit(book, edited, changes)
    again = rl.plan(
        "llama-3.3-70b", GPUS, slo=SLO, concurrency=120, price_file=prices_of(tmp_path / "p.csv", prices), **CASE
    )
    for cells, known in zip(recalculated_many([book, edited], "libreoffice"), (plans, again), strict=True):
        check(blocks(book, cells)[0], answered(known))
