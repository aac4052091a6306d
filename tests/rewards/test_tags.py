"""The reward for tags: forms by hand, its place in a sum, refusals."""

import pytest

from gradus.rewards.tags import Tags, after_tags, answered, in_tags
from gradus.rewards.verified import Verified
from gradus.types import UserError
from tests.rewards.judged import score, trajectory

BOTH = ("think", "answer")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("<think>a</think><answer>b</answer>", True),
        (" <think>a\nb</think>\n <answer>1 < 2</answer>\n", True),
        ("<answer>b</answer><think>a</think>", False),
        ("<think>a</think>so <answer>b</answer>", False),
        ("well <think>a</think><answer>b</answer>", False),
        ("<think>a</think><answer>b</answer> end", False),
        ("<think> </think><answer>b</answer>", False),
        ("<think>a</think><answer></answer>", False),
        ("<think>a</think><think>a</think><answer>b</answer>", False),
        ("<think>a<answer>b</answer></think>", False),
        ("<think>a</think><answer>b", False),
        ("</think>a<think></answer>b<answer>", False),
        ("<Think>a</Think><answer>b</answer>", False),
        ("", False),
    ],
)
def test_by_hand(text, good):
    assert in_tags(text, BOTH) is good
    ((judgement,),) = score(Tags(), [trajectory(text)])
    assert judgement.reward == judgement.components["tags"] == float(good)


def test_other_tags():
    assert in_tags("<a>1</a><b>2</b><c>3</c>", ("a", "b", "c"))
    assert not in_tags("<a>1</a><c>3</c>", ("a", "b", "c"))
    assert in_tags("<box>1 <think> 2</box>", ("box",))  # other tags are text


def test_the_form_is_added_to_the_verdict_and_accuracy_stays_that_of_the_verdict():
    rows = [trajectory("<think>a</think><answer>4</answer>"), trajectory("4"), trajectory("5")]
    (row,) = score(Verified() + 0.5 * Tags(), rows, verify=lambda problem, completion: float("4" in completion))
    assert [j.reward for j in row] == [1.5, 1.0, 0.0]
    assert [j.components["verified"] for j in row] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(("order", "said"), [((), "empty"), (("<think>",), "and no brackets"), (("a", "a"), "twice"), (("",), "a name may have only letters")])
def test_what_cannot_be_is_refused(order, said):
    with pytest.raises(UserError, match=said):
        Tags(order)


def test_an_answer_is_text_a_box_or_a_block_of_code():
    assert [answered(t, "none") for t in (" \n", "7")] == [True, False]
    assert [answered(t, "any") for t in (" \n", "7")] == [False, True]
    boxes = [r"so \boxed{7}", r"so \boxed{}", r"so \boxed{7", "```python\nx = 1\n```"]
    assert [answered(t, "boxed") for t in boxes] == [True, False, False, False]
    assert [answered(t, "boxed or code") for t in (*boxes, "```python\nx = 1\n")] == [True, False, False, True, False]


def test_the_answer_comes_after_the_last_part():
    assert after_tags("<think>a</think> 7", ("think",)) == " 7"
    assert after_tags("so <think>a</think> 7", ("think",)) is None
    box = Tags(("think",), answer="boxed")
    assert box.value(r"<think>so</think> \boxed{7}") == 1
    assert box.value(r"<think>\boxed{7}</think> done") == 0
    assert Tags(("think",), answer="any").value("<think>7</think>") == 0


def test_an_unknown_answer_is_refused():
    with pytest.raises(UserError, match=r"Tags\.answer"):
        Tags(answer="box")
