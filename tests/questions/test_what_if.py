"""Hardware that does not exist: figures set on the way, files that inherit, machines that work alone."""

import csv
import io
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.specs.what_if import FIGURES, Setting, own_of, settings_of, what_if

ROOT = Path(__file__).parents[2]
MODEL = "llama-3.1-8b"
CASE = {"isl": 1500, "osl": 300}
WIDE = "memory.bandwidth=12TB/s"


def shell(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], env={"COLUMNS": "120"})


def test_a_gpu_with_a_figure_of_its_own_is_the_record_with_that_figure():
    plain, changed = rl.load_gpu("b200"), rl.load_gpu("b200", set={"memory.bandwidth": 12e12, "peak.fp8": "9 PFLOP/s"})
    assert (changed.name, changed.bandwidth, changed.peaks["fp8"]) == ("b200*", 12e12, 9e15)
    assert changed.peaks["bf16"] == plain.peaks["bf16"]
    assert changed.calibration is plain.calibration
    assert changed.cautions[-1].startswith(
        "b200*: memory.bandwidth set to 12 TB/s instead of 7.7 TB/s, peak.fp8 set to "
    )
    assert what_if(changed, settings_of({"memory.bandwidth": 12e12, "peak.fp8": 9e15})) is changed
    assert own_of((Setting("h200", "power", 1.0), Setting("h100", "power", 1.0)), plain) == ()


def test_memory_and_its_label_keep_their_ratio_unless_both_are_set():
    plain = rl.load_gpu("h100")
    usable, label = (rl.load_gpu("h100", set=f"memory.{name}=160GB") for name in ("usable", "label"))
    both = rl.load_gpu("h100", set="memory.usable=150GB,memory.label=160GB")
    assert usable.memory / usable.memory_label == pytest.approx(plain.memory / plain.memory_label, rel=1e-12)
    assert (label.memory_label, label.memory) == (1.6e11, pytest.approx(1.6e11 * plain.memory / plain.memory_label))
    assert (both.memory, both.memory_label) == (1.5e11, 1.6e11)


@each(
    "load",
    [
        {"batch": 8},
        {"concurrency": 8},
        {"request_rate": 1.0},
        {"concurrency": 8, "num_prompts": 80},
        {"num_prompts": 500},
    ],
    ids=str,
)
def test_every_door_gives_what_the_record_with_the_figure_gives(load):
    record = rl.load_gpu("h100", set=WIDE)
    expected = rl.predict(MODEL, record, tp=1, **CASE, **load)
    slower = rl.predict(MODEL, "h100", tp=1, **CASE, **load)
    found = rl.predict(MODEL, "h100", tp=1, set=WIDE, **CASE, **load)
    assert (found.ttft, found.tpot) == (expected.ttft, expected.tpot)
    assert found.tpot < 0.7 * slower.tpot
    (name,) = [name for name in load if name != "num_prompts"] or ["num_prompts"]
    if len(load) == 1:
        several = rl.predict(MODEL, "h100", tp=1, set=WIDE, **CASE, **{name: np.array([load[name], 2 * load[name]])})
        assert several.tpot[0] == pytest.approx(found.tpot, rel=1e-9)
    limit = float(found.tpot) * 1e3
    for factor, verdict in ((0.7, "fail"), (1.6, "pass")):
        slo = f"tpot:{factor * limit:.9g}"
        (row,) = rl.table(MODEL, "h100", tp=1, set=WIDE, slo=slo, **CASE, **load)
        words = [word for name, value in load.items() for word in (f"--{name.replace('_', '-')}", value)]
        words = ["-m", MODEL, "-g", "h100", "--tp", 1, "--isl", 1500, "--osl", 300, "--set", WIDE, "--slo", slo, *words]
        (said,) = json.loads(shell("predict", *words, "-f", "json").stdout)["rows"]
        assert (row["gpu"], said["gpu"]) == ("h100-sxm*", "h100-sxm*")
        assert row["slo_verdict"].rstrip("?") == verdict
        assert said["slo_verdict"] == row["slo_verdict"]
        assert row["tpot_ms"] == said["tpot_ms"] == pytest.approx(limit, rel=1e-9)


def test_questions_speak_of_set_values_as_of_others():
    (sized,) = rl.size("llama-3.1-70b", "h100", slo="tpot:70", set="memory.usable=200GB", **CASE).plans
    assert (sized.gpu.name, sized.prediction.deployment.plan.tp) == ("h100-sxm*", 1)
    found = rl.predict(MODEL, "h100", set=WIDE, **CASE)
    bandwidth = {row["input"]: row["value"] for row in rl.sensitivity(found, of="tpot").to_rows()}["bandwidth"]
    assert bandwidth == 12e12
    assert rl.solve(found, "bandwidth", tpot=0.01).base.deployment.gpu.name == "h100-sxm*"
    levers = rl.levers(MODEL, "h100", goal="tpot", set="memory.bandwidth=1TB/s", request_rate=1.0, tp=1, **CASE)
    wider = next(one for one in levers.alone if one.kind == "more bandwidth")
    assert wider.prediction.deployment.gpu.bandwidth > 1e12
    assert not wider.prediction.deployment.gpu.name.endswith("*")
    (costed,) = rl.cost(found)
    assert costed.gpu.name == "h100-sxm*"
    names = {answer.gpu.name for answer in rl.goodput(MODEL, ["h100", "b200"], slo="tpot:20", set=f"h100.{WIDE}", tp=1)}
    assert names == {"h100-sxm*", "b200"}
    compared = rl.compare(MODEL, ["h100", "b200"], set=f"b200.{WIDE}", tp=1, **CASE).to_records()
    assert [row["gpu"] for row in compared] == ["h100-sxm", "b200*"]
    pools = rl.disaggregate(MODEL, "h100:tp1", "b200:tp1", request_rate=1.0, set=f"b200.{WIDE}", **CASE)
    assert (pools.pools.prefill.gpu.name, pools.pools.decode.gpu.name) == ("h100-sxm", "b200*")


@each(
    ("text", "said"),
    [
        ("memory.bandwith=12TB/s", "did you mean memory.bandwidth"),
        ("bandwidth=12TB/s", "did you mean memory.bandwidth, scale_up.bandwidth"),
        ("memory.bandwidth=12", "has no unit"),
        ("memory.bandwidth=12TB", "12TB"),
        ("memory.bandwidth=60GB/s", "where h100-sxm has 3.35 TB/s; check the unit"),
        ("memory.bandwidth=-3TB/s", "memory.bandwidth"),
        ("memory.bandwidth=nanTB/s", "memory.bandwidth"),
        ("scale_up.domain=0", "whole number of GPUs"),
        ("a100.memory.bandwidth=12TB/s", "set names a100-sxm-80gb, which is not the GPU asked about: h100-sxm"),
        ("memory.bandwidth", "must be figures with their values"),
        ("power=700W,power=800W", "power is set twice"),
        (7, "must be a text or a mapping"),
        ({5: 1.0}, "must be the path of a figure"),
        ({"memory.bandwidth": True}, "must be a number with its unit"),
    ],
    ids=str,
)
def test_what_cannot_be_set_is_refused_with_the_nearest(text, said):
    with pytest.raises(rl.BadInput, match=said):
        rl.predict(MODEL, "h100", set=text)


def test_a_name_that_no_gpu_asked_about_has_is_refused_and_one_that_none_has_too():
    for ask in (rl.table, rl.goodput, rl.compare):
        more = {"slo": "tpot:20"} if ask is rl.goodput else {}
        with pytest.raises(rl.BadInput, match="set names a100-sxm-80gb, which is not among the GPUs asked about"):
            ask(MODEL, ["h100", "b200"], set="a100.power=300W", **more)
    with pytest.raises(rl.UnknownName, match="unknown GPU 'h1000'"):
        rl.table(MODEL, ["h100", "b200"], set="h1000.power=300W")


@each("path", [*FIGURES, "peak.fp8", "scale_up.domain"])
def test_every_figure_that_can_be_set_moves_the_record(path):
    texts = {"B/s": "1 TB/s", "B": "120 GB", "exp/s": "5 Texp/s", "W": "500 W"}
    value = {"peak.fp8": "3 PFLOP/s", "scale_up.domain": "16", "cache": "100 MB", "scale_out.bandwidth": "100 GB/s",
             "host_link.bandwidth": "100 GB/s"}.get(path, texts.get(FIGURES.get(path, ("",))[0]))  # fmt: skip
    plain, changed = rl.load_gpu("mi300x"), rl.load_gpu("mi300x", set={path: value})
    assert changed != plain
    assert path in changed.cautions[-1]


# --- files that inherit, copies of files, machines without a link ---------------------------------


def write(folder, text, name="mine.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_inherits_what_it_leaves_out(tmp_path):
    path = write(
        tmp_path,
        "name: h100-12\ninherit: h100\nmemory:\n  bandwidth: {value: 12 TB/s, source: idea}\n"
        "sources:\n  idea: {title: What if, date: 2026-11-27}\n",
    )
    own, plain = rl.load_gpu(path), rl.load_gpu("h100")
    assert (own.name, own.aliases, own.bandwidth, own.peaks) == ("h100-12", (), 12e12, plain.peaks)
    assert rl.load_gpu("h100-12", specs=str(tmp_path)).bandwidth == 12e12
    expected = rl.predict(MODEL, "h100", set=WIDE, **CASE)
    assert rl.predict(MODEL, path, **CASE).tpot == pytest.approx(expected.tpot, rel=1e-12)
    assert shell("check-specs", tmp_path).exit_code == 0
    wrong = write(tmp_path, "name: other\ninherit: h1000\n")
    with pytest.raises(rl.BadSpec, match=r"mine.yaml:2: inherit: the catalog has no GPU 'h1000'; did you mean"):
        rl.load_gpu(wrong)
    wrong = write(tmp_path, "name: other\ninherit: h100\nmemory:\n  bandwith: {value: 12 TB/s, source: idea}\n")
    with pytest.raises(rl.BadSpec, match=r"mine.yaml:4: memory.bandwith: unknown key; did you mean bandwidth"):
        rl.load_gpu(wrong)


@each("name", ["h100", "mi300x", "gb10", "tpu-v7x"])
def test_a_printed_file_loads_as_it_is(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    printed = shell("gpus", "show", name, "--format", "yaml")
    assert printed.exit_code == 0, printed.output
    path = write(folder, printed.stdout)
    assert rl.predict(MODEL, path, **CASE).ttft == pytest.approx(rl.predict(MODEL, name, **CASE).ttft, rel=0.2)
    assert rl.load_gpu(name, specs=str(folder)).bandwidth == rl.load_gpu(name).bandwidth


def test_a_machine_without_a_link_answers_alone_and_says_so():
    alone = rl.load_gpu("m3-ultra")
    assert (alone.link.kind, alone.link.domain, alone.is_unified) == ("none", 1, True)
    found = rl.predict(MODEL, alone, **CASE)
    assert found.ttft > 0.0
    assert any("CPU and GPU share the memory" in text for text in found.warnings)
    with pytest.raises(
        rl.BadInput, match="m3-ultra works alone, as its specification has neither scale_up nor scale_out"
    ):
        rl.predict(MODEL, alone, tp=2)
    joined = rl.predict(MODEL, "m3-ultra", tp=2, set="scale_up.bandwidth=10GB/s,scale_up.domain=4", **CASE)
    assert joined.deployment.gpu.link.kind == "scale-up"
    with pytest.raises(rl.BadInput, match=r"set both scale_up\.bandwidth and scale_up\.domain"):
        rl.predict(MODEL, "m3-ultra", set="scale_up.domain=4")
    network = rl.predict("llama-3.1-70b", "gb10", tp=2, **CASE)
    assert "gb10: 2 ranks use the network, as it has no scale-up link" in network.warnings


# --- rents of one's own ---------------------------------------------------------------------------


def test_a_file_of_prices_takes_the_place_of_the_catalogs(tmp_path):
    path = write(tmp_path, "GPU, USD per hour, Low, High\nH100,2.5,2,3\nb200,1460/month\n", "cloud.csv")
    first, second, other = (rl.predict(MODEL, gpu, price_file=path, **CASE) for gpu in ("h100", "b200", "l40s"))
    assert (first.usd_per_hour, first.usd_per_hour_range, first.price_source) == (
        pytest.approx(2.5), pytest.approx((2.0, 3.0)), "cloud.csv")  # fmt: skip
    assert (second.usd_per_hour, second.to_dict()["usd_per_month"]) == (pytest.approx(2.0), pytest.approx(1460.0))
    assert other.price_source.startswith("catalog ")
    rows = rl.table(MODEL, ["h100", "b200"], price_file=path, keys=["usd_per_hour"]).to_rows()
    assert [row["usd_per_hour"] for row in rows] == pytest.approx([2.5, 2.0])
    (row,) = [
        line for line in shell("ttft", MODEL, "h100", "--price-file", path).stdout.splitlines() if "h100-sxm" in line
    ]
    assert " 2.5 " in row
    write(tmp_path, "gpu,usd_per_month\nh100,730\n", "cloud.csv")  # the same name, read again
    assert rl.predict(MODEL, "h100", price_file=path, **CASE).usd_per_hour == pytest.approx(1.0)


@each(
    ("text", "said"),
    [
        ("", "1: a file of prices has columns gpu and usd_per_hour"),
        ("gpu,euro\nh100,2\n", "found gpu, euro"),
        ("gpu,usd_per_hour\n", "no line below its headings"),
        ("gpu,usd_per_hour\nh100,cheap\n", r"cloud.csv:2: usd_per_hour: 'cheap' is not a price"),
        ("gpu,usd_per_hour\nh100,-2\n", r"cloud.csv:2: "),
        ("gpu,usd_per_hour\nh1000,2\n", r"cloud.csv:2: unknown GPU 'h1000'; did you mean"),
        ("gpu,usd_per_hour,low\nh100,2,3\n", r"cloud.csv:2: 3, 2 and 2 USD/h must satisfy low <= usd_per_hour <= high"),
        ("gpu,usd_per_hour\nh100\n", r"cloud.csv:2: states no usd_per_hour"),
        ("gpu,usd_per_month\nh100,1,500\n", r"cloud.csv:2: 3 cells below 2 headings; quote a text with a comma"),
        ("gpu,usd_per_hour,usd_per_month\nh100,2,1460\n", "leave out one of usd_per_hour and usd_per_month"),
        ("gpu,usd_per_hour,usd_per_hour\nh100,2,3\n", "two columns are called usd_per_hour"),
    ],
    ids=str,
)
def test_a_file_of_prices_is_refused_by_line(tmp_path, text, said):
    path = write(tmp_path, text, "cloud.csv")
    with pytest.raises(rl.RooflineError, match=said):
        rl.predict(MODEL, "h100", price_file=path)


def test_a_file_that_is_not_there_or_beside_a_price_is_refused(tmp_path):
    with pytest.raises(rl.BadInput, match="cannot be read"):
        rl.predict(MODEL, "h100", price_file=str(tmp_path / "none.csv"))
    path = write(tmp_path, "gpu,usd_per_hour\nh100,2\n", "cloud.csv")
    with pytest.raises(rl.BadInput, match="gpu_price and price_file both state rents"):
        rl.predict(MODEL, "h100", price_file=path, gpu_price=2)


def test_prices_are_listed_by_age_with_those_that_ship_without_one():
    rows = list(csv.DictReader(io.StringIO(shell("gpus", "--prices", "-f", "csv").stdout)))
    ages = [int(row["price_age_days"]) for row in rows]
    assert ages == sorted(ages, reverse=True)
    for row in rows:
        assert float(row["usd_per_hour_low"]) <= float(row["usd_per_hour"]) <= float(row["usd_per_hour_high"])
        assert row["price_title"]
    text = shell("gpus", "--prices").stdout
    assert f"{sum(age > 120 for age in ages)} of {len(ages)} prices over 120 days old (!)" in text
    assert "l20" in text.partition("no rent known for")[2]


def test_what_is_stale_is_listed_by_the_script_as_by_the_command():
    listed = runpy.run_path(str(ROOT / "docs" / "list_stale.py"))
    old = [line.partition(":")[0] for line in listed["rents"](120)]
    rows = csv.DictReader(io.StringIO(shell("gpus", "--prices", "-f", "csv").stdout))
    assert sorted(old) == sorted(row["gpu"] for row in rows if int(row["price_age_days"]) > 120)
    assert len(list(listed["rents"](0))) == sum(rl.load_gpu(gpu).price is not None for gpu in rl.gpus())
    assert "l20: ships without a rent" in list(listed["without_a_rent"]())
    assert all(": announced; newest source of " in line for line in listed["announced"]())


def test_an_announced_gpu_is_marked_and_leads_nothing_that_ships():
    lines = shell("ttft", MODEL, "mi455x,h100").stdout.splitlines()
    (marked,) = [line for line in lines if "mi455x" in line]
    assert marked.startswith("~")
    assert lines.index(marked) > next(place for place, line in enumerate(lines) if "h100-sxm" in line)
    assert "~ announced" in lines[-1]
    assert rl.predict(MODEL, "mi455x").to_dict()["gpu_status"] == "announced"
    everything = shell("ttft", MODEL, "--all").stdout.splitlines()
    first = next(line for line in everything if "tp" in line and line[:1] in "*+?~" and "plan" not in line)
    assert not first.startswith("~")


# --- every question, several GPUs, names as people write them -------------------------------------


def test_questions_over_several_gpus_set_a_figure_of_one_of_them():
    set_one, two = f"h100.{WIDE}", ["h100", "h200"]
    sizes = rl.size(MODEL, two, slo="ttft:300", concurrency=4, set=set_one).plans
    assert {size.gpu.name for size in sizes} == {"h100-sxm*", "h200-sxm"}
    tiers = rl.prompt_cache(MODEL, two, isl=4000, prefix=3000, cache_tier="hbm", set=set_one)
    assert {tier.gpu.name for tier in tiers} == {"h100-sxm*", "h200-sxm"}
    front = rl.pareto(MODEL, two, batch=[1, 8], tp=1, set=set_one)
    assert set(front.by_gpu) == {"h100-sxm*", "h200-sxm"}
    for point in front.points:  # the options make the point again
        options = dict(point.options)
        again = rl.predict(options.pop("model"), options.pop("gpu"), **options)
        assert (again.ttft, again.tpot) == (point.prediction.ttft, point.prediction.tpot)
    for command, *more in (
        ("solve", "--for", "batch", "--slo", "tpot:10"), ("curve",), ("pareto", "--tp", 1, "-b", "1,8"), ("cost",),
        ("cache", "--prefix", 500), ("size", "-c", 4, "--slo", "ttft:300"), ("goodput", "--slo", "ttft:300", "--tp", 1),
    ):  # fmt: skip
        said = shell(command, "-m", MODEL, "-g", "h100,h200", "--set", set_one, *more)
        assert said.exit_code == 0, said.output
        assert "h100-sxm*" in said.stdout
        wrong = shell(command, "-m", MODEL, "-g", "h100,h200", "--set", f"b200.{WIDE}", *more)
        assert "set names b200, which is not among the GPUs asked about" in wrong.stderr
    pools = ("disaggregate", "-m", MODEL, "--prefill", "h100", "--decode", "h200", "--rate", 1, "--set", set_one)
    assert f"set {set_one}" in " ".join(shell(*pools).stdout.splitlines()[:2])
    with pytest.raises(rl.BadInput, match="not among the GPUs asked about"):
        rl.disaggregate(MODEL, "h100:tp1", "h200:tp1", request_rate=1.0, set=f"b200.{WIDE}")


def test_a_gpu_that_cannot_have_the_figure_is_refused_alone():
    slo = ("--slo", "ttft:900")
    for command, *more in (("ttft",), ("size", "-c", 4, *slo), ("goodput", *slo, "--tp", 1)):
        said = shell(command, "-m", MODEL, "-g", "h100,m3-max", "--set", "scale_up.bandwidth=500GB/s", *more)
        assert "h100-sxm*" in said.stdout, said.output
    said = shell("cost", "-m", MODEL, "-g", "h100,l20", "--set", "l20.memory.bandwidth=1TB/s", "-f", "json")
    rows = {row["gpu"]: row["reason"] for row in json.loads(said.stdout)["rows"]}
    assert rows["h100-sxm"] is None
    assert "no rental price" in rows["l20*"]


def test_a_record_that_was_set_can_be_set_further_and_says_all():
    first = rl.load_gpu("h100", set=WIDE)
    second = rl.predict(MODEL, first, set="peak.bf16=2PFLOP/s").deployment.gpu
    assert (second.name, second.bandwidth, second.peaks["bf16"]) == ("h100-sxm*", 12e12, 2e15)
    said = " ".join(second.cautions)
    assert "memory.bandwidth set to 12 TB/s instead of 3.35 TB/s" in said
    assert "peak.bf16 set to 2 PFLOP/s" in said
    assert rl.load_gpu("h100", set="memory.bandwidth=3.35TB/s") == rl.load_gpu("h100")
    assert rl.load_gpu("h100", set="scale_up.domain=8").name == "h100-sxm"


def test_two_records_of_one_gpu_are_two_answers():
    kinds = [rl.load_gpu("h100", set=f"memory.bandwidth={rate}TB/s") for rate in (12, 6)]
    for answers in (
        rl.goodput(MODEL, kinds, slo="tpot:20", tp=1),
        rl.cost(MODEL, kinds, tp=1),
        rl.size(MODEL, kinds, slo="tpot:20", batch=1).plans,
    ):
        assert sorted(answer.gpu.bandwidth for answer in answers) == [6e12, 12e12]
    (one,) = rl.size(MODEL, ["h100", "h100-sxm"], slo="tpot:20", batch=1).plans
    assert one.gpu.name == "h100-sxm"


def test_names_are_those_that_the_catalog_knows_and_wrong_ones_are_refused_at_every_door():
    label = "NVIDIA H100 80GB HBM3.memory.bandwidth=5TB/s"
    assert [row["gpu"] for row in rl.table(MODEL, ["h100", "h200"], set=label)] == ["h100-sxm*", "h200-sxm"]
    with pytest.raises(rl.BadInput, match="set names h200-sxm, which is not the GPU asked about: b200"):
        rl.load_gpu("b200", set=f"h200.{WIDE}")
    with pytest.raises(rl.UnknownName, match="unknown GPU 'zzz'"):
        rl.load_gpu("b200", set=f"zzz.{WIDE}")
    with pytest.raises(rl.BadInput, match=r"memory\.bandwidth is set twice for h100-sxm"):
        rl.predict(MODEL, "h100", set="h100.memory.bandwidth=5TB/s,h100-sxm.memory.bandwidth=6TB/s")
    for text in ("..memory.bandwidth=5TB/s", "h100..memory.bandwidth=5TB/s"):
        with pytest.raises(rl.BadInput, match="has a dot too many"):
            rl.predict(MODEL, "h100", set=text)
    for value in (10**400, float("inf"), float("nan")):
        with pytest.raises(rl.BadInput, match=r"set: (memory.bandwidth|scale_up.domain)"):
            rl.load_gpu("h100", set={"memory.bandwidth": value})
        with pytest.raises(rl.BadInput, match="whole number of GPUs"):
            rl.load_gpu("h100", set={"scale_up.domain": value})
    with pytest.raises(rl.BadInput, match="is more than the label"):
        rl.load_gpu("h100", set="memory.usable=200GB,memory.label=80GB")
    numbers = rl.load_gpu("h100", set={"memory.bandwidth": np.float64(12e12), "scale_up.domain": np.int64(4)})
    assert (numbers.bandwidth, numbers.link.domain) == (12e12, 4)
    assert shell("ttft", MODEL, "h100", "--set", "").exit_code == 1


def test_the_rent_of_a_set_gpu_is_said_to_be_that_of_the_gpu_unless_it_is_given():
    assert rl.predict(MODEL, "h100", set=WIDE).price_source == "of h100-sxm: catalog 2026-09-19"
    assert rl.predict(MODEL, "h100", set=WIDE, gpu_price=2).price_source == "given"


def test_prices_by_the_month_may_be_ranges_and_have_commas_in_quotes(tmp_path):
    for text, low, high in (("1500-2000", 1500, 2000), ('"$2,500"', 2500, 2500), ("1460", 1460, 1460)):
        path = write(tmp_path, f"\n\ngpu,usd_per_month\nh100,{text}\n", f"cloud{low}.csv")
        found = rl.predict(MODEL, "h100", price_file=path)
        assert found.usd_per_hour_range == pytest.approx((low / 730, high / 730))
    assert rl.predict(MODEL, "h100", price_file=path).price_source == "cloud1460.csv"


def test_announced_gpus_are_marked_and_lead_no_headline_where_others_do_as_well(tmp_path):
    path = write(tmp_path, "gpu,usd_per_hour\nrubin-ultra,0.01\nh100,3\n", "cloud.csv")
    both = ("-m", MODEL, "-g", "rubin-ultra,h100", "--price-file", path)
    for command, *more in (
        ("solve", "--for", "batch", "--slo", "tpot:20"), ("cost",), ("size", "-c", 8, "--slo", "tpot:20"),
        ("goodput", "--slo", "tpot:20", "--tp", 1), ("ttft",), ("predict", "--knee"),
        ("pareto", "--tp", 1, "-b", "1,8"),
    ):  # fmt: skip
        words = [word for word in both if command != "solve" or word not in ("--price-file", path)]
        text = shell(command, *words, *more).stdout
        marked = [line for line in text.splitlines() if "rubin-ultra-nvl576" in line and " tp" in line]
        assert marked, command
        assert all(line.startswith("~") for line in marked), (command, text)
        if command != "pareto":  # whose frontier is of all that were asked about
            headline = text.partition("GPU  ")[0]
            assert "rubin-ultra" not in headline, (command, headline)
    assert shell("gpus", "--status", "announced").stdout.splitlines()[1].startswith("~")


def test_a_machine_without_a_network_is_told_no_plan_that_needs_one():
    for model, gpu in (("deepseek-r1", "m3-ultra"), ("llama-3.1-405b", "strix-halo"), ("deepseek-r1", "v100-sxm-16gb")):
        said = shell("predict", "-m", model, "-g", gpu).stderr
        assert "does not fit" in said
        assert "--pp" not in said, said
    said = shell("predict", "-m", "deepseek-r1", "-g", "gb10").stderr
    advised = re.search(r"try --tp (\d+), --pp (\d+)", said)
    assert advised, said
    tp, pp = advised.groups()
    assert shell("predict", "-m", "deepseek-r1", "-g", "gb10", "--tp", tp, "--pp", pp).exit_code == 0
