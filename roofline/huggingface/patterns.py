"""Names and patterns of modules in quantization configurations."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from time import thread_time

from roofline.huggingface.fields import Fields

# Prefixes of `layers.0` in checkpoints of plain models, multimodal wrappers and ModelOpt.
_PREFIXES = ("model.", "", "model.language_model.", "language_model.model.", "language_model.", "backbone.")
_LONGEST_PREFIXES = ("model.language_model.", "language_model.model.", "backbone.")  # all others are suffixes of these
_MOST_NAMES = 200_000
_FEW = 24  # names that are searched one by one; with more, the parts of a path are looked up instead
_MOST_EXPRESSIONS, _MOST_CHARACTERS = 500, 100_000  # patterns that begin with re:; characters of all patterns
_LONGEST_PATTERN = 300
# Groups that repeat take exponential time, several repeats or options a power of the length of a name.
_REPEATED_GROUP = re.compile(r"\)[*+{]").search
_REPEATS, _MOST_REPEATS = re.compile(r"[*+{]").findall, 4
_OPTIONS, _MOST_OPTIONS = re.compile(r"(?<![(*+}])\?").findall, 4
_PATIENCE = 1.0  # CPU time for all names of a configuration [s]; honest ones take milliseconds


class Names:
    """A list of names, globs and ``re:`` patterns, and whether a module is among them.

    A plain name covers a module if it is the path of the module or a whole part of it: ``gate`` covers
    ``layers.0.mlp.gate`` but not ``layers.0.mlp.gate_proj``; ``layers.0.self_attn`` covers all of that attention.
    """

    def __init__(self, texts: Collection[str], config: Fields | None = None, field: str = "") -> None:
        self.texts = tuple(texts)
        self._config = config
        self._field = field
        if len(self.texts) > _MOST_NAMES:
            raise self._fault(f"{len(self.texts)} names exceed the limit of {_MOST_NAMES}")
        patterns = [text for text in self.texts if text.startswith("re:") or set(text) & set("*?[")]
        expressions = [text for text in dict.fromkeys(patterns) if text.startswith("re:")]
        if len(expressions) > _MOST_EXPRESSIONS:
            raise self._fault(f"{len(expressions)} regular expressions exceed the limit of {_MOST_EXPRESSIONS}")
        characters = sum(map(len, patterns))
        if characters > _MOST_CHARACTERS:
            raise self._fault(f"{characters} characters of patterns exceed the limit of {_MOST_CHARACTERS}")
        self._plain = frozenset(self.texts).difference(patterns)
        lengths: dict[str, set[int]] = {}
        for text in self._plain:
            first, _, rest = text.partition(".")
            lengths.setdefault(first, set()).add(rest.count(".") + 2 if "." in text else 1)
        self._lengths = {first: sorted(counts) for first, counts in lengths.items()}
        self._dotted = tuple(f".{text}." for text in self._plain) if len(self._plain) <= _FEW else ()
        globs = [translate(text) for text in dict.fromkeys(patterns) if not text.startswith("re:")]
        self._patterns = [self._compile(text[3:]) for text in expressions]
        if globs:
            self._patterns.append(re.compile("|".join(globs)))
        self._since = thread_time()
        self._seen: dict[str, bool] = {}

    def match(self, paths: Iterable[str]) -> bool:
        """Whether any of the possible paths of a module is covered."""
        if not self.texts:
            return False
        for path in paths:
            if path not in self._seen:
                self._seen[path] = self._covers(path)
            if self._seen[path]:
                return True
        return False

    def _covers(self, path: str) -> bool:
        if thread_time() - self._since > _PATIENCE:
            raise self._fault("too costly to match against the modules of the model")
        if self._dotted:
            dotted = [f".{prefix}{path}." for prefix in _LONGEST_PREFIXES]
            if any(text in name for text in self._dotted for name in dotted):
                return True
        for prefix in _LONGEST_PREFIXES if self._plain and not self._dotted else ():
            if not self._plain.isdisjoint(_parts(prefix + path, self._lengths)):
                return True
        return any(pattern.match(prefix + path) for pattern in self._patterns for prefix in _PREFIXES)

    def _compile(self, text: str) -> re.Pattern[str]:
        repeats, options = len(_REPEATS(text)), len(_OPTIONS(text))
        is_slow = _REPEATED_GROUP(text) or repeats > _MOST_REPEATS or options > _MOST_OPTIONS
        if len(text) > _LONGEST_PATTERN or is_slow:
            raise self._fault(f"{text[:40]!r}... is too complex a pattern")
        try:
            return re.compile(text)
        except (re.error, OverflowError, RecursionError) as fault:
            raise self._fault(f"{text[:40]!r} is not a regular expression: {fault}") from None

    def _fault(self, text: str) -> Exception:
        config = self._config or Fields({}, "config.json")
        return config.fault(self._field or "names", text)


def _parts(path: str, lengths: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Parts of a path, each with as many components as some name that begins with the same component."""
    components = path.split(".")
    for start, component in enumerate(components):
        for length in lengths.get(component, ()):
            if start + length <= len(components):
                yield ".".join(components[start : start + length])
