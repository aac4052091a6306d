"""PDR: budgets, the bound of the prompt, the plain sample as the limit, distillers, and the training by hand."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.search.pdr import FORM, DraftDistillRefine, OperatorConsistent, RandomDrafts, WrittenSummary, budgets, pdr
from gradus.rewards.verified import Verified
from gradus.rollouts.single_turn import SingleTurn
from gradus.testing.methods import TOY, check_different_update, check_same_update, readable, scripted_world, toy_run
from gradus.types import Key, Problem, Request, UserError

PROBLEM = Problem("p", "toy", text="q", answer="z")


def played(speak, part, requests=None, **world_fields):
    asked = []

    def said(ask):
        asked.append((readable(ask.parent.sequence), ask.request.trained))
        return speak(asked[-1][0], len(asked))

    world, _ = scripted_world(TOY, said, reward=Verified(), **world_fields)
    return asyncio.run(part.run(requests or [Request(PROBLEM)], world)), asked, world


def test_the_budgets_by_hand() -> None:
    assert budgets([([10, 12, 8, 11], 5), ([9], 0)]) == (26, 55)  # 12 + 5 + 9, 41 + 5 + 9
    assert budgets([([7], 0)]) == (7, 7)


def test_a_search_of_two_rounds_by_hand() -> None:
    """Four drafts of 9, 11, 7 and 10 letters and an end token, a summary of 4 letters and an end token, and an answer of 8 letters and an end token."""
    texts = {1: "a" * 9, 2: "b" * 11, 3: "c" * 7, 4: "d" * 10, 5: "sums", 6: "e" * 8}
    (group,), asked, _ = played(lambda prompt, n: texts[n], DraftDistillRefine(drafts=(4, 1), distill=WrittenSummary("{drafts}\nsum")))
    (t,) = group.trajectories
    assert (t.extra["sequential_tokens"], t.extra["total_tokens"]) == (26, 55)
    assert asked[:4] == [("q", False)] * 4
    assert asked[4] == (f"q\n{texts[1]}\n{texts[2]}\n{texts[3]}\n{texts[4]}\nsum", False)
    assert asked[5] == (f"q\n{FORM.replace('{workspace}', 'sums')}", True)
    assert t.completion == "e" * 8


def test_the_prompt_is_bounded_whatever_the_number_of_drafts() -> None:
    for drafts in ((2, 1), (16, 1), (16, 8, 1)):
        part = DraftDistillRefine(drafts=drafts, distill=RandomDrafts(k=9), kappa=12)
        _, asked, world = played(lambda prompt, n: "x" * 40, part)
        bound = len("q") + 12 + len("\n" + FORM.replace("{workspace}", ""))
        assert max(len(prompt) for prompt, _ in asked) == bound
        assert world.notes["workspace"] == 12
        assert len(asked) == sum(drafts)


def test_the_end_token_is_no_part_of_the_workspace() -> None:
    for kappa, text in ((12, "abcd"), (5, "abcd"), (4, "abcd"), (3, "abc")):
        _, asked, world = played(lambda prompt, n: "abcd", DraftDistillRefine(drafts=(1, 1), form="{workspace}", kappa=kappa))
        assert (asked[1][0], world.notes["workspace"]) == (f"q\n{text}", len(text))


def test_the_old_workspace_is_forgotten() -> None:
    part = DraftDistillRefine(drafts=(1, 1, 1), distill=RandomDrafts(k=1), form="[{workspace}]")
    _, asked, _ = played(lambda prompt, n: f"d{n}", part)
    assert [prompt for prompt, _ in asked] == ["q", "q\n[d1]", "q\n[d2]"]


def test_random_drafts_are_lines_of_k_drafts() -> None:
    part = DraftDistillRefine(drafts=(8, 1), distill=RandomDrafts(k=2), form="{workspace}")
    seen = set()
    for step in range(6):
        _, asked, _ = played(lambda prompt, n: f"work\n={n}", part, step=step)
        lines = asked[-1][0].split("\n")[1:]
        assert len(lines) == 2
        assert lines == sorted(lines)
        seen |= set(lines)
    assert len(seen) > 3
    assert seen <= {f"={n}" for n in range(1, 9)}


def test_one_round_is_the_plain_sample() -> None:
    world = toy_run(grpo).at(0)[1]
    requests = [Request(p, count=3) for p in TOY.source.draw([0, 1], None, Key())]
    ours, plain = (asyncio.run(r.run(requests, world)) for r in (DraftDistillRefine(drafts=(1,)), SingleTurn()))
    assert [[t.completion for t in g.trajectories] for g in ours] == [[t.completion for t in g.trajectories] for g in plain]
    assert [g.rewards.tolist() for g in ours] == [g.rewards.tolist() for g in plain]


def test_each_answer_has_its_own_drafts() -> None:
    """The drafts of two answers are eight different draws."""
    seen = []

    def speak(ask):
        if "draft" in ask.request.tags:
            seen.append(ask.key)
        return "z"

    world, _ = scripted_world(TOY, speak, reward=Verified())
    asyncio.run(DraftDistillRefine(drafts=(4, 1)).run([Request(PROBLEM, count=2)], world))
    assert (len(seen), len(set(seen))) == (8, 8)


def test_half_of_the_problems_get_a_workspace_and_drafts_are_not_trained() -> None:
    part = OperatorConsistent(DraftDistillRefine(drafts=(2, 1), distill=RandomDrafts(1)))
    requests = [Request(Problem(x, "toy", text=x, answer="z"), count=3) for x in "abcd"]
    groups, asked, _ = played(lambda prompt, n: "z", part, requests)
    assert sorted(prompt for prompt, trained in asked if not trained) == ["c", "c", "d", "d"]
    told = FORM.replace("{workspace}", "z")
    assert sorted(prompt for prompt, trained in asked if trained) == sorted([x for x in "ab" for _ in range(3)] + [f"{x}\n{told}" for x in "cd" for _ in range(3)])
    assert [len(g.trajectories) for g in groups] == [3] * 4
    assert all(t.trained for g in groups for t in g.trajectories)
    assert [readable(g.trajectories[0].contexts[0].prefix) for g in groups] == ["a", "b", f"c\n{told}", f"d\n{told}"]


def test_without_a_workspace_it_is_grpo_and_else_it_is_not() -> None:
    check_same_update(pdr.but(rollout__share=0.0), grpo)
    check_different_update(pdr, grpo)


def test_the_numbers_and_mistakes() -> None:
    assert (pdr.search.drafts, pdr.search.distill, pdr.rollout.share) == ((16, 8, 1), RandomDrafts(2), 0.5)
    with pytest.raises(UserError, match="the last number must be 1"):
        DraftDistillRefine(drafts=(4, 2))
    with pytest.raises(UserError, match="workspace"):
        DraftDistillRefine(form="go on")
    with pytest.raises(UserError, match=r"RandomDrafts\.k"):
        RandomDrafts(0)
