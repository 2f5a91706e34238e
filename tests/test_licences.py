"""Whose the data are: NOTICE covers every data file, and every source in them states its terms."""

import csv
import json
import re
from collections import Counter, defaultdict
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

from roofline.outputs.page.document import shipped_parts

ROOT = Path(__file__).parents[1]
NOTICE = (ROOT / "NOTICE").read_text(encoding="utf-8")
FOLDERS = ("accuracy", "docs", "engine_specs", "examples", "hardware_specs", "model_specs", "tests", "workload_specs")
DATA = {".csv", ".gz", ".json", ".jsonl", ".npz", ".parquet", ".yaml", ".yml"}
CODE = NOTICE.split("Code of others that ships")[1].split("Whose they are")[0]
LINES = re.findall(r"^(\S+) \| ([^|\n]+) \| ([^|\n]+)$", NOTICE.replace(CODE, ""), re.MULTILINE)
OPEN = {"Apache-2.0", "BSD-3-Clause", "CC-BY-4.0", "MIT"}
#: Rows that may be quoted of a source without an open licence: NOTICE, "The rule".
FEW = 6
SWEEPS = 12  # of each of the two that the engine profiles trtllm-0.9 and nim-2024 are judged by
SWEEP_REPOSITORY = "github.com/wbing520/ai-performance-engineering"
OFTEN = 10  # files that cite one place: then NOTICE names it


def data_files():
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in DATA)
    return sorted(path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts)


def matches(pattern, path):
    """Whether a path is one that a pattern means; a star stands for no slash."""
    return re.fullmatch("[^/]*".join(re.escape(part) for part in pattern.split("*")), path)


def table(path):
    with (ROOT / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def place(url):
    """Repository or host of an address."""
    host, *path = url.removeprefix("https://").removeprefix("www.").split("/")
    return "/".join([host, *path[:2]]) if host == "github.com" else host


def is_named(where):
    return re.search(rf"(?:https://)(?:www\.)?{re.escape(where)}(?![\w.-]*\w)", NOTICE) is not None


PUBLISHED = table("tests/measured/published.csv")
CONFIGS = sorted((ROOT / "tests" / "fixtures" / "configs").glob("*.json"))


def test_every_data_file_has_a_line_in_the_notice_and_every_line_a_file():
    assert len(data_files()) > 250
    assert not [path for path in data_files() if not any(matches(pattern, path) for pattern, *_ in LINES)]
    assert len(LINES) > 10
    assert not [pattern for pattern, *_ in LINES if not any(matches(pattern, path) for path in data_files())]


@pytest.mark.parametrize(("pattern", "column"), re.findall(r"^(\S+) \| the licence of each \w+, `(\w+)`", NOTICE, re.M))
def test_where_the_notice_leaves_the_licence_to_the_rows_each_row_states_one(pattern, column):
    rows = []
    for path in data_files():
        if matches(pattern, path):
            rows += table(path) if path.endswith(".csv") else [json.loads((ROOT / path).read_text(encoding="utf-8"))]
    assert len(rows) > 50
    assert not [row for row in rows if not (row.get(column) or "").strip()]


def test_tables_and_published_rows_have_a_licence_beside_their_sources():
    made_up = [pattern for pattern, _, origin in LINES if "made up" in origin]
    of_others = [path for path in data_files() if not any(matches(pattern, path) for pattern in made_up)]
    tables = [path for path in of_others if path.endswith(".csv") and "source" in table(path)[0]]
    assert len(tables) >= 2
    assert not [path for path in tables if "licence" not in table(path)[0]]
    stated = {row["licence"] for row in PUBLISHED}
    assert all(licence in OPEN or licence.startswith("facts quoted; ") for licence in stated)
    assert stated & OPEN
    quoted = [row for row in PUBLISHED if row["licence"] not in OPEN]
    counts = Counter((row["source"], SWEEP_REPOSITORY in row["url"]) for row in quoted)
    assert len(counts) > 5
    assert not {source: count for (source, sweep), count in counts.items() if count > (SWEEPS if sweep else FEW)}


def test_one_place_has_one_licence_and_the_notice_names_it():
    licences = defaultdict(set)
    for row in PUBLISHED:
        licences[place(row["url"])].add(row["licence"])
    assert not {where for where, stated in licences.items() if len(stated) > 1}
    assert not [where for where in licences if not is_named(where)]
    for where, stated in licences.items():
        if stated <= OPEN:
            assert re.search(rf"{re.escape(*stated)} +https://{re.escape(where)}", NOTICE), where


def test_the_notice_names_every_repository_and_every_place_that_many_specifications_cite():
    sources = [json.loads(path.read_text(encoding="utf-8"))["_source"] for path in CONFIGS]
    for source in sources:
        repository = re.match(r"([\w.-]+/[\w.-]+)", source)
        where = f"github.com/{repository[1]}" if repository else source.split(" (")[0].split(",")[0]
        on_hub = repository and any(path.stem == repository[1].replace("/", "__") for path in CONFIGS)
        assert on_hub or is_named(where) or where in NOTICE, source
    cited = defaultdict(set)
    for folder in ("hardware_specs", "model_specs", "engine_specs", "workload_specs"):
        for path in (ROOT / folder).rglob("*.yaml"):
            content = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            for source in content.get("sources", {}).values():
                if source.get("url"):
                    cited[place(source["url"])].add(path)
    often = {where for where, paths in cited.items() if len(paths) >= OFTEN}
    assert len(often) > 5
    assert not {where for where in often if not is_named(where)}


def test_code_of_others_is_as_it_was_published_named_and_shown_with_its_licence():
    folder = ROOT / "roofline" / "outputs" / "page" / "web" / "vendor"
    scripts = {path.name: path.read_bytes() for path in folder.glob("*.js")}
    stated = re.findall(r"^\| (\S+) \| (\S+) \| `(\w+)` \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert {name: hash_ for name, _, hash_ in stated} == {
        name: sha256(script).hexdigest() for name, script in scripts.items()
    }
    for name, version, _ in stated:
        first = scripts[name].decode().splitlines()[0]
        assert re.fullmatch(
            rf"// https://d3js\.org/{name.split('.')[0]}/ v{version} Copyright [\d-]+ Mike Bostock", first
        )
    assert "roofline/outputs/page/web/vendor/*.js | ISC |" in CODE
    page = " ".join(shipped_parts().template.split())
    for paragraph in (folder / "LICENSE").read_text(encoding="utf-8").strip().split("\n\n"):
        assert " ".join(paragraph.split()) in page
