"""Similarity by hand, the clique, and the passes over it."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np

from gradus.curricula.dissimilar import CuratedClique, clique, grams, similarities
from gradus.tasks.code.code_output import code_output
from gradus.types import Key


def test_a_curated_set_has_no_similar_pair_and_no_further_member():
    texts = [p.question for p in code_output(augment=0.0).source.draw(range(60), 1, Key(0))]
    texts += texts[:10]  # copies
    similar = similarities(texts)
    kept = clique(similar, threshold=0.5, orders=10, key=Key(0))
    assert all(similar[i, j] < 0.5 for i, j in itertools.combinations(kept, 2))
    left = [i for i in range(70) if i not in kept]
    assert len(left) >= 10
    assert all(any(similar[i, j] >= 0.5 for j in kept) for i in left)
    assert len(kept) >= len(clique(similar, threshold=0.5, orders=1, key=Key(0)))
    assert clique(similar, threshold=1.01, orders=1, key=Key(0)) == list(range(70))


def test_similarity_by_hand():
    assert grams("a=b+1") == {("a", "=", "b"), ("=", "b", "+"), ("b", "+", "1")}
    assert grams("ab") == {("ab",)}
    # three 3-grams each, two of them common: 2 / 4
    assert similarities(["a=b+1", "a=b+2"]).tolist() == [[1.0, 0.5], [0.5, 1.0]]
    assert similarities([]).shape == (0, 0)


def test_of_a_star_the_leaves_are_kept():
    """Node 0 is similar to all others, which are dissimilar to each other."""
    similar = np.eye(5)
    similar[0] = similar[:, 0] = 1.0
    assert clique(similar, threshold=0.5, orders=10, key=Key(1)) == [1, 2, 3, 4]
    assert len(clique(np.array([[1.0, 0.5], [0.5, 1.0]]), threshold=0.5, orders=3, key=Key(1))) == 1  # 0.5 is too similar
    assert clique(np.zeros((0, 0)), threshold=0.5, orders=2, key=Key(1)) == []


def requests(rule, count=40):
    notes = []
    world = SimpleNamespace(seed=Key(1), group=4, task=SimpleNamespace(level=1), note=lambda name, value: notes.append(value))
    asked, state = rule.choose(code_output(augment=0.0).source, count, world, rule.start())
    return [r.problem.question for r in asked], state, notes


def test_passes_go_over_the_clique_alone():
    questions, state, notes = requests(CuratedClique(pool=64))
    assert (state["drawn"], notes) == (40, [len(state["kept"])])
    assert len(state["kept"]) < 64
    size = len(state["kept"])
    every, _, _ = requests(CuratedClique(pool=64), 2 * size)
    assert sorted(every[:size]) == sorted(every[size:])
    similar = similarities(sorted(set(every)))
    assert (similar[~np.eye(len(similar), dtype=bool)] < 0.5).all()
    _, random, _ = requests(CuratedClique(pool=64, equal_size=True))
    assert len(random["kept"]) == size
    assert random["kept"] != state["kept"]
    assert set(questions) <= set(every)
