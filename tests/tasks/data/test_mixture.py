import json
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.tasks.data.loaders import load_task_file
from gradus.tasks.data.mixture import Mixture, mix_tasks, split_weights, whole
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.puzzles.countdown import countdown
from gradus.types import NOT_APPLICABLE, Frozen, Key, Problem, Sampling, UserError
from gradus.types.parts import Task
from gradus.types.spaces import Box, Choice, Text


@dataclass(frozen=True)
class Numbers:
    """Problem i asks for i, and tells level and key."""

    name: str
    size: int | None = None

    def draw(self, indices, level, key):
        assert all(self.size is None or i < self.size for i in indices)
        return [
            Problem(f"{self.name}/{i}", self.name, ({"role": "user", "content": str(i)},), answer=(i, level, key.value)) for i in indices
        ]


def task(name, size=None, held=None, **more):
    return Task(name, Numbers(name, size), Numbers(name, held), verify=lambda problem, text: float(text == name), **more)


def mixed(*parts):
    return mix_tasks([(t.name, t, w) for t, w in parts])


def numbers(problems, name):
    return [p.answer[0] for p in problems if p.task == name]


def test_weights_are_read():
    assert split_weights("a:3,b:1") == [("a", 3), ("b", 1)]
    assert split_weights("a, file.py:task:0.5") == [("a", 1), ("file.py:task", Fraction(1, 2))]
    assert split_weights("a:2") == [("a", 2)]
    assert split_weights("a") == []
    assert split_weights("file.py:task") == []
    for text in ("0", "-1", "nan", "inf", "1e300"):
        with pytest.raises(UserError, match="the weight of a is"):
            split_weights(f"a:{text},b")


def test_whole_weights():
    assert whole([Fraction("0.7"), Fraction("0.3")]) == [7, 3]
    assert whole([Fraction(6), Fraction(2)]) == [3, 1]
    assert whole([Fraction(1, 3), Fraction(1)]) == [333, 1000]
    assert whole([Fraction(1, 10**9), Fraction(1)]) == [1, 1000]


def test_every_block_holds_the_exact_shares_and_no_problem_is_skipped():
    mixture = mixed((task("a"), 3), (task("b"), 1))
    assert mixture.source.size is None
    problems = mixture.source.draw(range(40), None, Key(1))
    for block in range(10):
        assert Counter(p.task for p in problems[4 * block : 4 * block + 4]) == {"a": 3, "b": 1}
    assert numbers(problems, "a") == list(range(30))
    assert numbers(problems, "b") == list(range(10))
    order = "".join(p.task for p in problems)
    assert len({order[4 * block : 4 * block + 4] for block in range(10)}) > 1  # each block has an order of its own


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30))
def test_a_problem_depends_on_its_index_alone(indices):
    source = mixed((task("a", 7), 2), (task("b"), 3)).source
    together = source.draw(indices, None, Key(3))
    assert together == [source.draw([i], None, Key(3))[0] for i in indices]


def test_a_finite_source_begins_again_in_another_order():
    source = mixed((task("a", 20), 1), (task("b"), 1)).source
    drawn = numbers(source.draw(range(80), None, Key(1)), "a")
    assert drawn[:20] == list(range(20))
    assert sorted(drawn[20:]) == list(range(20))
    assert drawn[20:] != drawn[:20]
    assert numbers(source.draw(range(80), None, Key(2)), "a")[20:] != drawn[20:]


@pytest.mark.parametrize(
    ("sizes", "weights"), [((6, 2), (3, 1)), ((5, 100), (1, 1)), ((3, 50), (7, 3)), ((1, 1), (9, 1)), ((20, None), (1, 2))]
)
def test_held_out_problems_come_once(sizes, weights):
    mixture = mixed(*((task(n, held=s), w) for n, s, w in zip("ab", sizes, weights, strict=True))).held_out
    problems = mixture.draw(range(mixture.size), None, Key())
    assert len({p.id for p in problems}) == len(problems) > 0
    _, following = mixture.place(mixture.size)  # the next one would be a repetition
    assert following in [s for s in sizes if s is not None]


def test_a_held_out_mixture_of_endless_sources_has_no_end():
    assert mixed((task("a"), 1), (task("b"), 1)).held_out.size is None


def test_verifier_ids_levels_and_systems_are_each_task_s_own():
    mixture = mixed((task("a", level=2, system="Be a."), 1), (task("b", level=5), 1))
    problems = {p.task: p for p in mixture.source.draw([0, 1], None, Key(4))}
    assert {n: p.answer for n, p in problems.items()} == {"a": (0, 2, 4), "b": (0, 5, 4)}
    assert [p.answer[1] for p in mixture.source.draw([0, 1], 9, Key())] == [9, 9]
    assert [m["role"] for m in problems["a"].messages] == ["system", "user"]
    assert [m["role"] for m in problems["b"].messages] == ["user"]
    assert mixture.verify(problems["a"], "a") == 1.0
    assert mixture.verify(problems["b"], "a") == 0.0


def test_a_system_message_of_one_task_makes_its_texts_chat(tmp_path):
    (tmp_path / "d.jsonl").write_text("".join(json.dumps({"prompt": f"say {n}", "answer": n}) + "\n" for n in range(9)))
    file = load_task_file(tmp_path / "d.jsonl")
    told = replace(load_task_file(tmp_path / "d.jsonl", name="told"), system="Be short.")
    problems = {p.task: p for p in mixed((file, 1), (told, 1)).source.draw([0, 1], None, Key())}
    assert problems["d"].text.startswith("say ")
    assert problems["d"].messages == ()
    assert problems["told"].text is None
    assert [m["role"] for m in problems["told"].messages] == ["system", "user"]


def test_a_task_without_verifier_is_not_applicable():
    silent = Task("silent", Numbers("silent"), Numbers("silent"))
    mixture = mixed((task("a"), 1), (silent, 1))
    assert mixture.verify(Problem("x", "silent"), "a") is NOT_APPLICABLE
    assert mixed((silent, 1), (Task("s2", Numbers("s2"), Numbers("s2")), 1)).verify is None


def test_what_the_whole_provides():
    one = task("a", provides=frozenset({"hints", "solution"}), chance=0.5, sampling=Sampling(max_tokens=10, stops=("\n", "#")))
    two = task("b", provides=frozenset({"solution"}), chance=0.1, sampling=Sampling(max_tokens=30, stops=("#",)))
    mixture = mixed((one, 3), (two, 1))
    assert mixture.provides == {"solution"}
    assert mixture.chance == pytest.approx(0.4)  # (3 * 0.5 + 1 * 0.1) / 4
    assert mixture.sampling == Sampling(max_tokens=30, stops=("#",))
    assert mixture.name == "a:3,b:1"


@dataclass(frozen=True)
class Game:
    name: str

    def start(self, problem, key, world):
        return (self.name, problem.id)


def test_environments_are_chosen_by_problem_and_not_mixed_with_one_turn_tasks():
    mixture = mixed((task("a", environment=Game("a")), 1), (task("b", environment=Game("b")), 1))
    assert mixture.environment.start(Problem("b/1", "b"), Key(), None) == ("b", "b/1")
    with pytest.raises(UserError, match="a is played in an environment, but b is answered in one turn"):
        mixed((task("a", environment=Game("a")), 1), (task("b"), 1))
    with pytest.raises(UserError, match=r"a and b are for different policies .* b shows text and accepts 1 numbers"):
        mixed((task("a"), 1), (task("b", acts=Box((0.0,), (1.0,))), 1))


@dataclass(frozen=True)
class Moves(Game):
    acts: Any = Choice(("up", "down"))


def test_names_and_text_mix_and_make_text():
    same = mixed((task("a", environment=Moves("a")), 1), (task("b", environment=Moves("b")), 1))
    assert same.acting == Choice(("up", "down"))
    other = mixed((task("a", environment=Moves("a")), 1), (task("b", environment=Game("b")), 1))
    assert other.acting == Text()
    assert other.showing == {"text"}


def test_mixtures_are_equal_by_content():
    a, b = Task("a", Numbers("a"), Numbers("a")), Task("b", Numbers("b"), Numbers("b"))
    assert mixed((a, 1), (b, 2)) == mixed((a, 1), (b, 2))
    assert Mixture(Frozen(a=a, b=b), (1, 2), False, True) == mixed((a, 1), (b, 2)).source


def test_arms_are_those_of_its_tasks():
    mixed = mix_tasks([("countdown", countdown(), 1), ("arithmetic", arithmetic(), 1)])
    assert mixed.source.arms[0] == "countdown/1"
    assert mixed.source.arms[-1] == "arithmetic/8"
    (problem,) = mixed.source.draw_arm("arithmetic/2", [3], None, Key(1))
    assert (problem.task, problem.meta["arm"], problem.meta["difficulty"]) == ("arithmetic", "arithmetic/2", 2)
    assert problem.id == mixed.source.draw_arm("arithmetic/2", [3], None, Key(1))[0].id
    with pytest.raises(UserError, match="unknown arm"):
        mixed.source.draw_arm("sorting/1", [0], None, Key())
