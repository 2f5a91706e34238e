"""A deployment file of NVIDIA Dynamo: one pool, or a prefill and a decode pool, of a serving engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from roofline.numbers.operations import Json
from roofline.questions.disaggregate import Disaggregation
from roofline.questions.inputs.arguments import scalar
from roofline.questions.inputs.flags import Target, target_of, with_version
from roofline.questions.inputs.options import understood
from roofline.questions.launch import Launch, comment, launched, quoted
from roofline.questions.predict import predict
from roofline.serving.answers import Answer, selected
from roofline.serving.prediction import Prediction
from roofline.serving.row_types import Row
from roofline.specs.gpu import Gpu
from roofline.specs.model import Model
from roofline.specs.names import fold
from roofline.support.errors import BadInput, UnknownName, shown
from roofline.support.records import NamedTuple, dataclass

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import Case


class _Release(NamedTuple):
    """A release of Dynamo: what it runs, and how its file is written."""

    api: str
    engines: Mapping[str, str]  # engine -> version that its images hold


#: Release -> its API and engines. Source: ai-dynamo 1.6.1 and 1.0.2 (wheels and templates), the custom resource
#: nvidia.com_dynamographdeployments.yaml of the same months, https://github.com/ai-dynamo/dynamo, 2026-11.
RELEASES: Mapping[str, _Release] = {
    "1.0": _Release("nvidia.com/v1alpha1", {"vllm": "0.16.0", "sglang": "0.5.9", "trtllm": "1.3.0rc3"}),
    "1.6": _Release("nvidia.com/v1beta1", {"vllm": "0.31.0", "sglang": "0.5.21", "trtllm": "1.3.0rc3"}),
}
_PATCH = {"1.0": "1.0.2", "1.6": "1.6.1"}
_IMAGES = {"vllm": "vllm-runtime", "sglang": "sglang-runtime", "trtllm": "tensorrtllm-runtime"}
_MODELS = {"vllm": "--model", "sglang": "--model-path", "trtllm": "--model-path"}
#: Arguments of the TensorRT-LLM worker, which are spelled otherwise than those of trtllm-serve.
_OF_TRTLLM_WORKER = {
    "--tp_size": "--tensor-parallel-size", "--pp_size": "--pipeline-parallel-size",
    "--ep_size": "--expert-parallel-size",
    "--max_batch_size": "--max-batch-size", "--max_num_tokens": "--max-num-tokens", "--max_seq_len": "--max-seq-len",
    "--kv_cache_free_gpu_memory_fraction": "--free-gpu-memory-fraction",
}  # fmt: skip
_MOST_PER_NODE = 8  # GPUs of a machine
_SECRET = "hf-token-secret"  # noqa: S105 - the name of the secret that holds HF_TOKEN


@dataclass(frozen=True, repr=False)
class DynamoDeployment(Answer[Row]):
    """A deployment file of Dynamo.

    >>> import roofline as rl
    >>> result = rl.dynamo("llama-3.3-70b", "8xh100", to="vllm", tp=4, concurrency=64)
    >>> [pool.engine for pool in result.pools], result.text.splitlines()[-1].strip(), result.version
    (['vllm'], 'nvidia.com/gpu: "4"', '1.6.1')
    >>> result.to_dict(["dynamo_version"])
    {'dynamo_version': '1.6.1'}
    """

    release: str
    pools: tuple[Launch, ...]  # one, or prefill and decode

    @property
    def version(self) -> str:
        return _PATCH[self.release]

    @property
    def text(self) -> str:
        """The file, with the reasons as comments."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        first = self.pools[0]
        model = first.deployment.model
        engine = first.engine
        yield f"# Dynamo {self.version} with {first.title}: {comment(model.name)}"
        for role, pool in zip(self.roles, self.pools, strict=True):
            yield f"# {role}: {comment(pool.case)}"
            yield from (f"# {comment(note)}" for note in pool.notes)
        release = RELEASES[self.release]
        yield f"apiVersion: {release.api}"
        yield "kind: DynamoGraphDeployment"
        yield "metadata:"
        yield f"  name: {_resource_name(model.short_name)}"
        yield "spec:"
        yield f"  backendFramework: {engine}"
        is_late = release.api.endswith("beta1")
        yield "  components:" if is_late else "  services:"
        image = f"nvcr.io/nvidia/ai-dynamo/{_IMAGES[engine]}:{self.version}"
        component = _component if is_late else _service
        yield from component(_Part("Frontend", "frontend", 1, image, ["python3", "-m", "dynamo.frontend"], ()))
        for role, pool in zip(self.roles, self.pools, strict=True):
            deployment = pool.deployment
            command = ["python3", "-m", f"dynamo.{engine}"]
            words = _worker_words(pool, role)
            gpus = deployment.plan.num_gpus
            nodes = _nodes(gpus, deployment.plan.tp)
            part = _Part(role, role, deployment.replicas, image, command, words, gpus // nodes, nodes)
            yield from component(part)

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the pools."""
        return ("worker",) if len(self.pools) == 1 else ("prefill", "decode")

    def __str__(self) -> str:
        return f"Dynamo {self.version}: {' + '.join(self.roles)}"

    def __repr__(self) -> str:
        return f"<DynamoDeployment {self}>"

    def to_dict(self, keys: Iterable[str] | None = None) -> dict[str, Json]:
        """The file, and the settings of each pool, as plain values.

        Args:
            keys: the keys to keep; None for all.
        """
        pools = zip(self.roles, self.pools, strict=True)
        values: dict[str, Json] = {
            "dynamo_version": self.version,
            "file": self.text,
            "pools": {role: pool.to_dict() for role, pool in pools},
        }
        return dict(selected(cast("Any", values), keys))


class _Part(NamedTuple):
    """A component of the graph."""

    name: str
    kind: str  # frontend, worker, prefill or decode
    replicas: int
    image: str
    command: Sequence[str]
    words: Sequence[tuple[str, str]]  # arguments, each with a comment or none
    gpus: int = 0
    nodes: int = 1  # that share the GPUs of a replica


@understood
def dynamo(
    model: str | Model | Prediction | Disaggregation,
    gpu: str | Gpu | None = None,
    *,
    to: str = "vllm",
    release: str | None = None,
    every: bool = False,
    **options: Unpack[Case],
) -> DynamoDeployment:
    """A deployment file of NVIDIA Dynamo for a case: one pool, or two where a `disaggregate` answer is given.

    Args:
        model: name, alias or record; or a prediction, or two pools as `disaggregate` returns them, in place of GPU and
            options.
        gpu: name, alias, pool such as ``8xh100`` or ``b200:tp4:fp8``, or record.
        to: ``vllm``, ``sglang`` or ``trtllm``, in the version that the release contains; another is refused.
        release: release of Dynamo, ``1.6`` or ``1.0``; None for the newest.
        every: also state what the engine does by default.
        options: keyword arguments of `predict`.

    Returns:
        The file, a custom resource DynamoGraphDeployment.

    Raises:
        UnknownName: a release or an engine that is not known.
        BadInput: a case of another engine or version, or as `launch` raises.

    Source:
        ai-dynamo 1.6.1 and 1.0.2: templates of the wheels, arguments of dynamo.vllm, dynamo.sglang and dynamo.trtllm.

    >>> import roofline as rl
    >>> rl.dynamo("qwen3-8b", "l40s", to="sglang", concurrency=4)
    <DynamoDeployment Dynamo 1.6.1: worker>
    """
    name = _release_of(release)
    target = _target(name, str(scalar(to)))
    if isinstance(model, Disaggregation):
        pools = (model.pools.prefill, model.pools.decode)
        return DynamoDeployment(name, tuple(launched(pool, target, every=every) for pool in pools))
    if not isinstance(model, Prediction):
        engine = scalar(options.get("engine")) or target.engine
        if str(engine).partition("@")[0] != target.engine:
            raise BadInput(f"the case is of engine {shown(engine)}, not of {target.title}; leave the engine out")
        case: dict[str, Any] = {**options, "engine": with_version(_target(name, str(engine)))}
        model = predict(model, cast("Any", gpu), **case)
    return DynamoDeployment(name, (launched(model.deployment, target, model, every=every),))


def _release_of(release: str | None) -> str:
    if release is None:
        return [*RELEASES][-1]
    text = str(scalar(release)).removeprefix("v")
    name = ".".join(text.split(".")[:2])
    if name not in RELEASES:
        raise UnknownName(f"Dynamo {text} is not known here; known versions: {', '.join(_PATCH.values())}")
    return name


def _target(release: str, name: str) -> Target:
    """An engine in the version that a release holds; another version is refused."""
    engine, _, version = name.partition("@")
    versions = RELEASES[release].engines
    if engine not in versions:
        raise BadInput(f"to = {shown(engine)} must be one of {', '.join(versions)} in Dynamo")
    target = target_of(f"{engine}@{versions[engine]}")
    if version and target_of(name).version != target.version:
        raise BadInput(f"Dynamo {_PATCH[release]} holds {target.title}, not {shown(name)}; leave the version out")
    return target


def _nodes(gpus: int, tp: int) -> int:
    """Fewest machines with equally many GPUs each, and with whole tensor-parallel groups where that can be."""
    counts = [nodes for nodes in range(-(-gpus // _MOST_PER_NODE), gpus + 1) if gpus % nodes == 0]
    return next((nodes for nodes in counts if gpus // nodes % tp == 0), counts[0])


def engine_in(release: str | None, engine: str) -> str:
    """Name of the profile of an engine in the version that a release of Dynamo holds."""
    return with_version(_target(_release_of(release), engine))


def _worker_words(pool: Launch, role: str) -> list[tuple[str, str]]:
    """Arguments of a worker, with comments; settings of TensorRT-LLM's file go in as JSON."""
    engine = pool.engine
    words: list[tuple[str, str]] = [(_MODELS[engine], ""), (pool.deployment.model.name, "")]
    nested: dict[str, Any] = {}
    told: set[str] = set()
    for line in pool.lines:
        origin = "" if line.stated.setting in told else line.origin
        told.add(line.stated.setting)
        if line.in_file:
            place = nested
            *parents, last = line.argument.split(".")
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = line.stated.value
            continue
        first, *rest = line.words
        words.append((_OF_TRTLLM_WORKER.get(first, first) if engine == "trtllm" else first, origin))
        words += [(word, "") for word in rest]
    if engine == "trtllm" and role != "worker":
        nested["cache_transceiver_config"] = {"backend": "DEFAULT"}
        if role == "prefill":
            nested["disable_overlap_scheduler"] = True
    if nested:
        words += [("--override-engine-args", "settings that have no argument"), (json.dumps(nested), "")]
    if role != "worker":
        words += [("--disaggregation-mode", ""), (role, "")]
        words += [(word, "") for word in _TRANSFER[engine]]
    return words


#: What workers of a prefill or a decode pool take, as Dynamo's own templates have it.
_TRANSFER: Mapping[str, Sequence[str]] = {
    "vllm": ("--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'),
    "sglang": (
        "--disaggregation-transfer-backend", "nixl", "--disaggregation-bootstrap-port", "12345", "--host",
        "0.0.0.0",  # noqa: S104
    ),
    "trtllm": (),
}  # fmt: skip


def _arguments(part: _Part, indent: str) -> Iterator[str]:
    """The command and its arguments, each on a line with its comment."""
    yield f"{indent}command: {quoted(list(part.command))}"
    if part.words:
        yield f"{indent}args:"
    for word, told in part.words:
        yield f"{indent}- {quoted(word)}" + (f"  # {comment(told)}" if told else "")


def _component(part: _Part) -> Iterator[str]:
    """A component of nvidia.com/v1beta1."""
    yield f"  - name: {part.name}"
    yield f"    type: {part.kind}"
    yield f"    replicas: {part.replicas}"
    if part.nodes > 1:
        yield f"    multinode: {{nodeCount: {part.nodes}}}"
    yield "    podTemplate:"
    yield "      spec:"
    yield "        containers:"
    yield "        - name: main"
    yield f"          image: {part.image}"
    yield from _arguments(part, "          ")
    yield f"          envFrom: [{{secretRef: {{name: {_SECRET}}}}}]"
    if part.gpus:
        yield "          resources:"
        yield "            limits:"
        yield f'              nvidia.com/gpu: "{part.gpus}"'


def _service(part: _Part) -> Iterator[str]:
    """A service of nvidia.com/v1alpha1."""
    yield f"    {part.name}:"
    yield f"      componentType: {'frontend' if part.kind == 'frontend' else 'worker'}"
    if part.kind in {"prefill", "decode"}:
        yield f"      subComponentType: {part.kind}"
    yield f"      replicas: {part.replicas}"
    yield f"      envFromSecret: {_SECRET}"
    if part.nodes > 1:
        yield f"      multinode: {{nodeCount: {part.nodes}}}"
    if part.gpus:
        yield "      resources:"
        yield "        limits:"
        yield f'          gpu: "{part.gpus}"'
    yield "      extraPodSpec:"
    yield "        mainContainer:"
    yield f"          image: {part.image}"
    yield from _arguments(part, "          ")


def _resource_name(text: str) -> str:
    """A name that Kubernetes takes: small letters, digits and hyphens."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in fold(text))
    return plain.strip("-")[:50].rstrip("-") or "model"
