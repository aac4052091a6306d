import json

import pytest

from gradus.runtime.user_code import load_object
from gradus.tasks.data.loaders import is_data, load_task, load_task_file, options_of
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
    with pytest.raises(UserError, match="holds one prompt only, in 2 rows; give at least two"):
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
        ("arithmetic,,countdown", "has an empty place between its commas"),
        ("arithmetic,arithmetic", "holds arithmetic twice"),
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
    assert load_task("openai/sums/main", {}).source.size == 2
    assert asked == [("openai/sums", "main")]
    with pytest.raises(UserError, match="the data set who/absent cannot be loaded: Dataset 'who/absent' doesn't exist; check the name"):
        load_task("who/absent", {})


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(UserError, match=r'pip install "gradus\[datasets\]"'):
        load_task("owner/name", {})


def test_every_split_is_checked(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.DatasetDict(dev=datasets.Dataset.from_list(sums(1)), rest=datasets.Dataset.from_list(sums(2))).save_to_disk(tmp_path / "odd")
    with pytest.raises(UserError, match=r"has no split train \(it has dev, rest\)"):
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
    names = {"prompt_column", "answer_column", "held_out", "name", "verify", "bad_rows", "isolation", "repeats"}
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
