from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.tasks.maths.mathematics.extraction import answers, boxed


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("5", "5"),
        ("The answer is 5, not 6.", "5"),
        ("There are 3 apples. The answer is 7. Then 9.", "7"),
        ("I have 3 apples and 4 pears.", "4"),
        (r"\boxed{3} and then the answer is 4", "3"),
        (r"\boxed{3} and then the final answer is $4$", "4"),
        ("The final answer is $x = 5$. I hope it is correct.", "x = 5"),
        (r"Final answer: \boxed{5} then $9$", "5"),
        (r"I think $7$ is nice but \boxed{5} is the answer. $9$", "5"),
        ("Answer: $x=3$, where $k$ is any integer", "x=3"),
        ("The answer is 5, where $x^2$ is.", "x^2"),
        ("We know $x^2$. So 5.", "5"),
        ("We get $3$. Then $4$.", "4"),
        ("We get $3$ and $4$.", "3 , 4"),
        (r"\(5\), or \(6\)", "5 , 6"),
        (r"\boxed{3}, \boxed{4} and \boxed{5}", "3,4,5"),
        (r"\boxed{3}. Later we find \boxed{4}", "4"),
        (r"$\boxed{\frac{3}{4}}$", r"\frac{3}{4}"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed 5", "5"),
        (r"The probability is \frac{3}{4}.", r"\frac{3}{4}"),
        ("10 % of it", "10%"),
        ("$5$ percent", "5%"),
        ("so 1 1/2", r"1\frac{1}{2}"),
        ("3**4", "3^{4}"),
        ("It costs $3.50 and $4.", "4"),
        ("x=-5", "-5"),
        ("#### 1,234", "1,234"),
        ("12,34", "12.34"),
        ("**5**", "5"),
    ],
)
def test_where_the_answer_stands(text, first):
    assert next(answers(text)) == first


@pytest.mark.parametrize("text", ["", "no numbers", "abc123", "(5)", r"\boxed{}", "$", "1,2,3"])
def test_nothing_is_found(text):
    assert list(answers(text)) == []


def test_later_candidates_follow():
    assert list(answers(r"$2$ and \boxed{???}, so 5")) == ["???", "5", "2"]


def test_only_the_end_of_a_long_text_is_read():
    assert next(answers(r"\boxed{1}" + " " * 30_000 + "2")) == "2"
    assert boxed(r"\boxed{1" * 10) is None


@given(st.lists(st.sampled_from(["$", "\\boxed{", "}", "1", " ", "answer ", "\\(", "\\)", "and", "x"]), max_size=40))
def test_candidates_are_few_and_differ(parts):
    found = list(answers("".join(parts)))
    assert len(found) <= 8
    assert all(a != b for a, b in pairwise(sorted(found)))
