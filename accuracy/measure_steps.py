"""Measure steps of an engine on the GPU of this machine: what `rl.step_time` predicts, and its parts.

    pip install torch triton tokenspeed-fa3          # FlashAttention 3; the GPU is an H100 or H200
    python accuracy/measure_steps.py -o steps.csv    # 8 minutes on an H100 of 80 GB
    TRITON_INTERPRET=1 python accuracy/measure_steps.py --device cpu -o trial.csv      # tries the script out, tiny

A step decodes some sequences, computes chunks of prompts, or both, as vLLM composes it: one product per matrix for all
tokens, one attention call for all sequences over a cache in pages of 16 tokens, fused norms, activations and rotary
embeddings. Weights, caches and prompts are random, pages are scattered, and every layer has weights of its own, which
therefore come from HBM. Each step is replayed as one CUDA graph, so no host time is in it: compare with `engine="none"`.

Columns: `us` is the median over the replays [us], `low` and `high` the 10th and 90th percentile. `gemm`, `attention` and
`rest` are the same for graphs of these kernels alone [us]. `attention_apart` has sequences and chunks in two attention
calls, `attention_ragged` chunks without a cache straight from the projections, without pages. `clock_mhz` and `watts` are
means over the replays of the whole step, as the driver reports them. Nothing is set on the GPU.
"""

# ruff: noqa: N803 - constants of Triton kernels are in capitals, as everywhere

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import itertools
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

PAGE = 16  # tokens, the default of vLLM
LEAST_WARM, LEAST_TIMED = 0.1, 0.25  # seconds of replays of a whole step
REPLAYS = 10  # at least
ALL = frozenset({"gemm", "attention", "rest"})


class Shape(NamedTuple):
    """A dense decoder."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    width: int
    vocab: int
    head_norm: bool = False  # of queries and keys
    dim: int = 128


SHAPES = {
    "llama-3.1-8b": Shape(4096, 32, 32, 8, 14336, 128256),
    "qwen3-32b": Shape(5120, 12, 64, 8, 25600, 151936, head_norm=True),  # 12 of its 64 layers
    "tiny": Shape(128, 1, 4, 2, 128, 64, dim=32),
    "tiny-qwen": Shape(128, 2, 8, 2, 256, 512, head_norm=True, dim=32),
}


class Case(NamedTuple):
    """A step: cached tokens of each sequence that decodes, and chunks of prompts as (new, cached) tokens."""

    decode: tuple[int, ...] = ()
    prefill: tuple[tuple[int, int], ...] = ()

    @property
    def kind(self) -> str:
        return "mixed" if self.decode and self.prefill else "decode" if self.decode else "prefill"

    @property
    def held(self) -> int:
        """Tokens of the cache, in whole pages."""
        lengths = [context + 1 for context in self.decode] + [new + cached for new, cached in self.prefill]
        return sum(-(-length // PAGE) * PAGE for length in lengths)


# Kernels that engines fuse


@triton.jit
def _norm(x, residual, weight, out, size, scale, ADD: tl.constexpr, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = columns < size
    value = tl.load(x + row * size + columns, inside, 0.0).to(tl.float32)
    if ADD:
        value += tl.load(residual + row * size + columns, inside, 0.0).to(tl.float32)
    tl.store(residual + row * size + columns, value.to(residual.dtype.element_ty), inside)
    value *= tl.rsqrt(tl.sum(value * value, 0) / size + 1e-5)
    value *= tl.load(weight + columns, inside, 0.0).to(tl.float32) * scale
    tl.store(out + row * size + columns, value.to(out.dtype.element_ty), inside)


@triton.jit
def _activate(x, out, width, scale, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < width
    gate = tl.load(x + 2 * row * width + columns, inside, 0.0).to(tl.float32)
    up = tl.load(x + (2 * row + 1) * width + columns, inside, 0.0).to(tl.float32)
    value = gate / (1.0 + tl.exp(-gate)) * up * scale
    tl.store(out + row * width + columns, value.to(out.dtype.element_ty), inside)


@triton.jit
def _quantise(x, out, size, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, at < size, 0.0).to(tl.float32) * scale
    tl.store(out + at, value.to(out.dtype.element_ty), at < size)


@triton.jit
def _rotated(at, cos, sin, HALF: tl.constexpr, NORM: tl.constexpr):
    x, y = tl.load(at).to(tl.float32), tl.load(at + HALF).to(tl.float32)
    if NORM:
        scale = tl.rsqrt((tl.sum(x * x, 1) + tl.sum(y * y, 1)) / (2 * HALF) + 1e-6)[:, None]
        x, y = x * scale, y * scale
    return x * cos - y * sin, y * cos + x * sin


@triton.jit
def _rope_append(
    qkv, cosines, sines, positions, slots, keys, values,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    token, half = tl.program_id(0).to(tl.int64), tl.arange(0, HALF)[None, :]
    position, slot = tl.load(positions + token), tl.load(slots + token)
    cos, sin = tl.load(cosines + position * HALF + half), tl.load(sines + position * HALF + half)
    q = qkv + token * (HEADS + 2 * KV_HEADS) * 2 * HALF + tl.arange(0, HEADS)[:, None] * 2 * HALF + half
    x, y = _rotated(q, cos, sin, HALF, NORM)
    tl.store(q, x.to(qkv.dtype.element_ty))
    tl.store(q + HALF, y.to(qkv.dtype.element_ty))
    heads = tl.arange(0, KV_HEADS)[:, None] * 2 * HALF + half
    k = qkv + (token * (HEADS + 2 * KV_HEADS) + HEADS) * 2 * HALF + heads
    x, y = _rotated(k, cos, sin, HALF, NORM)
    to = slot * KV_HEADS * 2 * HALF + heads
    tl.store(keys + to, x.to(keys.dtype.element_ty))
    tl.store(keys + to + HALF, y.to(keys.dtype.element_ty))
    v = k + KV_HEADS * 2 * HALF
    tl.store(values + to, tl.load(v))
    tl.store(values + to + HALF, tl.load(v + HALF))


class Call(NamedTuple):
    """One attention call: tokens from `first` on, of sequences whose pages are in a table."""

    first: int
    tokens: int
    starts: torch.Tensor  # of each sequence's tokens among the call's, and their end
    lengths: torch.Tensor  # tokens of each sequence in the cache, these included
    table: torch.Tensor | None  # pages of each sequence; None: keys and values as projected
    most_new: int
    most_cached: int
    plan: torch.Tensor | None  # of FlashAttention's scheduler, made once a step, as vLLM does


class Step:
    """The tensors of a case."""

    def __init__(self, bench: Bench, shape: Shape, case: Case, pool: int) -> None:
        device = bench.device
        new = [1] * len(case.decode) + [chunk for chunk, _ in case.prefill]
        cached = [*case.decode, *(before for _, before in case.prefill)]
        self.bench, self.shape, self.tokens, self.sequences = bench, shape, sum(new), len(new)
        pages = torch.randperm(pool, generator=torch.Generator().manual_seed(0))
        needed = [-(-(a + b) // PAGE) for a, b in zip(new, cached, strict=True)]
        table, used = torch.zeros(len(new), max(needed), dtype=torch.long), 0
        for row, count in enumerate(needed):
            table[row, :count] = pages[used : used + count]
            used += count
        at = [torch.arange(before, before + count) for count, before in zip(new, cached, strict=True)]
        slots = torch.cat([table[row, position // PAGE] * PAGE + position % PAGE for row, position in enumerate(at)])
        self.positions, self.slots = torch.cat(at).to(device), slots.to(device)
        self.last = (torch.tensor(new).cumsum(0) - 1).to(device)
        self.ids = torch.randint(shape.vocab, (self.tokens,), device=device)
        self.new, self.cached, self.table = new, cached, table
        self.together = [self.call(0, len(new))]
        count = len(case.decode)
        self.apart = [self.call(0, count), self.call(count, len(new))] if case.kind == "mixed" else self.together
        ragged = case.prefill and not any(before for _, before in case.prefill)
        self.ragged = [self.call(count, len(new), paged=False)] if ragged else None

    def call(self, first: int, end: int, paged: bool = True) -> Call:
        device, new = self.bench.device, self.new[first:end]
        lengths = [a + b for a, b in zip(new, self.cached[first:end], strict=True)]
        starts = torch.tensor([0, *itertools.accumulate(new)], dtype=torch.int32, device=device)
        held = torch.tensor(lengths, dtype=torch.int32, device=device)
        table = self.table[first:end, : -(-max(lengths) // PAGE)].int().contiguous().to(device) if paged else None
        plan = None
        most = max(lengths) if table is None else table.shape[1] * PAGE
        if self.bench.plans and paged:
            plan = torch.ops.flash_attn_3.get_scheduler_metadata(
                len(new), max(new), most, self.shape.heads, self.shape.kv_heads, self.shape.dim,
                self.shape.dim, torch.bfloat16, held, cu_seqlens_q=starts, page_size=PAGE, is_causal=True,
            )  # fmt: skip
        return Call(sum(self.new[:first]), sum(new), starts, held, table, max(new), most, plan)


class Decoder:
    """A decoder of random weights; each step runs in buffers that all share."""

    def __init__(self, bench: Bench, shape: Shape, fp8: bool, tokens: int, sequences: int, cache: int) -> None:
        self.bench, self.shape, self.fp8, self.pool = bench, shape, fp8, cache // PAGE
        self.qkv = (shape.heads + 2 * shape.kv_heads) * shape.dim
        self.out = shape.heads * shape.dim
        sizes = ((self.qkv, shape.hidden), (shape.hidden, self.out), (2 * shape.width, shape.hidden))
        sizes = (*sizes, (shape.hidden, shape.width))
        self.weights = [[self.weight(n, k) for n, k in sizes] for _ in range(shape.layers)]
        self.norms = [bench.random(shape.hidden) for _ in range(2 * shape.layers + 1)]
        self.embedding = bench.random(shape.vocab, shape.hidden)
        self.head = bench.random(shape.vocab, shape.hidden).mul_(0.02)
        self.cache = [[bench.random(self.pool, PAGE, shape.kv_heads, shape.dim) for _ in "kv"] for _ in self.weights]
        angles = torch.outer(
            torch.arange(40_000, device=bench.device),
            500000.0 ** (-torch.arange(shape.dim // 2, device=bench.device) / (shape.dim // 2)),
        )
        self.cos, self.sin = angles.cos(), angles.sin()
        inner = torch.float8_e4m3fn if fp8 else torch.bfloat16
        make = bench.random
        self.residual, self.x = make(tokens, shape.hidden), make(tokens, shape.hidden)
        self.projected, self.mixed = make(tokens, self.qkv), make(tokens, self.out)
        self.gates = make(tokens, 2 * shape.width)
        self.normed = make(tokens, shape.hidden).to(inner)
        self.activated = make(tokens, shape.width).to(inner)
        self.squeezed = make(tokens, self.out).to(inner) if fp8 else self.mixed
        self.logits = make(sequences, shape.vocab)
        self.one = torch.ones((), device=bench.device)
        self.weight_scale = torch.full((), 0.002, device=bench.device)
        self.chosen = torch.zeros(sequences, dtype=torch.long, device=bench.device)

    def weight(self, n: int, k: int) -> torch.Tensor:
        w = self.bench.random(n, k)
        return w.mul_(10).to(torch.float8_e4m3fn) if self.fp8 else w.mul_(0.02)

    def multiply(self, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> None:
        if self.fp8:
            torch._scaled_mm(  # noqa: SLF001  # the one name of it in all versions
                x, weight.t(), scale_a=self.one, scale_b=self.weight_scale, out_dtype=torch.bfloat16,
                use_fast_accum=True, out=out,
            )  # fmt: skip
        else:
            torch.mm(x, weight.t(), out=out)

    def norm(self, x: torch.Tensor, number: int, tokens: int, out: torch.Tensor, *, add: bool = True) -> None:
        size = self.shape.hidden
        block, warps = triton.next_power_of_2(size), 8 if size > 2048 else 4
        _norm[(tokens,)](x, self.residual, self.norms[number], out, size, 1.0, add, block, num_warps=warps)

    def attend(self, layer: int, call: Call) -> None:
        shape, (keys, values) = self.shape, self.cache[layer]
        rows = slice(call.first, call.first + call.tokens)
        heads = self.projected[rows].view(call.tokens, -1, shape.dim)
        q, out = heads[:, : shape.heads], self.mixed[rows].view(call.tokens, shape.heads, shape.dim)
        if call.table is None:
            keys, values = heads[:, shape.heads :].split(shape.kv_heads, 1)
        if not self.bench.on_gpu:
            plain_attention(q, keys, values, call, out)
            return
        ragged = call.table is None
        torch.ops.flash_attn_3.fwd(
            q, keys, values, out=out, cu_seqlens_q=call.starts, cu_seqlens_k=call.starts if ragged else None,
            seqused_k=None if ragged else call.lengths, max_seqlen_q=call.most_new, max_seqlen_k=call.most_cached if ragged else None,
            page_table=call.table, softmax_scale=shape.dim**-0.5, is_causal=True, scheduler_metadata=call.plan,
        )  # fmt: skip

    def run(self, step: Step, calls: list[Call], parts: frozenset[str] = ALL, layers: int | None = None) -> None:
        """Launch the step's kernels of some parts."""
        shape, n = self.shape, step.tokens
        gemm, attention, rest = (part in parts for part in ("gemm", "attention", "rest"))
        x, normed, projected = self.x[:n], self.normed[:n], self.projected[:n]
        final = self.mixed.view(-1)[: n * shape.hidden].view(n, shape.hidden)
        if rest:
            torch.index_select(self.embedding, 0, step.ids, out=x)
        for number, (qkv, o, gate_up, down) in enumerate(self.weights[:layers]):
            if rest:
                self.norm(x, 2 * number, n, normed, add=number > 0)
            if gemm:
                self.multiply(normed, qkv, projected)
            if rest:
                _rope_append[(n,)](
                    projected, self.cos, self.sin, step.positions, step.slots, *self.cache[number],
                    shape.heads, shape.kv_heads, shape.dim // 2, shape.head_norm,
                )  # fmt: skip
            if attention:
                for call in calls:
                    self.attend(number, call)
            if rest and self.fp8:
                _quantise[(triton.cdiv(n * self.out, 4096),)](self.mixed, self.squeezed, n * self.out, 1.0, 4096)
            if gemm:
                self.multiply(self.squeezed[:n], o, x)
            if rest:
                self.norm(x, 2 * number + 1, n, normed)
            if gemm:
                self.multiply(normed, gate_up, self.gates[:n])
            if rest:
                _activate[(n, triton.cdiv(shape.width, 2048))](self.gates, self.activated, shape.width, 1.0, 2048)
            if gemm:
                self.multiply(self.activated[:n], down, x)
        if rest:
            self.norm(x, -1, n, final)
        last = final[step.last]
        if gemm:
            torch.mm(last, self.head.t(), out=self.logits[: step.sequences])
        if rest:
            torch.argmax(self.logits[: step.sequences].float(), -1, out=self.chosen[: step.sequences])


def plain_attention(q: Any, keys: Any, values: Any, call: Call, out: Any) -> None:
    """The same in plain operations, to check against."""
    for row, (first, end) in enumerate(itertools.pairwise(call.starts.tolist())):
        length = int(call.lengths[row])
        if call.table is None:
            k, v = keys[first:end], values[first:end]
        else:
            pages = call.table[row, : -(-length // PAGE)].long()
            k, v = (cache[pages].flatten(0, 1)[:length] for cache in (keys, values))
        group = q.shape[1] // k.shape[1]
        k, v = (x.float().repeat_interleave(group, 1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q[first:end].float(), k) * q.shape[2] ** -0.5
        seen = (
            torch.arange(length, device=q.device)
            <= torch.arange(length - (end - first), length, device=q.device)[:, None]
        )
        scores = scores.masked_fill(~seen, -math.inf).softmax(-1)
        out[first:end] = torch.einsum("hqk,khd->qhd", scores, v).to(out.dtype)


def plain_layer(decoder: Decoder, step: Step, number: int) -> torch.Tensor:
    """What the first layer leaves in `x`, from plain operations in 32 bits."""
    shape, call = decoder.shape, step.together[0]
    qkv, o, gate_up, down = (w.float() * (0.002 if decoder.fp8 else 1.0) for w in decoder.weights[number])
    stream = decoder.embedding[step.ids].float()

    def norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        return x if weight is None else x * weight.float()

    def stored(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).float() if decoder.fp8 else x

    heads = (stored(norm(stream, decoder.norms[0], 1e-5)) @ qkv.t()).view(step.tokens, -1, shape.dim)
    q, k, v = heads.split((shape.heads, shape.kv_heads, shape.kv_heads), 1)
    cos, sin = (table[step.positions][:, None] for table in (decoder.cos, decoder.sin))

    def rotated(x: torch.Tensor) -> torch.Tensor:
        a, b = (norm(x, None, 1e-6) if shape.head_norm else x).chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    keys, values = (cache.flatten(0, 1).float() for cache in decoder.cache[number])
    keys[step.slots], values[step.slots] = rotated(k), v
    out = torch.empty_like(q)
    paged = (-1, PAGE, shape.kv_heads, shape.dim)
    plain_attention(rotated(q), keys.view(paged), values.view(paged), call, out)
    stream = stream + stored(out.flatten(1)) @ o.t()
    gate, up = (stored(norm(stream, decoder.norms[1], 1e-5)) @ gate_up.t()).chunk(2, -1)
    return stored(torch.nn.functional.silu(gate) * up) @ down.t()


def check(bench: Bench, shape: Shape, fp8: bool) -> float:
    """Relative error of one layer against plain operations, the worst of both ways to call attention, twice each [1]."""
    case = Case((100, 31, 32, 700), ((64, 0), (40, 90)))
    decoder = Decoder(bench, shape._replace(layers=1), fp8, 256, 8, 4096)
    errors: list[float] = []
    for planned in (True, False) if bench.on_gpu else (False,):
        bench.plans = planned
        step = Step(bench, decoder.shape, case, decoder.pool)
        wanted, errors = plain_layer(decoder, step, 0), []
        for calls in (step.together, step.apart) * 2:  # a plan serves all layers of a step, so it must do so twice
            decoder.mixed.fill_(math.nan)
            decoder.run(step, calls)
            errors.append(float((decoder.x[: step.tokens].float() - wanted).norm() / wanted.norm()))
        print(f"first layer, scheduler {'planned ahead' if planned else 'in each call'}: off by {errors}", flush=True)
        if all(error < (0.06 if fp8 else 0.02) for error in errors):
            return max(errors)
    raise RuntimeError(f"the first layer is off by {max(errors):.3g}: nothing measured")


class Bench:
    """The device and its driver."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.on_gpu = self.device.type == "cuda"
        self.handle, self.nvml = ctypes.c_void_p(), None
        self.plans = self.on_gpu  # whether FlashAttention's scheduler runs once a step
        if self.on_gpu:
            try:
                self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
                self.nvml.nvmlInit_v2()
                self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle))
            except OSError:
                self.nvml = None

    def random(self, *shape: int) -> torch.Tensor:
        """A bf16 tensor of normal deviates."""
        return torch.empty(shape, device=self.device, dtype=torch.bfloat16).normal_()

    def figure(self, question: str, *which: int) -> int:
        answer = ctypes.c_uint()
        if self.nvml is None or getattr(self.nvml, question)(self.handle, *which, ctypes.byref(answer)):
            return 0
        return answer.value

    def sampled(self, work: Callable[[], Any]) -> tuple[Any, float, float]:
        """What `work` returns, with mean SM clock [MHz] and power [W] meanwhile."""
        seen: list[tuple[int, int]] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.01):
                seen.append((self.figure("nvmlDeviceGetClockInfo", 1), self.figure("nvmlDeviceGetPowerUsage")))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            result = work()
        finally:
            done.set()
            watcher.join()
        half = seen[len(seen) // 2 :] or [(0, 0)]  # the driver's power lags
        return result, statistics.mean(c for c, _ in half), statistics.mean(p for _, p in half) / 1000

    def captured(self, launch: Callable[[], None]) -> Callable[[], Any]:
        if not self.on_gpu:
            return launch
        launch()  # kernels compile, libraries load
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            launch()
        return graph.replay

    def spans(self, run: Callable[[], Any], count: int) -> list[float]:
        """Times of so many replays, one right after the other [us]."""
        if not self.on_gpu:
            ticks = [time.perf_counter(), *((run(), time.perf_counter())[1] for _ in range(count))]
            return [1e6 * (after - before) for before, after in itertools.pairwise(ticks)]
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        events[0].record()
        for event in events[1:]:
            run()
            event.record()
        torch.cuda.synchronize()
        return [1e3 * before.elapsed_time(after) for before, after in itertools.pairwise(events)]

    def rested(self, run: Callable[[], Any], count: int = 5) -> float:
        """Median time of a replay on a GPU that did nothing for a tenth of a second, so neither hot nor throttled [us]."""
        times = []
        for _ in range(count):
            time.sleep(0.1)
            if self.on_gpu:
                torch.cuda._sleep(1_000_000)  # noqa: SLF001  # half a millisecond, in which the replay is queued
            times += self.spans(run, 1)
        return statistics.median(times)

    def median(self, launch: Callable[[], None]) -> float:
        """Of the replays after three for warming up [us]."""
        run = self.captured(launch)
        self.spans(run, 3)
        return statistics.median(self.spans(run, REPLAYS))


def whole(bench: Bench, run: Callable[[], Any]) -> dict[str, Any]:
    """The figures of replays of a whole step."""
    once = statistics.median(bench.spans(run, 3)) / 1e6
    warm, timed = (math.ceil(seconds / once) if bench.on_gpu else 1 for seconds in (LEAST_WARM, LEAST_TIMED))
    bench.spans(run, warm)
    spans, clock, power = bench.sampled(lambda: bench.spans(run, max(REPLAYS, timed)))
    tenths = statistics.quantiles(spans, n=10)
    row: dict[str, Any] = {"us": statistics.median(spans), "low": tenths[0], "high": tenths[-1]}
    return {**row, "rested": bench.rested(run), "replays": len(spans), "clock_mhz": clock, "watts": power}


def measured(bench: Bench, decoder: Decoder, case: Case) -> dict[str, Any]:
    """The figures of a row."""
    step = Step(bench, decoder.shape, case, decoder.pool)
    row = whole(bench, bench.captured(lambda: decoder.run(step, step.together)))
    for part in sorted(ALL):
        row[part] = bench.median(lambda part=part: decoder.run(step, step.together, frozenset({part})))
    if case.kind == "mixed":
        row["attention_apart"] = bench.median(lambda: decoder.run(step, step.apart, frozenset({"attention"})))
    if step.ragged:
        row["attention_ragged"] = bench.median(lambda: decoder.run(step, step.ragged, frozenset({"attention"})))
    return {key: f"{value:.5g}" for key, value in row.items()}


def cases(cache: int, only: list[str]) -> Iterator[tuple[str, bool, Case]]:
    """Model, whether its matrices are FP8, and step, of some sections."""
    powers = [2**power for power in range(4, 14)]

    def decodes(batches: list[int], contexts: list[int]) -> Iterator[Case]:
        steps = (Case((context,) * batch) for batch in batches for context in contexts)
        return (step for step in steps if step.held <= cache)

    def mixes(states: list[tuple[int, int]], chunks: list[int], cached: int = 0, times: int = 1) -> Iterator[Case]:
        return (Case((context,) * batch, ((new, cached),) * times) for batch, context in states for new in chunks)

    def prompts(*chunks: tuple[int, int, int]) -> Iterator[Case]:
        return (Case((), ((new, before),) * times) for times, new, before in chunks)

    fewer = [
        *decodes([1, 8, 32, 128, 256], [128, 1024, 8192]),
        *prompts(*((1, new, 0) for new in (64, 256, 1024, 4096, 16384))),
        *mixes([(32, 1024), (128, 2048)], [32, 128, 512, 1024, 2048, 8192]),
    ]
    sections = {
        "steps": ("llama-3.1-8b", False, [
            *decodes([1, 4, 16, 64, 256], [128, 1024, 4096, 16384, 32700]),
            *mixes([(32, 1024), (128, 2048)], powers),
            *prompts(*((1, new, 0) for new in (*powers, 16384))),
            *decodes([2, 8, 32, 128], [128, 1024, 4096, 16384, 32700]),
            *mixes([(8, 1024), (8, 16384), (32, 8192), (256, 1024)], [16, 64, 256, 1024, 4096, 8192]),
            *(Case((1024,) * batch, ((budget - batch, 0),)) for batch in (32, 256) for budget in (512, 2048, 8192)),
            *mixes([(32, 4096)], [128, 512, 2048], 8192),
            *prompts((1, 2048, 8192), (1, 512, 4096), (1, 512, 16384), (1, 128, 30000)),
            *prompts((4, 512, 0), (8, 1024, 0), (16, 128, 0)),
            Case((2048,) * 32, ((512, 0),) * 4), Case((2048,) * 64, ((128, 0),) * 16),
            Case(tuple(round(256 * 64 ** (number / 31)) for number in range(32))),
            Case((*(512,) * 56, *(16384,) * 8)),
        ]),
        "fp8": ("llama-3.1-8b", True, fewer),
        "qwen": ("qwen3-32b", False, fewer),
        "details": ("llama-3.1-8b", False, [
            *decodes([1, 32, 256], [1024]), *prompts((1, 512, 0), (1, 2048, 0), (1, 8192, 0)),
            *mixes([(32, 1024)], [512, 2048, 8192]),
            *mixes([(32, 1024)], [96, 160, 192, 224, 288, 320, 352, 384, 448, 608, 736, 864, 992, 1504]),
            *prompts(*((1, new, before) for before in (2048, 8192, 30000) for new in (16, 64, 256, 512, 1024, 2048))),
            *mixes([(32, 1024)], [16, 64, 256, 1024], 8192), *mixes([(32, 1024)], [64, 256, 1024], 30000),
            *prompts((2, 128, 0), (4, 128, 0), (8, 128, 0), (32, 64, 0), (2, 1024, 0), (2, 4096, 0), (8, 64, 4096)),
            *mixes([(32, 1024)], [256], 0, 2), *mixes([(32, 1024)], [256], 0, 4), *mixes([(32, 1024)], [256], 0, 8),
            *mixes([(32, 1024)], [64], 2048, 4), *decodes([64, 128, 256], [256, 512]),
        ]),
    }  # fmt: skip
    for name in only:
        model, fp8, steps = sections[name]
        yield from ((model, fp8, step) for step in steps)


def trial_cases() -> Iterator[tuple[str, bool, Case]]:
    for name in ("tiny", "tiny-qwen"):
        yield name, False, Case((20, 3))
        yield name, False, Case((), ((17, 0),))
        yield name, False, Case((20, 3), ((17, 5), (4, 0)))


def description(bench: Bench) -> list[str]:
    lines = [f"By accuracy/measure_steps.py, {time.strftime('%Y-%m-%d')}; torch {torch.__version__}"]
    lines[0] += f", CUDA {torch.version.cuda}, Triton {triton.__version__}"
    if not bench.on_gpu:
        return [*lines, "a trial on a CPU: no measurement"]
    version = ctypes.create_string_buffer(96)
    if bench.nvml is not None:
        bench.nvml.nvmlSystemGetDriverVersion(version, 96)
    source, target = bench.random(2, 2**30)
    copy = bench.median(lambda: torch.add(source, 1, out=target))
    square = bench.random(8192, 8192)
    product = bench.median(lambda: torch.mm(square, square.t()))
    limit = bench.figure("nvmlDeviceGetEnforcedPowerLimit") / 1000
    gpu = torch.cuda.get_device_properties(bench.device)
    return [
        *lines,
        f"{gpu.name}, {gpu.total_memory / 2**30:.1f} GiB, {gpu.multi_processor_count} SMs; driver "
        f"{version.value.decode()}; power limit {limit:.0f} W; memory clock {bench.figure('nvmlDeviceGetClockInfo', 2)} MHz",
        f"y = x + 1 over 4.3 GB: {4 * 2**30 / copy / 1e6:.3f} TB/s; 8192 x 8192 x 8192 in bf16: "
        f"{2 * 8192**3 / product / 1e6:.0f} TFLOP/s",
    ]


COLUMNS = (
    "model,layers,dtype,kind,decode,prefill,us,low,high,rested,gemm,attention,rest,attention_apart,attention_ragged,replays,"
    "clock_mhz,watts"
)


def counted(items: tuple[Any, ...], form: Callable[[Any], str]) -> str:
    """Equal neighbours together: 32x1024."""
    return " ".join(f"{len([*group])}x{form(item)}" for item, group in itertools.groupby(items))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure steps of an engine.")
    parser.add_argument("-o", "--output", type=Path, default=Path("steps.csv"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--library", help="shared object of FlashAttention 3, if it is not installed")
    parser.add_argument("--only", default="steps,fp8,qwen,details", help="sections (default: %(default)s)")
    parser.add_argument("--cache", type=int, default=400_000, help="tokens of the KV cache (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=1e9, help="stop after so many seconds")
    args = parser.parse_args()
    begin, bench = time.monotonic(), Bench(args.device)
    if bench.on_gpu:
        if args.library:
            torch.ops.load_library(args.library)
        else:
            import flash_attn_3._C  # noqa: F401  # registers the operators
    todo = list(cases(args.cache, args.only.split(",")) if bench.on_gpu else trial_cases())
    gc.freeze()
    decoder, built = None, None
    with torch.no_grad(), args.output.open("w", newline="") as file:
        for line in description(bench):
            print(line, flush=True)
            file.write(f"# {line}\n")
        rows = csv.DictWriter(file, COLUMNS.split(","), restval="", lineterminator="\n")
        rows.writeheader()
        for name, fp8, case in todo:
            if time.monotonic() - begin > args.limit:
                print("out of time")
                break
            label = {
                "model": name, "layers": SHAPES[name].layers, "dtype": "fp8_static" if fp8 else "bf16", "kind": case.kind,
                "decode": counted(case.decode, str), "prefill": counted(case.prefill, lambda chunk: f"{chunk[0]}+{chunk[1]}"),
            }  # fmt: skip
            try:
                if built != (name, fp8):
                    decoder = None
                    gc.collect()
                    if bench.on_gpu:
                        torch.cuda.empty_cache()
                    error = check(bench, SHAPES[name], fp8)
                    print(f"{name}, first layer within {error:.2g}; {time.monotonic() - begin:.0f} s", flush=True)
                    steps = [step for other in todo if other[:2] == (name, fp8) for step in other[2:]]
                    tokens = max(len(step.decode) + sum(new for new, _ in step.prefill) for step in steps)
                    sequences = max(len(step.decode) + len(step.prefill) for step in steps)
                    decoder = Decoder(bench, SHAPES[name], fp8, tokens, sequences, args.cache if bench.on_gpu else 512)
                    built = name, fp8
                row = {**label, **measured(bench, decoder, case)}
            except (RuntimeError, TypeError) as reason:  # out of memory too
                print(*label.values(), "skipped:", str(reason).splitlines()[0], flush=True)
                continue
            rows.writerow(row)
            file.flush()
            print(
                *(row[name] for name in COLUMNS.split(",") if name in row),
                f"{time.monotonic() - begin:.0f} s",
                flush=True,
            )
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
