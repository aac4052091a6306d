"""Chain-of-Agents: logs as traces and back, the filters, the form, the screen of questions, resampling, and DAPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from gradus.papers.agents.chain_of_agents import AGENTS, FormedOutcome, ScriptedTeam, TeamTraces, chain_of_agents
from gradus.papers.bases.dapo import dapo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.team_logs import Activation, formed, kept, log_of, turns_of
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.code.python_tool import python_tool
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import check_different_update, check_same_update, scripted_world
from gradus.types import Key, Request, UserError

TASK = replace(search_qa(2, people=40, instruction=False), environment=replace(AGENTS, describes=False))
PROBLEM, *OTHERS = TASK.source.draw(range(12), 2, Key(0))
ANSWER = str(PROBLEM.answer)
SURE = ScriptedTeam(slips=0.0, careless=0.0, repeats=0.0)


def solved(team, key=Key(0), problem=PROBLEM):
    world, _ = scripted_world(TASK, lambda ask: "")
    return asyncio.run(team.solve(problem, key, world))


@dataclass(frozen=True)
class Given:
    """A team whose log in try n is `logs[n]`."""

    logs: tuple[tuple[Activation, ...], ...]
    asked: list[int]

    async def solve(self, problem, key, world):
        self.asked.append(len(self.asked))
        return self.logs[self.asked[-1]]


def traced(team, context=100_000, **fields):
    world, policy = scripted_world(TASK, lambda ask: "", context_length=context)
    (group,) = asyncio.run(TeamTraces(team, **fields).run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], world.notes, policy


def test_a_log_becomes_one_trace_in_the_order_of_time_and_back() -> None:
    log = solved(ScriptedTeam(slips=1.0, careless=0.0, repeats=0.0))
    agents = ["plan", *["web_search", "reflection", "web_search"] * 2, "suggested_answer", "double_check", "answer"]
    assert [one.agent for one in log] == agents
    trace, _, policy = traced(Given((tuple(log),), []))
    (context,) = trace.contexts
    text = policy.text(context.tokens)
    assert [text.index(f"<{one.agent}>{one.said}</{one.agent}>") for one in log] == sorted(text.index(f"<{one.agent}>{one.said}</") for one in log)
    assert log_of(text) == log
    assert [one.told for one in log_of(text)] == [one.told for one in log]
    assert policy.text(context.tokens[~context.chosen]) == "".join(f"<observation>{one.told}</observation>" for one in log if one.told is not None)
    assert [one.said for one in log_of(text) if one.agent == "web_search"] == [one.said for one in log if one.agent == "web_search"]


def test_observations_have_no_loss() -> None:
    trace, _, policy = traced(SURE)
    (context,) = trace.contexts
    own = policy.text(context.tokens[context.chosen])
    assert "observation" not in own
    assert own.endswith(f"<answer>{ANSWER}</answer>")
    assert trace.actions == len(own)


def test_one_model_needs_fewer_calls_than_the_team() -> None:
    trace, notes, _ = traced(SURE)
    assert (notes["traces/activations"], notes["traces/turns"]) == (6, 3)  # plan, 2 searches, suggestion, check, answer
    assert len(turns_of(solved(SURE))) == 3
    assert (trace.trained, trace.weight, notes["traces/kept"]) == (True, 1.0, 1.0)


def test_the_filters_by_hand() -> None:
    log = solved(SURE)
    assert kept(log, PROBLEM)
    assert not kept([*log[:-1], Activation("answer", "no")], PROBLEM)
    assert not kept([*log[:2], log[1], *log[2:]], PROBLEM)  # one search twice
    assert not kept(log, PROBLEM, least=7)
    assert kept(log, PROBLEM, least=6)
    assert not kept(log[-4:], PROBLEM)
    assert kept(log[-5:], PROBLEM)


def test_a_rejected_trace_is_made_again_and_a_repair_counts_twice() -> None:
    good, bad = tuple(solved(SURE)), (Activation("answer", "no"),)
    mended = tuple(solved(ScriptedTeam(1.0, 0.0, 0.0)))
    team = Given((bad, good), [])
    assert traced(team)[0].trained
    assert team.asked == [0, 1]
    trace, notes, _ = traced(Given((mended,), []))
    assert (trace.trained, trace.weight, notes["traces/repaired"]) == (True, 2.0, 1.0)
    trace, notes, _ = traced(Given((bad,) * 2, []), tries=2)
    assert (trace.trained, trace.reward, notes["traces/kept"]) == (False, 1.0, 0.0)


def test_a_trace_that_does_not_fit_into_the_context_is_not_trained() -> None:
    long, short = solved(ScriptedTeam(1.0, 0.0, 0.0)), solved(SURE)
    sizes = [len(traced(Given((tuple(log),), []))[0].contexts[0].sequence) for log in (long, short)]
    assert sizes[0] > sizes[1] + 100
    team = Given((tuple(long), tuple(short)), [])
    trace, _, _ = traced(team, context=sizes[1] + 60)
    assert (trace.trained, len(trace.contexts[0].sequence), team.asked) == (True, sizes[1], [0, 1])
    trace, _, _ = traced(Given((tuple(long),), []), context=sizes[1] + 60, tries=1)
    assert not trace.trained


def test_a_careless_critic_leaves_errors_and_a_repeated_query_is_redundant() -> None:
    careless = [solved(ScriptedTeam(1.0, 1.0, 0.0), problem=p) for p in OTHERS]
    assert all("reflection" not in [one.agent for one in log] for log in careless)
    assert sum(log[-1].said == str(p.answer) for log, p in zip(careless, OTHERS, strict=True)) < len(OTHERS) / 2
    assert not kept(solved(ScriptedTeam(0.0, 0.0, 1.0)), PROBLEM)
    shares = [kept(solved(ScriptedTeam(), Key(i)), PROBLEM) for i in range(60)]
    assert 0.4 < sum(shares) / 60 < 0.95  # two hops, each without a missed slip (0.9) and mostly without a repeat


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("<plan>a</plan><web_search>b</web_search>\n<answer>c</answer>", True),
        ("<plan>a</plan>", False),
        ("<answer>a</answer><answer>a</answer>", False),
        ("<answer>a</answer><plan>b</plan>", False),
        ("<plan></plan><answer>a</answer>", False),
        ("<plan>a<think>b</think></plan><answer>c</answer>", False),
        ("<plan>a</plan>then <answer>c</answer>", False),
        ("<web_search>a</web_search><observation>b</observation><answer>c</answer>", False),
        ("<other>a</other><answer>c</answer>", False),
        ("", False),
    ],
)
def test_the_form_by_hand(text: str, right: bool) -> None:
    assert formed(text) is right


@pytest.mark.parametrize(
    ("answer", "reward"), [(f"<answer>{ANSWER}</answer>", 1.0), ("<answer>no</answer>", 0.0), (f"so <answer>{ANSWER}</answer>", 0.0)]
)
def test_the_reward_needs_a_right_answer_in_the_right_form(answer: str, reward: float) -> None:
    script = ["<plan>a</plan><web_search>b</web_search>", answer]
    world, _ = scripted_world(TASK, lambda ask: script[ask.request.tags[-1]], reward=FormedOutcome())
    (group,) = asyncio.run(chain_of_agents.rollout.rollout.run([Request(PROBLEM, 1)], world))
    assert group.rewards.tolist() == [reward]
    assert group.trajectories[0].components["form"] == float(not answer.startswith("so"))


def test_questions_that_are_never_or_always_solved_are_not_in_stage_2() -> None:
    screen = chain_of_agents.schedule.stages["rl"].screen
    assert [n for n in range(9) if screen.keeps(n / 8)] == [1, 2, 3, 4, 5, 6, 7]
    assert screen.samples == 8
    assert chain_of_agents.schedule.stages["sft"].changes["rollout"] == TeamTraces()


def test_a_group_with_equal_rewards_is_sampled_again() -> None:
    tried = []

    def speak(ask) -> str:
        problem, sample = ask.request.problem, ask.request.sample
        tried.append(problem.id)
        return f"<answer>{problem.answer if sample == 0 or problem.id == PROBLEM.id else 'no'}</answer>"

    world, _ = scripted_world(TASK, speak, reward=FormedOutcome())

    async def more(count):
        return [Request(OTHERS[0], 2)][:count]

    world.more = more
    groups = asyncio.run(chain_of_agents.rollout.run([Request(PROBLEM, 2)], world))
    assert [g.rewards.tolist() for g in groups] == [[1.0, 1.0], [1.0, 0.0]]
    stay, gone = chain_of_agents.selection.keep(groups, Key(0))
    assert [g.trajectories[0].problem.id for g in stay] == [OTHERS[0].id]
    assert len(gone) == 1


def test_without_tools_and_ceiling_it_is_dapo_with_a_binary_reward() -> None:
    plain = chain_of_agents.but(
        environment=None, rollout=DynamicSampling(), reward=Verified(), schedule=ConstantSchedule(), setting__prompts=dapo.setting.prompts,
        setting__group=dapo.setting.group, objective__policy__trust__ceiling=1e6,
    )  # fmt: skip
    check_same_update(plain, dapo.but(reward=Verified(), update__count=8))
    check_different_update(plain, dapo.but(reward=Verified(), update__count=8, objective__policy__trust__high=0.2))
    assert {name.split(".")[0] for name in changes(dapo, chain_of_agents)} >= {"environment", "reward", "rollout", "schedule"}


def test_a_task_without_queries_is_refused() -> None:
    task = python_tool(1)
    (problem,) = task.source.draw([0], 1, Key(0))
    world, _ = scripted_world(task, lambda ask: "")
    with pytest.raises(UserError, match="ScriptedTeam"):
        asyncio.run(SURE.solve(problem, Key(0), world))
