"""Settings of a case as the serving engines spell them: one table, for commands that are written and that are read."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from roofline.catalog.find import engines_with_arguments, load_arguments
from roofline.physics.plan import DEEPEP, PER_NODE, Deployment
from roofline.serving.quantization import summary
from roofline.specs.arguments import Argument, Arguments
from roofline.specs.versions import place_of
from roofline.support.errors import BadInput, UnknownName, shown
from roofline.support.records import NamedTuple

#: Setting of a case -> argument of each engine; names with dots or without dashes stand in a file of settings.
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "tp": {"vllm": "--tensor-parallel-size", "sglang": "--tp-size", "trtllm": "--tp_size"},
    "pp": {"vllm": "--pipeline-parallel-size", "sglang": "--pp-size", "trtllm": "--pp_size"},
    "dp": {"vllm": "--data-parallel-size", "sglang": "--attn-dp-size", "trtllm": "enable_attention_dp"},
    "cp": {"vllm": "--prefill-context-parallel-size", "sglang": "--attn-cp-size"},
    "dcp": {"vllm": "--decode-context-parallel-size", "sglang": "--dcp-size"},
    "ranks": {"sglang": "--dp-size"},  # before SGLang 0.5.22, with the switch that shares the experts among them
    "attention_dp": {"sglang": "--enable-dp-attention"},
    "ep": {"vllm": "--enable-expert-parallel", "sglang": "--ep-size", "trtllm": "--ep_size"},
    "enable_eplb": {"vllm": "--enable-eplb", "sglang": "--enable-eplb"},
    "eplb": {"vllm": "--eplb-config", "sglang": "--ep-num-redundant-experts"},
    "two_batch_overlap": {"vllm": "--enable-dbo", "sglang": "--enable-two-batch-overlap"},
    "all_to_all": {"vllm": "--all2all-backend", "sglang": "--moe-a2a-backend"},
    "max_num_seqs": {"vllm": "--max-num-seqs", "sglang": "--max-running-requests", "trtllm": "--max_batch_size"},
    "max_num_batched_tokens": {
        "vllm": "--max-num-batched-tokens", "sglang": "--chunked-prefill-size", "trtllm": "--max_num_tokens",
    },
    "max_model_len": {"vllm": "--max-model-len", "sglang": "--context-length", "trtllm": "--max_seq_len"},
    "gpu_memory_utilization": {
        "vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static",
        "trtllm": "--kv_cache_free_gpu_memory_fraction",
    },
    "weights": {"vllm": "--quantization", "sglang": "--quantization"},
    "kv_cache_dtype": {"vllm": "--kv-cache-dtype", "sglang": "--kv-cache-dtype", "trtllm": "kv_cache_config.dtype"},
    "draft": {
        "vllm": "--speculative-config", "sglang": "--speculative-algorithm",
        "trtllm": "speculative_config.decoding_type",
    },
    "prefix": {
        "vllm": "--enable-prefix-caching", "sglang": "--disable-radix-cache",
        "trtllm": "kv_cache_config.enable_block_reuse",
    },
    "chunked": {"trtllm": "enable_chunked_prefill"},
    "enforce_eager": {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"},
}  # fmt: skip

#: Engine -> format that it makes of a 16-bit checkpoint while loading it: first version, and how it is told to. A
#: checkpoint that is quantized already is told by nothing: engines read its format from it, and refuse another.
ONLINE: Mapping[str, Mapping[str, tuple[tuple[str, str], ...]]] = {
    "vllm": {
        "fp8": (("0", "fp8"), ("0.31", "fp8_per_tensor")),
        "fp8_block": (("0.20", "fp8_per_block"),),
        "mxfp4": (("0.28", "mxfp4"),),
    },
    "sglang": {"fp8": (("0", "fp8"),)},
}
#: Value of ``--quantization`` -> format of the weights.
_WEIGHTS: Mapping[str, str] = {
    "fp8": "fp8", "fp8_per_tensor": "fp8", "fp8_per_channel": "fp8", "w8a8_fp8": "fp8", "ptpc_fp8": "fp8",
    "fbgemm_fp8": "fp8", "fp8_per_block": "fp8_block", "modelopt": "fp8_static", "modelopt_fp8": "fp8_static",
    "awq": "int4", "awq_marlin": "int4", "gptq": "int4", "gptq_marlin": "int4", "moe_wna16": "int4",
    "auto-round": "int4", "bitsandbytes": "int4", "modelopt_fp4": "nvfp4", "nvfp4": "nvfp4", "petit_nvfp4": "nvfp4",
    "mxfp4": "mxfp4", "gpt_oss_mxfp4": "mxfp4", "w8a8_int8": "int8", "experts_int8": "int8",
}  # fmt: skip
#: Format of the KV cache -> its name in each engine.
CACHES: Mapping[str, Mapping[str, str]] = {
    "vllm": {"fp8": "fp8", "bf16": "bfloat16", "fp16": "float16"},
    "sglang": {"fp8": "fp8_e4m3", "bf16": "bf16"},
    "trtllm": {"fp8": "fp8"},
}  # fmt: skip
#: Engine -> exchange of tokens with experts -> its name there; the plain one is left to the engine.
EXCHANGES: Mapping[str, Mapping[str, str]] = {
    "vllm": {PER_NODE: "deepep_high_throughput"},
    "sglang": {DEEPEP: "deepep", PER_NODE: "deepep"},
}
#: Key of vLLM's --eplb-config.
REDUNDANT = "num_redundant_experts"
_ALSO_CACHES: Mapping[str, str] = {
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8", "fp8_ds_mla": "fp8", "bfloat16": "bf16", "bf16": "bf16",
    "float16": "fp16", "fp8": "fp8",
}  # fmt: skip
#: Stands for the path of a draft head, which the case does not name.
HEAD = "EAGLE_HEAD"


class Target(NamedTuple):
    """An engine in a version whose arguments are known."""

    engine: str  # vllm, sglang or trtllm
    version: str  # whose arguments hold
    table: Arguments
    asked: str = ""  # version that was asked for; empty: none was, and it is the newest

    @property
    def title(self) -> str:
        return f"{self.table.title} {self.version}"

    def argument(self, setting: str) -> Argument | None:
        """The argument that states a setting; None where this version has none."""
        name = ARGUMENTS.get(setting, {}).get(self.engine)
        found = None if name is None else self.table.arguments.get(name)
        return found if found is not None and found.is_known_to(self.version) else None


def target_of(engine: str) -> Target:
    """The engine of a name such as ``vllm@0.25``; the newest version where none is named."""
    family, _, asked = {"trtllm-1.0": "trtllm@1.0"}.get(engine.strip(), engine).partition("@")
    known = engines_with_arguments()
    family = {"sgl": "sglang", "tensorrt-llm": "trtllm"}.get(family.strip(), family.strip())
    if family not in known:
        raise UnknownName(f"no command is known for engine {shown(engine)}; those known: {', '.join(known)}")
    table = load_arguments(family)
    asked = asked.strip().removeprefix("v")
    return Target(family, table.version_of(asked), table, asked)


def weights_of(value: str) -> str | None:
    """Format of the weights that an engine's value of ``--quantization`` stands for; None where it does not say."""
    return _WEIGHTS.get(value)


def with_version(target: Target) -> str:
    """Name of the profile of an engine, in the version that was asked for, whose kernels and defaults hold then."""
    return f"{target.engine}@{target.asked}" if target.asked else target.engine


def title_name(target: Target) -> str:
    """Name of the profile that the title of a text stands for: without a version where that is the newest."""
    is_newest = target.version == target.table.version_of("")
    return target.engine if is_newest else f"{target.engine}@{target.version}"


def check_name(model: str) -> None:
    """Refuse a name that a program would read as one of its options."""
    if model.startswith("-"):
        raise BadInput(f"model {shown(model)}: a name that begins with - is read as an option; give it another name")


def online_name(target: Target, form: str | None) -> str | None:
    """How an engine is told to make a format of a 16-bit checkpoint; None where it cannot."""
    names = ONLINE.get(target.engine, {}).get(form or "", ())
    held = [name for first, name in names if place_of(first) <= place_of(target.version)]
    return held[-1] if held else None


def cache_of(value: str) -> str | None:
    """Format of the KV cache that an engine's value stands for; None for the checkpoint's own."""
    if value == "auto":
        return None
    if value not in _ALSO_CACHES:
        raise BadInput(f"KV cache format {shown(value)} has no counterpart here; known: {', '.join(_ALSO_CACHES)}")
    return _ALSO_CACHES[value]


class Stated(NamedTuple):
    """A setting as an engine takes it."""

    setting: str
    argument: Argument
    value: Any  # True for a switch


def stated(target: Target, values: Mapping[str, Any]) -> Iterator[Stated]:
    """Settings of a case in the arguments of an engine, in the order of the table; what has none is left out.

    `values` are those of a case: degrees, max_num_seqs and the like, formats of weights and KV cache, a draft with its
    tokens.
    """
    tp, dp, ep, cp, dcp = (int(values.get(name) or 1) for name in ("tp", "dp", "ep", "cp", "dcp"))
    ranks = tp * dp * cp
    engine = target.engine
    for setting in ARGUMENTS:
        argument = target.argument(setting)
        if argument is None:
            continue
        value = values.get(setting)
        if setting == "tp":
            value = tp if engine == "vllm" else ranks
        elif setting == "dp":
            value = dp if engine != "trtllm" else dp > 1 or None
        elif setting in {"cp", "dcp"}:
            value = {"cp": cp, "dcp": dcp}[setting]
            value = None if value == 1 else value
        elif setting == "ranks":
            value = dp if target.argument("dp") is None else None
        elif setting == "attention_dp":
            value = (dp > 1 or None) if target.argument("dp") is None else None
        elif setting == "ep":
            value = (ep > 1 or None) if engine == "vllm" else ep
        elif setting == "enable_eplb":
            value = None if values.get("eplb") is None else True
        elif setting == "eplb" and value is not None:
            value = int(value) or None
            value = json.dumps({REDUNDANT: value}) if engine == "vllm" and value else value
        elif setting == "all_to_all":
            value = EXCHANGES.get(engine, {}).get(str(value))
        elif setting in {"max_num_seqs", "max_num_batched_tokens"} and value is not None:
            value = int(value) * (dp if engine == "sglang" else 1)
        elif setting == "weights":
            value = online_name(target, value) if values.get("is_sixteen_bit") else None
        elif setting == "kv_cache_dtype":
            value = CACHES[engine].get(value or "")
        elif setting == "draft":
            yield from _drafting(target, argument, values)
            continue
        elif setting == "prefix":
            continue
        if value is not None and value is not False:
            yield Stated(setting, argument, value)


def fault_of(target: Target, values: Mapping[str, Any]) -> str | None:
    """Why an engine cannot be told to run a case; None where it can."""
    tp, dp, ep, cp, dcp = (int(values.get(name) or 1) for name in ("tp", "dp", "ep", "cp", "dcp"))
    if target.engine == "vllm" and ep not in {1, tp * dp * cp}:
        return f"{target.title} has experts on one rank or on all {tp * dp * cp}, not ep {ep}"
    for name, degree in (("cp", cp), ("dcp", dcp)):
        if degree > 1 and target.argument(name) is None:
            return f"{target.title} has no option here for {name} {degree}"
    if target.engine == "trtllm" and dp > 1 and tp > 1:
        return f"{target.title} has attention on every rank or shared by all, not tp {tp} beside dp {dp}"
    cache = values.get("kv_cache_dtype")
    if cache is not None and cache not in CACHES[target.engine]:
        known = ", ".join(CACHES[target.engine])
        return f"{target.title} has no KV cache in {cache} here; it takes {known}, or the model's own format"
    return None


def _drafting(target: Target, argument: Argument, values: Mapping[str, Any]) -> Iterator[Stated]:
    """Speculative decoding in the arguments of an engine."""
    method, tokens, model = values.get("draft"), int(values.get("draft_tokens") or 0), values.get("draft_model")
    if method is None:
        return
    named = HEAD if method == "eagle" else model
    if target.engine == "vllm":
        config: dict[str, Any] = {"method": _method_of_vllm(target, str(method)), "num_speculative_tokens": tokens}
        if named is not None:
            config["model"] = named
        yield Stated("draft", argument, json.dumps({key: value for key, value in config.items() if value is not None}))
        return
    names = target.table.arguments
    if target.engine == "sglang":
        algorithm = _ALGORITHMS[str(method)]
        argument.value(algorithm, target.version)
        yield Stated("draft", argument, algorithm)
        if named is not None:
            yield Stated("draft", names["--speculative-draft-model-path"], named)
        if method == "ngram":
            yield Stated("draft", names["--speculative-num-draft-tokens"], tokens + 1)
            return
        yield Stated("draft", names["--speculative-num-steps"], tokens)
        yield Stated("draft", names["--speculative-eagle-topk"], 1)
        yield Stated("draft", names["--speculative-num-draft-tokens"], tokens + 1)
        return
    is_late = place_of(target.version) >= place_of(_EAGLE3_OF_TRTLLM)
    kinds = {"mtp": "MTP", "eagle": "Eagle3" if is_late else "Eagle", "ngram": "NGram", "model": "DraftTarget"}
    yield Stated("draft", argument, kinds[str(method)])
    length = "num_nextn_predict_layers" if method == "mtp" else "max_draft_len"
    yield Stated("draft", names[f"speculative_config.{length}"], tokens)
    if method == "ngram":
        yield Stated("draft", names["speculative_config.max_matching_ngram_size"], _NGRAM)
    if named is not None:
        yield Stated("draft", names["speculative_config.speculative_model_dir"], named)


_ALGORITHMS = {"mtp": "NEXTN", "eagle": "EAGLE3", "ngram": "NGRAM", "model": "STANDALONE"}
_EAGLE3_OF_TRTLLM = "1.3"
_NGRAM = 2  # [tokens] that are searched for


def _method_of_vllm(target: Target, method: str) -> str | None:
    """Name of a draft in a version of vLLM; None where it follows from the model."""
    place = place_of(target.version)
    if method == "mtp":
        return "mtp" if place >= place_of("0.11") else "deepseek_mtp" if place >= place_of("0.9") else None
    if method == "eagle":
        return "eagle3" if place >= place_of("0.9") else "eagle"
    if method == "model" and place_of("0.10") <= place < place_of("0.16"):
        raise BadInput(f"{target.title} runs no draft models; versions up to 0.9 and from 0.16 on do")
    return {"model": "draft_model"}.get(method, method)


#: Names of drafts in the engines' settings -> method here.
METHODS_READ: Mapping[str, str] = {
    "mtp": "mtp", "deepseek_mtp": "mtp", "nextn": "mtp", "mtpdecoding": "mtp", "eagle": "eagle", "eagle3": "eagle",
    "ngram": "ngram", "draft_model": "model", "standalone": "model", "drafttarget": "model", "draft_target": "model",
}  # fmt: skip


def settings_of(deployment: Deployment) -> dict[str, Any]:
    """Settings of a deployment under the names of the table; None where the checkpoint's own format is kept."""
    model, plan, engine, draft = deployment.model, deployment.plan, deployment.engine, deployment.draft
    weights, cache, _ = summary(model, deployment.quantization)
    native = model.native["experts" if model.is_moe else "linear"]
    drafted: dict[str, Any] = {}
    if draft is not None:
        drafted = {"draft": draft.method, "draft_tokens": draft.tokens}
        if draft.method == "model" and draft.model is not None:
            drafted["draft_model"] = draft.model.name
    return {
        "tp": plan.tp,
        "pp": plan.pp,
        "dp": plan.dp,
        "ep": plan.ep,
        "eplb": deployment.spread.redundant,
        "two_batch_overlap": deployment.spread.two_batches or None,
        "all_to_all": deployment.spread.exchange,
        "cp": plan.cp,
        "dcp": plan.dcp,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "max_model_len": engine.max_model_len,
        "gpu_memory_utilization": engine.gpu_memory_utilization,
        "chunked": engine.max_num_batched_tokens is not None or None,
        "weights": None if weights == native else weights,
        "is_sixteen_bit": native in {"bf16", "fp16"},
        "kv_cache_dtype": None if cache == model.native["kv"] else cache,
        **drafted,
    }


# The options of an engine beside a piece of advice.

#: Engine whose options are named where a case names none.
ADVISED = "vllm"
#: Setting of prefix caches beyond the GPU's memory, by tier.
_TIERS: Mapping[str, Mapping[str, str]] = {
    "host": {"vllm": "--kv-offloading-size", "sglang": "--enable-hierarchical-cache"},
    "nvme": {"vllm": "--kv-transfer-config", "sglang": "--hicache-storage-backend"},
    "network": {"vllm": "--kv-transfer-config", "sglang": "--hicache-storage-backend"},
}
#: Cause of a slower server -> settings that decide it.
_OF_CAUSES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "graphs": {
        "vllm": ("--enforce-eager",), "sglang": ("--disable-cuda-graph", "--cuda-graph-max-bs"),
        "trtllm": ("cuda_graph_config.enable_padding",),
    },
    "chunk": {
        "vllm": ("--max-num-batched-tokens",), "sglang": ("--chunked-prefill-size",), "trtllm": ("--max_num_tokens",),
    },
    "cache format": {
        "vllm": ("--kv-cache-dtype",), "sglang": ("--kv-cache-dtype",), "trtllm": ("kv_cache_config.dtype",),
    },
    "drafts": {
        "vllm": ("--speculative-config",), "sglang": ("--speculative-algorithm",),
        "trtllm": ("speculative_config.decoding_type",),
    },
    "host": {"vllm": ("--enforce-eager", "--async-scheduling"), "sglang": ("--disable-cuda-graph",)},
    "batch limit": {
        "vllm": ("--max-num-seqs",), "sglang": ("--max-running-requests",), "trtllm": ("--max_batch_size",),
    },
    "cache": {
        "vllm": ("--enable-prefix-caching",), "sglang": ("--disable-radix-cache",),
        "trtllm": ("kv_cache_config.enable_block_reuse",),
    },
    "queue": {
        "vllm": ("--max-num-batched-tokens", "--max-num-seqs"),
        "sglang": ("--chunked-prefill-size", "--max-running-requests"),
        "trtllm": ("--max_num_tokens", "--max_batch_size"),
    },
    "attention": {
        "vllm": ("--attention-backend",), "sglang": ("--attention-backend",), "trtllm": ("attn_backend",),
    },
    "linear layers": {"vllm": ("--quantization",), "sglang": ("--quantization",)},
    "experts": {
        "vllm": ("--moe-backend", "--enable-expert-parallel"), "sglang": ("--moe-runner-backend", "--ep-size"),
        "trtllm": ("moe_config.backend", "--ep_size"),
    },
    "expert exchange": {"vllm": ("--all2all-backend",), "sglang": ("--moe-a2a-backend",)},
    "all-reduces": {"vllm": ("--disable-custom-all-reduce",), "sglang": ("--disable-custom-all-reduce",)},
    "kernels": {"vllm": ("--attention-backend", "--quantization"), "sglang": ("--attention-backend", "--quantization")},
}  # fmt: skip


def advisor(engine: str) -> Target:
    """The engine of a case, else that of `ADVISED`, in the nearest version whose arguments are known."""
    try:
        return target_of(engine)
    except UnknownName:
        family = engine.partition("@")[0]
        return target_of(family if family in engines_with_arguments() else ADVISED)


def _texts(target: Target, values: Mapping[str, Any]) -> list[str]:
    """Settings of a case as they are typed."""
    return [typed(each) for each in stated(target, values)]


def typed(each: Stated) -> str:
    if each.value is True:
        return each.argument.name
    value = f"{each.value:g}" if isinstance(each.value, float) else str(each.value)
    if each.argument.name.startswith("-"):
        return f"{each.argument.name} {shlex.quote(value)}"
    return f"{each.argument.name}: {value}"


def changed_flags(before: Deployment, after: Deployment) -> list[str]:
    """Options of the engine in which a deployment differs from another."""
    target = advisor(after.engine.name)
    try:
        old = _texts(target, settings_of(before))
        return [text for text in _texts(target, settings_of(after)) if text not in old]
    except BadInput:  # drafts that this version has no words for
        return []


def launch_flags(deployment: Deployment) -> list[str]:
    """Options of the engine that a deployment states beyond a plan of one GPU and the engine's own settings."""
    target = advisor(deployment.engine.name)
    asked = {name: value for name, value in settings_of(deployment).items() if name in _ALWAYS}
    asked |= {name: getattr(deployment.engine, name) for name in deployment.engine.stated if name in ARGUMENTS}
    plain = {"tp": 1, "pp": 1, "dp": 1, "ep": 1}
    try:
        unsaid = _texts(target, plain)
        return [text for text in _texts(target, asked) if text not in unsaid]
    except BadInput:
        return []


_ALWAYS = (
    "tp",
    "pp",
    "dp",
    "ep",
    "eplb",
    "two_batch_overlap",
    "all_to_all",
    "cp",
    "dcp",
    "weights",
    "is_sixteen_bit",
    "kv_cache_dtype",
    "draft",
    "draft_tokens",
    "draft_model",
)


def cache_flags(engine: str, tier: str) -> list[str]:
    """Options of the engine that keep prefixes in a tier."""
    target = advisor(engine)
    argument = target.argument("prefix")
    if tier == "hbm":
        if argument is None or target.engine == "sglang":  # which has a switch to turn it off alone
            return []
        return [f"{argument.name} (on by default)"]
    name = _TIERS.get(tier, {}).get(target.engine)
    found = None if name is None else target.table.arguments.get(name)
    return [found.name] if found is not None and found.is_known_to(target.version) else []


def cause_flags(engine: str, cause: str) -> list[str]:
    """Options of the engine that decide what a cause names."""
    target = advisor(engine)
    names = _OF_CAUSES.get(cause, {}).get(target.engine, ())
    found = (target.table.arguments.get(name) for name in names)
    return [one.name for one in found if one is not None and one.is_known_to(target.version)]


def pool_flags(engine: str) -> list[str]:
    """Options of the engine that make a server a prefill or a decode pool."""
    target = advisor(engine)
    names = {"vllm": ("--kv-transfer-config",), "sglang": ("--disaggregation-mode",), "trtllm": ("--server_role",)}
    found = (target.table.arguments.get(name) for name in names[target.engine])
    return [one.name for one in found if one is not None and one.is_known_to(target.version)]
