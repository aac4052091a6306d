"""TTRL: votes over N and training on n, labels that are never read, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.ttrl import FirstSamples, WatchedMajority, ttrl
from gradus.rewards.majority import agreement
from gradus.rewards.verified import Verified
from gradus.selection.filters import Everything
from gradus.testing.methods import TOY, check_micro_batches, toy_group, train_toy, trained_trajectories, weights_after
from gradus.types import Failed, Group, Key, UserError
from gradus.types.parts import Source
from tests.rewards.judged import task, trajectory, waiting


@dataclass(frozen=True)
class Relabelled:
    """The problems of another source with another reference answer."""

    of: Source
    answer: str
    size: int | None = None

    def draw(self, indices, level, key):
        return [replace(p, answer=self.answer) for p in self.of.draw(indices, level, key)]


def relabelled(answer):
    return replace(TOY, source=Relabelled(TOY.source, answer), held_out=Relabelled(TOY.held_out, answer))


def test_rewards_and_advantages_by_hand() -> None:
    """Rewards 1 1 1 0 0 0 0 0: mean 3/8, deviation sqrt(15) / 8 = 0.4841; over the first four, mean 3/4 and deviation sqrt(3) / 4 = 0.4330."""
    found = agreement([f"={letter}" for letter in "AAABBCDE"])
    assert found == [1, 1, 1, 0, 0, 0, 0, 0]
    (first,), dropped = FirstSamples(4).keep([toy_group(*found)], Key())
    assert ([t.id for t in first.trajectories], dropped) == (["g/0", "g/1", "g/2", "g/3"], [])
    (credited,) = ttrl.credit.assign([first], {})
    assert [float(c.advantages[0]) for c in credited] == pytest.approx([0.57735, 0.57735, 0.57735, -1.73205], abs=1e-5)


def test_answers_that_are_not_trained_on_are_passed_over() -> None:
    one, two, three = toy_group(1, 0, 1).trajectories
    group = toy_group(1).but(trajectories=(one.but(trained=False), two, three))
    assert FirstSamples(1).keep([group], Key())[0][0].trajectories == (two,)
    silent = group.but(trajectories=(one.but(trained=False),))
    assert FirstSamples(1).keep([silent], Key()) == ([], [silent])
    assert len(FirstSamples(9).keep([group], Key())[0][0].trajectories) == 2


def test_votes_are_over_all_samples_and_training_is_on_the_first() -> None:
    seen: list[tuple[dict, list]] = []
    small = ttrl.but(selection=FirstSamples(3), setting__group=8)
    train_toy(small, group=8, watch=lambda run, metrics, groups: seen.append((dict(metrics), list(groups))))
    for metrics, groups in seen:
        for group, kept in zip(groups, trained_trajectories(groups), strict=True):
            assert len(group.pool) == 8
            assert len(kept) == 3
        assert metrics["majority_share"] == pytest.approx(sum(sum(g.pool) for g in groups) / 8 / len(groups))
        assert 0 <= metrics["reward_accuracy"] <= 1
        assert "label_accuracy" in metrics


def test_a_false_label_leaves_the_weights_as_they_are() -> None:
    plain, other = (weights_after(ttrl, steps=3, task=task)["policy.logits"] for task in (TOY, relabelled("no letter")))
    assert torch.equal(plain, other)
    right, wrong = (weights_after(ttrl.but(reward=Verified()), steps=3, task=task)["policy.logits"] for task in (TOY, relabelled("no letter")))
    assert not torch.equal(right, wrong)  # the verdict does read it


def test_with_verdicts_and_all_samples_it_is_grpo() -> None:
    base = grpo.but(objective__kl=KL(0.001), update__count=8)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (ttrl.but(reward=Verified(), selection=Everything()), base))
    assert torch.equal(one, other)
    assert not torch.equal(one, weights_after(ttrl, steps=3)["policy.logits"])
    check_micro_batches(ttrl)


def watched(*completions, watch=None, answer="F", rewards=()):
    rows = [trajectory(c, answer=answer) for c in completions]
    rows = [t.but(id=str(i), reward=rewards[i] if rewards else None) for i, t in enumerate(rows)]
    notes: list[tuple[str, float]] = []
    of = task(verify=lambda p, c: float(c.removeprefix("=") == p.answer))
    world = SimpleNamespace(note=lambda *pair: notes.append(pair), task=of, waiting=waiting, call=str, fact=lambda call: None)
    (row,) = asyncio.run(WatchedMajority(watch=watch).score([Group("g", tuple(rows))], {}, world))
    return [j.reward for j in row], dict(notes)


def test_wrong_labels_still_give_mostly_right_rewards():
    texts = [f"={letter}" for letter in "AAABBCDE"]
    assert watched(*texts, watch=Verified()) == (
        [1, 1, 1, 0, 0, 0, 0, 0],
        {"majority_share": 3 / 8, "label_accuracy": 0.0, "reward_accuracy": 5 / 8},
    )
    assert watched(*texts, watch=Verified(), answer="A")[1] == {"majority_share": 3 / 8, "label_accuracy": 1.0, "reward_accuracy": 1.0}
    assert watched(*texts, watch=Verified(), answer="C")[1]["reward_accuracy"] == 4 / 8
    assert watched(*texts)[1] == {"majority_share": 3 / 8}


def test_a_failed_answer_has_no_vote():
    found, notes = watched("=1", "=1", "=2", watch=Verified(), answer="2", rewards=(Failed("late"), None, None))
    assert found == [0, 1, 0]
    assert notes == {"majority_share": 1 / 3, "label_accuracy": 0.0, "reward_accuracy": 0.0}  # of the two with a verdict


def test_a_watch_must_fit_the_task():
    WatchedMajority(watch=None).check(task())
    with pytest.raises(UserError, match="nothing judges its answers"):
        WatchedMajority().check(task())


def test_the_papers_numbers() -> None:
    assert (ttrl.setting.group, ttrl.selection, ttrl.update.count) == (64, FirstSamples(32), 8)
    assert (ttrl.objective["kl"].coefficient, ttrl.objective["policy"].trust.low) == (0.001, 0.2)
    assert (ttrl.reward, ttrl.study.reward) == (WatchedMajority(watch=Verified()), Verified())
    with pytest.raises(UserError, match=r"FirstSamples\.count"):
        FirstSamples(0)
