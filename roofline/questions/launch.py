"""What to type to run a case: the launch command of a serving engine, or a Dynamo deployment, with reasons."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from roofline.catalog.find import engines_with_arguments
from roofline.numbers.operations import Json
from roofline.numbers.quantity import GIBI, counted, percent_figure, rounded
from roofline.physics.memory import kv_bytes_per_token, offloaded_bytes, start_up_memory
from roofline.physics.plan import Deployment, Plan
from roofline.questions.fits import Fit, longest_that_starts
from roofline.questions.inputs.arguments import scalar
from roofline.questions.inputs.case import engine as engine_of
from roofline.questions.inputs.deployment import choice
from roofline.questions.inputs.flags import (
    Stated,
    Target,
    check_name,
    fault_of,
    online_name,
    settings_of,
    stated,
    target_of,
    title_name,
    with_version,
)
from roofline.questions.inputs.options import understood
from roofline.questions.predict import predict
from roofline.serving.answers import Answer, selected
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import summary
from roofline.serving.row_types import Row
from roofline.serving.shown import deployed_text
from roofline.specs.arguments import SWITCHES
from roofline.specs.gpu import Gpu
from roofline.specs.keys import Key, Keys
from roofline.specs.model import Model
from roofline.support.errors import BadInput, shown
from roofline.support.records import NamedTuple, dataclass, field, replace

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case

#: Program of each engine -> words before its arguments, with {model}.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm", "serve", "{model}"),
    "sglang": ("python3", "-m", "sglang.launch_server", "--model-path", "{model}"),
    "trtllm": ("trtllm-serve", "serve", "{model}"),
}
#: File of settings of TensorRT-LLM beside its command.
SETTINGS_FILE = "trtllm.yaml"
_TRTLLM_FILE = "--extra_llm_api_options"
_SETTINGS = ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "gpu_memory_utilization")
_PLAIN_DEGREES = {"tp": 1, "pp": 1, "dp": 1, "ranks": 1, "ep": 1, "cp": 1, "dcp": 1}

#: Keys of a row: a setting of a launch text.
LAUNCH_KEYS: Keys[Line] = {
    "argument": Key.text("Argument of the engine, or setting of its file.", is_open=False),
    "argument_value": Key("value", None, "Its value; true for a switch."),
    "option": Key.text("What it states of the case.", is_open=False),
    "origin": Key.text("Where the value comes from, and how much room it leaves.", is_open=False),
    "is_engine_default": Key.flag("Whether the engine does the same where nothing is said."),
}


class Line(NamedTuple):
    """A setting of a launch text, with its reason."""

    stated: Stated
    origin: str
    is_default: bool

    @property
    def argument(self) -> str:
        return self.stated.argument.name

    @property
    def in_file(self) -> bool:
        """Whether it stands in a file of settings, not on the command line."""
        return not self.argument.startswith("-")

    @property
    def words(self) -> list[str]:
        """Words on the command line."""
        value = self.stated.value
        if self.stated.argument.type in SWITCHES:
            return [self.argument]
        return [self.argument, _value_text(value)]

    def to_dict(self) -> dict[str, Json]:
        """Flat row of the JSON contract."""
        value = self.stated.value
        return {
            "argument": self.argument,
            "argument_value": value,
            "option": self.stated.setting,
            "origin": self.origin,
            "is_engine_default": self.is_default,
        }


def _value_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(value)


@dataclass(frozen=True, repr=False)
class Launch(Answer[Row]):
    """A launch text of an engine, or a deployment file of Dynamo.

    >>> import roofline as rl
    >>> result = rl.launch("llama-3.3-70b", "h100-sxm", to="vllm", tp=4, kv_cache_dtype="fp8", concurrency=64)
    >>> result.command
    'vllm serve meta-llama/Llama-3.3-70B-Instruct --tensor-parallel-size 4 --kv-cache-dtype fp8'
    >>> result.engine, result.title.partition(" ")[0], [line.argument for line in result.lines][:1]
    ('vllm', 'vLLM', ['--tensor-parallel-size'])
    >>> result.to_dict(["engine", "replicas"])
    {'engine': 'vllm', 'replicas': 1}
    """

    deployment: Deployment = field(repr=False)
    target: Target = field(repr=False)
    lines: tuple[Line, ...] = ()  # settings that the text states
    notes: tuple[str, ...] = ()  # what no argument states
    because: str = ""  # why it is this plan

    @property
    def engine(self) -> str:
        return self.target.engine

    @property
    def title(self) -> str:
        """The engine with its version."""
        return self.target.title

    @property
    def case(self) -> str:
        """What runs where, in a line."""
        return _case_text(self.deployment)

    @property
    def words(self) -> list[str]:
        """Words of the command, not quoted."""
        model = self.deployment.model.name
        words = [word.format(model=model) for word in _PROGRAMS[self.engine]]
        words += [word for line in self.lines if not line.in_file for word in line.words]
        return [*words, *([_TRTLLM_FILE, SETTINGS_FILE] if self.file else [])]

    @property
    def command(self) -> str:
        """The command on one line, quoted for a shell."""
        return shlex.join(self.words)

    @property
    def file(self) -> str:
        """Text of the file of settings; empty where the command says it all."""
        return _nested_yaml([line for line in self.lines if line.in_file])

    @property
    def text(self) -> str:
        """Comments with the reasons, then the command; a file of settings is written before it."""
        deployment = self.deployment
        replicas = deployment.replicas
        head = [f"# {self.title}: {self.case}"]
        engine = with_version(self.target)
        if engine != title_name(self.target):
            head.append(f"# engine: {engine}")
        reasons = []
        if replicas > 1:
            per = counted(deployment.plan.num_gpus, "GPU")
            reasons.append(f"# {replicas} replicas: run it {replicas} times, on {per} each, and share the requests out")
        told: set[str] = set()
        for line in self.lines:
            reasons.append(f"# {line.argument}: {'with it' if line.stated.setting in told else line.origin}")
            told.add(line.stated.setting)
        reasons += [f"# {note}" for note in (*self.notes, *([f"plan: {self.because}"] if self.because else []))]
        body = []
        if self.file:
            body += [f"cat > {SETTINGS_FILE} <<'EOF'", *self.file.splitlines(), "EOF"]
        wrapped = [part for reason in reasons for part in wrap(comment(reason), _WIDTH, subsequent_indent="#   ")]
        return "\n".join([*map(comment, head), *wrapped, *body, _wrapped(self.words)]) + "\n"

    def __str__(self) -> str:
        return self.command

    def __repr__(self) -> str:
        return f"<Launch {self.title}: {self.command}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The command, its file and the settings as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        values: dict[str, Json] = {
            "engine": self.engine,
            "engine_version": self.target.version,
            "command": self.command,
            "file": self.file or None,
            "replicas": self.deployment.replicas,
            "settings": [line.to_dict() for line in self.lines],
            "notes": list(self.notes),
        }
        return dict(selected(cast("Any", values), keys))


@overload
def launch(model: Prediction, gpu: None = None, *, to: str, every: bool = False) -> Launch: ...
@overload
def launch(model: str | Model, gpu: str | Gpu, *, to: str, every: bool = False, **options: Unpack[Case]) -> Launch: ...
@understood
def launch(
    model: str | Model | Prediction,
    gpu: str | Gpu | None = None,
    *,
    to: str,
    every: bool = False,
    **options: Unpack[Case],
) -> Launch:
    """The command that runs a case on a serving engine, with the origin of each value.

    Args:
        model: name, alias or record; or a prediction, in place of GPU and options.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        to: ``vllm``, ``sglang`` or ``trtllm``, with a version as in ``vllm@0.25``; without one, the version of the
            case, else the newest known.
        every: also state what the engine does by default.
        options: keyword arguments of `predict`; the engine is that of `to`, unless it is stated.

    Returns:
        Command, reasons and notes.

    Raises:
        UnknownName: no such engine, or a version whose arguments are not known.
        BadInput: a case of another engine, a plan or a format that the engine has no arguments for, a model whose name
            begins with a hyphen, or as `predict` raises.

    Valid:
        One replica of one pool; `Launch.text` says how many there are.

    Source:
        Arguments of the engines' own parsers, by version: engine_specs/arguments.

    >>> import roofline as rl
    >>> rl.launch("qwen3-8b", "l40s", to="vllm@0.19", concurrency=4, max_model_len="16k")
    <Launch vLLM 0.19.0: vllm serve Qwen/Qwen3-8B --max-model-len 16384>
    """
    name = scalar(to)
    if not isinstance(name, str):
        raise BadInput(f"to = {shown(to)} must be one of {', '.join(engines_with_arguments())}")
    target = target_of(name)
    if isinstance(model, Prediction):
        prediction = model
    else:
        chosen: dict[str, Any] = {"engine": with_version(target), **options}
        prediction = predict(model, cast("Any", gpu), **chosen)
    profile = prediction.deployment.engine
    if profile.version and not target.asked and profile.family == target.engine:
        target = target_of(f"{target.engine}@{profile.version}")
    return launched(prediction.deployment, target, prediction, every=every)


def launched(
    deployment: Deployment, target: Target, prediction: Prediction | None = None, *, every: bool = False
) -> Launch:
    """The launch text of a deployment, which must be of the same engine; a prediction of it tells the room it has."""
    if deployment.engine.family != target.engine:
        raise BadInput(
            f"the case is of engine {deployment.engine.name}, not of {target.title}; ask with engine = {target.engine}"
        )
    fault = fault_of(target, settings_of(deployment))
    if fault is not None:
        raise BadInput(fault)
    drafting = None if deployment.draft is None else deployment.draft.model
    for one in (deployment.model, drafting):
        if one is not None:
            check_name(one.name)
    kept = [line for line in _lines(deployment, target, prediction) if every or not line.is_default]
    return Launch(deployment, target, tuple(kept), tuple(_notes(deployment, target)))


def planned(text: Launch, because: str) -> Launch:
    """The launch text of a plan that was searched for, and why it is the one."""
    lines = [
        line._replace(origin=line.origin.replace("as asked", "as planned", 1))
        if line.stated.setting in _SEARCHED
        else line
        for line in text.lines
    ]
    return replace(text, lines=tuple(lines), because=because)


_SEARCHED = ("tp", "pp", "dp", "ranks", "attention_dp", "ep", "max_num_batched_tokens")


def launched_fit(fit: Fit, *, every: bool = False, is_eager: bool = False) -> Launch:
    """The launch text of a deployment whose start was asked about."""
    if fit.deployment is None:
        raise BadInput(str(fit.error))
    text = launched(fit.deployment, fit.target, every=every)
    told = [line._replace(origin=_start_origin(line, fit)) for line in text.lines]
    argument = fit.target.argument("enforce_eager")
    if is_eager and argument is not None:
        told.append(Line(Stated("enforce_eager", argument, value=True), "as asked", is_default=False))
    return replace(text, lines=tuple(told))


def _start_origin(line: Line, fit: Fit) -> str:
    if line.stated.setting not in {"gpu_memory_utilization", "max_model_len"} or not fit.tokens:
        return line.origin
    longest = f", {fit.max_concurrency or 0.0:.2f} requests of the longest" if fit.starts else ""
    return f"{line.origin}; {fit.tokens:,.0f} KV tokens{longest}"


def _lines(deployment: Deployment, target: Target, prediction: Prediction | None) -> Iterator[Line]:
    """Every setting of a case in the arguments of an engine, with its reason."""
    usual = settings_of(_usual(deployment, target))
    values = settings_of(deployment)
    longest = None if values["max_model_len"] else longest_that_starts(deployment)
    if longest is not None:
        values["max_model_len"] = int(longest)
    for each in stated(target, values):
        if each.setting == "chunked":
            longest_prompt = float(values["max_model_len"] or 0.0 if prediction is None else prediction.workload.isl)
            if longest_prompt <= float(deployment.engine.max_num_batched_tokens or 0.0):
                continue  # off by default, and not needed
            is_default = False
        elif each.setting in _PLAIN_DEGREES:
            is_default = each.value is not True and each.value == _PLAIN_DEGREES[each.setting]
        else:
            is_default = each.setting in _SETTINGS and values.get(each.setting) == usual.get(each.setting)
        origin = _origin(each, deployment, prediction, is_default=is_default)
        if each.setting == "max_model_len" and longest is not None:
            most = deployment.model.max_context or 0
            origin = f"the most that the KV cache holds; the model's own {most:,} tokens would not start"
        yield Line(_checked(each, target), origin, is_default)
    yield from _prefix_lines(target, prediction)


def _usual(deployment: Deployment, target: Target) -> Deployment:
    """The deployment with the defaults of its engine."""
    profile = engine_of(with_version(target), 0.0, None, deployment.gpu)
    return replace(deployment, engine=profile, draft=None)


def _checked(each: Stated, target: Target) -> Stated:
    """A setting whose value the version takes; others are refused."""
    if each.argument.type not in SWITCHES and each.value is not True:
        each.argument.value(_value_text(each.value), target.version)
    return each


def _prefix_lines(target: Target, prediction: Prediction | None) -> Iterator[Line]:
    """The prefix cache, which the engines keep on unless they are told otherwise."""
    argument = target.argument("prefix")
    if argument is None or argument.type not in {"bool-no", "bool"} or target.engine == "sglang":
        return
    is_used = prediction is not None and bool(prediction.workload.prefix)
    origin = "prompts share a prefix" if is_used else "on in this version anyway; the case counts no hits"
    yield Line(Stated("prefix", argument, value=True), origin, is_default=True)


# Where a value comes from, and how much room it leaves.


def _origin(each: Stated, deployment: Deployment, prediction: Prediction | None, *, is_default: bool) -> str:
    about, of_load = _OF_DEPLOYMENT.get(each.setting), _OF_LOAD.get(each.setting)
    told = "" if about is None else about(deployment)
    if of_load is not None and prediction is not None:
        told = of_load(prediction)
    source = _source(each.setting, deployment, prediction, is_default=is_default)
    return f"{source}; {told}" if told else source


def _source(setting: str, deployment: Deployment, prediction: Prediction | None, *, is_default: bool) -> str:
    """Who chose a value: the caller, roofline, the engine."""
    remembered = None if prediction is None else vars(prediction).get("_asked")
    asked = dict.fromkeys(deployment.engine.stated, True) if prediction is None else {}
    if remembered is not None:
        _, gpu, options = remembered
        asked = choice(gpu, options).options
    names = {
        "weights": ("weights", "quantization"),
        "attention_dp": ("dp",),
        "ranks": ("dp",),
        "enable_eplb": ("eplb",),
    }.get(setting, (setting,))
    if any(asked.get(name) is not None for name in names):
        return "as asked"
    if setting in _PLAIN_DEGREES or setting == "attention_dp":
        is_searched = setting == "tp" and remembered is not None
        return "the smallest that serves the case" if is_searched else "the plan"
    if setting == "kv_cache_dtype" and settings_of(deployment)["weights"] is None:
        return "as asked"  # of a checkpoint as it is, the cache has its own format unless another is asked for
    if setting == "kv_cache_dtype":
        return "with the weights in this format"
    if setting == "chunked":
        return "off by default; without it a prompt longer than the budget is refused"
    return "the engine's default on this GPU" if is_default else "chosen"


def _tp_origin(prediction: Prediction) -> str:
    share = float(prediction.memory.used_fraction)
    return f"{percent_figure(share)} % of the memory of each GPU is in use at this load"


def _seqs_origin(prediction: Prediction) -> str:
    running = prediction.to_dict(["running", "batch"])
    many = cast("Any", running).get("running") or cast("Any", running).get("batch")
    limit = prediction.deployment.engine.max_num_seqs
    if not many or not limit:
        return ""
    per_rank = float(many) / prediction.deployment.plan.dp / prediction.deployment.replicas
    return f"{rounded(per_rank)} run at once in the mean, {percent_figure(per_rank / limit)} % of it"


def _tokens_origin(prediction: Prediction) -> str:
    budget, isl = prediction.deployment.engine.max_num_batched_tokens, float(prediction.workload.isl)
    if not budget:
        return ""
    chunks = -(-isl // budget)
    return f"a prompt of {isl:.0f} tokens takes {counted(int(chunks), 'step')}"


def _length_origin(prediction: Prediction) -> str:
    length = prediction.deployment.engine.max_model_len
    asked = float(prediction.workload.isl) + float(prediction.workload.osl)
    return "" if not length else f"requests here have {asked:.0f} tokens, {percent_figure(asked / length)} % of it"


def _share_origin(prediction: Prediction) -> str:
    deployment = prediction.deployment
    if not deployment.engine.start_up:
        return ""
    left = start_up_memory(deployment).kv_cache
    used = float(prediction.memory.kv_cache)
    return f"{percent_figure(used / left)} % of the KV cache that it leaves is in use" if left > 0.0 else ""


def _cache_origin(deployment: Deployment) -> str:
    if deployment.quantization.kv_nbytes >= 2.0 or kv_bytes_per_token(deployment.model) == 0.0:
        return ""
    return "half of the bytes of 16 bits"


def _weights_origin(deployment: Deployment) -> str:
    return f"quantized from {deployment.model.native['linear']} as it is loaded"


def _draft_origin(deployment: Deployment) -> str:
    draft = deployment.draft
    if draft is None:
        return ""
    text = f"{rounded(draft.acceptance.tokens)} tokens per step are expected of {draft.tokens} proposed"
    return f"{text}; put the path of the draft head in" if draft.method == "eagle" else text


_OF_LOAD: Mapping[str, Callable[[Prediction], str]] = {
    "tp": _tp_origin,
    "max_num_seqs": _seqs_origin,
    "max_num_batched_tokens": _tokens_origin,
    "max_model_len": _length_origin,
    "gpu_memory_utilization": _share_origin,
}
_OF_DEPLOYMENT: Mapping[str, Callable[[Deployment], str]] = {
    "kv_cache_dtype": _cache_origin,
    "weights": _weights_origin,
    "draft": _draft_origin,
}


def _beside(deployment: Deployment, target: Target) -> Iterator[str]:
    """Arguments for adapters and for weights in host memory, where they are known."""
    adapters, offload = deployment.adapters, deployment.offload
    if adapters is not None:
        known = f"--enable-lora --max-loras {adapters.slots} --max-lora-rank {adapters.slot_rank}"
        arguments = f"add {known} --lora-modules NAME=PATH" if target.engine == "vllm" else "state them by hand"
        yield f"{adapters.number} LoRA adapters of rank {adapters.rank}: {arguments}"
    if offload is not None:
        if offload.is_tables:
            stated = "add --engram-config '{\"cpu_offload\": true}'" if target.engine == "vllm" else "state it by hand"
            yield f"tables of n-grams in host memory: {stated}"
            return
        size = offloaded_bytes(deployment) / GIBI
        only = " --cpu-offload-params experts" if offload.is_experts else ""
        arguments = f"add --cpu-offload-gb {size:.3g}{only}" if target.engine == "vllm" else "state them by hand"
        yield f"weights in host memory: {arguments}"


def _notes(deployment: Deployment, target: Target) -> Iterator[str]:
    """What of a case no argument states."""
    values = settings_of(deployment)
    form = values["weights"]
    if form is not None and (online_name(target, form) is None or not values["is_sixteen_bit"]):
        yield f"weights {form}: put a checkpoint that has them in place of {deployment.model.name}"
    yield from _beside(deployment, target)
    if deployment.engine.network:
        yield "the round trip between client and server is not the server's to set"


# Texts.


def _case_text(deployment: Deployment) -> str:
    form = summary(deployment.model, deployment.quantization)[0]
    plan = deployment.plan
    degrees = [
        f"tp {plan.tp}",
        *(f"{name} {value}" for name, value in _beyond_tp(plan) if value > 1),
    ]
    return f"{deployed_text(deployment)} ({', '.join(degrees)}), weights {form}"


def _beyond_tp(plan: Plan) -> tuple[tuple[str, int], ...]:
    return ("pp", plan.pp), ("dp", plan.dp), ("ep", plan.ep), ("cp", plan.cp), ("dcp", plan.dcp)


def comment(text: str) -> str:
    """A comment on one line, without characters that end a line or that YAML does not take."""
    return re.sub(f"{_UNPRINTABLE}+", " ", text)


_WIDTH = 79  # columns of a comment


#: Control characters, ends of lines, halves of characters, and what is no character.
_UNPRINTABLE = r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]"


def quoted(value: Any) -> str:
    """A value as YAML and JSON both read it: letters as they are, since YAML does not join halves of characters."""
    return re.sub(_UNPRINTABLE, lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _wrapped(words: Sequence[str]) -> str:
    """A command with an argument on each line."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("--") and lines[-1]:
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines)


def _nested_yaml(lines: Sequence[Line]) -> str:
    """Settings with dotted names as nested YAML; comments are at the head of the text."""
    tree: dict[str, Any] = {}
    for line in lines:
        place = tree
        *parents, last = line.argument.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = line.stated.value
    return "".join(_yaml_lines(tree, 0))


def _yaml_lines(tree: Mapping[str, Any], depth: int) -> Iterator[str]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{'  ' * depth}{key}:\n"
            yield from _yaml_lines(value, depth + 1)
        else:
            yield f"{'  ' * depth}{key}: {quoted(value)}\n"
