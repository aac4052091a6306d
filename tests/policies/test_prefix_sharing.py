from __future__ import annotations

import numpy as np

from gradus.policies.prefix_sharing import Family, families, opening
from gradus.types import Context
from tests.policies.contexts import alone, group, mixed, sample


def test_opening_is_what_stands_before_the_first_choice():
    rng = np.random.default_rng(0)
    first = group(rng, 1, 6, 5, 5)[0]
    assert opening(first) == 6
    assert opening(alone(first)) == 6
    assert opening(sample(rng, (first, 8), 3)) == 6  # the fork holds two tokens that were chosen
    assert opening(sample(rng, (first, 4), 3)) == 4  # this one left within the prompt
    hint = sample(rng, first.parent, 5, chosen=np.array([False, False, True, True, False]))
    assert opening(hint) == 8
    silent = sample(rng, first.parent, 2, chosen=np.zeros(2, bool))
    assert opening(silent) == 8


def test_forks_of_different_samples_share_the_prompt():
    rng = np.random.default_rng(1)
    samples = group(rng, 3, 6, 5, 5)
    forks = [sample(rng, (s, 9), 4) for s in samples]
    assert families(forks) == [Family(6, (0, 1, 2))]
    twins = [sample(rng, (samples[0], 9), 2) for _ in range(2)]
    assert families([*forks, *twins]) == [Family(9, (0, 3, 4)), Family(6, (1, 2))]


def test_every_acting_context_is_in_one_family_and_begins_as_it_does():
    contexts = mixed(np.random.default_rng(2))
    found = families(contexts)
    assert sorted(i for f in found for i in f.members) == [i for i, c in enumerate(contexts) if c.actions]
    for family in found:
        beginnings = {contexts[i].sequence[: family.shared].tobytes() for i in family.members}
        assert len(beginnings) == 1
        assert all(family.shared <= contexts[i].action_positions[0] for i in family.members)


def test_how_a_prompt_is_stored_does_not_matter():
    rng = np.random.default_rng(3)
    first = group(rng, 2, 6, 5, 5)
    again = Context(first[1].tokens.copy(), first[1].chosen.copy(), parent=(alone(first[0]), 6))
    assert families([first[0], again, alone(first[1])]) == [Family(6, (0, 1, 2))]
