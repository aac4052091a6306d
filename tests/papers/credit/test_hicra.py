"""HICRA: the gains of planning tokens by hand, the search for strategic grams, semantic entropy, and that without alpha it is GRPO."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.hicra import GRAMS, Planning, StrategicGrams, hicra, strategic_grams, words
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, ScriptedPolicy, advantages_of, scripted_context, scripted_world, toy_group, train_toy, weights_after
from gradus.types import Frozen, Group, Key, Request, UserError
from gradus.types.answers import semantic_entropy
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs
from gradus.types.spans import Phrases

READ = ScriptedPolicy(lambda ask: "").text


def marked_group(rewards, spans):
    made = toy_group(*rewards, lengths=[len(s) for s in spans])
    rows = [replace(t.contexts[0], streams=Frozen(span=np.array(s, np.int32))) for t, s in zip(made.trajectories, spans, strict=True)]
    return made.but(trajectories=tuple(t.but(contexts=(c,)) for t, c in zip(made.trajectories, rows, strict=True)))


def test_planning_tokens_by_hand():
    # rewards 1 and 0: A = +1 and -1; planning 1.2 and -.8, other 1 and -1
    made = marked_group([1, 0], [[0, -1, 3], [-1, 2]])
    assert advantages_of(Planning(), made) == [[[1.2, 1.0, 1.2], [-1.0, -0.8]]]
    assert advantages_of(Planning(alpha=1.0), made) == [[[2.0, 1.0, 2.0], [-1.0, 0.0]]]
    assert advantages_of(Planning(alpha=0.0), made) == [[[1.0] * 3, [-1.0] * 2]]
    assert advantages_of(Planning(), marked_group([1, 1], [[0], [0]])) == [[[0.0], [0.0]]]


def test_the_number_of_solutions_counts_and_not_that_of_occurrences():
    often = " . ".join(["red green blue"] * 50)
    solutions = [often, *(f"we count {'abcdefghij'[i]} . one two three" for i in range(10))]
    found = strategic_grams(solutions, longest=3, top=0.01)
    assert found == (("one two three",),)
    every = strategic_grams(solutions, longest=3, top=1.0)
    assert [cluster[0] for cluster in every].index("one two three") < [cluster[0] for cluster in every].index("red green blue")


def test_words_and_signs():
    assert words("Let's try 3+40.") == ["let's", "try", "3", "+", "40", "."]


def test_similar_grams_are_one_cluster_and_formulas_are_none():
    solutions = ["now let us try", "let us try now 3+4", "try let us 5", "3 + 4 = 7"]
    (cluster, *_) = strategic_grams(solutions, longest=3, top=1.0)
    assert set(cluster) >= {"let us try", "try let us"}  # the same words: cosine 1
    assert not any(any(word.isdigit() or word in "+=" for word in words(gram)) for c in strategic_grams(solutions, top=1.0) for gram in c)
    # "a b c d" and "a b c e": cosine 3/4, so two clusters; with five words 4/5 is not above .8 either
    assert len(strategic_grams(["a b c d", "a b c e"], shortest=4, longest=4, top=1.0)) == 2
    assert len(strategic_grams(["a b c d e", "a b c d f"], shortest=5, longest=5, top=1.0)) == 2
    assert strategic_grams([]) == ()
    assert {len(gram.split()) for cluster in strategic_grams(["a b c d e f"], top=1.0) for gram in cluster} == {3, 4, 5}


def test_tokens_within_a_gram_have_its_cluster():
    marking = StrategicGrams((("let us try",), ("us try it",)))
    said = "Let us  try it, let us trying"
    row = marking.of(scripted_context(said), READ).tolist()
    assert row == [0] * 11 + [1] * 3 + [-1] * (len(said) - 14)  # where they overlap the first cluster counts; "trying" is another word
    assert marking.metrics([np.array(row), np.array([0, 0, -1, 0])]) == {"semantic_entropy": pytest.approx(semantic_entropy([3, 1], form="shannon"))}
    assert marking.metrics([]) == {"semantic_entropy": 0.0}
    assert all(StrategicGrams().of(scripted_context(gram), READ).min() >= 0 for cluster in GRAMS for gram in cluster)


def test_an_answer_that_plans_gets_more_there():
    problem = TOY.source.draw([0], None, Key())[0]
    said = iter(["let us try b", "let us try c"])
    world, _ = scripted_world(TOY, lambda ask: next(said), reward=Verified())
    (group,) = asyncio.run(hicra.rollout.run([Request(problem, count=2)], world))
    good, bad = advantages_of(hicra.credit, group)[0]
    assert good == [1.2] * 10 + [1.0] * 3  # the blank, the letter and the end token are outside
    assert bad == [-0.8] * 10 + [-1.0] * 3
    assert world.notes == {"marked": pytest.approx(10 / 13), "semantic_entropy": 0.0}


def test_without_alpha_it_is_grpo():
    marking = Phrases("[bc]")
    plain = hicra.but(credit__alpha=0.0, rollout__marking=marking)
    ours, base = (weights_after(r, steps=3)["policy.logits"] for r in (plain, grpo))
    assert torch.equal(ours, base)
    assert not torch.equal(weights_after(hicra.but(rollout__marking=marking), steps=3)["policy.logits"], base)


def test_the_loss_and_its_gradient_equal_plain_loops():
    made = marked_group([1, 0, 0], [[0, -1], [-1, 1, 1], [-1]])
    credited = tuple(t.but(advantages=c.advantages) for t, c in zip(made.trajectories, hicra.credit.assign([made], {})[0], strict=True))
    rng = np.random.default_rng(1)
    reference = {t.id: rng.normal(size=t.actions) for t in credited}
    batch = make_batch([Group("g", credited)], {LogProbs(player="reference"): reference}, dtype=torch.float64)
    old = torch.from_numpy(rng.normal(size=6))
    batch = replace(batch, old={LogProb(): old})
    logprobs = (old + torch.from_numpy(rng.normal(size=6) * 0.4)).requires_grad_()
    loss, _ = evaluate(hicra.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    leaves = [x.item() for x in logprobs]

    def slow(values):
        total, at = 0.0, 0
        for t, span, reward in zip(credited, [[0, -1], [-1, 1, 1], [-1]], [1, 0, 0], strict=True):
            a = (reward - 1 / 3) / math.sqrt(2 / 9)
            for k, mark in enumerate(span):
                own = a + 0.2 * abs(a) * (mark >= 0)
                ratio, d = math.exp(values[at] - old[at].item()), reference[t.id][k] - values[at]
                total += (-min(ratio * own, min(max(ratio, 0.8), 1.2) * own) + 0.04 * (math.exp(d) - d - 1)) / len(span) / 3
                at += 1
        return total

    assert_close(loss.item(), slow(leaves), rtol=1e-6, atol=1e-8)
    for i in range(6):
        up, down = ([v + h * (j == i) for j, v in enumerate(leaves)] for h in (1e-6, -1e-6))
        assert logprobs.grad[i].item() == pytest.approx((slow(up) - slow(down)) / 2e-6, abs=1e-6)


def test_toy_steps_mark_and_move_planning_tokens():
    seen = []
    train_toy(hicra.but(rollout__marking=Phrases("b")), steps=3, prompts=4, group=8, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert 0 < np.mean([metrics["marked"] for metrics, _ in seen]) < 1
    rows = [t.advantages for _, groups in seen for g in groups for t in g.trajectories if t.advantages is not None]
    assert any(len(set(row.tolist())) > 1 for row in rows)


def test_wrong_grams_and_answers_without_spans_are_refused():
    with pytest.raises(UserError, match="empty gram"):
        StrategicGrams((("let us", " "),))
    with pytest.raises(UserError, match="set --rollout WithSpans"):
        Planning().assign([toy_group(1, 0)], {})
    with pytest.raises(UserError, match="alpha"):
        Planning(alpha=-0.1)
