"""The fewest GPUs of every kind that meet latency limits under a load, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.numbers.operations import Json, is_nan
from roofline.numbers.quantity import rounded
from roofline.physics.plan import Plan
from roofline.questions import catalog
from roofline.questions.inputs import case
from roofline.questions.inputs.arguments import (
    COUNTS,
    all_values,
    each_case,
    listed_names,
    one_case,
    plain_counts,
    plain_options,
    required_limits,
    tokens_of_prefix,
    values_of,
    without,
)
from roofline.questions.inputs.case import LENGTHS, TRAFFIC, traffic
from roofline.questions.inputs.deployment import check_settings, choice, found_gpu, found_model, own_settings
from roofline.questions.inputs.options import ALL, understood
from roofline.questions.predict import DEFAULT_ENGINE, DEFAULTS, answer_row, asked_case, meeting_first, predict
from roofline.serving.answers import Answer, listed_keys
from roofline.serving.comparison import latencies
from roofline.serving.fewest import (
    MOST_RANKS,
    Candidate,
    Degrees,
    Sized,
    fewest_gpus,
    possible_plans,
    reason,
)
from roofline.serving.knee import check_degrees, check_plan, does_not_fit
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import canonical_preset
from roofline.serving.row_types import SizeRow
from roofline.serving.shown import degrees_text, gpus_text, plan_text
from roofline.serving.verdict import FAIL, PASS, UNLIKELY, is_pressing
from roofline.specs.gpu import Gpu
from roofline.specs.keys import SHARED, Key, Keys, cells
from roofline.specs.load import LASTING, RUN, stated
from roofline.specs.model import Model
from roofline.specs.workload import BETWEEN_TOKENS, LATENCIES, key_text
from roofline.specs.written import Pool
from roofline.support.errors import BadInput, RooflineError, UnsupportedPrecision, shown
from roofline.support.progress import each
from roofline.support.records import dataclass, field

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Many, SizeOptions, Slo


#: Keys of a row in addition to those of a prediction.
SIZE_KEYS: Keys[GpuSize] = {
    "quantization": SHARED["quantization"],
    "meets": Key.flag("Whether the central estimate meets the SLO; null where that is not known."),
    "meets_high": Key.flag("Whether the upper ends of the 80 % intervals meet it, too."),
    "reason": SHARED["reason"],
    "excess": Key.number("1", "Worst latency of the nearest plan over its limit."),
}

_DEGREES = ("tp", "pp", "ep", "dp")
_LOADS_OF_REPLICAS = (*LASTING, RUN)  # loads that replicas share


@dataclass(frozen=True, slots=True)
class GpuSize(Answer[SizeRow]):
    """The fewest GPUs of one kind that meet an SLO, or why none do.

    Where it is not known of the fewest GPUs that may, their verdict is None, with the reason.

    >>> import roofline as rl
    >>> result = rl.size("llama-3.1-8b", "h100-sxm", slo="tpot:25", basis="ideal").cheapest
    >>> result
    <GpuSize 1x h100-sxm (tp 1): TTFT 16.6 ms, TPOT 4.53 ms, 3.99 USD/h; SLO pass?>
    >>> result.to_dict(["gpu", "num_gpus", "meets"])
    {'gpu': 'h100-sxm', 'num_gpus': 1, 'meets': True}
    """

    model: Model = field(repr=False)
    gpu: Gpu = field(repr=False)
    prediction: Prediction | None  # with the fewest GPUs that meet the SLO, or may; None where no plan does
    quantization: str | None = None  # preset of the prediction; None for the checkpoint's own formats
    reason: str | None = None  # why no plan meets the SLO, or why it is not known
    nearest: Prediction | None = None  # the nearest miss, where no plan meets the SLO and one fits
    misses_hardware_limit: bool = False  # whether the GPUs miss the SLO even at the hardware limit
    excess: float | None = None  # worst latency of the nearest plan over its limit [1]; None where no plan fits
    asked: Mapping[str, Json] = field(default_factory=dict, repr=False)  # columns of a row without an answer
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        prediction = self.prediction
        if prediction is None:
            return f"{self.gpu.name}: {self.reason}"
        plan = prediction.deployment.plan
        rent = "unknown rent" if self.usd_per_hour is None else f"{rounded(self.usd_per_hour)} USD/h"
        sure = "" if self.verdict == PASS else f"; SLO {self.verdict}" if self.verdict else f"; {self.reason}"
        text = plan_text(plan, self.quantization, prediction.deployment.replicas)
        gpus = gpus_text(self.gpu.name, prediction.deployment.num_gpus)
        return f"{gpus} ({text}): {latencies(prediction)}, {rent}{sure}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @property
    def meets(self) -> bool | None:
        """Whether the central estimate meets the SLO with some number of GPUs; None where that is not known."""
        return None if self.verdict is None else self.prediction is not None

    @property
    def meets_high(self) -> bool | None:
        """Whether the upper ends of the 80 % intervals meet it too; None on the ideal basis, which has none."""
        if self.prediction is None:
            return False
        if self.prediction.basis == "ideal" or self.verdict is None:
            return None
        ends = {key: self.prediction.latency_interval(key) for key in self.prediction.slo}
        return all(end is None or end[1] <= self.prediction.slo[key] for key, end in ends.items())

    @property
    def verdict(self) -> str | None:
        """Verdict on the SLO: that of the prediction, None where it is not known.

        Else ``fail``, or ``fail?`` on a GPU that was never timed.
        """
        if self.prediction is not None:
            return self.prediction.verdict
        is_estimate = self.nearest is not None and self.nearest.basis == "generic" and not self.misses_hardware_limit
        return UNLIKELY if is_estimate else FAIL

    @property
    def usd_per_hour(self) -> float | None:
        """Typical rent of the GPUs [USD/h]; None without an answer or a known price."""
        return None if self.prediction is None else self.prediction.usd_per_hour

    def to_dict(self, keys: Iterable[str] | None = None) -> SizeRow:
        """Flat row of a prediction and of `SIZE_KEYS`, or some of them; what does not apply is None."""
        values = {**cells(SIZE_KEYS, self), "slo_verdict": self.verdict, "warnings": list(self.warnings)}
        return cast("SizeRow", answer_row(keys, SIZE_KEYS, self.prediction, self.asked, values))


@dataclass(frozen=True, slots=True, repr=False)
class FleetSize(Answer[SizeRow]):
    """Answers for several kinds of GPU: those that meet the SLO, cheapest first, those that may, then the others.

    Of several cases, those that meet the SLO come first, case by case.

    >>> import roofline as rl
    >>> result = rl.size("llama-3.1-8b", ["h100-sxm", "l40s"], slo="tpot:10", basis="ideal")
    >>> result.cheapest
    <GpuSize 2x l40s (tp 2): TTFT 42 ms, TPOT 8.8 ms, 3.14 USD/h; SLO pass?>
    >>> [row["meets"] for row in result.to_rows()]  # two L40S read 7.5 GB each in 9 ms
    [True, True]
    >>> result.to_dict(["gpu"])["rows"]
    [{'gpu': 'l40s'}, {'gpu': 'h100-sxm'}]
    """

    sizes: tuple[GpuSize, ...]
    notes: tuple[str, ...] = ()  # on all of them

    def __str__(self) -> str:
        cases = [_case_of(size) for size in self.sizes]
        varied = [name for name in cases[0] if any(case[name] != cases[0][name] for case in cases)] if cases else []
        labels = [", ".join(f"{name} {case[name]}" for name in varied) + ": " if varied else "" for case in cases]
        lines = [f"{label}{size}" for label, size in zip(labels, self.sizes, strict=True)]
        lines += [f"note: {note}" for note in dict.fromkeys(self.notes)]
        return "\n".join([f"{self._models}: the fewest GPUs that meet the SLO", *(f"  {line}" for line in lines)])

    def __repr__(self) -> str:
        met = sum(size.meets is True for size in self.sizes)
        kinds = len({size.gpu.name for size in self.sizes})
        what = "kinds of GPU" if kinds == len(self.sizes) else "answers"
        first = "" if self.cheapest is None else f"; first {self.cheapest}"
        return f"<FleetSize {self._models}: {met} of {len(self.sizes)} {what} meet the SLO{first}>"

    @property
    def _models(self) -> str:
        return ", ".join(dict.fromkeys(size.model.short_name for size in self.sizes)) or "no GPU"

    @property
    def cheapest(self) -> GpuSize | None:
        """None where no GPU meets the SLO; of several cases, the cheapest of the first that is met."""
        return self.sizes[0] if self.sizes and self.sizes[0].meets else None

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """Rows and notes as plain values.

        Args:
            keys: of the rows; None for all.
        """
        columns = None if keys is None else listed_keys(keys)
        rows: list[Any] = [size.to_dict(columns) for size in self.sizes]
        return {"rows": rows, "notes": list(self.notes)}


@overload
def size(
    model: Prediction, gpus: str | Gpu | Sequence[str | Gpu] | None = None, *, slo: Slo | None = None
) -> FleetSize: ...
@overload
def size(
    model: Many[str | Model],
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo,
    **options: Unpack[SizeOptions],
) -> FleetSize: ...
@understood
def size(
    model: Many[str | Model] | Prediction,
    gpus: str | Gpu | Sequence[str | Gpu] | None = None,
    *,
    slo: Slo | None = None,
    **options: Unpack[SizeOptions],
) -> FleetSize:
    """For every kind of GPU, the fewest that meet an SLO under a load, or for a burst on one replica.

    A load (`concurrency` or `request_rate`) is shared by as many replicas as it takes.

    The search covers tensor parallelism within the scale-up domain and, for mixtures of experts, data parallelism of
    the attention (powers of two, no more than sequences) and expert parallelism. Among plans with equally few GPUs the
    one with the smallest sum of times over their limits wins. Several quantizations compete the same way; the default
    is the checkpoint's own format.

    Args:
        model: name, alias or record, or several; or a prediction, in place of the options: its plan is searched anew
            but for the degrees that were stated, and its SLO holds where none is given.
        gpus: names, aliases or records; None for the whole catalog, or for the kind of GPU of a prediction.
        slo: limits, at least one, that the central estimate must meet, as in `predict` [s].
        options: keyword arguments of `predict`; tp, ep and dp fix a degree that is searched otherwise, pp is 1 by
            default, and quantization may be several presets. Of lists of lengths, loads and the like, every
            combination is a case of its own.

    Returns:
        GPUs that meet the SLO, by rent (unknown prices last), number and times; then those of which it is not known,
        and the others, the nearest misses first, each with the reason.

    Raises:
        UnknownName: no such model, GPU, format or SLO key.
        BadInput: no SLO, a number or plan that no GPU allows, arrays, or options that do not apply.
        BadSpec: a specification has faults.

    >>> import roofline as rl
    >>> rl.size("llama-3.3-70b", "h100-sxm", slo="tpot:25", quantization="fp8", basis="ideal").cheapest
    <GpuSize 1x h100-sxm (tp 1, fp8): TTFT 79.8 ms, TPOT 21.1 ms, 3.99 USD/h; SLO pass?>
    """
    model, gpu, asked = asked_case("size", model, None, options, ("num_gpus", "allow_oversize"), keeps_plan=False)
    of_case = asked.pop("slo", None)
    limits = required_limits("size", of_case if slo is None else slo)
    gpus = gpu if gpus is None else gpus
    answers = [_of_case(name, gpus, limits, case) for name, case in each_case("size", model, without("size", asked))]
    if len(answers) == 1:
        return answers[0]
    sizes = meeting_first((size for answer in answers for size in answer.sizes), lambda size: size.verdict)
    return FleetSize(tuple(sizes), tuple(note for answer in answers for note in answer.notes))


def _of_case(
    model: str | Model,
    gpus: str | Gpu | Sequence[str | Gpu] | None,
    limits: Mapping[str, float],
    options: Mapping[str, Any],
) -> FleetSize:
    """Every kind of GPU for one case."""
    plain = plain_options({name: value for name, value in options.items() if value is not None})
    presets = _presets(plain.pop("quantization", None))
    model, model_notes = found_model(model, plain)
    fixed = _degrees(model, plain)
    answers: dict[Any, GpuSize] = {}
    kinds: list[Gpu] = []
    choices: list[Any] = list(catalog.gpus(plain.get("specs"))) if gpus is None else listed_names("gpus", gpus)
    check_settings(choices, plain)
    for gpu in each(choices, "GPUs"):
        kind, formats, degrees = _with_pool(model, gpu, presets, fixed, plain.get("specs"))
        answer = _on_gpu(model, kind, formats, degrees, limits, dict(own_settings(gpu, plain)))
        if answer.gpu not in kinds:
            kinds.append(answer.gpu)
        answers[kinds.index(answer.gpu), formats, degrees] = answer
    sizes = tuple(sorted(answers.values(), key=_rank))
    notes = _notes(sizes, limits, plain.get("osl", DEFAULTS["osl"]))
    return FleetSize(sizes, (*model_notes, *notes))


def _on_gpu(
    model: Model,
    name: str | Gpu,
    presets: tuple[str | None, ...],
    fixed: Degrees,
    slo: Mapping[str, float],
    options: Mapping[str, Any],
) -> GpuSize:
    wrong: BadInput | None = None
    try:
        gpu, notes = found_gpu(name, options)
    except BadInput as error:  # a figure that this GPU cannot have
        gpu, notes = found_gpu(name, {**options, "set": None})
        wrong = error
    load = {name: options[name] for name in _LOADS_OF_REPLICAS if options.get(name) is not None}
    shaping = {name: options[name] for name in TRAFFIC if name in options} if load else {}
    plain = {name: value for name, value in options.items() if name not in (*load, *shaping)}
    plain["isl"], plain["osl"], lengths, cold_start = traffic(
        *(options.get(name, DEFAULTS[name]) for name in ("isl", "osl")), **shaping
    )
    plain["prefix"] = tokens_of_prefix(plain.get("prefix", DEFAULTS["prefix"]), plain["isl"])
    row = {
        **{length: plain.get(length, default) for length, default in DEFAULTS.items()},
        **({"batch": None} if load else {}),
        **load,
        "load": stated(load).name,
        **fixed._asdict(),
        "model": model.short_name,
        "model_id": model.name,
        "gpu": gpu.name,
        "gpu_status": gpu.status,
        "engine": options.get("engine", DEFAULT_ENGINE),
    }
    if wrong is not None:
        return GpuSize(model, gpu, None, reason=str(wrong), asked=row, warnings=notes)
    stage = {"tp": 1, "pp": fixed.pp, "ep": 1, "dp": 1, "allow_oversize": True}
    alone: dict[str | None, Prediction] = {}
    refused: list[UnsupportedPrecision] = []
    for preset in presets:
        try:
            alone[preset] = predict(model, gpu, **{**plain, **stage, "quantization": preset})
        except UnsupportedPrecision as error:
            refused.append(error)
    notes += _texts(*refused)
    if not alone:
        why = f"{refused[0].short}: {str(refused[0]).partition(';')[0]}"
        return GpuSize(model, gpu, None, reason=why, asked=row, warnings=notes)
    first = next(iter(alone.values()))
    workload = first.workload
    if load:
        workload = case.workload(
            workload.isl,
            workload.osl,
            options.get("batch"),
            workload.prefix,
            **load,
            lengths=lengths,
            cold_start=cold_start,
            cache=workload.cache if workload.prefix else None,
        )
    one_case("size", sum(workload.numbers.values()), "lengths and load")
    deployments = {preset: prediction.deployment for preset, prediction in alone.items()}
    sized = fewest_gpus(deployments, workload, slo, fixed, for_certain=False)

    def predicted(trial: Candidate) -> Prediction:
        plan = {degree: getattr(trial.deployment.plan, degree) for degree in _DEGREES}
        if load:
            plan["num_gpus"] = trial.deployment.num_gpus
        return predict(
            model, gpu, **{**options, "prefix": plain["prefix"], **plan, "quantization": trial.preset, "slo": slo}
        )

    if sized.fewest is not None:
        answer = predicted(sized.fewest)
        preset = canonical_preset(sized.fewest.preset, gpu.vendor)
        if answer.verdict is not None:
            return GpuSize(model, gpu, answer, preset, warnings=(*answer.warnings, *notes))
        certain = None if sized.fewest.is_known else fewest_gpus(deployments, workload, slo, fixed).fewest
        return GpuSize(model, gpu, answer, preset, _not_judged(answer, certain), warnings=(*answer.warnings, *notes))
    row |= {"basis": first.basis, "basis_detail": first.basis_detail, "engine": first.engine}
    nearest = None if sized.nearest is None or load else predicted(sized.nearest)
    if sized.tightest is not None:
        length = first.workload.isl + first.workload.osl
        notes += _texts(does_not_fit(sized.tightest.deployment, workload.batch, length))
    if sized != Sized():
        row["fits"] = sized.tightest is None
    why = reason(sized, slo, is_mean=workload.is_mean) or _no_plan(gpu, fixed)
    notes += tuple(text for text in first.warnings if is_pressing(text))
    closest = sized.nearest or sized.ideal
    excess = None if closest is None else closest.worst
    return GpuSize(model, gpu, None, None, why, nearest, sized.ideal is not None, excess, row, notes)


def _not_judged(answer: Prediction, certain: Candidate | None) -> str:
    """Why it is not known whether the fewest GPUs that may meet the SLO do."""
    judged = answer.slo_verdict
    if judged is not None and judged.binding is None:
        return str(judged.reason)
    unknown = [key_text(key) for key, share in answer.slo_shares.items() if is_nan(share)]
    enough = "" if certain is None else f" below {certain.deployment.num_gpus} GPUs"
    why = "the closed form contradicts the mean there; `simulate` tells"
    return f"not known: {', '.join(unknown)} has no figure{enough}: {why}"


def _case_of(size: GpuSize) -> dict[str, str | None]:
    """Model, lengths and load of an answer, as text."""
    known: Mapping[str, Any] = size.asked if size.prediction is None else size.prediction.workload.numbers
    numbers = {name: known.get(name) for name in LENGTHS}
    texts = {name: None if number is None else rounded(float(number)) for name, number in numbers.items()}
    return {"model": size.model.short_name, **texts}


def _texts(*errors: RooflineError) -> tuple[str, ...]:
    return tuple(f"{type(error).__name__}: {error}" for error in errors)


def _no_plan(gpu: Gpu, fixed: Degrees) -> str:
    """The reason where the fixed degrees need more GPUs than the scale-up domain has."""
    return f"misses: no plan with {degrees_text(fixed)} fits the {gpu.node}-GPU {gpu.node_link} domain"


def _rank(answer: GpuSize) -> tuple[Any, ...]:
    """By rent, unknown ones last, GPUs and times; misses by how far they are off, then by name."""
    prediction = answer.prediction
    if prediction is None:
        return 2, answer.excess is None, answer.excess or 0.0, answer.gpu.name
    rent = prediction.usd_per_hour
    times = sum(share for share in prediction.slo_shares.values() if not is_nan(share))
    return answer.meets is None, rent is None, rent or 0.0, prediction.deployment.num_gpus, times, answer.gpu.name


def _notes(sizes: Sequence[GpuSize], slo: Mapping[str, float], osl: float) -> list[str]:
    """Notes that hold for all answers."""
    notes = []
    if any(answer.meets_high is not None and answer.meets for answer in sizes):
        notes.append("the SLO is judged on the central estimate; where meets_high is no, the upper 80 % end misses it")
    is_loaded = any(answer.prediction and not answer.prediction.workload.load.is_burst for answer in sizes)
    if is_loaded and any(key in LATENCIES for key in slo):
        notes.append(
            "limits without a percentile are means here; write ttft:300@p95 for a percentile, or use goodput "
            "for a share of the requests"
        )
    for name in BETWEEN_TOKENS:
        if name in slo and osl == 1:
            notes.append(f"osl 1: a single token has no {name.upper()}; its limit is ignored")
    holding = [answer for answer in sizes if answer.meets or answer.asked.get("fits")]
    if holding and all(answer.misses_hardware_limit for answer in holding):
        notes.append("no GPU that holds the model can meet the SLO, even at the hardware limit")
    return notes


def _degrees(model: Model, options: dict[str, Any]) -> Degrees:
    """Degrees that the caller fixed, taken out of `options`; refused where no GPU allows them."""
    degrees = {name: options.pop(name) for name in _DEGREES if name in options}
    if degrees.get("ep") == ALL:
        raise BadInput(f"size tries the degrees of experts itself; leave out ep = {ALL}, or give a number")
    if not COUNTS.issuperset(map(type, degrees.values())):
        degrees = dict(zip(degrees, plain_counts(**degrees), strict=True))
    fixed = Degrees(**degrees)
    degrees = {name: degree for name, degree in fixed._asdict().items() if degree is not None}
    check_degrees(model, Plan(**degrees))
    if fixed != Degrees(pp=fixed.pp) and not possible_plans(model, MOST_RANKS, MOST_RANKS, fixed):
        check_plan(model, Plan(**{"dp": fixed.ep or 1, **degrees}))
        raise BadInput(f"no plan of {model.short_name} has {degrees_text(fixed)}; leave one of them out")
    return fixed


def _presets(quantization: object) -> tuple[str | None, ...]:
    """Presets to try, each once; None is the checkpoint's own format."""
    presets = (
        []
        if quantization is None or values_of("quantization", quantization) == []
        else all_values("quantization", quantization)
    )
    for preset in presets:
        if not (preset is None or isinstance(preset, str)):
            raise BadInput(f"quantization = {shown(quantization)} must be a preset of formats, or several")
    return tuple(dict.fromkeys(canonical_preset(preset) for preset in presets)) or (None,)


def _with_pool(
    model: Model, gpu: str | Gpu, presets: tuple[str | None, ...], fixed: Degrees, specs: str | None
) -> tuple[str | Gpu, tuple[str | None, ...], Degrees]:
    """A GPU with the formats to try on it and the fixed degrees, including those its pool states."""
    options = {**fixed._asdict(), "quantization": None if presets == (None,) else presets, "specs": specs}
    pooled = choice(gpu, options, "size finds the number of GPUs itself")
    if pooled.pool is None or isinstance(pooled.gpu, Pool):
        return gpu, presets, fixed
    preset = pooled.pool.quantization
    degrees = {name: pooled.options[name] for name in _DEGREES if pooled.options[name] is not None}
    return pooled.gpu, presets if preset is None else (canonical_preset(preset),), _degrees(model, degrees)
