"""Measures a healthy vLLM server, and the same server with one known fault at a time, at several loads.

python accuracy/measure_faults.py MODEL OUT [SERVER ...]    (Linux; needs vLLM and an NVIDIA GPU)

MODEL is a folder with a config.json; weights are dummies and the tokenizer is made up, one word for each token, so that
nothing is downloaded. Server and client are those of `vllm serve` and `vllm bench serve`, over HTTP on one machine, each
a process of its own, and so is the engine: a time to first token is that of the client. They are forked from this
process, which has imported vLLM, because an import takes 20 s. A server is warmed up before it is measured, except for
the fault `cold`.

OUT/FAULT.json has the results of `vllm bench serve` with one fault, a row for each load, and what is true of them
(`server`, `server_arguments`, `client_work_s`, `beside`, `gpu_state`). OUT/SERVER.log has what server and clients said.
ARGUMENTS in the environment adds arguments to all servers, SECONDS limits the time of all.

tests/fixtures/faults has the rows of an H100 of 2026-11-27; its README says how they were measured.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

_ISL, _OSL = 1024, 100  # tokens
_PROMPTS = {1: 6, 8: 40, 32: 128}  # users -> requests of a run
_LOADS = tuple(_PROMPTS)
_PORT = 8123
_START, _RUN = 110.0, 60.0  # [s] at most, of a start and of a run
_PATIENCE = 20.0  # [s] until a server has closed
_LEAST = 60.0  # [s] that must be left for another server
_SLOW_CLIENT = 300e-6  # [s] of work for each chunk
_LONGER = 2  # times the answer that is stated
_NEIGHBOUR = 3e-3  # [s] between matrix products of another process on the GPU

#: What a server and its engine import besides: once here, before the forks.
_IMPORTS = (
    "vllm.entrypoints.openai.api_server", "vllm.entrypoints.openai.cli_args", "vllm.benchmarks.serve",
    "vllm.v1.engine.core", "vllm.v1.engine.async_llm", "vllm.v1.executor.uniproc_executor", "vllm.v1.worker.gpu_worker",
    "vllm.v1.worker.gpu.model_runner", "vllm.v1.worker.gpu.warmup", "vllm.model_executor.warmup.kernel_warmup",
    "vllm.model_executor.models.llama", "vllm.model_executor.model_loader.dummy_loader", "vllm.compilation.backends",
    "vllm.compilation.decorators", "vllm.v1.attention.backends.flash_attn", "vllm.v1.attention.backends.triton_attn",
    "vllm.v1.structured_output", "vllm.model_executor.layers.quantization.fp8", "torch._inductor.compile_fx",
    "torch._dynamo", "flashinfer.sampling",
)  # fmt: skip


@dataclass(frozen=True)
class Server:
    """One start of the server, and the runs against it."""

    arguments: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run of the client at each load; `fault` names what differs from the healthy server."""

    fault: str
    loads: tuple[int, ...] = _LOADS
    seed: int = 0  # prompts of two runs with one seed are the same: the prefix cache has them
    osl: int = _OSL
    client: float = 0.0  # [s] of work for each chunk
    beside: str = ""  # what else runs on the machine
    is_cold: bool = False
    prompts: dict[int, int] = field(default_factory=lambda: _PROMPTS)


_FEWER = {1: 4, 8: 24, 32: 64}
SERVERS = {
    "healthy": Server(
        runs=(
            Run("cold", loads=(8,), seed=90, prompts={8: 16}, is_cold=True),
            Run("healthy", seed=1),
            Run("repeated_prompts", seed=1),
            Run("slow_client", loads=(8, 32), seed=2, client=_SLOW_CLIENT),
            Run("longer_answers", seed=3, osl=_LONGER * _OSL, prompts=_FEWER),
            Run("busy_cpus", loads=(8, 32), seed=4, beside="cpus"),
            Run("busy_gpu", loads=(8, 32), seed=5, beside="gpu", prompts=_FEWER),
        )
    ),
    "enforce_eager": Server(("--enforce-eager",), (Run("enforce_eager", seed=11),)),
    "no_prefix_caching": Server(
        ("--no-enable-prefix-caching",), (Run("no_prefix_caching", seed=1), Run("no_prefix_caching_repeated", seed=1))
    ),
    "triton_attn": Server(("--attention-backend", "TRITON_ATTN"), (Run("triton_attn", seed=12),)),
    "batched_tokens_256": Server(("--max-num-batched-tokens", "256"), (Run("batched_tokens_256", seed=13),)),
    "seqs_4": Server(("--max-num-seqs", "4"), (Run("seqs_4", seed=14, prompts=_FEWER),)),
    "kv_fp8": Server(("--kv-cache-dtype", "fp8"), (Run("kv_fp8", seed=15),)),
    "weights_fp8": Server(("--quantization", "fp8"), (Run("weights_fp8", seed=16),)),
    "graphs_1": Server(("--cudagraph-capture-sizes", "1"), (Run("graphs_1", seed=17),)),
    "no_async_scheduling": Server(("--no-async-scheduling",), (Run("no_async_scheduling", seed=18),)),
}


# Processes. Each is forked, writes to a log, and is ended by its own group.


@contextmanager
def process(
    log: Path, act: Callable[..., None], *arguments: Any, patience: float = 0.0
) -> Iterator[multiprocessing.process.BaseProcess]:
    """A forked process with its own group; asked to end on exit, and its group ended after `patience` [s]."""
    child = multiprocessing.get_context("fork").Process(target=_logged, args=(log, act, *arguments))
    child.start()
    try:
        yield child
    finally:
        child.terminate()
        child.join(patience)
        with suppress(ProcessLookupError):
            os.killpg(child.pid or 0, signal.SIGKILL)
        child.join(5.0)


def _logged(log: Path, act: Callable[..., None], *arguments: Any) -> None:
    os.setsid()
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    act(*arguments)


def serve(arguments: list[str]) -> None:
    """`vllm serve` in this process."""
    import uvloop
    from vllm.entrypoints.openai.api_server import run_server
    from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    stated = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
    validate_parsed_serve_args(stated)
    uvloop.run(run_server(stated))


def bench(arguments: list[str], work: float) -> None:
    """`vllm bench serve` in this process; `work` [s] is done for each chunk before its time is taken."""
    from vllm.benchmarks import serve as client
    from vllm.benchmarks.lib import endpoint_request_func as requests
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Busy(requests.StreamedResponseHandler):
        def add_chunk(self, chunk_bytes: bytes) -> list[str]:
            end = time.perf_counter() + work
            while time.perf_counter() < end:
                pass
            return super().add_chunk(chunk_bytes)

    if work:
        requests.StreamedResponseHandler = Busy
    parser = FlexibleArgumentParser()
    client.add_cli_args(parser)
    client.main(parser.parse_args(arguments))


def occupy_cpus() -> None:
    """Two busy processes on each CPU."""
    for _ in range(2 * (os.cpu_count() or 1) - 1):
        if os.fork() == 0:
            break
    while True:
        pass


def occupy_gpu() -> None:
    """Matrix products of another process on the GPU: 8192 x 8192 in bf16, with a pause after each."""
    import torch

    matrix = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
    while True:
        torch.matmul(matrix, matrix)
        torch.cuda.synchronize()
        time.sleep(_NEIGHBOUR)


_BESIDE: dict[str, Callable[[], None]] = {"cpus": occupy_cpus, "gpu": occupy_gpu}


# What is true of a run


def _query(*names: str) -> list[str]:
    return ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", "--id=0"]


def gpu(*names: str) -> list[str]:
    """Values of nvidia-smi for the first GPU."""
    try:
        return subprocess.run(_query(*names), capture_output=True, text=True, check=True).stdout.strip().split(", ")
    except (OSError, subprocess.CalledProcessError):
        return ["0"] * len(names)


_STATE = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "utilization.gpu")


@contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """Clocks [MHz], power [W] and temperature of the GPU, once a second: medians, and the lowest SM clock."""
    state: dict[str, Any] = {}
    try:
        watcher = subprocess.Popen([*_query(*_STATE), "-lms", "1000"], stdout=subprocess.PIPE, text=True)
    except OSError:
        yield state
        return
    try:
        yield state
    finally:
        watcher.terminate()
        lines = [line.split(", ") for line in watcher.communicate()[0].splitlines()[1:]]  # the first is of before
        samples = [[float(value) for value in line] for line in lines if len(line) == len(_STATE)]
        if samples:
            state |= dict(zip(_STATE, map(median, zip(*samples, strict=True)), strict=True))
            state["lowest clocks.sm"] = min(sample[0] for sample in samples)


def versions() -> dict[str, str]:
    """Software, driver and GPU."""
    import torch
    import vllm

    name, memory, driver, sm, mem = gpu("name", "memory.total", "driver_version", "clocks.max.sm", "clocks.max.mem")
    return {
        "gpu": name, "gpu_memory_mib": memory, "driver": driver, "max_clocks_mhz": f"{sm} SM, {mem} memory",
        "engine": "vllm", "engine_version": vllm.__version__, "torch": torch.__version__,
        "cpus": str(os.cpu_count()),
    }  # fmt: skip


def tokenizer(folder: Path, config: Path) -> None:
    """A model folder whose tokenizer has one word for each token."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit

    size = json.loads((config / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    words = Tokenizer(WordLevel({f"w{token:x}": token for token in range(size)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    folder.mkdir(parents=True, exist_ok=True)
    words.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "config.json").write_bytes((config / "config.json").read_bytes())
    stated = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "w0", "model_max_length": 10**6}
    (folder / "tokenizer_config.json").write_text(json.dumps(stated), encoding="utf-8")


# The measurement


def is_up(server: multiprocessing.process.BaseProcess) -> bool:
    """Whether a server answers before it ends or its time is over."""
    end = time.monotonic() + _START
    while time.monotonic() < end and server.is_alive():
        with suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/health", timeout=2.0).close()
            return True
        time.sleep(0.2)
    return False


def measured(model: Path, log: Path, users: int, prompts: int, seed: int, osl: int, work: float) -> dict[str, Any]:
    """The result of one run of the client; empty where it failed."""
    result = log.with_suffix(f".{time.monotonic_ns()}.json")
    arguments = [
        "--backend", "vllm", "--port", str(_PORT), "--model", model.name, "--tokenizer", str(model),
        "--dataset-name", "random", "--random-input-len", str(_ISL), "--random-output-len", str(osl),
        "--num-prompts", str(prompts), "--max-concurrency", str(users), "--seed", str(seed), "--ignore-eos",
        "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "25,50,75,90,99", "--disable-tqdm",
        "--save-result", "--result-dir", str(result.parent), "--result-filename", result.name,
    ]  # fmt: skip
    with process(log, bench, arguments, work) as client:
        client.join(_RUN)
    if not result.exists():
        return {}
    values: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    result.unlink()
    return values


def rows(name: str, model: Path, out: Path, common: dict[str, str], end: float) -> Iterator[dict[str, Any]]:
    """A row for each load of each run against one server."""
    log = out / f"{name}.log"
    arguments = [
        "--model", str(model), "--served-model-name", model.name, "--load-format", "dummy", "--max-model-len", "8192",
        "--port", str(_PORT), *SERVERS[name].arguments, *os.environ.get("ARGUMENTS", "").split(),
    ]  # fmt: skip
    begun = time.monotonic()
    with process(log, serve, arguments, patience=_PATIENCE) as server:
        if not is_up(server):
            yield {"fault": name, "error": "the server did not start", "seconds": round(time.monotonic() - begun, 1)}
            return
        start = round(time.monotonic() - begun, 1)
        is_warm = False
        for run in SERVERS[name].runs:
            if not (is_warm or run.is_cold):
                for seed, users in ((98, 8), (99, 32)):
                    measured(model, log, users, users, seed, 16, 0.0)
                is_warm = True
            for users in run.loads:
                if time.monotonic() > end or not server.is_alive():
                    return
                beside = _BESIDE.get(run.beside)
                seed = 1000 * run.seed + users
                with process(log, beside) if beside else nullcontext():
                    if beside:
                        time.sleep(6.0 if run.beside == "gpu" else 0.5)  # a CUDA context takes seconds
                    with watched() as state:
                        values = measured(model, log, users, run.prompts[users], seed, run.osl, run.client)
                values.pop("tokenizer_id", None)  # a folder of this machine
                yield {
                    **values, **common, "tp": "1", "fault": run.fault, "server": name,
                    "server_arguments": " ".join(arguments[6:]), "start_s": start, "seed": seed,
                    "client_work_s": run.client, "beside": run.beside, "gpu_state": state,
                }  # fmt: skip


def save(folder: Path, fault: str, results: list[dict[str, Any]]) -> None:
    """A list of results, one a line, floats rounded to 4 digits after the point."""
    lines = (json.dumps(json.loads(json.dumps(row), parse_float=lambda text: round(float(text), 4))) for row in results)
    (folder / f"{fault}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def main(config: str, out: str, names: list[str]) -> None:
    """Measure the cases, and write a row after each run."""
    import importlib

    end = time.monotonic() + float(os.environ.get("SECONDS", "1e9"))
    os.environ |= {"VLLM_WORKER_MULTIPROC_METHOD": "fork", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    os.environ.setdefault("FLASHINFER_CUDA_ARCH_LIST", gpu("compute_cap")[0])  # it asks CUDA otherwise
    for module in _IMPORTS:
        importlib.import_module(module)
    if importlib.import_module("torch").cuda.is_initialized():
        raise SystemExit("an import has initialised CUDA, which does not survive a fork")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / Path(config).name
    tokenizer(model, Path(config))
    common = versions()
    print(f"imported, {end - time.monotonic():.0f} s left", flush=True)
    results: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        if time.monotonic() + _LEAST > end:
            print(f"no time for {name}", flush=True)
            continue
        for row in rows(name, model, folder, common, end):
            if "error" in row and name == names[0]:
                raise SystemExit(f"{row}: see its log")
            results.setdefault(row["fault"], []).append(row)
            save(folder, row["fault"], results[row["fault"]])
            shown = {key: row.get(key) for key in ("fault", "max_concurrency", "completed", "start_s", "error")}
            times = [round(row.get(f"median_{of}_ms") or 0.0, 2) for of in ("ttft", "tpot", "e2el")]
            print(f"{end - time.monotonic():.0f} {shown} {times} {row.get('gpu_state')}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:] or list(SERVERS))
