import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.cli.main import main
from gradus.study.leakage import Check, as_json, grams, leakage, of_task, problems_of, prompt, table, tokens
from gradus.training.plan import load_task
from gradus.types import Key, Problem, UserError

STORY = "A farmer has twelve cows and sells three of them on Monday, then buys five goats and two hens; how many animals are there now on the farm?"


def problem(text, name="p"):
    return Problem(name, "t", messages=({"role": "user", "content": text},), plain=True)


def problems(*texts):
    return [problem(text, f"p{n}") for n, text in enumerate(texts)]


def test_signs_and_decimals_tell_prompts_apart_and_punctuation_does_not():
    assert tokens("What is 3 - 4?") == tokens("what  is 3 -4") == ["what", "is", "3", "-", "4"]
    assert tokens("3 + 4") != tokens("3 - 4")
    assert tokens("1.5") != tokens("15")
    assert tokens("ﬁve") == ["five"]


def test_the_same_prompt_in_other_spelling_is_found():
    found = leakage(problems("other words", STORY.upper().replace(" ", "  ")), [problem(STORY), problem("What is two plus two?")])
    (leak,) = found.leaks
    assert (leak.training.id, leak.exact, leak.share) == ("p1", True, 1.0)
    assert (found.training, found.held_out, found.exact, found.share) == (2, 2, 1, 0.5)


def test_the_share_is_that_of_the_n_grams_in_one_prompt():
    """28 words, so 21 eights; changing the last word takes the last eight of them away: 20 / 21. Changing the 15th takes 8: 13 / 21."""
    words = tokens(STORY)
    assert len(words) == 28
    last, middle = [*words[:-1], "total"], [*words[:14], "six", *words[15:]]
    (leak,) = leakage([problem(" ".join(last))], [problem(STORY)]).leaks
    assert leak.share == pytest.approx(20 / 21)
    assert not leak.exact
    assert leakage([problem(" ".join(middle))], [problem(STORY)]).leaks == ()  # 13 / 21 is below 0.7
    (leak,) = leakage([problem(" ".join(middle))], [problem(STORY)], Check(least=0.6)).leaks
    assert leak.share == pytest.approx(13 / 21)


def test_shares_of_several_prompts_do_not_add_up():
    words = tokens(STORY)
    halves = problems(" ".join(words[:16]), " ".join(words[13:]))  # each holds 9 and 8 of the 21
    assert leakage(halves, [problem(STORY)]).leaks == ()


def test_short_prompts_are_compared_by_characters():
    assert len(grams(tokens("abcdefghij"), 8)) == 3
    assert grams(["ab"], 8) == {"ab"}
    (leak,) = leakage([problem("the capital of France, please")], [problem("The capital of France")]).leaks
    assert leak.share == 1.0
    assert not leak.exact


def test_a_short_prompt_with_other_numbers_is_another_problem():
    assert leakage([problem("make 12 from 8 1 6 1")], [problem("make 2 from 8 1 6 1")]).leaks == ()
    assert len(leakage([problem("make 2 from 8 1 6 1, please")], [problem("make 2 from 8 1 6 1")]).leaks) == 1


def test_wording_that_all_prompts_share_is_no_leak():
    texts = [
        f"A farmer has {n} cows and {3 * n + 1} hens, and sells {n + 7} of them at the market in town. How many animals are left?"
        for n in range(60)
    ]
    assert leakage(problems(*texts[:30]), problems(*texts[30:])).leaks == ()
    planted = problems(*texts[30:], texts[3])
    assert [k.held_out.id for k in leakage(problems(*texts[:30]), planted).leaks] == ["p30"]


@given(st.lists(st.text(alphabet="abc ?.", min_size=1, max_size=12), min_size=1, max_size=8))
def test_every_planted_duplicate_is_found(texts):
    made = problems(*texts)
    assert leakage(made, made).exact == len(made)


def test_generated_tasks_keep_their_promise_and_a_planted_leak_is_found():
    task = load_task("countdown")
    assert of_task(task, most=200).exact == 0
    drawn = problems_of(task.held_out, task.level, 20, Key(0).fold("held out"))
    assert leakage(drawn[:5], drawn).exact == 5


def test_a_level_with_few_held_out_problems_gives_those_it_has():
    assert 0 < len(problems_of(load_task("arithmetic").held_out, 1, 5000, Key(0))) < 5000


def rows(path, texts):
    path.write_text("".join(json.dumps({"prompt": t, "answer": "1"}) + "\n" for t in texts))
    return str(path)


def test_the_command_says_what_leaks_and_its_code_too(tmp_path, capsys):
    train = rows(tmp_path / "train.jsonl", [STORY, *[f"What is the {n}th word of the poem number {n * n}?" for n in range(40)]])
    clean, dirty = (
        rows(tmp_path / "clean.jsonl", ["Name a bird.", "Name a fish."]),
        rows(tmp_path / "dirty.jsonl", [STORY + "!", "Name a fish."]),
    )
    assert main(["leaks", train]) == 0
    assert main(["leaks", train, "--against", clean]) == 0
    assert "the same       0" in capsys.readouterr().out
    assert main(["leaks", train, "--against", dirty]) == 1
    shown = capsys.readouterr().out
    assert "the same       0" in shown or "the same       1" in shown
    assert "A farmer has twelve" in shown
    assert main(["leaks", train, "--against", dirty, "--allow", "0.5"]) == 0
    capsys.readouterr()
    assert main(["leaks", train, "--against", dirty, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["share"] == 0.5
    assert main(["leaks", train, "--words", "1"]) == 2
    assert main(["leaks", "flow_2d"]) == 2


def test_a_task_without_words_is_refused():
    with pytest.raises(UserError, match="has no text prompts"):
        of_task(load_task("flow_2d"))


def test_the_table_shortens_and_counts():
    found = leakage(problems(*"abcdefg"), problems(*"abcdefg"))
    lines = table(found, "letters", examples=2).splitlines()
    assert lines[0] == "letters: 7 held-out problems looked up in 7 training problems"
    assert lines[-1] == "  and 5 more"
    assert as_json(found)["exact"] == 7
    assert prompt(Problem("p", "t", text="raw")) == "raw"
