"""Images, video and audio of a request as callers write them: parsed, checked, and described in notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from roofline.catalog import find
from roofline.numbers.quantity import HOUR
from roofline.physics.plan import Deployment
from roofline.questions.inputs.arguments import plain_value, scalar, several
from roofline.serving.latency import Workload
from roofline.specs.media import AUDIO, USUAL_SIZE, VISION, Media
from roofline.specs.model import Model
from roofline.specs.written import read_as, time_of_text, whole_of_text
from roofline.support.errors import BadInput, RooflineError, shown
from roofline.support.records import replace

#: Options of `predict` that say what else than text a request holds.
MEDIA = ("images", "image_size", "video_frames", "audio")

#: Notes on what a model could take besides text.
LEFT_OUT = "images are left out unless asked (--images)", "audio is left out unless asked (--audio)"

#: GPU -> median time of SGLang's encoder attention over that predicted (docs/method/encoders.md).
_BY_TRITON = {"b300": 5.5, "gb300-nvl72": 5.5, "l40s": 2.4, "rtx-pro-6000-server": 1.7}
_MOST = 10_000  # images or frames of a request
_LARGEST = 100_000  # pixels of a side
_MOST_SHOWN = 3  # models that could take them
_SIZE = re.compile(r"\s*(\d{1,6})\s*[xX]\s*(\d{1,6})\s*", re.ASCII)


def media_of(model: Model, images: Any, image_size: Any, video_frames: Any, audio: Any) -> Media | None:
    """What a request holds besides text; None where that is nothing."""
    from roofline.physics import media

    count, frames = _count("images", images), _count("video_frames", video_frames)
    seconds = _seconds(audio)
    if image_size is not None and not (count or frames or images is not None or video_frames is not None):
        raise BadInput(f"image_size = {shown(image_size)} is that of images; give images or video_frames")
    size = USUAL_SIZE if image_size is None else _size(image_size)
    kinds = {tower.kind for tower in model.encoders}
    for name, amount, kind in (("images", count, VISION), ("video_frames", frames, VISION), ("audio", seconds, AUDIO)):
        if amount and kind not in kinds:
            raise BadInput(_refusal(model, name, kind))
    return media.media_of(model.encoders, count, size, frames, seconds)


def with_media(workload: Workload, media: Media | None) -> Workload:
    """A workload whose prompts hold media after their text; `isl` was the text alone."""
    if media is None:
        return workload
    if workload.sessions is not None:
        raise BadInput("the turns of sessions are text here; leave out images, video_frames and audio, or turns")
    if workload.lengths is not None and not workload.lengths.prompts.is_fixed:
        raise BadInput("a spread of prompts would scale their images too; leave out isl_cv or lengths, or the images")
    tokens = float(media.tokens)
    return replace(workload, isl=workload.isl + tokens, media=tokens)


def check_media(deployment: Deployment, workload: Workload) -> None:
    """Refuse media under a load on several pipeline stages, of which the first encodes."""
    if deployment.media is not None and deployment.plan.pp > 1 and not workload.load.is_burst:
        raise BadInput(
            f"images under a load on pp = {deployment.plan.pp} stages, of which the first encodes them all, are not "
            "predicted; use tp"
        )


def media_notes(deployment: Deployment) -> Iterator[str]:
    """What the tokens and times of media stand on; of a model that could take some, that it gets none."""
    media, model = deployment.media, deployment.model
    if media is None:
        kinds = {tower.kind for tower in model.encoders}
        yield from (words for kind, words in zip((VISION, AUDIO), LEFT_OUT, strict=True) if kind in kinds)
        return
    yield (
        f"{media.text}: {media.tokens:,} tokens of the prompt after its text; resizing and decoding on the CPU is not "
        "counted"
    )
    slower = _BY_TRITON.get(deployment.gpu.name)
    if deployment.engine.name.startswith("sglang") and slower is not None and deployment.basis != "ideal":
        yield f"SGLang 0.5.14 ran encoder attention on {deployment.gpu.name} in Triton, about {slower:g} times as long"
    if deployment.plan.tp > 1:
        yield f"encoder sharded over tp {deployment.plan.tp}, the default of vLLM (--mm-encoder-tp-mode weights)"


def _count(name: str, value: Any) -> int:
    number = plain_value(name, scalar(value))
    if number is None:
        return 0
    if isinstance(number, str):
        number = read_as(f"{name} = {shown(value)}: ", whole_of_text, number)
    if type(number) is float and number.is_integer():
        number = int(number)
    if type(number) is not int or not 0 <= number <= _MOST:
        raise BadInput(f"{name} = {shown(value)} must be a whole number from 0 to {_MOST:,}")
    return number


def _seconds(value: Any) -> float:
    seconds = plain_value("audio", scalar(value))
    if seconds is None:
        return 0.0
    if isinstance(seconds, str):
        seconds = read_as(f"audio = {shown(value)}: ", partial(time_of_text, needs_unit=True), seconds)
    if type(seconds) not in (int, float) or not 0.0 <= seconds <= 24.0 * HOUR:
        raise BadInput(f"audio = {shown(value)} must be a length such as 30s, at most a day")
    return float(seconds)


def _size(value: Any) -> tuple[int, int]:
    """Width and height from ``1024x768``, one side of a square, or a pair."""
    plain = value if isinstance(value, Sequence) and not isinstance(value, str) else scalar(value)
    sides: list[Any]
    if isinstance(plain, str):
        match = _SIZE.fullmatch(plain)
        sides = list(map(int, match.groups())) if match else [int(plain)] * 2 if plain.strip().isdecimal() else [plain]
    elif isinstance(plain, Sequence):
        sides = several("image_size", plain)
    else:
        sides = [plain, plain]
    sides = [int(side) if type(side) is float and side.is_integer() else side for side in sides]
    if len(sides) != 2 or any(type(side) is not int or not 1 <= side <= _LARGEST for side in sides):
        raise BadInput(f"image_size = {shown(value)} must be width x height in pixels, such as 1024x768")
    return sides[0], sides[1]


def _refusal(model: Model, name: str, kind: str) -> str:
    what = {"images": "images", "video_frames": "video", "audio": "audio"}[name]
    near = _takers(model, kind)
    advice = f"models that do: {', '.join(near)}" if near else f"no model of the catalog has an encoder of {what}"
    why = f"{model.short_name} takes no {what}: its specification has no {kind} encoder"
    return f"{why}; {advice} (or a config.json with its {kind}_config)"


def _takers(model: Model, kind: str) -> list[str]:
    """Models of the catalog that take the kind, the nearest first: of the family, then of the size."""
    from roofline.physics.memory import parameters

    own, known = parameters(model).total, []
    for name in find.model_names():
        with suppress(RooflineError):
            other = find.load_model(name)
            if any(tower.kind == kind for tower in other.encoders):
                is_kin = other.family[:4] == model.family[:4]
                distance = max(own / parameters(other).total, parameters(other).total / own)
                known.append((not is_kin, distance, other.short_name))
    return list(dict.fromkeys(name for *_, name in sorted(known)))[:_MOST_SHOWN]
