"""Every decoder of transformers beside torch: is its config.json read right, answered by its class, or refused?

    python accuracy/judge_configs.py                        a line a model type: default, draws, and what each says
    python accuracy/judge_configs.py --types llama,mamba2   these types alone
    python accuracy/judge_configs.py --fields all           one field of a small draw changed or absent, too

Each configuration is saved as `save_pretrained` writes it, read with and without the extra `trace`, and compared with
the parameters that torch holds on the meta device. `OFF` is an answer more than 0.1 % away from both of torch's counts,
with and without the values that are no parameters: the one thing that must not be. Needs transformers and torch.
"""

from __future__ import annotations

import argparse
import copy
import logging
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from build_oracle import Count, counted, drawn, saved
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from roofline.catalog.huggingface import config as reader
from roofline.physics.memory import parameters
from roofline.specs.build import model_record
from roofline.support.errors import RooflineError

TOLERANCE = 1e-3  # of the parameters
MAPPINGS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
)
#: What no reader looks at and no class builds tensors from.
NOISE = frozenset((
    "dtype", "transformers_version", "architectures", "model_type", "id2label", "label2id", "pad_token_id",
    "bos_token_id", "eos_token_id", "use_cache", "return_dict", "output_attentions", "output_hidden_states",
    "chunk_size_feed_forward", "vocab_size",
))  # fmt: skip


class Case(NamedTuple):
    """One configuration of a type, and what torch holds of it."""

    label: str
    values: dict[str, Any]
    count: Count


class Verdict(NamedTuple):
    """What a reader makes of a configuration: ok, OFF or refused."""

    word: str
    error: float  # relative, of the parameters
    text: str  # of the refusal, or both counts


def types() -> list[str]:
    """Model types with a causal class, or with one that makes text of images, video or audio."""
    found = {name for mapping in MAPPINGS for name in getattr(modeling_auto, mapping, ())}
    return sorted(name for name in found if name in CONFIG_MAPPING)


def judged(values: dict[str, Any], count: Count, *, trace: bool) -> Verdict:
    """How the package reads a saved configuration, with or without the extra `trace`."""
    found = reader.class_tensors
    if not trace:
        reader.class_tensors = lambda _: None
    try:
        document = reader.config_document(copy.deepcopy(values), "org/model").document
        total = parameters(model_record(document)).total
    except RooflineError as fault:
        return Verdict("refused", 0.0, str(fault).partition(":1: ")[2] or str(fault))
    except Exception as fault:  # noqa: BLE001 - a crash is a finding, too
        return Verdict("OFF", 1.0, f"crashed: {type(fault).__name__}: {fault}")
    finally:
        reader.class_tensors = found
    least, most = count.parameters, count.parameters + count.buffers
    away = max(least - total, total - most, 0)
    word = "ok" if away <= TOLERANCE * least else "OFF"
    return Verdict(word, away / max(1, least), f"{total:.0f} read, {least}..{most} by torch")


def cases(model_type: str, draws: int, *, fields: str | None) -> Iterator[Case]:
    """The default of a type, draws of small sizes, and draws with one field changed."""
    base = None
    for seed in range(draws + 1):
        try:
            config = drawn(model_type, seed)
            case = Case(f"seed {seed}", saved(config), counted(config))
        except Exception as fault:  # noqa: BLE001 - a class has a hundred ways to refuse sizes
            print(f"  {model_type} seed {seed}: no case: {str(fault)[:150]}", file=sys.stderr)
            continue
        yield case
        base = config if seed == 1 else base
    if base is not None and fields in ("changed", "all"):
        yield from changed(base)
    if base is not None and fields in ("absent", "all"):
        yield from absent(base)


def changed(base: Any) -> Iterator[Case]:
    """A configuration with one field changed at a time, where the class accepts it."""
    cls, values = type(base), saved(base)
    inner = base.get_text_config(decoder=True)
    section = next((name for name, value in vars(base).items() if value is inner), None)
    for name, value in inner.to_dict().items():
        if name in NOISE or name.startswith("_"):
            continue
        for other in others(name, value, inner):
            again = copy.deepcopy(values)
            (again if section is None else again[section])[name] = other
            try:
                config = cls.from_dict(copy.deepcopy(again))
                if config.get_text_config(decoder=True).to_dict().get(name) != other:
                    continue
                yield Case(f"{name}={str(other)[:60]}", saved(config), counted(config))
            except Exception:  # noqa: BLE001 - what a class refuses is not judged
                continue


def absent(base: Any) -> Iterator[Case]:
    """A configuration without one of its fields, which then has the value that its class assumes."""
    cls, values = type(base), saved(base)
    inner = base.get_text_config(decoder=True)
    section = next((name for name, value in vars(base).items() if value is inner), None)
    for name in list(values if section is None else values[section]):
        if name in NOISE:
            continue
        again = copy.deepcopy(values)
        (again if section is None else again[section]).pop(name)
        try:
            yield Case(f"no {name}", again, counted(cls.from_dict(copy.deepcopy(again))))
        except Exception:  # noqa: BLE001 - what a class refuses is not judged
            continue


def others(name: str, value: Any, config: Any) -> list[Any]:
    """Other values that a field may have."""
    if isinstance(value, bool):
        return [not value]
    if value is None:
        return [True, 2, 16]
    if isinstance(value, int):
        return [number for number in (0, value + 1, 2 * value) if number != value]
    if isinstance(value, float):
        return [2.0 * value or 1.0]
    if isinstance(value, list) and value:
        kinds = sorted({str(item) for item in value})
        dice = random.Random(name)
        found: list[Any] = [value[::-1]]
        if all(isinstance(item, str) for item in value):
            found += [[kind] * len(value) for kind in kinds] + [[dice.choice(kinds) for _ in value]]
        return [item for item in found if item != value]
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", help="model types, separated by commas")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument(
        "--fields", choices=("changed", "absent", "all"), help="change or leave out one field at a time"
    )
    parser.add_argument("--verbose", action="store_true", help="print every configuration")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    totals: Counter[str] = Counter()
    for model_type in asked.types.split(",") if asked.types else types():
        start, tally, off, refusals = time.time(), Counter(), [], Counter()
        for case in cases(model_type, asked.draws, fields=asked.fields):
            alone, traced = (judged(case.values, case.count, trace=trace) for trace in (False, True))
            word = "read" if alone.word == "ok" else alone.word
            if alone.word == "refused" and traced.word != "refused":
                word = "traced" if traced.word == "ok" else "OFF"
            tally[word] += 1
            worst = alone if alone.word == "OFF" else traced
            if word == "OFF":
                off.append(f"{case.label}: {worst.error:.2%} {worst.text}")
            if word == "refused":
                refusals[traced.text[:110]] += 1
            if asked.verbose:
                print(f"   {model_type} {case.label}: {word}: {(alone.text, traced.text)}")
        for word in tally:
            totals[word] += 1
        words = ", ".join(f"{word} {number}" for word, number in sorted(tally.items()))
        print(f"{model_type:28} {words} ({time.time() - start:.0f} s)", flush=True)
        for text in off[:12]:
            print(f"      OFF {text}")
        for text, number in refusals.most_common(4):
            print(f"      refused {number} x {text}")
    print(f"types with: {dict(totals)}")


if __name__ == "__main__":
    main()
