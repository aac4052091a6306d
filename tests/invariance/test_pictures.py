"""Prompts with equal tokens and different pictures: never shared, cached, merged or dropped, at any place that compares prompts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gradus.checks.template import _parts as template_parts
from gradus.lab.samples import Extent, _problem, best_first
from gradus.lab.training_data import _as_file
from gradus.lab.transcript import segments
from gradus.papers.thinking.delethink import Chunked
from gradus.policies.engine import open_batch
from gradus.policies.jobs import Job, job_after
from gradus.policies.micro import micro_batches
from gradus.policies.prefix_sharing import families
from gradus.rollouts.demonstrations import answer_text
from gradus.rollouts.episodes import Episodes, Played, Seat
from gradus.rollouts.in_flight import Flight, flight_of, kept_flight
from gradus.rollouts.mismatched_prompts import exchanged, opening
from gradus.rollouts.serialise import begun_answer, flat_prompt
from gradus.rollouts.turns import opening as opened
from gradus.rollouts.turns import plain, recalled, state_hash
from gradus.selection.deduplicate import likeness
from gradus.serving.asked import _message as served
from gradus.study.leakage import leakage
from gradus.systems.link import packed_arrays, unpacked_arrays
from gradus.systems.messages import contexts_from, contexts_message, samples_asked, samples_wanted
from gradus.tasks.data.rows import content_hash
from gradus.testing.methods import TOY
from gradus.training.state_format import join, split
from gradus.types import Group, Key, Problem, Request, Sampling, Trajectory, UserError
from gradus.types.kept import group_of, kept_group
from gradus.types.parts import Turn
from gradus.types.prompts import after, before
from gradus.workers.trl_signature import arguments_of, own, received
from gradus.workers.trl_signature import plain as sent_plain
from tests.pictures import answered, media, message, shown
from tests.policies.test_engine import decoder

ONE, TWO, AGAIN = shown(1), shown(2), shown(1)


def asked(*prompts: Any) -> list[Any]:
    @dataclass(frozen=True)
    class Ask:
        parent: Any
        at: int
        sampling: Sampling = Sampling(max_tokens=4)
        key: Key = Key(3)
        version: int = 0
        request: Request = Request(Problem("p", "x", text="a"))

    return [Ask(p, len(p.sequence)) for p in prompts]


def wired(message: Any) -> Any:
    document, arrays = message
    return json.loads(json.dumps(document)), unpacked_arrays(packed_arrays(arrays))


def of(colour: int, name: str = "t", *tokens: int) -> Trajectory:
    problem = Problem(f"p{colour}", "x", (message(colour),), answer="a")
    return Trajectory(name, problem, (answered(shown(colour), *(tokens or (3, 4))),), completion="x=1", reward=1.0)


def test_prefix_sharing() -> None:
    contexts = [answered(p, 3, 4) for p in (ONE, TWO, AGAIN, ONE)]
    assert [f.members for f in families(contexts)] == [(0, 2, 3), (1,)]
    assert [f.members for f in families([answered(shown(), 3), answered(shown(tail=(8,)), 4)])] == [(0, 1)]
    assert sorted(i for batch in micro_batches(contexts, 1000, shared=True) for i in batch) == [0, 1, 2, 3]


def test_forks_of_different_pictures() -> None:
    deep = [answered(answered(p, 3, 4), 5) for p in (ONE, TWO, AGAIN)]
    assert [f.members for f in families(deep)] == [(0, 2), (1,)]


def test_the_engine_reads_every_prefix_of_its_own() -> None:
    one, two, again = (job_after(p, len(p.tokens), Sampling(max_tokens=2), 1) for p in (ONE, TWO, AGAIN))
    assert one.prefix.tolist() == two.prefix.tolist()
    assert one.beginning == again.beginning != two.beginning
    assert Job(one.prefix, one.sampling, 1).beginning == one.prefix.tobytes() != one.beginning
    assert job_after(ONE, 1, Sampling(), 1).beginning == job_after(TWO, 1, Sampling(), 1).beginning  # before the picture
    batch = open_batch(decoder(), end_tokens=(), decode_text=lambda tokens: "", max_context=64)
    numbers = batch.add([one, two, again])
    assert len({batch.prefixes[n] for n in numbers}) == 2  # the keys of what is read once


def test_episodes_share_a_prompt_only_if_it_shows_the_same() -> None:
    class World:
        task = TOY

        def opening(self, prompt: Any, player: str = "policy") -> Any:
            (told,) = [m for m in prompt if not isinstance(m["content"], str)]
            return shown(int(told["content"][0]["media"].array[0, 0, 0]))

    prompts: dict[bytes, Any] = {}
    found = []
    for colour in (1, 2, 1):
        world: Any = World()
        seat = Seat(Request(Problem("p", "x", (message(colour),))), 0, world, prompts)
        found.append(Episodes().prompt_of(Played((Turn(""),)), seat).parent[0])  # type: ignore[index]
    assert len(prompts) == 2
    assert found[0] is found[2] is not found[1]


def test_duplicates_of_answers() -> None:
    one, two, again = of(1), of(2), of(1)
    for pattern in (None, "x=."):
        assert likeness(one, pattern) == likeness(again, pattern) != likeness(two, pattern)
    assert [pick.count for pick in best_first(Group("g", (one, two, again)), 3)] == [2, 1]  # the page of a report


def test_messages_between_processes() -> None:
    document, arrays = samples_asked(asked(ONE, TWO, AGAIN))
    assert sum(name.startswith("media.") for name in arrays) == 2  # each once
    wanted = samples_wanted(*wired((document, arrays)))
    assert [e.parent.beginning(e.at) for e in wanted] == [p.beginning(len(p.tokens)) for p in (ONE, TWO, AGAIN)]
    contexts = [answered(p, 3, 4) for p in (ONE, TWO, AGAIN, shown())]
    back = contexts_from(*wired(contexts_message(contexts, streams=False)))
    assert [c.things for c in back] == [c.things for c in contexts]
    assert [f.members for f in families(back)] == [f.members for f in families(contexts)]
    assert set(contexts_message([answered(shown(), 3)], streams=False)[0]) == {"streams"}  # of text as before


def test_answers_in_flight() -> None:
    held: dict[str, np.ndarray] = {}
    flights = [Flight(Request(Problem(f"p{c}", "x", (message(c),))), 0, p, (begun_answer(p),)) for c, p in ((1, ONE), (2, TWO), (1, AGAIN))]
    state = {"flights": [kept_flight(f, held) for f in flights], "media": held}
    assert sorted(held) == sorted({media(1).digest, media(2).digest})
    document, arrays = split(state)
    back = join(json.loads(json.dumps(document)), arrays)
    found = [flight_of(kept, back["media"]) for kept in back["flights"]]
    assert [f.prompt.beginning(4) for f in found] == [f.prompt.beginning(4) for f in flights]
    assert [f.request.problem for f in found] == [f.request.problem for f in flights]
    assert "seen" not in kept_flight(Flight(Request(Problem("t", "x", text="a")), 0, shown(), ()), {})
    assert flat_prompt(answered(ONE, 3)).things == ONE.things


def test_replayed_groups() -> None:
    kept = json.loads(json.dumps(kept_group(Group("g", (of(1), of(2))))["about"]))
    back = group_of({**kept_group(Group("g", (of(1), of(2)))), "about": kept})
    assert [t.contexts[0].things for t in back.trajectories] == [of(c).contexts[0].things for c in (1, 2)]
    assert [t.problem.media for t in back.trajectories] == [(media(1),), (media(2),)]


def test_prompts_that_rollouts_rebuild() -> None:
    context = answered(ONE, 3, 4)
    assert opening(context).beginning(4) == ONE.beginning(4)  # the prompt under which another answer is read
    moved = exchanged(answered(TWO, 3, 4), opening(context), 256)
    assert (moved.sequence.tolist(), moved.things) == ([9, 5, 5, 8, 3, 4], ONE.things)
    cut = exchanged(answered(TWO, 3, 4), opening(context), 4)  # the picture loses a part of its tokens, so all of them
    assert (cut.sequence.tolist(), cut.things) == ([8, 3, 4], ())
    asked_for = before(after((message(1),), "hint"), "rule")
    assert [p.get("text", p.get("media")) for p in asked_for[0]["content"]] == ["rule\n", media(1), "which colour?", "\nhint"]  # type: ignore[index]
    assert Chunked(size=4, carry=2, head=1).budget == 12  # its chunks continue from the prompt's own context
    chosen = Problem("p", "x", (message(1),), meta={"chosen": [message(1, text="yes", role="assistant")]})
    assert answer_text(chosen, "chosen") == "yes"


def test_observations() -> None:
    one, two, again = (Turn((message(c),)) for c in (1, 2, 1))
    assert state_hash(one) == state_hash(again) != state_hash(two)
    assert plain(one.observation) == f"[image 3x2 {media(1).digest[:8]}]which colour?"
    (told,) = opened(({"role": "user", "content": "go"},), (message(1),))
    assert [p.get("text", p.get("media")) for p in told["content"]] == ["go\n", media(1), "which colour?"]
    (told,) = recalled([one, two], ["up"], 1)  # type: ignore[misc]
    assert [p["media"] for p in told["content"] if "media" in p] == [media(1), media(2)]  # type: ignore[index]
    assert [p["text"] for p in told["content"] if "text" in p] == ["which colour?\n", "> up\n", "which colour?"]  # type: ignore[index]


def test_rows_of_data_and_their_split() -> None:
    one, two, again = (content_hash((message(c),)) for c in (1, 2, 1))
    assert one == again != two
    assert content_hash(({"role": "user", "content": "A  b"},)) == content_hash(({"role": "user", "content": "a b"},))


def test_leaks() -> None:
    long = "which of these many colours does the square in the middle of this picture have today"
    problems = [Problem(f"p{c}", "x", (message(c, text=long),)) for c in (1, 2)]
    assert leakage(problems[:1], problems[1:]).leaks == ()
    assert [leak.exact for leak in leakage(problems[:1], [replace(problems[0], id="q")]).leaks] == [True]
    near = replace(problems[0], messages=(message(2, text=f"{long} or not"),))
    assert leakage([near], problems[:1]).leaks == ()
    assert len(leakage([replace(near, messages=(message(1, text=f"{long} or not"),))], problems[:1]).leaks) == 1


def test_reward_functions_get_the_pictures() -> None:
    arguments = arguments_of([of(1), of(2)], 0)
    (first, _), (second, _) = (prompt[0]["content"] for prompt in arguments["prompts"])
    assert [set(first), second["image"]] == [{"type", "image"}, media(2)]
    assert arguments["images"] == [[media(1)], [media(2)]]
    line = json.dumps(arguments, default=sent_plain)
    far = json.loads(line, object_hook=received)  # as the process of the function reads it
    near = own(arguments)
    for got in (far, near):
        assert [np.asarray(row[0])[0, 0, 0] for row in got["images"]] == [1, 2]
        assert got["prompts"][0][0]["content"][0]["image"].size == (3, 2)
    near["images"][0][0].putpixel((0, 0), (9, 9, 9))
    assert media(1) == of(1).problem.media[0]  # its changes are its own


def test_what_people_are_shown() -> None:
    trajectory = of(1)
    (stretches,) = segments(trajectory, lambda tokens: "".join(map(str, tokens)))
    assert [(s.own, s.text, s.media) for s in stretches] == [(False, f"9[image 3x2 {media(1).digest[:8]}]8", (media(1),)), (True, "34", ())]
    page = _problem(Group("g", (trajectory,), pool=(1.0,)), Extent(1, 1, 1, 100), lambda: None)
    assert page.count('<img alt="image') == 1
    assert "data:image/png;base64," in page
    told = _as_file(message(1))
    assert told["content"][0]["image"].startswith("data:image/png;base64,")


def test_checks_of_the_template_read_the_words() -> None:
    assert template_parts([message(1)]) == ["which colour?"]


def test_serving_refuses_pictures() -> None:
    with pytest.raises(Exception, match="has a part that is not text"):
        served("messages[0]", {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]})


def test_the_world_refuses_a_model_of_text() -> None:
    from gradus import load_recipe
    from gradus.testing.methods import toy_run

    world = toy_run(load_recipe("grpo")).at(0)[1]
    with pytest.raises(UserError, match="problem p1 shows pictures, but the model reads text"):
        asyncio.run(world.sample([Request(Problem("p1", "x", (message(1),)))]))
    with pytest.raises(UserError, match="the environment shows pictures"):
        world.follow((message(1),), answered(shown(), 3))
