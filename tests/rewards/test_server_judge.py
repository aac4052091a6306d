"""A judge behind an address: stored replies, repeated steps, soft verdicts, cost in tokens, and a run from the command line."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from benchmarks.judge_http import Server, body_of, verdict
from gradus.rewards.functions import reward_from
from gradus.rewards.judged import Judged
from gradus.rewards.server_judge import ServerJudge, soft_of, summed
from gradus.rewards.verdicts import Better, Case, YesNo
from gradus.testing.methods import TOY
from gradus.types import Failed, Problem, UserError
from gradus.workers.chat_client import Reply
from tests.workers.test_chat_client import started

FORM = YesNo(template="{answer}")


def world(facts=None):
    known, spent, notes = facts if facts is not None else {}, [], []
    return SimpleNamespace(
        call=lambda name: "train/judge/1", fact=known.get, decide=known.__setitem__, waiting=lambda *a: nullcontext(),
        count=lambda purpose, player, tokens: spent.append((purpose, tokens)), note=lambda name, value: notes.append((name, value)), spent=spent, notes=notes,
    )  # fmt: skip


def decided(judge, *answers, there=None, form=FORM):
    cases = [Case(str(i), Problem("p", "p", text="?"), (a,)) for i, a in enumerate(answers)]
    return asyncio.run(judge.decide(form, cases, there or world()))


def test_replies_are_asked_for_once(tmp_path):
    server = Server(fault=lambda question, attempt: None)
    judge = ServerJudge(started(server), store=str(tmp_path / "r.sqlite"))
    there = world()
    found = decided(judge, "a", "b", "a", there=there)
    assert found == [(float(verdict(q) == "yes"),) for q in "aba"]
    assert there.spent == [("judge", 42)] * 3
    assert ("judge/failed", False) in there.notes
    assert decided(judge, "b", "c") == [(float(verdict(q) == "yes"),) for q in "bc"]
    assert dict(server.seen) == {"a": 1, "b": 1, "c": 1}


def test_a_repeated_step_repeats_its_failures(tmp_path):
    server = Server(fault=lambda question, attempt: "status 500" if question == "a" else None)
    judge = ServerJudge(started(server), retries=0, store=str(tmp_path / "r.sqlite"))
    facts: dict[str, str] = {}
    first = decided(judge, "a", "b", there=world(facts))
    assert isinstance(first[0], Failed)
    server.fault = lambda question, attempt: None
    assert decided(judge, "a", "b", there=world(facts)) == first
    assert decided(judge, "a", "b")[0] == (float(verdict("a") == "yes"),)  # a later step asks again


def test_several_texts_are_several_requests(tmp_path):
    texts = iter(["yes", "no", "hm"])
    server = Server(fault=lambda question, attempt: None, answer=lambda question: body_of(next(texts)))
    judge = ServerJudge(started(server), samples=3, temperature=1.0, store=str(tmp_path / "r.sqlite"))
    assert decided(judge, "a") == decided(judge, "a") == [(0.5,)]
    assert server.seen["a"] == 3


def test_a_soft_verdict_by_hand(tmp_path):
    def row(*pairs):
        tops = [{"token": token, "logprob": logprob} for token, logprob in pairs]
        return {**tops[0], "top_logprobs": tops}

    # p(yes) = e^-0.105 + e^-3 = 0.9001 + 0.0498; the token after it is no word of the form
    logprobs = {"content": [row(("Well", -0.1)), row((" yes", -0.1053), ("Yes", -3.0), ("no", -4.0)), row((".", -0.1), ("yes", -9.0))]}
    server = Server(fault=lambda question, attempt: None, answer=lambda question: body_of("Well yes.", logprobs=logprobs))
    ((value,),) = decided(ServerJudge(started(server), soft=True, store=str(tmp_path / "r.sqlite")), "a")
    assert value == pytest.approx(0.9001 + 0.0498, abs=1e-3)
    assert soft_of(Reply("no", likely=({"no": -0.3567, "yes": -2.0},)), FORM) == (pytest.approx(0.3, abs=1e-4),)
    assert soft_of(Reply("hm", likely=({"hm": -0.1},)), FORM) is None
    assert soft_of(Reply("no"), FORM) is None
    assert summed({"a": 0.0, " A": -100.0})["a"] == pytest.approx(1.0)


def test_before_the_run(tmp_path, monkeypatch):
    ServerJudge(started(Server())).check_form(FORM, TOY)
    two = started(Server(models=("a", "b")))
    with pytest.raises(UserError, match=r"has the models a, b; name one model with --reward\.judge\.model"):
        ServerJudge(two).check_form(FORM, TOY)
    ServerJudge(two, model="a").check_form(FORM, TOY)
    with pytest.raises(UserError, match="no judge answers at"):
        ServerJudge("http://127.0.0.1:9/v1").check_form(FORM, TOY)
    with pytest.raises(UserError, match="soft"):
        ServerJudge(two, model="a", soft=True).check_form(Better(), TOY)
    monkeypatch.setenv("GRADUS_JUDGE_KEY", "secret")
    with pytest.raises(UserError, match="without encryption"):
        ServerJudge("http://example.org/v1", model="a").check_form(FORM, TOY)
    for wrong, told in (({"samples": 2}, "temperature 0"), ({"together": 0}, "together"), ({"timeout": 0.0}, "timeout")):
        with pytest.raises(UserError, match=told):
            ServerJudge(two, **wrong)


def test_an_address_is_a_reward():
    assert reward_from("http://127.0.0.1:1/v1") == Judged(ServerJudge("http://127.0.0.1:1/v1"))


def test_a_toy_run_asks_for_each_answer_once(tmp_path):
    from gradus import load_recipe
    from gradus.testing.methods import train_toy

    server = Server(fault=lambda question, attempt: None)
    recipe = load_recipe("grpo").derive("judged_toy", "x", reward=Judged(ServerJudge(started(server), store=str(tmp_path / "r.sqlite"))))
    rows = train_toy(recipe, steps=2).metrics
    assert rows[0]["tokens/judge"] % 42 == 0 < rows[0]["tokens/judge"]
    assert rows[0]["judge/failed"] == 0
    before = dict(server.seen)
    assert set(before.values()) == {1}
    assert train_toy(recipe, steps=2).metrics == rows
    assert dict(server.seen) == before


@pytest.mark.nightly
def test_a_run_stores_no_key_and_asks_nothing_twice(tmp_path, monkeypatch):
    from gradus.cli.main import main

    monkeypatch.setenv("GRADUS_JUDGE_KEY", "very-secret")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = Server(fault=lambda question, attempt: None)
    url, folder = started(server), tmp_path / "run"
    words = ["train", "grpo", "--judge", url, "--steps", "1", "--prompts", "2", "--group", "2", "--study", "none", "--run"]
    assert main([*words, str(folder)]) == 0
    before = dict(server.seen)
    assert server.headers[-1]["authorization"] == "Bearer very-secret"
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows[0]["tokens/judge"] == 42 * 4
    assert 0 <= rows[0]["reward/judged"] <= 1
    assert max(server.seen.values()) == 1
    assert main([*words, str(tmp_path / "again")]) == 0  # another run of the same seed
    assert dict(server.seen) == before
    for file in (f for place in (folder, tmp_path / "cache") for f in place.rglob("*") if f.is_file()):
        assert b"very-secret" not in file.read_bytes(), file
