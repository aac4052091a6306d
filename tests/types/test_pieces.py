"""The links of pieces of growing answers."""

from __future__ import annotations

from gradus.testing.methods import toy_trajectory
from gradus.types.pieces import continues, new_actions, piece_links


def test_a_piece_tells_its_new_actions_and_whether_it_continues():
    cut, done = (toy_trajectory([2, 3, 4], links=piece_links(2, still)) for still in (True, False))
    assert (new_actions(cut), continues(cut)) == (2, True)
    assert (new_actions(done), continues(done)) == (2, False)


def test_a_whole_answer_has_only_new_actions():
    whole = toy_trajectory([2, 3, 4])
    assert (new_actions(whole), continues(whole)) == (3, False)
