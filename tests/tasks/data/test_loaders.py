import importlib
import json
from dataclasses import replace

import pytest

from gradus.runtime import hub
from gradus.runtime.user_code import load_object
from gradus.tasks.data.loaders import is_data, load_task, load_task_file, options_of
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.training.plan import load_task as load_task_by_words
from gradus.types import Key, UserError
from gradus.types.parts import Task


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def sums(*numbers):
    return [{"prompt": f"{n} + 1 =", "answer": n + 1} for n in numbers]


def everything(source):
    return source.draw(range(source.size), None, Key())


def test_a_file_becomes_a_task_with_a_tenth_held_out(tmp_path):
    task = load_task_file(jsonl(tmp_path / "sums.jsonl", sums(*range(40))))
    assert (task.name, task.source.size, task.held_out.size) == ("sums", 36, 4)
    training, held = everything(task.source), everything(task.held_out)
    assert {p.id for p in training + held} == {f"sums/{n}" for n in range(40)}
    assert [p.answer for p in training] == sorted(p.answer for p in training)  # the file's order
    assert task.verify(training[0], f"answer: {training[0].answer}") == 1.0
    assert task.verify(training[0], "answer: 99") == 0.0
    assert "36 problems of" in task.about
    assert "4 prompts held out by content" in task.about


def forms(task):
    """The forms of the problems for training and for evaluation."""
    return [
        {"raw" if p.text is not None else "wrapped" if p.plain else "chat" for p in everything(source)} for source in (task.source, task.held_out)
    ]


def chats(*numbers):
    return [{"prompt": [{"role": "user", "content": f"{n} + 1 ="}], "answer": n + 1} for n in numbers]


def test_text_prompts_are_raw_unless_the_task_says_chat(tmp_path):
    path = jsonl(tmp_path / "sums.jsonl", sums(*range(20)))
    assert forms(load_task_file(path)) == forms(load_task_file(path, prompt="raw")) == [{"raw"}, {"raw"}]
    wrapped = load_task_file(path, prompt="chat")
    assert forms(wrapped) == [{"wrapped"}, {"wrapped"}]
    raw = load_task_file(path)
    assert [p.id for p in everything(raw.held_out)] == [p.id for p in everything(wrapped.held_out)]  # one split for both forms
    assert [p.question for p in everything(raw.source)] == [p.question for p in everything(wrapped.source)]
    assert forms(replace(raw, system="Be short.")) == [{"wrapped"}, {"wrapped"}]
    assert forms(load_task_by_words(path, {"system": "Be short."})) == [{"wrapped"}, {"wrapped"}]
    assert forms(replace(raw, environment=frozen_lake().environment)) == [{"wrapped"}, {"wrapped"}]
    assert forms(load_task_by_words(path, {"prompt": "chat"})) == [{"wrapped"}, {"wrapped"}]


def test_chat_prompts_stay_chat(tmp_path):
    path = jsonl(tmp_path / "chats.jsonl", chats(*range(20)))
    assert forms(load_task_file(path)) == forms(load_task_file(path, prompt="chat")) == [{"chat"}, {"chat"}]
    texts = jsonl(tmp_path / "texts.jsonl", sums(30, 31))
    assert forms(load_task_file(path, held_out=texts)) == [{"chat"}, {"wrapped"}]  # one form for training and evaluation
    assert forms(load_task_file(texts, held_out=path)) == [{"wrapped"}, {"chat"}]


@pytest.mark.parametrize(
    ("spec", "options", "sentence"),
    [
        ("chats.jsonl", {"prompt": "raw"}, "chats.jsonl: the prompts are lists of chat messages, which need a chat template"),
        ("sums.jsonl", {"prompt": "raw", "system": "Hi"}, "task sums has a system message, which does not work with raw prompts"),
        ("sums.jsonl", {"prompt": "ra"}, 'unknown value "ra" (did you mean raw?)'),
        ("arithmetic", {"prompt": "chat"}, "--task.prompt is only for prompts of a file or a data set, but task arithmetic writes its prompts itself"),
        ("arithmetic:1,chats.jsonl:1", {"prompt": "raw"}, "--task.prompt raw is only for text prompts of a file or a data set"),
        ("sums.jsonl,arithmetic", {"prompt": "raw", "system": "Hi"}, "has a system message, which does not work with raw prompts"),
        ("sums.jsonl,arithmetic", {"held_out": "x"}, "does not accept options (held_out)"),
    ],
)
def test_a_form_that_does_not_fit_is_a_sentence(tmp_path, monkeypatch, spec, options, sentence):
    monkeypatch.chdir(tmp_path)
    jsonl(tmp_path / "sums.jsonl", sums(*range(9)))
    jsonl(tmp_path / "chats.jsonl", chats(*range(9)))
    with pytest.raises(UserError) as caught:
        load_task_by_words(spec, options)
    assert sentence in str(caught.value)


def test_the_form_reaches_the_data_in_a_mixture_and_in_a_file_of_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jsonl(tmp_path / "sums.jsonl", sums(*range(20)))
    (tmp_path / "own.py").write_text(
        "from gradus.tasks.data.loaders import load_task_file\n\n\ndef task():\n    return load_task_file('sums.jsonl')\n\n\n"
        "def asked(prompt: str):\n    return load_task_file('sums.jsonl', name=prompt)\n"
    )
    drawn = [load_task_by_words("sums.jsonl:1,arithmetic:1", o).source.draw(range(2), None, Key()) for o in ({}, {"prompt": "chat"})]
    assert [{(p.task, p.text is not None, p.plain) for p in problems} for problems in drawn] == [
        {("sums", True, False), ("arithmetic", False, False)},
        {("sums", False, True), ("arithmetic", False, False)},
    ]
    assert forms(load_task_by_words("own.py:task")) == [{"raw"}, {"raw"}]
    assert forms(load_task_by_words("own.py:task", {"prompt": "chat"})) == [{"wrapped"}, {"wrapped"}]
    assert load_task_by_words("own.py:asked", {"prompt": "mine"}).name == "mine"  # an option of the user's own


def test_duplicates_are_on_one_side(tmp_path):
    task = load_task_file(jsonl(tmp_path / "sums.jsonl", sums(*range(30), *range(30))))
    training = {p.question for p in everything(task.source)}
    held = {p.question for p in everything(task.held_out)}
    assert (len(training), len(held), training & held) == (27, 3, set())
    assert (task.source.size, task.held_out.size) == (27, 3)
    assert load_task_file(tmp_path / "sums.jsonl", repeats="keep").source.size == 54


def test_a_held_out_file_takes_its_prompts_out_of_training(tmp_path):
    held = jsonl(tmp_path / "test.jsonl", sums(7, 3))
    task = load_task_file(jsonl(tmp_path / "train.jsonl", sums(1, 2, 3)), held_out=held)
    assert [p.id for p in everything(task.source)] == ["train/0", "train/1"]
    assert [(p.id, p.task, p.answer) for p in everything(task.held_out)] == [
        ("train/held_out/0", "train", 8),
        ("train/held_out/1", "train", 4),
    ]
    assert "1 rows left out because they are held out too" in task.about
    with pytest.raises(UserError, match=r"every prompt of .* is also in"):
        load_task_file(held, held_out=held)


def test_without_answers_there_is_no_verifier(tmp_path):
    assert load_task_file(jsonl(tmp_path / "a.jsonl", [{"prompt": "x"}, {"prompt": "y"}])).verify is None


def test_one_prompt_cannot_be_split(tmp_path):
    with pytest.raises(UserError, match="has only one prompt, in 2 rows; give at least two prompts"):
        load_task_file(jsonl(tmp_path / "a.jsonl", sums(1, 1)))


def test_specs_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = jsonl(tmp_path / "arithmetic", sums(1, 2))  # a file of the same name as a task: the task wins
    jsonl(tmp_path / "mine.jsonl", sums(1, 2, 3))
    (tmp_path / "code.py").write_text(
        f"from gradus.tasks.data.loaders import load_task_file\ndef task():\n    return load_task_file({str(tmp_path / 'mine.jsonl')!r})\n"
    )
    made = load_task_file("mine.jsonl", name="made")
    named = {"arithmetic": lambda **options: options or made, "other": lambda: load_task_file("mine.jsonl", name="other")}
    assert load_task("arithmetic", named) is made
    assert load_task("arithmetic", named, level=3) == {"level": 3}
    assert load_task("mine.jsonl", named, name="renamed").name == "renamed"
    assert load_task("code.py:task", named).name == "mine"
    assert load_task("arithmetic:3,other", named).name == "made:3,other:1"
    assert load_task("arithmetic:2", named) is made  # a mixture of one
    assert load_task("code.py:task,mine.jsonl:2", named).name == "code.py:task:1,mine.jsonl:2"  # two tasks named mine
    assert data


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("arithmetik", 'unknown task "arithmetik" (did you mean arithmetic?)'),
        ("arithmetic:3,cuntdown:1", 'unknown task "cuntdown" (did you mean countdown?)'),
        ("absent.jsonl", "there is no file absent.jsonl"),
        ("absent.py:task", "there is no file absent.py"),
        (".", "is a folder; give one file"),
        ("arithmetic:0,countdown", "the weight of arithmetic is 0; it must be above 0"),
        ("arithmetic,,countdown", "has no task between two commas"),
        ("arithmetic,arithmetic", "has arithmetic twice"),
    ],
)
def test_what_is_no_task_is_a_sentence(tmp_path, monkeypatch, spec, sentence):
    monkeypatch.chdir(tmp_path)
    jsonl(tmp_path / "a.jsonl", sums(1, 2))
    named = {name: lambda name=name: load_task_file("a.jsonl", name=name) for name in ("arithmetic", "countdown")}
    with pytest.raises(UserError) as caught:
        load_task(spec, named)
    assert sentence in str(caught.value)


def test_a_saved_data_set_is_read_with_its_splits(tmp_path):
    datasets = pytest.importorskip("datasets")
    chat = [{"prompt": [{"role": "user", "content": f"{n} + 1 ="}], "answer": n + 1, "topic": "sums"} for n in range(6)]
    splits = {"train": datasets.Dataset.from_list(chat), "test": datasets.Dataset.from_list(chat[4:])}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "both")
    splits["train"].save_to_disk(tmp_path / "one")
    both = load_task_file(tmp_path / "both")
    assert isinstance(both, Task)
    assert (both.source.size, both.held_out.size) == (4, 2)
    (problem,) = both.held_out.draw([1], None, Key())
    assert (problem.messages, problem.answer, problem.meta["topic"], problem.plain) == (
        ({"role": "user", "content": "5 + 1 ="},),
        6,
        "sums",
        False,
    )
    assert load_task(str(tmp_path / "one"), {}).held_out.size == 1  # six prompts: a tenth, at least one


def test_a_data_set_is_asked_for_by_name_and_configuration(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load_dataset(*names):
        asked.append(names)
        if names[0] == "who/absent":
            raise FileNotFoundError("Dataset 'who/absent'\ndoesn't exist")
        return datasets.DatasetDict(train=datasets.Dataset.from_list(sums(1, 2, 3)))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(hub, "answers", lambda: True)
    assert load_task("openai/sums/main", {}).source.size == 2
    assert asked == [("openai/sums", "main")]
    with pytest.raises(UserError, match="the data set who/absent cannot be loaded: Dataset 'who/absent' doesn't exist; check the name"):
        load_task("who/absent", {})


@pytest.mark.parametrize("off", [True, False])
def test_without_the_hub_a_data_set_comes_from_the_cache_alone(monkeypatch, off):
    datasets = pytest.importorskip("datasets")
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", off)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    found = []

    def load_dataset(*names):
        assert constants.HF_HUB_OFFLINE
        assert datasets.config.HF_HUB_OFFLINE
        if not found:
            raise ConnectionError("Couldn't reach it")
        return found[0]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(UserError) as caught:
        load_task("openai/sums/main", {})
    silence = "HF_HUB_OFFLINE switches the Hugging Face Hub off" if off else "the Hugging Face Hub does not answer"
    command = "from datasets import load_dataset; load_dataset('openai/sums', 'main').save_to_disk('sums')"
    assert str(caught.value) == (
        f"the data set openai/sums/main is not on this disk, and {silence}; run this on a machine with a network: "
        f'python -c "{command}", then give --task ./sums'
    )
    found.append(datasets.DatasetDict(train=datasets.Dataset.from_list(sums(1, 2, 3))))
    assert load_task("openai/sums", {}).source.size == 2


def test_a_bare_name_is_told_with_the_hubs_command():
    with pytest.raises(UserError, match=r"Save a data set of the Hugging Face Hub first: python -c .*load_dataset\('squad'\)"):
        load_task("squad", {})
    with pytest.raises(UserError) as caught:
        load_task("arithmetics", {"arithmetic": None})
    assert "Hub" not in str(caught.value)  # a misspelt task


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UserError, match=r'pip install "gradus\[datasets\]"'):
        load_task("owner/name", {})


def test_every_split_is_checked(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict(dev=datasets.Dataset.from_list(sums(1)), rest=datasets.Dataset.from_list(sums(2))).save_to_disk(tmp_path / "odd")
    with pytest.raises(UserError, match=r"has no split train \(its splits are dev, rest\)"):
        load_task_file(tmp_path / "odd")


def test_answers_may_be_judged_as_mathematics(tmp_path):
    rows = [{"prompt": f"Solve number {n}", "answer": rf"{n}\sqrt{{3}}"} for n in range(2, 6)]
    path = jsonl(tmp_path / "a.jsonl", rows)
    plain, task = load_task_file(path), load_task_file(path, verify="mathematics")
    (problem,) = task.source.draw([0], None, Key())
    n = int(problem.answer[0])
    assert [t.verify(problem, rf"so \boxed{{\sqrt{{{3 * n * n}}}}}") for t in (plain, task)] == [0.0, 1.0]  # n sqrt 3 = sqrt(3 n^2)
    with pytest.raises(UserError, match='unknown verifier "maths" \\(did you mean mathematics'):
        load_task_file(path, verify="maths")


def test_the_options_of_a_task_are_those_of_its_maker(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from gradus.tasks.maths.arithmetic import arithmetic\n\n\ndef task(size: int, kind='plain', odd: 'Nothing' = None):\n"
        "    global got\n    got = (size, kind)\n    return arithmetic()\n\n\nmade = arithmetic()\n"
    )
    assert list(options_of(f"{file}:task", {})) == ["size", "kind", "odd"]
    assert options_of(f"{file}:made", {}) == {}
    names = {"prompt", "format", "prompt_column", "answer_column", "held_out", "name", "verify", "bad_rows", "isolation", "repeats"}
    assert set(options_of("data.jsonl", {})) == names
    assert load_task_by_words(f"{file}:task", {"size": "4", "kind": "5"}).name == "arithmetic"
    assert load_object(f"{file}:got", "value") == (4, "5")
    assert load_task_by_words(f"{file}:made", {"level": "2"}).level == 2
    with pytest.raises(UserError, match=r'--task.size is "many"; it must be a whole number'):
        load_task_by_words(f"{file}:task", {"size": "many"})


def test_what_is_read_from_files_is_known_by_its_name(tmp_path):
    (tmp_path / "folder").mkdir()
    named = {"arithmetic": None}
    assert [is_data(s, named) for s in ("a.jsonl", "owner/name", str(tmp_path / "folder"))] == [True] * 3
    assert [is_data(s, named) for s in ("arithmetic", "a.py:task", "a.jsonl:1,b.csv:2", "arithmetics")] == [False] * 4


def test_a_file_of_python_may_be_the_last_part_of_a_mixture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"prompt": f"{i}+1", "answer": str(i + 1)}) + "\n" for i in range(9)))
    text = "from gradus.tasks.data.loaders import load_task_file\n\ndef task():\n    return load_task_file('p.jsonl', name='mine')\n"
    for name in ("own.py", "a,b.py"):
        (tmp_path / name).write_text(text)
    assert load_task("p.jsonl,own.py:task", {}).name == "p:1,mine:1"
    assert load_task("p.jsonl:3,own.py:task:2", {}).name == "p:3,mine:2"
    assert load_task("a,b.py:task", {}).name == "mine"
