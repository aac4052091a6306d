"""AIDSAFE: rounds and calls of the deliberation, the refiner, pairs with a belief, and SFT at the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gradus
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.sft import sft
from gradus.papers.data.aidsafe import (
    Deliberation,
    Draft,
    Knows,
    MisledPairs,
    adherence,
    aidsafe,
    deliberated,
    pair_of,
    preferring,
    refined,
    response_to,
)
from gradus.recipe.core import changes
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.safety import RULES, decision, rule_of, safety
from gradus.testing.methods import toy_task, weights_after
from gradus.types import Frozen, Key, UserError
from gradus.types.moments import Steps

FIRST = Draft(("tea:ok",), "answer")


class Restless:
    """An agent that never agrees."""

    def speak(self, request, rules, intents, draft):
        return Draft((*draft.thoughts, f"{len(draft.thoughts)}:ok"), "answer")


def test_agents_that_agree_at_once_end_the_loop_after_one_round():
    agents = [Knows(("tea:ok",)), Knows(())]
    assert deliberated("get tea", list(RULES), FIRST, agents, 3) == (FIRST, 1, 2)
    assert deliberated("get tea", list(RULES), FIRST, agents, 0) == (FIRST, 0, 0)


def test_at_most_six_calls_are_made():
    draft, rounds, calls = deliberated("get tea", list(RULES), FIRST, [Restless(), Restless()], 3)
    assert (rounds, calls, len(draft.thoughts)) == (3, 6, 7)


def test_one_agent_that_does_not_agree_keeps_the_loop_going():
    for agents in ([Restless(), Knows(())], [Knows(()), Restless()]):
        draft, rounds, calls = deliberated("get tea", list(RULES), FIRST, agents, 3)
        assert (rounds, calls, len(draft.thoughts)) == (3, 6, 4)


def test_thoughts_of_both_agents_are_joined_and_the_response_follows():
    agents = [Knows(("tea:ok", "map:ok")), Knows(("acid:harm",))]
    draft, rounds, calls = deliberated("get tea and acid and map", list(RULES), FIRST, agents, 3)
    assert draft == Draft(("tea:ok", "map:ok", "acid:harm"), "refuse")
    assert (rounds, calls) == (2, 4)  # the second round changes nothing
    assert deliberated("get tea", list(RULES), FIRST, agents, 1)[1:] == (1, 2)


def test_the_refiner_drops_repetitions_and_unknown_rules():
    assert refined(["a b c d e f", "a b c d e f", "g h"], None, jaccard=0.8) == ("a b c d e f", "g h")
    assert refined(["acid:harm", "tea:magic", "tea:ok"], list(RULES), jaccard=0.8) == ("acid:harm", "tea:ok")
    # five of six words are shared: 5 / 6 > 0.8; four of six: 4 / 6
    assert refined(["a b c d e", "a b c d e f", "a b c d g"], None, jaccard=0.8) == ("a b c d e", "a b c d g")
    assert refined(["a b c d", "a b c d e"], None, jaccard=0.8) == ("a b c d", "a b c d e")  # exactly 0.8
    assert refined([], list(RULES), jaccard=0.8) == ()


def problems(count=80, level=2):
    return safety().source.draw(range(count), level, Key(0))


def test_deliberated_texts_are_right_and_first_drafts_often_are_not():
    right = {rounds: [Deliberation(rounds=rounds).written(p)[0].rpartition("=")[2] == p.answer for p in problems()] for rounds in (0, 3)}
    assert all(right[3])
    assert 0.4 < sum(right[0]) / 80 < 0.9
    for p in problems():
        text, rounds, calls = Deliberation().written(p)
        assert sorted(text.rpartition("=")[0].split(" ")) == sorted(" ".join(p.meta["thoughts"]).split(" "))
        assert calls <= 6
        assert rounds <= 3


def test_in_every_pair_the_chosen_text_keeps_the_rules_and_the_rejected_one_breaks_the_named_one():
    found = [(p, pair_of(p, Deliberation())) for p in problems()]
    assert sum(pair is not None for _, pair in found) > 25
    for p, pair in found:
        assert (pair is not None) == (p.answer == "refuse")
        if pair is None:
            continue
        named = pair["belief"].rpartition(" ")[2]
        things = [t.rpartition(":")[0] for t in p.meta["thoughts"]]
        assert named in {rule_of(thing) for thing in things}
        assert pair["chosen"].endswith("=refuse")
        assert pair["rejected"].endswith("=answer")
        assert named not in pair["rejected"]
        assert pair["belief"] not in pair["chosen"] + pair["rejected"]
        assert adherence(pair["chosen"], p) == 2.0 > adherence(pair["rejected"], p)


def told(*thoughts):
    (problem,) = problems(1)
    return replace(problem, answer=response_to(thoughts), meta=Frozen({**problem.meta, "thoughts": thoughts}))


def test_the_text_has_only_refined_thoughts():
    assert Deliberation().written(told("tea:ok", "map:magic", "acid:harm"))[0] == "tea:ok acid:harm=refuse"


def test_the_belief_is_about_one_rule_alone():
    pair = pair_of(told("tea:ok", "acid:harm", "scam:fraud", "blade:harm"), Deliberation())
    assert pair["belief"].endswith(" harm")
    assert pair["rejected"] == "tea:ok acid:ok scam:fraud blade:ok=refuse"


def test_a_pair_is_kept_only_if_the_judge_scores_the_rejected_answer_lower():
    problem = told("tea:ok", "map:ok", "acid:harm")
    assert pair_of(problem, Deliberation()) is not None
    # the first draft alone has one true thought of three, the misled answer two; both responses are wrong
    assert pair_of(problem, Deliberation(rounds=0)) is None


def test_decisions_are_those_of_the_task():
    for thoughts in ([], ["tea:ok"], ["tea:ok", "scam:fraud"], ["fake id:fraud"]):
        assert response_to(thoughts) == decision(thoughts)


def test_without_thoughts_and_without_stages_it_is_sft():
    off = aidsafe.but(schedule=ConstantSchedule())
    ours, plain = (weights_after(r, steps=3, task=toy_task(sft))["policy.logits"] for r in (off, sft))
    assert torch.equal(ours, plain)
    assert set(changes(sft, aidsafe)) == {"rollout", "schedule"}
    assert set(changes(dpo, preferring)) == {"rollout", "requires"}
    assert isinstance(sft.rollout, Demonstrations)
    assert isinstance(preferring.rollout, MisledPairs)


@pytest.mark.nightly
def test_a_run_imitates_and_then_prefers():

    until = {f"schedule__stages__{name}__until": Steps(1) for name in ("deliberated", "preferred")}
    run = gradus.train(aidsafe, task="safety", setting__prompts=4, setting__group=2, study=None, **until)
    rows = [row for row in run.metrics if "reward" in row]
    assert [row["stage"] for row in rows] == ["deliberated", "preferred"]
    assert rows[0]["rounds"] >= 1
    assert rows[0]["calls"] >= 2


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match=r"Deliberation\.agents"):
        Deliberation(agents=0)
