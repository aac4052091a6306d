"""Workers that are started again: whichever message the process ends at, the answers are the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus import api
from gradus.systems.fleet import rollout_hosts
from gradus.systems.hosts import MOST, Host, Hosts, Weights
from gradus.systems.link import Closed
from gradus.systems.messages import Errand
from gradus.types import Key, Sampling, UserError, prompt_context
from tests.small_model import save_small_model
from tests.systems.near import Near, openings


class Counter:
    """Counts: it answers with the number of the question, which a new process has forgotten."""

    verbs = frozenset({"begin", "count", "fail"})

    def __init__(self):
        self.begun, self.number = None, 0

    def begin(self, document, arrays):
        if document["name"] == "bad":
            raise UserError("no such name")
        self.begun = document["name"]
        return {}, {}

    def count(self, document, arrays):
        self.number += 1
        return {"number": self.number, "name": self.begun}, {}

    def fail(self, document, arrays):
        raise UserError("wrong question")


def host(ends=(), name="ann", said=None):
    opened, links = openings(Counter, ends)
    return Host("worker 7", opened, lambda: [("begin", {"name": name})], (said if said is not None else []).append), links


def twice(tell):
    return [tell("count")[0]["number"] for _ in range(2)]


def test_a_process_starts_at_the_first_question_with_its_first_messages():
    one, links = host()
    assert not links
    assert one.ask(twice) == [1, 2]
    assert one.ask(twice) == [3, 4]  # the same process
    assert [link.asked for link in links] == [["begin"] + ["count"] * 4]
    assert one.starts == 1


@pytest.mark.parametrize("ends", [[{at: how}] for at in range(3) for how in ("before", "after")] + [[{0: "after"}, {1: "before"}, {2: "after"}]])
def test_work_that_lost_its_process_is_done_again_from_its_beginning(ends):
    said = []
    one, links = host(ends, said=said)
    assert one.ask(twice) == [1, 2]
    assert one.starts == len(links) == len(ends) + 1
    assert links[-1].asked == ["begin", "count", "count"]
    assert said == ["worker 7 was killed by SIGKILL; it starts again, and its work is done again"] * len(ends)
    assert all(link.closed for link in links[:-1])


def test_processes_that_all_end_end_the_run():
    one, links = host([{1: "before"}] * MOST)
    with pytest.raises(UserError, match=f"worker 7 has ended {MOST} times during the same work; the last process was killed by SIGKILL"):
        one.ask(twice)
    assert len(links) == MOST
    assert one.ask(twice) == [1, 2]  # another question may find a better machine


def test_a_question_that_was_given_up_is_not_asked_again():
    one, links = host([{1: "before"}])
    with pytest.raises(Closed):
        one.ask(twice, lambda: True)
    assert len(links) == 1
    one.ask(twice)
    one.close()
    with pytest.raises(Closed, match="worker 7 is closed"):
        one.ask(twice)
    assert all(link.closed for link in links)


def test_a_process_that_cannot_begin_is_not_asked():
    one, links = host(name="bad")
    for _ in range(2):
        with pytest.raises(UserError, match="no such name"):
            one.ask(twice)
    assert [link.asked for link in links] == [["begin"], ["begin"]]


def test_an_error_of_the_work_keeps_the_process_and_a_late_answer_does_not():
    one, links = host()
    with pytest.raises(UserError, match="wrong question"):
        one.ask(lambda tell: tell("fail"))
    assert one.ask(twice) == [1, 2]
    links[0].late = True
    with pytest.raises(TimeoutError):
        one.ask(lambda tell: tell("count", None, None, 0.5))
    assert links[0].closed
    assert one.ask(twice) == [1, 2]  # not the late answer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model = str(save_small_model(tmp_path_factory.mktemp("model") / "model"))
    made = api.start(api.plan("grpo", "arithmetic", model=model, steps=1))
    made.model_folder = model
    return made


def questions(count):
    return [Errand(prompt_context([10, 11, 12]), 3, Sampling(max_tokens=6), Key(9).fold(i), version=4) for i in range(count)]


@pytest.mark.parametrize("ends", [(), [{0: "after"}], [{1: "before"}], [{1: "after"}], [{2: "before"}], [{2: "after"}], [{3: "before"}, {2: "before"}]])
def test_samples_of_a_host_are_those_of_this_process(run, ends):
    from gradus.training.twins import twin

    opened, links = openings(lambda: None, ends)
    (one,) = rollout_hosts(run, run.model_folder, "cpu", lambda role: opened())[:1]
    made = Hosts([one]).players(0, {"policy": twin(run.players["policy"])})
    policy = made["policy"].policy
    for change in range(2):
        with torch.no_grad():
            next(policy.network.parameters()).add_(0.3)  # every version has its own weights
        here, there = policy._policy.act(questions(5)), policy.act(questions(5))
        for a, b in zip(here, there, strict=True):
            assert a.tokens.tobytes() == b.tokens.tobytes()
            assert a.logprobs.tobytes() == b.logprobs.tobytes()
            assert (a.ended, set(b.versions)) == (b.ended, {4})
        if change == 0:
            first = here
    assert any(a.logprobs.tobytes() != b.logprobs.tobytes() for a, b in zip(first, here, strict=True))
    assert len(links) == len(ends) + 1
    assert policy.context_length == policy._policy.context_length  # other methods are those of this process


class Slow(Near):
    """A link whose answer to a question arrives only after `left` waits, or after a pause."""

    left = 2

    def receive(self, timeout=None):
        if timeout is not None and self.asked[-1] != "pause" and self.left:
            self.left -= 1
            raise TimeoutError
        return super().receive(timeout)


class Pausing(Counter):
    verbs = Counter.verbs | {"pause"}

    def pause(self, document, arrays):
        return {}, {}


def test_a_pause_is_told_once_and_leaves_no_answer_behind():
    links = []

    def opened():
        links.append(Slow(Pausing()))
        return links[-1]

    one, checks = Host("worker", opened, lambda: [("begin", {"name": "ann"})], print), []

    def paused(answers):
        given = iter(answers)

        def pause():
            checks.append(next(given))
            return checks[-1]

        return lambda tell: tell("count", None, None, None, pause)[0]["number"]

    assert one.ask(paused([False, True])) == 1
    assert links[0].asked == ["begin", "count", "pause"]
    assert checks == [False, True]
    links[0].left = 2
    assert one.ask(paused([False, False])) == 2  # an answer without a pause
    assert links[0].asked == ["begin", "count", "pause", "count"]
    assert not links[0].answers


def test_a_worker_pauses_when_the_next_message_arrives(run):
    from gradus.systems.hosts import Hosted
    from gradus.training.twins import twin

    opened, links = openings(lambda: None)
    (one,) = rollout_hosts(run, run.model_folder, "cpu", lambda role: opened())[:1]
    player = twin(run.players["policy"])
    hosted = Hosted(player.policy, one, Weights(one), "policy")
    whole = hosted.act(questions(2))
    left = iter([False, False, False, True])
    links[0].worker.pending = lambda: next(left)
    part = hosted.act(questions(2), lambda: False)
    assert [p.actions for p in part] == [min(3, w.actions) for w in whole]
    assert all(p.tokens.tolist() == w.tokens.tolist()[: len(p.tokens)] for p, w in zip(part, whole, strict=True))


def test_only_changed_weights_are_sent_and_a_new_process_gets_all():
    network = torch.nn.Linear(2, 2)
    sent = []

    def tell(verb, document, arrays):
        sent.append((document["player"], sorted(arrays)))

    one, _ = host()
    one.starts = 1
    weights = Weights(one)
    weights.send(tell, "policy", network)
    weights.send(tell, "policy", network)
    with torch.no_grad():
        network.bias.add_(1)
    weights.send(tell, "policy", network)
    network.weight = torch.nn.Parameter(network.weight.detach().clone())  # another tensor of the same count of writes
    weights.send(tell, "policy", network)
    one.starts = 2
    weights.send(tell, "policy", network)
    assert sent == [("policy", names) for names in (["bias", "weight"], ["bias"], ["weight"], ["bias", "weight"])]


def test_weights_that_did_not_arrive_are_sent_again():
    one, _ = host()
    weights, network = Weights(one), torch.nn.Linear(2, 2)

    def full(*_):
        raise MemoryError

    with pytest.raises(MemoryError):
        weights.send(full, "policy", network)
    sent = []
    weights.send(lambda verb, document, arrays: sent.extend(arrays), "policy", network)
    assert sorted(sent) == ["bias", "weight"]


def test_a_near_worker_has_the_bytes_of_a_real_message():
    near = Near(Counter())
    near.send({"do": "count"}, {"x": torch.from_numpy(np.arange(3))})
    assert near.receive() == ({"number": 1, "name": None}, {})
