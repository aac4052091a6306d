"""Work of all processes of a run at the same time. No process can do these operations alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gradus.runtime.memory import out_of_memory
from gradus.types import UserError

Reply = tuple[dict[str, Any], dict[str, Tensor]]


class Crew(Protocol):
    """The other processes, as the leading process sees them (`gradus.systems.leader.Crew`)."""

    channels: dict[int, Any]
    lost: bool

    @property
    def size(self) -> int: ...

    def ask(self, rank: int, what: str, document: Mapping[str, Any] | None = None, arrays: Mapping[str, Tensor] | None = None) -> None: ...

    def answer(self, rank: int) -> Reply: ...

    def finishing(self) -> AbstractContextManager[None]: ...

    def gone(self) -> UserError | None: ...


@contextmanager
def together(crew: Crew, name: str) -> Iterator[list[int]]:
    """A context in which all processes do the same work for the player `name`. Gives the ranks of the other processes.

    A stop of the run waits for the end of the work. After an error, the processes cannot work together again, because some of them may still wait for the
    others. Raises UserError if there was such an error, if a process has ended, or if memory ran out.
    """
    if crew.lost:
        raise UserError("the processes of this run no longer work together; continue from the last checkpoint with gradus resume")
    with crew.finishing():
        try:
            yield list(crew.channels)
        except BaseException as error:
            crew.lost = True
            if isinstance(error, Exception) and out_of_memory(error):
                raise UserError(
                    f"memory ran out in a pass of {name}, and the processes cannot repeat the pass together; continue from the last checkpoint with "
                    "gradus resume, and give a smaller --micro_tokens"
                ) from error
            if isinstance(error, RuntimeError) and (gone := crew.gone()) is not None:
                raise gone from error
            raise


def group_of(device: str, size: int) -> Any:
    """Connects the processes in a new group, so that messages and common operations do not mix. All processes call this at the same time."""
    gpu = torch.device(device).type == "cuda"
    if gpu:
        torch.cuda.set_device(device)
    return dist.new_group(list(range(size)), backend="nccl" if gpu else "gloo")
