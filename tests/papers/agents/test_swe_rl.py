"""SWE-RL: similarities of diffs by hand, broken forms, several files, the discrete reward, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.environments.program_edits import Edit, block
from gradus.papers.agents.swe_rl import PatchSimilarity, difference, similarity, swe_rl
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.overlap import match_ratio
from gradus.rewards.verified import Verified
from gradus.tasks.code.code_repair import code_repair
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Key, Problem

FILES = {"a.py": "abcd", "b.py": "1\n2\n3\n4\n5\n6\n7\n8\n9", "c.py": "abcd"}
DUE = {**FILES, "a.py": "abed"}


def reply(*edits: Edit, thought: str = "t") -> str:
    return f"<think>{thought}</think><solution>\n" + "\n".join(map(block, edits)) + "\n</solution>"


def reward(text: str, due: dict = DUE, **fields) -> float:
    return PatchSimilarity(**fields).judged(text, Frozen(files=FILES, oracle=due)).reward


def test_ratios_by_hand() -> None:
    assert match_ratio("abcd", "abed") == 0.75  # "ab" and "d" match: 2 * 3 / 8
    assert difference("abcd", "abed") == "@@ -1 +1 @@\n-abcd\n+abed"
    assert difference("abcd", "abcd") == ""
    assert match_ratio("x" * 300, "y" + "x" * 299) == pytest.approx(2 * 299 / 600)  # without the junk rule of difflib
    changed = difference(FILES["b.py"], FILES["b.py"].replace("5", "x"))
    assert changed.split("\n")[1:] == [" 2", " 3", " 4", "-5", "+x", " 6", " 7", " 8"]  # 3 lines of context


def test_rewards_by_hand() -> None:
    right = Edit("a.py", "abcd", "abed")
    assert reward(reply(right)) == 1.0
    # diffs of 23 characters that differ in one: 22 characters match
    assert reward(reply(Edit("a.py", "abcd", "abxd"))) == pytest.approx(2 * 22 / (2 * 23))
    assert reward(reply(right, Edit("b.py", "5", "x"))) == 0.5  # the right file, and one file too many
    assert reward(reply(Edit("b.py", "5", "x"))) == 0.0  # two files, each changed by one side only
    assert reward(reply(right, Edit("c.py", "abcd", "abed")), {**DUE, "c.py": "abed"}) == 1.0
    assert reward(reply(right), {**DUE, "c.py": "abed"}) == 0.5


def test_broken_forms_earn_minus_one() -> None:
    right = Edit("a.py", "abcd", "abed")
    broken = [
        reply(Edit("a.py", "abxx", "abed")),  # not in the file
        reply(Edit("a.py", "bcd", "bed")),  # not at the start of a line
        reply(Edit("d.py", "abcd", "abed")),  # not among the files
        reply(Edit("a.py", "abcd", "abcd")),
        reply(),
        reply(right, thought=" "),
        reply(right) + "<solution>",
        reply(right) + " and more",
        "<solution>\n" + block(right) + "\n</solution><think>t</think>",
        block(right),
        "",
    ]
    assert [reward(text) for text in broken] == [-1.0] * 11
    assert [reward(text, exact=True) for text in broken] == [-1.0] * 11
    assert reward(broken[0], broken=0.0) == 0.0


def test_edits_that_cancel_leave_no_patch() -> None:
    cancel = [Edit("b.py", "5", "x"), Edit("b.py", "x", "5")]
    assert reward(reply(Edit("a.py", "abcd", "abed"), *cancel)) == 1.0
    assert reward(reply(*cancel)) == 0.0
    assert similarity(FILES, FILES, FILES) == 0.0


def test_the_discrete_reward_is_sparse_where_the_similarity_is_not() -> None:
    texts = [reply(Edit("a.py", "abcd", new)) for new in ("abed", "abxd", "axxx", "ab")]
    assert [reward(text, exact=True) for text in texts] == [1.0, 0.0, 0.0, 0.0]
    assert len({reward(text) for text in texts}) == 4
    near = texts[1:]  # a group without the developer's edit has a gradient only with the similarity
    assert len({reward(t) for t in near}) == 3
    assert {reward(t, exact=True) for t in near} == {0.0}


def test_no_test_runs_in_training_and_solutions_earn_one() -> None:
    problems = code_repair(level=3).source.draw(range(4), 3, Key(0))
    world, _ = scripted_world(code_repair(level=3), lambda ask: "")
    groups = [Group(p.id, (toy_trajectory([2], name=p.id).but(problem=p, completion=p.meta["solution"]),)) for p in problems]
    found = asyncio.run(PatchSimilarity().score(groups, {}, world))
    assert [row[0].reward for row in found] == [1.0] * 4
    assert all(dict(row[0].components) == {"patch": 1.0, "form": 1.0} for row in found)
    assert isinstance(swe_rl.study.reward, Verified)


def test_a_problem_without_files_has_its_verdict() -> None:
    world, _ = scripted_world(TOY, lambda ask: "b")
    (problem,) = TOY.source.draw([0], None, Key(0))
    row = toy_trajectory([2]).but(problem=problem, completion=str(problem.answer))
    mixed = row.but(problem=Problem("p", "t", text="q", meta=Frozen(files=FILES, oracle=DUE)), completion=reply(Edit("a.py", "abcd", "abed")))
    found = asyncio.run(PatchSimilarity().score([Group("a", (mixed,)), Group("b", (row,))], {}, world))
    plain = asyncio.run(Verified().score([Group("b", (row,))], {}, world))
    assert found[0][0].reward == 1.0
    assert found[1][0].reward == plain[0][0].reward


def test_without_files_it_is_grpo() -> None:
    ours, base = (weights_after(r.but(setting__prompts=4, setting__group=4), steps=2)["policy.logits"] for r in (swe_rl, grpo))
    assert torch.equal(ours, base)
    assert set(changes(grpo, swe_rl)) == {"reward", "study.reward", "setting.prompts", "setting.group"}
    assert (swe_rl.setting.prompts, swe_rl.setting.group, swe_rl.reward) == (32, 16, PatchSimilarity(exact=False, broken=-1.0))
    check_micro_batches(swe_rl.but(setting__prompts=4, setting__group=4))
