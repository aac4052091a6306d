"""R1-Searcher++: the bonus by hand, the form, the rewriter, the memorised texts and their gradient, and the limit without both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from gradus.credit.sampled_only import SampledOnly
from gradus.objectives.terms import Imitation
from gradus.papers.agents.r1_searcher import r1_searcher
from gradus.papers.agents.r1_searcher_plus import Covers, FewestSearches, Recalled, formed, r1_searcher_plus, searches
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import loss_and_gradient, scripted_world, toy_group
from gradus.types import Failed, Group, Key, Problem, Request, Trajectory, UserError
from gradus.types.signals import LogProbs

TASK = replace(search_qa(1, people=40, instruction=False), environment=r1_searcher_plus.environment)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
FOUND = f"<external>{PROBLEM.meta['queries'][0][0]}</external>"  # finds the passage with the answer
LOST = "<external>zzz</external>"  # finds nothing
RIGHT, WRONG = f"<answer>{PROBLEM.answer}</answer>", "<answer>no</answer>"


def played(*scripts: list[str], rollout: Recalled | None = None, reward: Any = None) -> tuple[Group, list[Group]]:
    """The episodes of one question, one per script, and the groups beside them."""
    world, _ = scripted_world(
        TASK,
        lambda ask: scripts[ask.request.sample][min(int(ask.request.tags[-1]), len(scripts[ask.request.sample]) - 1)],
        reward=reward or FewestSearches(),
    )

    async def run() -> tuple[Group, list[Group]]:
        (group,) = await (rollout or r1_searcher_plus.rollout).run([Request(PROBLEM, len(scripts))], world)
        return group, await world.aside()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("counts", "right", "bonuses"),
    [
        ([1, 3, 2], [True] * 3, [4 / 3, 0, 0]),
        ([1, 1, 1], [True] * 3, [0, 0, 0]),
        ([0, 4], [True] * 2, [2, 0]),  # min(8, 2)
        ([0, 1, 3, 2], [False, True, True, True], [0, 4 / 3, 0, 0]),  # a wrong answer neither counts nor earns
        ([1, 1, 2], [True] * 3, [4 / 9, 4 / 9, 0]),  # both answers with the fewest searches
        ([2], [True], [0]),
        ([0, 2], [False] * 2, [0, 0]),
        ([], [], []),
    ],
)
def test_the_bonus_by_hand(counts: list[int], right: list[bool], bonuses: list[float]) -> None:
    assert FewestSearches().bonuses(counts, right) == pytest.approx(bonuses)


def test_rewards_of_played_episodes() -> None:
    group, _ = played([FOUND, RIGHT], [LOST] * 3 + [RIGHT], [LOST, LOST, RIGHT], [WRONG], ["<document>x</document>" + RIGHT], [FOUND])
    # the fifth answer is right too, has no search and a broken form; searches of right answers: 1, 3, 2, 0 with the variance 1.25
    assert [t.value for t in group.trajectories] == pytest.approx([1, 1, 1, 0, 1 + 2 - 2, -2])
    assert [t.components["searches"] for t in group.trajectories] == [1, 3, 2, 0, 0, 5]
    assert [t.components["form"] for t in group.trajectories] == [1, 1, 1, 1, 0, 0]
    assert [t.components["unaided"] for t in group.trajectories] == [0, 0, 0, 0, 1, 0]
    group, _ = played([FOUND, RIGHT], [LOST] * 3 + [RIGHT], [LOST, LOST, RIGHT])
    assert [t.value for t in group.trajectories] == pytest.approx([1 + 4 / 3, 1, 1])


def test_an_answer_of_ten_words_that_contains_the_gold_words_is_right() -> None:
    problem = Problem("p", "t", answer="Red Fox")
    assert [Covers()(problem, said) for said in ("the red fox.", "a fox red", "redfox", "red fox" + " x" * 8, "red fox" + " x" * 9)] == [1, 0, 0, 1, 0]
    assert Covers()(replace(problem, answer=("dog", "fox")), "red fox") == 1
    with pytest.raises(UserError, match="most"):
        Covers(0)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (RIGHT, True),
        ("<internal>x</internal>" + FOUND + RIGHT, True),
        ("<external>a" + RIGHT, False),
        ("<internal>a" + RIGHT, False),
        ("<internal>a" + FOUND + "</internal>" + RIGHT, False),
        (f"<internal>{RIGHT}</internal>", False),
        ("</external>a<external>" + RIGHT, False),
        (RIGHT + RIGHT, False),
        ("</document>" + RIGHT, False),
        ("", False),
    ],
)
def test_the_form(text: str, good: bool) -> None:
    assert formed(text) is good


def test_right_answers_with_searches_are_rewritten_as_recalled() -> None:
    group, aside = played([FOUND, RIGHT], [RIGHT], [FOUND, WRONG], [LOST, RIGHT], [LOST, FOUND, RIGHT])
    assert [searches(t) for t in group.trajectories] == [1, 0, 1, 1, 2]
    (fact,) = PROBLEM.meta["evidence"]
    texts = [t for g in aside for t in g.trajectories]  # neither without a search, nor wrong, nor without a passage
    assert [t.id.partition("/recalled")[0] for t in texts] == [group.trajectories[i].id for i in (0, 4)]
    assert {t.completion for t in texts} == {f"<internal>{fact}</internal>{RIGHT}"}
    assert {t.source for t in texts} == {"expert"}
    own, made = group.trajectories[0].contexts[0], texts[0].contexts[0]
    start = int(own.action_positions[0])
    assert start == int(made.action_positions[0])
    assert own.sequence[:start].tolist() == made.sequence[:start].tolist()  # after the same prompt as the episodes
    assert len(played([FOUND, RIGHT], [FOUND, RIGHT], rollout=Recalled(most=1))[1]) == 1
    assert played([FOUND, RIGHT], rollout=Recalled(most=0))[1] == []


def test_the_fact_with_most_words_of_the_question_is_recalled() -> None:
    shown = "<document>a long line about the fox and many other things\nthe dog of Lea is not here\nthe pet of Lea is fox</document>"
    problem = Problem("p", "t", text="pet of Lea", answer="fox")
    row = played([FOUND, RIGHT])[0].trajectories[0].but(problem=problem, completion="<answer>a fox</answer>", contexts=toy_group(1.0).trajectories[0].contexts)
    world = cast("Any", SimpleNamespace(text=lambda tokens, player: shown))
    assert Recalled().rewritten(row, world) == "<internal>the pet of Lea is fox</internal><answer>a fox</answer>"
    assert Recalled().rewritten(row.but(problem=replace(problem, answer="cat")), world) is None


def test_passages_have_no_gradient_in_both_stages() -> None:
    group, aside = played([FOUND, RIGHT])
    (context,) = group.trajectories[0].contexts
    assert context.actions == len(FOUND) + len(RIGHT) == np.size(context.logprobs)
    (text,) = aside[0].trajectories
    assert text.actions == len(text.completion)  # every token of z is imitated, also of the fact that came from a passage
    shown = r1_searcher_plus.environment.demonstration(PROBLEM)  # the cold start: passages are observations
    assert [action for _, action in shown] == [FOUND, RIGHT]


def test_the_memorised_text_has_a_gradient_and_mu_scales_it() -> None:
    group = toy_group(1.0)
    given = group.but(trajectories=tuple(t.but(source="expert") for t in group.trajectories))
    term = r1_searcher_plus.objective["memory"]
    assert term == Imitation(coefficient=0.1)
    loss, gradient, _ = loss_and_gradient({"memory": term}, [given], [-2.0, -4.0])
    assert (loss, gradient) == (pytest.approx(0.1 * 3), pytest.approx([-0.05, -0.05]))


def credited(rule: Any, group: Group) -> list[list[float]]:
    even = {t.id: np.full(t.actions, -1.0) for t in group.trajectories}
    return [c.advantages.tolist() for c in rule.assign([group], {LogProbs(): even, LogProbs(player="reference"): even})[0]]


def test_given_texts_do_not_change_the_normalisation() -> None:
    group = toy_group(1.0, 0.0, 3.0)
    more = toy_group(7.0, key="z").trajectories[0].but(id="z", source="expert")
    rule = r1_searcher_plus.credit
    assert rule == SampledOnly(r1_searcher.credit)
    alone = credited(r1_searcher.credit, group)
    mixed = credited(rule, group.but(trajectories=(more, *group.trajectories)))
    assert mixed[1:] == alone
    assert set(mixed[0]) == {0.0}
    assert credited(r1_searcher.credit, group.but(trajectories=(more, *group.trajectories)))[1:] != alone


def test_without_bonus_and_penalty_it_is_the_environments_return() -> None:
    scripts = ([FOUND, RIGHT], [RIGHT], [LOST, WRONG], [FOUND])
    ours, plain = (played(*scripts, reward=reward)[0] for reward in (FewestSearches(0.0, 0.0), EnvironmentReturn()))
    assert [t.value for t in ours.trajectories] == [t.value for t in plain.trajectories] == [1, 1, 0, 0]


def test_a_failed_episode_stays_failed_and_does_not_count() -> None:
    group, _ = played([FOUND, RIGHT], [RIGHT])
    first: Trajectory = group.trajectories[0].but(reward=Failed("the search broke"))
    ((one, two),) = asyncio.run(FewestSearches().score([group.but(trajectories=(first, group.trajectories[1]))], {}, cast("Any", None)))
    assert isinstance(one.reward, Failed)
    assert two.reward == 1.0  # alone, so the variance is 0


def test_numbers() -> None:
    assert r1_searcher_plus.reward == FewestSearches(2.0, 2.0)
    assert (r1_searcher_plus.setting.group, r1_searcher_plus.update.count, r1_searcher_plus.credit.rule.coefficient) == (16, 4, 1e-4)
    assert {"reward", "rollout", "credit", "schedule", "objective.memory"} <= set(changes(r1_searcher, r1_searcher_plus))
    for wrong in ({"eta": -1}, {"penalty": -1}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            FewestSearches(**wrong)
    with pytest.raises(UserError, match="most"):
        Recalled(most=-1)
