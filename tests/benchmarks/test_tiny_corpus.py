from __future__ import annotations

import numpy as np
import pytest

from benchmarks.tiny import VOCABULARY, batches, encode, rate
from benchmarks.tiny_corpus import CORPORA, base, example, random_trace
from gradus.types import Key


@pytest.mark.parametrize("name", CORPORA)
def test_every_solution_of_one_turn_is_correct_in_both_styles(name: str) -> None:
    for share in CORPORA[name]():
        if share.task.verify is None or share.short is random_trace:
            continue
        for level in share.levels:
            for p in share.task.source.draw(range(50), level, Key(5)):
                rng = Key(5).fold(p.id).random()
                assert [share.task.verify(p, write(p, rng)) for write in (share.short, share.worked)] == [1.0, 1.0], p


def test_what_is_learned_is_what_the_assistant_says() -> None:
    ids, learned = encode((("1+1", "=2"), ("and?", "no")))
    marks = "".join("x" if mark else "." for mark in learned)
    assert [VOCABULARY[i] for i in ids] == [
        *("<|user|>", "1", "+", "1", "<|end|>", "<|assistant|>", "=", "2", "<|end|>"),
        *("<|user|>", "a", "n", "d", "?", "<|end|>", "<|assistant|>", "n", "o", "<|end|>"),
    ]
    assert marks == "......xxx" + ".......xxx"


@pytest.mark.parametrize("name", CORPORA)
def test_every_example_can_be_written_in_the_vocabulary(name: str) -> None:
    made = [example(CORPORA[name](), i, 0.5, Key(0)) for i in range(400)]
    assert len(set(made)) >= 390  # the first levels of some tasks have few problems
    lengths = [len(encode(dialogue)[0]) for dialogue in made]
    assert np.mean(np.array(lengths) <= 256) > 0.99  # longer ones are left out


def test_demonstrations_of_many_turns_are_a_tenth_of_the_examples() -> None:
    made = [example(base(), i, 0.5, Key(0)) for i in range(400)]
    assert sum(len(dialogue) > 1 for dialogue in made) > 10


def test_short_solutions_come_late() -> None:
    early, late = ([example(base(), i, p, Key(0)) for i in range(600)] for p in (0.1, 0.9))
    assert sum(d[0][1].startswith("=") for d in late) > 2 * sum(d[0][1].startswith("=") for d in early)


def test_rows_hold_whole_dialogues_and_none_is_empty(monkeypatch) -> None:
    long = (("x" * 300, "=1"),)
    dialogues = [(("1+1", "=2"),), long, (("y" * 200, "=3"),)]
    monkeypatch.setattr("benchmarks.tiny.example", lambda shares, index, progress, key: dialogues[index % 3])
    ((tokens, document, learned),) = batches((), 1, Key(0))
    # rows of 256: 9 tokens of the first, none of the long one, 206 of the third, 9 of the first again; then there is no room for 206
    assert [(document[0] == n).sum().item() for n in (0, 1, 2, 3)] == [9, 206, 9, 0]
    assert learned[0].sum() == 9
    assert (document[1] == 0).sum() == 206
    assert ((tokens == 0) == (document == -1)).all()


def test_what_goes_on_from_a_step_warms_up_there_and_sees_the_share_of_that_step(monkeypatch) -> None:
    seen: list[float] = []

    def noted(shares, index, progress, key):
        seen.append(progress)
        return (("1+1", "=2"),)

    monkeypatch.setattr("benchmarks.tiny.example", noted)
    assert len(list(batches((), 10, Key(0), begin=8))) == 2
    assert set(seen) == {0.8, 0.9}
    # 1,000 steps: flat until 600, then down to 0; a start at 500 warms up over 50
    assert [rate(n, 1000) for n in (0, 49, 500, 800)] == [0.02, 1.0, 1.0, 0.5]
    assert [rate(n, 1000, 500) for n in (500, 549, 800)] == [0.02, 1.0, 0.5]
