"""Lengths, load, engine and routing of a case: parsed, checked, and described in notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from roofline.api.inputs.arguments import PLAIN, refuse_masked, scalar
from roofline.api.inputs.cache import with_cache
from roofline.api.inputs.texts import plain_value, tokens_of_prefix
from roofline.catalog.engines import engine_names, load_engine
from roofline.elements import all_of, any_of, largest_of, smallest_of
from roofline.errors import BadInput, shown
from roofline.ops import Real
from roofline.physics.efficiency import BASES, calibrated_set, measured_kind
from roofline.physics.forward import crossings
from roofline.physics.layers.kinds import mixer_kinds
from roofline.physics.plan import LEAST_SKEW, MOST_SKEW, Deployment
from roofline.quantity import BILLION, MICRO, MINUTE
from roofline.records import replace
from roofline.serving.latency import BURST, RATE, USERS, Workload
from roofline.serving.lengths import Lengths
from roofline.serving.limits import beyond, is_pressing, is_within
from roofline.serving.quantization import PRESETS, preset_name
from roofline.specs.engine import Engine
from roofline.specs.gpu import PCIE, Gpu
from roofline.specs.kernels import GEMM, MOE
from roofline.specs.prompt_cache import PromptCache

__all__ = [
    "BASES",
    "LEAST_RATE",
    "LOADS",
    "NUMBERS",
    "PRESETS",
    "engine",
    "engine_names",
    "is_pressing",
    "length_warnings",
    "preset_name",
    "routing_skew",
    "warnings",
    "workload",
]

#: Fields of a workload that may be arrays.
NUMBERS = ("isl", "osl", "batch", "prefix", USERS, RATE, "num_prompts")

_LONGEST = BILLION  # tokens or sequences; anything above is a mistake
#: Loads; a case states at most one.
LOADS = ("batch", USERS, RATE)
#: A rate that any server answers, the start of searches [1/s].
LEAST_RATE = MICRO
_LEAST = {"prefix": 0.0, RATE: 1.0 / BILLION}  # lower bounds; 1 for other numbers


def workload(
    isl: Real,
    osl: Real,
    batch: Real | None,
    prefix: Real,
    concurrency: Real | None = None,
    request_rate: Real | None = None,
    num_prompts: Real | None = None,
    lengths: Lengths | None = None,
    cold_start: tuple[float, float] | None = None,
    cache: PromptCache | None = None,
) -> Workload:
    """Lengths and load as floats or float64 arrays; a batch of 1 where no load is given."""
    if all(value is None for value in (concurrency, request_rate, num_prompts, lengths, cold_start, cache)):
        plain = _burst(isl, osl, 1.0 if batch is None else batch, prefix)
        if plain is not None:
            return plain
    loads = dict(zip(LOADS, (batch, concurrency, request_rate), strict=True))
    given_loads = [name for name, value in loads.items() if value is not None]
    if len(given_loads) > 1:
        raise BadInput(f"a case has one load; {' and '.join(given_loads)} are given; keep one")
    inputs = {"isl": isl, "osl": osl, "prefix": prefix, **{name: loads[name] for name in given_loads}}
    load = next((name for name in LOADS[1:] if name in inputs), None)
    for name, value in (("length distributions", lengths), ("cold starts", cold_start)):
        if value is not None and load is None:
            raise BadInput(f"{name} need a load; give concurrency or request_rate")
    if num_prompts is not None:
        if USERS not in inputs:
            raise BadInput("num_prompts needs concurrency, the users of the run")
        inputs["num_prompts"] = num_prompts
    if type(prefix) not in (int, float):
        isl = inputs["isl"] = _number("isl", isl)
        inputs["prefix"] = tokens_of_prefix(prefix, isl)
    values = {name: _number(name, value) for name, value in inputs.items()}
    for name, value in values.items():
        least = _LEAST.get(name, 1.0)
        if not (smallest_of(value) >= least and largest_of(value) <= _LONGEST):  # NaN fails both
            is_small = any_of(~(value >= least)) if hasattr(value, "shape") else not value >= least
            raise BadInput(f"{name} = {_plain_text(inputs[name])} must be {_bound(name, least, is_small=is_small)}")
    try:
        reaches = values["prefix"] <= values["isl"]
        sum(values.values())
    except ValueError as fault:
        names = ", ".join(values)
        raise BadInput(f"{names} do not broadcast together: {fault}") from None
    if num_prompts is not None and not all_of(values["num_prompts"] >= values[USERS]):
        raise BadInput(f"num_prompts = {shown(num_prompts)} must be at least concurrency = {shown(concurrency)}")
    if not all_of((values["prefix"] == 0.0) | (values["prefix"] >= 1.0)):
        raise BadInput(f"prefix = {shown(prefix)} is less than one token; write a share as 80%")
    if not all_of(reaches):
        raise BadInput(f"prefix = {shown(prefix)} must not exceed the prompt, isl = {shown(isl)}")
    uncached = Workload(
        values["isl"],
        values["osl"],
        values.get("batch", 1.0),
        values["prefix"],
        values.get(USERS),
        values.get(RATE),
        values.get("num_prompts"),
        lengths,
        cold_start,
    )
    return with_cache(uncached, cache)


def _burst(isl: Real, osl: Real, batch: Real, prefix: Real) -> Workload | None:
    """A burst of valid plain numbers; None for anything that needs the full checks."""
    for value in (isl, osl, batch, prefix):
        if type(value) is not int and type(value) is not float:
            return None
    has_room = 1.0 <= isl <= _LONGEST and 1.0 <= osl <= _LONGEST and 1.0 <= batch <= _LONGEST
    if has_room and (prefix == 0.0 or 1.0 <= prefix <= isl):
        return Workload(float(isl), float(osl), float(batch), float(prefix))
    return None


def routing_skew(routing: str | float) -> float | None:
    """Skew of the expert choice; None for uniform."""
    if routing == "uniform":
        return None
    try:
        value = float(routing)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"routing = {shown(routing)} must be uniform or a number") from None
    if not LEAST_SKEW <= value <= MOST_SKEW:
        bounds = f"between {LEAST_SKEW:g} and {MOST_SKEW:g}"
        raise BadInput(f"routing skew {shown(routing)} must be {bounds}, or uniform")
    return value


def engine(name: str, network: Any, specs: str | None = None, gpu: Gpu | None = None, **settings: Any) -> Engine:
    """Serving engine on a GPU with `network` and `settings` in place of its own; None keeps its default there.

    Without a GPU, defaults that depend on it stay open.
    """
    network = plain_value("network", network)
    if type(network) not in (float, int) or not 0.0 <= network <= MINUTE:
        raise BadInput(f"network = {shown(network)} must be a time in seconds, at most 60 s; write 0.08 for 80 ms")
    profile = load_engine(name, specs)
    if gpu is not None:
        profile = profile.on(gpu)
    changes: dict[str, Any] = {"network": float(network)} if network else {}
    for key, value in settings.items():
        if value is None:
            continue
        value = plain_value(key, value)  # noqa: PLW2901
        if key == "gpu_memory_utilization":
            if type(value) not in (float, int) or not 0.0 < value <= 1.0:
                raise BadInput(f"{key} = {shown(value)} must be a share of the memory, such as 0.92")
        elif type(value) not in (float, int) or not 1 <= value <= _LONGEST or value != int(value):
            unit = "sequences" if key == "max_num_seqs" else "tokens"
            raise BadInput(f"{key} = {shown(value)} must be a whole number of {unit}, at least 1")
        changes[key] = float(value) if key == "gpu_memory_utilization" else int(value)
    return replace(profile, **changes, stated=tuple(changes)) if changes else profile


def warnings(deployment: Deployment, requested: str, workload: Workload, *, is_open: bool = False) -> tuple[str, ...]:
    """Notes on assumptions, stand-ins and exceeded limits; `requested` is the basis before any fallback."""
    length = workload.isl + workload.osl
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    notes = [*model.cautions, *gpu.cautions, *deployment.quantization.notes]
    load = workload.batch if workload.load == BURST else getattr(workload, workload.load)
    if is_open and (workload.load != BURST or type(length + load) is not float):
        notes.append(f"tp = {plan.tp}: chosen for the load, and for the SLO where the number of GPUs is given")
    constant = deployment.memo.get((warnings, requested))
    if constant is None:
        constant = deployment.memo[warnings, requested] = tuple(map(tuple, _constant_notes(deployment, requested)))
    return (*notes, *constant[0], *length_warnings(deployment, workload), *constant[1])


def _constant_notes(deployment: Deployment, requested: str) -> Iterator[list[str]]:
    """Notes that hold for every case of a deployment: on its basis; on its links and kernels."""
    gpu, notes = deployment.gpu, []
    if requested == "calibrated" and deployment.basis == "ideal":
        notes.append(f"basis ideal: no calibration for {gpu.name}; times are the hardware limit, which no GPU reaches")
    if deployment.basis == "generic":
        notes.append(
            f"{gpu.name}: no kernels of its generation were timed; constants are medians of others, the range is wide"
        )
    yield notes
    notes = [*_link_warnings(deployment)]
    if gpu.exp_rate is None and deployment.basis != "ideal":
        notes.append(f"{gpu.name}: no special-function rate known; softmax exponentials count as free")
    yield [*notes, *_stand_ins(deployment)]


def _link_warnings(deployment: Deployment) -> Iterator[str]:
    """Notes on links that cross the scale-up domain, or whose speed is uncertain."""
    model, gpu, plan = deployment.model, deployment.gpu, deployment.plan
    ranks, link = max(plan.tp, plan.expert_ranks if model.is_moe else 1), gpu.link
    bridged = gpu.host_domain is not None and ranks > link.domain
    if deployment.basis != "ideal" and (bridged or (link.kind == PCIE and plan.tp * plan.dp > 1)):
        beyond = f" beyond the {link.domain}-GPU {link.kind} bridge" if bridged else ""
        yield f"{gpu.name}: collectives{beyond} run over PCIe; their time depends on the server and is uncertain"
    others = f"; in other nodes: {', '.join(gpu.other_nodes)}" if gpu.other_nodes else ""
    if ranks > gpu.node:
        yield f"{gpu.name}: {ranks} ranks exceed its {gpu.node}-GPU {gpu.node_link} domain and use the network{others}"
    elif ranks > 1 and others:
        yield f"{gpu.name}: {ranks} ranks of a node that joins {gpu.node} GPUs by {gpu.node_link}{others}"
    if crossings(plan, gpu.node):
        yield f"{gpu.name}: {crossings(plan, gpu.node):.0f} of {plan.pp - 1} pipeline hand-overs cross the network"


def length_warnings(deployment: Deployment, workload: Workload) -> list[str]:
    """Notes on lengths beyond those of the calibration or of the model's positions."""
    if is_within(deployment, workload):
        return []
    return [note for exceeds, note in beyond(deployment, workload) if any_of(exceeds)]


def _plain_text(value: Any) -> str:
    return f"{value:.0f}" if type(value) is float and value.is_integer() else shown(value)


def _bound(name: str, least: float, *, is_small: bool) -> str:
    """The bound that a number violates."""
    if not is_small:
        return f"at most {_LONGEST:,.0f}"
    return "above 0 requests/s" if name == "request_rate" else f"at least {least:g}"


def _number(name: str, value: Any) -> Real:
    if type(value) is float or type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise BadInput(f"{name} = {shown(value)} must be {_bound(name, 1.0, is_small=False)}") from None
    refuse_masked(name, value)
    number = plain_value(name, scalar(value))
    if type(number) is float or type(number) is int:
        return _number(name, number)
    if type(number) in PLAIN or isinstance(value, (bytes, bytearray, memoryview)):
        raise BadInput(f"{name} = {shown(value)} must be a number or an array of numbers")
    from roofline.arrays import as_array

    if isinstance(value, (list, tuple)) and any(isinstance(item, str) for item in value):
        value = [plain_value(name, item) for item in value]
    return as_array(name, value)


def _stand_ins(deployment: Deployment) -> list[str]:
    """Notes on kernels that were not measured on this generation, and what replaces them."""
    calibration = deployment.gpu.calibration
    if deployment.basis in ("ideal", "generic") or calibration is None:
        return []  # a generic calibration consists of stand-ins
    notes = []
    sets, sections = calibration.kernels, deployment.quantization.sections
    used = dict.fromkeys((GEMM, sections[name].key) for name in ("linear", "attention"))
    if deployment.model.is_moe:
        used[MOE, sections["experts"].key] = None
    for kind, key in used:
        _, measured_key = calibrated_set(sets, kind, key)
        if measured_key != key:
            notes.append(f"no {key} {kind.name} kernels measured on {calibration.name}: {measured_key} parameters used")
    for kind in mixer_kinds(mixer for _, mixer in deployment.model.mixers):
        instead = measured_kind(sets, kind)
        if instead is not kind:
            notes.append(f"no {kind.name} kernels measured on {calibration.name}: {instead.name} parameters used")
    return notes
