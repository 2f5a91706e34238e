"""What leads an answer under an SLO: never what fails while something else passes, never an estimate as if measured."""

import re

import pytest
from asking import answered, ask, document
from every_case import each

import roofline as rl
from roofline.cli.answers import split_by_rule
from roofline.serving.capacity import Goodput
from roofline.support.records import replace

GPUS = ("-g", "h100,b200,vr200")  # the last was never timed
CASE = ("-m", "llama-3.1-8b", "--isl", "1000", "--osl", "200")
LOAD = ("-c", "32")
COMMANDS = {
    "tpot": (*GPUS, *LOAD),
    "predict": (*GPUS, *LOAD),
    "knee": (*GPUS, *LOAD),
    "compare": (*GPUS, *LOAD),
    "cost": (*GPUS, *LOAD, "--gpu-price", "3"),
    "plan": (*GPUS, *LOAD, "--tp", "1"),
    "goodput": (*GPUS, "--tp", "1"),
    "sweep": (*GPUS, "-c", "4,32"),
    "solve": (*GPUS, "--for", "concurrency"),
    "levers": ("-g", "h100", *LOAD, "--for", "tpot"),
}
SLOS = {"tight": "tpot:3", "middling": "tpot:12", "loose": "tpot:500"}
PASSING = ("pass", "pass?")
VERDICTS = (*PASSING, "fail", "fail?", "-")
#: GPUs that lead a headline: they meet it, answer, cost, or are where users are counted.
LEADER = (
    r"(\d+x [\w-]+)(?: as tp[\dx ]+)?(?: by a rough estimate)? (?:meets|answers) "
    r"|(\d+x [\w-]+)(?: as tp[\dx ]+)?: [\d.]+ USD| on (\d+x [\w-]+)"
)


def screen(*arguments):
    """Headline, verdicts of the rows and lines of rows, at 80 columns; no row where nothing meets the SLO."""
    result = ask(*arguments, "--all", env={"COLUMNS": "80"})
    lines = result.stdout.split("\n")
    place = next((place for place, line in enumerate(lines) if re.match(r"(#  +lever| *GPU) .* SLO\b", line)), None)
    if place is None:
        return result, " ".join(lines), [], []
    at = lines[place].rindex("  SLO") + 2
    rows = [
        line for line in lines[place + 1 :] if re.match(r"\S.*|\s+\d", line) and line[at : at + 5].strip() in VERDICTS
    ]
    return result, " ".join(lines[1:place]), [line[at : at + 5].strip() for line in rows], rows


@each("command", COMMANDS)
@each("slo", SLOS)
def test_the_first_row_and_the_headline_never_fail_while_another_row_passes(command, slo):
    if (command, slo) == ("levers", "loose"):  # which takes longest, and where every lever meets it
        return
    result, headline, verdicts, rows = screen(command, *CASE, *COMMANDS[command], "--slo", SLOS[slo])
    if not verdicts:  # these list what meets the SLO, and say that nothing does
        assert command in ("plan", "goodput")
        assert (result.exit_code, slo) == (1, "tight")
        return
    assert max(map(len, rows)) <= 80
    if any(verdict in PASSING for verdict in verdicts):
        assert verdicts[0] in PASSING
        named = re.search(LEADER, headline)
        if named:
            gpus = next(filter(None, named.groups()))
            leaders = [place for place, row in enumerate(rows) if gpus in row]
            assert any(verdicts[place] in PASSING for place in leaders)
            assert all(rows[place].startswith(("?", "~")) for place in leaders) == ("by a rough estimate" in headline)
    elif command != "solve":  # it lists why, one by one
        assert re.search(r"\bnone of \d+ meets|\bneither meets|\bno lever alone meets|\bno lever meets", headline)


def test_the_cheapest_tokens_do_not_lead_where_they_break_the_slo():
    case = {"quantization": "fp8", "isl": 6144, "osl": 400, "prefix": 4096, "cache_hit": 0.8}
    slo = {"ttft_p95": 1.0, "tpot": 0.033}
    found = rl.cost("llama-3.3-70b", ["gb200-nvl72", "gb300-nvl72", "h800"], concurrency=20, slo=slo, **case)
    prices = {one.gpu.name: one.planned.prices.blended for one in found}
    met = {one.gpu.name: one.prediction.tpot <= 0.033 and one.prediction.latency("ttft_p95") <= 1.0 for one in found}
    assert min(prices, key=prices.get) == "h800"
    assert not met["h800"]
    assert [one.gpu.name for one in found] == ["gb200-nvl72", "gb300-nvl72", "h800"]
    words = ("-m", "llama-3.3-70b", "-q", "fp8", "--isl", "6k", "--osl", "400", "--prefix", "4k", "--cache-hit", "80%")
    said = answered("cost", *words, "-g", "gb200,gb300", "-c", "200", "--slo", "ttft:1s@p95,tpot:33")
    assert re.search(r"neither meets .*; nearest: 2x gb300-nvl72", " ".join(said.split()))


@each("command", ("predict", "cost", "plan", "goodput", "solve", "knee", "levers"))
def test_a_gpu_that_was_never_timed_leads_by_a_rough_estimate_alone(command):
    own = {"solve": ("--for", "concurrency"), "goodput": (), "cost": (*LOAD, "--gpu-price", "3")}.get(command, LOAD)
    gpus = ("-g", "vr200", "-g", "l40s") if command in ("predict", "knee") else ("-g", "vr200")
    said = answered(command, *CASE, *gpus, *own, "--slo", "tpot:8")
    assert "by a rough estimate" in " ".join(said.split())
    if command != "levers":
        assert "rough estimate" not in answered(command, *CASE, "-g", "b200", *own, "--slo", "tpot:80")


def test_what_meets_the_slo_is_lifted_over_the_rule_where_nothing_above_it_does():
    rows = [
        {"gpu": gpu, "basis": basis, "usd_per_hour": 1.0, "slo_verdict": word}
        for gpu, basis, word in (
            ("a", "calibrated", "fail"), ("b", "generic", "pass?"), ("c", "generic", "fail?"), ("d", "inherited", None),
        )
    ]  # fmt: skip
    above, below = split_by_rule(["shipping"] * 4, rows, is_named=False)
    assert [row["gpu"] for row in above] == ["b", "a", "d"]
    assert [row["gpu"] for row in below] == ["c"]
    rows[0]["slo_verdict"] = "pass"
    above, below = split_by_rule(["shipping"] * 4, rows, is_named=False)
    assert [row["gpu"] for row in above] == ["a", "d"]
    assert [row["gpu"] for row in below] == ["b", "c"]


def test_of_two_compared_gpus_the_one_that_misses_the_slo_is_named():
    words = ("-m", "llama-3.3-70b", "-q", "fp8", "--isl", "6k", "--osl", "400", "-c", "20", "--slo", "tpot:25")
    said = " ".join(answered("compare", *words, "-g", "h100:tp2,b200:tp1,b200:tp4").split())
    assert re.search(r"b200:tp4 decode 2\.\d+x: [^()]*\(h100-sxm:tp2 misses the SLO\)", said)
    assert not re.search(r"b200:tp1 decode [^()]*\(", said)
    rows = document("compare", *words, "-g", "h100:tp2,b200:tp1,b200:tp4")["rows"]
    assert [row["label"] for row in rows] == ["b200:tp4", "h100-sxm:tp2", "b200:tp1"]
    assert {row["reference"] for row in rows} == {"h100-sxm:tp2"}


@pytest.fixture(scope="module")
def within():
    return rl.levers("llama-3.3-70b", "h100:tp1:fp8", isl=1155, osl=211, request_rate=1, slo="ttft:300,tpot:25")


def test_levers_that_meet_the_slo_come_first_and_the_best_is_one_of_them(within):
    assert not within.start.meets_slo
    for rows in (within.together, within.alone):
        met = [row.meets_slo for row in rows]
        assert met == sorted(met, reverse=True)
    assert within.best.meets_slo
    assert all(chain.meets_slo for chain in within.together if chain.parts[0] == within.best.name)
    rows = within.to_records()
    assert [row["slo_verdict"] for row in rows[1:] if row["reason"] is None] == [
        row.verdict for row in (*within.together, *within.alone)
    ]


def test_a_lever_that_breaks_the_slo_is_no_gain(within):
    start = within.start
    good = next(row for row in within.alone if row.meets_slo)
    broken = replace(start, before=good, name="as it was")
    assert broken.helps("ttft") is broken.helps("tpot") is False
    assert good.helps("tpot")


def test_next_to_no_goodput_has_no_price_and_no_percentages(within):
    little = Goodput(0.01, 0.004, 2.5, "ttft", {}, 0.0)
    start = replace(within.start, goodput=little)
    assert start.cost is start.goodput_usd_per_m_output_tok is None
    more = replace(within.alone[0], before=start)
    assert more.change("goodput") is None
    met = replace(within.alone[0], before=replace(start, goodput=little._replace(rate=2.0, util=0.8)), goodput=little)
    assert met.change("goodput") is None
    enough = replace(start, goodput=little._replace(rate=1.0, util=0.4))
    assert enough.cost == pytest.approx(enough.answer.usd_per_hour / 3600.0)


def test_the_knee_of_users_counts_the_slots_of_every_replica():
    case = {"tp": 1, "max_num_seqs": 256, "concurrency": 100, "slo": "tpot:131"}
    one = rl.knee("llama-3.1-8b", "h100", **case)
    eight = rl.knee("llama-3.1-8b", "h100", num_gpus=8, **case)
    assert (one.memory, one.slo) == (256.0, 256.0)
    assert (eight.memory, eight.slo) == (2048.0, 2048.0)


def test_a_miss_at_the_smallest_plan_points_to_size_and_a_stated_plan_does_not():
    words = ("-m", "llama-3.3-70b", "-q", "fp8", "-c", "400", "--slo", "ttft:1s@p95,tpot:40")
    hint = "at its smallest plan (see plan)"
    for command, gpus in (("tpot", "h100:fp8,b200"), ("cost", "h100,b200"), ("compare", "h100,b200"), ("ttft", "h100")):
        assert hint in " ".join(answered(command, *words, "-g", gpus).split())
    for gpus, own in (("2xh100", ()), ("h100:tp2x2", ()), ("h100,b200", ("--tp", "2")), ("h100", ("--num-gpus", "4"))):
        said = " ".join(answered("tpot", *words, "-g", gpus, *own).split())
        assert re.search("misses it|neither meets it", said)
        assert hint not in said


def test_of_levers_that_keep_answers_those_within_the_slo_lead_for_what_binds_and_all_numbers_are_shown():
    words = ("-m", "llama-3.3-70b", "-q", "fp8", "-c", "400", "--slo", "ttft:1s@p95,tpot:40", "-g", "8xh100")
    said = ask("levers", *words, env={"COLUMNS": "80"}).stdout
    headline = " ".join(said.partition("#  ")[0].split())
    assert "8x h100-sxm tp2 x4 \u00b7 for TPOT, which binds" in headline
    assert re.search(
        r"same answers: 8 replicas instead of 4, prompt cache \(60% hits\) and \S+ \(eagle, 3\), 3[89]", headline
    )
    assert "misses" not in headline
    numbers = re.findall(r"^(\d[\d+]*) ", said, re.MULTILINE)
    combined = {part for number in numbers if "+" in number for part in number.split("+")}
    assert combined
    assert combined <= set(numbers)
    assert len(said.splitlines()) <= 24


def test_where_nothing_meets_the_slo_reasons_above_are_not_promised_again():
    words = ("-m", "llama-3.1-8b", "--slo", "ttft:1,tpot:1")
    named = ask("goodput", *words, "-g", "h100")
    assert named.exit_code == 1
    assert "fail h100-sxm: mean TTFT" in named.stdout
    assert "says why" not in named.stderr
