"""Whether a serving engine starts on a GPU: what its memory goes to, what its log says, and what avoids its error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.catalog.find import gpu_names
from roofline.numbers.quantity import GIBI, KIBI
from roofline.physics.memory import StartUpMemory, start_up_memory
from roofline.physics.plan import Deployment
from roofline.physics.start_up import logged_tokens, request_bytes
from roofline.questions.inputs.arguments import each_model, plain_options, scalar, without
from roofline.questions.inputs.deployment import choice, gpu_of
from roofline.questions.inputs.flags import Stated, Target, settings_of, stated, target_of, typed, with_version
from roofline.questions.inputs.options import understood
from roofline.questions.predict import OneGpu, on_each_gpu, predict
from roofline.serving.answers import Answer, Answers, selected
from roofline.serving.knee import check_count, plan_fault
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import resolved_quantization, summary
from roofline.serving.row_types import FitRow
from roofline.serving.shown import KEYS
from roofline.serving.verdict import FAIL, HALF_WIDTH, LIKELY, PASS, UNLIKELY
from roofline.specs.engine import OF_ALL, OF_FREE, OF_REST
from roofline.specs.gpu import ANNOUNCED, Gpu
from roofline.specs.keys import Key, Keys, cells, taken
from roofline.specs.model import Mla, Model
from roofline.specs.written import DEGREES
from roofline.support.errors import BadInput, RooflineError
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import FitOptions

#: The engine that is asked about where none is named.
USUAL_ENGINE = "vllm"
_LONGEST = 131_072  # [tokens] where a model states no limit
_MOST_SEQUENCES = 65_536
_ANY = 0.5  # acceptance of a draft, which does not matter before the first request
_SHARES = (0.95,)  # of the memory, that engines are given where they need more; beyond it steps run out of memory
_FEWER_SEQUENCES = (512, 256, 128, 64, 32, 16)
_SMALLER_BUDGETS = (8 * KIBI, 4 * KIBI, 2 * KIBI, KIBI)
_SHORTEST = KIBI  # [tokens] of a request, below which a shorter limit is no remedy
_ENOUGH = float(KIBI)  # [tokens] that SGLang and TensorRT-LLM need to start
#: Formats that are tried where the checkpoint's own does not fit, the widest first.
_FORMATS = ("fp8", "int4", "nvfp4")
_DEGREES = (2, 4, 8, 16)  # tensor-parallel degrees that are tried
_NARROWER = 0.9  # of the bytes of a weight, that another format must go below to be worth a name
#: Standard deviation of the memory that is left for the KV cache, measured less computed: of what the engine takes
#: beside the weights, and of the weights (accuracy/start_up_rows.py).
_SIGMA_FIXED, _SIGMA_WEIGHTS = 0.4 * GIBI, 0.005


def _gib(name: str, meaning: str) -> Key[Fit]:
    return Key.number("GiB", meaning, lambda fit: None if fit.memory is None else getattr(fit.memory, name) / GIBI)


#: Keys of a row.
FIT_KEYS: Keys[Fit] = {
    **taken(
        KEYS,
        model=lambda fit: fit.model.short_name,
        model_id=lambda fit: fit.model.name,
        gpu=lambda fit: fit.gpu.name,
        num_gpus=lambda fit: _degree(fit, "num_gpus"),
        tp=lambda fit: _degree(fit, "tp"),
        pp=lambda fit: _degree(fit, "pp"),
        ep=lambda fit: _degree(fit, "ep"),
        dp=lambda fit: _degree(fit, "dp"),
        engine=lambda fit: f"{fit.target.engine}@{fit.target.version}",
        weight_dtype=lambda fit: fit.formats[0],
        kv_cache_dtype=lambda fit: fit.formats[1],
    ),
    "start_verdict": Key.text(
        "Whether the engine starts: pass, pass? or fail? where the 80 % range of its memory includes the limit, fail.",
        lambda fit: fit.verdict,
    ),
    "start_error": Key.text("What the engine prints where it does not start.", lambda fit: fit.error),
    "remedies": Key.texts("Options of the engine; each entry alone makes it start.", lambda fit: list(fit.remedies)),
    "max_model_len": Key.number("tokens", "Longest request that is asked for.", lambda fit: fit.length),
    "max_num_seqs": Key.number("sequences", "Most sequences at once.", lambda fit: _setting(fit, "max_num_seqs")),
    "max_num_batched_tokens": Key.number(
        "tokens", "Token budget of a step.", lambda fit: _setting(fit, "max_num_batched_tokens")
    ),
    "gpu_memory_utilization": Key.number(
        "1", "Share of the memory that the engine may use.", lambda fit: _setting(fit, "gpu_memory_utilization")
    ),
    "total_gib": _gib("total", "Memory of the GPU, as the engine's process sees it."),
    "weights_gib": _gib("weights", "Weights on the fullest GPU."),
    "activations_gib": _gib("activations", "Activations of a pass over the token budget, or copies of the logits."),
    "graphs_gib": _gib("graphs", "CUDA graphs."),
    "other_gib": _gib("other", "CUDA context, workspaces and communication buffers."),
    "kv_cache_gib": _gib("kv_cache", "Memory left for the KV cache; negative where nothing is."),
    "kv_cache_low_gib": Key.number("GiB", "Lower end of its 80 % interval.", lambda fit: _end(fit, -1.0)),
    "kv_cache_high_gib": Key.number("GiB", "Upper end of its 80 % interval.", lambda fit: _end(fit, 1.0)),
    "kv_tokens": Key.number("tokens", "KV tokens that the log counts.", lambda fit: fit.tokens),
    "max_concurrency": Key.number(
        "1", "Requests of `max_model_len` tokens that they hold: maximum concurrency of the log."
    ),
    "largest_max_model_len": Key.number("tokens", "The largest `max_model_len` with which it starts."),
    "largest_max_num_seqs": Key.number("sequences", "The largest `max_num_seqs` with which it starts."),
    "log": Key.texts("Lines that the log will have.", lambda fit: list(fit.log)),
    "smallest_gpu": Key.text("The GPU with the least memory, one of which is enough.", lambda fit: fit.smallest),
    "widest_format": Key.text("The widest format of the weights with which it starts here.", lambda fit: fit.widest),
}


def _degree(fit: Fit, name: str) -> int | None:
    """A degree of the plan."""
    return None if fit.deployment is None else int(getattr(fit.deployment.plan, name))


def _setting(fit: Fit, name: str) -> float | None:
    """A setting of the engine."""
    value = None if fit.deployment is None else getattr(fit.deployment.engine, name)
    return None if value is None else float(value)


def _end(fit: Fit, side: float) -> float | None:
    """An end of the 80 % interval of the memory that is left [GiB]."""
    return None if fit.memory is None else (fit.memory.kv_cache + side * HALF_WIDTH * fit.sigma) / GIBI


@dataclass(frozen=True, repr=False)
class Fit(Answer[FitRow]):
    """A serving engine that starts on one kind of GPU, or does not.

    >>> import roofline as rl
    >>> fit = rl.fits("llama-3.1-8b", "l4", engine="vllm@0.19", max_model_len="8k")[0]
    >>> fit.verdict, fit.starts, fit.error
    ('pass', True, None)
    >>> fit.largest_max_model_len > 8192, fit.to_dict(["gpu", "start_verdict"])
    (True, {'gpu': 'l4', 'start_verdict': 'pass'})
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    target: Target = field(repr=False)
    deployment: Deployment | None = field(default=None, repr=False)
    length: float | None = None  # [tokens] of the longest request
    memory: StartUpMemory[float] | None = field(default=None, repr=False)
    request: float = 0.0  # [B] KV cache of the longest request
    tokens: float | None = None  # KV tokens of the log
    error: str | None = None  # what the engine prints; None where it starts
    remedies: tuple[str, ...] = ()
    largest_max_model_len: float | None = None
    largest_max_num_seqs: float | None = None
    smallest: str | None = None
    widest: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def starts(self) -> bool:
        """Whether the engine starts, by the central estimate."""
        return self.error is None

    @property
    def sigma(self) -> float:
        """Standard deviation of the memory that is left for the KV cache [B]."""
        weights = 0.0 if self.memory is None else self.memory.weights
        return _SIGMA_FIXED + _SIGMA_WEIGHTS * weights

    @property
    def verdict(self) -> str:
        """Certain where the 80 % interval is clear of the limit and such starts were measured; else with a `?`."""
        if self.memory is None or self.memory.weights > self.memory.total:
            return FAIL
        room = self.memory.kv_cache - self.needed
        is_measured = self.gpu.vendor.lower() == _MEASURED and self.target.engine == USUAL_ENGINE
        is_clear = abs(room) > HALF_WIDTH * self.sigma and is_measured
        if self.starts:
            return PASS if is_clear else LIKELY
        return FAIL if is_clear or room > 0.0 else UNLIKELY

    @property
    def needed(self) -> float:
        """KV cache that the engine must have to start [B]."""
        if self.deployment is None:
            return 0.0
        return _needed(self.deployment, self.request, self.length or _ENOUGH)

    @property
    def max_concurrency(self) -> float | None:
        """Requests of the longest length that the KV cache holds [1]."""
        if self.memory is None:
            return None
        return max(self.memory.kv_cache, 0.0) / self.request if self.request > 0.0 else None

    @property
    def formats(self) -> tuple[str | None, str | None]:
        """Formats of the weights and of the KV cache."""
        if self.deployment is None:
            return None, None
        return summary(self.model, self.deployment.quantization)[:2]

    @property
    def log(self) -> tuple[str, ...]:
        """Lines that the engine prints at start-up, in its words; none where it does not start."""
        if self.memory is None or not self.starts or self.deployment is None:
            return ()
        return tuple(_LOGS[self.target.engine](self))

    def __str__(self) -> str:
        if self.memory is None:
            return f"{self.gpu.name}: {self.error}"
        if not self.starts:
            return f"{self.gpu.name}: {self.verdict}: {self.error}"
        tokens = f"{self.tokens:,.0f} KV tokens" if self.tokens else "no KV cache"
        return f"{self.gpu.name}: {self.verdict}, {tokens}"

    def __repr__(self) -> str:
        return f"<Fit {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> FitRow:
        """Flat row of the JSON contract."""
        values = cells(FIT_KEYS, self)
        values["warnings"] = list(self.warnings)
        return cast("FitRow", dict(selected(values, keys)))


def surest_first(answers: Iterable[Fit]) -> list[Fit]:
    """Answers by verdict; of those that start the smallest GPU first, of others the largest."""
    order = (PASS, LIKELY, UNLIKELY, FAIL)
    return sorted(answers, key=lambda fit: (order.index(fit.verdict), fit.gpu.memory * (1 if fit.starts else -1)))


@overload
def fits(model: Prediction, *, enforce_eager: bool = False) -> Answers[Fit, FitRow]: ...
@overload
def fits(
    model: str | Model | Sequence[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    enforce_eager: bool = False,
    **options: Unpack[FitOptions],
) -> Answers[Fit, FitRow]: ...
@understood
def fits(
    model: str | Model | Sequence[str | Model] | Prediction,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    enforce_eager: bool = False,
    **options: Any,
) -> Answers[Fit, FitRow]:
    """Whether a serving engine starts, what its log says of the KV cache, and which options avoid its error.

    Args:
        model: name, alias or record, or several; or a prediction with an engine, in place of GPUs and options.
        gpus: names, aliases, pools such as ``2xl40s`` or ``b200:tp4``, or records; None for the whole catalog.
        enforce_eager: start without CUDA graphs.
        options: those of a deployment, as in `predict`: tp (by default 1), pp, ep, dp, quantization, weights,
            kv_cache_dtype, engine (by default ``vllm``), max_model_len (by default the model's), max_num_seqs,
            max_num_batched_tokens, gpu_memory_utilization, a draft, specs.

    Returns:
        An answer for each GPU.

    Raises:
        UnknownName: no such model, GPU, format, or version of the engine.
        BadInput: an engine whose start is not known, or impossible values.

    Valid:
        Text models on GPUs whose memory no other process uses. Image and audio encoders are left out; the first start
        on a machine, which compiles, may leave up to 1.2 GiB less than later ones.

    Source:
        `roofline.physics.memory.start_up_memory`, `roofline.physics.start_up.logged_tokens`.

    >>> import roofline as rl
    >>> l4, h100 = rl.fits("llama-3.1-8b", ["l4", "h100-sxm"], engine="vllm@0.19")
    >>> h100
    <Fit h100-sxm: pass, 442,... KV tokens>
    >>> l4.verdict, l4.remedies[0]
    ('fail', '--max-model-len 33744')
    """
    if isinstance(model, Prediction):
        deployment = model.deployment
        target = target_of(deployment.engine.runs or deployment.engine.name)
        smallest = smallest_gpu(deployment, _case_of(deployment), is_eager=enforce_eager)
        return Answers([_fit(deployment, target, smallest, is_eager=enforce_eager)])
    plain = plain_options(without("fits", options))
    if scalar(plain.get("draft")) is not None:
        plain.setdefault("acceptance", _ANY)
    named = str(scalar(plain.get("engine")) or USUAL_ENGINE)
    target = target_of(named)
    case = {**plain, "engine": with_version(target)}

    known: dict[str, str | None] = {}

    def answer(one: OneGpu) -> Fit:
        deployment = _deployment(one.model, one.name, case)
        if enforce_eager:
            deployment = _without_graphs(deployment)
        if one.model.name not in known:
            known[one.model.name] = smallest_gpu(deployment, case, is_eager=enforce_eager)
        fit = _fit(deployment, target, known[one.model.name], is_eager=enforce_eager)
        return replace(fit, warnings=(*one.model_notes, *fit.warnings))

    def refused(one: OneGpu, error: RooflineError) -> Fit:
        if one.is_only or isinstance(error, BadInput):
            raise error
        return Fit(one.model, one.gpu, target, error=str(error))

    return Answers(fit for name in each_model(model) for _, fit in on_each_gpu(name, gpus, case, answer, refused))


def _deployment(model: Model, gpu: Any, case: Mapping[str, Any]) -> Deployment:
    """One replica at its plan; without a tp, one GPU, or the smallest tp of a pool with which it starts."""
    chosen = choice(gpu, {"isl": 1, "osl": 1, **case})
    degrees = chosen.options.get("tp"), chosen.options.get("num_gpus")
    if degrees[0] is not None or degrees[1] is None:
        return _at(model, gpu, case, degrees[0] or 1)
    counts = {"num_gpus": degrees[1], **{name: chosen.options.get(name, 1) for name in ("pp", "dp", "cp")}}
    for name, count in counts.items():
        check_count(name, count)
    per_tp = counts["pp"] * counts["dp"] * counts["cp"]
    tps = [tp for tp in range(1, degrees[1] // per_tp + 1) if degrees[1] % (tp * per_tp) == 0]
    if not tps:
        raise BadInput(f"num_gpus = {degrees[1]} must be a multiple of pp x dp = {per_tp}")
    found = None
    for tp in tps:
        try:
            found = _at(model, gpu, case, tp)
        except RooflineError:
            continue
        if _error(found, _length(found), is_eager=False) is None:
            return found
    return _at(model, gpu, case, tps[-1]) if found is None else found


def _at(model: Model, gpu: Any, case: Mapping[str, Any], tp: int) -> Deployment:
    options = {**case, "tp": tp, "isl": 1, "osl": 1, "allow_oversize": True}
    return predict(model, gpu, **options).deployment


def _length(deployment: Deployment) -> float:
    return float(deployment.engine.max_model_len or deployment.model.max_context or _LONGEST)


def _fit(deployment: Deployment, target: Target, smallest: str | None, *, is_eager: bool) -> Fit:
    """The answer for a deployment."""
    if not deployment.engine.start_up:
        raise BadInput(f"how engine {deployment.engine.name} starts is not known; ask with engine = {USUAL_ENGINE}")
    deployment = _without_graphs(deployment) if is_eager else deployment
    length = _length(deployment)
    memory = start_up_memory(deployment)
    error = _error(deployment, length, is_eager=is_eager)
    tried = _Tried(deployment, length, target, is_eager)
    return Fit(
        model=deployment.model,
        gpu=deployment.gpu,
        target=target,
        deployment=deployment,
        length=length,
        memory=memory,
        request=float(request_bytes(deployment, length)),
        tokens=float(logged_tokens(deployment, memory.kv_cache, length)),
        error=error,
        remedies=() if error is None else tuple(tried.remedies()),
        largest_max_model_len=tried.longest(),
        largest_max_num_seqs=tried.most_sequences(),
        smallest=smallest,
        widest=tried.widest_format(),
        warnings=tuple(_warnings(deployment, target, length)),
    )


def _warnings(deployment: Deployment, target: Target, length: float) -> Iterator[str]:
    held = _held(deployment, length)
    if 0.0 < held < length and deployment.engine.start_up[0].share_of != OF_ALL:
        yield f"it starts, but holds {held:,.0f} tokens: longer requests are refused"
    newest = next(reversed(target.table.versions), target.version)
    if target.engine != "vllm" and target.version != newest:
        yield f"its memory share and budgets, where not given, are those of {target.table.title} {newest}"
    if target.engine != USUAL_ENGINE:
        seen = "two logs" if target.engine == "sglang" else "no log"
        yield f"what {target.table.title} takes beside the weights is read from its source, and checked by {seen}"
    if deployment.gpu.is_unified:
        yield (
            f"{deployment.gpu.name}: the CPU shares this memory; what the system and its file cache hold is not free "
            "to the engine"
        )
    if deployment.gpu.vendor.lower() != _MEASURED:
        yield f"{deployment.gpu.name}: what engines take beside the weights was measured on NVIDIA GPUs alone"
    yield from deployment.model.cautions


def _without_graphs(deployment: Deployment) -> Deployment:
    rules = tuple(replace(rule, graph=0.0, table=0.0) for rule in deployment.engine.start_up)
    return replace(deployment, engine=replace(deployment.engine, start_up=rules))


def _with(deployment: Deployment, **settings: Any) -> Deployment:
    return replace(deployment, engine=replace(deployment.engine, **settings))


def _needed(deployment: Deployment, request: float, length: float) -> float:
    """KV cache that an engine must have to start [B]: vLLM one longest request, others a few tokens."""
    if deployment.engine.start_up[0].share_of == OF_ALL:
        return request
    return request * min(_ENOUGH / length, 1.0)


def _error(deployment: Deployment, length: float, *, is_eager: bool) -> str | None:
    """What the engine prints where it does not start; None where it does."""
    memory, rule = start_up_memory(deployment), deployment.engine.start_up[0]
    engine, kind, most = deployment.engine, rule.share_of, deployment.model.max_context
    if most is not None and length > most and kind != OF_REST:
        name = "max_model_len" if kind == OF_ALL else "context_length"
        return f"User-specified {name} ({length:.0f}) is greater than the derived {name} ({most:.0f})"
    free = memory.total - max(rule.context, _CONTEXT)
    if memory.weights > free:
        return (
            f"torch.OutOfMemoryError: {_cuda(deployment)}out of memory (loading {memory.weights / GIBI:.2f} GiB of "
            f"weights into {free / GIBI:.2f} GiB)"
        )
    request = float(request_bytes(deployment, length))
    if kind == OF_ALL:
        if memory.weights + memory.activations > free:
            return (
                f"{_cuda(deployment)}out of memory occurred when warming up sampler with {engine.max_num_seqs} dummy "
                "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
            )
        if memory.kv_cache <= 0.0:
            return (
                "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
                "the engine."
            )
        if memory.kv_cache < request:
            estimate = _longest(deployment, length)
            return (
                f"To serve at least one request with the model's max seq len ({length:.0f}), ({request / GIBI:.2f} GiB "
                f"KV cache is needed, which is larger than the available KV cache memory ({memory.kv_cache / GIBI:.2f} "
                f"GiB). Based on the available memory, the estimated maximum model length is {estimate:.0f}. Try "
                "increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
            )
        left = memory.total - _CONTEXT - engine.gpu_memory_utilization * memory.total
        if not rule.counts_graphs and not is_eager and memory.graphs > left + _RELEASED * memory.activations:
            cuda = _cuda(deployment)
            return f"torch.OutOfMemoryError: {cuda}out of memory (while capturing {cuda}graphs)"
        return None
    if memory.kv_cache < _needed(deployment, request, length):
        if kind == OF_FREE:
            share = f"{engine.gpu_memory_utilization:g}"
            return (
                "Not enough memory. Please try to increase --mem-fraction-static. Current value: "
                f"mem_fraction_static={share}"
            )
        return "The available KV cache memory is not enough for one sequence (kv_cache_config)"
    left = (1.0 - engine.gpu_memory_utilization) * memory.total
    if kind == OF_FREE and not is_eager and memory.activations + memory.graphs > left:
        cuda = _cuda(deployment)
        return f"Capture {cuda.lower()}graph failed: {cuda}out of memory; try a smaller --mem-fraction-static"
    return None


def _cuda(deployment: Deployment) -> str:
    """How frameworks call what they run on: AMD's say CUDA too, others do not."""
    return "CUDA " if deployment.gpu.vendor.lower() in _VENDORS else ""


_CONTEXT = 0.5 * GIBI  # of the process, where the profile counts none
_RELEASED = 1.0  # share of the activations of the profiling pass that is free again when graphs are captured


def _longest(deployment: Deployment, length: float) -> float:
    """Longest request that the KV cache holds [tokens]."""
    cache = start_up_memory(deployment).kv_cache
    low, high = 0.0, length
    while high - low > 1.0:
        middle = float(int(0.5 * (low + high)))
        if middle in {low, high}:
            break
        if float(request_bytes(deployment, middle)) <= cache:
            low = middle
        else:
            high = middle
    return low


def _held(deployment: Deployment, most: float) -> float:
    """Longest request that the KV cache holds, whole blocks, up to some length [tokens]."""
    if request_bytes(deployment, most) <= start_up_memory(deployment).kv_cache:
        return most
    found = _longest(deployment, most)
    return found - found % deployment.engine.start_up[0].block


def longest_that_starts(deployment: Deployment) -> float | None:
    """The largest max_model_len with which an engine starts; None where it starts with any, or with none.

    Args:
        deployment: model, GPU, plan, quantization and engine.

    Returns:
        Tokens, whole blocks of the KV cache [tokens].
    """
    if not deployment.engine.start_up:
        return None
    length = _length(deployment)
    if _error(deployment, length, is_eager=False) is None:
        return None
    found = _longest(deployment, length)
    found -= found % deployment.engine.start_up[0].block
    return found if found >= 1.0 and _error(deployment, found, is_eager=False) is None else None


class _Tried(NamedTuple):
    """What else would start, from one deployment on."""

    deployment: Deployment
    length: float
    target: Target
    is_eager: bool

    def starts(self, deployment: Deployment, length: float | None = None, *, is_eager: bool | None = None) -> bool:
        eager = self.is_eager if is_eager is None else is_eager
        return _error(deployment, self.length if length is None else length, is_eager=eager) is None

    def longest(self) -> float | None:
        """The largest max_model_len with which it starts; None where none does."""
        most = float(self.deployment.model.max_context or self.length)
        if self.starts(self.deployment, most):
            return _held(self.deployment, most)
        return longest_that_starts(_with(self.deployment, max_model_len=int(most)))

    def most_sequences(self) -> float | None:
        """The largest max_num_seqs with which it starts; None where none does."""
        budget = self.deployment.engine.max_num_batched_tokens
        most = min(_MOST_SEQUENCES, budget or _MOST_SEQUENCES)
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.starts(_with(self.deployment, max_num_seqs=middle)):
                low = middle
            else:
                high = middle
        return float(low) or None

    def remedies(self) -> Iterator[str]:
        """Options of the engine, each of which alone makes it start; those that change no answer first."""
        longest = self.longest()
        is_shorter = longest is not None and _SHORTEST <= longest < self.length
        if longest is not None and is_shorter:
            yield self.flag("max_model_len", int(longest))
        for setting, values in (
            ("max_num_seqs", _FEWER_SEQUENCES),
            ("max_num_batched_tokens", _SMALLER_BUDGETS),
            ("gpu_memory_utilization", _SHARES),
        ):
            yield from self._first(setting, values)
        if not self.is_eager and self.starts(_without_graphs(self.deployment), is_eager=True):
            yield self.flag("enforce_eager", value=True)
        yield from self._formats(is_shorter=is_shorter)
        yield from self._wider(is_shorter=is_shorter)

    def _first(self, setting: str, values: Sequence[float]) -> Iterator[str]:
        """The first value of a setting with which it starts."""
        now = getattr(self.deployment.engine, setting)
        rises = setting == "gpu_memory_utilization"
        for value in values:
            if now is None or (value > now) == rises:
                changed = _with(self.deployment, **{setting: value})
                if self.starts(changed):
                    yield self.flag(setting, value)
                    return

    def _formats(self, *, is_shorter: bool) -> Iterator[str]:
        """An FP8 cache, and weights in fewer bits, if need be with shorter requests."""
        deployment = self.deployment
        form, cache, _ = summary(deployment.model, deployment.quantization)
        if cache != "fp8":
            changed = self.in_formats(form, "fp8")
            if changed is not None and self.starts(changed):
                yield self.flag("kv_cache_dtype", "fp8")
        for name in _FORMATS:
            changed = self.in_formats(name, cache)
            if changed is not None and self.starts(changed):
                yield self.flag("weights", name)
                return
        for name in () if is_shorter else _FORMATS:
            changed = self.in_formats(name, cache)
            length = None if changed is None else self._replace(deployment=changed).longest()
            if length is not None and _SHORTEST <= length < self.length:
                yield f"{self.flag('weights', name)} {self.flag('max_model_len', int(length))}"
                return

    def _wider(self, *, is_shorter: bool) -> Iterator[str]:
        """The smallest tensor-parallel degree with which it starts, if need be with shorter requests."""
        plan = self.deployment.plan
        shorter: list[str] = []
        for tp in _DEGREES:
            wider = replace(plan, tp=tp)
            copies = self.deployment.spread.redundant
            if not plan.tp < tp <= max(self.deployment.gpu.node, 8) or plan_fault(self.deployment.model, wider, copies):
                continue
            at = self.deployment.at(wider)
            if self.starts(at):
                yield self.flag("tp", tp)
                return
            length = self._replace(deployment=at).longest()
            if length is not None and _SHORTEST <= length < self.length:
                shorter.append(f"{self.flag('tp', tp)} {self.flag('max_model_len', int(length))}")
        yield from () if is_shorter else shorter[-1:]

    def in_formats(self, weights: str, cache: str) -> Deployment | None:
        """The deployment in other formats; None where the GPU or the checkpoint has none of them."""
        deployment = self.deployment
        part = "experts" if deployment.model.is_moe else "linear"
        now = deployment.quantization.sections[part].weight_nbytes
        try:
            chosen = resolved_quantization(deployment.model, deployment.gpu, None, weights, cache, None)
        except RooflineError:
            return None
        changed = replace(deployment, quantization=chosen)
        is_same_weights = weights == summary(deployment.model, deployment.quantization)[0]
        is_narrower = chosen.sections[part].weight_nbytes < _NARROWER * now
        return changed if is_same_weights or is_narrower else None

    def flag(self, setting: str, value: Any) -> str:
        """How the engine is told."""
        values = {**settings_of(self.deployment), setting: value}
        lines: list[Stated] = [each for each in stated(self.target, values) if each.setting == setting]
        if lines:
            return "; ".join(typed(each) for each in lines)
        return f"a checkpoint in {value}" if setting == "weights" else f"{setting} {value}"

    def widest_format(self) -> str | None:
        """The widest format of the weights with which it starts on this plan; None where none does."""
        form, cache, _ = summary(self.deployment.model, self.deployment.quantization)
        length = min(self.length, float(self.deployment.model.max_context or self.length))
        if self.starts(self.deployment, length):
            return form
        for name in _FORMATS:
            changed = self.in_formats(name, cache)
            if changed is not None and self.starts(changed, length):
                return name
        return None


def smallest_gpu(deployment: Deployment, case: Mapping[str, Any], *, is_eager: bool) -> str | None:
    """The GPU with the least memory, one of which is enough for a case; None where none is."""
    alone = replace(deployment.plan, **dict.fromkeys(DEGREES, 1))
    weights = start_up_memory(deployment.at(alone)).weights
    specs = case.get("specs")
    for name in _by_memory(specs):
        gpu = gpu_of(name, specs)
        if gpu.vendor.lower() not in _VENDORS or gpu.status in ANNOUNCED or gpu.memory < weights:
            continue
        try:
            other = _on(deployment, gpu, case)
        except RooflineError:
            continue
        length = min(_length(other), float(other.model.max_context or _LONGEST))
        if _error(other, length, is_eager=is_eager) is None:
            return gpu.name
    return None


def _case_of(deployment: Deployment) -> dict[str, Any]:
    """Options that make a deployment on another GPU."""
    form, cache, _ = summary(deployment.model, deployment.quantization)
    settings = {name: getattr(deployment.engine, name) for name in deployment.engine.stated if name in _SETTINGS}
    return {"engine": deployment.engine.name, "weights": form, "kv_cache_dtype": cache, **settings}


_SETTINGS = ("max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "max_model_len")
_MEASURED = "nvidia"  # whose GPUs the start-ups were measured on
_VENDORS = (_MEASURED, "amd")


def _by_memory(specs: str | None) -> tuple[str, ...]:
    """Names of GPUs, the least memory first."""
    return tuple(sorted(gpu_names(specs), key=lambda name: gpu_of(name, specs).memory))


def _on(deployment: Deployment, gpu: Gpu, case: Mapping[str, Any]) -> Deployment:
    """The same on another GPU, with the engine's defaults there."""
    options = {name: value for name, value in case.items() if name not in {*DEGREES, "num_gpus"}}
    return predict(deployment.model, gpu, **{**options, "tp": 1, "isl": 1, "osl": 1, "allow_oversize": True}).deployment


# What the logs of the engines say.


def _vllm_log(fit: Fit) -> Iterator[str]:
    memory = cast("StartUpMemory[float]", fit.memory)
    yield f"Available KV cache memory: {memory.kv_cache / GIBI:.2f} GiB"
    yield f"GPU KV cache size: {fit.tokens:,.0f} tokens"
    yield f"Maximum concurrency for {fit.length:,.0f} tokens per request: {fit.max_concurrency or 0.0:.2f}x"


def _sglang_log(fit: Fit) -> Iterator[str]:
    memory = cast("StartUpMemory[float]", fit.memory)
    size = memory.kv_cache / GIBI
    is_latent = any(isinstance(mixer, Mla) for _, mixer in fit.model.mixers)
    told = f"KV size: {size:.2f} GB" if is_latent else f"K size: {size / 2:.2f} GB, V size: {size / 2:.2f} GB"
    yield f"KV Cache is allocated. #tokens: {fit.tokens:.0f}, {told}"
    chunk = _setting(fit, "max_num_batched_tokens")
    yield f"max_total_num_tokens={fit.tokens:.0f}, chunked_prefill_size={chunk:.0f}, context_len={fit.length:.0f}"


def _trtllm_log(fit: Fit) -> Iterator[str]:
    memory = cast("StartUpMemory[float]", fit.memory)
    yield f"Allocated {memory.kv_cache / GIBI:.2f} GiB for max tokens in paged KV cache ({fit.tokens:.0f})."


_LOGS: Mapping[str, Callable[[Fit], Iterator[str]]] = {
    "vllm": _vllm_log, "sglang": _sglang_log, "trtllm": _trtllm_log,
}  # fmt: skip
