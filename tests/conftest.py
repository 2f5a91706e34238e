"""Random cases that the tests of several rings draw from, and deployments made of plain records."""

import gc
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import tiers
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import roofline as rl
from roofline.catalog.find import load_engine
from roofline.formulas.case import HOST_TIMES
from roofline.physics.plan import DEFAULT_SKEW, Deployment, Plan
from roofline.serving.quantization import resolved_quantization
from roofline.specs.engine import Engine
from roofline.specs.gpu import CALIBRATED, COLLECTIVES, Calibration, CollectiveEfficiency, Efficiency, Gpu, Link
from roofline.specs.model import DenseFfn, Gqa, Group, Layer, Mla, Model, MoeFfn

# The scripts of accuracy/ are no package: tests import them by name. (This is the only conftest: a second one would
# hide this module from the tests that import it.)
sys.path.insert(0, str(Path(__file__).parents[1] / "accuracy"))

# Tests start the command some hundred times: it is compiled once, also where the environment writes no byte code.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Ages of prices are those of this day, 2026-11-27, on which outputs were recorded.
os.environ["SOURCE_DATE_EPOCH"] = "1795737600"
sys.dont_write_bytecode = False


def _profile(examples):
    return settings(
        deadline=None, max_examples=examples, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )


settings.register_profile("quick", _profile(tiers.EXAMPLES))
settings.register_profile("exhaustive", _profile(tiers.MORE_EXAMPLES))

#: GPUs that stand for the catalog where every one with every model would take minutes: each calibrated
#: generation, a card on PCIe, a full mesh, a torus, parts without FP8 or without calibration.
SAMPLE_GPUS = (
    "a100-sxm-80gb", "b200", "b300", "gaudi3", "gb200-nvl72", "gb300-nvl72", "h100-sxm", "h200-sxm", "l40s", "mi300x",
    "tpu-v5e",
)  # fmt: skip

#: Models that stand for the catalog: one of each kind of mixer and network.
SAMPLE_MODELS = (
    "llama-3.1-8b", "llama-3.1-70b", "gemma-3-27b", "mixtral-8x7b", "gpt-oss-120b", "qwen3-235b-a22b", "deepseek-v3",
    "deepseek-v3.2", "deepseek-v4-flash", "qwen3-next-80b-a3b", "minimax-m1", "minimax-m3", "kimi-k3", "jamba-v0.1",
    "nemotron-3-super-nvfp4", "llama-4-scout",
)  # fmt: skip

shares = st.floats(0.1, 1.0)


def pytest_configure(config):
    """The tier of the run is known before any test is collected."""
    tiers.begin(config.option.markexpr)
    settings.load_profile(tiers.times("quick", "exhaustive"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks of the exhaustive tier, before those of the run select."""
    tiers.mark(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and tests live until the end: the search for garbage leaves them out, and is made a tenth as often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 10, 100)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """What is left of a run is searched for garbage once, for warnings that it gives, and not ten times."""
    gc.collect()
    gc.freeze()


#: Files whose tests read the same configurations, syntax trees or answers: one worker reads them for all.
TOGETHER = {
    "tests/catalog/test_shipped_models.py": "configurations",
    "tests/contract/test_family.py": "answers",
    "tests/contract/test_output_schema.py": "answers",
    "tests/huggingface/test_counts_of_torch.py": "configurations",
    "tests/huggingface/test_imported_specs.py": "configurations",
    "tests/specs/test_kernels.py": "trees",
    "tests/test_architecture.py": "trees",
    "tests/test_dependencies.py": "trees",
    "tests/test_tiers.py": "trees",
    "tests/workbook/test_look.py": "workbook",
    "tests/workbook/test_planning.py": "workbook",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Files go to workers as `--dist loadfile` sends them, those of `TOGETHER` to one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.split("::", 1)[0]
            return TOGETHER.get(path, path)

    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def _shipped_catalog_only():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ROOFLINE_SPECS", raising=False)
        yield


@pytest.fixture(scope="session")
def shared_book(tmp_path_factory):
    """A workbook of two models on three GPUs that several files read."""
    path = tmp_path_factory.mktemp("shared") / "sizing.xlsx"
    case = {"isl": [1000, 6000], "osl": 200, "batch": 8, "slo": {"ttft": 0.5, "tpot": 0.02}}
    rl.sheet(str(path), ("llama-3.1-8b", "gpt-oss-20b"), ("h100-sxm", "l40s", "b200"), spare=1, **case)
    return path


@pytest.fixture(scope="session")
def _figures_remembered():
    from remembered_figures import remembering

    return remembering()


@pytest.fixture(scope="module")
def _figures_predicted_once(_figures_remembered):
    """Diagnoses of one server under one load predict the same figures hundreds of times: here, each once."""
    from remembered_figures import ASKING

    with pytest.MonkeyPatch.context() as patch:
        for module in ASKING:
            patch.setattr(module, "predicted_figures", _figures_remembered)
        yield


def seconds(most):
    """Latencies: none at all, or up to `most` seconds."""
    return st.just(0.0) | st.floats(most / 100.0, most)


@st.composite
def gqas(draw, reach=("full", "window", "chunk")):
    kind = draw(st.sampled_from(reach))
    limit = draw(st.integers(2, 600))
    return Gqa(
        heads=draw(st.sampled_from((8, 16, 64))),
        kv_heads=draw(st.sampled_from((1, 2, 8))),
        head_dim=draw(st.sampled_from((64, 128, 192))),
        v_head_dim=draw(st.sampled_from((64, 128))),
        window=limit if kind == "window" else None,
        chunk=limit if kind == "chunk" else None,
        qkv_bias=draw(st.booleans()),
        o_bias=draw(st.booleans()),
        qk_norm=draw(st.sampled_from([None, "head", "full"])),
        sinks=draw(st.booleans()),
    )


@st.composite
def mlas(draw):
    return Mla(
        heads=draw(st.sampled_from((8, 16, 128))),
        q_rank=draw(st.sampled_from((None, 384, 1536))),
        kv_rank=draw(st.sampled_from((256, 512))),
        nope=draw(st.sampled_from((64, 128))),
        rope=draw(st.sampled_from((32, 64))),
        v=draw(st.sampled_from((64, 128))),
    )


dense_ffns = st.builds(DenseFfn, st.sampled_from((1024, 4096, 14336)), st.booleans(), st.booleans())


@st.composite
def moe_ffns(draw):
    experts = draw(st.sampled_from((8, 32, 256)))
    return MoeFfn(
        experts=experts,
        top_k=draw(st.integers(1, experts // 2)),
        width=draw(st.sampled_from((512, 2048))),
        gated=draw(st.booleans()),
        shared_width=draw(st.sampled_from((0, 2048))),
        router_bias=draw(st.booleans()),
        expert_bias=draw(st.booleans()),
    )


@st.composite
def models(draw, mixers=None, ffns=None):
    """Models of one to three groups: dense, mixture of experts, latent attention, windows, chunks."""
    mixers = gqas() | mlas() if mixers is None else mixers
    ffns = dense_ffns | moe_ffns() if ffns is None else ffns
    layers = st.builds(Layer, mixers, ffns)
    blocks = st.lists(layers, min_size=1, max_size=2).map(tuple)
    return Model(
        name="random/model",
        short_name="model",
        aliases=("model",),
        family="",
        hidden=draw(st.sampled_from((512, 2048, 8192))),
        vocab=draw(st.sampled_from((32000, 128256))),
        tied=draw(st.booleans()),
        norms=draw(st.sampled_from((2, 4))),
        max_context=None,
        groups=tuple(draw(st.lists(st.builds(Group, st.integers(1, 20), blocks), min_size=1, max_size=3))),
        native=dict.fromkeys(
            ("linear", "attention", "shared", "experts", "embed", "head", "router", "norm", "kv"), "bf16"
        ),
    )


@st.composite
def calibrations(draw):
    """Efficiencies that no GPU exceeds, latencies of the measured order."""
    kernel = st.builds(
        Efficiency,
        t0=seconds(3e-5),
        eta_c=shares,
        eta_m=shares,
        eta_x=shares,
        eta_s=shares,
        kappa=seconds(1e-9),
        kappa_s=seconds(1e-8),
        eps=seconds(5e-7),
        t0_ep=st.none() | seconds(3e-5),
        p=st.sampled_from((1.0, 3.0, float("inf"))),
    )
    collective = st.builds(
        CollectiveEfficiency,
        a0=seconds(2e-5),
        a1=seconds(1e-6),
        a2=seconds(2e-6),
        q=seconds(5e-5),
        eta=shares,
        eta_switch=st.none() | shares,
    )
    return Calibration(
        name="random",
        measured_on=("gpu",),
        kernels={(kind.name, "bf16"): draw(kernel) for kind in CALIBRATED},
        collectives={kind.name: draw(collective) for kind in COLLECTIVES},
    )


@st.composite
def gpus(draw):
    peak = draw(st.floats(5e13, 5e15))
    return Gpu(
        name="gpu",
        aliases=(),
        vendor="",
        generation="random",
        peaks={"bf16": peak, "fp16": peak, "fp8": 2.0 * peak, "int8": 2.0 * peak},
        bandwidth=draw(st.floats(5e11, 1e13)),
        memory=draw(st.floats(2e10, 3e11)),
        memory_label=3e11,
        link=Link("link", draw(st.floats(2e10, 1e12)), 8, draw(st.booleans())),
        exp_rate=draw(st.none() | st.floats(1e12, 1e13)),
        scale_out=5e10,
        host_link=6e10,
        calibration=draw(calibrations()),
    )


#: Profiles of serving engines, none at all the most likely.
engines = st.just(Engine("none")) | st.builds(
    Engine,
    name=st.just("random"),
    request=seconds(0.1),
    arrival=seconds(0.1),
    network=seconds(0.05),
    prefill=seconds(0.005),
    launch=seconds(1e-4),
    launch_decode=seconds(5e-5),
    prefill_slowdown=st.floats(1.0, 1.5),
    step=seconds(0.001),
    layer=seconds(2e-5),
    sequence=seconds(3e-5),
    all_reduce=seconds(1e-5),
)

plans = st.sampled_from((Plan(), Plan(tp=2), Plan(tp=8), Plan(pp=2), Plan(tp=2, dp=4), Plan(tp=2, dp=4, ep=8)))


@st.composite
def deployments(draw, of=None, basis=None):
    """Random models on random GPUs under random plans, formats, bases and routing."""
    return deploy(
        draw(models() if of is None else of),
        draw(gpus()),
        plan=draw(plans),
        quantization=draw(st.sampled_from((None, "fp8", "int4"))),
        basis=draw(st.sampled_from(("ideal", "calibrated"))) if basis is None else basis,
        routing_skew=draw(st.none() | st.floats(0.3, 10.0)),
    )


def deploy(model, gpu, plan=Plan(), quantization=None, basis="calibrated", routing_skew=DEFAULT_SKEW, engine="none"):  # noqa: B008  frozen
    """A deployment of records, or of names of the catalog; its kernels alone where no engine is named."""
    model = rl.load_model(model) if isinstance(model, str) else model
    gpu = rl.load_gpu(gpu) if isinstance(gpu, str) else gpu
    engine = load_engine(engine) if isinstance(engine, str) else engine
    return Deployment(
        model, gpu, plan, resolved_quantization(model, gpu, quantization), basis, routing_skew, engine=engine
    )


def faster(gpu, times, rates=("peaks", "bandwidth", "exp_rate", "link", "scale_out", "host_link")):
    """The GPU with some of its rates multiplied."""
    changes = {name: _multiplied(getattr(gpu, name), times) for name in rates}
    return replace(gpu, **changes)


def with_shorter_latencies(gpu, times):
    """The GPU with every latency of its calibration divided."""
    calibration = gpu.calibration
    if calibration is None:
        return gpu
    latencies = ("t0", "t0_ep", "kappa", "kappa_s", "eps")
    kernels = {key: _divided(entry, latencies, times) for key, entry in calibration.kernels.items()}
    collectives = {
        key: _divided(entry, ("a0", "a1", "a2", "q"), times) for key, entry in calibration.collectives.items()
    }
    return replace(gpu, calibration=replace(calibration, kernels=kernels, collectives=collectives))


def with_shorter_host_times(engine, times):
    """The engine with every time of its host divided; how far gaps stretch a prefill is a pure number."""
    return _divided(engine, tuple(HOST_TIMES), times)


def close(left, right, tolerance=1e-12):
    """Whether two numbers agree relative to the larger; algebra in float64 loses a few ulp only."""
    return left == right or abs(left - right) <= tolerance * max(abs(left), abs(right))


def _divided(entry, names, times):
    held = {name: getattr(entry, name) for name in names}
    return replace(entry, **{name: value / times for name, value in held.items() if value is not None})


def _multiplied(value, times):
    if value is None:
        return None
    if isinstance(value, Link):
        peer = None if value.peer_bandwidth is None else value.peer_bandwidth * times
        return replace(value, bandwidth=value.bandwidth * times, peer_bandwidth=peer)
    if isinstance(value, dict):
        return {name: rate * times for name, rate in value.items()}
    return value * times


@pytest.fixture(scope="session")
def javascript():
    """What a function of some JavaScript gives for some numbers: ``javascript(source, name, numbers)``."""
    from py_mini_racer import MiniRacer

    with MiniRacer() as engine:

        def called(source, name, numbers):
            engine.eval(source)
            return [float(each) for each in engine.eval(f"{name}({', '.join(map(repr, numbers))}).join()").split(",")]

        yield called
