"""Self-PRM: the filtered vote, F1, chi-square and precision by hand, the study, and GRPO as the training."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.search.self_prm import SelfJudged, chi_square, harmonic_mean, judged_metrics, self_prm
from gradus.rewards.verified import Verified
from gradus.search.self_verdicts import SelfVerdicts
from gradus.search.votes import Vote, winner
from gradus.testing.methods import TOY, check_same_update, scripted_world, toy_group, toy_trajectory
from gradus.training.memory import Memory
from gradus.types import Problem, Request, UserError


def said(*completions):
    return [toy_trajectory([1], name=str(i)).but(completion=f"={text}") for i, text in enumerate(completions)]


def test_the_filtered_vote_by_hand() -> None:
    samples = said(7, 7, 9, 9, 9)
    assert winner(samples, [1, 1, 0, 0, 1]).completion == "=7"  # two against one
    assert winner(samples, [1] * 5).completion == "=9"  # the majority
    assert winner(samples, [0] * 5).completion == "=9"  # none is kept, so all vote
    assert winner(said(7, 9), [1, 1]).completion == "=7"  # the first of equals
    assert self_prm.search == Vote(SelfVerdicts(samples=1), count=8)


def test_f1_by_hand() -> None:
    assert harmonic_mean(0.8, 0.4) == pytest.approx(0.5333, abs=1e-4)
    assert (harmonic_mean(0.0, 0.0), harmonic_mean(1.0, 0.0), harmonic_mean(0.5, 0.5)) == (0.0, 0.0, 0.5)


def test_chi_square_by_hand() -> None:
    assert chi_square([[40, 10], [10, 40]]) == 36.0
    assert chi_square([[20, 20], [10, 10]]) == 0.0
    assert chi_square([[0, 0], [3, 5]]) == 0.0
    assert chi_square([[8, 2], [3, 7]]) == pytest.approx(20 * (56 - 6) ** 2 / (10 * 10 * 11 * 9))


def test_the_metrics_of_judged_samples_by_hand() -> None:
    """Groups with 1, 2 and 4 right samples of 4."""
    groups = [toy_group(1, 0, 0, 0, key="a"), toy_group(1, 1, 0, 0, key="b"), toy_group(1, 1, 1, 1, key="c")]
    yes = {"a/0", "a/1", "a/2", "b/0", "b/2", "c/0", "c/1", "c/2"}
    found = judged_metrics(groups, {t.id: t.id in yes for g in groups for t in g.trajectories})
    assert found["held_out/single"] == pytest.approx(7 / 12)
    # right samples: a0 b0 c0 c1 c2 judged right, b1 c3 wrongly; wrong samples: a3 b3 judged wrong, a1 a2 b2 not
    assert found["held_out/f1"] == pytest.approx(2 * (5 / 7) * (2 / 5) / (5 / 7 + 2 / 5))
    assert found["held_out/chi_square"] == pytest.approx(12 * (5 * 3 - 2 * 2) ** 2 / (7 * 5 * 7 * 5))
    assert [found[f"held_out/precision/{n}"] for n in ("low", "medium", "high")] == pytest.approx([1 / 3, 0.5, 1.0])
    assert found["held_out/precision_gap"] == pytest.approx(2 / 3)
    thirds = [toy_group(1, 0, 0, key="a"), toy_group(1, 1, 0, key="b")]  # shares of exactly 1/3 and 2/3
    found = judged_metrics(thirds, {f"{g}/{i}": True for g in "ab" for i in range(3)})
    assert [found[f"held_out/precision/{n}"] for n in ("low", "medium", "high")] == [None, pytest.approx(1 / 3), pytest.approx(2 / 3)]
    alike = judged_metrics([toy_group(1, 1, key="c")], {"c/0": True, "c/1": False})
    assert (alike["held_out/f1"], alike["held_out/precision/low"], alike["held_out/precision_gap"]) == (None, None, None)


def test_the_study_compares_both_votes_on_the_same_samples() -> None:
    answers = iter("bbz" * 2)

    def speak(ask):
        if "verdicts" not in ask.request.tags:
            return f"={next(answers)}"
        return "=yes" if policy.text(ask.parent.sequence).endswith("z") else "=no"

    world, policy = scripted_world(TOY, speak, reward=Verified())
    study = SelfJudged(problems=2, samples=3)
    found = asyncio.run(study.measure(SimpleNamespace(memory=Memory()), self_prm, world))
    truths = [p.answer for p in TOY.held_out.draw([0, 1], None, None)]
    assert found["held_out/majority"] == sum(t == "b" for t in truths) / 2
    assert found["held_out/accuracy"] == sum(t == "z" for t in truths) / 2
    assert found["held_out/over_majority"] == found["held_out/accuracy"] - found["held_out/majority"]
    # the truths are b and c: "z" alone is kept and wrong; of the four wrong samples two are judged wrong, and both right ones are judged wrong
    assert truths == ["b", "c"]
    assert (found["held_out/f1"], found["held_out/precision/low"], found["held_out/precision/high"]) == (0.0, 0.0, 0.0)
    assert found["held_out/chi_square"] == pytest.approx(6 * (0 * 2 - 2 * 2) ** 2 / (2 * 4 * 2 * 4))
    with pytest.raises(UserError, match=r"SelfJudged\.samples"):
        SelfJudged(samples=0)


def test_the_vote_asks_for_one_verdict_per_sample() -> None:
    asked = []

    def speak(ask):
        asked.append("verdicts" in ask.request.tags)
        return "=yes" if asked[-1] else "=b"

    world, _ = scripted_world(TOY, speak, reward=Verified())
    asyncio.run(self_prm.search.run([Request(Problem("p", "toy", text="a", answer="b"))], world))
    assert (asked.count(False), asked.count(True)) == (8, 8)


def test_the_training_is_grpo() -> None:
    check_same_update(self_prm, grpo)
