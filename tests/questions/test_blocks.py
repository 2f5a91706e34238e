"""Tables in blocks: nothing lost and nothing twice, whoever computes them, whatever dies meanwhile."""

import json
import math
import os
import random
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.catalog import find
from roofline.cli.main import cli
from roofline.numbers.columns import Numbers, Words
from roofline.outputs import dataset
from roofline.questions import blocks, reducers, workers
from roofline.questions.pareto import maxima
from roofline.questions.table import _EveryPlan, _grid, _source
from roofline.support import progress

MODEL, GPU = "llama-3.1-8b", "h100-sxm"
#: 2e5 rows, in 13 blocks.
MANY = {"isl": range(1, 5001), "osl": range(2, 42), "keys": ["isl", "osl", "ttft_ms", "tpot_ms"], "basis": "ideal"}
#: 40,000 rows, in 3 blocks.
SOME = {**MANY, "osl": range(2, 10)}


@pytest.fixture(scope="module")
def many():
    return rl.table(MODEL, GPU, **MANY)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "rows"


def assert_same_rows(found, table):
    rows = found.to_arrow()
    for key in ("ttft_ms", "tpot_ms"):
        whole = table.to_arrow()[key].to_numpy()
        assert math.isclose(rows[key].to_numpy().sum(), whole.sum(), rel_tol=1e-12)
    assert rows.equals(table.to_arrow())


def after_first_write(monkeypatch, do):
    """Do something once, after the first block is in the folder."""
    write, done = dataset.Folder.write, []

    def then(self, number, data):
        write(self, number, data)
        if not done:
            done.append(number)
            do()

    monkeypatch.setattr(dataset.Folder, "write", then)


def test_a_process_that_is_killed_costs_no_row(many, folder, monkeypatch):
    pools, pool = [], workers._pool
    monkeypatch.setattr(workers, "_pool", lambda count: pools.append(pool(count)) or pools[-1])
    after_first_write(monkeypatch, lambda: os.kill(min(pools[0]._processes), signal.SIGKILL))
    found = rl.table(MODEL, GPU, **MANY, out=folder, jobs=2)
    assert len(pools) == 2, "the pool that lost a process was used on"
    assert (found.rows, len(found), found.blocks, found.computed) == (200_000, 200_000, 13, 200_000)
    assert_same_rows(found, many)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_worker_of_a_cluster_that_is_killed_costs_no_row(many, folder, monkeypatch):
    from distributed import Client, LocalCluster

    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with LocalCluster(**how) as cluster, Client(cluster) as client:
        for nanny in cluster.workers.values():
            nanny.auto_restart = False  # the other worker has to do
        process = next(iter(client.run(os.getpid).values()))
        after_first_write(monkeypatch, lambda: os.kill(process, signal.SIGKILL))
        reduce = ["best:ttft", "frontier:ttft,output_tok_s_gpu"]
        found = rl.table(MODEL, GPU, **MANY, out=folder, reduce=reduce, executor=client)
        monkeypatch.undo()
        assert_same_rows(found, many)
        by_address = rl.table(MODEL, GPU, **SOME, reduce=reduce, dask=cluster.scheduler_address)
        assert by_address.reduced == rl.table(MODEL, GPU, **SOME, reduce=reduce).reduced
    with pytest.raises(rl.BadInput, match="no scheduler of Dask answers at nowhere: missing port"):
        workers.workers_of(dask="nowhere")


def test_any_executor_computes_the_same_files(folder, tmp_path):
    with ThreadPoolExecutor(3) as executor:
        rl.table(MODEL, GPU, **SOME, out=folder, executor=executor)
    rl.table(MODEL, GPU, **SOME, out=tmp_path / "alone")
    files = sorted(path.name for path in folder.glob("*.parquet"))
    assert len(files) == 3
    assert all((folder / name).read_bytes() == (tmp_path / "alone" / name).read_bytes() for name in files)
    with pytest.raises(rl.RooflineError, match="block 0 failed on a worker: RuntimeError: cannot schedule"):
        rl.table(MODEL, GPU, **SOME, reduce="best:ttft", executor=executor)  # it is shut down


# A folder that is gone on with.


def test_what_is_missing_or_damaged_is_computed_and_nothing_else(folder):
    whole = rl.table(MODEL, GPU, **SOME, out=folder, reduce=["histogram:ttft"])
    files = sorted(folder.glob("*.parquet"))
    kept = [path.read_bytes() for path in files]
    files[0].write_bytes(kept[0][:-5])  # cut short
    files[1].write_bytes(kept[2])  # another block's
    (folder / ".block-000001.parquet.part").write_bytes(b"half")
    again = rl.table(MODEL, GPU, **SOME, out=folder, reduce=["histogram:ttft"], resume=True)
    assert again.computed == 2 * 16_384
    assert [path.read_bytes() for path in files] == kept
    assert again.reduced == whole.reduced
    assert not list(folder.glob("*.part"))
    assert rl.table(MODEL, GPU, **SOME, out=folder, reduce=["histogram:ttft"], resume=True).computed == 0
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert (manifest["complete"], manifest["rows"], manifest["question"]["gpu"]) == (True, 40_000, [GPU])
    assert json.loads((folder / "_reduced.json").read_text()) == whole.reduced


def test_a_folder_of_anything_else_is_refused(folder, tmp_path):
    rl.table(MODEL, GPU, **SOME, out=folder)
    (tmp_path / "file").write_text("")
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "notes.txt").write_text("")
    for options, message in {
        ("rows",): "has blocks of this question already; go on with `resume`",
        ("rows", "resume"): None,
        ("rows", "resume", "tp"): "rows holds another question: other tp; choose another folder",
        ("rows", "resume", "reduce"): "holds another question: other reduce;",
        ("rows", "resume", "isl"): "holds another question: other rows, blocks, isl;",
        ("file",): "is a file; a data set needs a folder of its own",
        ("others",): r"has other files, such as 'notes.txt'; choose a folder of its own",
        ("file/below",): "cannot be written: Not a directory",
    }.items():
        other = {"tp": {"tp": 2}, "reduce": {"reduce": "best:ttft"}, "isl": {"isl": range(1, 9)}}
        asked = {**SOME, **(other.get(options[-1], {}))}
        ask = lambda: rl.table(MODEL, GPU, **asked, out=tmp_path / options[0], resume="resume" in options)  # noqa: B023, E731
        if message is None:
            assert ask().computed == 0
        else:
            with pytest.raises(rl.BadInput, match=message):
                ask()
    (folder / "_manifest.json").write_text("{}")
    with pytest.raises(rl.BadInput, match="is no manifest of a data set"):
        rl.table(MODEL, GPU, **SOME, out=folder, resume=True)
    (folder / "_manifest.json").unlink()
    for resume in (True, False):
        with pytest.raises(
            rl.BadInput, match=r"has blocks, but its _manifest\.json is missing; put it back, or choose"
        ):
            rl.table(MODEL, GPU, **SOME, out=folder, resume=resume)


def test_two_processes_do_not_write_to_one_folder(folder):
    manifest = {"sha256": "x"}
    with (
        dataset.opened(str(folder), manifest, resume=False),
        pytest.raises(rl.BadInput, match="another process writes to it; wait until it finishes"),
    ):
        rl.table(MODEL, GPU, **SOME, out=folder)
    with dataset.opened(str(folder), manifest, resume=True):
        pass


def test_a_full_disk_leaves_whole_blocks_and_says_how_to_go_on(folder, monkeypatch):
    sync, calls = dataset.sync, []

    def full(path):
        calls.append(path)
        if len(calls) == 4:  # the manifest, and two blocks
            raise OSError(28, "No space left on device")
        sync(path)

    monkeypatch.setattr(dataset, "sync", full)
    with pytest.raises(rl.BadInput, match=r"No space left on device; \S*rows holds 2 of 3 blocks; .*`resume` goes on"):
        rl.table(MODEL, GPU, **SOME, out=folder)
    assert sorted(path.name for path in folder.glob("*.p*")) == ["block-000000.parquet", "block-000001.parquet"]
    monkeypatch.undo()
    found = rl.table(MODEL, GPU, **SOME, out=folder, resume=True)
    assert found.computed == 40_000 - 2 * 16_384
    assert_same_rows(found, rl.table(MODEL, GPU, **SOME))


def test_ctrl_c_says_what_is_done_and_ends_with_130(folder, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    asked = ["sweep", MODEL, GPU, "--isl", "1:5000:1", "--osl", "2:9:1", "--keys", "ttft_ms", "--out", str(folder)]
    after_first_write(monkeypatch, interrupted)
    stopped = CliRunner().invoke(cli, asked)
    assert stopped.exit_code == 130
    assert f"Error: stopped: {folder} holds 0 of 3 blocks; the same question with --resume goes on" in stopped.stderr
    done = CliRunner().invoke(cli, [*asked, "--resume", "--reduce", "best:ttft"])
    assert "holds another question: other reduce" in done.stderr
    done = CliRunner().invoke(cli, [*asked, "--resume"])
    assert done.exit_code == 0
    assert f"wrote {folder}: 40,000 rows in 3 blocks" in done.stderr
    assert "23,616 rows were missing" in done.stderr, "the block that was written before is kept"


def test_ctrl_c_on_a_terminal_wraps_at_words(tmp_path, monkeypatch):
    asked = ["sweep", MODEL, GPU, "--isl", "1k,2k", "--keys", "ttft_ms", "--out", str(tmp_path / "rows")]
    kept, said = [], []
    monkeypatch.setattr(dataset.Folder, "write", lambda *_: kept.append(1) or signal.raise_signal(signal.SIGINT))
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(click.ClickException) as stopped, monkeypatch.context() as patch:
        patch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        cli.main(asked, standalone_mode=False)
    said = f"Error: {stopped.value.message}".splitlines()
    assert (stopped.value.exit_code, len(kept)) == (130, 1)
    assert " ".join(said).endswith("holds 0 of 1 block; the same question with --resume goes on")
    assert len(said) > 1
    assert all(len(line) <= 60 or " " not in line for line in said), said


@each("asked", {"--jobs": "0", "--dask": " ", "--reduce": "best:ttft_ms"}.items())
def test_the_shell_names_its_options_as_they_are_typed(asked):
    words = ["sweep", MODEL, GPU, "--reduce", "best:ttft_ms", *asked]
    said = CliRunner().invoke(cli, words).stderr
    assert re.search(rf"^Error: {asked[0]} '?{asked[1]}'? (must be|is given twice)", said), said


def test_a_histogram_has_a_unit_and_names_what_is_not_answered():
    asked = ["sweep", MODEL, GPU, "--isl", "1k:3k:512", "--batch", "1,100000", "--reduce", "histogram:ttft:100,300"]
    _, headings, *lines = CliRunner().invoke(cli, asked).stdout.splitlines()
    assert headings.split("  ")[-1] == "share"
    assert re.split(r"\s{2,}", headings.strip())[:2] == ["from ms", "to ms"]
    assert [re.split(r"\s{2,}", line.strip()) for line in lines] == [
        ["-", "100", "5", "50%"], ["100", "300", "0", "0%"], ["300", "-", "0", "0%"], ["not answered", "-", "5", "50%"],
    ]  # fmt: skip
    assert {
        line.index(cell) + len(cell) for line, cell in zip(lines, ("-", "100", "300", "not answered"), strict=True)
    } == {12}


def test_workers_with_another_version_or_catalog_are_refused(monkeypatch):
    source = _source(_grid(MODEL, GPU, ["ttft_ms"], {}))
    asked, _ = blocks._asked(source, ("ttft_ms",), ())
    question = blocks._written(asked, "other")
    with pytest.raises(rl.BadInput, match="another catalog"):
        blocks.computed_block(question, 0)
    with pytest.raises(rl.BadInput, match=r"a worker has roofline .*, the question is of 0\.0\.0; install that"):
        blocks.computed_block(question.replace(rl.__version__.encode(), b"0.0.0", 1), 0)


def test_processes_that_always_die_are_an_error(monkeypatch):
    pool = workers._pool

    def dying(count):
        made = pool(count)
        submit = made.submit
        made.submit = lambda work, *of: submit(os._exit, 3)
        return made

    monkeypatch.setattr(workers, "_pool", dying)
    with pytest.raises(rl.RooflineError, match=r"processes died 3 times.*out of memory\?"):
        list(workers.workers_of(jobs=1 + 1).answers(blocks.computed_block, b"", [0]))


# What a question carries.


def test_files_of_the_user_travel_with_the_question(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    gpu = find.written("l40s", "gpu").split("\n", 2)
    (tmp_path / "specs" / "acme.yaml").write_text("\n".join(["name: acme-1", "aliases: [acme]", gpu[2]]))
    model = find.written("qwen3-0.6b", "model").split("\n", 2)
    (tmp_path / "mine.yaml").write_text("\n".join(["name: me/mine-1b", "aliases: [mine-1b]", model[2]]))
    case = {"isl": [100, 2000], "batch": [1, 100_000], "specs": "specs"}
    models, gpus, keys = "./mine.yaml", ["acme", "2xacme:tp2", "l40s"], ("model", "gpu", "fits", "ttft_ms", "warnings")
    found = rl.table(models, gpus, keys=keys, **case)
    assert {row["gpu"] for row in found} == {"acme-1", "l40s"}
    asked, _ = blocks._asked(_source(_grid(models, gpus, keys, case)), (*keys, "reason"), ())
    question = blocks._written(asked, blocks.catalog_fingerprint())
    (tmp_path / "specs" / "acme.yaml").unlink()
    (tmp_path / "mine.yaml").unlink()
    monkeypatch.setenv("ROOFLINE_SPECS", "/no/such/folder")  # of the worker
    block = blocks.computed_block(question, 0)
    assert os.environ["ROOFLINE_SPECS"] == "/no/such/folder"
    (tmp_path / "block.parquet").write_bytes(block.data)
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "block.parquet").to_pylist() == found.to_rows()


def test_the_folder_of_the_environment_travels_too(tmp_path, monkeypatch):
    gpu = find.written("l40s", "gpu").split("\n", 2)
    (tmp_path / "acme.yaml").write_text("\n".join(["name: acme-1", "aliases: [acme]", gpu[2]]))
    monkeypatch.setenv("ROOFLINE_SPECS", str(tmp_path))
    source = _source(_grid(MODEL, "acme", ["gpu"], {}))
    assert list(source.files) == ["0/acme.yaml"]
    monkeypatch.delenv("ROOFLINE_SPECS")
    with blocks.unpacked(source.files) as place:
        assert source.placed(place).part(0, 1, ("gpu",))[0] == {"gpu": "acme-1"}


def test_a_table_of_any_size_is_decoded_by_its_numbers():
    options = {"tp": [1, 2], "basis": ["ideal", "calibrated", "ideal"], "pp": [1]}
    plans = _EveryPlan(options)
    assert list(plans) == [{"tp": tp, "basis": basis, "pp": 1} for tp in options["tp"] for basis in options["basis"]]
    assert (len(plans), plans[-1], plans[1:3]) == (6, list(plans)[5], list(plans)[1:3])
    huge = {"isl": range(1, 10_001), "osl": range(1, 10_001), "batch": range(1, 1001)}
    source = _source(_grid([MODEL, "qwen3-32b"], [GPU, "b200"], None, {**huge, "tp": [1, 2, 4, 8]}))
    assert source.rows == 16 * 10**11
    last = source.rows_at([source.rows - 1, 0], ["model", "gpu", "tp", "isl", "osl", "batch"])
    assert list(last[0].values()) == ["qwen3-32b", "b200", 8, 10_000, 10_000, 1000]
    assert list(last[1].values()) == [MODEL, GPU, 1, 1, 1, 1]


# Reductions.


def columns(rows, seed):
    """Figures with ties and gaps, and words."""
    draw = np.random.default_rng(seed)
    made = {}
    for key in ("ttft_ms", "output_tok_s_gpu", "isl"):
        made[key] = Numbers(rows)
        made[key].values[:] = draw.integers(1, 12, rows)
        made[key].values[draw.random(rows) < 0.1] = np.nan
    for key, known in {"gpu": ("a", "b", None), "slo_met": (True, False, None)}.items():
        made[key] = Words(rows)
        made[key].put_each(slice(0, rows), list(known), draw.integers(0, 3, rows))
    return made


def part(whole, start, end):
    cut = {}
    for key, column in whole.items():
        cut[key] = type(column)(end - start)
        if key in ("gpu", "slo_met"):
            cut[key].put_each(slice(0, end - start), column.words, column.codes[start:end])
        else:
            cut[key].values[:] = column.values[start:end]
    return cut


TEXTS = (
    "best:ttft", "top:7:output_tok_s_gpu:gpu", "frontier:ttft,output_tok_s_gpu",
    "frontier:ttft,output_tok_s_gpu:gpu", "histogram:ttft", "histogram:isl:2,5,9:gpu", "share", "share:gpu,isl",
)  # fmt: skip


@each("text", TEXTS)
def test_blocks_in_any_order_keep_what_the_whole_table_keeps(text):
    (reduction,) = reducers.reductions_of([text])
    for seed in range(4):
        rows, draw = 300, random.Random(seed)
        whole = columns(rows, seed)
        expected = reducers.reduced(reduction, whole, rows, 0, has_limits=True)
        ends = [0, *sorted(draw.sample(range(1, rows), 6)), rows]
        states = [
            reducers.reduced(reduction, part(whole, start, end), end - start, start, has_limits=True)
            for start, end in pairwise(ends)
        ]
        draw.shuffle(states)
        found = {}
        for state in states:  # as it is written to a block and read again
            again = reducers.from_json(reduction, json.loads(json.dumps(reducers.to_json(state))))
            found = reducers.merged(reduction, found, again)
        in_order = [reducers.to_json(dict(reducers.in_order(kept))) for kept in (found, expected)]
        assert in_order[0] == in_order[1]


def test_the_best_and_the_frontier_are_those_of_a_plain_search():
    whole = columns(400, 9)
    points = [
        (ttft, rate, row)
        for row, (ttft, rate, met) in enumerate(
            zip(whole["ttft_ms"].values, whole["output_tok_s_gpu"].values, whole["slo_met"].listed(0, 400), strict=True)
        )
        if met is True and ttft == ttft and rate == rate
    ]
    best, top, frontier = (
        reducers.reduced(reduction, whole, 400, 0, has_limits=True)[()].tolist()
        for reduction in reducers.reductions_of(["best:ttft", "top:5:output_tok_s_gpu", TEXTS[2]])
    )
    met = whole["slo_met"].listed(0, 400)
    lowest = min(
        (ttft, row) for row, ttft in enumerate(whole["ttft_ms"].listed(0, 400)) if met[row] and ttft is not None
    )
    assert best == [list(lowest)]
    assert [rate for rate, _ in top] == [11.0] * 5
    assert frontier == [list(points[place]) for place in maxima([(-ttft, rate) for ttft, rate, _ in points])]


def test_what_is_kept_is_what_the_table_has():
    case = {"isl": [100, 1000, 8000], "osl": [1, 50], "batch": [1, 64], "slo": "ttft:100,tpot:25", "basis": "ideal"}
    gpus = [GPU, "b200", "l40s"]
    rows = rl.table(MODEL, gpus, **case).to_rows()
    reduce = ["best:tpot:gpu", "top:2:e2el", "share:gpu", "histogram:ttft:50,100", "histogram:ttft"]
    found = rl.table(MODEL, gpus, **case, reduce=reduce)
    met = [row for row in rows if row["slo_met"]]
    for row in found.reduced["best:tpot_ms:gpu"]:
        of_gpu = [each for each in met if each["gpu"] == row["gpu"] and each["tpot_ms"] is not None]
        assert row["tpot_ms"] == min(each["tpot_ms"] for each in of_gpu)
        for key in ("isl", "osl", "batch", "ttft_ms"):
            assert row[key] == pytest.approx(rows[row["row"]][key], rel=1e-12)
    assert [row["e2el_ms"] for row in found.reduced["top:2:e2el_ms"]] == sorted(row["e2el_ms"] for row in met)[:2]
    for row in found.reduced["share:gpu"]:
        of_gpu = [each for each in rows if each["gpu"] == row["gpu"]]
        assert (row["row_count"], row["met_count"]) == (12, sum(each["slo_met"] is True for each in of_gpu))
        assert row["met_share"] == row["met_count"] / 12
    low, middle, high, none = found.reduced["histogram:ttft_ms:50,100"]
    assert low["row_count"] == sum(row["ttft_ms"] is not None and row["ttft_ms"] < 50 for row in rows)
    assert (middle["bin_low"], middle["bin_high"], high["bin_high"], none["bin_low"]) == (50.0, 100.0, None, None)
    assert sum(row["row_count"] for row in found.reduced["histogram:ttft_ms"]) == len(rows)
    assert found.to_dict(["gpu"])["rows"][0] == {"reduction": "best:tpot_ms:gpu", "gpu": "b200"}
    assert repr(found) == f"<DataSet: 36 rows; {', '.join(found.reduced)}>"


@each(
    "text, message",
    {
        "beast:ttft": "did you mean best?; choose from best:KEY[:PER], top:N:KEY[:PER]",
        "best": "names 0 figures in place of 1; write best:KEY[:PER]",
        "best:tp": "tp has no better side",
        "best:nope": "unknown key 'nope' of a figure",
        "best:ttft:nope": "unknown key 'nope'",
        "best:ttft:warnings": "rows cannot be grouped by warnings",
        "best:ttft:gpu:tp": "has too many parts",
        "top:ttft": "how many rows?",
        "top:0:ttft": "how many rows?",
        "frontier:ttft": "names 1 figures in place of 2",
        "frontier:ttft,ttft_ms": "names ttft_ms twice",
        "histogram:gpu": "gpu is no number",
        "histogram:ttft:9,5": "edges of bins must rise",
        "share": "state one",
    }.items(),
)
def test_what_is_no_reduction_is_refused_with_what_to_write(text, message):
    with pytest.raises(rl.RooflineError, match=re.escape(message)):
        rl.table(MODEL, GPU, reduce=[text])


def test_too_many_groups_are_refused(monkeypatch):
    monkeypatch.setattr(reducers, "_MOST_GROUPS", 50)
    with pytest.raises(rl.BadInput, match="more than 50 groups; group by keys with fewer values"):
        rl.table(MODEL, GPU, isl=range(1, 100), reduce="best:ttft:isl")


@each("option", ["jobs", "resume", "executor", "dask"])
def test_options_of_blocks_need_blocks(option):
    with pytest.raises(rl.BadInput, match=f"^{option} is for blocks: give `out`"):
        rl.table(MODEL, GPU, **{option: True})


@each("jobs", ["0", 0, -1, 1.5, True, "many", 10**9])
def test_a_number_of_processes_is_checked(jobs):
    with pytest.raises(rl.BadInput, match="from 1 to 1024, or all"):
        workers.workers_of(jobs=jobs)


def test_two_who_compute_are_one_too_many():
    with pytest.raises(rl.BadInput, match="`jobs` and `executor` both say who computes"):
        workers.workers_of(jobs=2, executor=SimpleNamespace(submit=print))
    with pytest.raises(rl.BadInput, match=r"must be a concurrent\.futures\.Executor"):
        workers.workers_of(executor=ThreadPoolExecutor)


# How far it is.


def test_progress_says_the_rate_and_the_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with progress.counting("rows", 1_000_000, before=200_000) as done:
        assert progress.progress_text() == "200,000 of 1,000,000 rows"
        now[0] = 110.0
        done(300_000)
        assert progress.progress_text() == "300,000 of 1,000,000 rows, 10,000 rows/s, 1 min 10 s left"
