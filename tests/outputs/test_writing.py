"""Files are written whole or not at all, only the named one, and text in them never becomes a formula."""

import csv
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from every_case import each

import roofline as rl
from roofline.cli.main import cli
from roofline.outputs.files import SUFFIXES, check_target, csv_text, is_stream, write_rows, write_whole

LLAMA = str(Path(__file__).parents[1] / "fixtures" / "configs" / "meta-llama__Llama-2-13b-hf.json")
ROWS = [{"model": "plain", "ttft_ms": 1.5}]


def save(path, text="new", force=False, **options):
    write_whole(str(path), lambda beside: beside.write_text(text), force=force, **options)


def refusal(path, force=False):
    with pytest.raises(rl.BadInput) as fault:
        save(path, force=force)
    assert "\n" not in str(fault.value)
    return str(fault.value)


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_lies_beside_a_file_is_let_be(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a.yaml.part").write_text("mine")
    (tmp_path / "b.yaml.part").symlink_to(victim)
    for name in ("a.yaml", "b.yaml"):
        save(tmp_path / name)
    assert (tmp_path / "a.yaml.part").read_text() == "mine"
    assert (tmp_path / "b.yaml.part").is_symlink()
    assert victim.read_text() == "precious"
    assert names(tmp_path) == ["a.yaml", "a.yaml.part", "b.yaml", "b.yaml.part", "victim"]


def test_the_mode_of_the_old_file_is_kept_and_a_new_one_has_that_of_the_umask(tmp_path):
    path = tmp_path / "a"
    before = os.umask(0o027)
    try:
        save(path)
    finally:
        os.umask(before)
    assert mode(path) == 0o640
    for kept in (0o600, 0o664, 0o755):
        path.chmod(kept)
        save(path, oct(kept), force=True)
        assert (mode(path), path.read_text()) == (kept, oct(kept))


def test_a_link_is_followed_and_stays_and_one_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    target.write_text("old")
    target.chmod(0o600)
    (tmp_path / "first").symlink_to("folder/target")
    (tmp_path / "second").symlink_to(tmp_path / "first")
    assert "`force`" in refusal(tmp_path / "second")
    save(tmp_path / "second", force=True)
    assert (target.read_text(), mode(target)) == ("new", 0o600)
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert names(tmp_path / "folder") == ["target"]
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "circle").symlink_to("circle")
    for force in (False, True):
        assert f"is a link to {tmp_path / 'elsewhere'}, which " in refusal(tmp_path / "dangling", force)
        assert "cannot be written" in refusal(tmp_path / "circle", force)
    assert not (tmp_path / "elsewhere").exists()


def test_the_longest_name_that_a_folder_takes_is_written(tmp_path):
    for name in ("x" * 251 + ".csv", "x" * 255):
        write_rows(ROWS, str(tmp_path / name), force=False) if name.endswith(".csv") else save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 0
    assert "too long" in refusal(tmp_path / ("x" * 256))


def test_a_place_for_no_file_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    for force in (False, True):
        assert "empty" in refusal("", force)
        for folder in (".", "..", "/", tmp_path, f"{tmp_path}/new/"):
            assert "is a folder" in refusal(folder, force)
        for place in (tmp_path / "no" / "a", tmp_path / "file" / "a", "a\0b", "/proc/a"):
            assert "cannot be written" in refusal(place, force)
    assert names(tmp_path) == ["file"]


def test_models_import_refuses_such_places_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in ("", ".", "/", str(tmp_path)):
        for force in ((), ("--force",)):
            done = CliRunner().invoke(cli, ["models", "import", LLAMA, "-o", place, *force])
            assert done.exit_code == 1
            assert done.stderr.splitlines()[-1].startswith("Error: ")
            assert "file" in done.stderr
    assert names(tmp_path) == []


def test_a_hyphen_prints_where_text_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["models", "import", LLAMA, "-o", "-"])
    assert done.stdout.startswith("name: ")
    done = CliRunner().invoke(cli, ["sweep", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--format", "csv", "-o", "-"])
    assert done.stdout.startswith("model,")
    assert names(tmp_path) == []


def test_pipes_devices_and_open_files_are_written_to_and_stay(tmp_path):
    for force in (False, True):
        save("/dev/null", force=force)
        assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    fifo, received = tmp_path / "rows", []
    os.mkfifo(fifo)
    reader = threading.Thread(target=lambda: received.append(fifo.read_text()))
    reader.start()
    write_rows(ROWS, str(fifo), force=False)
    reader.join()
    assert received == ["model,ttft_ms\nplain,1.5\n"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    reading, writing = os.pipe()
    save(f"/dev/fd/{writing}")
    assert os.read(reading, 10) == b"new"
    os.close(writing)
    os.close(reading)
    redirected = tmp_path / "redirected"
    with redirected.open("w") as file:  # as the shell redirects /dev/stdout: appended to, and never replaced
        file.write("before ")
        file.flush()
        save(f"/dev/fd/{file.fileno()}")
    assert redirected.read_text() == "before new"
    assert "No space left" in refusal("/dev/full")
    assert is_stream("/dev/stdout")
    assert not is_stream(str(redirected))


@pytest.mark.exhaustive
def test_a_workbook_goes_into_a_device():
    rl.sheet("/dev/null", "llama-3.1-8b", "h100-sxm")


def test_a_failed_writer_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    save(path, "old")

    def full(beside):
        beside.write_text("half")
        raise OSError(28, "No space left on device")

    def interrupted(beside):
        beside.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(rl.BadInput, match="No space left on device"):
        write_whole(str(path), full, force=True)
    with pytest.raises(KeyboardInterrupt):
        write_whole(str(path), interrupted, force=True)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_a_file_that_appears_meanwhile_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "a"

    def overtaken(beside):
        beside.write_text("mine")
        path.write_text("theirs")

    with pytest.raises(rl.BadInput, match="`force`"):
        write_whole(str(path), overtaken, force=False)
    assert path.read_text() == "theirs"
    write_whole(str(path), overtaken, force=True)
    assert path.read_text() == "mine"
    assert names(tmp_path) == ["a"]


def test_many_writers_of_one_file_at_once_never_fail_and_never_mix(tmp_path):
    path, faults = tmp_path / "a", []
    texts = {letter * 50_000 for letter in "abcdefgh"}

    def again(text):
        try:
            for _ in range(5):
                save(path, text, force=True)
        except rl.RooflineError as fault:
            faults.append(fault)

    threads = [threading.Thread(target=again, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert path.read_text() in texts
    assert names(tmp_path) == ["a"]


def test_a_writer_that_is_killed_does_not_stand_in_the_way_of_the_next(tmp_path):
    path = tmp_path / "a"
    code = (
        "import os, signal, sys; from roofline.outputs.files import write_whole\n"
        "write_whole(sys.argv[1], lambda beside: (beside.write_text('half'), os.kill(os.getpid(), signal.SIGKILL)),"
        " force=False)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not path.exists()
    (litter,) = names(tmp_path)
    save(path)
    assert path.read_text() == "new"
    assert names(tmp_path) == sorted([litter, "a"]), "what another run left may still be its own"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_or_file_that_is_read_only_is_said_so(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o400)
    assert "read-only" in refusal(path, force=True)
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refusal(tmp_path / "b")
    finally:
        tmp_path.chmod(0o700)


def test_a_chart_is_written_in_the_same_way(tmp_path):
    path = tmp_path / ("x" * 251 + ".svg")
    path.write_text("old")
    path.chmod(0o600)
    case = ("sensitivity", "-m", "llama-3.1-8b", "-g", "h100-sxm", "--of", "ttft", "--top", "1", "--plot")
    assert CliRunner().invoke(cli, [*case, str(path)]).exit_code == 1
    assert path.read_text() == "old"
    assert CliRunner().invoke(cli, [*case, str(path), "--force"]).exit_code == 0
    assert b"<svg" in path.read_bytes()
    assert mode(path) == 0o600
    assert names(tmp_path) == [path.name]


def test_a_target_is_refused_before_there_is_anything_to_write(tmp_path):
    path = tmp_path / "a"
    check_target(str(path), force=False)
    path.write_text("")
    with pytest.raises(rl.BadInput, match="`force`"):
        check_target(str(path), force=False)
    check_target(str(path), force=True)
    check_target("/dev/null", force=False)
    assert names(tmp_path) == ["a"]


TABLE = [
    {"model": "=1+1", "gpu": "@sum", "ttft_ms": 1.5, "fits": True, "reason": None, "warnings": ["-a", "+b"]},
    {"model": "plain", "gpu": "b200", "ttft_ms": None, "fits": False, "reason": "does not fit", "warnings": []},
]


def test_a_sheet_holds_the_rows_and_text_stays_text(tmp_path):
    path = tmp_path / "rows.xlsx"
    write_rows(TABLE, str(path), force=False)
    sheet = openpyxl.load_workbook(path).active
    cells = [[cell.value for cell in line] for line in sheet.iter_rows()]
    assert cells[0] == list(TABLE[0])
    assert cells[1] == ["=1+1", "@sum", 1.5, True, None, "-a; +b"]
    assert [cell.data_type for cell in sheet[2]][:2] == ["s", "s"]  # not "f", a formula
    assert cells[2][2] is None


def test_csv_json_and_parquet_hold_the_same_rows(tmp_path):
    for suffix in (".csv", ".json", ".parquet"):
        write_rows(TABLE, str(tmp_path / f"rows{suffix}"), force=False)
    with (tmp_path / "rows.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["ttft_ms"] for row in read] == ["1.5", ""]
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == TABLE
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == TABLE


def test_predictions_go_into_every_format(tmp_path):
    rows = rl.table("llama-3.1-70b", ["h100-sxm", "a30"], isl=[100, 1000])
    for suffix in SUFFIXES:
        write_rows(rows, str(tmp_path / f"rows{suffix}"), force=False)
    assert pq.read_table(tmp_path / "rows.parquet").column("ttft_ms").to_pylist() == [row["ttft_ms"] for row in rows]


@pytest.mark.parametrize(("name", "library"), [("rows.xlsx", "xlsxwriter"), ("rows.parquet", "pyarrow")])
def test_a_library_that_is_not_installed_is_named(tmp_path, monkeypatch, name, library):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, library, None)
    monkeypatch.delitem(modules, "roofline.outputs.workbook.writer", raising=False)
    with pytest.raises(rl.BadInput, match="pip install"):
        write_rows(TABLE, str(tmp_path / name), force=False)


@each("text", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "a\r=1+1"])
def test_no_text_of_a_csv_file_is_calculated(text):
    import csv
    import io

    line = csv_text([{"model": text, "ttft_ms": -1.5}]).splitlines()
    (row,) = csv.DictReader(io.StringIO(csv_text([{"model": text, "ttft_ms": -1.5}])))
    assert line[0] == "model,ttft_ms"
    assert row["ttft_ms"] == "-1.5", "a number stays one"
    assert not row["model"].lstrip().startswith(("=", "+", "-", "@"))
    assert "\r" not in row["model"]
    assert text.strip().replace("\r", "\n") in row["model"]
