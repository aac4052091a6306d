"""Work shared among processes comes to what one of them would have done, to the bit; and what goes wrong is told."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from gradus import api
from gradus.recipe.registry import recipe
from gradus.runtime import memory
from gradus.systems import leader
from gradus.systems.leader import Crew, Led, begin, device_of, memory_of, shared, under_torchrun
from gradus.training.launch import go
from gradus.types import Key, UserError
from gradus.types.signals import LogProb
from gradus.updates.forward_backward import carry, passes
from tests.small_model import save_small_model
from tests.systems.near import Near

pytestmark = pytest.mark.alone

SMALL = {"prompts": 3, "group": 2, "max_tokens": 6, "micro_tokens": 24, "save_every": 1, "eval_every": 0, "keep": 10}


REWARD = """
def told_apart(completion_ids, **columns):
    return [sum(ids) % 7 / 6 for ids in completion_ids]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random model, and beside it a reward that tells its answers apart."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "reward.py").write_text(REWARD)
    return str(save_small_model(folder / "model"))


def reward_of(model):
    return f"{Path(model).parent / 'reward.py'}:told_apart"


def plan(key, model):
    task = {"gigpo": "frozen_lake", "flow_grpo": "flow_2d", "awm": "flow_2d"}.get(key)
    words = {} if task else {"reward": reward_of(model)}
    planned = api.plan(key, task, model=None if task == "flow_2d" else model, steps=2, **words)
    setting = {**SMALL, **({"micro_tokens": 4} if task == "flow_2d" else {})}  # several micro-batches
    short = {"update__iterations": 2} if key == "trpo" else {}
    return api.replace(planned, recipe=planned.recipe.but(**{f"setting__{n}": v for n, v in setting.items()}, study=None, **short))


def same_run(a: Path, b: Path) -> None:
    """Every byte of what two runs have kept, apart from what the clock says and where they stand."""
    names = [sorted(str(p.relative_to(f)) for p in f.rglob("*") if p.is_file()) for f in (a, b)]
    assert names[0] == names[1]
    assert len(names[0]) > 8
    for name in names[0]:
        if Path(name).name not in ("timings.jsonl", "workers.jsonl", "status.json", "provenance.json", "report.html", ".lock"):
            assert (a / name).read_bytes() == (b / name).read_bytes(), name


def led(run, count):
    """The run with so many further processes, none of which is one."""
    crew = Crew({rank: Near() for rank in range(1, count + 1)})
    begin(run.players, run.recipe, run.task, run_model(run), run.seed, "cpu", crew)
    return crew


def run_model(run):
    folder = getattr(run.players["policy"].policy, "folder", None)
    return folder.source if folder is not None else None


# a policy alone; one with a critic of its own; one behind its own updates, several moves a step; pairs; noise steps; finished samples; turns
@pytest.mark.parametrize("key", ["grpo", "ppo", "m2po", "dpo", "trpo", "prime", "flow_grpo", "awm", "gigpo"])
def test_a_run_is_that_of_one_process_to_the_byte(key, model, tmp_path):
    planned = plan(key, model)
    go(api.start(planned, tmp_path / "one"))
    run = api.start(planned, tmp_path / "three")
    crew = led(run, 2)
    go(run)
    same_run(tmp_path / "one", tmp_path / "three")
    assert all(row["grad_norm"] > 0 for row in run.metrics)
    done = {what for channel in crew.channels.values() for what in channel.asked}
    assert {"begin", "weights", "open", "carry"} <= done
    assert not crew.owed


def small_run(model):
    run = api.start(plan("grpo", model))
    contexts = run.players["policy"].policy.act([asked(run, i) for i in range(6)])
    return run, contexts


def asked(run, sample):
    from gradus.systems.messages import Errand
    from gradus.types import Sampling, prompt_context

    prompt = prompt_context([10, 11, 12])
    return Errand(prompt, 3, Sampling(max_tokens=5), Key(9).fold(sample))


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.players["policy"].policy.network.parameters()])


def test_what_is_written_to_weights_is_seen_by_the_others(model):
    run, contexts = small_run(model)
    crew, player = led(run, 1), run.players["policy"]
    worker = crew.channels[1].worker

    def look():
        list(passes(player.policy, contexts, (LogProb(),), 8, Key()))
        theirs = torch.cat([p.detach().flatten() for p in worker.policies["policy"].network.parameters()])
        assert torch.equal(theirs, weights(run))
        return crew.channels[1].asked.count("weights")

    first = look()
    assert look() == first  # nothing has changed, nothing is sent
    with torch.no_grad():  # by hand
        next(player.policy.network.parameters()).add_(0.01)
    second = look()
    assert second > first
    carry(player.policy, contexts, (LogProb(),), 8, Key(), lambda chosen, rows: {LogProb(): torch.ones_like(rows[LogProb()])})
    before = weights(run)
    player.move(0)  # by the fused optimiser
    assert not torch.equal(weights(run), before)
    assert look() > second


def test_where_it_breaks_off_no_answer_is_left_behind(model):
    run, contexts = small_run(model)
    crew, policy = led(run, 2), run.players["policy"].policy
    expected = [rows[LogProb()].clone() for _, rows in passes(policy, contexts, (LogProb(),), 8, Key())]

    def refuse(chosen, rows):
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        carry(policy, contexts, (LogProb(),), 8, Key(), refuse)
    assert not crew.owed
    assert not any(channel.answers for channel in crew.channels.values())
    next(passes(policy, contexts, (LogProb(),), 8, Key()))  # begun and let go
    again = [rows[LogProb()] for _, rows in passes(policy, contexts, (LogProb(),), 8, Key())]
    assert all(torch.equal(a, b) for a, b in zip(expected, again, strict=True))


def test_what_goes_wrong_elsewhere_is_raised_here(model, monkeypatch):
    run, contexts = small_run(model)
    crew, policy = led(run, 1), run.players["policy"].policy
    wrong = [
        (UserError("fix it"), UserError, "^fix it"),
        (MemoryError("none left"), MemoryError, "none left"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), RuntimeError, "in process 1.*can't allocate memory"),
        (KeyError("x"), RuntimeError, "KeyError in process 1"),
    ]
    for error, kind, text in wrong:

        def fail(*given, error=error, **more):
            raise error

        monkeypatch.setattr(type(crew.channels[1].worker.policies["policy"]), "evaluate", fail)
        with pytest.raises(kind, match=text):
            list(passes(Only(policy), contexts, (LogProb(),), 8, Key()))
        assert not crew.owed


class Only:
    """A policy whose own share is done without the network."""

    def __init__(self, policy):
        self._led = policy

    def passes(self, contexts, wants, micro_tokens, key):
        crew = self._led._crew
        with crew.round():
            self._led._ask(crew, "rows", contexts, [[0], [1]], wants, key)
            yield [1], crew.answer(1)


def test_memory_that_runs_out_elsewhere_makes_all_micro_batches_smaller(model, monkeypatch):
    from gradus.runtime.memory import fitting

    run, contexts = small_run(model)
    crew, player = led(run, 1), run.players["policy"]
    whole = [c for c, _ in passes(player.policy, contexts, (LogProb(),), player.micro_tokens, Key())]
    theirs = crew.channels[1].worker.policies["policy"]
    real = type(theirs).evaluate

    def greedy(policy, contexts, wants, key=None):
        if policy is theirs and len(contexts) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return real(policy, contexts, wants, key)

    monkeypatch.setattr(type(theirs), "evaluate", greedy)
    found = fitting(player, contexts, lambda tokens: [c for c, _ in passes(player.policy, contexts, (LogProb(),), tokens, Key())], None)
    assert len(found) > len(whole)
    assert sorted(i for chosen in found for i in chosen) == list(range(len(contexts)))


def test_a_process_that_is_gone_is_named(model):
    run, contexts = small_run(model)
    crew, policy = led(run, 2), run.players["policy"].policy
    crew.channels[2].broken = True
    with pytest.raises(UserError, match=r"process 2 of 3 has ended.*gradus resume"):
        list(passes(policy, contexts, (LogProb(),), 8, Key()))
    crew.close()  # nobody is waited for


def test_a_led_policy_is_the_policy_in_all_else(model):
    run, _ = small_run(model)
    own = run.players["policy"].policy
    led(run, 1)
    policy = run.players["policy"].policy
    assert isinstance(policy, Led)
    assert policy.network is own.network
    assert policy.can == own.can
    with pytest.raises(AttributeError, match="nonsense"):
        _ = policy.nonsense


def test_few_samples_are_drawn_by_one(model):
    run, _ = small_run(model)
    crew = led(run, 2)
    for count, shared_out in ((5, False), (6, True)):
        before = crew.channels[1].asked.count("sample")
        found = run.players["policy"].policy.act([asked(run, i) for i in range(count)])
        assert (crew.channels[1].asked.count("sample") > before) == shared_out
        assert len(found) == count


@pytest.mark.parametrize(
    ("device", "rank", "count", "expected"),
    [("cpu", 1, 0, "cpu"), ("cuda", 1, 2, "cuda:1"), ("cuda:1", 2, 4, "cuda:3"), ("mps", 1, 0, "mps")],
)
def test_every_process_has_a_device_of_its_own(device, rank, count, expected):
    assert device_of(device, rank, count) == expected


def test_too_few_devices_are_refused():
    with pytest.raises(UserError, match="one GPU per process, but the number of GPUs is 1; give fewer --processes"):
        device_of("cuda", 1, 1)


def test_the_share_of_memory(monkeypatch):
    setting = recipe("grpo").setting
    monkeypatch.setattr(leader, "free_memory", lambda: 1000)
    assert memory_of(setting, "cpu", 2) == 475  # 95 % of 1000, by two
    assert memory_of(api.replace(setting, memory="6kB"), "cpu", 2) == 6000
    assert memory_of(setting, "cuda", 2) is None


def test_who_was_started_by_torchrun():
    assert under_torchrun({}) is None
    assert under_torchrun({"RANK": "1", "WORLD_SIZE": "2"}) is None  # some other launcher
    assert under_torchrun({"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2"}) == (1, 2)
    assert under_torchrun({"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "1"}) is None


def test_numbers_of_processes_that_make_no_sense(model, monkeypatch):
    run, _ = small_run(model)
    with pytest.raises(UserError, match="--processes is 0"), shared(run, model, "cpu", 0):
        pass
    for name, value in (("TORCHELASTIC_RUN_ID", "x"), ("RANK", "0"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="torchrun has started 2"), shared(run, model, "cpu", 3):
        pass


# real processes


def test_a_process_that_was_killed_ends_the_run_with_a_sentence_and_others_go_on_from_there(model, tmp_path):
    def kill(run, row, groups):
        (child,) = run.players["policy"].policy._crew.children.values()
        os.kill(child.pid, signal.SIGKILL)

    planned = plan("ppo", model)
    with pytest.raises(UserError, match=r"process 1 of 2 has ended \(killed by signal 9\).*gradus resume"):
        api.launch(api.replace(planned, processes=2), tmp_path / "killed", on_step=kill)
    api.resume(tmp_path / "killed")
    api.launch(planned, tmp_path / "one")
    same_run(tmp_path / "killed", tmp_path / "one")


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="a process that does not go on needs a signal that stops it")
def test_a_process_that_does_not_answer_ends_the_run_with_a_report(model, tmp_path, monkeypatch):
    """It lives and gives nothing: the run names it after `max_wait`, and leaves nobody behind. Till then the first has its part of the memory."""
    children, bounds = [], []
    monkeypatch.setattr(leader, "free_memory", lambda: 8_000_000_000)

    def stop(run, row, groups):
        bounds.append((bound(), memory.status("VmData")))
        children.extend(run.players["policy"].policy._crew.children.values())
        os.kill(children[0].pid, signal.SIGSTOP)

    planned = plan("grpo", model)
    planned = api.replace(planned, processes=2, recipe=planned.recipe.but(setting__max_wait=4.0))
    with pytest.raises(
        UserError, match=r"no progress for \d+s, so the run ends; it waited for: process 1 of 2, for \d+s \(\w+ of policy\)"
    ):
        api.launch(planned, tmp_path / "run", on_step=stop)
    assert all(child.returncode is not None for child in children)
    if sys.platform == "linux":
        (now, used), after = bounds[0], bound()
        assert now <= used + 3_800_000_000  # 95 % of 8 GB, by two
        assert after > now or after == -1  # gone with the run


def bound():
    """Bytes of private memory that this process may take, -1 for any number."""
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def test_an_interrupt_is_heard_while_others_are_waited_for(model):
    run, contexts = small_run(model)
    crew, policy = led(run, 1), run.players["policy"].policy
    never = threading.Event()

    def silent():
        threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()
        never.wait()

    crew.channels[1].receive = silent
    with pytest.raises(KeyboardInterrupt):
        list(passes(policy, contexts, (LogProb(),), 8, Key()))
    assert crew.lost  # nobody is asked again, and nobody waited for
    never.set()


def test_the_others_end_with_the_leading_process():
    code = """
import sys, time
from contextlib import ExitStack
from gradus.systems import leader
from gradus.systems.leader import _started
with ExitStack() as stack:
    crew = _started(stack, 2)
    print(crew.children[1].pid, flush=True)
    time.sleep(600)
"""
    leader = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    child = int(next(line for line in leader.stdout if line.strip().isdigit()))
    os.kill(leader.pid, signal.SIGKILL)
    leader.wait()
    for _ in range(600):
        if not alive(child):
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("it is still there")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_torchrun_starts_the_same_run(model, tmp_path):
    planned = plan("grpo", model)
    api.launch(planned, tmp_path / "one")
    fields = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "--",
        "gradus",
        "train",
        "grpo",
    ]
    command += ["--model", model, "--steps", "2", "--study", "none", "--run", str(tmp_path / "two"), "--reward", reward_of(model), *fields]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in ("metrics.jsonl", "checkpoints/step-000002/player-policy.safetensors", "rollouts/step-000001.arrow"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
