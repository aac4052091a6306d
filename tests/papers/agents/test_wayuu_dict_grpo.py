"""Dictionary-guided translation: rewards by hand, what is looked up and inserted, aimed look-ups, the stages, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.agents.wayuu_dict_grpo import TRANSLATOR, TranslationWithLookups, wayuu_dict_grpo
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.overlap import bleu
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.text.phrasebook import phrasebook
from gradus.testing.methods import check_same_update, scripted_world
from gradus.types import Key, Request, UserError
from gradus.types.moments import Steps

TASK = replace(phrasebook(1), environment=TRANSLATOR)
PROBLEM = next(p for p in TASK.source.draw(range(9), 1, Key(0)) if p.meta["rare"])
RARE, (COMMON, *_) = PROBLEM.meta["rare"], [w for w in PROBLEM.question.split() if w != PROBLEM.meta["rare"]]
RIGHT = f"<answer>{PROBLEM.answer}</answer>"


def look(word: str) -> str:
    return f"<lookup>{word}</lookup>"


def played(script: list[str], reward: TranslationWithLookups = wayuu_dict_grpo.reward):
    world, policy = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(wayuu_dict_grpo.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


@pytest.mark.parametrize(
    ("script", "reward"),
    [
        ([RIGHT], 1.0),
        ([look(RARE), RIGHT], 1.1),
        ([look(RARE), look(COMMON), RIGHT], 1.1),
        ([look(RARE), "<lookup>", RIGHT], 0.9),  # one of two calls is malformed
        (["hm", RIGHT], 0.9),
        ([look("qqqqqqqqqq"), RIGHT], 1.1),  # a word without an entry is well-formed
        ([look(RARE)], -0.1),  # no translation
        ([look(RARE), "<answer>qq</answer>"], 0.1),
    ],
)
def test_rewards_by_hand(script: list[str], reward: float) -> None:
    one, _ = played(script)
    assert one.reward == pytest.approx(reward)
    assert one.right == (RIGHT in script)


def test_a_partly_right_translation_earns_its_bleu() -> None:
    words = str(PROBLEM.answer).split()
    said = " ".join([*words[:3], "qq"])
    one, _ = played([f"<answer>{said}</answer>"])
    assert len(words) == 4
    # words 3 of 4, pairs 2 of 3, triples 1 of 2, and 1 / (2 * 1) in place of 0 of 1
    assert one.reward == pytest.approx((3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25) == pytest.approx(bleu(said.split(), words, smooth=True))


def test_entries_are_inserted_without_loss_and_a_wrong_letter_finds_the_word() -> None:
    line = next(entry for entry in TASK.passages() if entry.startswith(f"{RARE}:"))
    wrong = ("q" if RARE[0] != "q" else "x") + RARE[1:]
    one, policy = played([look(RARE), look(wrong), RIGHT])
    (context,) = one.contexts
    first, second = policy.text(context.tokens[~context.chosen]).removesuffix("</matches>").split("</matches>")
    assert first == f"<matches>{line}"
    assert second.split("\n")[0] == f"<matches>{line}"
    assert len(context.logprobs) == context.chosen.sum()


def test_the_sixth_look_up_gets_no_entry() -> None:
    one, policy = played([look(RARE)] * 6 + [RIGHT])
    assert (len(one.links["calls"]), one.reward) == (5, pytest.approx(1.1))
    assert policy.text(one.contexts[0].tokens[~one.contexts[0].chosen]).count("<matches>") == 5


def test_the_share_of_look_ups_that_ask_for_a_rare_word() -> None:
    assert played([look(RARE), look(f" {COMMON} "), look(RARE), RIGHT])[0].components["aimed"] == pytest.approx(2 / 3)
    assert "aimed" not in played([RIGHT])[0].components


def test_traces_look_up_the_rare_words() -> None:
    turns = TRANSLATOR.demonstration(PROBLEM)
    assert [action for _, action in turns] == [look(RARE), RIGHT]
    plain = next(p for p in TASK.source.draw(range(30), 1, Key(0)) if not p.meta["rare"])
    assert [action for _, action in TRANSLATOR.demonstration(plain)] == [f"<answer>{plain.answer}</answer>"]


def test_the_rest_is_grpo() -> None:
    plain = wayuu_dict_grpo.but(environment=None, rollout=Auto(), reward=Verified(), schedule=ConstantSchedule())
    check_same_update(plain, grpo)
    stages = wayuu_dict_grpo.schedule.stages
    assert (list(stages), stages["sft"].until, stages["sft"].changes["environment"]) == (["sft", "rl"], Steps(150), TRANSLATOR)
    assert (wayuu_dict_grpo.setting.group, wayuu_dict_grpo.objective["kl"].coefficient) == (8, 0.04)
    assert (TRANSLATOR.tools["lookup"].top, TRANSLATOR.calls) == (5, 5)
    assert set(changes(grpo, wayuu_dict_grpo)) == {"environment", "rollout", "reward", "schedule"}
    one, _ = played([look(RARE), "hm", RIGHT], TranslationWithLookups(0.0, 0.0))
    assert one.reward == one.components["environment"] == 1.0
    with pytest.raises(UserError, match=r"TranslationWithLookups\.bonus"):
        TranslationWithLookups(bonus=-1)
