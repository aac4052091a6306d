"""Prepares pictures for a vision tower: resizes the pictures, cuts them into tiles and normalises them.

The module also makes the text that represents a picture in a prompt.

Pixels and text depend only on the picture's pixels and on preprocessor_config.json. The results equal those of the processors of `transformers`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.policies.fields import Unsupported
from gradus.types import UserError

LARGEST = 4096  # largest number of pixels of a side, as in transformers
FAKE, GLOBAL = "<fake_token_around_image>", "<global-img>"  # special tokens of Idefics3


@dataclass(frozen=True)
class Preparation:
    """The steps that prepare a picture for the tower. Sizes are (height, width) in pixels.

    The first steps are the fields from `square` to `splits`, in this order. At the end, the pixels are multiplied by `factor` and normalised by `mean` and
    `std`.
    """

    side: int  # pixels per side of the tower's tiles
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    factor: float = 1 / 255
    resample: int = 3  # kind of resampling, numbered as in Pillow: 1 Lanczos, 2 bilinear, 3 bicubic
    square: bool = False  # True: first, the mean colour fills the picture up to a square
    exact: tuple[int, int] | None = None  # the picture is resized to this size
    shortest: int | None = None  # or the picture is resized until its shorter side has this number of pixels
    crop: tuple[int, int] | None = None  # then a middle part of this size is cut out
    longest: int | None = None  # Idefics3: the longer side is resized to this number of pixels
    splits: bool = False  # Idefics3: then the picture is cut into tiles of `side` pixels per side; the whole picture follows as one more tile

    def tiles(self, picture: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
        """Returns the tiles of a picture uint8 [H, W, 3], float32 [tiles, 3, side, side], and the rows and columns of the split.

        The numbers of rows and columns are (0, 0) if the picture is not split.
        """
        found, split = self._cut(picture) if self.longest else ([self._fitted(picture)], (0, 0))
        for tile in found:
            if tile.shape[:2] != (self.side, self.side):
                raise UserError(
                    f"a prepared picture is {tile.shape[1]} x {tile.shape[0]} pixels, but the tower takes {self.side} x {self.side}; "
                    "set `size` or `crop_size` in preprocessor_config.json to the `image_size` of the tower"
                )
        stacked = np.stack(found).astype(np.float32) * np.float32(self.factor)
        normed = (stacked - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(normed.transpose(0, 3, 1, 2)), split

    def split(self, height: int, width: int) -> tuple[int, int]:
        """Returns the rows and columns into which a picture of this size is split; (0, 0) if the picture is not split."""
        if not self.longest or not self.splits:
            return 0, 0
        height, width = multiples(bounded((height, width), self.longest), self.side)
        return (height // self.side, width // self.side) if max(height, width) > self.side else (0, 0)

    def _fitted(self, picture: np.ndarray) -> np.ndarray:
        if self.square:
            picture = _squared(picture, tuple(int(x * 255) for x in self.mean))
        if self.exact is not None:
            picture = resized(picture, self.exact, self.resample)
        elif self.shortest is not None:
            height, width = picture.shape[:2]
            long = int(self.shortest * max(height, width) / min(height, width))
            picture = resized(picture, (self.shortest, long) if height <= width else (long, self.shortest), self.resample)
        return picture if self.crop is None else _middle(picture, self.crop)

    def _cut(self, picture: np.ndarray) -> tuple[list[np.ndarray], tuple[int, int]]:
        assert self.longest is not None
        side = self.side
        picture = resized(picture, bounded(picture.shape, self.longest), self.resample)
        if not self.splits:
            return [resized(picture, (side, side), self.resample)], (0, 0)
        picture = resized(picture, multiples(picture.shape, side), self.resample)
        rows, columns = picture.shape[0] // side, picture.shape[1] // side
        if rows * columns == 1:
            return [picture], (0, 0)
        found = [picture[r * side : (r + 1) * side, c * side : (c + 1) * side] for r in range(rows) for c in range(columns)]
        return [*found, resized(picture, (side, side), self.resample)], (rows, columns)


def preparation(fields: Mapping[str, Any], side: int, splits: bool) -> Preparation:
    """Returns the preparation from preprocessor_config.json, for a tower with pictures of `side` x `side` pixels.

    `splits`: whether the fields belong to Idefics3. Raises: Unsupported with the field that is not implemented.
    """
    _check(fields, splits)
    common: dict[str, Any] = {
        "side": side,
        "factor": float(fields.get("rescale_factor", 1 / 255)) if fields.get("do_rescale", True) else 1.0,
        "resample": int(fields.get("resample", 1 if splits else 3)),
    }
    if fields.get("do_normalize", True):
        common |= {name: _three(fields, f"image_{name}") for name in ("mean", "std")}
    else:
        common |= {"mean": (0.0,) * 3, "std": (1.0,) * 3}
    size = _size(fields, "size")
    if splits:
        if _size(fields, "max_image_size").get("longest_edge", side) != side:
            raise Unsupported("max_image_size", fields["max_image_size"])
        return Preparation(**common, longest=size.get("longest_edge", 4 * side), splits=bool(fields.get("do_image_splitting", True)))
    resizes, crops, crop = bool(fields.get("do_resize", True)), bool(fields.get("do_center_crop", False)), _size(fields, "crop_size")
    exact = (size["height"], size["width"]) if {"height", "width"} <= size.keys() else None
    if resizes and exact is None and "shortest_edge" not in size:
        raise Unsupported("size", fields.get("size"))
    return Preparation(
        **common,
        square=bool(fields.get("do_pad", False)),
        exact=exact if resizes else None,
        shortest=size.get("shortest_edge") if resizes else None,
        crop=(crop.get("height", crop.get("shortest_edge", side)), crop.get("width", crop.get("shortest_edge", side))) if crops else None,
    )


_READ = {
    *("do_resize", "size", "resample", "do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"),
    *("image_processor_type", "processor_class", "feature_extractor_type", "do_convert_rgb", "_valid_processor_keys", "data_format"),
    *("input_data_format", "device", "return_tensors", "default_to_square", "disable_grouping", "image_seq_length"),
}
_PLAIN = _READ | {"do_center_crop", "crop_size", "do_pad"}
_SPLIT = _READ | {"do_image_splitting", "max_image_size", "do_pad", "video_sampling"}


def _check(fields: Mapping[str, Any], splits: bool) -> None:
    for name, value in fields.items():
        if name not in (_SPLIT if splits else _PLAIN) and value not in (None, False):
            raise Unsupported(f"{name} (of preprocessor_config.json)", value)
    if fields.get("resample", 3) not in (0, 1, 2, 3, 4, 5):
        raise Unsupported("resample (of preprocessor_config.json)", fields["resample"])


def _three(fields: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = fields.get(name, [0.5] * 3)
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(x, (int, float)) for x in value):
        raise UserError(f"preprocessor_config.json: `{name}` is {value!r}; it must be three numbers, one per colour")
    return tuple(float(x) for x in value)


def _size(fields: Mapping[str, Any], name: str) -> dict[str, int]:
    value = fields.get(name) or {}
    if isinstance(value, int):
        return {"height": value, "width": value}
    return {key: int(pixels) for key, pixels in value.items() if pixels}


def stands_for(tile: str, rows: int, columns: int, framed: bool) -> str:
    """Returns the text that represents one picture. `tile` is the text with the placeholders of one tile.

    For Idefics3 (`framed`) the text names every tile with its row and column, then the whole picture.
    """
    if not framed:
        return tile
    if not rows:
        return f"{FAKE}{GLOBAL}{tile}{FAKE}"
    lines = ("".join(f"{FAKE}<row_{r + 1}_col_{c + 1}>{tile}" for c in range(columns)) + "\n" for r in range(rows))
    return f"{''.join(lines)}\n{FAKE}{GLOBAL}{tile}{FAKE}"


def resized(picture: np.ndarray, size: tuple[int, int], resample: int) -> np.ndarray:
    """Returns the picture with this (height, width). A picture that already has this size is returned unchanged."""
    if picture.shape[:2] == size:
        return picture
    try:
        from PIL import Image
    except ImportError:
        raise UserError(
            f"a picture of {picture.shape[1]} x {picture.shape[0]} pixels must be resized to {size[1]} x {size[0]}, "
            "which needs Pillow: pip install pillow"
        ) from None
    return np.asarray(Image.fromarray(picture).resize((size[1], size[0]), Image.Resampling(resample)))


def bounded(size: tuple[int, ...], longest: int) -> tuple[int, int]:
    """Returns the (height, width) after a resize to `longest` pixels on the longer side. No side gets more than LARGEST pixels. If LARGEST does not limit the
    size, the other side gets an even number of pixels.
    """
    height, width = size[:2]
    ratio = width / height
    if width >= height:
        width, height = longest, int(longest / ratio)
        height += height % 2
    else:
        height, width = longest, int(longest * ratio)
        width += width % 2
    height, width = max(height, 1), max(width, 1)
    if max(height, width) > LARGEST:
        ratio = width / height
        height, width = (max(int(LARGEST / ratio), 1), LARGEST) if width >= height else (LARGEST, max(int(LARGEST * ratio), 1))
    return height, width


def multiples(size: tuple[int, ...], side: int) -> tuple[int, int]:
    """Returns (height, width) rounded up to multiples of `side`.

    The longer side is rounded first. The other side is then changed in proportion and rounded.
    """
    height, width = size[:2]

    def up(pixels: float) -> int:
        return math.ceil(pixels / side) * side

    ratio = width / height
    if width >= height:
        width = up(width)
        return up(int(width / ratio)), width
    height = up(height)
    return height, up(int(height * ratio))


def _squared(picture: np.ndarray, colour: Sequence[int]) -> np.ndarray:
    height, width = picture.shape[:2]
    side = max(height, width)
    whole = np.empty((side, side, 3), np.uint8)
    whole[:] = colour
    top, left = (side - height) // 2, (side - width) // 2
    whole[top : top + height, left : left + width] = picture
    return whole


def _middle(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    (height, width), (tall, wide) = picture.shape[:2], size
    if height < tall or width < wide:
        raise UserError(
            f"a picture of {width} x {height} pixels is smaller than the crop of {wide} x {tall}; set `do_resize` to true in preprocessor_config.json"
        )
    top, left = (height - tall) // 2, (width - wide) // 2
    return picture[top : top + tall, left : left + wide]
