"""ARIES: the vote of the policy agent, its prompt, the rule agent and the recipe without training."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.search.aries_thought_graph import AskedAgent, RuleAgent, aries_thought_graph, most_frequent, read_operation
from gradus.rewards.verified import Verified
from gradus.search.thought_graph import Operation, ThoughtGraphSearch
from gradus.testing.methods import readable, scripted_world
from gradus.types import Request, UserError
from tests.search.test_thought_graph import TASK, letters, operations

SOLVE, REFINE = Operation("solve", (0,)), Operation("refine", (1,))


def test_the_most_frequent_operation_wins() -> None:
    assert most_frequent([REFINE, SOLVE, SOLVE, REFINE, SOLVE]) == SOLVE  # 3 against 2
    assert most_frequent([REFINE, SOLVE, SOLVE, REFINE, None]) == REFINE  # the first of equals
    assert most_frequent([None, None, SOLVE]) == SOLVE
    assert most_frequent([None]) is None
    assert most_frequent([None, None, None, SOLVE, REFINE]) == SOLVE  # a sample without an operation has no vote


def test_operations_are_read_from_the_last_line() -> None:
    assert read_operation("solve 0\nnow merge\naggregate 3 4") == Operation("aggregate", (3, 4))
    assert (read_operation("stop"), read_operation("solve it"), read_operation("solve 0\n-")) == (Operation("stop"), None, None)


def play(choices, steps=30):
    """Plays an episode whose policy agent says the texts of `choices`, five samples per operation."""
    said, asked = iter(choices), []

    def speak(ask):
        if "operation" in ask.request.tags:
            asked.append((readable(ask.parent.sequence), ask.request.sampling.temperature, ask.request.trained))
            return next(said)
        return "=" + " ".join(sorted(readable(ask.parent.sequence).partition(" ")[2].replace(",", "").split()))

    world, _ = scripted_world(TASK, speak, reward=Verified())
    (group,) = asyncio.run(ThoughtGraphSearch(AskedAgent(), steps=steps).run([Request(letters("cab"))], world))
    return group.trajectories[0], asked


def test_an_episode_of_votes_by_hand() -> None:
    rounds = [["solve 0"] * 3 + ["decompose 0"] * 2, ["solve 7"] * 5, ["score 1"] * 5, ["done"] * 4 + ["stop"]]
    answer, asked = play([text for one in rounds for text in one])
    assert (answer.completion, answer.reward) == ("=a b c", 1.0)
    assert dict(answer.extra) == {"calls": 1, "policy_calls": 20, "refused": 0.25}
    assert "0 problem: letters c a b\n1 solve 0: =a b c score 1\nsolve 0: done\nsolve 7: no such node\nscore 1: done\n" in asked[-1][0]
    assert asked[0][1:] == (1.0, False)


def test_an_episode_has_at_most_t_operations() -> None:
    answer, asked = play(["what"] * 100, steps=3)
    assert len(asked) == 15
    assert dict(answer.extra) == {"calls": 1, "policy_calls": 15, "refused": 0.75}  # the last of the four steps is the call at the end


def test_the_rule_agent_splits_after_failures_only() -> None:
    def short(prompt, n):
        """Sorts lists of two letters, and merges; other lists stay as they are."""
        kind, _, items = prompt.partition(" ")
        found = items.replace(",", "").split()
        return "=" + " ".join(sorted(found) if kind == "merge" or len(found) < 3 else found)

    made, graph = operations(RuleAgent(), short)
    assert made == ["solve 0", "score 1", "decompose 0", "solve 2", "score 4", "solve 3", "score 5", "aggregate 4 5", "score 6", "stop"]
    assert (graph.calls, graph.worth(6)) == (4, 1.0)
    assert operations(RuleAgent(patience=2), short)[0][:5] == ["solve 0", "score 1", "solve 0", "score 2", "decompose 0"]


def test_the_numbers_and_the_recipe() -> None:
    assert aries_thought_graph.search == ThoughtGraphSearch(AskedAgent(count=5, temperature=1.0), steps=30)
    assert (aries_thought_graph.objective, aries_thought_graph.credit) == (None, None)
    with pytest.raises(UserError, match=r"AskedAgent\.count"):
        AskedAgent(count=0)
