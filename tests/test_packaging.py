"""The wheel: built from a copy of the sources, it carries the catalogs and answers from anywhere."""

import csv
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import roofline

ROOT = Path(__file__).resolve().parents[1]
CATALOGS = ("engine_specs", "hardware_specs", "model_specs", "workload_specs")
LICENCES = ("LICENSE", "NOTICE")
NEEDED = ("pyproject.toml", "README.md", "hatch_build.py", *LICENCES, "roofline", *CATALOGS)
SOURCE = "https://code.example/acme/roofline"
ANSWER = (
    'import sys; from roofline.cli.main import cli; cli(["ttft","-m","llama-3.1-70b","--isl","2000", *sys.argv[1:]])'
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built without the working tree noticing; without a network where the build back end is installed."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    project = source / "pyproject.toml"
    settings = re.sub(r"\[project\.urls\]\n(?:\w.*\n)*\n", "", project.read_text(encoding="utf-8"))
    project.write_text(f'{settings}\n[project.urls]\nSource = "{SOURCE}"\n', encoding="utf-8")
    isolation = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", str(built), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with the content of the wheel, as a package manager unpacks it."""
    folder = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed, cwd, code, *arguments):
    """Result of Python code that sees the unpacked wheel before anything else, and keeps its byte code elsewhere."""
    env = {"PYTHONPATH": str(installed), "PYTHONPYCACHEPREFIX": f"{installed}-bytecode", "HOME": "/nonexistent"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=60)


def test_the_wheel_is_named_after_the_version_and_holds_every_module_its_type_and_its_licence(wheel, installed):
    assert wheel.name == f"roofline-{roofline.__version__}-py3-none-any.whl"
    modules = {path.relative_to(ROOT) for path in (ROOT / "roofline").rglob("*.py")}
    packed = {path.relative_to(installed) for path in installed.rglob("*.py")}
    assert packed == modules
    web = Path("roofline", "outputs", "page", "web")
    parts = {path.relative_to(ROOT): path.read_bytes() for path in (ROOT / web).rglob("*") if path.is_file()}
    assert len(parts) > 10
    assert {path: (installed / path).read_bytes() for path in parts} == parts
    top = {path.name for path in installed.iterdir()}
    assert top == {"roofline", f"roofline-{roofline.__version__}.dist-info"}
    metadata = (installed / f"roofline-{roofline.__version__}.dist-info" / "METADATA").read_text()
    assert "Typing :: Typed" in metadata
    assert (installed / "roofline" / "py.typed").is_file()
    info = installed / f"roofline-{roofline.__version__}.dist-info"
    metadata = (info / "METADATA").read_text().splitlines()
    assert "License-Expression: Apache-2.0" in metadata
    assert [line for line in metadata if line.startswith("License-File:")] == [f"License-File: {n}" for n in LICENCES]
    assert not [line for line in metadata if line.startswith("Classifier: License ::")]
    for name in LICENCES:
        assert (info / "licenses" / name).read_bytes() == (ROOT / name).read_bytes()
    assert "roofline = roofline.__main__:start" in (info / "entry_points.txt").read_text()
    metadata = (info / "METADATA").read_text()
    required = {
        line.split(": ")[1].split(">")[0].lower()
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra ==" not in line
    }
    assert required == {"click", "numpy", "pydantic", "pyyaml", "sympy", "tabulate"}


def test_every_link_of_the_description_leads_to_a_file_at_the_tag_and_its_commands_need_no_checkout(installed):
    version = roofline.__version__
    metadata = (installed / f"roofline-{version}.dist-info" / "METADATA").read_text(encoding="utf-8")
    fields, _, description = metadata.partition("\n\n")
    assert f"Project-URL: Source, {SOURCE}" in fields
    assert "Description-Content-Type: text/markdown" in fields
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert len(links) == len(re.findall(r"\]\(", (ROOT / "README.md").read_text(encoding="utf-8"))) > 10
    for link in links:
        view, path = re.fullmatch(rf"{re.escape(SOURCE)}/(raw|blob)/v{re.escape(version)}/(.+)", link).groups()
        assert (ROOT / path).is_file()
        assert (view == "raw") == path.endswith(".png")
    assert "```\npip install roofline && roofline ttft " in description
    assert f"```\ngit clone {SOURCE} roofline && cd roofline\npip install " in description
    assert not re.search(r'pip install "?\.', description.partition("In a clone")[0])


def test_a_release_without_the_address_of_its_source_is_refused():
    """The step of the workflow, run in a shell as the host runs it."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    (step,) = (step["run"] for step in workflow["jobs"]["build"]["steps"] if "Source" in step.get("run", ""))
    host = {"GITHUB_SERVER_URL": "https://code.example", "GITHUB_REPOSITORY": "acme/roofline"}
    for urls, code in (("", 1), ('[project.urls]\nSource = "https://code.example/fork/roofline"\n', 1),
                       (f'[project.urls]\nSource = "{SOURCE}"\n', 0)):  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "pyproject.toml").write_text(f'[project]\nname = "roofline"\n{urls}')
            env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **host}
            done = subprocess.run(
                ["bash", "-e", "-c", step], cwd=folder, env=env, capture_output=True, text=True, check=False
            )
        assert done.returncode == code, done.stderr
        assert ("needs Source" in done.stdout) == bool(code)


def test_the_wheel_holds_its_catalog_unchanged_and_parsed(installed):
    code = """
import sys
from roofline.catalog import files
from roofline.catalog.files import shipped_document
paths = [path for kind in ("gpu", "model", "engine", "workload") for path in files.yaml_files(files.shipped_root(kind))]
documents = {path: shipped_document(path) for path in paths}
assert "yaml" not in sys.modules
from roofline.catalog.yaml import content_of_text
assert all(documents[path] == content_of_text(files.spec_text(path)) for path in paths)
print(len(paths))
"""
    done = run(installed, installed, code)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(len(list((ROOT / catalog).rglob("*.yaml"))) for catalog in CATALOGS)
    for catalog in CATALOGS:
        files = sorted(path.relative_to(ROOT) for path in (ROOT / catalog).rglob("*.yaml"))
        assert len(files) > 5
        packed = sorted(
            path.relative_to(installed / "roofline") for path in (installed / "roofline" / catalog).rglob("*")
        )
        assert [path for path in packed if path.suffix == ".yaml"] == files
        for path in files:
            assert (installed / "roofline" / path).read_bytes() == (ROOT / path).read_bytes()


def test_a_file_of_the_wheel_that_somebody_edits_is_what_answers(installed, tmp_path):
    copy = tmp_path / "site-packages"
    shutil.copytree(installed, copy)
    (edited,) = copy.rglob("h100-sxm.yaml")
    edited.write_text(edited.read_text().replace("usable: {value: 79.65 GiB", "usable: {value: 71.65 GiB"))
    memory = "import roofline; print(roofline.load_gpu('h100-sxm').memory / 2**30)"
    assert float(run(installed, tmp_path, memory).stdout) == pytest.approx(79.65)
    assert float(run(copy, tmp_path, memory).stdout) == pytest.approx(71.65)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ttft", "-m", "llama-3.1-70b", "-g", "h100-sxm"],
        ["ttft", "-m", "llama-3.1-70b", "--format", "json"],
        ["gpus"],
        ["models"],
    ],
    ids=" ".join,
)
def test_what_the_wheel_knows_is_asked_without_a_reader_of_yaml(installed, tmp_path, arguments):
    code = """
import sys
from roofline.cli.main import cli
cli(sys.argv[1:], standalone_mode=False)
print(*{"yaml", "dataclasses", "pathlib", "pydantic", "numpy"} & set(sys.modules), file=sys.stderr)
"""
    done = run(installed, tmp_path, code, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr.split() == []


def test_the_version_stands_in_one_place_and_is_what_the_command_prints_and_a_citation_names(installed, tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "roofline/__init__.py"
    cited = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert cited["version"] == roofline.__version__
    assert cited["license"] == project["project"]["license"]
    code = 'from roofline.cli.main import cli; cli(["--version"])'
    assert run(installed, tmp_path, code).stdout.split()[-1] == roofline.__version__


def test_a_release_is_tried_on_every_python_that_the_package_is_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r":: 3\.\d+$", name)]
    release, ci = ((ROOT / ".github" / "workflows" / f"{name}.yml").read_text() for name in ("release", "ci"))
    for workflow in (release, ci):
        assert re.findall(r'"(3\.\d+)"', re.search(r"^        python: \[(.*)\]$", workflow, re.MULTILINE)[1]) == named
    assert "id-token: write" in release.partition("  publish:")[2]
    assert not re.search(r"password|secrets\.", release)


def test_the_first_table_takes_the_time_that_the_readme_says(installed, tmp_path):
    """CPU time of the faster of two runs; five times as much is left to a slower machine."""
    (said,) = re.findall(r"The table above takes ([\d.]+) s", (ROOT / "README.md").read_text(encoding="utf-8"))
    code = "import atexit, sys, time; atexit.register(lambda: print(time.process_time(), file=sys.stderr))\n" + ANSWER
    taken = [float(run(installed, tmp_path, code).stderr.split()[-1]) for _ in range(2)]
    assert min(taken) < 5 * float(said)


def test_the_unpacked_wheel_answers_from_another_folder(installed, tmp_path):
    done = run(installed, tmp_path, ANSWER)
    assert done.returncode == 0, done.stderr
    case, heading, *lines = done.stdout.splitlines()
    assert case.startswith("llama-3.1-70b bf16 ")
    assert heading.split()[:2] == ["GPU", "plan"]
    whole = run(installed, tmp_path, ANSWER, "--all", "--notes")
    table = whole.stdout.partition("\nrents over ")[0].splitlines()[2:]
    rows = [line.split() for line in table if not line.startswith("--")]
    assert sorted(next(word for word in row if word in roofline.gpus()) for row in rows) == list(roofline.gpus())
    assert sum(" tp" in line and "(" in line for line in lines) == 11


def test_the_unpacked_wheel_reads_its_own_catalog_gives_the_figures_of_the_checkout_and_leaves_nothing_behind(
    installed, tmp_path
):
    code = """
import roofline
from roofline.catalog import files
print(roofline.__file__, *(entry.path for entry in files.entries("gpu", None)), sep="\\n")
"""
    done = run(installed, tmp_path, code)
    assert done.returncode == 0, done.stderr
    places = done.stdout.splitlines()
    assert len(places) == 1 + len(roofline.gpus())
    assert all(place.startswith(str(installed)) for place in places)
    done = run(installed, tmp_path, ANSWER, "--format", "csv")
    assert done.returncode == 0, done.stderr
    found = list(csv.DictReader(done.stdout.splitlines()))
    assert len(found) == len(roofline.gpus())
    for line in found:
        if not line["ttft_ms"]:
            continue
        expected = roofline.predict("llama-3.1-70b", line["gpu"], isl=2000)
        assert float(line["ttft_ms"]) == pytest.approx(expected.ttft * 1e3, rel=1e-12)
    before = sorted(installed.rglob("*"))
    assert run(installed, tmp_path, ANSWER).returncode == 0
    assert sorted(installed.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []
