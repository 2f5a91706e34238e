"""Fuzz the parsers with inputs that atheris changes towards code not yet reached.

    pip install atheris
    python tests/fuzz/coverage_guided.py specifications -max_total_time=60
    python tests/fuzz/coverage_guided.py texts -runs=100000 folder-of-inputs

Kinds: specifications (YAML), configs (config.json), results, texts (units and the other grammars of options). What
follows the kind goes to libFuzzer. A traceback ends the run, and libFuzzer writes the input to a file.
"""

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parents[1])]


def parsers():
    """Kind -> a function of bytes that may raise the errors of the package, and no other."""
    from fuzz.test_fuzz_texts import PARSERS

    from roofline.catalog.checks import checked_document
    from roofline.catalog.huggingface.config import config_document, read_config
    from roofline.measurements.results import results
    from roofline.support.errors import RooflineError

    place = Path(tempfile.mkdtemp(prefix="roofline-fuzz-"))

    def written(data, name):
        path = place / name
        path.write_bytes(data)
        return str(path)

    def specification(data):
        checked_document(written(data, "own.yaml"))

    def configuration(data):
        config, beside, where = read_config(written(data, "config.json"))
        json.dumps(config_document(config, "org/model", beside, where).document)

    def text(data):
        for parse in PARSERS:
            try:
                parse(data.decode("utf-8", "replace"))
            except RooflineError:
                continue

    kinds = {
        "specifications": specification,
        "configs": configuration,
        "results": lambda data: results(data, "result"),
        "texts": text,
    }
    return kinds, RooflineError


def seeds(kind, folder):
    """Write inputs to begin with: those that the other tests begin with."""
    from fuzz import strategies

    whole = {
        "specifications": [text for each in strategies.SPECIFICATIONS.values() for text in each],
        "configs": [
            path.read_text(encoding="utf-8") for path in sorted((FOLDER.parent / "fixtures/configs").glob("*.json"))
        ],
        "results": [
            path.read_text(encoding="utf-8") for path in sorted((FOLDER.parent / "fixtures/results").glob("*.*"))
        ],
        "texts": [str(text) for each in strategies.PLAUSIBLE.values() for text in each],
    }[kind]
    for number, text in enumerate(whole):
        (folder / f"seed-{number}").write_text(text, encoding="utf-8")


def main():
    """Exit code: that of libFuzzer; 0 where atheris is not installed."""
    if importlib.util.find_spec("atheris") is None:
        print("Skipped: atheris is not installed here (pip install atheris; it has no wheels for some systems).")
        return 0
    import atheris

    with atheris.instrument_imports(include=["roofline"]):
        kinds, own_errors = parsers()
    if len(sys.argv) < 2 or sys.argv[1] not in kinds:
        print(f"{__doc__}\nError: name a kind: {', '.join(kinds)}", file=sys.stderr)
        return 2
    kind = sys.argv.pop(1)

    def one(data):
        try:
            kinds[kind](data)
        except own_errors as error:
            assert str(error)

    corpus = Path(tempfile.mkdtemp(prefix=f"roofline-fuzz-{kind}-"))
    seeds(kind, corpus)
    atheris.Setup([*sys.argv, str(corpus)], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
