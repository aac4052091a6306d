"""The Hugging Face Hub: whether it answers, and the commands that download its models and data sets."""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradus.types import UserError

WAIT = 5.0  # seconds to wait for the first answer of the hub
_MODEL = re.compile(r"([\w-]+/)?[\w.-]*\w")  # matches owner/name, or a name alone


def answers(seconds: float = WAIT) -> bool:
    """Whether the hub answers within `seconds`; False if HF_HUB_OFFLINE switches its client off.

    Without this test, the hub's client would try to connect for half a minute or longer. The request of this test uses the client's connection, with its
    proxies and HF_ENDPOINT. The request runs in a thread, because the look-up of a host name has no time limit.
    """
    hub, constants = importlib.import_module("huggingface_hub"), _constants()
    if constants.HF_HUB_OFFLINE:
        return False
    answered = threading.Event()

    def ask() -> None:
        try:
            hub.get_session().head(constants.ENDPOINT, timeout=seconds)
        except Exception:  # several libraries raise their own errors, and all of them mean that there is no answer
            return
        answered.set()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return answered.is_set()


@contextmanager
def offline() -> Iterator[None]:
    """Switches the hub's client and the package `datasets` to their caches on the disk, so that they do not wait for the network."""
    configs = [_constants(), importlib.import_module("datasets.config")]
    before = [config.HF_HUB_OFFLINE for config in configs]
    for config in configs:
        config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for config, value in zip(configs, before, strict=True):
            config.HF_HUB_OFFLINE = value


def silence() -> str:
    """Returns the reason why the hub is not available, as part of a sentence."""
    return "HF_HUB_OFFLINE switches the Hugging Face Hub off" if _constants().HF_HUB_OFFLINE else "the Hugging Face Hub does not answer"


def data_set(name: str) -> str:
    """Returns the command that saves a data set, and the option that then names the data set as a task.

    `name` is owner/name, owner/name/configuration, or a name alone.
    """
    owner, *rest = name.split("/")
    arguments = [f"{owner}/{rest[0]}", *rest[1:]] if rest else [owner]
    target = (rest or [owner])[0]
    listed = ", ".join(f"'{argument}'" for argument in arguments)
    return f"python -c \"from datasets import load_dataset; load_dataset({listed}).save_to_disk('{target}')\", then give --task ./{target}"


def model(name: str) -> str | None:
    """Returns the folder of a model in the hub's cache, or the command that downloads the model; None for a path."""
    if not _MODEL.fullmatch(name):
        return None
    if (cached := _cached(name)) is not None:
        return f"the hub's cache contains a copy: give {cached} in place of the name"
    target = Path(name).name
    then = "start again" if target == name else f"give {target} in place of the name"
    return f"fetch it first: hf download {name} --local-dir {target}, then {then}"


def no_folder(name: str) -> UserError:
    """Returns the error for a missing folder of a model or of a run."""
    way = model(name)
    hint = f"; for a model of the Hugging Face Hub, {way}" if way else ""
    return UserError(f'there is no folder "{name}"; give the folder of a model, or of a run (the one named with --run){hint}')


def _cached(name: str) -> Path | None:
    """Returns the newest copy of a model in the hub's cache."""
    home = Path(os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    found = [file.parent for file in cache.glob(f"models--{name.replace('/', '--')}/snapshots/*/config.json")]
    return max(found, key=lambda folder: folder.stat().st_mtime, default=None)


def _constants() -> Any:
    return importlib.import_module("huggingface_hub.constants")

