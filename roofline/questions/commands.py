"""Launch commands that people have, read back as the options of a case."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from roofline.catalog.yaml import content_of_text
from roofline.physics.plan import PER_NODE
from roofline.questions.inputs.arguments import scalar
from roofline.questions.inputs.flags import (
    ARGUMENTS,
    EXCHANGES,
    METHODS_READ,
    REDUNDANT,
    Target,
    cache_of,
    check_name,
    target_of,
    title_name,
    weights_of,
    with_version,
)
from roofline.questions.inputs.options import ALL
from roofline.questions.inputs.start_logs import command_of_log
from roofline.specs.arguments import SWITCHES, Argument
from roofline.support.errors import BadInput, UnknownName, shown
from roofline.support.records import NamedTuple

if TYPE_CHECKING:
    from roofline.questions.inputs.signatures import SavedCase

#: Words that start a server -> its engine.
_PROGRAMS: Mapping[tuple[str, ...], str] = {
    ("vllm", "serve"): "vllm", ("vllm.entrypoints.openai.api_server",): "vllm", ("dynamo.vllm",): "vllm",
    ("sglang", "serve"): "sglang", ("sglang.launch_server",): "sglang", ("dynamo.sglang",): "sglang",
    ("trtllm-serve", "serve"): "trtllm", ("trtllm-serve",): "trtllm", ("dynamo.trtllm",): "trtllm",
}  # fmt: skip
_MODELS = ("--model", "--model-path", "--model_path", "--model-tag")
#: Images of the engines; that of vLLM starts the server by itself.
_IMAGES = {"vllm": "vllm/vllm-openai", "sglang": "lmsysorg/sglang", "trtllm": "tensorrt-llm/release"}
_VERSION = r"v?(\d+\.\d+[\w.]*)"
_HEREDOC = re.compile(r"^(.*<<\s*['\"]?(\w+)['\"]?[^\n]*)\n(.*?)^\2\s*$", re.MULTILINE | re.DOTALL)
#: Parts of a shell's text: those kept as they are; a line that goes on, a comment, a redirection; the end of a command.
_SHELL = re.compile(
    r"""(?P<kept>'[^']*'|"(?:\\.|[^"\\])*"|\\[^\r\n])|\\\r?(?:\n|\Z)|(?<!\S)\#[^\n]*"""
    r"""|(?:(?<!\S)\d+)?(?:&>>?|[<>]&|>>?|<)[ \t]*(?:'[^']*'|"[^"]*"|[^\s;&|<>'"]*)|(?P<end>[;&|]+)""",
    re.DOTALL,
)
_END = "\0"
_FILES = ("--extra_llm_api_options", "--config")  # of settings
#: Setting of TensorRT-LLM's file -> option of its command that it replaces.
#: Source: update_llm_args_with_extra_dict of tensorrt_llm/llmapi/llm_args.py, v1.3.0rc3: the file comes last.
_IN_FILE = {
    "tensor_parallel_size": "--tp_size", "pipeline_parallel_size": "--pp_size",
    "moe_expert_parallel_size": "--ep_size", "max_batch_size": "--max_batch_size",
    "max_num_tokens": "--max_num_tokens", "max_seq_len": "--max_seq_len",
    "kv_cache_config.free_gpu_memory_fraction": "--kv_cache_free_gpu_memory_fraction",
}  # fmt: skip
_TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_MOST_SETTINGS = 1000  # of a file
_TOLD_WEIGHTS = r"^# weights (\S+): "  # a note of `launch`, where no argument states them
_MOST_TEXT = 100_000  # characters


class Command(NamedTuple):
    """What a launch command says of a case."""

    options: dict[str, Any]  # keyword arguments of `predict`: the model, the engine, and what the command states
    notes: tuple[str, ...]  # what was left aside, and how some of it was read


def command_case(text: str) -> SavedCase:
    """Keyword arguments of `predict` that a launch command of a serving engine states.

    Args:
        text: a command such as ``vllm serve Qwen/Qwen3-8B --max-num-seqs 64``, ``python -m sglang.launch_server ...``,
            ``trtllm-serve ...``, ``docker run ... vllm/vllm-openai:v0.25.0 ...``, or what `launch` wrote; a version in
            an image's tag, or in the first comment, is that of the engine. Of several commands, the first that starts a
            server is read; for TensorRT-LLM, so is a file of settings that the text writes (``cat > FILE <<EOF``). Or
            the lines of a log in which vLLM (``non-default args: ...``) or SGLang (``ServerArgs(...)``) state theirs.

    Returns:
        Model, engine, plan, formats, budgets and draft; the GPU and the load are not in a command.

    Raises:
        BadInput: no command of a known engine, or a value that the engine would refuse.
        UnknownName: an argument that this version of the engine does not know, or a version that is not known here.

    >>> import roofline as rl
    >>> case = rl.command_case("vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 32k --kv-cache-dtype fp8")
    >>> case
    {'model': 'Qwen/Qwen3-8B', 'engine': 'vllm', 'tp': 2, 'max_model_len': 32000, 'kv_cache_dtype': 'fp8'}
    >>> rl.predict(gpu="h100-sxm", concurrency=8, **case).deployment.plan.tp
    2
    """
    return cast("SavedCase", read_command(text).options)


def read_command(text: str) -> Command:
    """The case of a launch command, with notes."""
    plain = scalar(text)
    if not isinstance(plain, str) or not plain.strip():
        raise BadInput(f"command = {shown(text)} must be the launch command of a server, such as 'vllm serve MODEL'")
    if len(plain) > _MOST_TEXT:
        raise BadInput(f"a command of more than {_MOST_TEXT:,} characters is none")
    plain = command_of_log(plain) or plain
    files = {match[1]: match[3] for match in _HEREDOC.finditer(plain)}
    servers = [server for words in _commands(_HEREDOC.sub("", plain)) if (server := _server(words)) is not None]
    if not servers:
        raise BadInput(
            "this is not a launch command that is known here: it has neither vllm serve, sglang.launch_server nor "
            "trtllm-serve"
        )
    engine, words = servers[0]
    read = _Reader(_target(engine, plain), words)
    if len(servers) > 1:
        read.notes.append(f"of the {len(servers)} servers that the text starts the first is read")
    told = re.search(_TOLD_WEIGHTS, plain, re.MULTILINE)
    read.weights = None if told is None else told[1]
    return read.command(files)


def _commands(text: str) -> list[list[str]]:
    """Words of each command of a shell's text, without comments and redirections.

    A line need not end in a backslash to go on: texts lose theirs on the way.

    >>> _commands("cd /srv && vllm serve x --port 80  # ours\\n > log 2>&1 &")
    [['cd', '/srv'], ['vllm', 'serve', 'x', '--port', '80'], []]
    """
    marked = _SHELL.sub(lambda part: part["kept"] or (_END if part["end"] else " "), text)
    try:
        return [shlex.split(command) for command in marked.split(_END)]
    except ValueError as fault:
        raise BadInput(f"the command cannot be split into words: {str(fault).lower()}") from None


def _server(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Engine of the server that a command starts, and the words after its program; None where it starts none."""
    place = next((place for place, word in enumerate(words) if _image_engine(word)), None)
    if place is None:
        return _program(words)
    rest = words[place + 1 :]
    entry = re.search(r"--entrypoint[= ](\S+)", " ".join(words[:place]))
    found = _program(rest) or (None if entry is None else _program([entry[1], *rest]))
    if found is None and entry is None and rest and _image_engine(words[place]) == "vllm":
        return "vllm", list(rest)
    return found


def _program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    names = tuple(word.rpartition("/")[2] for word in words)
    for place in range(len(names)):
        for program, engine in _PROGRAMS.items():
            end = place + len(program)
            if names[place:end] == program:
                return engine, list(words[end:])
    return None


def _image_engine(word: str) -> str | None:
    """Engine whose image a word names, with or without a registry and a tag."""
    return next((name for name, image in _IMAGES.items() if re.fullmatch(f"(?:.*/)?{image}(?:[:@].*)?", word)), None)


def _target(engine: str, text: str) -> Target:
    """The engine in the version that a text states: as `launch` does, in an image's tag, or in a comment's title."""
    stated = re.search(rf"^# engine: {engine}@(\S+)$", text, re.MULTILINE)
    if stated is not None:
        return target_of(f"{engine}@{stated[1]}")
    newest = target_of(engine)
    tagged = re.search(f"{_IMAGES[engine]}:{_VERSION}", text)
    if tagged is not None:
        target = target_of(f"{engine}@{tagged[1]}")
        return target._replace(asked=target.version)
    titled = re.search(rf"^#\s*{re.escape(newest.table.title)} {_VERSION}", text, re.MULTILINE)
    return newest if titled is None else target_of(title_name(target_of(f"{engine}@{titled[1]}")))


class _Reader:
    """Arguments of one command."""

    def __init__(self, target: Target, words: Sequence[str]) -> None:
        self.target = target
        self.notes: list[str] = []
        self.aside: list[str] = []  # what no figure depends on
        self.values: dict[str, Any] = {}  # argument -> value
        self.model: str | None = None
        self.weights: str | None = None  # as a note says
        self.ranks = 1  # that share the experts, with attention of their own
        self._read(list(words))

    def _read(self, words: list[str]) -> None:
        while words:
            word = words.pop(0)
            if word.startswith("-O") and self.target.engine == "vllm":  # how much is compiled: -O3, -O=3 or -O 3
                self.aside.append(f"-O{word[2:] or _next(words, word)}")
                continue
            if not word.startswith("-"):
                if self.model is None:
                    self.model = word
                    continue
                raise BadInput(f"{shown(word)} belongs to no argument of {self.target.title}")
            name, equals, value = word.partition("=")
            if self._is_model(name):
                self.model = value if equals else _next(words, name)
                continue
            argument, negated = self._named(name)
            if argument.type in SWITCHES:
                if equals:
                    raise BadInput(f"{name} takes no value, and has {shown(value)}")
                self.values[argument.name] = not negated
                continue
            text = value if equals else _next(words, name)
            if argument.type == "list":
                while words and not words[0].startswith("-"):
                    words.pop(0)
            self.values[argument.name] = self._value(argument, text)

    def _is_model(self, name: str) -> bool:
        return name in _MODELS

    def _named(self, name: str) -> tuple[Argument, bool]:
        """The argument, and whether its opposite is written."""
        spelled = name if self.target.engine == "trtllm" or not name.startswith("--") else name.replace("_", "-")
        for opposite in ("--no-", "--disable-"):
            if spelled.startswith(opposite):
                plain = self.target.table.arguments.get("--" + spelled.removeprefix(opposite))
                enabled = self.target.table.arguments.get("--enable-" + spelled.removeprefix(opposite))
                for one in (plain if opposite == "--no-" else None, enabled if opposite == "--disable-" else None):
                    if one is not None and one.type == "bool-no" and one.is_known_to(self.target.version):
                        return one, True
        if spelled in self.target.table.arguments or self.target.table.candidates(spelled):
            return self.target.table.named(spelled, self.target.version), False
        if "." in spelled:  # --speculative-config.method, keys of a JSON argument
            base = self.target.table.named(spelled.partition(".")[0], self.target.version)
            raise BadInput(f"{spelled}: write {base.name} as one JSON text here")
        if self.target.engine != "trtllm" and len(spelled) > len("--"):  # argparse takes the beginning of a name for it
            begun = self.target.table.beginning_with(spelled, self.target.version)
            if len(begun) == 1:
                return begun[0], False
            if begun:
                names = ", ".join(one.name for one in begun[:3])
                raise UnknownName(f"{name} is the beginning of several options of {self.target.title}: {names}")
        return self.target.table.named(spelled, self.target.version), False

    def _value(self, argument: Argument, text: str) -> Any:
        if argument.name == ARGUMENTS["max_model_len"].get(self.target.engine) and text in {"auto", "-1"}:
            return None
        return argument.value(text, self.target.version)

    def command(self, files: Mapping[str, str]) -> Command:
        """The case, from the arguments and the files that the text writes."""
        if not self.model:
            raise BadInput("the command names no model")
        check_name(self.model)
        self._read_file(files)
        options: dict[str, Any] = {"model": self.model, "engine": with_version(self.target)}
        options.update(self._plan())
        options.update(self._experts())
        options.update(self._budgets())
        options.update(self._formats())
        options.update(self._draft())
        base = self.target.engine
        if self._taken("enforce_eager"):
            self.notes.append(f"the answer assumes CUDA graphs, which {ARGUMENTS['enforce_eager'][base]} turns off")
        known = {names.get(base) for setting, names in ARGUMENTS.items() if setting != "prefix"}
        self.aside += [one for one in self.values if one not in {*known, *_SPECULATIVE, *_FILES, _MODE}]
        if self.aside:
            told = [f"--no-{one[2:]}" if self.values.get(one) is False else one for one in self.aside]
            self.notes.append(f"no part of the answer: {', '.join(told)}")
        return Command(options, tuple(self.notes))

    def _read_file(self, files: Mapping[str, str]) -> None:
        """Settings of the file that the command names, where the text writes it."""
        path = next((str(self.values[name]) for name in _FILES if name in self.values), None)
        if path is None:
            return
        file = path.rpartition("/")[2]
        text = next((text for head, text in files.items() if file in head or len(files) == 1), None)
        if text is None or self.target.engine != "trtllm":
            self.notes.append(f"{path} is not read: only the text of the command is")
            return
        for name, value in _settings(text, path).items():
            if value is not None:
                self._set_from_file(name, value)

    def _set_from_file(self, name: str, value: Any) -> None:
        arguments = self.target.table.arguments
        argument = arguments.get(_IN_FILE.get(name, name))
        if argument is None:
            if any(known.startswith(f"{name}.") for known in arguments):
                raise BadInput(f"{name} = {shown(value)} must be a mapping of settings")
            self.values[name] = value
            return
        if not argument.is_known_to(self.target.version):
            raise UnknownName(f"{self.target.title} does not know {name}")
        read = _of_file(argument, name, value, self.target.version)
        if self.values.get(argument.name, read) != read:
            self.notes.append(f"{name} of the file replaces {argument.name}")
        self.values[argument.name] = read

    def _taken(self, setting: str) -> Any:
        """The value that the command states of a setting; None where it does not."""
        name = ARGUMENTS[setting].get(self.target.engine)
        return None if name is None else self.values.get(name)

    def _plan(self) -> Iterator[tuple[str, Any]]:
        """Degrees, in the words of a case."""
        tp, pp, dp, ranks, cp, dcp = (
            int(_whole(self._taken(name)) or 1) for name in ("tp", "pp", "dp", "ranks", "cp", "dcp")
        )
        ep = self._taken("ep")
        engine, attention = self.target.engine, bool(self._taken("attention_dp"))
        replicas = 1
        if engine == "sglang":
            if attention:
                dp = max(dp, ranks)
            else:
                replicas = ranks
            tp = _share(tp, dp, "--tp-size", "--attn-dp-size")
            tp = _share(tp, cp, "--tp-size", "--attn-cp-size")
        elif engine == "trtllm" and self._taken("dp") is True:
            tp, dp = 1, tp
        for name, value in (("tp", tp), ("pp", pp), ("dp", dp), ("cp", cp), ("dcp", dcp)):
            if value > 1 or name == "tp":
                yield name, value
        if engine == "vllm":
            if ep:
                yield "ep", ALL
        elif ep not in {None, 1}:
            yield "ep", ep
        if replicas > 1:
            self.notes.append(f"{replicas} data-parallel ranks are replicas of their own")
            yield "num_gpus", replicas * tp * pp * dp * cp
        self.ranks = dp

    def _experts(self) -> Iterator[tuple[str, Any]]:
        """Load balancing of experts, half batches, and the exchange of tokens."""
        slots, engine = self._taken("eplb"), self.target.engine
        if isinstance(slots, Mapping):
            slots = slots.get(REDUNDANT)
        if slots is not None and type(slots) is not int:
            raise BadInput(f"{ARGUMENTS['eplb'][engine]}: {shown(slots)} must be a whole number of redundant experts")
        if self._taken("enable_eplb") or slots:
            yield "eplb", slots or 0
        if self._taken("two_batch_overlap"):
            yield "two_batch_overlap", True
        names = {name: exchange for exchange, name in reversed([*EXCHANGES.get(engine, {}).items()])}
        exchange = names.get(str(self._taken("all_to_all")))
        mode = self.values.get(_MODE) if engine == "sglang" else None
        if exchange is not None and mode != "low_latency":
            yield "all_to_all", PER_NODE if mode == "normal" else exchange

    def _budgets(self) -> Iterator[tuple[str, Any]]:
        for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "gpu_memory_utilization"):
            value = self._taken(name)
            if value is None:
                continue
            if self.target.engine == "sglang" and name in {"max_num_seqs", "max_num_batched_tokens"}:
                if value < 1:
                    self.notes.append("prompts are not cut into chunks, as --chunked-prefill-size says: not modelled")
                    continue
                value = _share(value, self.ranks, ARGUMENTS[name]["sglang"], "the ranks of the attention")
            yield name, value

    def _formats(self) -> Iterator[tuple[str, Any]]:
        weights, cache = self._taken("weights"), self._taken("kv_cache_dtype")
        form = self.weights if weights is None else weights_of(weights)
        if weights is not None and form is None:
            self.notes.append(f"--quantization {weights}: the format of the checkpoint's name, or its own, is taken")
        if form is not None:
            yield "weights", form
        kept = None if cache is None else cache_of(cache)
        if kept is not None:
            yield "kv_cache_dtype", kept
        elif form is not None:
            yield "kv_cache_dtype", "auto"

    def _draft(self) -> Iterator[tuple[str, Any]]:
        stated = self._taken("draft")
        if stated is None:
            return
        if self.target.engine == "vllm":
            config = stated
            if not isinstance(config, Mapping):
                raise BadInput(
                    f"--speculative-config {shown(config)} must be a mapping, such as "
                    '{"method": "mtp", "num_speculative_tokens": 2}'
                )
            method, tokens, model = config.get("method"), config.get("num_speculative_tokens"), config.get("model")
        elif self.target.engine == "sglang":
            method, model = str(stated), self.values.get("--speculative-draft-model-path")
            tokens = self.values.get("--speculative-num-steps")
            if tokens is None and self.values.get("--speculative-num-draft-tokens") is not None:
                tokens = self.values["--speculative-num-draft-tokens"] - 1
        else:
            method = str(stated)
            tokens = self.values.get("speculative_config.max_draft_len")
            tokens = tokens or self.values.get("speculative_config.num_nextn_predict_layers")
            model = self.values.get("speculative_config.speculative_model_dir")
            model = model or self.values.get("speculative_config.speculative_model")
        read = METHODS_READ.get(str(method).lower()) if method is not None else "mtp" if model is None else "model"
        if read is None:
            raise BadInput(f"drafts by {shown(method)} are not modelled; known: {', '.join(METHODS_READ)}")
        if read == "model" and model is None:
            raise BadInput("the command names no draft model")
        if not isinstance(model, str | None):
            raise BadInput(f"draft model {shown(model)} must be the name of a model")
        yield "draft", model if read == "model" else read
        if tokens is None:
            return
        if type(tokens) is not int or tokens < 1:
            raise BadInput(f"{shown(tokens)} must be a whole number of drafted tokens, at least 1")
        yield "draft_tokens", tokens


_MODE = "--deepep-mode"  # which kernels of DeepEP SGLang runs: normal, low_latency, or by phase

#: Arguments that belong to a draft.
_SPECULATIVE = (
    "--speculative-draft-model-path", "--speculative-num-steps", "--speculative-eagle-topk",
    "--speculative-num-draft-tokens", "speculative_config.max_draft_len", "speculative_config.max_matching_ngram_size",
    "speculative_config.num_nextn_predict_layers", "speculative_config.speculative_model",
    "speculative_config.speculative_model_dir",
)  # fmt: skip


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _share(value: int, ranks: int, name: str, ranks_name: str) -> int:
    if value % ranks:
        raise BadInput(f"{name} {value} must be a multiple of {ranks_name} {ranks}")
    return value // ranks


def _next(words: list[str], name: str) -> str:
    if not words:
        raise BadInput(f"{name} has no value")
    return words.pop(0)


def _settings(text: str, path: str) -> dict[str, Any]:
    """Settings of a file under dotted names."""
    try:
        content = content_of_text(text)
        settings = dict(islice(_flat(content), _MOST_SETTINGS + 1)) if isinstance(content, Mapping) else None
    except Exception:  # noqa: BLE001 - the reader is for shipped files, and fails on others in many ways
        raise BadInput(f"{path} cannot be read as YAML") from None
    if settings is None:
        raise BadInput(f"{path} must be a mapping of settings, and is {shown(content)}")
    if len(settings) > _MOST_SETTINGS:
        raise BadInput(f"{path} has more than {_MOST_SETTINGS:,} settings")
    return settings


def _of_file(argument: Argument, name: str, value: Any, version: str) -> Any:
    """A value of a file as the type of its argument has it."""
    if argument.type == "list":
        return value
    if argument.type in SWITCHES:
        if str(value).lower() not in _TRUTHS:
            raise BadInput(f"{name} = {shown(value)} must be true or false")
        return _TRUTHS[str(value).lower()]
    types = (str,) if argument.type in {"str", "choice"} else (int, float, str)
    if type(value) not in types:
        raise BadInput(f"{name} = {shown(value)} must be {'a text' if types == (str,) else 'a number'}")
    return argument.value(str(value), version)


def _flat(settings: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings under dotted names."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
