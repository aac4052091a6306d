from __future__ import annotations

from benchmarks.tiny import VOCABULARY, encode
from benchmarks.tiny_corpus import corpus, example, short_share
from gradus.types import Key


def test_every_example_is_correct() -> None:
    shares = {s.task.name: s for s in corpus()}
    for share in shares.values():
        for level in share.levels:
            for p in share.task.source.draw(range(100), level, Key(5)):
                rng = Key(5).fold(p.id).random()
                assert [share.task.verify(p, write(p, rng)) for write in (share.short, share.worked)] == [1.0, 1.0], p


def test_examples_are_made_of_known_characters_and_differ() -> None:
    made = [example(corpus(), i, 0.5, Key(0)) for i in range(300)]
    assert len({p for p, _ in made}) > 250
    for prompt, completion in made:
        ids, start = encode(prompt, completion)
        assert "".join(VOCABULARY[i] for i in ids) == f"<|user|>{prompt}<|end|><|assistant|>{completion}<|end|>"
        assert VOCABULARY[ids[start - 1]] == "<|assistant|>"


def test_short_solutions_come_late() -> None:
    for share in corpus():
        assert short_share(share, 0.1) <= short_share(share, 0.99)
