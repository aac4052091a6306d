"""CAP-CPT: categories and texts by hand, scenarios for every branch that pass the checker, short prompts, and SFT at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.sft import sft
from gradus.papers.guidance.cap_cpt import CategoryAware, cap_cpt, reading
from gradus.recipe.core import changes
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import Demonstrations
from gradus.rollouts.rule_documents import parsed
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.kinds import verify_exact
from gradus.tasks.text.service_desk import made, service_desk
from gradus.testing.methods import TOY, readable, scripted_world, weights_after
from gradus.testing.methods.tasks import TOY_DOCUMENTS
from gradus.types import Frozen, Key, Problem, Request, UserError
from gradus.types.moments import Steps

FACTS = "fact: tier is silver unless stated\nfact: size is small unless stated\nfact: refunds take a day\n"
RULES = "rule: begin with the topic\nrule: end with thanks\n"
FLAT = "on delay: if tier is gold (refund) else (deny)\n"
DEEP = "on return: if tier is gold (if size is big (mail hold) else (swap)) else (deny)"
DOCUMENT = f"desk kora\n{FACTS}{RULES}{FLAT}{DEEP}"


def test_the_number_of_texts_of_each_category():
    """3 facts * 4 paraphrases + 2 questions; 2 rules + 2 * 4 demonstrations; 2 branches * 1 scenario; 3 branches * 8 scenarios."""
    texts = CategoryAware().texts(DOCUMENT)
    assert {kind: len(found) for kind, found in texts.items()} == {"factual": 14, "behavioural": 10, "simple": 2, "complex": 24}
    assert texts == CategoryAware().texts(DOCUMENT)
    assert texts["factual"][0] == "desk kora: tier is silver unless stated"
    assert texts["factual"][-2:] == ["desk kora: which tier if none is stated? =silver", "desk kora: which size if none is stated? =small"]
    assert len(set(texts["factual"])) == 14
    few = CategoryAware(paraphrases=1, demonstrations=0, scenarios=2).texts(DOCUMENT)
    assert {kind: len(found) for kind, found in few.items()} == {"factual": 5, "behavioural": 2, "simple": 2, "complex": 6}
    for found in texts.values():
        assert all("desk kora" in text and len(text) < 0.5 * len(DOCUMENT) for text in found)


def test_demonstrations_name_the_rule_and_obey_both_rules():
    for text in CategoryAware().texts(DOCUMENT)["behavioural"][2:]:
        said, reply = text.split("\n")
        assert said.startswith(("desk kora: begin with the topic. a ", "desk kora: end with thanks. a "))
        assert reply.split()[0] in ("delay", "return")
        assert reply.endswith(" thanks")


def told(text):
    """The topic, the stated fields and the reply of a scenario."""
    said, reply = text.split("\n")[-2:]
    topic, fields = said.partition("a ")[2].split(": ")
    return topic, {} if fields == "nothing stated" else dict(pair.split(" ") for pair in fields.split(", ")), reply


@pytest.mark.parametrize("level", [1, 2, 3])
def test_scenarios_cover_every_branch_and_replies_pass_the_checker(level):
    document = made(level, 2, 4, 6, 1, 0)
    s, texts = parsed(document.text), CategoryAware().texts(document.text)
    found = texts["simple" if level == 1 else "complex"]
    assert len(found) == 2 * 2**level * (1 if level == 1 else 8)
    paths = set()
    for text in found:
        topic, stated, reply = told(text)
        answer = document.reply(topic, stated)
        problem = Problem("p", "service_desk", text="", answer=answer.rpartition("=")[2])
        assert verify_exact(problem, reply) == 1.0
        assert reply == answer
        paths.add((topic, reply.rpartition("=")[0]))
    assert len(paths) == sum(len(branches) for _, branches in (*s.simple, *s.complex)) == 2 * 2**level


def test_the_name_is_at_most_5_percent_of_the_document_and_no_stage_after_shows_it():
    for level in (1, 2, 3, 4):
        for p in service_desk(level=level).source.draw(range(10), None, Key(0)):
            name = p.question.split("\n")[0]
            assert len(name) <= 0.05 * len(p.meta["document"])
            assert "unless" not in p.question
    named, whole = (service_desk(level=4, topics=4, document=shown).source.draw(range(40), None, Key(0)) for shown in (False, True))
    assert all(len(a.question) <= 0.05 * len(b.question) for a, b in zip(named, whole, strict=True))  # the whole prompt, with the request


def test_a_usual_value_is_sometimes_left_out():
    """Eight scenarios of the branch tier gold, size small: the small size is usual, so only the gold tier is stated always."""
    found = [told(text)[1] for text in CategoryAware().texts(DOCUMENT)["complex"][8:16]]
    assert all(stated["tier"] == "gold" for stated in found)
    assert {stated.get("size") for stated in found} == {"small", None}


def test_a_scenario_of_the_other_branch_never_states_the_tested_value():
    """The condition tests the usual value, silver, so the other branch needs another value."""
    texts = CategoryAware().texts("desk kora\nfact: tier is silver unless stated\nrule: end with bye\non delay: if tier is silver (refund) else (deny)")
    first, second = texts["simple"]
    assert told(first)[2] == "tier silver =refund bye"
    assert second == "desk kora\na delay: tier not silver\ntier not silver =deny bye"


def test_all_tokens_of_the_drawn_texts_are_learned():
    world, _ = scripted_world(TOY, lambda ask: "sampled")
    problem = Problem("p", "t", text="x", answer="b", meta=Frozen(document=DOCUMENT))
    (group,) = asyncio.run(CategoryAware().run([Request(problem, count=60)], world))
    texts = [readable(t.contexts[0].sequence) for t in group.trajectories]
    assert sorted(texts) == sorted(f"{text}|" for found in CategoryAware().texts(DOCUMENT).values() for text in found)  # 50, each once
    assert all(t.actions == len(t.contexts[0].sequence) - 1 for t in group.trajectories)
    assert CategoryAware().test == Auto()
    assert not CategoryAware().judges(TOY)
    with pytest.raises(UserError, match='add the column "document"'):
        asyncio.run(CategoryAware().run([Request(Problem("n", "t", text="x"))], world))
    with pytest.raises(UserError, match=r"CategoryAware\.scenarios"):
        CategoryAware(scenarios=-1)


def test_two_stages_and_sft_at_the_limit():
    stages = cap_cpt.schedule.stages
    assert [(name, s.recipe, s.until) for name, s in stages.items()] == [("cpt", reading, Steps(100)), ("sft", None, Steps(100))]
    assert set(changes(sft, reading)) == {"rollout", "requires"}
    assert set(changes(sft, cap_cpt)) == {"schedule", "requires"}
    assert cap_cpt.rollout == Demonstrations()
    rollout = reading.rollout
    assert (rollout.paraphrases, rollout.demonstrations, rollout.scenarios, rollout.depth) == (4, 4, 8, 1)
    one, other = (weights_after(r, steps=3, task=TOY_DOCUMENTS)["policy.logits"] for r in (cap_cpt.but(schedule=ConstantSchedule()), sft))
    assert torch.equal(one, other)
