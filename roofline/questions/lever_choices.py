"""The levers of a case: what each changes, what it assumes, and why some cannot be pulled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import ceil
from typing import Any

from roofline.numbers.quantity import KIBI, rounded
from roofline.physics.memory import kv_bytes_per_token
from roofline.questions.alternatives import (
    CHECK,
    MORE_BANDWIDTH,
    SAME_ANSWERS,
    VERIFIED,
    cache_quality,
    smaller_sibling,
    splits,
    weights_quality,
    wider_gpu,
)
from roofline.serving.contexts import possible_dcp
from roofline.serving.knee import plan_fault
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import resolved_quantization, summary
from roofline.specs.arrivals import RANDOM, ROUND_ROBIN
from roofline.specs.engine import HBM, HOST_MEMORY
from roofline.specs.formats import FORMATS, number_format
from roofline.specs.model import MoeFfn
from roofline.specs.workload import LAWS
from roofline.support.errors import RooflineError
from roofline.support.records import NamedTuple, replace

_CACHED, _HIT = 0.5, 0.6  # shares of the prompt, and of the requests
_SHORTER = 0.75  # of the answer
_LIGHTER = 0.8  # of the load
_TWICE = 2
_LONG_PROMPT = 32.0 * KIBI  # [tokens] from which several ranks may share one
_SIXTEEN_BIT, _BYTE = 1.5, 0.75  # least size of a value in 16-bit formats, in 8-bit formats [B]
_EIGHT_BITS = ("fp8", "int8")
_KV_FORMAT = "fp8"
_ALL_FOUND = 0.99  # of the later turns of sessions

_OF_R1 = (
    "drafts are kept as DeepSeek-R1 keeps them: 1.92, 2.58 and 2.82 tokens per step with 1, 2 and 3 of them "
    "(NVIDIA, TensorRT-LLM tech blog 1)"
)
_OF_LLAMA = (
    "65 % of the drafts are kept: 2.77 tokens per step with 7 of them on MT-bench, EAGLE-3 head of Llama 3.1 8B "
    "(huggingface.co/nebius/EAGLE3-Llama-3.3-70B-Instruct)"
)
#: Draft -> its acceptance, numbers of draft tokens to try, and the source.
_DRAFTS: dict[str, tuple[str | float, tuple[int, ...], str]] = {
    "mtp": ("deepseek-r1-mtp", (1, 2, 3), _OF_R1),
    "eagle": (0.65, (1, 3, 5), _OF_LLAMA),
}


class Start(NamedTuple):
    """The unchanged case."""

    prediction: Prediction
    options: Mapping[str, Any]  # keyword arguments of `predict`, including model, GPU and plan


class Choice(NamedTuple):
    name: str
    changes: Mapping[str, Any]  # to the keyword arguments of `predict`


class Lever(NamedTuple):
    """A lever and the ways to pull it, the best of which is shown; without any, the reason."""

    kind: str
    choices: tuple[Choice, ...] = ()
    quality: str = SAME_ANSWERS
    assumption: str | None = None
    reason: str | None = None  # why it cannot be pulled
    excludes: str | None = None  # kind of lever that it is not combined with; its own kind by default


def candidates(start: Start) -> Iterator[Lever]:
    """Every lever of a case, including those that cannot be pulled."""
    yield _smaller_model(start)
    yield _prompt_cache(start)
    yield _speculation(start)
    yield _weights(start)
    yield _kv_cache(start)
    yield from _merged(start)
    yield from _resident(start)
    yield _bandwidth(start)
    yield from _more_gpus(start)
    yield from _router(start)
    yield _expert_parallelism(start)
    yield from _balanced_experts(start)
    yield from _two_batches(start)
    yield from _context_parallelism(start)
    yield _separate_pools(start)
    yield _shorter_answers(start)
    yield from _budgets(start)
    yield from _smaller_images(start)
    yield _lighter_load(start)


def _smaller_model(start: Start) -> Lever:
    model = start.prediction.deployment.model
    sibling = smaller_sibling(model, start.options.get("specs"))
    if sibling is None:
        return Lever("smaller model", reason=f"the catalog has no smaller sibling of {model.short_name}")
    changes: dict[str, Any] = {"model": sibling.short_name}
    if start.options.get("quantization") is None and start.options.get("weights") is None:
        now = summary(model, start.prediction.deployment.quantization)[0]
        with suppress(RooflineError):  # refused where the case is predicted
            native = summary(sibling, resolved_quantization(sibling, start.prediction.deployment.gpu))[0]
            changes |= {} if native == now else {"weights": now}
    quality = f"another model: {CHECK}"
    return Lever("smaller model", (Choice(f"smaller: {sibling.short_name}", changes),), quality)


def _prompt_cache(start: Start) -> Lever:
    """A shared prefix, where the case has none."""
    kind, isl = "prompt cache", float(start.prediction.workload.text)
    times, cache = start.prediction.session_times, start.prediction.workload.cache
    if times is not None and cache is not None and cache.tier == HBM:
        if float(times.found.hit) > _ALL_FOUND:
            return Lever(kind, reason="turns find their context in the GPU's memory already")
        way = Choice("contexts that memory drops kept in host memory", {"cache_tier": HOST_MEMORY})
        return Lever(kind, (way,), assumption="host memory has room for all contexts; give `cache_size` for your own")
    if start.prediction.workload.prefix > 0.0 or start.prediction.workload.cache is not None:
        return Lever(kind, reason="the case has a cached prefix already")
    shared = round(_CACHED * isl)
    if shared < 1:
        return Lever(kind, reason="a prompt is one token")
    hits = f"{100.0 * _HIT:.0f}"
    way = Choice(f"prompt cache ({hits}% hits)", {"prefix": shared, "cache_hit": _HIT})
    assumption = (
        f"{shared} of {isl:g} prompt tokens are shared, and {hits} % of the requests find them in the GPU's memory"
    )
    return Lever(kind, (way,), assumption=f"{assumption}; give `prefix` and `cache_hit` for your own")


def _speculation(start: Start) -> Lever:
    """Drafts by the model's MTP module if it has one, else by an EAGLE-3 head."""
    kind, model = "speculation", start.prediction.deployment.model
    if start.prediction.deployment.draft is not None:
        return Lever(kind, reason="the case has drafts already")
    if start.prediction.workload.osl <= 1.0:
        return Lever(kind, reason="an answer is one token")
    draft = "mtp" if model.mtp_layers else "eagle"
    acceptance, counts, assumption = _DRAFTS[draft]
    ways = tuple(
        Choice(f"speculation ({draft}, {count})", {"draft": draft, "draft_tokens": count, "acceptance": acceptance})
        for count in counts
    )
    return Lever(kind, ways, VERIFIED, assumption)


def _weights(start: Start) -> Lever:
    """The next smaller weight format that the GPU multiplies."""
    deployment = start.prediction.deployment
    gpu, now = deployment.gpu, summary(deployment.model, deployment.quantization)[0]
    nbytes = FORMATS[now].nbytes if now in FORMATS else _SIXTEEN_BIT
    if nbytes >= _SIXTEEN_BIT:
        smaller = next((name for name in _EIGHT_BITS if name in gpu.peaks), None)
    elif nbytes >= _BYTE and "fp4" in gpu.peaks:
        smaller = number_format("fp4", gpu.vendor).name
    else:
        smaller = None
    if smaller is None:
        return Lever("weights", reason=f"{gpu.name} multiplies no format smaller than {now}")
    if nbytes < _BYTE:
        return Lever("weights", reason=f"weights have 4 bits already ({now})")
    kv = summary(deployment.model, deployment.quantization)[1]
    held = {} if kv is None else {"kv_cache_dtype": kv}
    return Lever("weights", (Choice(f"weights {smaller}", {"weights": smaller, **held}),), weights_quality(smaller))


def _kv_cache(start: Start) -> Lever:
    deployment = start.prediction.deployment
    if not kv_bytes_per_token(deployment.model) > 0.0:
        return Lever("KV cache", reason=f"{deployment.model.short_name} keeps no KV cache that grows")
    now = deployment.quantization.kv_format
    if FORMATS[now].nbytes < _SIXTEEN_BIT:
        return Lever("KV cache", reason=f"it is {now} already")
    choice = Choice(f"KV cache {_KV_FORMAT}", {"kv_cache_dtype": _KV_FORMAT})
    return Lever("KV cache", (choice,), cache_quality(_KV_FORMAT))


def _merged(start: Start) -> Iterator[Lever]:
    """The adapter added to the weights, where there is one alone."""
    adapters, kind = start.prediction.deployment.adapters, "merged adapter"
    if adapters is None:
        return
    if adapters.number > 1:
        yield Lever(kind, reason=f"one copy of the weights can hold one adapter, not {adapters.number}")
        return
    merged = Choice("adapter merged into the weights", dict.fromkeys(("lora", "max_loras", "max_lora_rank")))
    yield Lever(kind, (merged,), "the same up to the rounding of merged weights")


def _resident(start: Start) -> Iterator[Lever]:
    """All weights in GPU memory, where some are in host memory."""
    if start.prediction.deployment.offload is not None:
        changes = dict.fromkeys(("offload", "offload_bandwidth", "cpu_bandwidth"))
        yield Lever("offload", (Choice("all weights in GPU memory", changes),))


def _bandwidth(start: Start) -> Lever:
    deployment = start.prediction.deployment
    gpu, dtype = deployment.gpu, summary(deployment.model, deployment.quantization)[2]
    wider = wider_gpu(gpu, dtype or "bf16", start.options.get("specs"))
    if wider is None:
        more = f"{100.0 * (MORE_BANDWIDTH - 1.0):.0f} %"
        return Lever("more bandwidth", reason=f"no {gpu.vendor} GPU that can be rented has {more} more than {gpu.name}")
    changes: dict[str, Any] = {"gpu": wider.name}
    if start.options.get("set") is not None:
        changes["set"] = None  # it is of the GPU that the case names
    assumption = None
    if start.options.get("gpu_price") is not None:
        changes["gpu_price"] = None
        assumption = f"{wider.name} at the catalog's price; the one given is that of {gpu.name}"
    return Lever("more bandwidth", (Choice(f"GPU {wider.name}", changes),), assumption=assumption)


def _more_gpus(start: Start) -> Iterator[Lever]:
    """Twice the GPUs: as replicas, and as a wider plan."""
    deployment = start.prediction.deployment
    count, plan = _TWICE * deployment.num_gpus, deployment.plan
    copies = _TWICE * deployment.replicas
    yield Lever("more GPUs", (Choice(f"{copies} replicas instead of {deployment.replicas}", {"num_gpus": count}),))
    wider = Choice(f"tp {_TWICE * plan.tp} instead of {plan.tp}", {"tp": _TWICE * plan.tp, "num_gpus": count})
    yield Lever("wider plan", (wider,), excludes="more GPUs")


def _router(start: Start) -> Iterator[Lever]:
    """Replicas in turn, where requests of a rate go to any at random."""
    workload, replicas = start.prediction.workload, int(start.prediction.deployment.replicas)
    router = RANDOM if workload.arrivals is None else workload.arrivals.router
    if workload.load.is_open and replicas > 1 and router == RANDOM:
        yield Lever("router", (Choice(f"{replicas} replicas in turn (round robin)", {"router": ROUND_ROBIN}),))


def _expert_parallelism(start: Start) -> Lever:
    """Whole experts on every rank, in place of a share of each; or the other way round."""
    kind, deployment = "expert parallelism", start.prediction.deployment
    plan = deployment.plan
    if not deployment.model.is_moe:
        return Lever(kind, reason=f"{deployment.model.short_name} has no experts")
    if plan.expert_ranks == 1:
        return Lever(kind, reason="one rank has all experts")
    if plan.ep > 1:
        return Lever(kind, (Choice(f"experts shared by {plan.expert_ranks} ranks", {"ep": 1}),))
    return Lever(kind, (Choice(f"expert parallelism on {plan.expert_ranks} ranks", {"ep": plan.expert_ranks}),))


_COPIES = 8  # experts for each of which one gets a copy


def _balanced_experts(start: Start) -> Iterator[Lever]:
    """Copies of popular experts and a placement by load, where ranks hold different experts and some are popular."""
    deployment = start.prediction.deployment
    plan, spread = deployment.plan, deployment.spread
    if not deployment.model.is_moe or plan.ep == 1 or deployment.routing_skew is None:
        return
    kind = "expert balance"
    if spread.redundant is not None:
        yield Lever(kind, reason=f"experts are kept in balance already, with {spread.redundant:g} slots for copies")
        return
    number = max(ffn.experts for _, ffn in deployment.model.ffns if isinstance(ffn, MoeFfn))
    slots = plan.ep * ceil(number / _COPIES / plan.ep)
    ways = (Choice("experts placed by load", {"eplb": 0}), Choice(f"expert balance ({slots} copies)", {"eplb": slots}))
    assumption = "experts stay as popular as they were when they were placed"
    yield Lever(kind, ways, assumption=assumption, excludes="expert parallelism")


def _two_batches(start: Start) -> Iterator[Lever]:
    """Half batches that hide the exchange of tokens, where there is one."""
    deployment = start.prediction.deployment
    plan = deployment.plan
    if not deployment.model.is_moe or plan.ep == 1 or plan.token_ranks == 1:
        return
    if deployment.spread.two_batches:
        yield Lever("two-batch overlap", reason="a step is two half batches already")
        return
    way = Choice("two half batches a step", {"two_batch_overlap": True})
    yield Lever("two-batch overlap", (way,), excludes="expert parallelism")


def _context_parallelism(start: Start) -> Iterator[Lever]:
    """Shards of the cache where ranks keep copies of it; twice the GPUs, which split long prompts."""
    deployment = start.prediction.deployment
    model, plan = deployment.model, deployment.plan
    degrees = possible_dcp(model, plan.tp)[1:]
    if plan.dcp == 1 and degrees:
        ways = tuple(Choice(f"dcp {dcp}: the KV cache split over {dcp} ranks", {"dcp": dcp}) for dcp in degrees)
        yield Lever("decode context parallelism", ways)
    wider = replace(plan, cp=_TWICE * plan.cp)
    if start.prediction.workload.isl < _LONG_PROMPT or plan_fault(model, wider) is not None:
        return
    changes = {"cp": wider.cp, "num_gpus": _TWICE * deployment.num_gpus}
    way = Choice(f"cp {wider.cp}: prompts split over {_TWICE} times the GPUs", changes)
    yield Lever("context parallel prefill", (way,), excludes="more GPUs")


def _separate_pools(start: Start) -> Lever:
    kind, deployment = "separate pools", start.prediction.deployment
    if deployment.num_gpus == 1:
        return Lever(kind, reason="one GPU cannot be two pools")
    if start.prediction.workload.cache is not None:
        return Lever(kind, reason="pools take a prefix that is always there, no rate of hits")
    ways = tuple(
        Choice(name, pools) for name, pools in splits(start.options["gpu"], deployment.plan, int(deployment.replicas))
    )
    return Lever(kind, ways, reason=None if ways else "one replica of this plan cannot be divided")


def _smaller_images(start: Start) -> Iterator[Lever]:
    """Images and frames of half the width and height."""
    media = start.prediction.deployment.media
    if media is not None and (media.images or media.video_frames) and min(media.size) >= _TWICE:
        size = f"{media.size[0] // _TWICE}x{media.size[1] // _TWICE}"
        quality = f"the model sees less of the images: {CHECK}"
        yield Lever("smaller images", (Choice(f"images of {size}", {"image_size": size}),), quality)


def _shorter_answers(start: Start) -> Lever:
    osl = start.prediction.workload.osl
    if osl <= 1.0:
        return Lever("shorter answers", reason="an answer is one token")
    if start.options.get("lengths") not in (None, *LAWS):
        return Lever("shorter answers", reason="lengths are those of a trace; shorten its answers")
    shorter = max(round(_SHORTER * osl), 1)
    quality = f"answers end sooner: {CHECK}"
    return Lever("shorter answers", (Choice(f"answers of {shorter} tokens", {"osl": shorter}),), quality)


def _budgets(start: Start) -> Iterator[Lever]:
    """Half and twice the token budget of a step, and the sequences of a rank."""
    engine = start.prediction.deployment.engine
    for kind, name, what in (
        ("token budget", "max_num_batched_tokens", "tokens a step"),
        ("batch budget", "max_num_seqs", "sequences a rank"),
    ):
        now = getattr(engine, name)
        if now is None:
            yield Lever(kind, reason=f"{engine.name} has no limit of {what}")
            continue
        values = [value for value in (now // _TWICE, now * _TWICE) if value >= 1]
        yield Lever(kind, tuple(Choice(f"{value} {what}", {name: value}) for value in values))


def _lighter_load(start: Start) -> Lever:
    load = start.prediction.workload.load
    lighter = _LIGHTER * float(load.amount)
    return Lever("headroom", (Choice(f"{load.words(rounded(lighter))} (-20%)", {load.option: lighter}),))
