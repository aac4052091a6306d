from __future__ import annotations

import asyncio

import pytest

from gradus.tools.python import Python, unfenced
from gradus.tools.tool import Result
from gradus.types import Key, Problem
from tests.sandbox.isolated import isolated


@pytest.mark.parametrize(("code", "inside"), [("```python\nx\n```", "x"), ("```\nx\ny\n```", "x\ny"), ("x = '```'", "x = '```'"), ("```py\nx", "x")])
def test_a_fence_is_left_out(code, inside):
    assert unfenced(code) == inside


@isolated
def test_programs_by_hand():
    session = Python().open(Problem("p", "t"), Key(0), None)
    assert asyncio.run(session.call("2 ** 10")) == Result("1024")
    assert asyncio.run(session.call("print(1)\nx")) == Result("1\nNameError: name 'x' is not defined", ok=False)
    assert asyncio.run(session.call("x = 1")) == Result("(no output)")
