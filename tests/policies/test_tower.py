"""Pieces of the tower by hand; its parity with transformers stands in test_sighted."""

from __future__ import annotations

import torch

from gradus.policies.tower import Tower, TowerConfig, fractions, initialise, patches, shuffled
from gradus.types import Key


def test_patches_are_cut_row_by_row_and_flattened_as_a_convolution_reads_them():
    pixels = torch.arange(2 * 3 * 4 * 4.0).view(2, 3, 4, 4)
    found = patches(pixels, 2)
    assert found.shape == (2, 4, 12)
    assert found[0, 1].tolist() == [2, 3, 6, 7, 18, 19, 22, 23, 34, 35, 38, 39]  # upper right square: red, green, blue
    kernel = torch.randn(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    due = torch.nn.functional.conv2d(pixels, kernel, stride=2).flatten(2).transpose(1, 2)
    torch.testing.assert_close(found @ kernel.flatten(1).T, due)


def test_a_square_of_patches_becomes_one_row():
    x = torch.arange(16.0).view(1, 16, 1)  # a square of 4 x 4 patches
    assert shuffled(x, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    assert torch.equal(shuffled(x, 1), x)


def test_positions_by_fraction_are_the_plain_ones_as_rounded_by_idefics3():
    for side in (2, 4, 8, 32):
        assert fractions(side).tolist() == list(range(side * side))
    assert set(fractions(27).tolist()) <= set(range(27 * 27))  # float32 rounds some fractions to the one before: the released models do, too


def test_only_the_layers_in_use_are_built():
    config = TowerConfig(hidden_size=8, intermediate_size=8, layers=1, heads=2, image_size=8, patch_size=4, class_token=True)
    tower = Tower(config)
    initialise(tower, Key(0))
    assert tower(torch.zeros(2, 3, 8, 8)).shape == (2, 4, 8)
    assert config.rows == 4
    kept = TowerConfig(hidden_size=8, intermediate_size=8, layers=1, heads=2, image_size=8, patch_size=4, class_token=True, keeps_class=True)
    assert Tower(kept)(torch.zeros(1, 3, 8, 8)).shape == (1, 5, 8)
    assert kept.rows == 5
    assert not any("layers.1" in name for name, _ in tower.named_parameters())
    assert float(tower.encoder.layers[0].layer_norm1.weight.min()) == 1.0
