from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.environments.tools import Tools, unknown_tool
from gradus.rollouts.demonstrations import Demonstrations
from gradus.rollouts.episodes import Episodes
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import TOY, scripted_world
from gradus.testing.methods.scripted import END, character_tokens
from gradus.tools import tool
from gradus.tools.calculator import Calculator
from gradus.tools.forms import FencedCalls, JsonCalls, LineCalls, MessageCalls, TaggedCalls
from gradus.tools.search import Search
from gradus.types import Ended, Failed, Key, Request, UserError
from gradus.types.spaces import text_inserted

PASSAGES = ("The home of Ann is Bern.", "The river of Bern is Aare.")
SEARCH = Search(PASSAGES, top=1)


def exact(problem: Any, answer: str) -> float:
    return float(answer == "Aare")


def plays(environment: Tools, script: list[str], max_turns: int = 20) -> Any:
    """The trajectory of a player that says the texts of a script."""
    task = replace(TOY, verify=None, environment=environment)

    def speak(ask: Any) -> str:
        return script[min(ask.request.tags[-1], len(script) - 1)]

    world, policy = scripted_world(task, speak)
    (problem,) = task.source.draw([0], None, Key(0))
    (group,) = asyncio.run(Episodes(max_turns=max_turns).run([Request(problem, 1)], world))
    return group.trajectories[0], policy


def marked(trajectory: Any, policy: Any) -> tuple[str, str]:
    """The text of the chosen tokens, and the text of all tokens after the prompt."""
    (context,) = trajectory.contexts
    return policy.text(context.tokens[context.chosen]), policy.text(context.tokens)


def test_results_are_inserted_into_the_turn_and_are_not_chosen():
    environment = Tools((SEARCH,), TaggedCalls("<information>", "</information>"), verify=exact)
    one, policy = plays(environment, ["I <search>home of Ann</search> lost", "<search>river of Bern</search>", "so <answer>Aare</answer> end"])
    own, every = marked(one, policy)
    assert own == "I <search>home of Ann</search><search>river of Bern</search>so <answer>Aare</answer>"
    assert every == (
        "I <search>home of Ann</search><information>The home of Ann is Bern.</information>"
        "<search>river of Bern</search><information>The river of Bern is Aare.</information>so <answer>Aare</answer>"
    )
    assert END not in one.contexts[0].tokens[one.contexts[0].chosen]
    assert one.reward == 1.0
    assert one.ended is Ended.ENVIRONMENT
    assert one.links["calls"] == ((0, "search", True), (1, "search", True))
    assert one.links["turns"] == 3


def test_turns_of_json_calls():
    call = '<tool_call>\n{"name": "search", "arguments": {"query": "river of Bern"}}\n</tool_call>'
    one, policy = plays(Tools((SEARCH,), JsonCalls(), verify=exact), [call, "Aare"])
    assert marked(one, policy)[0] == f"{call}Aare"
    assert one.reward == 1.0
    assert "<tool_response>\nThe river of Bern is Aare.\n</tool_response>" in marked(one, policy)[1]


def test_calls_beyond_the_limit_get_no_result_and_the_player_writes_on():
    environment = Tools((SEARCH,), TaggedCalls(), calls=1, verify=exact)
    one, policy = plays(environment, ["<search>home of Ann</search>", "<search>river of Bern</search>", "<answer>Aare</answer>"])
    assert one.links["calls"] == ((0, "search", True),)
    assert marked(one, policy)[1].count("<result>") == 1
    assert one.links["invalid"] == 0
    assert plays(replace(environment, calls=0), ["<search>home of Ann</search>", "<answer>Aare</answer>"])[0].reward == 1.0


def test_an_action_that_says_nothing_gets_the_hint_and_counts_as_illegal():
    environment = Tools((SEARCH,), TaggedCalls(), hint="\nMy action is not correct.\n", limit=4, verify=exact)
    one, policy = plays(environment, ["hm"])
    assert marked(one, policy)[1].count("My action is not correct.") == 3  # nothing follows the last action
    assert (one.links["turns"], one.links["invalid"], one.reward, one.ended) == (4, 4, 0.0, Ended.TRUNCATED)


def test_mistakes_are_shown_to_the_player():
    environment = Tools((SEARCH, Calculator()), JsonCalls(), verify=exact)
    calls = [
        '<tool_call>{"name": "serch", "arguments": {"query": "a"}}</tool_call>',
        '<tool_call>{"name": "search", "arguments": {"words": "a"}}</tool_call>',
        '<tool_call>{"name": "calculate", "arguments": {"expression": "1/0"}}</tool_call>',
        "<tool_call>{</tool_call>",
        "Aare",
    ]
    one, policy = plays(environment, calls)
    told = marked(one, policy)[1]
    assert 'there is no tool "serch" (did you mean search?); the tools are search, calculate' in told
    assert "error: 'query' is a required property" in told
    assert "error: ZeroDivisionError" in told
    assert "error: the call is not JSON" in told
    assert [ok for _, _, ok in one.links["calls"]] == [False] * 4
    assert one.links["invalid"] == 1  # a call that cannot be read
    assert one.reward == 1.0
    assert unknown_tool("zzz", (SEARCH,)) == 'error: there is no tool "zzz"; the tools are search'


def test_the_description_follows_the_question():
    one, policy = plays(Tools((SEARCH,), TaggedCalls(), verify=exact), ["<answer>Aare</answer>"])
    assert "Tools: <search>query</search>. Answer: <answer>...</answer>" in policy.text(one.contexts[0].prefix)
    one, policy = plays(Tools((SEARCH,), TaggedCalls(), verify=exact, describes=False), ["<answer>Aare</answer>"])
    assert "Tools:" not in policy.text(one.contexts[0].prefix)


def test_a_recorded_result_is_not_asked_again():
    asked: list[str] = []

    def look(word: str) -> str:
        """Looks a word up.

        Args:
            word: the word
        """
        asked.append(word)
        return f"{word} {len(asked)}"

    environment = Tools((tool(look),), TaggedCalls(), verify=exact)
    task = replace(TOY, verify=None, environment=environment)
    world, _ = scripted_world(task, lambda ask: ["<look>a</look>", "<answer>b</answer>"][ask.request.tags[-1]])
    (problem,) = task.source.draw([0], None, Key(0))
    first = asyncio.run(Episodes().run([Request(problem, 1)], world))
    again = asyncio.run(Episodes().run([Request(problem, 1)], world))  # the facts of the step are kept
    assert asked == ["a"]
    assert first[0].trajectories[0].contexts[0].tokens.tolist() == again[0].trajectories[0].contexts[0].tokens.tolist()


def test_sessions_are_opened_once_copied_and_closed():
    events: list[str] = []

    class Counter:
        name, about, recorded, forks = "count", "Counts.", False, True
        parameters = {"type": "object", "properties": {"word": {"type": "string"}}}

        def __init__(self) -> None:
            self.count = 0

        def open(self, problem: Any, key: Key, world: Any) -> Counter:
            events.append("open")
            return Counter()

        def call(self, word: str = "") -> int:
            self.count += 1
            return self.count

        def fork(self, key: Key) -> Counter:
            made = Counter()
            made.count = self.count
            return made

        async def close(self) -> None:
            events.append("close")

    environment = Tools((Counter(),), TaggedCalls(), verify=exact)
    assert environment.forks

    async def run() -> list[str | None]:
        (problem,) = TOY.source.draw([0], None, Key(0))
        episode = environment.start(problem, Key(0), None)
        await episode.step("<count></count>")
        copy = episode.fork(Key(1))
        told = [await one.step("<count></count>") for one in (episode, copy, copy)]
        await episode.close()
        await copy.close()
        return [text_inserted(turn.observation) for turn in told]

    assert asyncio.run(run()) == ["<result>2</result>", "<result>2</result>", "<result>3</result>"]
    assert events == ["open", "close", "close"]


def test_a_verifier_without_a_verdict_fails_the_episode():
    one, _ = plays(Tools((SEARCH,), TaggedCalls(), verify=lambda problem, answer: Failed("no verdict")), ["<answer>a</answer>"])  # type: ignore[arg-type]
    assert isinstance(one.reward, Failed)
    assert "no verdict" in one.reward.reason


def test_a_demonstration_is_shown_in_the_form_of_the_environment():
    task = search_qa(people=40, instruction=False)
    (problem,) = task.source.draw([0], task.level, Key(0))
    environment = Tools((Search(),), TaggedCalls("<information>", "</information>"))
    turns = environment.demonstration(problem)
    searches = [action for _, action in problem.meta["demonstration"]]
    assert [action for _, action in turns[:-1]] == [f"<search>{line.removeprefix('search: ')}</search>" for line in searches[:-1]]
    assert turns[-1][1] == f"<answer>{problem.answer}</answer>"
    assert str(text_inserted(turns[1][0])).startswith("<information>")
    with pytest.raises(UserError, match="neither a call of calculate nor an answer"):
        Tools((Calculator(),)).demonstration(problem)


@pytest.mark.parametrize("form", [TaggedCalls("<information>", "</information>"), JsonCalls()], ids=lambda form: type(form).__name__)
def test_a_demonstrated_episode_has_the_tokens_of_a_sampled_one(form):
    environment = Tools((Search(),), form)
    task = replace(search_qa(people=40, instruction=False), environment=environment)
    (problem,) = task.source.draw([0], task.level, Key(0))
    actions = [action for _, action in environment.demonstration(problem)]
    world, _ = scripted_world(task, lambda ask: actions[ask.request.tags[-1]])
    (played,) = asyncio.run(Episodes().run([Request(problem, 1)], world))
    (given_,) = asyncio.run(Demonstrations().run([Request(problem, 1)], world))
    one, two = played.trajectories[0].contexts[0], given_.trajectories[0].contexts[0]
    assert one.sequence.tolist() == two.sequence.tolist()
    assert one.chosen.tolist() == two.chosen.tolist()
    assert played.trajectories[0].reward == 1.0


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(UserError, match=r"\['search', 'search'\]"):
        Tools((SEARCH, Search()))
    with pytest.raises(UserError, match=r"\[\]"):
        Tools(())
    with pytest.raises(UserError, match='has the tool "search" under the name "find"'):
        Tools({"find": SEARCH})


PIECES = st.sampled_from(
    ["<search>", "</search>", "<answer>", "</answer>", "<tool_call>", "</tool_call>", '{"name": "search", "arguments": {"query": "Bern"}}', "{", "```python\n",
     "```", "```output", "search: Bern\n", "answer: x", "\n", "@", "é", "上", "\u202e", "river of Bern", "\x00", "|"]
)  # fmt: skip


def check_tokens(form: Any, texts: list[str]) -> None:
    """The chosen tokens of an episode are the sampled tokens, with the same log-probabilities, in order."""
    seen: list[list[int]] = []
    environment = Tools((SEARCH,), form, limit=6, verify=exact)
    task = replace(TOY, verify=None, environment=environment)
    world, policy = scripted_world(task, lambda ask: texts[min(ask.request.tags[-1], len(texts) - 1)])
    act = policy.act

    def recorded(asks: Any) -> Any:
        made = act(asks)
        seen.extend(one.tokens.tolist() for one in made)
        return made

    policy.act = recorded  # type: ignore[method-assign]
    (problem,) = task.source.draw([0], None, Key(0))
    (group,) = asyncio.run(Episodes(max_turns=6).run([Request(problem, 1)], world))
    (context,) = group.trajectories[0].contexts
    assert context.tokens[context.chosen].tolist() == [token for tokens in seen for token in tokens]
    assert np.array_equal(context.logprobs, np.concatenate([-np.arange(1, len(tokens) + 1, dtype=np.float32) / 8 for tokens in seen]))
    assert not isinstance(group.trajectories[0].reward, Failed)


FORMS = (TaggedCalls(), FencedCalls(), LineCalls(), JsonCalls(), MessageCalls())


@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=1, max_size=6))
def test_the_tokens_trained_on_are_the_tokens_sampled(form, texts):
    check_tokens(form, texts)


@pytest.mark.nightly
@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
@settings(max_examples=10_000, deadline=None)
@given(texts=st.lists(st.lists(PIECES, max_size=8).map("".join), min_size=1, max_size=6))
def test_the_tokens_trained_on_are_the_tokens_sampled_in_ten_thousand_conversations(form, texts):
    check_tokens(form, texts)


def test_characters_have_tokens():
    assert len(character_tokens("ab")) == 2
