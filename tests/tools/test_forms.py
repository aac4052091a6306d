from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.tools.calculator import Calculator
from gradus.tools.forms import Answer, Call, FencedCalls, JsonCalls, LineCalls, Malformed, MessageCalls, TaggedCalls
from gradus.tools.python import Python
from gradus.tools.search import Search
from gradus.tools.tool import Result
from gradus.types import UserError
from gradus.types.spaces import inserted, text_inserted

TOOLS = (Search(), Calculator())
FORMS = (TaggedCalls(), LineCalls(), JsonCalls(), MessageCalls())
QUERY = Call("search", {"query": "home of Ann"})


@pytest.mark.parametrize(
    ("form", "action", "said"),
    [
        (TaggedCalls(), "I <search> home of Ann </search>", (QUERY,)),
        (TaggedCalls(), "<search>a</search> then <answer>b</answer>", Answer("b")),
        (TaggedCalls(), "<answer>b</answer> or <search>home of Ann</search>", (QUERY,)),
        (TaggedCalls(), "<search>never closed", None),
        (TaggedCalls(names=(("code", "calculate"),)), "<code>2+2</code>", (Call("calculate", {"expression": "2+2"}),)),
        (TaggedCalls(names=(("code", "calculate"),)), "<calculate>2+2</calculate>", None),
        (LineCalls(), "let me\nSearch: home of Ann", (QUERY,)),
        (LineCalls(), "search: a\nanswer: Bob ", Answer("Bob")),
        (LineCalls(), "just words", None),
        (JsonCalls(), '<tool_call>\n{"name": "search", "arguments": {"query": "home of Ann"}}\n</tool_call>', (QUERY,)),
        (JsonCalls(), '<tool_call>{"name": "search", "arguments": {"query": "home of Ann"}}', (QUERY,)),
        (JsonCalls(), "Bob", Answer("Bob")),
        (JsonCalls(), "  ", None),
        (MessageCalls(), '{"name": "search", "parameters": {"query": "home of Ann"}}', (QUERY,)),
        (MessageCalls(), '<|python_tag|>{"name": "search", "parameters": {"query": "home of Ann"}}', (QUERY,)),
        (MessageCalls(), "Bob", Answer("Bob")),
    ],
)
def test_what_an_action_says(form, action, said):
    assert form.read(action, TOOLS) == said


def test_two_calls_in_one_action():
    one, two = Call("search", {"query": "a"}), Call("calculate", {"expression": "1"})
    action = f"{JsonCalls().write(one, TOOLS)}\n{JsonCalls().write(two, TOOLS)}"
    assert JsonCalls().read(action, TOOLS) == (one, two)


@pytest.mark.parametrize("text", ["{", "[1]", '{"name": 3}', '{"name": "search", "arguments": [1]}', "{" * 100_000, '"\ud800'])
def test_a_broken_call_is_malformed(text):
    (said,) = JsonCalls().read(f"<tool_call>{text[:15_000]}</tool_call>", TOOLS)  # type: ignore[misc]
    assert isinstance(said, Malformed)
    assert said.why.startswith("error: ")


def test_fenced_code_is_a_call_only_with_an_output_block():
    form, tools = FencedCalls(), (Python(),)
    assert form.answer("4") == "4"
    assert form.read("just words ", tools) == Answer("just words")
    assert form.read(" ", tools) is None
    assert form.stops(tools) == ("```output",)
    assert form.read("so\n```python\nprint(1)\n```\n```output", tools) == (Call("python", {"code": "print(1)"}),)
    assert form.read("```python\na\n```\n```python\nb\n```\n```output", tools) == (Call("python", {"code": "b"}),)
    assert form.read("```python\nprint(1)\n```", tools) == Answer("```python\nprint(1)\n```")
    (said,) = form.read("no code ```output", tools)  # type: ignore[misc]
    assert isinstance(said, Malformed)
    assert form.told([Result("1")]) == inserted("\n1\n```\n")


def test_results_by_form():
    results = [Result("one"), Result("two", ok=False)]
    assert text_inserted(TaggedCalls("<information>", "</information>").told(results)) == "<information>one</information><information>two</information>"
    assert text_inserted(TaggedCalls().told([])) == ""
    assert LineCalls().told(results) == "one\ntwo"
    assert JsonCalls().told(results) == "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"
    assert MessageCalls(role="ipython").told(results) == ({"role": "ipython", "content": "one\ntwo"},)


def test_stops_are_the_closing_tags():
    assert TaggedCalls(names=(("code", "calculate"),)).stops(TOOLS) == ("</search>", "</code>", "</answer>")
    assert LineCalls().stops(TOOLS) == JsonCalls().stops(TOOLS) == MessageCalls().stops(TOOLS) == ()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: type(form).__name__)
@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=40))
def test_what_is_written_is_read_back(form, text):
    kept = text.strip()
    if not kept or "<" in kept or kept.startswith("{"):
        return
    call = Call("search", {"query": kept})
    assert form.read(form.write(call, TOOLS), TOOLS) == (call,)
    assert form.read(form.answer(kept), TOOLS) == Answer(kept)


PIECES = ["<search>", "</search>", "<answer>", "<tool_call>", "</tool_call>", '{"name"', "```", "```output", "search:", "\n", "}", "é\ud800"]


@pytest.mark.parametrize("form", [*FORMS, FencedCalls()], ids=lambda form: type(form).__name__)
@settings(max_examples=300, deadline=None)
@given(action=st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_action_breaks_a_form(form, action):
    said = form.read(action, TOOLS)
    assert said is None or isinstance(said, Answer) or all(isinstance(one, Call | Malformed) for one in said)


def test_several_arguments_need_a_form_of_json():
    with pytest.raises(UserError, match="cannot be written as one text"):
        TaggedCalls().write(Call("search", {"query": "a", "top": 2}), TOOLS)
    assert "<search>query</search>" in TaggedCalls().describe(TOOLS)
    assert '"name": "search"' in JsonCalls().describe(TOOLS)
