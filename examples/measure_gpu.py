"""Measure the GPU of this machine: kernels for `roofline calibrate`, whole passes for `roofline check`.

    python measure_gpu.py                          # kernels.csv and passes.csv, under 8 minutes on an H100
    python measure_gpu.py --quick --only gemm,attention
    torchrun --nproc-per-node 8 measure_gpu.py --kernels collectives.csv        # collectives, and nothing else

Needs Python 3.10 and PyTorch 2.4 or newer with CUDA or ROCm, and nothing else. Without them it prints what it would do.

How the times are taken, so that they mean what the calculator means by them:

* The GPU's own clock (events around many launches), after a warm-up; the median of the repeats.
* The launches are captured into one CUDA graph where possible, so the host's launch cost is not in them.
* Weights and KV caches come in several copies, used in turn, together several times the L2 cache. A model reads all
  of its weights between two uses of one of them, so they always come from HBM; one copy, timed again and again, would
  come from the L2 and look faster than the memory is. Activations do stay in the L2, as they do in a model.
* Random data, not zeros: multiplying zeros takes less power, and the clock stays higher than it would.
* What the timer cannot resolve is not reported, and what does not fit or does not run is skipped, with a comment.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import ctypes
import functools
import gc
import itertools
import math
import os
import statistics
import sys
import time
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

try:
    import torch
    from torch.nn import functional
except ImportError as missing:
    torch, why_not = None, str(missing)

COLUMNS = {
    "kernels": "gpu,kind,dtype,m,n,k,batch,seq,heads,kv_heads,head_dim,tokens,hidden,width,top_k,experts,tp,ep,routing,"
    "ranks,nbytes,latency_us,engine,engine_version,date,clock_mhz,note",
    "passes": "gpu,model,engine,engine_version,tp,pp,ep,dp,quantization,kv_cache_dtype,isl,osl,prefix,batch,"
    "concurrency,request_rate,ttft_ms,tpot_ms,e2el_ms,statistic,date,source,url,note",
}

# What torch.cuda.get_device_name() says, less the vendor, and the catalog's name. Only exact names: a MIG slice or a
# laptop's chip of the same name is another GPU.
# fmt: off
GPU_NAMES = {
    "H100 80GB HBM3": "h100-sxm", "H100 PCIe": "h100-pcie", "H100 NVL": "h100-nvl", "H800": "h800", "H20": "h20",
    "H200": "h200-sxm", "H200 NVL": "h200-nvl", "GH200 480GB": "gh200-96gb",
    "A100-SXM4-80GB": "a100-sxm-80gb", "A100-SXM4-40GB": "a100-sxm-40gb",
    "A100 80GB PCIe": "a100-pcie-80gb", "A100-PCIE-40GB": "a100-pcie-40gb",
    "A30": "a30", "A10": "a10", "A10G": "a10g", "L40S": "l40s", "L40": "l40", "L4": "l4",
    "GeForce RTX 4090": "rtx-4090", "GeForce RTX 5090": "rtx-5090",
    "RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
    "RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-workstation",
    "B200": "b200", "GB200": "gb200-nvl72", "B300": "b300", "B300 SXM6 AC": "b300", "GB300": "gb300-nvl72",
    "Instinct MI300X": "mi300x", "Instinct MI325X": "mi325x", "Instinct MI350X": "mi350x", "Instinct MI355X": "mi355x",
}
# fmt: on

Llama = namedtuple("Llama", "hidden layers heads kv_heads head_dim width vocab tied")
MODELS = {
    "llama-3.2-1b": Llama(2048, 16, 32, 8, 64, 8192, 128256, tied=True),
    "llama-3.1-8b": Llama(4096, 32, 32, 8, 128, 14336, 128256, tied=False),
}
TINY = Llama(64, 2, 4, 2, 16, 128, 512, tied=True)  # for the CPU

# n, k of the matrices of a layer (query-key-value, output, gate and up, down); then a head, a 1B model, 70B at tp 8.
LAYERS_8B = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]
LAYERS_70B = [(10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)]
OTHERS = [(128256, 4096), (3072, 2048), (2048, 8192), (1280, 8192), (8192, 3584)]
# Everything in three sizes: whole, --quick, and what a CPU can do to try the script out.
# fmt: off
SHAPES: dict[str, dict[str, Any]] = {
    "whole": {
        "copy": [2**power for power in range(16, 31)],  # bytes
        "gemm": ([2**power for power in range(14)], LAYERS_8B + LAYERS_70B + OTHERS),  # m; n, k
        "heads": [(32, 8, 128), (32, 32, 128)],  # query heads, KV heads, width of a head
        "prefill": [(b, 2**power) for b in (1, 4, 16) for power in range(9, 16) if b * 2**power <= 32768],  # batch, seq
        "decode": [(b, s) for b in (1, 2, 4, 8, 16, 32, 64, 128) for s in (512, 2048, 8192, 32768)],
        "elementwise": (4096, 14336, [1, 16, 128, 1024, 4096, 16384]),  # widths of model and network; tokens
        # batch, isl, osl
        "passes": [(1, 128, 128), (1, 2048, 256), (1, 8192, 256), (8, 1024, 256), (32, 1024, 256), (64, 512, 256)],
        "collectives": [2**power for power in range(10, 29)],
    },
    "quick": {
        "copy": [2**16, 2**20, 2**24, 2**30], "gemm": ([1, 16, 128, 1024, 8192], LAYERS_8B),
        "elementwise": (4096, 14336, [16, 1024, 16384]), "heads": [(32, 8, 128)],
        "prefill": [(1, 512), (1, 2048), (1, 8192), (4, 2048)],
        "decode": [(b, s) for b in (1, 16, 64) for s in (2048, 32768)],
        "passes": [(1, 2048, 128), (16, 1024, 128)], "collectives": [2**10, 2**16, 2**20, 2**24, 2**28],
    },
    "tiny": {
        "copy": [2**16, 2**20], "gemm": ([1, 16], [(64, 32), (128, 64)]), "elementwise": (64, 128, [1, 16]),
        "heads": [(4, 2, 16), (4, 4, 16)], "prefill": [(1, 32), (2, 64)], "decode": [(1, 32), (2, 64)],
        "passes": [(1, 32, 8), (2, 16, 4)], "collectives": [2**10, 2**16],
    },
}
# fmt: on
SECTIONS = ("copy", "gemm", "attention", "elementwise", "passes")
ENGINES = {
    "pytorch-eager": "the host launches every operation, no wait between tokens",
    "pytorch-graph": "prefill and decode steps replayed as CUDA graphs, no host time",
}

TIMER_RESOLUTION = 0.5e-6  # of CUDA events [s], from the documentation of cudaEventElapsedTime
RESOLVABLE = 100  # a timed region is reported if it lasts this many times the resolution, so to 1 % [1]
REGION = 4e-3  # what one timed region should last: the gap before it is some microseconds [s]
MOST_LAUNCHES = 4096  # in one region, and copies of one tensor [1]
LEAST_IN_TURN = 512 * 2**20  # copies used in turn, all together: also beyond the 256 MB behind the L2 of an MI300X [B]

Call = Callable[[], Any]


class Skipped(Exception):
    """One shape cannot be measured here; the message says why."""


class Timing(NamedTuple):
    """Time of one call [s], the SM clock meanwhile [MHz] or None, and what a reader should know."""

    seconds: float
    clock: int | None
    note: str


class Case(NamedTuple):
    """A kernel to time: cells of its row, and the function that builds calls of it on a bench."""

    cells: dict[str, Any]
    build: Callable[[Bench], list[Call]]


class Table:
    """A CSV file that holds every row from the moment it is measured: a killed run keeps what it has."""

    def __init__(self, path: Path, columns: str, header: list[str], common: dict[str, Any]) -> None:
        self.common = common
        try:
            self.file = path.open("w", newline="", encoding="utf-8")
        except OSError as reason:
            where = "name a file in a folder that you may write, with --kernels and --passes"
            raise SystemExit(f"cannot write {path} ({reason.strerror}): {where}") from None
        for line in header:
            self.comment(line)
        self.rows = csv.DictWriter(self.file, columns.split(","), restval="", lineterminator="\n")
        self.rows.writeheader()

    def add(self, cells: dict[str, Any]) -> None:
        """Write one row, now."""
        self.rows.writerow({**self.common, **cells})
        self.file.flush()

    def comment(self, text: str) -> None:
        """Write one line that readers of the CSV pass over."""
        self.file.write(f"# {' '.join(text.split())}\n")
        self.file.flush()


class Driver:
    """What the driver of an NVIDIA GPU says, by NVML, the library under nvidia-smi; None without it (as on ROCm)."""

    def __init__(self, uuid: str) -> None:
        self.handle = ctypes.c_void_p()
        try:
            self.nvml: Any = ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
            name = f"GPU-{uuid.removeprefix('GPU-')}".encode()
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByUUID(name, ctypes.byref(self.handle)):
                self.nvml = None
        except OSError:
            self.nvml = None

    def figure(self, question: str, *which: int) -> int | None:
        """The number that the driver gives as answer."""
        answer = ctypes.c_uint()
        if self.nvml is None or getattr(self.nvml, question)(self.handle, *which, ctypes.byref(answer)):
            return None
        return answer.value

    def sm_clock(self) -> int | None:
        """SM clock at this moment [MHz]."""
        return self.figure("nvmlDeviceGetClockInfo", 1)

    def summary(self) -> str:
        """Driver, clocks and power limit, in words."""
        version = ctypes.create_string_buffer(96)
        if self.nvml is None or self.nvml.nvmlSystemGetDriverVersion(version, 96):
            return "driver, clocks and power limit unknown (no NVML)"
        clocks = f"SM clock {self.sm_clock()} MHz, memory clock {self.figure('nvmlDeviceGetClockInfo', 2)} MHz"
        limit = (self.figure("nvmlDeviceGetEnforcedPowerLimit") or 0) / 1000  # from milliwatts
        return f"driver {version.value.decode()}; under load: {clocks}; power limit {limit:.0f} W"


class Bench:
    """The device: makes tensors on it, and times calls on it."""

    def __init__(self, device: str, budget: float) -> None:
        self.device = torch.device(device)
        self.on_gpu = self.device.type == "cuda"
        self.budget = budget  # what the repeats of one row take together [s]
        self.resolution = TIMER_RESOLUTION if self.on_gpu else time.get_clock_info("perf_counter").resolution
        self.in_turn, self.fp8, self.driver = 2**20, torch.float8_e4m3fn, Driver("")
        self.clock: int | None = None  # SM clock while the last runs were timed [MHz]
        self.attention = ""  # the kernel that is in use
        if self.on_gpu:
            torch.cuda.set_device(self.device)
            seen = torch.cuda.get_device_properties(self.device)
            self.in_turn = max(LEAST_IN_TURN, 4 * getattr(seen, "L2_cache_size", 0))
            self.driver = Driver(str(getattr(seen, "uuid", "")))
            if torch.version.hip and seen.gcnArchName.startswith("gfx94"):
                self.fp8 = torch.float8_e4m3fnuz  # the MI300 series has a format of its own
            elif torch.cuda.get_device_capability(self.device) < (8, 9):
                self.fp8 = None

    def random(self, *shape: int) -> torch.Tensor:
        """A bf16 tensor of normal deviates."""
        return torch.randn(shape, device=self.device, dtype=torch.bfloat16)

    def copies(self, nbytes: int, make: Callable[[], Any]) -> list[Any]:
        """So many copies of something of `nbytes` that, used in turn, none of them is still in the L2."""
        count = min(math.ceil(self.in_turn / nbytes), MOST_LAUNCHES)
        self.require(count * nbytes)
        return [make() for _ in range(count)]

    def require(self, nbytes: float) -> None:
        """Skip what the free memory does not hold (with a tenth to spare for what the kernels need)."""
        if self.on_gpu:
            torch.cuda.empty_cache()
            free = torch.cuda.mem_get_info(self.device)[0]
            if 1.1 * nbytes > free:
                raise Skipped(f"needs {nbytes / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")

    def spans(self, run: Call, repeats: int, apart: bool = False) -> list[float]:
        """Time of each of several runs [s], one right after the other or, `apart`, each on an idle device."""
        if not self.on_gpu:
            ticks = [time.perf_counter(), *((run(), time.perf_counter())[1] for _ in range(repeats))]
            return [after - before for before, after in itertools.pairwise(ticks)]
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        for before, after in events:
            before.record()
            run()
            after.record()
            if apart:
                torch.cuda.synchronize()
        self.clock = self.driver.sm_clock()  # asked while the device still works through what was launched
        torch.cuda.synchronize()
        return [before.elapsed_time(after) / 1000 for before, after in events]

    def captured(self, run: Call) -> tuple[Call, str]:
        """The launches of `run` as one CUDA graph; `run` itself, and why, where they cannot be captured."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                run()
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError as reason:
            return run, f"no CUDA graph, host time may show ({str(reason).splitlines()[0]})"
        return graph.replay, ""

    def timing(
        self, calls: list[Call], graph: bool = True, inner: int = 0, repeats: int = 0, apart: bool = False
    ) -> Timing:
        """Median time of one call, the calls taken in turn, `inner` of them in each timed region."""

        def launch(count: int) -> None:
            for number in range(count):
                calls[number % len(calls)]()

        launch(2)  # warm-up: libraries load, kernels are chosen
        once = min(self.spans(lambda: launch(1), 2))
        inner = inner or min(max(len(calls), math.ceil(REGION / max(once, self.resolution))), MOST_LAUNCHES)
        singly = functools.partial(launch, inner)
        run, note = self.captured(singly) if graph and self.on_gpu else (singly, "")
        once = statistics.median(self.spans(run, 1))
        repeats = repeats or min(max(math.ceil(self.budget / max(once, self.resolution)), 5), 100)
        self.spans(run, repeats // 4)  # brings the clock to where this load holds it
        region = statistics.median(self.spans(run, repeats, apart))
        if region < RESOLVABLE * self.resolution:
            raise Skipped(f"{inner} launches took {region * 1e6:.3g} us, too short for the timer")
        return Timing(region / inner, self.clock, note)


def copy(bench: Bench, nbytes: int) -> list[Call]:
    """Read half of the bytes and write half, in one vectorised kernel (a plain copy may take the copy engine)."""
    pairs = bench.copies(nbytes, lambda: (bench.random(nbytes // 4), bench.random(nbytes // 4)))
    return [functools.partial(torch.add, source, 1, out=target) for source, target in pairs]


def gemm(bench: Bench, m: int, n: int, k: int) -> list[Call]:
    """x[m, k] W[n, k]^T in bf16."""
    weights = bench.copies(2 * n * k, lambda: bench.random(n, k))
    x, y = bench.random(m, k), bench.random(m, n)
    return [functools.partial(torch.mm, x, weight.t(), out=y) for weight in weights]


def quantised(x: torch.Tensor, fp8: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor in FP8 and its one scale, computed on the fly: the largest magnitude becomes the largest number."""
    scale = torch.linalg.vector_norm(x, math.inf, dtype=torch.float32) / torch.finfo(fp8).max
    return (x / scale).to(fp8), scale


def gemm_fp8(bench: Bench, m: int, n: int, k: int, dynamic: bool) -> list[Call]:
    """The same in FP8 with a scale per tensor; `dynamic` quantises the activations in front of each product."""
    weights = bench.copies(n * k, lambda: quantised(bench.random(n, k), bench.fp8))
    x = bench.random(m, k)
    known = quantised(x, bench.fp8)

    def multiply(weight: torch.Tensor, weight_scale: torch.Tensor) -> None:
        rows, scale = quantised(x, bench.fp8) if dynamic else known
        torch._scaled_mm(  # noqa: SLF001  # the one name of it in all versions
            rows, weight.t(), scale_a=scale, scale_b=weight_scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return [functools.partial(multiply, *weight) for weight in weights]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of q[batch, heads, new, dim] over k, v[batch, kv_heads, length, dim]: a prompt, or one token."""
    batch, heads, new, dim = q.shape
    kv_heads = k.shape[1]
    if new == 1:  # the query heads of one KV head become rows of one query: each key is read once
        grouped = q.reshape(batch, kv_heads, heads // kv_heads, dim)
        return functional.scaled_dot_product_attention(grouped, k, v).reshape(q.shape)
    if heads == kv_heads:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    if "enable_gqa" in (functional.scaled_dot_product_attention.__doc__ or ""):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention(bench: Bench, new: int, batch: int, seq: int, heads: int, kv_heads: int, head_dim: int) -> list[Call]:
    """Attention of `new` tokens over a KV cache of `seq` that contains them: new = seq is prefill, 1 is decode."""
    bench.require(4 * batch * seq * (heads + 2 * kv_heads) * head_dim if new > 1 else 0)
    nbytes = 4 * batch * seq * kv_heads * head_dim  # of keys and values
    q = bench.random(batch, new, heads, head_dim).transpose(1, 2)
    caches = bench.copies(nbytes, lambda: bench.random(2, batch, kv_heads, seq, head_dim))
    return [functools.partial(attend, q, *cache) for cache in caches]


def rms_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Residual addition and the norm of the sum."""
    total = x + residual
    return total, functional.rms_norm(total, weight.shape, weight)


def silu_up(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Activation between the two halves of a gated network."""
    return functional.silu(gate) * up


def elementwise(bench: Bench, operation: Callable[..., Any], tokens: int, width: int, compiled: bool) -> list[Call]:
    """A pass over tokens x width values, as separate PyTorch operations or compiled into one kernel."""
    if compiled:
        torch.compiler.reset()  # or the ninth shape would fall back to separate operations, without a word
        operation = torch.compile(operation, dynamic=False)
    pairs = bench.copies(4 * tokens * width, lambda: (bench.random(tokens, width), bench.random(tokens, width)))
    weight = [bench.random(width)] if operation.__name__ == "rms_norm" else []
    return [functools.partial(operation, *pair, *weight) for pair in pairs]


def cases(section: str, size: str, compiled: bool = False) -> Iterator[Case]:
    """The kernels of a section, smallest first."""
    shapes, bind = SHAPES[size], functools.partial
    if section == "copy":
        for nbytes in shapes["copy"]:
            cells = {"kind": "elementwise", "dtype": "bf16", "nbytes": nbytes, "note": "y = x + 1"}
            yield Case(cells, bind(copy, nbytes=nbytes))
    if section == "gemm":
        rows, layers = shapes["gemm"]
        for dtype, (n, k), m in itertools.product(("bf16", "fp8_static", "fp8"), layers, rows):
            size_of = {"m": m, "n": n, "k": k}
            note = "torch._scaled_mm, a scale per tensor, fast accumulation"
            if dtype == "bf16":
                note = ""
            elif dtype == "fp8":
                note += "; scale and quantisation as separate operations"
            build = bind(gemm, **size_of) if dtype == "bf16" else bind(gemm_fp8, **size_of, dynamic=dtype == "fp8")
            yield Case({"kind": "gemm", "dtype": dtype, **size_of, "note": note}, build)
    if section == "attention":
        for part, heads in itertools.product(("prefill", "decode"), shapes["heads"]):
            for lengths in shapes[part]:
                names = ("batch", "seq", "heads", "kv_heads", "head_dim")
                size_of = dict(zip(names, (*lengths, *heads), strict=True))
                build = bind(attention, new=size_of["seq"] if part == "prefill" else 1, **size_of)
                yield Case({"kind": f"attention_{part}", "dtype": "bf16", **size_of}, build)
    if section == "elementwise":
        hidden, inner, counts = shapes["elementwise"]
        for is_compiled, tokens in itertools.product((False, True) if compiled else (False,), counts):
            for operation, width, values in ((rms_norm, hidden, 4), (silu_up, inner, 3)):
                cells = {"kind": "elementwise", "dtype": "bf16", "nbytes": 2 * values * tokens * width}
                cells["engine"] = "pytorch-compile" if is_compiled else "pytorch-eager"
                how = "compiled" if is_compiled else "separate operations"
                cells["note"] = f"{operation.__name__} of {tokens} x {width}, {how}; nbytes are those of one fused pass"
                size_of = {"tokens": tokens, "width": width}
                yield Case(cells, bind(elementwise, operation=operation, **size_of, compiled=is_compiled))


def amounts(cells: dict[str, Any]) -> tuple[float, float]:
    """Arithmetic [FLOP] and least traffic [B] of a kernel, to print the rates beside its time."""
    if cells["kind"] == "gemm":
        m, n, k = cells["m"], cells["n"], cells["k"]
        stored = 2 if cells["dtype"] == "bf16" else 1
        return 2.0 * m * n * k, stored * (n * k + m * k) + 2.0 * m * n
    if cells["kind"].startswith("attention"):
        batch, seq, heads, kv_heads, dim = (cells[key] for key in ("batch", "seq", "heads", "kv_heads", "head_dim"))
        is_prefill = cells["kind"] == "attention_prefill"
        new, pairs = (seq, seq * (seq + 1) / 2) if is_prefill else (1, seq)
        return 4.0 * batch * heads * dim * pairs, 4.0 * batch * dim * (new * heads + seq * kv_heads)
    return 0.0, cells["nbytes"]


class Decoder:
    """A Llama of random weights, from plain torch operations: how long it takes does not depend on what it says."""

    def __init__(self, bench: Bench, shape: Llama) -> None:
        self.bench, self.shape = bench, shape
        hidden, out = shape.hidden, shape.heads * shape.head_dim
        qkv = out + 2 * shape.kv_heads * shape.head_dim
        matrices = ((qkv, hidden), (hidden, out), (2 * shape.width, hidden), (hidden, shape.width))
        tables = 1 if shape.tied else 2
        bench.require(2 * (shape.layers * sum(n * k for n, k in matrices) + tables * shape.vocab * hidden))
        self.layers = [[bench.random(n, k).mul_(0.02) for n, k in matrices] for _ in range(shape.layers)]
        self.norms = [bench.random(hidden) for _ in range(2 * shape.layers + 1)]
        self.embedding = bench.random(shape.vocab, hidden)
        self.head = self.embedding if shape.tied else bench.random(shape.vocab, hidden)

    def reserve(self, batch: int, length: int) -> None:
        """Lay out the static KV cache, filled at random, and the angles of the positions."""
        shape, half = self.shape, self.shape.head_dim // 2
        self.cache: Any = None  # the last one makes room
        self.bench.require(4 * shape.layers * batch * shape.kv_heads * length * shape.head_dim)
        self.cache = self.bench.random(shape.layers, 2, batch, shape.kv_heads, length, shape.head_dim)
        speeds = 500000.0 ** (-torch.arange(half, device=self.bench.device) / half)
        angles = torch.outer(torch.arange(length, device=self.bench.device), speeds)
        self.cos = torch.cat((angles.cos(), angles.cos()), -1).bfloat16()
        self.sin = torch.cat((-angles.sin(), angles.sin()), -1).bfloat16()
        self.token = torch.zeros(batch, 1, dtype=torch.long, device=self.bench.device)

    def advance(self, tokens: torch.Tensor, start: int) -> None:
        """Run tokens[batch, new] at positions from `start` on and put the most likely next one into `self.token`."""
        shape, (batch, new) = self.shape, tokens.shape
        heads, kv_heads, dim, end = shape.heads, shape.kv_heads, shape.head_dim, start + new
        cos, sin = self.cos[start:end], self.sin[start:end]
        stream = self.embedding[tokens]
        for layer, (qkv, out, gate_up, down) in enumerate(self.layers):
            keys, values = self.cache[layer]
            x = functional.rms_norm(stream, (shape.hidden,), self.norms[2 * layer])
            x = functional.linear(x, qkv).view(batch, new, heads + 2 * kv_heads, dim).transpose(1, 2)
            qk, v = x.split((heads + kv_heads, kv_heads), 1)
            q, k = torch.addcmul(qk * cos, qk.roll(dim // 2, -1), sin).split((heads, kv_heads), 1)  # rotated
            keys[:, :, start:end], values[:, :, start:end] = k, v
            x = attend(q, keys[:, :, :end], values[:, :, :end]).transpose(1, 2).reshape(batch, new, heads * dim)
            stream = stream + functional.linear(x, out)
            x = functional.rms_norm(stream, (shape.hidden,), self.norms[2 * layer + 1])
            stream = stream + functional.linear(silu_up(*functional.linear(x, gate_up).chunk(2, -1)), down)
        last = functional.rms_norm(stream[:, -1], (shape.hidden,), self.norms[-1])
        self.token.copy_(functional.linear(last, self.head).argmax(-1, keepdim=True))

    def latencies(self, batch: int, isl: int, osl: int, graph: bool) -> dict[str, Any]:
        """TTFT and TPOT [ms]: a prefill on an idle device, and decode steps at the mean KV length, isl + osl / 2."""
        self.reserve(batch, isl + osl)
        prompt = torch.randint(self.shape.vocab, (batch, isl), device=self.bench.device)
        middle = isl + osl // 2 - 1  # position of the token of the middle step
        first = self.bench.timing([lambda: self.advance(prompt, 0)], graph, inner=1, apart=True)
        step = self.bench.timing([lambda: self.advance(self.token, middle)], graph, inner=min(16, osl - 1))
        if graph and (first.note or step.note):
            raise Skipped(first.note or step.note)
        return {"ttft_ms": f"{first.seconds * 1e3:.5g}", "tpot_ms": f"{step.seconds * 1e3:.5g}"}


def record(table: Table, bench: Bench, label: str, measure: Callable[[], tuple[dict[str, Any], str]]) -> None:
    """Measure one row and write it at once; what cannot be measured is skipped with the reason."""
    skipped = ""
    try:
        cells, words = measure()
    except (Skipped, RuntimeError) as reason:  # out of memory is a RuntimeError, and so is a shape without a kernel
        skipped = (str(reason) or type(reason).__name__).splitlines()[0]
    if skipped:  # outside of `except`, where the traceback still holds the tensors
        table.comment(f"skipped {label}: {skipped}")
        if bench.on_gpu:
            torch.cuda.synchronize()  # a device that is broken raises here, too, and ends the run
    else:
        table.add(cells)
    print(f"{label:84} {f'skipped: {skipped}' if skipped else words}", flush=True)


def measure_kernels(bench: Bench, table: Table, todo: Iterator[Case]) -> None:
    """The rows of the kernels' CSV that one GPU gives."""

    def measure(case: Case) -> tuple[dict[str, Any], str]:
        taken = bench.timing(case.build(bench))
        flop, nbytes = amounts(case.cells)
        which = f"attention: {bench.attention}" if case.cells["kind"].startswith("attention") else ""
        notes = "; ".join(note for note in (case.cells.get("note"), which, taken.note) if note)
        cells = {**case.cells, "latency_us": f"{taken.seconds * 1e6:.5g}", "clock_mhz": taken.clock, "note": notes}
        rates = f"{flop / taken.seconds / 1e12:7.1f} TFLOP/s {nbytes / taken.seconds / 1e12:6.3f} TB/s"
        return cells, f"{taken.seconds * 1e6:10.2f} us {rates}"

    for case in todo:
        if bench.fp8 is not None or not case.cells["dtype"].startswith("fp8"):
            shape = (f"{key} {value}" for key, value in case.cells.items() if isinstance(value, int))
            label = f"{case.cells['kind']} {case.cells['dtype']} {' '.join(shape)}"
            record(table, bench, label, functools.partial(measure, case))


def measure_passes(bench: Bench, table: Table, size: str, models: list[str]) -> None:
    """The rows of the passes' CSV: the host launches every operation (eager), or the GPU replays them all (graph)."""
    decoders: dict[str, Decoder] = {}

    def measure(cells: dict[str, Any]) -> tuple[dict[str, Any], str]:
        name = cells["model"]
        if name not in decoders:
            decoders.clear()  # the last model's weights make room
            decoders[name] = Decoder(bench, MODELS[name] if size != "tiny" else TINY)
        is_graph = cells["engine"] == "pytorch-graph"
        taken = decoders[name].latencies(cells["batch"], cells["isl"], cells["osl"], is_graph)
        return {**cells, **taken}, f"TTFT {taken['ttft_ms']} ms, TPOT {taken['tpot_ms']} ms"

    engines = list(ENGINES) if bench.on_gpu else ["pytorch-eager"]
    for name, (batch, isl, osl), engine in itertools.product(models, SHAPES[size]["passes"], engines):
        cells = {"model": name, "engine": engine, "isl": isl, "osl": osl, "batch": batch}
        cells["note"] = f"random weights; {ENGINES[engine]}; attention: {bench.attention}"
        label = f"{name} {engine} batch {batch} isl {isl} osl {osl}"
        record(table, bench, label, functools.partial(measure, cells))


def measure_collectives(bench: Bench, table: Table | None, size: str) -> None:
    """Collectives between the ranks that torchrun started; the slowest rank's time counts, rank 0 writes.

    nbytes is the tensor that every rank holds in the end: summed, or gathered from a shard of each.
    """
    link = torch.distributed
    link.init_process_group("nccl" if bench.on_gpu else "gloo")
    ranks = link.get_world_size()
    gather = getattr(link, "all_gather_single", None) or link.all_gather_into_tensor  # the new name and the old one
    for kind, nbytes in itertools.product(("all_reduce", "all_gather"), SHAPES[size]["collectives"]):
        shard = max(nbytes // (2 * ranks), 1)
        # Zeros, for once: they stay what they are under sums, and links do not care.
        whole = torch.zeros(ranks * shard, device=bench.device, dtype=torch.bfloat16)
        call = functools.partial(link.all_reduce, whole)
        if kind == "all_gather":
            call = functools.partial(gather, whole, whole[:shard].clone())
        taken = bench.timing([call], inner=20, repeats=20)  # as many on every rank: they wait for each other
        slowest = torch.tensor([taken.seconds], device=bench.device)
        link.all_reduce(slowest, op=link.ReduceOp.MAX)
        if table is not None:
            cells = {"kind": kind, "dtype": "bf16", "ranks": ranks, "nbytes": 2 * ranks * shard, "note": taken.note}
            table.add({**cells, "latency_us": f"{slowest.item() * 1e6:.5g}", "clock_mhz": taken.clock})
            print(f"{kind} ranks {ranks} nbytes {2 * ranks * shard:10} {slowest.item() * 1e6:10.2f} us", flush=True)
    link.destroy_process_group()


def forced_attention(bench: Bench, name: str) -> Any:
    """The context that makes PyTorch use one attention kernel, where it runs here; else any, which is said."""
    from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: PLC0415  # only with torch

    backend = SDPBackend.CUDNN_ATTENTION if name == "cudnn" else SDPBackend.FLASH_ATTENTION
    try:
        with warnings.catch_warnings(), sdpa_kernel([backend]):
            warnings.simplefilter("ignore")
            for new in (128, 1):
                attention(bench, new, 1, 128, 8, 2, 128)[0]()
    except RuntimeError:
        bench.attention = f"PyTorch's own choice, as {name} does not run here"
        return contextlib.nullcontext()
    bench.attention = name
    return sdpa_kernel([backend])


def description(bench: Bench) -> list[str]:
    """The lines above the tables: what was measured, with what, at which clocks."""
    lines = [f"by examples/measure_gpu.py, {time.strftime('%Y-%m-%d %H:%M:%S %z')}"]
    if bench.on_gpu:
        seen, x, until = torch.cuda.get_device_properties(bench.device), bench.random(8192, 8192), time.monotonic() + 1
        while time.monotonic() < until:  # a second of work, and the clocks have settled
            torch.cuda.synchronize()
            for _ in range(5):
                x @ x
        cache = getattr(seen, "L2_cache_size", 0)
        lines.append(f"{seen.name}, {seen.total_memory / 2**30:.1f} GiB, L2 {cache / 2**20:.0f} MiB")
        lines.append(bench.driver.summary())
        torch.cuda.synchronize()
    else:
        lines.append("a trial of the script on a CPU, with tiny shapes: no measurement")
    if bench.fp8 is None:
        lines.append("this GPU does not multiply FP8: no such rows")
    libraries = f"CUDA {torch.version.cuda}, HIP {torch.version.hip}, cuDNN {torch.backends.cudnn.version()}"
    lines.append(f"torch {torch.__version__}, {libraries}, Python {sys.version.split()[0]}")
    return [*lines, f"attention: {bench.attention}"]


def options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""

    def some_of(known: Iterable[str], text: str) -> list[str]:
        if unknown := set(text.split(",")).difference(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(known)}")
        return text.split(",")

    parser = argparse.ArgumentParser(description="Measure the GPU of this machine.")
    parser.add_argument("--gpu", metavar="NAME", help="name in the catalog (roofline gpus); guessed if left out")
    parser.add_argument("--kernels", type=Path, default=Path("kernels.csv"), help="default: %(default)s")
    parser.add_argument("--passes", type=Path, default=Path("passes.csv"), help="default: %(default)s")
    parser.add_argument("--force", action="store_true", help="overwrite these files")
    parser.add_argument("--quick", action="store_true", help="fewer shapes and repeats: about a minute")
    for option, known in (("--only", SECTIONS), ("--model", MODELS)):
        names = functools.partial(some_of, known)
        parser.add_argument(option, type=names, default=list(known), metavar="NAMES", help=f"of {','.join(known)}")
    parser.add_argument("--attention", default="flash", choices=("flash", "cudnn"), help="default: %(default)s")
    parser.add_argument("--compile", action="store_true", help="element-wise passes compiled, too")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ...; cpu tries the script out, on tiny shapes")
    return parser.parse_args(arguments)


def what_is_missing(device: str) -> str:
    """Why nothing can be measured here; empty if it can."""
    if torch is None:
        return f"PyTorch ({why_not}). Install a build with CUDA or ROCm: https://pytorch.org/get-started/locally/"
    if not hasattr(functional, "rms_norm"):
        return f"PyTorch 2.4 or newer (this is {torch.__version__})"
    if not device.startswith("cpu") and not torch.cuda.is_available():
        return f"a GPU that PyTorch {torch.__version__} can use (torch.cuda.is_available() says no)"
    return ""


def plan(args: argparse.Namespace, size: str) -> str:
    """What a run would measure, in words."""
    lines = [f"On a GPU this script measures, into {args.kernels} and {args.passes}:"]
    for section in args.only:
        found = [f"{case.cells['kind']} {case.cells['dtype']}" for case in cases(section, size, args.compile)]
        if section == "passes":
            found = [f"{name} {engine}" for name in args.model for engine in ENGINES for _ in SHAPES[size]["passes"]]
        lines.append(f"  {section:12} {len(found):4} rows: {', '.join(dict.fromkeys(found))}")
    return "\n".join([*lines, "Under torchrun, instead: all_reduce and all_gather between its GPUs."])


def catalog_name(told: str) -> str:
    """The catalog's name of the GPU that PyTorch calls so."""
    name = GPU_NAMES.get(told.removeprefix("NVIDIA ").removeprefix("AMD "))
    if name is None:
        raise SystemExit(f"'{told}' is not in the table of this script: say its name in the catalog with --gpu NAME")
    return name


def refuse(paths: list[Path], force: bool) -> None:
    """Stop before anything is measured where a file would be lost."""
    if len(set(paths)) < len(paths):
        raise SystemExit(f"{paths[0]} cannot hold both tables: name two files with --kernels and --passes")
    for path in paths:
        if path.exists() and not force:
            raise SystemExit(f"{path} exists: name another file with --kernels or --passes, or overwrite with --force")


def main(arguments: list[str] | None = None) -> int:
    """Measure and write; 0 also where there is nothing to measure on, which is said."""
    args = options(arguments)
    size = "tiny" if args.device.startswith("cpu") else "quick" if args.quick else "whole"
    if missing := what_is_missing(args.device):
        print(f"{plan(args, size)}\n\nMissing: {missing}")
        return 0
    rank, ranks = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1")))
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if ranks > 1 and size != "tiny" else args.device
    sections = [name for name in args.only if name != "passes"]
    files = {"kernels": args.kernels} if sections or ranks > 1 else {}
    if ranks == 1 and "passes" in args.only:
        files["passes"] = args.passes
    if rank == 0:
        refuse(list(files.values()), args.force)
    gc.freeze()  # PyTorch collects garbage before it captures a graph: not through all that the imports left, each time
    with torch.no_grad(), contextlib.ExitStack() as stack:
        try:
            bench = Bench(device, budget=0.2 if size == "whole" else 0.05)
            gpu = args.gpu or (catalog_name(torch.cuda.get_device_name(bench.device)) if bench.on_gpu else "cpu")
            forced = forced_attention(bench, args.attention)
            header = description(bench)
        except RuntimeError as reason:
            raise SystemExit(f"{device} cannot be used: {str(reason).splitlines()[0]}") from None
        common = {"gpu": gpu, "engine": "pytorch", "engine_version": torch.__version__}
        common["date"] = time.strftime("%Y-%m-%d")
        more: dict[str, Any] = dict.fromkeys(("tp", "pp", "ep", "dp"), 1)
        more |= {"kv_cache_dtype": "bf16", "prefix": 0, "statistic": "median", "source": "examples/measure_gpu.py"}
        tables = {}
        for kind, path in files.items() if rank == 0 else ():
            tables[kind] = Table(path, COLUMNS[kind], header, {**common, **(more if kind == "passes" else {})})
            stack.callback(tables[kind].file.close)
        names = " and ".join(map(str, files.values()))
        try:
            if ranks > 1:
                measure_collectives(bench, tables.get("kernels"), size)
            else:
                stack.enter_context(forced)
                if "kernels" in tables:
                    todo = (case for section in sections for case in cases(section, size, args.compile))
                    measure_kernels(bench, tables["kernels"], todo)
                if "passes" in tables:
                    measure_passes(bench, tables["passes"], size, args.model)
        except (KeyboardInterrupt, RuntimeError) as reason:
            print(f"stopped ({str(reason) or 'interrupted'}); what was measured is in {names}", file=sys.stderr)
            return 1
    if rank == 0:
        print(f"written: {names}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
