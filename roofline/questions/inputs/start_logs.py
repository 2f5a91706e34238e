"""The arguments of a server as its log states them, put back into a launch command."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator

from roofline.questions.inputs.flags import ARGUMENTS
from roofline.support.errors import BadInput

#: Words before the arguments in the logs. vLLM: entrypoints/utils.py, log_non_default_args; SGLang: launch_server.
_VLLM, _SGLANG = "non-default args: {", "ServerArgs("
_MOST = 50_000  # characters of the arguments
_OF_VLLM = re.compile(r"'([a-z_]+)': ('[^'\n]*'|\{[^{}\n]*\}|[\w.+\-]+)")
_OF_SGLANG = re.compile(r"\b([a-z_]+)=('[^'\n]*'|[\w.+\-]+)")
_RELEASE = re.compile(r"\bversion v?(\d+\.\d+(?:\.\d+)?)")
_FURTHER = {
    "vllm": ("--speculative-config",),
    "sglang": ("--speculative-algorithm", "--speculative-num-steps", "--speculative-num-draft-tokens"),
}
_UNSAID = ("None", "False", "'auto'", "''")


def command_of_log(text: str) -> str | None:
    """The launch command that a log stands for; None where it states no arguments.

    >>> command_of_log("INFO: vLLM API server version 0.19.0\\nnon-default args: {'model': 'x/y', 'max_num_seqs': 64}")
    '# vLLM 0.19.0:\\nvllm serve x/y --max-num-seqs 64'
    """
    for engine, begin, pattern, title in (
        ("vllm", _VLLM, _OF_VLLM, "vLLM"),
        ("sglang", _SGLANG, _OF_SGLANG, "SGLang"),
    ):
        place = text.find(begin)
        if place < 0:
            continue
        line = text[place + len(begin) - 1 :].partition("\n")[0][:_MOST]
        values = {match[1]: match[2] for match in pattern.finditer(line)}
        model = next((values[name] for name in ("model_tag", "model", "model_path") if name in values), "")
        if not model.strip("'"):
            raise BadInput(f"the log of {title} states its arguments, but no model")
        version = _RELEASE.search(text)
        head = f"# {title} {version[1]}:\n" if version else ""
        start = ["vllm", "serve"] if engine == "vllm" else ["python", "-m", "sglang.launch_server", "--model-path"]
        return head + shlex.join([*start, model.strip("'"), *_words(engine, values)])
    return None


def _words(engine: str, values: dict[str, str]) -> Iterator[str]:
    """Arguments on which a case depends."""
    known = {names[engine] for names in ARGUMENTS.values() if engine in names} | {*_FURTHER[engine]}
    for name, value in values.items():
        argument = f"--{name.replace('_', '-')}"
        if argument not in known or value in _UNSAID:
            continue
        yield argument
        if value.startswith("{"):
            try:
                yield json.dumps(ast.literal_eval(value))
            except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
                raise BadInput(f"the log states {argument} in a form that is not known here") from None
        elif value != "True":
            yield value.strip("'")
