"""Actors of Ray as workers: what Ray is asked for, what its errors become, and a run whose actors are killed."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from gradus.api import train
from gradus.recipe.registry import recipe
from gradus.systems import ray_link
from gradus.systems.link import Closed, framed
from gradus.systems.ray_link import Connected, Endpoint, RayLink, cause_of, imported
from gradus.types import UserError
from gradus.types.systems import Cluster
from tests.systems.killed import Doomed
from tests.systems.test_fleet import LAKE, without
from tests.training.test_ahead import same


class RayError(Exception):
    pass


class FakeRay:
    """Answers like Ray, in this process. `place`: whether it has a place for an actor; `ends`: the messages after which the actor is dead."""

    def __init__(self, place=True, ends=100):
        self.place, self.ends, self.started, self.killed, self.asked = place, ends, [], [], 0
        self.exceptions = SimpleNamespace(RayError=RayError)

    def remote(self, kind):
        ray = self

        class Actor:
            def __init__(self, role):
                inner = kind(role)
                self.process = SimpleNamespace(remote=lambda: "process")

                def ask(message):
                    ray.asked += 1
                    return lambda: inner.ask(message) if ray.asked <= ray.ends else ray.dead()

                self.ask = SimpleNamespace(remote=ask)

        def options(**how):
            ray.started.append(how)
            return SimpleNamespace(remote=Actor)

        return SimpleNamespace(options=options)

    def dead(self):
        raise RayError("The actor died.\n Worker exit type: SYSTEM_ERROR Worker exit detail: killed")

    def wait(self, refs, timeout):
        return (refs, []) if self.place else ([], refs)

    def get(self, ref):
        return ref()

    def kill(self, actor, no_restart):
        self.killed.append(actor)

    def cluster_resources(self):
        return {"CPU": 4.0, "memory": 1e9, "node:127.0.0.1": 1.0}


def faked(monkeypatch, **how):
    ray = FakeRay(**how)
    monkeypatch.setattr(ray_link, "imported", lambda: ray)
    return ray


def test_an_actor_answers_bytes_with_bytes(monkeypatch):
    faked(monkeypatch)
    link = RayLink("tasks", {"num_cpus": 1}, 5.0)
    link.send({"do": "dance"})
    assert link.receive()[0]["kind"] == "user"
    assert isinstance(Endpoint("tasks").ask(framed({"do": "dance"})), bytes)
    assert Endpoint("tasks").process() == os.getpid()


def test_a_dead_actor_closes_its_link(monkeypatch):
    ray = faked(monkeypatch, ends=1)
    link = RayLink("tasks", {}, 5.0)
    link.send({"do": "dance"})
    link.receive()
    link.send({"do": "dance"})
    with pytest.raises(Closed):
        link.receive()
    assert (link.alive, link.ending) == (False, "has ended (Ray: SYSTEM_ERROR)")
    link.close()
    assert len(ray.killed) == 1
    with pytest.raises(Closed, match="the actor is closed"):
        link.send({"do": "dance"})


def test_a_late_answer_is_not_lost(monkeypatch):
    ray = faked(monkeypatch)
    link = RayLink("tasks", {}, 5.0)
    link.send({"do": "dance"})
    ray.place = False
    with pytest.raises(TimeoutError, match=r"within 0\.5 seconds"):
        link.receive(0.5)
    ray.place = True
    assert link.receive(0.5)[0]["kind"] == "user"


def test_a_cluster_without_a_place_is_named(monkeypatch):
    faked(monkeypatch, place=False)
    with pytest.raises(UserError, match=r"no place for a process with {'num_gpus': 1.0} within 5 seconds; the cluster has {'CPU': 4.0}"):
        RayLink("players", {"num_gpus": 1.0}, 5.0)


def test_each_role_reserves_its_own_resources(monkeypatch):
    ray = faked(monkeypatch)
    ray.is_initialized = lambda: True
    connected = Connected(Cluster(worker_gpus=1, worker_cpus=4, worker_resource="rollout", pool_cpus=0.5))
    connected("players")
    connected("tasks")
    common = {"max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
    assert ray.started == [
        {**common, "num_cpus": 4, "num_gpus": 1, "resources": {"rollout": 1.0}}, {**common, "num_cpus": 0.5, "num_gpus": 0.0}
    ]  # fmt: skip
    assert not connected.ours  # a connection of the user stays open
    connected.close()


def test_a_missing_package_and_a_missing_cluster_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'gradus\[ray\]'"):
        imported()

    def init(**how):
        raise ConnectionError("no answer\nmuch detail")

    ray = faked(monkeypatch)
    ray.is_initialized, ray.init = lambda: False, init
    with pytest.raises(UserError, match=r"there is no Ray cluster at 10\.0\.0\.1:6379: no answer; start Ray with ray start"):
        Connected(Cluster(address="10.0.0.1:6379"))


@pytest.mark.parametrize(("text", "cause"), [("It died. More.", "Ray: It died"), ("a\nb exit type: OOM x", "Ray: OOM"), ("", "Ray gives no reason")])
def test_the_cause_of_an_end_is_one_line(text, cause):
    assert cause_of(text) == cause


def test_a_cluster_is_a_stream_with_places():
    assert Cluster().workers_in == "processes"
    with pytest.raises(UserError, match="worker_gpus"):
        Cluster(worker_gpus=-1)
    with pytest.raises(UserError, match="actors of Ray cannot take new weights between two tokens"):
        Cluster(interrupt=True)
    assert Cluster(interrupt=True, workers_in="threads").interrupt
    with pytest.raises(UserError, match="`publish_every` to 2 or less"):
        Cluster(publish_every=3)


@pytest.mark.nightly
def test_a_run_whose_actors_are_killed_has_the_bytes_of_a_run_without_ray(monkeypatch):
    """Two rollout workers and two environment processes in actors of a real Ray; six of them are killed."""
    import ray

    plain, made, real = train(recipe("gigpo"), steps=3, **LAKE), [], Connected.__call__

    def call(connected, role):
        if not made:
            made.append(Doomed(6, 2, 6, lambda role: real(connected, role), lambda link: ray.get(link._actor.process.remote())))
        return made[0](role)

    monkeypatch.setattr(Connected, "__call__", call)
    system = Cluster(staleness=0, workers=2, environments=2, worker_cpus=0.25, pool_cpus=0.25)
    run = without(train(recipe("gigpo").but(system=system), steps=3, **LAKE), "staleness")
    assert same(run, plain)
    assert len(made[0].roles) == 6
    assert set(made[0].roles) == {"players", "tasks"}
    assert not ray.is_initialized()  # the run has ended the Ray that it started
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
