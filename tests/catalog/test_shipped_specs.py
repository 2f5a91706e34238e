"""The shipped catalog: every file keeps its schema, every figure has a source, the figures make sense."""

import datetime as dt
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from every_case import each

import roofline as rl
from roofline.catalog import entries, files
from roofline.catalog import find as reader
from roofline.catalog.checks import checked_document
from roofline.catalog.yaml import content_of_text
from roofline.numbers.quantity import from_text
from roofline.specs.build import gpu_record, model_record
from roofline.specs.names import fold

ROOT = Path(__file__).resolve().parents[2]
GPU_FILES = sorted(path for path in (ROOT / "hardware_specs").rglob("*.yaml") if path.parent.name != "calibration")
MODEL_FILES = sorted((ROOT / "model_specs").rglob("*.yaml"))
CALIBRATION_FILES = sorted((ROOT / "hardware_specs" / "calibration").glob("*.yaml"))
ENTRIES = GPU_FILES + MODEL_FILES

FIRST_GPUS = {"a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "gb200-nvl72", "b300", "gb300-nvl72", "l40s"}
FIRST_MODELS = {
    "deepseek-r1", "deepseek-v3", "gemma-3-27b", "gpt-oss-120b", "gpt-oss-20b", "llama-2-70b", "llama-2-7b",
    "llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen3-32b",
}  # fmt: skip


def stem(path):
    return path.stem


@cache
def content(path):
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def mappings(value, where=""):
    """Every mapping of a document below its top level, outside the list of sources, with where it is."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if (where, key) != ("", "sources"):
            if isinstance(item, dict):
                yield f"{where}.{key}", item
            yield from mappings(item, f"{where}.{key}")


def folded_names(path):
    document = content(path)
    return {fold(name) for name in (document["name"], *document["aliases"])}


def day(date):
    """First day of a date that names a year, a month or a day."""
    return dt.date.fromisoformat((date + "-01-01")[:10])


def is_of_an_engine(path):
    return any(f"-{engine}-" in path.stem for engine in ("trtllm", "vllm", "sglang"))


@each("path", ENTRIES + CALIBRATION_FILES, ids=stem)
def test_a_shipped_file_keeps_the_schema_and_every_figure_of_it_cites_a_dated_source(path):
    assert checked_document(str(path))["name"] == content(path)["name"]
    sources = content(path)["sources"]
    assert sources
    for source in sources.values():
        assert source["title"].strip()
        assert day(str(source["date"])) > dt.date(2017, 1, 1)
    document = content(path)
    figures = [
        (where, item)
        for where, item in mappings(document)
        if "value" in item or {"eta", "eta_c", "eta_m", "low"} & set(item) or where == ".architecture"
    ]
    assert len(figures) >= (1 if is_of_an_engine(path) else 2 if path in MODEL_FILES else 8)
    for where, item in figures:
        assert item.get("source") in document["sources"], where


@each("path", ENTRIES, ids=stem)
def test_a_shipped_file_is_named_after_its_entry_begins_with_its_names_and_lists_figures_and_sources(path):
    text = path.read_text(encoding="utf-8")
    first, second = text.splitlines()[:2]
    assert first.startswith("name: ")
    assert re.fullmatch(r"aliases: \[.+\]", second)
    assert list(content(path))[:2] == ["name", "aliases"]
    assert yaml.safe_load(first) == {"name": content(path)["name"]}
    assert yaml.safe_load(second) == {"aliases": content(path)["aliases"]}
    document = content(path)
    assert path.stem in (document["name"], document["aliases"][0])
    kind = "gpu" if path in GPU_FILES else "model"
    assert files.shipped_entry(path.stem, kind).path == str(path)
    assert files.shipped_entry("no-such-entry", kind) is None
    names = [fold(name) for name in (document["name"], *document["aliases"])]
    entry = files.shipped_entry(path.stem, "gpu" if path in GPU_FILES else "model")
    assert entry.names == files._header(path.read_text(encoding="utf-8")) == tuple(dict.fromkeys(names))
    document = reader.document(path.stem, kind)
    cited = [where.lstrip(".") for where, item in mappings(document) if "source" in item]
    found = entries.figures(document)
    assert [figure.field for figure in found] == cited
    for figure in found:
        assert figure.source.strip()
        assert day(figure.date) > dt.date(2017, 1, 1)
    document = content(path)
    listed = entries.sources(reader.document(path.stem, kind))
    assert [(source.field, source.source) for source in listed] == [
        (key, source["title"]) for key, source in document["sources"].items()
    ]


@each("path", ENTRIES + CALIBRATION_FILES, ids=stem)
def test_the_fast_reader_reads_what_the_safe_loader_of_yaml_reads(path):
    def dates_as_texts(value):
        if isinstance(value, dict):
            return {key: dates_as_texts(item) for key, item in value.items()}
        if isinstance(value, list):
            return [dates_as_texts(item) for item in value]
        return str(value) if isinstance(value, dt.date) else value

    assert content_of_text(path.read_text(encoding="utf-8")) == dates_as_texts(content(path))


MEASURED_FILES = [path for path in CALIBRATION_FILES if path.stem != "generic"]


@each("path", MEASURED_FILES, ids=stem)
def test_a_calibration_is_named_after_the_generation_of_the_gpus_it_was_measured_on(path):
    document = content(path)
    assert document["name"] == path.stem
    assert document["measured_on"]
    assert document["engines"]
    for name in document["measured_on"]:
        assert rl.load_gpu(name).name == name
        generation = rl.load_gpu(name).generation
        if is_of_an_engine(path):
            engine, version = path.stem.removeprefix(f"{generation}-").split("-")
            assert document["engines"] == [f"{engine} {version}"]
        else:
            assert generation == path.stem


def sets(path):
    """Every set of a calibration file, by kind and dtype or by collective."""
    document = content(path)
    kernels = {(kind, key): entry for kind, kinds in document["kernels"].items() for key, entry in kinds.items()}
    return kernels | document["collectives"]


@each("path", MEASURED_FILES, ids=stem)
def test_a_set_states_its_measurements_and_how_far_they_lie_from_it_or_is_an_assumption(path):
    measured = {key for key, entry in sets(path).items() if "measurements" in entry}
    served = content(path).get("served")
    if served:  # whole passes of servers were measured instead
        assert all(each["runs"] >= each["models"] >= 1 for each in served.values())
        assert {each["source"] for each in served.values()} <= content(path)["sources"].keys()
    else:
        assert len(measured) >= (1 if is_of_an_engine(path) else 5)
    for key, entry in sets(path).items():
        if key in measured:
            assert entry["measurements"] >= (8 if served else 10), key
            # Element-wise passes are furthest off: small ones run from the cache, which the equation knows nothing of.
            assert 0.0 < entry["residual"] <= 1.3 * entry["sigma"], key  # half of the rows lie nearer than four of five
            assert entry["residual"] <= (0.5 if key[0] == "elementwise" else 0.3), key
        else:
            assert "residual" not in entry, key
            assert "assum" in content(path)["sources"][entry["source"]]["title"], key


def test_the_generic_calibration_was_measured_on_nothing_and_lies_within_the_measured_ones():
    generic = next(path for path in CALIBRATION_FILES if path not in MEASURED_FILES)
    assert content(generic)["measured_on"] == []
    others = [sets(path) for path in MEASURED_FILES]
    compared = 0
    for key, entry in sets(generic).items():
        assert not {"measurements", "residual", "sigma"} & set(entry)
        for name, value in entry.items():
            if name == "source":
                continue
            values = [from_text_or_number(other[key][name]) for other in others if name in other.get(key, {})]
            if values:
                low, high = min(values), max(values)
                assert 0.99 * low <= from_text_or_number(value) <= 1.01 * high, (key, name)  # three digits
                compared += 1
    assert compared > 100


def from_text_or_number(value):
    return from_text(value, "s") if isinstance(value, str) else float(value)


def test_the_catalog_lists_each_file_once_and_sorted_with_those_it_began_with():
    assert set(rl.gpus()) >= FIRST_GPUS
    assert set(rl.models()) >= FIRST_MODELS
    assert len(rl.gpus()) == len(GPU_FILES)
    assert len(rl.models()) == len(MODEL_FILES)
    for names in [rl.gpus, rl.models]:
        assert list(names()) == sorted(set(names()))


@pytest.mark.parametrize("files", [GPU_FILES, MODEL_FILES], ids=["gpus", "models"])
def test_no_name_belongs_to_two_entries(files):
    owners = {}
    for path in files:
        for name in folded_names(path):
            for spelling in {name, name.rsplit("/", 1)[-1]}:  # a name answers with and without its organisation
                assert owners.setdefault(spelling, path) == path, f"{spelling}: {owners[spelling].stem}, {path.stem}"


@each("path", GPU_FILES, ids=stem)
def test_an_alias_loads_its_gpu_whose_record_is_the_same_without_sources(path):
    document = content(path)
    for alias in (document["name"], *document["aliases"]):
        assert rl.load_gpu(alias).name == document["name"]
    gpu = rl.load_gpu(path.stem)
    assert gpu_record(checked_document(str(path)), gpu.calibration) == gpu


@each("path", MODEL_FILES, ids=stem)
def test_an_alias_loads_its_model_with_and_without_the_organisation_and_the_same_without_sources(path):
    document = content(path)
    for alias in (document["name"], *document["aliases"]):
        assert rl.load_model(alias).name == document["name"]
        assert rl.load_model(alias.rsplit("/", 1)[-1]).name == document["name"]
    assert model_record(checked_document(str(path))) == rl.load_model(path.stem)


def test_the_h100_is_what_its_data_sheet_says():
    gpu = rl.load_gpu("h100-sxm")
    assert gpu.peaks == pytest.approx(
        {
            "fp32": 67e12, "tf32": 494.5e12, "bf16": 989.4e12, "fp16": 989.4e12, "fp8": 1978.9e12, "int8": 1978.9e12,
        },
        rel=1e-12,
    )  # fmt: skip
    assert gpu.bandwidth == pytest.approx(3.35e12, rel=1e-12)
    assert gpu.memory == pytest.approx(79.65 * 2**30, rel=1e-12)
    assert gpu.memory_label == pytest.approx(80e9, rel=1e-12)
    assert (gpu.link.bandwidth, gpu.link.domain, gpu.link.in_switch_reduction) == (pytest.approx(450e9), 8, True)
    assert gpu.scale_out == pytest.approx(50e9, rel=1e-12)
    assert gpu.exp_rate == pytest.approx(3.87e12, rel=1e-12)
    assert gpu.price is not None
    assert gpu.price.typical == pytest.approx(3.99 / 3600.0, rel=1e-12)
    assert (gpu.vendor, gpu.generation) == ("NVIDIA", "hopper")


@each("name", sorted(FIRST_GPUS))
def test_eight_bits_run_at_twice_the_rate_of_sixteen_and_figures_of_a_gpu_agree_with_each_other(name):
    gpu = rl.load_gpu(name)
    assert gpu.peaks["fp16"] == gpu.peaks["bf16"]
    if "fp8" in gpu.peaks:
        assert gpu.peaks["fp8"] / gpu.peaks["bf16"] == pytest.approx(2.0, rel=0.02)
    if gpu.generation != "blackwell-ultra":
        assert gpu.peaks["int8"] / gpu.peaks["bf16"] == pytest.approx(2.0, rel=0.02)
    assert 0.9 * gpu.memory_label < gpu.memory < 1.08 * gpu.memory_label
    assert gpu.link.bandwidth < gpu.bandwidth
    assert gpu.scale_out is not None
    assert gpu.scale_out <= 4.0 * gpu.link.bandwidth
    assert gpu.price is not None
    assert 0.0 < gpu.price.low <= gpu.price.typical <= gpu.price.high
    assert gpu.calibration is not None
    measured = name in gpu.calibration.measured_on
    basis = rl.predict("llama-3.1-8b", name, isl=512, osl=8).basis
    assert basis == ("calibrated" if measured else "inherited")


def test_four_bits_run_at_twice_the_fp8_rate_at_three_times_on_blackwell_ultra_which_cut_int8():
    for name, ratio in [("b200", 2.0), ("gb200-nvl72", 2.0), ("b300", 3.0), ("gb300-nvl72", 3.0)]:
        peaks = rl.load_gpu(name).peaks
        assert peaks["fp4"] / peaks["fp8"] == pytest.approx(ratio, rel=0.02)
    for name in ["b300", "gb300-nvl72"]:
        peaks = rl.load_gpu(name).peaks
        assert peaks["int8"] < peaks["bf16"] / 10.0
    have = {dtype: {name for name in FIRST_GPUS if dtype in rl.load_gpu(name).peaks} for dtype in ("fp4", "fp8")}
    assert have["fp4"] == {"b200", "gb200-nvl72", "b300", "gb300-nvl72"}
    assert have["fp8"] == FIRST_GPUS - {"a100-sxm-80gb"}


# Dense bf16 peak over HBM bandwidth of the data sheets, worked out by hand [FLOP/B].
RIDGES = {
    "a100-sxm-80gb": 312 / 2.039, "h100-sxm": 989 / 3.35, "h200-sxm": 989 / 4.8, "b200": 2250 / 7.7,
    "gb200-nvl72": 2500 / 8.0, "b300": 2250 / 7.75, "gb300-nvl72": 2500 / 8.0, "l40s": 362 / 0.864,
}  # fmt: skip


@each(("name", "ridge"), RIDGES.items())
def test_the_ridge_is_that_of_the_dense_peak(name, ridge):
    gpu = rl.load_gpu(name)
    assert gpu.peaks["bf16"] / gpu.bandwidth == pytest.approx(ridge, rel=0.04)


@each("name", rl.gpus())
def test_nodes_of_a_gpu_have_the_same_chip_and_a_card_on_pcie_nothing_faster_than_its_slot(name):
    gpu = rl.load_gpu(name)
    for other in map(rl.load_gpu, gpu.other_nodes):
        assert other.name in rl.gpus()
        assert name in other.other_nodes or set(other.other_nodes) & set(gpu.other_nodes)
        assert (other.peaks, other.bandwidth, other.memory) == (gpu.peaks, gpu.bandwidth, gpu.memory)
        assert other.link.domain != gpu.link.domain
    if gpu.node_link != "pcie":
        assert gpu.host_domain is None
        return
    assert gpu.host_link <= gpu.link.bandwidth
    assert gpu.scale_out is None or gpu.scale_out <= gpu.host_link
    if gpu.host_domain is not None:
        assert gpu.link.domain < gpu.host_domain
        assert gpu.host_domain % gpu.link.domain == 0


def test_shares_of_the_peaks_that_are_inherited_are_those_that_the_card_sustains():
    timed = rl.load_gpu("l40s")
    held = rl.load_gpu("rtx-4090")
    assert (timed.sustained, held.sustained) == (1.0, pytest.approx((178.5 / 165.2) / (252.0 / 362.05), rel=0.01))
    for key, entry in timed.calibration.kernels.items():
        inherited = held.calibration.kernels[key]
        assert inherited.eta_c == pytest.approx(min(entry.eta_c * held.sustained, 1.0), rel=1e-12)
        assert inherited.eta_m == entry.eta_m
    slower = rl.load_gpu("h100-nvl")
    in_a_loop = (488.5 / 835.5) / (792.1 / 989.4)
    assert in_a_loop < slower.sustained < 1.0  # a pass is not GEMMs alone
    assert "eta_c x 0.8" in rl.predict("llama-3.1-8b", "h100-nvl", isl=2000).basis_detail
    assert "eta_c" not in rl.predict("llama-3.1-8b", "h100-nvl", isl=2000, basis="ideal").basis_detail


@each("path", CALIBRATION_FILES, ids=stem)
def test_no_measured_kernel_exceeds_the_peaks_of_the_catalog(path):
    document = content(path)
    kernels = [entry for sets in document["kernels"].values() for entry in sets.values()]
    shares = [entry[key] for entry in kernels for key in ("eta_c", "eta_m", "eta_s") if key in entry]
    assert shares or (is_of_an_engine(path) and document["collectives"])
    assert all(0.0 < share <= 1.0 for share in shares)
