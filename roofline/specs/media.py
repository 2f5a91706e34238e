"""Images, video and audio in a prompt: the towers that encode them, and what one request sends."""

from __future__ import annotations

from roofline.numbers.operations import Real
from roofline.numbers.quantity import KIBI
from roofline.support.records import NamedTuple, dataclass

#: Kinds of towers, and the options that give them work.
VISION, AUDIO = "vision", "audio"
#: How audio is cut: filled up to whole chunks, or as long as it is.
AUDIO_RULES = PADDED, UNPADDED = "padded", "unpadded"
#: Size of an image where none is stated, width and height [pixels].
USUAL_SIZE = (KIBI, KIBI)


@dataclass(frozen=True, slots=True)
class Step:
    """A matrix before the layers of a tower, or after them."""

    inner: int
    outer: int
    count: int = 1  # copies, each with weights of its own
    rows: float = 1.0  # tokens that it multiplies, per patch before the layers, per merged token after them


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """An encoder: a transformer over the patches of images or the frames of audio, and its projector."""

    kind: str = VISION  # or audio
    hidden: int
    layers: int
    heads: int
    width: int  # of the feed-forward networks
    head_dim: int = 0  # 0: hidden over heads
    gated: bool = False  # networks have three matrices, not two
    layer_vectors: int = 0  # biases and norm weights of a layer
    vectors: int = 0  # biases, norm weights and positions outside the layers
    stem: tuple[Step, ...]  # from pixels or spectra to patches
    projector: tuple[Step, ...]  # from merged patches to the model's width
    window: int = 0  # [patches] that attend to each other in most layers; 0: all
    full_layers: int = 0  # layers without windows, where the others have them
    rule: str  # how an image becomes patches: a key of `physics.media.RULES`; for audio, padded or unpadded
    patch: int = 0  # [pixels] of its side
    merge: int = 1  # patches per token along each side; for audio, frames per token
    min_pixels: int = 0
    max_pixels: int = 0
    side: int = 0  # [pixels] of the image or of a tile, or of its longest side
    least_tiles: int = 1
    most_tiles: int = 1
    most_tokens: int = 0  # of an image; 0: as many as its pixels need
    extra_patches: int = 0  # per image or tile, such as a class token
    frames: int = 1  # of a video that one patch spans
    joint_frames: int = 1  # such spans that attend to each other and are averaged into one
    frame_tokens: int = 0  # most of one frame of a video; 0: those of an image
    markers: int = 0  # tokens around an image, or around each frame of a video
    row_markers: int = 0  # tokens after each row of patches
    tile_markers: int = 0  # tokens after each tile
    chunk: float = 0.0  # [s] of audio that are encoded together
    rate: float = 0.0  # [1/s] frames of audio that the layers see

    @property
    def head_width(self) -> int:
        """Values of one head."""
        return self.head_dim or self.hidden // self.heads

    def parameters(self) -> int:
        """Parameters of the tower and of its projector, biases and norms included."""
        return self.matrices + self.layers * self.layer_vectors + self.vectors

    @property
    def matrices(self) -> int:
        """Parameters of all matrices that are used."""
        attention = 4 * self.hidden * self.heads * self.head_width
        network = (3 if self.gated else 2) * self.hidden * self.width
        steps = sum(step.count * step.inner * step.outer for step in (*self.stem, *self.projector))
        return self.layers * (attention + network) + steps


class Part(NamedTuple):
    """What one request gives a tower to encode."""

    tower: Tower
    sequences: int  # that attend apart: images, tiles, spans of frames, chunks of audio
    patches: int  # of each
    merged: int  # tokens of all of them together, as they leave the projector
    tokens: int  # of the prompt that they become, markers included


class Media(NamedTuple):
    """Images, video and audio of one request."""

    parts: tuple[Part, ...]
    images: int = 0
    size: tuple[int, int] = USUAL_SIZE  # width and height [pixels]
    video_frames: int = 0
    audio: float = 0.0  # [s]

    @property
    def tokens(self) -> int:
        """Prompt tokens that they become [tokens]."""
        return sum(part.tokens for part in self.parts)

    @property
    def text(self) -> str:
        """In a few words: ``2 images of 1024x1024, 30 s of audio``."""
        size = f"{self.size[0]}x{self.size[1]}"
        parts = []
        if self.images:
            parts.append(f"{self.images} image{'' if self.images == 1 else 's'} of {size}")
        if self.video_frames:
            parts.append(f"{self.video_frames} video frame{'' if self.video_frames == 1 else 's'} of {size}")
        if self.audio:
            parts.append(f"{self.audio:g} s of audio")
        return ", ".join(parts)


def text_tokens(prompt: Real, media: Media | None) -> Real:
    """Tokens of a prompt that are text [tokens]."""
    return prompt if media is None else prompt - media.tokens
