"""Pedagogical RL: both forms of the reward by hand, the extras, the judges, tokens without loss, hidden thoughts, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gradus.objectives.kl import KL
from gradus.papers.agents.pedagogical_rl import ScriptedRules, TutorReward, WrittenRules, pedagogical_rl, thought_reward, tutor_reward
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.tasks.text.tutor import tutor
from gradus.testing.methods import TOY_EPISODES, check_same_update, scripted_world, train_toy
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Key, Problem, Request, UserError
from gradus.types.parts import Judgement

TASK = tutor()
META = Frozen(start=6, steps=(("gets", 5), ("loses", 3)), knows=(False, False), opens=True, question="6 gets 5 loses 3")
PROBLEM = Problem("p", "tutor", messages=({"role": "user", "content": "6 gets 5 loses 3 = 8"},), answer=8, meta=META)
HINTS, LEAK = ("try add", "try take", "<end>"), ("try add", "it is 8", "<end>")


def played(*script: str, reward: TutorReward = TutorReward(), count: int = 1, judge: str = "", max_tokens: int = 1000, task=TASK):
    def speak(ask):
        return judge if ask.request.player == "judge" else script[min(ask.request.tags[-1], len(script) - 1)]

    world, policy = scripted_world(task, speak, reward=reward, max_tokens=max_tokens)
    world.players["judge"] = SimpleNamespace(policy=policy, name="judge", updates=0, micro_tokens=1000, most_asks=None)
    (group,) = asyncio.run(pedagogical_rl.rollout.run([Request(PROBLEM, count)], world))
    return group.trajectories[0], group, world


def test_the_two_forms_by_hand() -> None:
    assert tutor_reward(0.75, True, 0.75) == 0.0
    assert tutor_reward(0.75, True, 0.75, hard=True) == -0.75
    assert [tutor_reward(0.75, False, 0.75, hard=hard) for hard in (False, True)] == [0.75, 0.75]
    assert tutor_reward(0.5, True, 1.25) == -0.75
    assert tutor_reward(0.5, True, 0.0, hard=True) == 0.0  # with lambda 0 the hard form still drops the solutions
    # the penalty always counts; the bonus counts with the solutions only
    assert tutor_reward(0.5, False, 1.0, hard=True, sampled_extra=0.1, always=-0.5) == pytest.approx(0.1)
    assert tutor_reward(0.5, True, 1.0, hard=True, sampled_extra=0.1, always=-0.5) == -1.5
    assert tutor_reward(0.5, True, 1.0, sampled_extra=0.1, always=-0.5) == pytest.approx(-0.9)


def test_thoughts_by_hand() -> None:
    assert thought_reward(["<think>a</think>b", "c"], 0.5) == 0.25
    assert thought_reward(["<think>a", "<think>b", "c", "<think>d</think>"], 0.5) == pytest.approx(0.125 - 1.0)
    assert thought_reward(["a"], 0.5) == 0.0
    assert thought_reward([], 0.5) == 0.0


def test_a_dialogue_with_hints_and_one_with_a_leak() -> None:
    good, _, _ = played(*HINTS)
    parts = good.components
    assert (parts["leaked"], parts["helpful"], parts["environment"]) == (0.0, 1.0, 1.0)
    assert good.reward == pytest.approx(parts["solved"] + 0.1)
    assert parts["gain"] == pytest.approx(parts["solved"] - parts["before"])
    bad, _, _ = played(*LEAK)
    assert (bad.components["leaked"], bad.components["solved"]) == (1.0, 1.0)
    assert bad.reward == pytest.approx(1.0 - 0.75 + 0.1)
    hard, _, _ = played(*LEAK, reward=TutorReward(hard=True))
    assert hard.reward == -0.75
    free, _, _ = played(*LEAK, reward=TutorReward(weight=0.0))
    assert free.reward == pytest.approx(1.1)
    idle, _, _ = played("go on", "<end>")
    assert (idle.components["helpful"], idle.components["leaked"]) == (0.0, 0.0)
    assert idle.reward == pytest.approx(idle.components["solved"] - 0.75 + 0.1)


def test_the_extras() -> None:
    unended, _, _ = played("try add", "try take")  # sixteen messages
    assert unended.links["turns"] == 8
    assert unended.reward == pytest.approx(unended.components["solved"])
    cut, _, _ = played("try add", "try take now", "<end>", max_tokens=12)  # the second message has exactly 12 characters, and no room for the end
    assert cut.reward == pytest.approx(cut.components["solved"] + 0.1 - 0.5)
    whole, _, _ = played("try add", "try take now", "<end>", max_tokens=14)
    assert whole.reward == pytest.approx(whole.components["solved"] + 0.1)
    cut, _, _ = played("it is 8 now!", "<end>", max_tokens=12, reward=TutorReward(hard=True, weight=1.0))
    assert cut.reward == pytest.approx(-1.5)
    thinks, _, _ = played("<think>8</think>try add", "try take", "<end>", reward=TutorReward(think=0.5))
    assert thinks.reward == pytest.approx(thinks.components["solved"] + 0.1 + 0.5 / 3)
    assert thinks.components["leaked"] == 0.0


def test_only_the_tokens_of_the_tutor_are_actions_and_the_student_sees_no_thought() -> None:
    one, _, world = played("<think>it is 8, first add</think>hm", *HINTS)
    assert one.actions == sum(len(text) + 1 for text in ("<think>it is 8, first add</think>hm", *HINTS))
    read = world.text(one.contexts[-1].tokens[~one.contexts[-1].chosen], "policy")
    assert "6 gets 5?" in read
    assert read.count("6 gets 5?") == 1  # the opening stands in the prompt; the thought about the sum did not help the student
    assert one.components["environment"] == 1.0


def test_a_judge_that_is_a_player() -> None:
    reject, _, _ = played(*HINTS, reward=TutorReward(rules=WrittenRules()), judge="bad: REJECT")
    assert (reject.components["leaked"], reject.components["helpful"]) == (1.0, 0.0)
    accept, _, _ = played(*HINTS, reward=TutorReward(rules=WrittenRules()), judge="OK")
    assert (accept.components["leaked"], accept.components["helpful"]) == (0.0, 1.0)
    assert accept.reward == pytest.approx(accept.components["solved"] + 0.1)


def test_one_rejection_of_two_attempts_suffices() -> None:
    texts = iter(["OK", "REJECT", "OK", "OK"])

    async def sample(requests):
        assert [r.count for r in requests] == [2, 2]
        return [[SimpleNamespace(tokens={None: next(texts)}, chosen=None) for _ in range(r.count)] for r in requests]

    world = SimpleNamespace(sample=sample, text=lambda piece, player: piece)
    found = asyncio.run(WrittenRules().rejected(PROBLEM, ["hm"], world, "t"))  # type: ignore[arg-type]
    assert found == {"leak": True, "values": False}


def test_failures_other_tasks_and_wrong_numbers() -> None:
    one, group, world = played(*HINTS)
    failed = replace(group, trajectories=(one.but(reward=Failed("lost")),))
    ((found,),) = asyncio.run(TutorReward().score([failed], {}, world))
    assert isinstance(found.reward, Failed)
    bare = replace(group, trajectories=(one.but(contexts=()),))
    assert asyncio.run(TutorReward().score([bare], {}, world)) == [[Judgement(NOT_APPLICABLE)]]  # no episode
    toy, _ = scripted_world(TOY_EPISODES, lambda ask: "c", reward=TutorReward())
    (found,) = asyncio.run(pedagogical_rl.rollout.run([Request(TOY_EPISODES.source.draw([0], None, toy.seed)[0], 1)], toy))
    assert found.trajectories[0].value == found.trajectories[0].components["environment"]  # no student: the return of the episode
    with pytest.raises(UserError, match="weight"):
        TutorReward(weight=-1.0)
    assert asyncio.run(ScriptedRules().rejected(PROBLEM, ["it is 8"], world, "t")) == {"leak": True, "values": True}


def test_a_group_is_compared_as_in_grpo() -> None:
    _, group, _ = played(*HINTS, count=1)
    assert not pedagogical_rl.credit.assign([group], {})[0][0].advantages.any()  # a group of one
    assert pedagogical_rl.credit == grpo.credit


def test_its_changes_and_the_limit_at_which_it_is_grpo() -> None:
    assert set(changes(grpo, pedagogical_rl)) == {"rollout", "reward", "objective.kl.coefficient", "update.epochs"}
    assert (pedagogical_rl.reward.weight, pedagogical_rl.reward.solutions, pedagogical_rl.setting.group) == (0.75, 8, 8)
    assert pedagogical_rl.objective["kl"] == KL(0.001)
    mine = pedagogical_rl.but(reward=EnvironmentReturn(), objective=grpo.objective, update__epochs=1)
    check_same_update(mine, grpo.but(rollout=pedagogical_rl.rollout, reward=EnvironmentReturn()), task=TOY_EPISODES)


def test_the_solutions_depend_on_the_key_alone() -> None:
    first, second = (played(*HINTS)[0].components["solved"] for _ in range(2))
    assert first == second
    assert TASK.source.draw([0], 1, Key(0))[0].meta["opens"] in (True, False)


@pytest.mark.nightly
def test_the_clip_acts_in_the_second_update() -> None:
    shares = {}
    for epochs in (1, 2):
        seen: list[float] = []
        made = pedagogical_rl.but(rollout=grpo.rollout, reward=grpo.reward, update__epochs=epochs)
        train_toy(made, learning_rate=0.4, group=16, watch=lambda run, metrics, groups, seen=seen: seen.append(metrics["clip_share"]))
        shares[epochs] = max(seen)
    assert shares[1] == 0 < shares[2]
