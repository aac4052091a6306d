"""Every player is loaded by the kind of its own model, and nothing outside the registry asks for a kind."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch

from gradus.players.build import build_players, load_policy
from gradus.policies import registry, tiny
from gradus.policies.controller import Controller, config_for
from gradus.policies.flow import BUILT_IN, FlowModel
from gradus.policies.lm import LanguageModel
from gradus.policies.masked import Masked
from gradus.policies.registry import CONTROLLER, FLOW, KINDS, LANGUAGE_MODEL, MASKED, Loading, of_folder, of_recipe
from gradus.recipe.compatibility import kind_of
from gradus.recipe.registry import recipe as load_recipe
from gradus.recipe.registry import recipe_modules
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.types import Key, UserError
from gradus.types.players import Fresh, Player
from gradus.types.policy import Policy
from gradus.types.spaces import Box, Choice, Text

ROOT = Path(__file__).resolve().parents[2]
HOW = Loading(torch.float32)


@pytest.fixture(scope="module")
def controller(tmp_path_factory):
    import numpy as np

    folder = tmp_path_factory.mktemp("controller")
    Controller.fresh(config_for(Fresh(hidden=(4,)), {"state": np.zeros(2, np.float32)}, Choice(("left", "right"))), Key(1)).save(folder)
    return folder


def test_a_folder_is_loaded_by_its_own_kind(controller):
    folders = {LANGUAGE_MODEL.name: tiny.folder("base"), FLOW.name: BUILT_IN, CONTROLLER.name: controller, MASKED.name: tiny.folder("masked")}
    classes = {LANGUAGE_MODEL.name: LanguageModel, FLOW.name: FlowModel, CONTROLLER.name: Controller, MASKED.name: Masked}
    assert set(folders) == set(KINDS)
    for name, folder in folders.items():
        assert of_folder(folder) is KINDS[name]
        assert isinstance(registry.load(str(folder), "lm", "arithmetic", HOW), classes[name])  # whatever the task would take


def test_a_recipe_holds_players_of_three_kinds(controller):
    """The task takes a flow generator; a language model and a controller stand beside it."""
    words, hands = Player(str(tiny.folder("base"))), Player(str(controller))
    players = build_players(load_recipe("flow_grpo").but(players__words=words, players__hands=hands), None, flow_2d(), Key(3))
    shown = {name: sorted(player.policy.reads) for name, player in players.items()}
    assert shown == {"policy": ["condition"], "reference": ["condition"], "words": ["text"], "hands": ["array"]}


def test_every_kind_meets_the_protocol(controller):
    for folder in (tiny.folder("base"), tiny.folder("masked"), BUILT_IN, controller):
        assert isinstance(of_folder(folder).load(str(folder), HOW), Policy)


def test_spaces_of_the_kinds(controller):
    words, flow, hands = (of_folder(f).load(str(f), HOW) for f in (tiny.folder("base"), BUILT_IN, controller))
    spaces = (Text(), Choice(("a", "b")), Choice(("a", "b", "c")), Box((-1.0,) * 2, (1.0,) * 2), Box((-1.0,), (1.0,)))
    assert [words.acts(space) for space in spaces] == [True, True, True, False, False]
    assert [flow.acts(space) for space in spaces] == [False, False, False, True, False]
    assert [hands.acts(space) for space in spaces] == [False, True, False, False, False]


def test_a_folder_without_a_description_gets_the_task_s_kind(tmp_path):
    assert of_folder(tmp_path, "flow") is FLOW
    (tmp_path / "config.json").write_text("not JSON")
    assert of_folder(tmp_path) is LANGUAGE_MODEL
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    assert of_folder(tmp_path, "flow") is LANGUAGE_MODEL


def test_without_a_model_the_task_names_the_built_in_one():
    assert isinstance(load_policy(None, arithmetic(), load_recipe("grpo"), "cpu"), LanguageModel)
    assert isinstance(load_policy("tiny", flow_2d(), load_recipe("flow_grpo"), "cpu"), FlowModel)
    with pytest.raises(UserError, match=r"no built-in model for a controller.* --players.policy.model Fresh"):
        registry.load(None, "controller", "cartpole", HOW)
    with pytest.raises(UserError, match=r'unknown kind of policy "flw" \(did you mean flow\?\)'):
        registry.load(None, "flw", "cartpole", HOW)


@pytest.mark.parametrize(("kind", "who"), [(FLOW, "a flow"), (CONTROLLER, "a controller")])
def test_settings_of_the_decoder_are_refused_for_others(kind, who):
    with pytest.raises(UserError, match=rf"setting.recompute works only for language models in the built-in decoder; leave this field out for {who}$"):
        kind.load("anywhere", Loading(torch.float32, recompute=True))
    with pytest.raises(UserError, match=r"setting.backward_chunks works only for language models in the built-in decoder"):
        kind.load("anywhere", Loading(torch.float32, backward_chunks=4))


def test_the_kind_of_a_recipe_follows_from_its_parts(controller):
    flows = {key for key in recipe_modules() if kind_of(load_recipe(key)) is FLOW}
    assert flows == {"flow_grpo", "awm"}
    assert of_recipe(None, frozenset({"logprobs"})) is LANGUAGE_MODEL
    assert of_recipe(Fresh(), frozenset({"logprobs"})) is CONTROLLER
    assert of_recipe(None, frozenset({"q"})) is CONTROLLER
    assert of_recipe(str(controller), frozenset()) is CONTROLLER


# the search of the tree

CLASSES = {"LanguageModel", "FlowModel", "Controller"}


def questions(code: str) -> list[int]:
    """The lines that ask which kind a policy is: a comparison of a field `policy`, a class of policies in isinstance, hasattr of a policy."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = any(isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides)
            asks = texts and any(isinstance(s, ast.Attribute) and s.attr in ("policy", "kind") and "fresh" not in ast.unparse(s) for s in sides)
            asks = asks and any(isinstance(s, ast.Attribute) and s.attr == "policy" for s in sides)
            asks = asks or any(isinstance(s, ast.Name) and s.id in CLASSES for s in sides)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            args = [ast.unparse(a) for a in node.args]
            of_class = node.func.id in ("isinstance", "issubclass") and len(args) == 2 and any(c in args[1] for c in CLASSES)
            last = args[0].rpartition(".")[2] if args else ""
            asks = of_class or (node.func.id == "hasattr" and last in ("policy", "_policy"))
        elif isinstance(node, ast.Subscript):
            asks = isinstance(node.slice, ast.Attribute) and node.slice.attr == "policy"
        elif isinstance(node, ast.Match):
            asks = isinstance(node.subject, ast.Attribute) and node.subject.attr == "policy"
        else:
            continue
        found += [node.lineno] if asks else []
    return found


def test_no_question_for_a_kind_of_policy_outside_the_registry():
    files = [p for p in sorted((ROOT / "gradus").rglob("*.py")) if p != ROOT / "gradus/policies/registry.py"]
    assert len(files) > 400
    assert [f"{p.relative_to(ROOT)}:{line}" for p in files for line in questions(p.read_text())] == []


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ('if task.policy == "lm": pass', True),
        ('x = 1 if "flow" != recipe.policy else 2', True),
        ("if isinstance(policy, LanguageModel): pass", True),
        ("if isinstance(a.policy, (FlowModel, Controller)): pass", True),
        ('if hasattr(player.policy, "tokens"): pass', True),
        ('if hasattr(policy, "tokens"): pass', True),
        ("if type(policy) is LanguageModel: pass", True),
        ("task = TASKS[recipe.policy]", True),
        ("match task.policy:\n    case 'lm': pass", True),
        ('if "text" in policy.can: pass', False),
        ('if signal.player == "policy": pass', False),
        ("def load() -> LanguageModel: return LanguageModel.load(1)", False),
        ('if hasattr(part, "start"): pass', False),
    ],
)
def test_the_search_sees_a_question(code, asks):
    assert bool(questions(code)) is asks
