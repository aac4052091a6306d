"""The same from Python as from the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

import gradus
from gradus.api import _rewards
from gradus.cli.main import main
from gradus.study.held_out import HeldOut
from gradus.types import UserError
from gradus.types.parts import Judgement
from gradus.types.players import Adapter
from tests.small_model import save_small_model

SMALL = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 4, "setting__save_every": 1, "study__problems": 2}


def by_length(completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


@dataclass(frozen=True)
class Later:
    """Judges by the step: the first is right, the start and all others are not; with a negative sign the start alone is."""

    sign: float = 1.0
    needs = ()

    async def score(self, groups, signals, world):
        value = float(world.step == (1 if self.sign > 0 else 0))
        return [[Judgement(value) for _ in g.trajectories] for g in groups]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    save_small_model(folder / "model")
    (folder / "reward.py").write_text("def ids(completion_ids, **kwargs):\n    return [float(sum(c)) for c in completion_ids]\n")
    return folder


def test_a_run_from_python_is_the_run_from_the_command_line(home):
    reward, seen = f"{home}/reward.py:ids", []
    run = gradus.train(
        "rloo",
        "arithmetic",
        model=str(home / "model"),
        reward=reward,
        steps=2,
        seed=5,
        run=home / "python",
        on_step=lambda run, metrics, groups: seen.append(metrics["step"]),
        **SMALL,
    )
    words = ["train", "rloo", "--task", "arithmetic", "--model", home / "model", "--reward", reward, "--steps", 2, "--seed", 5]
    fields = [word for name, value in SMALL.items() for word in ("--" + name.replace("__", "."), value)]
    assert main([str(w) for w in (*words, "--run", home / "typed", *fields)]) == 0
    assert (home / "python" / "metrics.jsonl").read_bytes() == (home / "typed" / "metrics.jsonl").read_bytes()
    assert json.loads((home / "python" / "recipe.json").read_text()) == json.loads((home / "typed" / "recipe.json").read_text())
    assert seen == [0, 1]
    assert [row["step"] for row in run.metrics] == [0, 1, 2]

    assert [row["step"] for row in gradus.resume(home / "python", more=3).metrics] == [0, 1, 2, 3]
    found = gradus.evaluate(home / "python", pass_at=(1, 2), problems=3)
    assert (found.problems, found.samples, set(found.pass_at)) == (3, 2, {1, 2})
    exported = gradus.export(home / "python", home / "exported")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoModelForCausalLM.from_pretrained(exported).config.hidden_size == 32
    assert AutoTokenizer.from_pretrained(exported).decode([3, 3]) == "  "


def test_what_is_no_task_and_no_reward_is_a_sentence():
    with pytest.raises(UserError, match=r"a task must be a Task.* FILE.py:NAME, but its type is set; write other rows"):
        gradus.train("grpo", task={"arithmetic"})
    with pytest.raises(UserError, match=r"a reward must be FILE.py:FUNCTION, a function, a reward or a list of them, but its type is int"):
        gradus.train("grpo", reward=[by_length, 3])


def test_rows_and_several_rewards_in_memory(home):
    rows = [{"prompt": f"{n}+1=", "answer": str(n + 1)} for n in range(4)]
    run = gradus.train("rloo", rows, model=str(home / "model"), reward=[by_length, (by_length, -0.5)], steps=1, **SMALL)
    row = run.metrics[0]
    assert row["reward"] == pytest.approx(0.5 * row["reward/by_length"])
    assert row["reward/by_length"] == row["reward/by_length_2"] == row["length"]


def test_a_reward_with_a_method_named_parts_is_one_reward():
    class Graded:
        def parts(self):
            return None

    graded = Graded()
    assert _rewards(graded) == [graded]


def test_tasks_and_rewards_may_be_objects_where_no_folder_is_kept(home):
    task = gradus.load_task("arithmetic")
    run = gradus.train("rloo", task, model=str(home / "model"), reward=by_length, steps=1, **SMALL)
    row = run.metrics[0]
    assert row["reward"] == row["reward/by_length"] == row["length"]
    assert run.folder is None
    with pytest.raises(UserError, match="cannot be stored in a run folder"):
        gradus.train("rloo", task, model=str(home / "model"), steps=1, run=home / "object", **SMALL)
    assert not (home / "object").exists()


def test_the_best_model_is_exported_where_one_is_better(home):
    made = {"model": str(home / "model"), "reward": f"{home}/reward.py:ids", **SMALL, "steps": 2}
    gradus.train("rloo", run=home / "better", **made, setting__eval_every=1, study=HeldOut(problems=2, reward=Later()))
    best = gradus.export(home / "better", home / "best-model", "best")
    kept = home / "better" / "checkpoints" / "step-000001" / "model"
    assert (best / "model.safetensors").read_bytes() == (kept / "model.safetensors").read_bytes()
    gradus.train("rloo", run=home / "worse", **made, study=HeldOut(problems=2, reward=Later(-1.0)))
    with pytest.raises(UserError, match="worse has no best model, because no evaluation after the first gave a better score"):
        gradus.export(home / "worse", home / "worse-model", "best")
    assert not (home / "worse-model").exists()


def test_the_given_model_chooses_the_profile(home):
    from gradus.training.plan import plan

    assert plan("grpo").recipe.setting == gradus.load_recipe("grpo").setting
    assert plan("grpo", model=str(home / "model")).recipe.setting.default_tokens == 512  # small: a model of one's own
    assert plan("grpo", profile="paper").recipe.setting.precision == "bfloat16"
    assert plan("flow_grpo").task == "flow_2d"


def test_an_adapter_is_trained_carried_on_and_exported(home):
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    reward, more = f"{home}/reward.py:ids", {"setting__warmup": 0, "setting__learning_rate": 0.01, **SMALL, "setting__group": 8}
    asked = {"model": str(home / "model"), "reward": reward, "players__policy__model": Adapter(rank=2), **more}
    for folder, steps in (("whole", 3), ("cut", 2)):
        gradus.train("grpo", "arithmetic", steps=steps, run=home / folder, **asked)
    gradus.resume(home / "cut", more=3)
    exported = [gradus.export(home / folder, home / f"{folder}-model") for folder in ("whole", "cut")]
    assert len({(e / "adapter" / "adapter_model.safetensors").read_bytes() for e in exported}) == 1
    assert (home / "whole" / "metrics.jsonl").read_bytes().splitlines()[:3] == (home / "cut" / "metrics.jsonl").read_bytes().splitlines()[
        :3
    ]

    tokens = torch.tensor([[40, 41, 42]])
    base = AutoModelForCausalLM.from_pretrained(home / "model")
    with torch.no_grad():
        start = base(tokens).logits
        whole = AutoModelForCausalLM.from_pretrained(exported[0])(tokens).logits
        beside = PeftModel.from_pretrained(base, exported[0] / "adapter")(tokens).logits
    assert float((whole - beside).abs().max()) < 1e-5
    assert float((whole - start).abs().max()) > 1e-3
    weights = load_file(home / "whole" / "checkpoints" / "step-000003" / "player-policy.safetensors")
    given = load_file(home / "model" / "model.safetensors")
    assert torch.equal(weights["weights.model.norm.weight"], given["model.norm.weight"])  # all but the adapter is as it was


def test_an_option_that_spells_like_a_folder_stays_what_was_typed(tmp_path, monkeypatch):
    from gradus.training.plan import plan

    monkeypatch.chdir(tmp_path)
    (tmp_path / "answer").mkdir()
    (tmp_path / "rows.jsonl").write_text("{}")
    stored = plan("grpo", "gsm8k", task_options={"answer_column": "answer", "source.path": "rows.jsonl", "held_out": "answer"}).stored()
    assert stored["task_options"] == [
        ["answer_column", "answer"],
        ["source.path", str(tmp_path / "rows.jsonl")],
        ["held_out", str(tmp_path / "answer")],
    ]


def test_the_first_rollout_has_the_tokenizers_own_tokens_of_a_text_prompt(home, tmp_path, capsys):
    """As TRL does: `tokenizer(text)` for text, `apply_chat_template` for messages."""
    from transformers import PreTrainedTokenizerFast  # AutoTokenizer puts Qwen2's word pattern into this tokenizer of characters

    theirs = PreTrainedTokenizerFast.from_pretrained(home / "model")
    message = [{"role": "user", "content": "A dog named Max"}]
    as_chat = theirs.apply_chat_template(message, add_generation_prompt=True, return_dict=False)
    raw = theirs("A dog named Max")["input_ids"]
    assert raw != as_chat
    for prompt, option, expected in (("A dog named Max", {}, raw), ("A dog named Max", {"prompt": "chat"}, as_chat), (message, {}, as_chat)):
        (tmp_path / "d.jsonl").write_text((json.dumps({"prompt": prompt, "answer": "x"}) + "\n") * 2)
        held_out = [{"role": "user", "content": "A cat"}] if isinstance(prompt, list) else "A cat"
        (tmp_path / "h.jsonl").write_text(json.dumps({"prompt": held_out, "answer": "x"}) + "\n")
        asked = []

        def reward(prompts, completions, asked=asked, **columns):
            asked += zip(prompts, completions, strict=True)
            return [0.0 for _ in completions]

        seen = []
        options = {"held_out": str(tmp_path / "h.jsonl"), **option}
        gradus.train(
            "grpo", str(tmp_path / "d.jsonl"), model=str(home / "model"), reward=reward, steps=1, task_options=options, study=None,
            on_step=lambda run, row, groups, seen=seen: seen.extend(groups), **{n: v for n, v in SMALL.items() if "study" not in n},
        )  # fmt: skip
        prompts = [t.contexts[0].prefix.tolist() for g in seen for t in g.trajectories]
        assert prompts == [expected] * 4
        kind = str if isinstance(prompt, str) else list
        assert {(type(p), type(c)) for p, c in asked} == {(kind, kind)}  # the form of the data, as before
        assert asked[0][0] == prompt


def test_cut_answers_are_exported_only_if_asked(home, capsys):
    """The built-in model ends most sums after 6 tokens or more; with 6 at most some answers are cut, some are not."""
    small = {**SMALL, "setting__max_tokens": 6, "setting__prompts": 4, "setting__group": 8}
    run = gradus.train("grpo", "arithmetic", steps=1, run=home / "cut-answers", **small)
    rows = run.rollouts().select(["ended", "completion"]).to_pylist()
    texts = {row["completion"] for row in rows if row["ended"] == "length"} - {row["completion"] for row in rows if row["ended"] == "stop"}
    cut = [row["ended"] for row in rows].count("length")
    assert 0 < cut < len(rows)
    assert main(["export", str(home / "cut-answers"), str(home / "whole.jsonl"), "--as", "sft", "--at-least", "0"]) == 0
    assert f"left out: {cut} answers with a reward of 0 or more that a limit on length or turns cut; --include-cut" in capsys.readouterr().err
    taken = gradus.export(home / "cut-answers", home / "all.jsonl", form="sft", at_least=0, include_cut=True)
    assert "left out" not in capsys.readouterr().err
    answers = [
        {json.loads(line)["messages"][-1]["content"] for line in path.read_text().splitlines()} for path in (home / "whole.jsonl", taken)
    ]
    assert answers[0]
    assert not answers[0] & texts
    assert answers[1] & texts
    for form in ("model", "rollouts"):
        with pytest.raises(UserError, match="--include-cut works only with --as sft or --as preference"):
            gradus.export(home / "cut-answers", home / "none.parquet", form=form, include_cut=True)
