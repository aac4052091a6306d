"""Fields and parts from text."""

from __future__ import annotations

import pytest

from gradus.recipe.compatibility import check_parts
from gradus.recipe.core import get
from gradus.recipe.overrides import ELSEWHERE, override, override_all, read
from gradus.recipe.registry import recipe
from gradus.rewards.finished import Finished
from gradus.rewards.functions import Function
from gradus.types import Frozen, UserError


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("objective.policy.trust.high", "0.28", 0.28),
        ("learning_rate", "5e-4", 5e-4),
        ("setting.steps", "7", 7),
        ("setting.max_tokens", "none", None),
        ("study.greedy", "false", False),
        ("objective.kl.estimator", "k1", "k1"),
        ("optimizer.betas", "0.8,0.99", (0.8, 0.99)),
    ],
)
def test_a_value_is_read_by_its_type(path, text, value):
    made = override(recipe("grpo"), path, text)
    assert get(made, path if "." in path else f"setting.{path}") == value


def test_a_part_is_swapped_by_its_name():
    made = override(recipe("grpo"), "objective.policy.trust", "DualClip(ceiling=4.0)")
    assert type(made.objective["policy"].trust).__name__ == "DualClip"
    assert made.objective["policy"].trust.ceiling == 4.0
    assert "kl" not in override(recipe("grpo"), "objective.kl", "none").objective


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("objective.policy.trst", "1", "did you mean trust"),
        ("objective.policy.trust", "Clp", "did you mean Clip"),
        ("setting.steps", "many", "must be a whole number"),
        ("objective.kl.estimator", "k9", "known: k1, k2, k3"),
        ("objective.policy.trust", "Clip(0.1)", "write every value with its name"),
        ("objective.policy.trust", "Foo", "known: .*CappedWeight, Clip, .*DualClip, .*Unclipped"),
        ("objective.policy.weight", "Foo", "known: .*TruncatedImportance"),  # nothing stands there; the field's type says what may
        ("objective.entropy", "Foo", "known: .*EntropyBonus, .*KL, .*and [0-9]+ others"),
        ("credit", "Foo", "known: .*GroupRelative, .*LeaveOneOut"),
        ("lr", "1e-4", "use --learning_rate instead"),
        ("trust.high", "0.3", 'unknown option "--trust.high"; write the full path: --objective.policy.trust.high'),
        ("objective.kl", "0.1", '--objective.kl is "0.1", but its value must be a part; set one of its fields: --objective.kl.coefficient'),
        ("objective.new", "0.1", "but its value must be a part; give the name of the part's class"),
        ("optimizer", "3e-4", "set one of its fields: --optimizer.lr"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(path, text, said):
    with pytest.raises(UserError, match=said):
        override(recipe("grpo"), path, text)


def test_a_field_that_other_libraries_name_otherwise_is_there_under_our_name():
    for ours in {name.partition(" ")[0] for name in ELSEWHERE.values()} - {"run"}:
        get(recipe("grpo"), ours if "." in ours else f"setting.{ours}")


def test_fields_that_only_fit_together_may_come_in_any_order():
    made = override_all(recipe("delethink"), [("rollout.size", "16"), ("rollout.carry", "8")])  # 16 alone is less than the carry of 24
    assert (made.rollout.size, made.rollout.carry) == (16, 8)
    with pytest.raises(UserError, match="carry"):
        override_all(recipe("delethink"), [("rollout.size", "16")])


def test_a_function_of_a_file_is_a_reward_where_a_reward_stands(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("def long(completion_ids, **kwargs):\n    return [float(len(c) > 2) for c in completion_ids]\n")
    made = override(recipe("grpo"), "study.reward", f"{file}:long")
    assert made.study.reward == Function(f"{file}:long")
    assert override(made, "study.reward", "none").study.reward is None
    assert override(made, "study.reward", "Finished").study.reward == Finished()
    check_parts(made)
    with pytest.raises(UserError, match=r"study.reward cannot be Clip, which lacks"):
        check_parts(override(made, "study.reward", "Clip"))
    with pytest.raises(UserError, match=r"credit cannot be long \(mine.py, line 1\), which lacks assign"):
        check_parts(override(made, "credit", f"{file}:long"))


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("</answer>", ("</answer>",)),
        ("</answer>,</tool>", ("</answer>", "</tool>")),
        ("7,8", ("7", "8")),  # text, though Python would read numbers
        (r"'a,b','\n'", ("a,b", "\n")),
        ("['.']", (".",)),
        ("", ()),
    ],
)
def test_stops_are_text(text, stops):
    assert read(text, tuple[str, ...], (), "task.sampling.stops") == stops


def test_values_by_name_are_a_json_object():
    path = "schedule.stages.distil.changes"
    made = override(recipe("ring_lite"), path, '{"setting.eval_every": 1, "objective.policy.trust.high": 0.3}')
    assert get(made, path) == Frozen({"setting.eval_every": 1, "objective.policy.trust.high": 0.3})
    assert override(made, "schedule.stages.distil.players", '{"policy": "distil.policy"}').schedule.stages["distil"].players == {"policy": "distil.policy"}


@pytest.mark.parametrize("text", ["setting.eval_every=1", "[1]", '{"a": [1]}', "ByAngles"])
def test_other_texts_for_values_by_name_are_refused(text):
    with pytest.raises(UserError, match=r"must be a JSON object of numbers and texts by name, such as '\{\"name\": 1\}'"):
        override(recipe("ring_lite"), "schedule.stages.distil.changes", text)
    with pytest.raises(UserError, match="JSON object of texts"):
        override(recipe("ring_lite"), "schedule.stages.distil.players", '{"policy": 1}')


def test_parts_by_name_are_still_parts():
    with pytest.raises(UserError, match="unknown part"):
        override(recipe("ring_lite"), "schedule.stages", '{"policy": 1}')
