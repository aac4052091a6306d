import asyncio
import json
import os
import re
import time
from datetime import date
from types import SimpleNamespace

import pytest

from gradus.rewards.functions import Function, LocalFunction, reward_from
from gradus.types import NOT_APPLICABLE, Failed, FailureKind, Problem, UserError
from gradus.workers.pool import pool_of, stop_workers
from tests.rewards.judged import groups, rewards, score, task, trajectory, waiting

pytestmark = pytest.mark.alone

CODE = '''
import asyncio, os, sys, time

calls = 0

def length(completions, **kwargs):
    return [float(len(c)) for c in completions]

def contents(prompts, completions, completion_ids, topic, **kwargs):
    """Chat in, as TRL's examples read it."""
    return [len(p[0]["content"]) + len(c[0]["content"]) + sum(i) + len(t) for p, c, i, t in zip(prompts, completions, completion_ids, topic)]

async def waits(completions, answer, **kwargs):
    await asyncio.sleep(0)
    return [1.0 if c == a else None for c, a in zip(completions, answer)]

def own_loop(completions):
    return asyncio.run(waits(completions, ["x"] * len(completions)))

def prints(completions, **kwargs):
    print('{"outcomes": [99.0]}', flush=True)
    sys.stdout.write("no line end")
    sys.__stdout__.write("}{")
    os.write(1, b"\\xff\\n[1")
    os.system("echo from a child")
    return [float(len(sys.stdin.read()))] * len(completions)

def counts(completions, **kwargs):
    global calls
    calls += 1
    return [calls] * len(completions)

def faults(completions, **kwargs):
    """Does what the first completion says, and counts otherwise."""
    match completions[0]:
        case "raise": raise ValueError("no such\\nword")
        case "exit": sys.exit(4)
        case "os exit": os._exit(3)
        case "kill": os.kill(os.getpid(), 9)
        case "hang": time.sleep(60)
        case "spin":
            while True: pass
        case "fork": os.system("sleep 60")
        case "short": return [1.0]
        case "mixed": return [1.0, float("nan"), "text", None, float("inf"), 2]
    return [float(len(c)) for c in completions]

def step(completions, trainer_state, **kwargs):
    return [trainer_state.global_step] * len(completions)

def big(completions, completion_ids, **kwargs):
    return [float(sum(map(len, completion_ids)))] * len(completions)

number = 5
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rewards") / "mine.py"
    path.write_text(CODE)
    yield str(path)
    stop_workers()


def test_a_plain_function_gets_text(file):
    assert rewards(Function(f"{file}:length"), "", "abc", "é€") == [0.0, 3.0, 2.0]


def test_a_chat_function_gets_messages_columns_and_tokens(file):
    row = [trajectory("abc", tokens=[5, 6], topic="to"), trajectory("", tokens=[1], topic="topic")]
    # len("ask") + len("abc") + 5 + 6 + len("to") = 3 + 3 + 11 + 2; 3 + 0 + 1 + 5
    assert [j.reward for (j,) in score(Function(f"{file}:contents"), row[:1], row[1:])] == [19.0, 9.0]


def test_an_async_function_and_none_as_not_applicable(file):
    assert rewards(Function(f"{file}:waits"), "x", "y", answer="x") == [1.0, NOT_APPLICABLE]


def test_a_function_may_run_a_loop_of_its_own(file):
    assert rewards(Function(f"{file}:own_loop"), "x", "y") == [1.0, NOT_APPLICABLE]


def test_what_a_function_prints_or_reads_leaves_the_protocol_alone(file):
    assert rewards(Function(f"{file}:prints"), "a", "b") == [0.0, 0.0]  # its standard input was empty


def test_the_step_is_told(file):
    assert score(Function(f"{file}:step"), [trajectory()], step=7)[0][0].reward == 7.0


def test_judgements_go_back_to_their_groups_under_the_function_s_name(file):
    judged = score(Function(f"{file}:length"), [trajectory("a", plain=True)] * 2, [], [trajectory("abc", plain=True)])
    assert [[j.components["length"] for j in row] for row in judged] == [[1.0, 1.0], [], [3.0]]


def test_the_process_is_kept_between_calls_and_event_loops(file):
    reward = Function(f"{file}:counts")
    assert [rewards(reward, "a"), rewards(reward, "b", "c"), rewards(Function(f"{file}:counts", 5.0), "d")] == [[1.0], [2.0, 2.0], [3.0]]


@pytest.mark.parametrize(
    ("what", "kind", "reason"),
    [
        ("raise", "raised", r"raised ValueError: no such word \(mine.py, line 36\)"),
        ("exit", "raised", r"raised SystemExit: 4 \(mine.py, line 37\)"),
        ("os exit", "died", "ended with exit code 3"),
        ("kill", "died", "was killed by SIGKILL"),
        ("hang", "timed out", "did not answer within 1 seconds, the limit that --reward.timeout sets"),
        ("spin", "timed out", "did not answer within 1 seconds, the limit that --reward.timeout sets"),
        ("fork", "timed out", "did not answer within 1 seconds, the limit that --reward.timeout sets"),
        ("short", "invalid", "returned 1 rewards for 3 completions"),
    ],
)
def test_an_answer_on_which_a_call_goes_wrong_has_failed_and_the_others_are_judged_together(file, what, kind, reason):
    reward = Function(f"{file}:faults", timeout=1.0 if kind == "timed out" else 60.0, retries=0)  # in which the others answer
    first, *others = rewards(reward, what, "a", "bc")
    if what == "short":  # one value is right for one answer, so nobody is to blame
        assert [first, *others] == [
            Failed(f"{reason}, in a call with 3 answers at once, but in calls about one answer each it did not fail")
        ] * 3
    else:
        assert (first.kind, bool(re.fullmatch(reason, first.reason))) == (FailureKind(kind), True)
        assert others == [1.0, 2.0]
    assert rewards(reward, "fine", "fine") == [4.0, 4.0]


def test_a_function_that_compares_sees_together_what_is_left(tmp_path):
    path = tmp_path / "ranks.py"
    path.write_text(
        "def best(completions):\n    values = [float(c) for c in completions]\n    return [float(v == max(values)) for v in values]\n"
    )
    bad = Failed("raised ValueError: could not convert string to float: 'x' (ranks.py, line 2)", FailureKind.RAISED)
    assert rewards(Function(f"{path}:best"), "1", "x", "3", "2") == [0.0, bad, 1.0, 0.0]
    assert rewards(Function(f"{path}:best", batch=1), "1", "x", "3", "2") == [1.0, bad, 1.0, 1.0]  # each is the best of itself
    assert rewards(Function(f"{path}:best"), "x", "y") == [bad, bad]  # where all fail, for the reason that they had together


def test_single_bad_values_fail_alone(file):
    assert rewards(Function(f"{file}:faults"), "mixed", *"abcde") == [
        1.0,
        Failed("returned nan"),
        Failed("returned the text 'text' instead of a number"),
        NOT_APPLICABLE,
        Failed("returned inf"),
        2.0,
    ]


def test_a_call_larger_than_a_pipe(file):
    tokens = list(range(200_000))
    found = score(Function(f"{file}:big"), [trajectory(tokens=tokens), trajectory(tokens=tokens)])
    assert [j.reward for j in found[0]] == [400_000.0, 400_000.0]


def test_several_functions_are_asked_at_the_same_time(file):
    both = Function(f"{file}:length") + Function(f"{file}:counts")
    judged = score(both, [trajectory("abc", plain=True)])[0][0]
    assert judged.components["length"] == 3.0
    assert judged.reward == 3.0 + judged.components["counts"]


def test_a_cancelled_call_kills_its_worker(file):
    reward = Function(f"{file}:faults", timeout=60.0)
    pool_of(reward.path).greeting(reward.limits)
    world = SimpleNamespace(step=0, steps=9, call=str, fact={}.get, waiting=waiting)

    async def cancelled():
        call = asyncio.create_task(reward.score(groups([trajectory("hang", plain=True)]), {}, world))
        while pool_of(reward.path).longest() is None:  # until it is under way
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())  # would wait for the thread, a minute long
    assert isinstance(rewards(reward, "fine")[0], float)


@pytest.mark.parametrize(
    ("code", "name", "sentence"),
    [
        ("def score(): pass", "scor", r'unknown reward function "scor" \(did you mean score\?\)'),
        ("def f(:\n", "f", "bad.py, line 1: "),
        (
            "import nothing_of_this_name\ndef f(): pass",
            "f",
            r"ModuleNotFoundError: No module named 'nothing_of_this_name' \(bad.py, line 1\)",
        ),
        ("import os; os._exit(5)", "f", "could not be loaded: its process ended with exit code 5"),
        ("f = 5", "f", "is of type int; it must be a function"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_a_sentence_before_training(tmp_path, code, name, sentence):
    (tmp_path / "bad.py").write_text(code)
    with pytest.raises(UserError, match=sentence):
        Function(f"{tmp_path}/bad.py:{name}").check(task(Problem("p/0", "p")))


def test_a_missing_file_and_a_missing_column_are_sentences(file, tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        Function(f"{tmp_path}/absent.py:f").check(task(Problem("p/0", "p")))
    with pytest.raises(UserError, match=r'contents needs "topic", but the data have no such column \(columns: answer\)'):
        Function(f"{file}:contents").check(task(Problem("p/0", "p", answer=1)))
    Function(f"{file}:contents").check(task(Problem("p/0", "p", meta={"topic": "x"})))
    for timeout in (0.0, -1.0, float("nan")):
        with pytest.raises(UserError, match="give the longest time of a call in seconds, above"):
            Function(f"{file}:length", timeout)
    with pytest.raises(UserError, match="give the largest memory of a process in GiB, or 0 for no limit"):
        Function(f"{file}:length", memory=-1.0)
    with pytest.raises(UserError, match="batch is 0; it must be 1 or more"):
        Function(f"{file}:length", batch=0)


def test_a_local_function_that_hangs_has_failed_and_that_is_a_fact():
    def sleeps(completions):
        time.sleep(30)

    async def waits(completions):
        await asyncio.sleep(30)

    for function in (sleeps, waits):
        facts: dict[str, str] = {}
        ((first,),) = score(LocalFunction(function, timeout=0.1), [trajectory("a", plain=True)], facts=facts)
        assert first.reward == Failed("did not answer within 0.1 seconds, the limit that --reward.timeout sets", FailureKind.TIMEOUT)
        assert facts == {function.__name__: "timed out: did not answer within 0.1 seconds, the limit that --reward.timeout sets"}
        ((again,),) = score(LocalFunction(function, timeout=9.0), [trajectory("a", plain=True)], facts=facts)
        assert again.reward == first.reward


def test_columns_go_through_json_or_are_named(file):
    (row,) = score(Function(f"{file}:contents"), [trajectory("", topic=date(2024, 1, 2))])
    assert row[0].reward == 3 + len("2024-01-02")
    with pytest.raises(UserError, match="a column contains values of type bytes, which cannot be sent to the process of a reward function"):
        score(Function(f"{file}:length"), [trajectory("", picture=b"x")])


def test_functions_from_python(file):
    def local(completions, **kwargs):
        return [len(c) / 2 for c in completions]

    async def later(completions):
        await asyncio.sleep(0)
        return [None for _ in completions]

    def loops(completions):
        return asyncio.run(later(completions))

    def breaks(completions, **kwargs):
        return [1 / 0]

    assert rewards(reward_from(local), "ab", "c") == [1.0, 0.5]
    assert rewards(reward_from(later), "ab") == [NOT_APPLICABLE]
    assert rewards(reward_from(loops), "ab") == [NOT_APPLICABLE]
    (failed,) = rewards(reward_from(breaks), "ab")
    assert failed.reason.startswith("raised ZeroDivisionError: division by zero (test_functions.py, line ")
    assert LocalFunction(local).name == "local"
    with pytest.raises(UserError, match='needs "gold"'):
        LocalFunction(lambda gold: None).check(task(Problem("p/0", "p")))


def test_where_a_function_runs(file, tmp_path, monkeypatch):
    (tmp_path / "rewards_of_a_script.py").write_text(
        "def f(completions, **kwargs):\n    import os\n    return [float(os.getpid())] * len(completions)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import rewards_of_a_script

    reward = reward_from(rewards_of_a_script.f, timeout=9.0)
    assert reward == Function(f"{tmp_path}/rewards_of_a_script.py:f", 9.0)
    assert rewards(reward, "a")[0] not in (os.getpid(), *rewards(LocalFunction(rewards_of_a_script.f), "a"))
    assert isinstance(reward_from(lambda **kwargs: [1.0]), LocalFunction)
    assert isinstance(reward_from(json.dumps), LocalFunction)  # in a package: its file alone may lack its neighbours
    assert reward_from(f"{file}:length") == Function(f"{file}:length")
    assert reward_from(reward) is reward
    with pytest.raises(UserError, match=r"must be FILE.py:FUNCTION, a function, a reward or a"):
        reward_from(5)


def test_whatever_a_local_function_raises_or_gives_it_has_failed():
    def leaves(completions):
        raise SystemExit(3)

    async def cancels(completions):
        raise asyncio.CancelledError

    class Hostile:
        def __float__(self):
            raise SystemExit(4)

    for function, reason in [
        (leaves, "raised SystemExit: 3"),
        (cancels, "raised CancelledError"),
        (lambda completions: [Hostile()], "raised SystemExit: 4"),
    ]:
        (failed,) = rewards(LocalFunction(function), "a")
        assert failed.reason.startswith(f"{reason} (test_functions.py, line ")


def test_a_local_function_changes_neither_the_problem_nor_the_folder_that_the_run_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def spoils(prompts, completions, answer):
        os.chdir("/")
        prompts[0][0]["content"] = answer[0][0] = "spoilt"
        return [1.0]

    asked = trajectory("a", answer=["right"])
    assert [j.reward for (j,) in score(LocalFunction(spoils), [asked])] == [1.0]
    assert (asked.problem.messages[0]["content"], asked.problem.answer, os.getcwd()) == ("ask", ["right"], str(tmp_path))


def test_a_call_that_begins_while_another_is_elsewhere_does_not_take_that_for_the_run_s_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    away = tmp_path / "away"
    away.mkdir()

    async def leaves(completions):
        os.chdir(away)
        await asyncio.sleep(0.05)
        away.rmdir()
        return [1.0]

    async def stays(completions):
        await asyncio.sleep(0.1)
        return [2.0]

    assert rewards(LocalFunction(leaves) + LocalFunction(stays), "a") == [3.0]
    assert os.getcwd() == str(tmp_path)


def test_what_the_clock_decided_is_obeyed(tmp_path):
    """A call that was too slow is a fact: done again with time enough, it fails for the same reason; another call is asked."""
    path = tmp_path / "slow.py"
    quick = tmp_path / "quick"
    hangs = f"while not pathlib.Path({str(quick)!r}).exists(): time.sleep(0.01)"
    path.write_text(f"import pathlib, time\ndef reward(completions, **kwargs):\n    {hangs}\n    return [1.0] * len(completions)\n")
    facts: dict[str, str] = {}
    rows = [[trajectory("a", plain=True), trajectory("b", plain=True)]]
    ((first, _),) = score(Function(f"{path}:reward", timeout=0.2, retries=0), *rows, facts=facts)
    assert first.reward == Failed("did not answer within 0.2 seconds, the limit that --reward.timeout sets", FailureKind.TIMEOUT)
    assert list(facts) == ["reward/0", "reward/0/0", "reward/0/1"]  # asked together, then alone
    assert set(facts.values()) == {"timed out: did not answer within 0.2 seconds, the limit that --reward.timeout sets"}
    quick.touch()
    ((again, _),) = score(Function(f"{path}:reward", timeout=60), *rows, facts=facts)
    assert again.reward == first.reward
    ((other, _),) = score(Function(f"{path}:reward", timeout=60), *rows)
    assert other.reward == 1.0
