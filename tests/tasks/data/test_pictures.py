"""Pictures of data files: every form gives the same media; a bad picture is a bad row with file, line and remedy."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from gradus.api import train
from gradus.checks.data import check_same_pictures
from gradus.tasks.data.loaders import load_task_file
from gradus.tasks.data.pictures import decoded
from gradus.types import Key, Problem, UserError
from gradus.types.media import Media, printed
from gradus.types.reads import pictures_of
from tests.pictures import media

PIXELS = media(200).array


def file_of(pixels: np.ndarray = PIXELS, form: str = "PNG", **more: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **more)
    return out.getvalue()


def uri(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


def written(folder: Path, rows: list[dict[str, Any]], name: str = "d.jsonl") -> Path:
    (folder / "pictures").mkdir(exist_ok=True)
    for colour in range(4):
        (folder / "pictures" / f"{colour}.png").write_bytes(file_of(media(colour).array))
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / name


def problems(path: Path, **options: Any) -> list[Problem]:
    task = load_task_file(path, **options)
    sources = (task.source, task.held_out)
    return sorted((p for s in sources for p in s.draw(range(s.size or 0), None, Key())), key=lambda p: p.id)


def rows(*values: Any, column: str = "images", prompt: Any = "which?") -> list[dict[str, Any]]:
    return [{"prompt": f"{prompt} {i}" if isinstance(prompt, str) else prompt, "answer": "a", column: value} for i, value in enumerate(values)]


def laid(problem: Problem) -> str:
    """The content of all messages, pictures by their colour."""
    out = ""
    for m in problem.messages:
        parts = m["content"] if isinstance(m["content"], tuple) else ({"type": "text", "text": m["content"]},)
        out += "|" + "".join(f"<{p['media'].array[0, 0, 0]}>" if "media" in p else p["text"] for p in parts)
    return out


def test_every_form_of_a_picture_gives_the_same_media(tmp_path: Path) -> None:
    data = file_of(media(1).array)
    forms = ["pictures/1.png", str(tmp_path / "pictures/1.png"), uri(data), base64.b64encode(data).decode(), {"path": "pictures/1.png", "bytes": None}]
    path = written(tmp_path, rows(*[[form] for form in forms], forms[0]))
    assert [p.media for p in problems(path)] == [(media(1),)] * 6
    assert [laid(p) for p in problems(path)][:2] == ["|<1>which? 0", "|<1>which? 1"]
    assert "images" not in problems(path)[0].meta


def test_bytes_of_a_parquet_file_and_of_an_image_feature(tmp_path: Path) -> None:
    table = [{"prompt": f"p {i}", "answer": "a", "image": {"bytes": file_of(media(i).array), "path": None}} for i in range(3)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), tmp_path / "d.parquet")
    assert [p.media for p in problems(tmp_path / "d.parquet")] == [(media(i),) for i in range(3)]


def test_a_data_set_of_the_package_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"prompt": datasets.Value("string"), "images": datasets.Sequence(datasets.Image())})
    made = {"prompt": ["a", "b", "a"], "images": [[Image.fromarray(media(i).array)] for i in range(3)]}
    datasets.Dataset.from_dict(made, features=features).save_to_disk(str(tmp_path / "saved"))
    found = problems(tmp_path / "saved")
    assert [p.media for p in found] == [(media(i),) for i in range(3)]  # equal prompts with other pictures are other rows


def test_places_in_messages_and_in_text(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "or"}, {"type": "image"}]}]
    two = ["pictures/1.png", "pictures/2.png"]
    given = [
        {"prompt": chat, "images": two},
        {"prompt": [{"role": "user", "content": "bare"}], "images": two},
        {"prompt": [{"role": "user", "content": "<image>is not <image>?"}], "images": two},
        {"prompt": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "pictures/3.png"}}, {"type": "text", "text": "x"}]}]},
        {"prompt": [{"role": "user", "content": [{"type": "image", "image": "pictures/0.png"}]}]},
        {"prompt": [{"role": "user", "content": [{"type": "text", "text": "only "}, {"type": "text", "text": "text"}]}]},
    ]
    found = [laid(p) for p in problems(written(tmp_path, given))]
    assert found == ["|s|<1>or<2>", "|<1><2>bare", "|<1>is not <2>?", "|<3>x", "|<0>", "|only text"]


def test_a_row_without_pictures_stays_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, [{"prompt": "a <image> b", "answer": 1, "image": "ubuntu:22.04"}, {"prompt": "c", "answer": 2, "images": []}])
    one, two = problems(path)
    assert (one.text, one.meta["image"], two.text) == ("a <image> b", "ubuntu:22.04", "c")


def test_text_prompts_with_pictures_are_never_raw(tmp_path: Path) -> None:
    path = written(tmp_path, rows(["pictures/1.png"], ["pictures/2.png"]))
    assert [p.text for p in problems(path)] == [None, None]
    with pytest.raises(UserError, match=r"d\.jsonl: the prompts have pictures, which need a chat template; leave out --task\.prompt raw"):
        load_task_file(path, prompt="raw")


BAD = "cannot be read"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"images": ["pictures/none.png"]}, '"images" names the picture pictures/none.png, but there is no file'),
        ({"images": ["d.jsonl"]}, '"images" contains the picture d.jsonl, which cannot be read: it is not a picture, or it is damaged'),
        ({"images": [uri(file_of()[:40])]}, '"images" contains the picture data:image/png;base64,'),
        ({"images": [uri(b"")]}, BAD),
        ({"images": ["data:image/png;base64,$$$"]}, BAD),
        ({"images": [7]}, "contains a number in place of a picture"),
        ({"images": [""]}, "contains text in place of a picture"),
        ({"images": ["https://a.b/c.png"]}, "names the picture https://a.b/c.png on the network; save the picture, and name its file"),
        ({"prompt": [{"role": "user", "content": [{"type": "image"}]}]}, 'has 1 places for pictures (parts {"type": "image"}), but the row has 0'),
        ({"prompt": "<image> <image>", "images": ["pictures/1.png"]}, "has 2 places for pictures (<image>), but the row has 1 pictures"),
        ({"prompt": [{"role": "user", "content": [{"type": "sound"}]}]}, "a part of \"content\" has the type 'sound'"),
        ({"prompt": [{"role": "system", "content": "a"}], "images": ["pictures/1.png"]}, "has no user message for the pictures"),
    ],
)
def test_a_bad_picture_is_a_bad_row_with_its_line(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    chat = isinstance(row.get("prompt"), list)
    good = [{"prompt": [{"role": "user", "content": f"g {i}"}] if chat else f"g {i}"} for i in range(3)]
    path = written(tmp_path, [*good, {"prompt": "p", **row}])
    with pytest.raises(UserError) as error:
        load_task_file(path)
    assert f"{path}, line 4: " in str(error.value)
    assert said in str(error.value)
    task = load_task_file(path, bad_rows=0.5)
    assert [bad.place for bad in task.source.bad] == ["line 4"]  # type: ignore[attr-defined]


def test_a_picture_is_turned_and_put_on_white_as_it_is_shown() -> None:
    sides = np.zeros((1, 2, 3), np.uint8)
    sides[0, 1] = 255
    exif = Image.Exif()
    exif[274] = 6  # turn by a quarter
    assert decoded(file_of(sides, exif=exif)).array[:, 0, 0].tolist() == [0, 255]
    clear = io.BytesIO()
    Image.new("RGBA", (1, 1), (9, 9, 9, 0)).save(clear, "PNG")
    assert decoded(clear.getvalue()).array.tolist() == [[[255, 255, 255]]]
    grey = io.BytesIO()
    Image.fromarray(np.full((1, 1), 0x8000, np.uint16)).save(grey, "PNG")
    assert decoded(grey.getvalue()) == Media("image", np.full((1, 1, 3), 128, np.uint8))
    assert printed({"media": decoded(file_of())}) == f"[image 3x2 {media(200).digest[:8]}]"


def test_a_bomb_is_a_bad_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 4)
    with pytest.raises(ValueError, match="exceeds limit of 4 pixels"):
        decoded(file_of())


def test_a_changed_picture_is_refused_at_resume(tmp_path: Path) -> None:
    path = written(tmp_path, rows(*[[f"pictures/{i}.png"] for i in range(3)]))

    class Folder:
        path = "run"
        due = pictures_of(load_task_file(written(tmp_path, rows(*[[f"pictures/{i}.png"] for i in range(3)]))))

        def provenance(self) -> dict[str, Any]:
            return {"pictures": self.due}

    check_same_pictures(load_task_file(path), Folder())
    (tmp_path / "pictures" / "1.png").write_bytes(file_of(media(77, 5, 5).array))
    with pytest.raises(UserError, match="the pictures of task d differ from the pictures at the start of the run run, so"):
        check_same_pictures(load_task_file(path), Folder())


def test_a_model_of_text_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    path = written(tmp_path, rows(*[[f"pictures/{i}.png"] for i in range(3)]))
    with pytest.raises(UserError, match=r"the data of task d shows pictures, but the model .* reads text; name a model that reads pictures"):
        train("grpo", str(path), run=tmp_path / "run", steps=1)
    assert not (tmp_path / "run").exists()
