"""Preparation of pictures: equal to the processors of transformers, and sizes by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.policies.fields import Unsupported
from gradus.policies.pictures import Preparation, bounded, multiples, preparation, stands_for
from gradus.types import UserError
from tests.policies.vision_models import picture

SIZES = ((16, 16), (20, 31), (40, 12), (7, 9), (100, 64))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("siglip.image_processing_pil_siglip.SiglipImageProcessorPil", {"size": {"height": 16, "width": 16}, "resample": 2}),
        (
            "clip.image_processing_pil_clip.CLIPImageProcessorPil",
            {"size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}, "resample": 3},
        ),
        (
            "llava.image_processing_pil_llava.LlavaImageProcessorPil",
            {"size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": {"height": 16, "width": 16}, "do_pad": True, "resample": 3},
        ),
        (
            "idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil",
            {"size": {"longest_edge": 48}, "max_image_size": {"longest_edge": 16}, "do_image_splitting": True, "resample": 1},
        ),
        (
            "idefics3.image_processing_pil_idefics3.Idefics3ImageProcessorPil",
            {"size": {"longest_edge": 48}, "max_image_size": {"longest_edge": 16}, "do_image_splitting": False, "resample": 1},
        ),
    ],
)
def test_tiles_equal_those_of_transformers(name, fields, size):
    import importlib

    module, _, kind = name.rpartition(".")
    mean, std = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]
    fields = {**fields, "image_mean": mean, "image_std": std}
    theirs = getattr(importlib.import_module(f"transformers.models.{module}"), kind)(**fields)
    shown = picture(sum(size), *size).array
    splits = "max_image_size" in fields
    prepare = preparation(fields, 16, splits)
    due = theirs([shown], return_tensors="np", **({"return_row_col_info": True} if splits else {}))
    tiles, split = prepare.tiles(shown)
    np.testing.assert_allclose(tiles, due["pixel_values"][0] if splits else due["pixel_values"], atol=2e-6)
    if splits:
        assert split == prepare.split(*size) == (due["rows"][0][0], due["cols"][0][0])
        assert len(tiles) == split[0] * split[1] + 1


def test_sizes_by_hand():
    assert bounded((20, 30), 48) == (32, 48)
    assert bounded((31, 30), 48) == (48, 46)  # int(46.45), even
    assert bounded((3, 100), 48) == (2, 48)  # int(1.44) is odd
    assert multiples((32, 48), 16) == (32, 48)
    assert multiples((10, 40), 16) == (16, 48)  # 48 wide, then int(12) is rounded up


def test_a_fitting_picture_keeps_its_pixels_without_pillow(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    shown = picture(1).array
    tiles, _ = Preparation(side=16, exact=(16, 16)).tiles(shown)
    np.testing.assert_allclose(tiles[0], (shown.transpose(2, 0, 1) / 255 - 0.5) / 0.5, atol=1e-6)
    with pytest.raises(UserError, match="must be resized to 16 x 16, which needs Pillow"):
        Preparation(side=16, exact=(16, 16)).tiles(picture(1, 20, 20).array)


def test_the_text_of_a_split_picture():
    assert stands_for("<i>", 0, 0, framed=False) == "<i>"
    assert stands_for("<i>", 0, 0, framed=True) == "<fake_token_around_image><global-img><i><fake_token_around_image>"
    fake = "<fake_token_around_image>"
    assert stands_for("<i>", 1, 2, framed=True) == f"{fake}<row_1_col_1><i>{fake}<row_1_col_2><i>\n\n{fake}<global-img><i>{fake}"


def test_what_is_not_implemented_is_named():
    for fields, splits, name in (
        ({"size": {"height": 8, "width": 8}, "do_thumbnail": True}, False, "do_thumbnail"),
        ({"size": {"longest_edge": 8}}, False, "size"),
        ({"size": {"longest_edge": 48}, "max_image_size": {"longest_edge": 8}}, True, "max_image_size"),
        ({"size": {"height": 8, "width": 8}, "resample": 9}, False, "resample"),
    ):
        with pytest.raises(Unsupported, match=name):
            preparation(fields, 16, splits)
    with pytest.raises(UserError, match=r"`image_mean` is 0\.5; it must be three numbers"):
        preparation({"size": {"height": 16, "width": 16}, "image_mean": 0.5}, 16, False)
    with pytest.raises(UserError, match="a prepared picture is 8 x 8 pixels, but the tower takes 16 x 16"):
        preparation({"size": {"height": 8, "width": 8}}, 16, False).tiles(picture(1).array)
    with pytest.raises(UserError, match="smaller than the crop"):
        preparation({"do_resize": False, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}}, 16, False).tiles(picture(1).array)
