from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gradus.types import Context, Key, UserError, prompt_context
from gradus.types.signals import EntropyOf, LogProb, Read, Value, Values, Viewed, seen_through


@dataclass(frozen=True)
class Longer:
    """A drawn number of extra tokens before the prompt."""

    most: int = 50

    def of(self, context: Context, key: Key) -> Context:
        extra = int(key.uniform() * self.most) + 1
        prompt = prompt_context(np.concatenate([np.full(extra, 9, np.int32), context.prefix]))
        return replace(context, parent=(prompt, len(prompt.tokens)))


@dataclass(frozen=True)
class Wrong:
    def of(self, context: Context, key: Key) -> Context:
        return replace(context, tokens=context.tokens[::-1].copy())


def samples() -> list[Context]:
    return [Context(np.array([3 + i, 4], np.int32), np.ones(2, bool), parent=(prompt_context([1, i]), 2)) for i in range(20)]


def test_a_view_draws_by_step_and_by_the_prompt():
    """Not by the place among the contexts: so micro-batches, old rows and a reference see it alike."""
    contexts = samples()
    lengths = [len(c.sequence) for c in seen_through(Longer(), contexts, Key(1))]
    again = [len(c.sequence) for c in seen_through(Longer(), contexts[::-1], Key(1))]
    assert lengths == again[::-1]
    assert len(set(lengths)) > 10
    assert lengths != [len(c.sequence) for c in seen_through(Longer(), contexts, Key(2))]


def test_the_answers_to_one_prompt_are_seen_alike():
    prompt = prompt_context([1, 2])
    contexts = [Context(np.array([3 + i, 4], np.int32), np.ones(2, bool), parent=(prompt, 2)) for i in range(20)]
    assert len({len(c.sequence) for c in seen_through(Longer(), contexts, Key(1))}) == 1  # so that the prefix of the view is shared, too


def test_a_view_leaves_the_actions():
    with pytest.raises(UserError, match=r"Wrong\.of changed the actions of a context \(2 actions before, 2 actions after\)"):
        seen_through(Wrong(), samples(), Key())


def test_a_viewed_want_is_the_want_but_for_its_view():
    want = Viewed(LogProb(), Longer())
    assert (want.view, want.compared, want.needed) == (Longer(), True, {"logprobs"})
    assert not Viewed(EntropyOf(), Longer()).compared
    assert len({want, Viewed(LogProb(), Longer(50)), Viewed(LogProb(), Longer(3)), LogProb()}) == 3


def test_any_want_is_a_signal():
    signal = Read(player="reference", reads=Viewed(Value("q"), Longer()))
    assert signal.want.needed == {"head:q"}
    assert Values("critic", name="q").want == Value("q")
    contexts = samples()
    assert signal.seen_by(contexts, {}, Key()) is contexts  # the view of the want comes on top
