"""Patches and tokens of images, video and audio: how the processors of models resize, tile and merge.

Sizes are whole numbers here, since every processor rounds to whole patches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product

from roofline.specs.media import AUDIO, PADDED, VISION, Media, Part, Tower
from roofline.support.records import NamedTuple, replace

_LARGE = 2  # times the most tokens of an image, above which LFM2-VL tiles it


class Grid(NamedTuple):
    """How a tower sees one image."""

    rows: int  # of merged tokens; of the whole image where it is tiled
    columns: int
    tiles: int = 1  # encoded apart
    patches: int = 0  # of each tile; 0: those of the grid
    tokens: int = 0  # of the image; 0: those of the grid


def tokens_of_image(tower: Tower, width: int, height: int) -> int:
    """Tokens that an image adds to a prompt, markers included.

    Args:
        tower: how it is resized, tiled and merged.
        width: of the image [pixels].
        height: of the image [pixels].

    Returns:
        Tokens [tokens].

    Source:
        Image processors of Hugging Face transformers 5.23, by model; see `RULES`.

    >>> from roofline.catalog.find import load_model
    >>> tower, = load_model("qwen3-vl-8b").encoders
    >>> tokens_of_image(tower, 1024, 1024)  # 32 x 32 pixels each, a marker before and after
    1026
    """
    return part_of_images(tower, 1, width, height).tokens


def part_of_images(tower: Tower, images: int, width: int, height: int) -> Part:
    """What images of one size give a tower to encode.

    Args:
        tower: the tower.
        images: their number [1].
        width: of each [pixels].
        height: of each [pixels].

    Returns:
        Sequences, patches and tokens.

    Source:
        Image processors of Hugging Face transformers 5.23, by model; see `RULES`.
    """
    grid = RULES[tower.rule](tower, width, height)
    merged = grid.tokens or grid.rows * grid.columns
    patches = (grid.patches or merged * tower.merge**2) + tower.extra_patches
    markers = tower.markers + tower.row_markers * grid.rows
    if grid.tiles > 1:
        markers += tower.tile_markers * (grid.tiles - 1)
    return Part(tower, images * grid.tiles, patches, images * merged, images * (merged + markers))


def part_of_video(tower: Tower, frames: int, width: int, height: int) -> Part:
    """What the frames of one video give a tower to encode.

    Args:
        tower: the tower, which may merge neighbouring frames.
        frames: their number [1].
        width: of each [pixels].
        height: of each [pixels].

    Returns:
        Sequences, patches and tokens.

    Valid:
        Frames of the stated size: a processor may shrink those of long videos further. Markers as around images.

    Source:
        Video processors of Hugging Face transformers 5.23: Qwen3-VL merges 2 frames into a patch, Kimi-K2.5 averages 4.
    """
    if tower.frame_tokens:
        tower = _with_most(tower, tower.frame_tokens)
    if tower.most_tiles > 1:  # frames are not tiled
        tower = _with_most(tower, tower.most_tokens, tiles=1)
    spans = -(-frames // tower.frames)
    groups = -(-spans // tower.joint_frames)
    one = part_of_images(tower, 1, width, height)
    patches = one.patches * min(spans, tower.joint_frames)
    return Part(tower, groups, patches, groups * one.merged, groups * one.tokens)


def part_of_audio(tower: Tower, seconds: float) -> Part:
    """What a recording gives a tower to encode.

    Args:
        tower: the tower.
        seconds: length of the recording [s].

    Returns:
        Chunks, frames and tokens.

    Source:
        Whisper: 30 s are 3,000 spectra of 10 ms, 1,500 frames after two convolutions (Radford et al.,
        arXiv:2212.04356); Voxtral joins four of them into a token (arXiv:2507.13264).

    >>> voxtral = Tower(kind="audio", hidden=1280, layers=32, heads=20, width=5120, stem=(), projector=(),
    ...                 rule="padded", merge=4, chunk=30.0, rate=50.0)
    >>> part_of_audio(voxtral, 45.0).tokens
    750
    """
    chunks = _up(seconds, tower.chunk)
    whole = round(tower.chunk * tower.rate)
    if tower.rule == PADDED:
        frames, last = chunks * whole, whole
    else:
        frames = _up(seconds * tower.rate, 1.0)
        last = whole if chunks > 1 else frames
    merged = -(-frames // tower.merge)
    return Part(tower, chunks, last, merged, merged + tower.markers)


def media_of(
    towers: tuple[Tower, ...], images: int, size: tuple[int, int], video_frames: int, audio: float
) -> Media | None:
    """Images, video and audio of a request, by the towers that encode them; None without any."""
    parts = []
    by_kind = {tower.kind: tower for tower in towers}
    if images:
        parts.append(part_of_images(by_kind[VISION], images, *size))
    if video_frames:
        parts.append(part_of_video(by_kind[VISION], video_frames, *size))
    if audio:
        parts.append(part_of_audio(by_kind[AUDIO], audio))
    return Media(tuple(parts), images, size, video_frames, audio) if parts else None


# How image processors choose the grid of an image.


def _area(tower: Tower, width: int, height: int) -> Grid:
    """Sides to the nearest whole token, within an area; Qwen2-VL's smart_resize."""
    side = tower.patch * tower.merge
    rows, columns = (max(round(length / side), 1) for length in (height, width))
    area = rows * columns * side * side
    if area > tower.max_pixels:
        shrink = (width * height / tower.max_pixels) ** 0.5
        rows, columns = (max(int(length / shrink / side), 1) for length in (height, width))
    elif area < tower.min_pixels:
        grow = (tower.min_pixels / (width * height)) ** 0.5
        rows, columns = (_up(length * grow, side) for length in (height, width))
    return Grid(rows, columns)


def _canvas(tower: Tower, width: int, height: int) -> Grid:
    """Sides up to whole tokens, within a number of tokens; Glm5Next's smart_resize."""
    side = tower.patch * tower.merge
    rows, columns = (_up(length, side) for length in (height, width))
    most, least = tower.max_pixels // side**2, tower.min_pixels / side**2
    if rows * columns < least:
        grow = (tower.min_pixels / (width * height)) ** 0.5
        rows, columns = (_up(_up(length * grow, 1), side) for length in (height, width))
    if rows * columns > most:
        low, high, (rows, columns) = 1, height, (1, 1)
        while low <= high:
            middle = (low + high) // 2
            tried = _up(middle, side), _up(max(width * middle // height, 1), side)
            if tried[0] * tried[1] <= most:
                (rows, columns), low = tried, middle + 1
            else:
                high = middle - 1
    return Grid(rows, columns)


def _native(tower: Tower, width: int, height: int) -> Grid:
    """Never enlarged, padded to whole tokens, within a number of patches; Kimi-K2.5's navit_resize."""
    patch, side = tower.patch, tower.patch * tower.merge
    patches = max(height // patch, 1) * max(width // patch, 1)
    most, longest = tower.max_pixels / patch**2, tower.side
    scale = min(1.0, (most / patches) ** 0.5, longest / height, longest / width)
    rows, columns = (_up(min(max(int(length * scale), 1), longest), side) for length in (height, width))
    return Grid(rows, columns)


def _aspect(tower: Tower, width: int, height: int) -> Grid:
    """The grid of nearly the same shape within a number of tokens; Muse-Glimmer's smart_resize."""
    side = tower.patch * tower.merge
    rows, columns, most = height / side, width / side, tower.most_tokens
    if rows * columns > most:
        shape = columns / rows
        rows = (most / shape) ** 0.5
        columns = rows * shape
    near = product(*((int(number), -int(-number // 1)) for number in (rows, columns)))
    grids = [grid for grid in sorted(set(near), reverse=True) if min(grid) >= 1 and grid[0] * grid[1] <= most]
    if not grids:
        grids = [(max(round(rows), 1), max(round(columns), 1))]
    return Grid(*min(grids, key=lambda grid: abs(grid[0] / grid[1] - height / width)))


def _budget(tower: Tower, width: int, height: int) -> Grid:
    """As many tokens as the model takes, of the same shape; Gemma-4's get_aspect_ratio_preserving_size."""
    side, most = tower.patch * tower.merge, tower.most_tokens
    scale = (most * side * side / (width * height)) ** 0.5
    rows, columns = int(height * scale / side), int(width * scale / side)
    if rows == 0:
        rows, columns = 1, min(max(width // height, 1), most)
    elif columns == 0:
        rows, columns = min(max(height // width, 1), most), 1
    return Grid(rows, columns)


def _longest(tower: Tower, width: int, height: int) -> Grid:
    """The longest side within a limit, sides up to whole tokens; Pixtral's get_resize_output_image_size."""
    ratio = max(height / tower.side, width / tower.side, 1.0)
    side = tower.patch * tower.merge
    rows, columns = (_up(length if ratio <= 1.0 else int(length / ratio), side) for length in (height, width))
    return Grid(max(rows, 1), max(columns, 1))


def _fixed(tower: Tower, width: int, height: int) -> Grid:  # noqa: ARG001
    """One size for all images, as of SigLIP in Gemma-3."""
    rows = tower.side // tower.patch // tower.merge
    return Grid(rows, rows)


def _canvases(tower: Tower, width: int, height: int) -> Grid:
    """Tiles of the canvas that fits best, and one of the whole image; Llama-4's get_best_fit."""
    scales = {}
    for rows, columns in _tilings(1, tower.most_tiles):
        scales[rows, columns] = min(tower.side * rows / height, tower.side * columns / width)
    enlarging = [scale for scale in scales.values() if scale >= 1.0]
    chosen = min(enlarging) if enlarging else max(scales.values())
    rows, columns = min((grid for grid, scale in scales.items() if scale == chosen), key=lambda grid: grid[0] * grid[1])
    tiles = rows * columns + (rows * columns > 1)
    return _tiled(tower, rows, columns, tiles)


def _tiles(tower: Tower, width: int, height: int) -> Grid:
    """Tiles in the grid of the nearest shape, and a thumbnail where there are several; InternVL."""
    grids = list(_tilings(tower.least_tiles, tower.most_tiles))
    rows, columns = _nearest_shape(grids, width, height, tower.side)
    return _tiled(tower, rows, columns, rows * columns + (rows * columns > 1))


def _thumbnail(tower: Tower, width: int, height: int) -> Grid:
    """One image where it is small, else tiles of the nearest shape and a thumbnail of it; LFM2-VL."""
    small = _area(tower, width, height)
    area = [max(round(length / (tower.patch * tower.merge)), 1) for length in (height, width)]
    if tower.most_tiles == 1 or area[0] * area[1] <= _LARGE * tower.most_tokens:
        return small
    grids = list(_tilings(max(tower.least_tiles, 2), tower.most_tiles))
    rows, columns = _nearest_shape(grids, width, height, tower.side)
    of_tile = (tower.side // (tower.patch * tower.merge)) ** 2
    tokens = rows * columns * of_tile + small.rows * small.columns
    tiles = rows * columns + 1
    return Grid(rows, columns, tiles, -(-tokens // tiles) * tower.merge**2, tokens)


#: Rule -> how many tokens, and in which grid, an image of some width and height becomes.
RULES: Mapping[str, Callable[[Tower, int, int], Grid]] = {
    "area": _area,
    "canvas": _canvas,
    "native": _native,
    "aspect": _aspect,
    "budget": _budget,
    "longest": _longest,
    "fixed": _fixed,
    "canvases": _canvases,
    "tiles": _tiles,
    "thumbnail": _thumbnail,
}


def _tiled(tower: Tower, rows: int, columns: int, tiles: int) -> Grid:
    of_tile = (tower.side // tower.patch // tower.merge) ** 2
    return Grid(rows, columns, tiles, of_tile * tower.merge**2, tiles * of_tile)


def _tilings(least: int, most: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of so many tiles, the fewest first."""
    for number in range(least, most + 1):
        yield from ((rows, number // rows) for rows in range(1, number + 1) if number % rows == 0)


def _nearest_shape(grids: list[tuple[int, int]], width: int, height: int, side: int) -> tuple[int, int]:
    """The grid whose shape is nearest; of equal ones the larger, where the image fills half of it."""
    best, least = (1, 1), float("inf")
    for rows, columns in sorted(grids, key=lambda grid: (grid[0] * grid[1], grid)):
        off = abs(width / height - columns / rows)
        is_filled = width * height > 0.5 * side * side * rows * columns
        if off < least or (off == least and is_filled):
            best, least = (rows, columns), off
    return best


def _with_most(tower: Tower, tokens: int, tiles: int | None = None) -> Tower:
    if tiles is None:
        return replace(tower, most_tokens=tokens)
    return replace(tower, most_tokens=tokens, most_tiles=tiles, least_tiles=min(tower.least_tiles, tiles))


def _up(length: float, unit: float) -> int:
    """Units that hold a length, at least one."""
    return max(-int(-length // unit), 1)
