"""Recipes of docs/howto/many-points.md: readers read what was written; clusters are asked for what they know."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import click
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

import roofline as rl
from roofline.cli.main import cli

PAGE = (Path(__file__).parents[1] / "docs" / "howto" / "many-points.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PYTHON, SHELL, YAML = ([text for kind, text in FENCES if kind == asked] for asked in ("python", "", "yaml"))
KEYS = ["gpu", "isl", "batch", "ttft_ms", "tpot_ms", "reason"]


def block(word):
    (found,) = [text for text in PYTHON if word in text]
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Where the first command and the first Python of the page have run, in this order, and what they leave."""
    place, names = tmp_path_factory.mktemp("fleet"), {}
    command = shlex.split(SHELL[0].replace("\\\n", "").replace("--jobs all", "--jobs 1"))
    with contextlib.chdir(place):
        CliRunner().invoke(cli, command[1:], catch_exceptions=False)
        exec(block('out="chat",\n'), names)
    return place, names, pq.read_table([*sorted(place.glob("fleet/block-*.parquet"))])


def run(text, place):
    names, said = {}, io.StringIO()
    with contextlib.chdir(place), contextlib.redirect_stdout(said):
        exec(text, names)
    return names, said.getvalue()


def test_the_rows_of_the_page_are_written_and_reduced(fleet):
    found = fleet[1]["found"]
    case = {"isl": range(1000, 16_000, 100), "batch": [1, 8, 64]}
    with contextlib.chdir(fleet[0]):
        rows = found.to_arrow()
    assert rows.equals(rl.table("llama-3.1-8b", ["h100", "b200"], **case, keys=KEYS).to_arrow())
    frontier = [row["tok_s_user"] for row in found.reduced["frontier:tok_s_user,output_tok_s_gpu"]]
    assert len(frontier) > 2
    assert frontier == sorted(frontier, reverse=True)


def test_duckdb_reads_the_folder(fleet):
    import duckdb

    place, _, written = fleet
    with contextlib.chdir(place):
        read, said = run(block("import duckdb"), place)
        rows, reasons = read["cheap"].fetchall(), written["reason"].to_pylist()
    assert isinstance(read["cheap"], duckdb.DuckDBPyRelation)
    assert "ttft_p99" in said
    assert sum(row[2] for row in rows) == reasons.count(None)
    assert {row[0] for row in rows} == {"h100-sxm", "b200"}


def test_polars_reads_the_folder(fleet):
    place, names, written = fleet
    read, said = run(block("import polars"), place)
    with contextlib.chdir(place):
        by_gpu = read["by_gpu"].collect()
        ours, arrow = names["found"].to_polars(["tpot_ms"]), names["found"].to_arrow()
    assert by_gpu["gpu"].to_list() == ["b200", "h100-sxm"]
    medians = written.filter(pc.is_null(written["reason"])).to_pandas().groupby("gpu")["tpot_ms"].median()
    assert by_gpu["tpot_ms"].to_list() == pytest.approx(medians[by_gpu["gpu"].to_list()].to_list())
    assert ours["tpot_ms"].to_list() == arrow["tpot_ms"].to_pylist()
    assert "tpot_ms" in said


def test_pandas_and_pyarrow_read_the_folder_by_its_name(fleet):
    place, _, written = fleet
    read, said = run(block("import pandas"), place)
    times = written["ttft_ms"].to_numpy()
    assert 0 < len(read["quick"]) == (times < 100).sum() < len(times)
    assert said.split() == [str(len(read["quick"])), "1764"]
    with contextlib.chdir(place):
        assert len(pd.read_parquet("chat")) == 900


def test_no_two_questions_of_the_page_share_a_folder():
    asked = [SHELL[0], *PYTHON]
    folders = [name for text in asked for name in re.findall(r"""(?:--out |out=")(\w+)""", text)]
    assert folders == ["fleet", "chat", "long"]
    assert {name for text in SHELL[1:] for name in re.findall(r"--out (\w+)", text)} == {"far"}


def test_commands_of_the_page_are_read():
    lines = "".join(SHELL).replace("\\\n", "").splitlines()
    asked = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("roofline ")]
    assert len(asked) == 4
    sweep = cli.get_command(click.Context(cli), "sweep")
    for words in asked:
        whole = [word for word in words[1:] if word != "..."] + ([] if "-m" in words else ["-m", "x"])
        params = sweep.make_context("sweep", whole).params
        assert params["out"] in ("fleet", "far")
        assert params["jobs"] or params["dask"]


def test_dask_knows_what_clusters_are_asked_for():
    from distributed.cli.dask_scheduler import main as scheduler
    from distributed.cli.dask_worker import main as worker

    known = {command: {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
             for command in (scheduler, worker)}  # fmt: skip
    lines = [line for line in "".join(SHELL).splitlines() if "dask scheduler" in line or "dask worker" in line]
    assert len(lines) == 4
    for line in lines:
        command = worker if "dask worker" in line else scheduler
        after = line.partition("dask worker" if command is worker else "dask scheduler")[2].partition("#")[0]
        assert set(re.findall(r"--[a-z-]+", after)) <= known[command], line
    cluster = yaml.safe_load(YAML[0])["spec"]
    (pod,) = cluster["worker"]["spec"]["containers"]
    assert pod["args"][:2] == ["dask", "worker"]
    assert {word for word in pod["args"] if word.startswith("--")} <= known[worker]
    for text in PYTHON:
        compile(text, "page", "exec")
