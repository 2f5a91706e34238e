"""The script that measures a GPU, as far as it goes without one: tables, shapes, names, messages and the timing."""

import ast
import csv
import importlib.util
import io
import math
import os
import subprocess
import sys
import weakref
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import roofline as rl

SCRIPT = Path(__file__).parents[1] / "examples" / "measure_gpu.py"

# The two formats that `roofline calibrate` and `roofline check` read, written down here once more.
KERNELS = [
    *("gpu", "kind", "dtype", "m", "n", "k", "batch", "seq", "heads", "kv_heads", "head_dim", "tokens", "hidden"),
    *("width", "top_k", "experts", "tp", "ep", "routing", "ranks", "nbytes", "latency_us", "engine", "engine_version"),
    *("date", "clock_mhz", "note"),
]
PASSES = [
    *("gpu", "model", "engine", "engine_version", "tp", "pp", "ep", "dp", "quantization", "kv_cache_dtype", "isl"),
    *("osl", "prefix", "batch", "concurrency", "request_rate", "ttft_ms", "tpot_ms", "e2el_ms", "statistic", "date"),
    *("source", "url", "note"),
]
SHAPE_CELLS = {
    "gemm": {"m", "n", "k"},
    "attention_prefill": {"batch", "seq", "heads", "kv_heads", "head_dim"},
    "attention_decode": {"batch", "seq", "heads", "kv_heads", "head_dim"},
    "elementwise": {"nbytes"},
}


@pytest.fixture
def script(monkeypatch):
    spec = importlib.util.spec_from_file_location("measure_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "torch", None)  # installed or not, nothing here may use it
    monkeypatch.setattr(module, "why_not", "No module named 'torch'", raising=False)
    return module


def all_cases(script, size, compiled=False):
    return [case for section in script.SECTIONS for case in script.cases(section, size, compiled)]


def written(path):
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


# Without torch, without a GPU


def run_with(folder, torch_source, functional):
    """The script in a process of its own that finds this torch first, and the files that it left."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(torch_source)
    (folder / "torch" / "nn.py").write_text(f"import types\nfunctional = types.SimpleNamespace({functional})\n")
    here = folder / "here"
    here.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=here, env=environment)
    return done, list(here.iterdir())


NO_GPU = "import types\n__version__ = '2.9.1'\ncuda = types.SimpleNamespace(is_available=lambda: False)\n"


@pytest.mark.parametrize(
    ("torch_source", "functional", "said"),
    [
        ("raise ImportError('there is no torch')\n", "", "Missing: PyTorch (there is no torch)"),
        (NO_GPU, "rms_norm=None", "Missing: a GPU that PyTorch 2.9.1 can use"),
        (NO_GPU, "", "Missing: PyTorch 2.4 or newer"),
    ],
)
def test_without_torch_or_gpu_it_says_what_it_would_measure_and_what_is_missing(
    tmp_path, torch_source, functional, said
):
    done, files = run_with(tmp_path, torch_source, functional)
    assert (done.returncode, done.stderr, files) == (0, "", [])
    assert said in done.stdout
    for section in ("copy", "gemm", "attention", "elementwise", "passes"):
        assert f"\n  {section} " in done.stdout


def test_a_plan_counts_the_rows_of_what_is_asked_for_and_refuses_what_there_is_not(script, capsys):
    assert script.main(["--only", "gemm,passes", "--quick", "--model", "llama-3.2-1b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows, layers = script.SHAPES["quick"]["gemm"]
    assert f"gemm           {3 * len(rows) * len(layers):2} rows: gemm bf16, gemm fp8_static, gemm fp8" in lines[1]
    passes = 2 * len(script.SHAPES["quick"]["passes"])
    assert lines[2].endswith(f"{passes} rows: llama-3.2-1b pytorch-eager, llama-3.2-1b pytorch-graph")
    assert not any(line.startswith("  attention") for line in lines)
    for option, known in [("--only", "gemm"), ("--model", "llama-3.1-8b")]:
        with pytest.raises(SystemExit) as end:
            script.main([option, f"{known},banana"])
        assert end.value.code == 2
        message = capsys.readouterr().err
        assert "banana: not one of" in message
        assert known in message


# Names and shapes


def test_the_columns_names_and_models_are_those_of_the_catalog(script):
    assert set(script.GPU_NAMES.values()) <= set(rl.gpus())
    assert script.COLUMNS["kernels"].split(",") == KERNELS
    assert script.COLUMNS["passes"].split(",") == PASSES
    for name, shape in script.MODELS.items():
        model = rl.load_model(name)
        (group,) = model.groups
        (layer,) = group.layers
        mixer, network = layer.mixer, layer.ffn
        stated = (mixer.heads, mixer.kv_heads, mixer.head_dim, network.width)
        assert (model.hidden, group.repeat, model.vocab, model.tied) == (
            shape.hidden, shape.layers, shape.vocab, shape.tied,
        )  # fmt: skip
        assert stated == (shape.heads, shape.kv_heads, shape.head_dim, shape.width)
    found = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module.split(".")[0])
    assert found - sys.stdlib_module_names == {"torch"}


def test_a_gpu_is_known_by_the_name_that_its_driver_gives_or_asked_for(script):
    for told, name in [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"), ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA L40S", "l40s"), ("NVIDIA L4", "l4"), ("NVIDIA A10", "a10"), ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"), ("NVIDIA B200", "b200"), ("NVIDIA B300", "b300"),
        ("AMD Instinct MI300X", "mi300x"),
    ]:  # fmt: skip
        assert script.catalog_name(told) == name
    for told in [
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "X",
    ]:  # fmt: skip
        with pytest.raises(SystemExit, match="--gpu NAME") as end:
            script.catalog_name(told)
        assert told in str(end.value)


def test_a_kernel_fills_the_columns_of_its_kind_once_within_what_can_be_timed(script):
    for size in ["whole", "quick", "tiny"]:
        for case in all_cases(script, size, compiled=True):
            cells = set(case.cells) - {"kind", "dtype", "engine", "note"}
            assert cells == SHAPE_CELLS[case.cells["kind"]]
            assert all(isinstance(case.cells[name], int) and case.cells[name] > 0 for name in cells)
            assert case.cells["dtype"] in ("bf16", "fp8", "fp8_static")
    for size in ["whole", "quick", "tiny"]:
        rows = [tuple(sorted(case.cells.items())) for case in all_cases(script, size, compiled=True)]
        assert len(rows) == len(set(rows))
    for case in all_cases(script, "whole"):
        if case.cells["dtype"].startswith("fp8"):
            assert case.cells["n"] % 16 == case.cells["k"] % 16 == 0
    for size in ("whole", "quick", "tiny"):
        for batch, isl, osl in script.SHAPES[size]["passes"]:
            assert batch >= 1
            assert isl >= 1
            assert osl >= 3  # a first token, and two more to have steps between them


def test_the_whole_run_covers_the_range_that_a_calibration_needs(script):
    found = [case.cells for case in all_cases(script, "whole")]
    gemms = [cells for cells in found if cells["kind"] == "gemm"]
    for dtype in ("bf16", "fp8", "fp8_static"):
        rows = {cells["m"] for cells in gemms if cells["dtype"] == dtype}
        assert (min(rows), max(rows)) == (1, 8192)
    assert {(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (57344, 8192)} <= {
        (cells["n"], cells["k"]) for cells in gemms
    }
    decodes = [cells for cells in found if cells["kind"] == "attention_decode"]
    assert {cells["batch"] for cells in decodes} >= {1, 128}
    assert {cells["seq"] for cells in decodes} >= {512, 32768}
    assert {(cells["heads"], cells["kv_heads"]) for cells in decodes} == {(32, 8), (32, 32)}
    copies = [cells["nbytes"] for cells in found if cells["kind"] == "elementwise" and "engine" not in cells]
    assert (min(copies), max(copies)) == (64 * 1024, 1024**3)


def test_arithmetic_and_traffic_by_hand(script):
    hidden, inner, counts = script.SHAPES["whole"]["elementwise"]
    found = {case.cells["nbytes"] for case in script.cases("elementwise", "whole")}
    # Stream and layer's output in, sum and norm out; gate and up in, their product out; 2 bytes each.
    assert found == {tokens * 8 * hidden for tokens in counts} | {tokens * 6 * inner for tokens in counts}
    for cells, flop, nbytes in [
        ({"kind": "gemm", "dtype": "bf16", "m": 2, "n": 3, "k": 5}, 60, 2 * 15 + 2 * 10 + 2 * 6),
        ({"kind": "gemm", "dtype": "fp8", "m": 2, "n": 3, "k": 5}, 60, 15 + 10 + 2 * 6),
        # Three tokens see 1 + 2 + 3 = 6; 2 FLOP for scores, 2 for values; q and output of 4 heads, k and v of 2.
        ({"kind": "attention_prefill", "batch": 1, "seq": 3, "heads": 4, "kv_heads": 2, "head_dim": 8}, 768, 576),
        ({"kind": "attention_decode", "batch": 5, "seq": 3, "heads": 4, "kv_heads": 2, "head_dim": 8}, 1920, 1600),
        ({"kind": "elementwise", "dtype": "bf16", "nbytes": 7}, 0, 7),
    ]:
        assert script.amounts(cells) == (flop, nbytes)


# The files


def test_a_row_is_on_disk_as_soon_as_it_is_measured_and_reads_back_as_csv(script, tmp_path):
    path = tmp_path / "kernels.csv"
    table = script.Table(path, script.COLUMNS["kernels"], ["measured\nhere"], {"gpu": "l4", "engine": "pytorch"})
    table.add({"kind": "gemm", "m": 1, "note": "one, two", "clock_mhz": None})
    assert path.read_text().startswith("# measured here\ngpu,kind,")
    assert [(row["gpu"], row["m"], row["note"], row["clock_mhz"]) for row in written(path)] == [
        ("l4", "1", "one, two", "")
    ]
    table.add({"kind": "elementwise", "engine": "pytorch-eager"})
    assert [row["engine"] for row in written(path)] == ["pytorch", "pytorch-eager"]
    table.file.close()
    table = script.Table(tmp_path / "kernels.csv", script.COLUMNS["kernels"], [], {})
    with pytest.raises(ValueError, match="speed"):
        table.add({"speed": 1})
    table.file.close()
    table = script.Table(tmp_path / "passes.csv", script.COLUMNS["passes"], ["a", "b"], {"gpu": "l4"})
    table.comment("skipped\nsomething")
    table.add({"model": "llama-3.2-1b", "note": 'said "slow", twice'})
    table.file.close()
    text = (tmp_path / "passes.csv").read_text()
    assert [line[0] for line in text.splitlines()] == ["#", "#", "g", "#", "l"]
    (row,) = csv.DictReader(io.StringIO("".join(line for line in text.splitlines(True) if line[0] != "#")))
    assert (row["gpu"], row["model"], row["note"]) == ("l4", "llama-3.2-1b", 'said "slow", twice')


def test_a_file_is_overwritten_only_when_asked_and_a_folder_must_be_writable(script, tmp_path, monkeypatch):
    path = tmp_path / "kernels.csv"
    script.refuse([path], force=False)
    path.write_text("precious")
    with pytest.raises(SystemExit, match=r"kernels\.csv exists: .*--force"):
        script.refuse([tmp_path / "passes.csv", path], force=False)
    script.refuse([path], force=True)
    assert path.read_text() == "precious"
    with pytest.raises(SystemExit, match="two files"):
        script.refuse([tmp_path / "all.csv", tmp_path / "all.csv"], force=True)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(
        SystemExit, match=r"cannot write .*kernels\.csv \(Permission denied\): .*--kernels and --passes"
    ):
        script.Table(tmp_path / "kernels.csv", script.COLUMNS["kernels"], [], {})


class Sheet:
    """A table that remembers."""

    def __init__(self):
        self.lines = []

    def add(self, cells):
        self.lines.append(cells)

    def comment(self, text):
        self.lines.append(f"# {text}")


CPU = SimpleNamespace(on_gpu=False, attention="flash", fp8="e4m3")


def test_what_cannot_be_measured_is_a_comment_and_a_mistake_of_the_script_is_none(script, capsys):
    with pytest.raises(KeyError):
        script.record(Sheet(), CPU, "first", lambda: {}["nothing"])

    def out_of_memory():
        raise RuntimeError("CUDA out of memory. Tried to allocate 68 GiB.\nSee the documentation")

    def too_large():
        raise script.Skipped("needs 68.7 GB, 21.0 GB are free")

    sheet = Sheet()
    script.record(sheet, CPU, "first", out_of_memory)
    script.record(sheet, CPU, "second", too_large)
    script.record(sheet, CPU, "third", lambda: ({"m": 1}, "fast"))
    assert sheet.lines == [
        "# skipped first: CUDA out of memory. Tried to allocate 68 GiB.",
        "# skipped second: needs 68.7 GB, 21.0 GB are free",
        {"m": 1},
    ]
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["first", "second", "third"]


def test_a_kernel_becomes_a_row_with_its_time_clock_and_notes_and_fp8_only_where_it_can(script):
    class Bench(SimpleNamespace):
        def timing(self, calls):
            return script.Timing(12.3456789e-6, 1755, calls)

    case = script.Case(
        {"kind": "gemm", "dtype": "bf16", "m": 1, "n": 2, "k": 3, "note": "mm"}, lambda _: "launched singly"
    )
    decode = {"batch": 1, "seq": 2, "heads": 4, "kv_heads": 2, "head_dim": 8}
    other = script.Case({"kind": "attention_decode", "dtype": "bf16", **decode}, lambda _: "")
    sheet = Sheet()
    script.measure_kernels(Bench(**vars(CPU)), sheet, iter([case, other]))
    first, second = sheet.lines
    assert (first["latency_us"], first["clock_mhz"], first["note"]) == ("12.346", 1755, "mm; launched singly")
    assert second["note"] == "attention: flash"
    assert set(first) | set(second) <= set(KERNELS)
    bench = SimpleNamespace(on_gpu=False, attention="flash", fp8=None, timing=lambda _: script.Timing(1e-6, None, ""))
    sheet = Sheet()
    todo = [script.Case(case.cells, lambda _: []) for case in script.cases("gemm", "tiny")]
    script.measure_kernels(bench, sheet, iter(todo))
    assert {row["dtype"] for row in sheet.lines} == {"bf16"}
    assert len(sheet.lines) == len(todo) / 3


# Whole passes


def passes_of(script, monkeypatch, latencies, on_gpu=True):
    """The lines that the passes of two models give, and the models built, with a decoder that says `latencies`."""
    built, alive = [], []

    class Decoder:
        def __init__(self, bench, shape):
            assert not [decoder for decoder in alive if decoder()], "the weights of two models at once"
            alive.append(weakref.ref(self))
            built.append(shape)

        def latencies(self, *case):
            return latencies(*case)

    monkeypatch.setattr(script, "Decoder", Decoder)
    synchronize = SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None))
    monkeypatch.setattr(script, "torch", synchronize)
    sheet = Sheet()
    bench = SimpleNamespace(on_gpu=on_gpu, attention="flash")
    script.measure_passes(bench, sheet, "quick", ["llama-3.2-1b", "llama-3.1-8b"])
    return sheet.lines, built


def test_each_pass_is_a_row_of_its_own_with_and_without_graphs(script, monkeypatch):
    lines, built = passes_of(script, monkeypatch, lambda *case: {"ttft_ms": "9", "tpot_ms": "1"})
    assert len(lines) == 2 * 2 * len(script.SHAPES["quick"]["passes"])
    assert {row["engine"] for row in lines} == {"pytorch-eager", "pytorch-graph"}
    assert {row["model"] for row in lines} <= set(script.MODELS)
    assert all(set(row) <= set(PASSES) and row["batch"] and "concurrency" not in row for row in lines)
    assert built == [script.MODELS["llama-3.2-1b"], script.MODELS["llama-3.1-8b"]]  # the weights once each


def test_a_pass_that_cannot_be_captured_is_no_graph_and_a_cpu_has_none(script, monkeypatch):
    def latencies(batch, isl, osl, graph):
        if graph:
            raise script.Skipped("no CUDA graph")
        return {"ttft_ms": "9", "tpot_ms": "1"}

    lines, _ = passes_of(script, monkeypatch, latencies)
    rows = [line for line in lines if isinstance(line, dict)]
    assert {row["engine"] for row in rows} == {"pytorch-eager"}
    assert sum("pytorch-graph" in line and "no CUDA graph" in line for line in lines if isinstance(line, str)) == len(
        rows
    )
    lines, _ = passes_of(script, monkeypatch, lambda *case: {"ttft_ms": "9", "tpot_ms": "1"}, on_gpu=False)
    assert {row["engine"] for row in lines} == {"pytorch-eager"}


class Link:
    """torch.distributed between a number of ranks, all of them this one."""

    ReduceOp = SimpleNamespace(MAX=max)

    def __init__(self, ranks):
        self.ranks, self.moved = ranks, []

    def init_process_group(self, backend):
        assert backend == "nccl"

    def get_world_size(self):
        return self.ranks

    def all_reduce(self, tensor, op=None):
        if op is None:
            self.moved.append((tensor.length,))
        else:
            tensor.values = [op(tensor.values[0], 30e-6)]  # another rank took 30 us

    def all_gather_into_tensor(self, whole, shard):
        self.moved.append((whole.length, shard.length))

    def destroy_process_group(self):
        pass


class Tensor:
    """As much of a tensor as a collective looks at."""

    def __init__(self, length, values=()):
        self.length, self.values = length, list(values)

    def __getitem__(self, index):
        return Tensor(len(range(self.length)[index]))

    def clone(self):
        return self

    def item(self):
        return self.values[0]


@pytest.mark.parametrize("ranks", [2, 6, 8])
def test_collectives_state_the_tensor_that_each_rank_holds_in_the_end(script, ranks):
    link = Link(ranks)
    script.torch = SimpleNamespace(
        distributed=link,
        bfloat16="bf16",
        zeros=lambda length, device, dtype: Tensor(length),
        tensor=lambda values, device: Tensor(1, values),
    )

    def timing(calls, inner, repeats):
        calls[0]()
        return script.Timing(20e-6, 1755, "")

    sheet = Sheet()
    bench = SimpleNamespace(on_gpu=True, device="cuda:0", timing=timing)
    script.measure_collectives(bench, sheet, "whole")
    assert [row["kind"] for row in sheet.lines] == ["all_reduce"] * 19 + ["all_gather"] * 19
    assert {row["latency_us"] for row in sheet.lines} == {"30"}  # of the slowest rank
    for row, moved in zip(sheet.lines, link.moved, strict=True):
        assert row["nbytes"] == 2 * moved[0]
        if row["kind"] == "all_gather":
            assert moved[1] * ranks == moved[0]
    wanted = [2**power for power in range(10, 29)] * 2
    assert all(row["nbytes"] == pytest.approx(size, rel=0.01) for row, size in zip(sheet.lines, wanted, strict=True))
    link.moved.clear()
    script.measure_collectives(bench, None, "whole")  # the other ranks take part and write nothing
    assert len(link.moved) == 38


PROMPTS = SimpleNamespace(randint=lambda vocab, size, device: "prompt")


@pytest.mark.parametrize("uncaptured", ["prefill", "decode"])
def test_a_pass_of_which_a_part_was_launched_by_the_host_is_no_graph(script, uncaptured):
    def timing(calls, graph, inner, apart=False):
        part = "prefill" if apart else "decode"
        return script.Timing(1e-3, None, "no CUDA graph" if part == uncaptured else "")

    decoder = script.Decoder.__new__(script.Decoder)
    decoder.shape, decoder.bench = script.TINY, SimpleNamespace(device="cpu", timing=timing)
    decoder.reserve = lambda batch, length: None
    script.torch = PROMPTS
    with pytest.raises(script.Skipped, match="no CUDA graph"):
        decoder.latencies(1, 100, 9, graph=True)


def test_decode_steps_are_taken_at_the_mean_length_of_the_generation(script):
    isl, osl, starts = 100, 9, []
    decoder = script.Decoder.__new__(script.Decoder)
    decoder.shape = script.TINY
    decoder.token = "token"
    decoder.reserve = lambda batch, length: None
    decoder.advance = lambda tokens, start: starts.append((tokens, start))

    def timing(calls, graph, inner, apart=False):
        calls[0]()
        return script.Timing(2e-3 if apart else 1e-3, None, "")

    decoder.bench = SimpleNamespace(device="cpu", timing=timing)
    script.torch = PROMPTS
    assert decoder.latencies(1, isl, osl, graph=False) == {"ttft_ms": "2", "tpot_ms": "1"}
    lengths = [isl + step for step in range(1, osl)]  # the KV cache of a step holds its own token, too
    mean = sum(lengths) / len(lengths)
    assert starts == [("prompt", 0), ("token", math.floor(mean) - 1)]


# The clock, on a device that is simulated: the host launches, the device works, both in seconds


class OutOfMemory(RuntimeError):
    """As PyTorch's own, a RuntimeError."""


class Device:
    """A GPU whose time is counted: launches take the host some time, kernels take the device some, graphs neither."""

    LAUNCH = 8e-6

    def __init__(self, graphs=True):
        self.host, self.busy, self.recorded, self.runs = 0.0, 0.0, None, []
        device = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.time = max(device.host, device.busy)

            def elapsed_time(self, other):
                return (other.time - self.time) * 1e3

        class Graph:
            def replay(self):
                device.host += device.LAUNCH
                device.busy = max(device.host, device.busy) + sum(seconds for _, seconds in self.kernels)
                device.runs += [name for name, _ in self.kernels]

        @contextmanager
        def graph(target, capture_error_mode):
            if not graphs:
                raise RuntimeError("operation not permitted\nwhen stream is capturing")
            device.recorded = target.kernels = []
            yield
            device.recorded = None

        self.cuda = SimpleNamespace(
            Event=Event, CUDAGraph=Graph, graph=graph, synchronize=self.synchronize, OutOfMemoryError=OutOfMemory
        )

    def synchronize(self):
        self.host = self.busy = max(self.host, self.busy)

    def kernel(self, name, seconds):
        def call():
            if self.recorded is not None:
                self.recorded.append((name, seconds))
                return
            self.host += self.LAUNCH
            self.busy = max(self.host, self.busy) + seconds
            self.runs.append(name)

        return call


def bench_on(script, device):
    script.torch = device
    bench = script.Bench.__new__(script.Bench)
    bench.on_gpu, bench.budget, bench.resolution = True, 0.05, script.TIMER_RESOLUTION
    bench.clock, bench.driver = None, SimpleNamespace(sm_clock=lambda: 1755)
    return bench


def test_a_graph_takes_the_host_out_of_the_time_and_memory_is_no_reason_to_launch_singly(script):
    device = Device()
    taken = bench_on(script, device).timing([device.kernel("a", 3e-6)])
    assert taken.seconds == pytest.approx(3e-6, rel=0.01)
    assert (taken.clock, taken.note) == (1755, "")
    device = Device(graphs=False)
    taken = bench_on(script, device).timing([device.kernel("a", 3e-6)])
    assert taken.seconds == pytest.approx(device.LAUNCH, rel=0.01)
    assert taken.note == "no CUDA graph, host time may show (operation not permitted)"
    device = Device()
    bench = bench_on(script, device)

    def call():
        if device.recorded is not None:
            raise OutOfMemory("CUDA out of memory")

    with pytest.raises(OutOfMemory):
        bench.captured(call)
    device = Device()

    def run():
        for _ in range(100):
            device.kernel("small", 1e-6)()

    spans = bench_on(script, device).spans(run, 3, apart=True)
    assert spans == pytest.approx([100 * device.LAUNCH + 1e-6] * 3)


def test_copies_are_used_in_turn_and_a_disturbed_repeat_does_not_move_the_median(script):
    device = Device()
    names = [f"copy {number}" for number in range(700)]
    bench_on(script, device).timing([device.kernel(name, 5e-6) for name in names])
    last = device.runs[-len(names) :]
    assert sorted(last) == sorted(names)
    bench = bench_on(script, Device())
    spans = [1e-3, 1e-3, 1e-3, 9e-3, 1.1e-3]
    bench.spans = lambda run, repeats, apart=False: spans if repeats == 5 else [1e-3]
    assert bench.timing([lambda: None], graph=False, inner=10, repeats=5).seconds == pytest.approx(1e-4)
    device = Device()
    nothing = device.kernel("nothing", 1e-12)
    with pytest.raises(script.Skipped, match="too short for the timer"):
        bench_on(script, device).timing([nothing])


def test_there_are_copies_enough_to_outlast_the_cache_but_no_more_than_fit(script):
    bench = script.Bench.__new__(script.Bench)
    bench.on_gpu, bench.in_turn, bench.device = True, 512 * 2**20, "cuda"
    free = [80e9]
    bench_memory = SimpleNamespace(empty_cache=lambda: None, mem_get_info=lambda device: (free[0], 80e9))
    script.torch = SimpleNamespace(cuda=bench_memory)
    assert len(bench.copies(2 * 4096 * 4096, object)) == 16  # 32 MiB each
    assert len(bench.copies(4 * 10**9, object)) == 1
    assert len(bench.copies(1000, object)) == script.MOST_LAUNCHES
    free[0] = 4.1e9
    with pytest.raises(script.Skipped, match=r"needs 4\.0 GB, 4\.1 GB are free"):
        bench.copies(4 * 10**9, object)


def test_the_driver_tells_clocks_in_units_and_without_nvml_they_are_unknown(script, monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(script.ctypes, "CDLL", missing)
    driver = script.Driver("1234")
    assert driver.sm_clock() is None
    assert "unknown" in driver.summary()

    def answer(value):
        def call(*arguments):
            arguments[-1]._obj.value = value[arguments[1]] if isinstance(value, dict) else value
            return 0

        return call

    def version(text, size):
        text.value = b"580.95.05"
        return 0

    asked = []
    nvml = SimpleNamespace(
        nvmlInit_v2=lambda: 0,
        nvmlDeviceGetHandleByUUID=lambda uuid, handle: asked.append(uuid) or 0,
        nvmlDeviceGetClockInfo=answer({1: 1755, 2: 2619}),
        nvmlDeviceGetEnforcedPowerLimit=answer(700_000),
        nvmlSystemGetDriverVersion=version,
    )
    monkeypatch.setattr(script.ctypes, "CDLL", lambda name: nvml)
    driver = script.Driver("1234")
    assert asked == [b"GPU-1234"]
    assert driver.sm_clock() == 1755
    said = "driver 580.95.05; under load: SM clock 1755 MHz, memory clock 2619 MHz; power limit 700 W"
    assert driver.summary() == said
