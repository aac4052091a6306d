from __future__ import annotations

import pytest

from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.text.search_qa import search_qa
from gradus.tools.search import Search, found
from gradus.types import Key, Problem, UserError

PASSAGES = ("The home of Ann is Bern.", "The home of Bob is Rom.", "Ann: employer Acme.")


def test_the_best_passages_come_first():
    assert found(PASSAGES, "home of Ann", 3) == (0, 1, 2)
    assert found(PASSAGES, "employer", 3) == (2,)
    assert found(PASSAGES, "zzz", 3) == found((), "home", 3) == ()
    session = Search(PASSAGES, top=1).open(Problem("p", "t"), Key(0), None)
    assert session.call("where is the home of Ann") == PASSAGES[0]
    assert session.call("zzz") == "nothing found"


def test_a_task_without_passages_is_refused():
    Search().check_task(search_qa())
    Search(PASSAGES).check_task(arithmetic())
    with pytest.raises(UserError, match="task arithmetic has none"):
        Search().check_task(arithmetic())
