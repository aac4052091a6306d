"""Formats of data sets of programs: the answer of a problem is its tests, which the verifier `unit_tests` runs in the sandbox."""

from __future__ import annotations

from typing import Any

from gradus.tasks.data.files import Row
from gradus.tasks.formats.format import Format, Malformed, kept, parsed, text, texts, value


def printed(inputs: list[Any], outputs: list[Any], field: str) -> list[dict[str, str]]:
    """Returns tests of whole programs. An input or output that is a list of lines becomes one text. Raises Malformed if there are no inputs, or if the numbers
    of inputs and outputs differ."""
    if not inputs or len(inputs) != len(outputs):
        raise Malformed(field, f"has {len(inputs)} inputs and {len(outputs)} outputs; give the official file, or leave the row out with --task.bad_rows")
    lines = [["\n".join(map(str, one)) if isinstance(one, list) else str(one) for one in several] for several in (inputs, outputs)]
    return [{"stdin": given, "stdout": due} for given, due in zip(*lines)]


def called(name: str, inputs: list[Any], outputs: list[Any], field: str) -> list[str]:
    """Returns tests of a function: each input is the list of its arguments. Raises Malformed if there are no inputs, if an input is not a list, if the numbers
    of inputs and outputs differ, or if `name` is not a name in Python."""
    if not name.isidentifier() or not inputs or len(inputs) != len(outputs) or not all(isinstance(one, list) for one in inputs):
        raise Malformed(field, "must give the name of a function and one list of arguments per output; leave the row out with --task.bad_rows")
    return [f"assert {name}({', '.join(map(repr, given))}) == {due!r}" for given, due in zip(inputs, outputs)]


def _humaneval(row: Row) -> Row:
    name, start = text(row, "entry_point"), text(row, "prompt")
    prompt = f"Complete this Python function. Write the whole function.\n\n```python\n{start}```"
    return {"prompt": prompt, "answer": f"{text(row, 'test')}\n\ncheck({name})", "solution": start + text(row, "canonical_solution"), **kept(row, "task_id")}


def _mbpp(row: Row) -> Row:
    field = next((name for name in ("text", "prompt") if name in row), "text")
    tests = texts(row, "test_list")
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or [])
    prompt = f"{text(row, field)}\nThe program must pass this test:\n{tests[0]}"
    return {"prompt": prompt, "answer": [*([setup] if setup.strip() else []), *tests], "solution": text(row, "code"), **kept(row, "task_id")}


def _apps(row: Row) -> Row:
    tests = parsed(row, "input_output")
    if not isinstance(tests, dict):
        raise Malformed("input_output", "must be an object with inputs and outputs; leave the row out with --task.bad_rows")
    inputs, outputs, name = tests.get("inputs") or [], tests.get("outputs") or [], tests.get("fn_name")
    start = row.get("starter_code")
    found = {"prompt": "\n\n".join(filter(None, [text(row, "question"), start if isinstance(start, str) and start.strip() else None]))}
    answer: Any = called(str(name), inputs, _unwrapped(outputs), "input_output") if name else printed(inputs, outputs, "input_output")
    solutions = parsed(row, "solutions") if row.get("solutions") else []
    first = solutions[0] if isinstance(solutions, list) and solutions and isinstance(solutions[0], str) else None
    return {**found, "answer": answer, "solution": first, **kept(row, "difficulty", "source", "url", "problem_id")}


def _unwrapped(outputs: list[Any]) -> list[Any]:
    """Returns the results of a function. If each result is in a list of length one, as in some rows, this list is removed."""
    return [one[0] for one in outputs] if outputs and all(isinstance(one, list) and len(one) == 1 for one in outputs) else outputs


def _livecodebench(row: Row) -> Row:
    tests = parsed(row, "public_test_cases")
    if not isinstance(tests, list) or not tests or not all(isinstance(one, dict) for one in tests):
        raise Malformed("public_test_cases", "must be a list of tests; give the official file")
    if any(one.get("testtype") == "functional" for one in tests):
        raise Malformed("public_test_cases", "calls a method of a class, which the verifier cannot do; leave such rows out with --task.bad_rows")
    answer = printed([value(one, "input") for one in tests], [value(one, "output") for one in tests], "public_test_cases")
    return {"prompt": text(row, "question_content"), "answer": answer, **kept(row, "difficulty", "platform", "question_id", "contest_date")}


def _cruxeval(row: Row) -> Row:
    prompt = f"What does f({text(row, 'input')}) return?\n\n```python\n{text(row, 'code')}\n```\nEnd with the line \"Answer: \" and the value as a Python literal."
    return {"prompt": prompt, "answer": text(row, "output"), **kept(row, "id", "code", "input")}


FORMATS = (
    Format("humaneval", "prompt, test, entry_point, canonical_solution", ("openai/openai_humaneval", "evalplus/humanevalplus"), _humaneval, "unit_tests"),
    Format("mbpp", "text or prompt, code, test_list", ("google-research-datasets/mbpp", "evalplus/mbppplus"), _mbpp, "unit_tests"),
    Format("apps", "question, input_output and solutions as JSON", ("codeparrot/apps", "BAAI/TACO"), _apps, "unit_tests"),
    Format(
        "livecodebench", "question_content, public_test_cases as JSON; the private tests are a pickle, which is never read",
        ("livecodebench/code_generation_lite",), _livecodebench, "unit_tests",
    ),
    Format("cruxeval", "code, input, output", ("cruxeval-org/cruxeval",), _cruxeval),
)  # fmt: skip
