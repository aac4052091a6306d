"""A link to a worker in an actor of Ray. The actor carries bytes only: the messages and the answers are as in every other link.

Ray starts each process, and chooses a machine of the cluster for it. The package ray is imported only when a run connects to Ray.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gradus.systems.link import Closed, Message, answer, framed, unframed
from gradus.types import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from gradus.types.systems import Cluster


class Endpoint:
    """The actor: a worker that answers bytes with bytes."""

    def __init__(self, role: str) -> None:
        from gradus.systems.serve import worker_of

        self.worker = worker_of(role)

    def ask(self, message: bytes) -> bytes:
        """Answers one message."""
        return framed(*answer(self.worker, *unframed(message)))

    def process(self) -> int:
        """Returns the id of the actor's process."""
        return os.getpid()


class RayLink:
    """A link to one actor. `options`: the resources that Ray reserves for the actor. `patience`: the number of seconds to wait for these resources.

    Raises UserError if Ray has no free resources for the actor in this time.
    """

    def __init__(self, role: str, options: Mapping[str, Any], patience: float) -> None:
        self._ray = imported()
        # Ray must not restart an actor, because a restarted actor has no players, and no error reports this. A new actor gets the first messages again
        self._actor = self._ray.remote(Endpoint).options(max_restarts=0, max_task_retries=0, **options).remote(role)
        self._owed: deque[Any] = deque()
        self.alive, self.ending = True, ""
        started = self._actor.process.remote()
        if not self._ray.wait([started], timeout=patience)[0]:
            self.close()
            offered = {name: amount for name, amount in sorted(self._ray.cluster_resources().items()) if ":" not in name and "memory" not in name}
            raise UserError(
                f"Ray found no place for a process with {dict(options)} within {patience:g} seconds; the cluster has {offered}. Add machines, or lower "
                "--system.workers, --system.environments, --system.verifiers or the resources of each process"
            )

    def send(self, document: Mapping[str, Any], arrays: Mapping[str, Tensor] | None = None) -> None:
        """See `gradus.systems.link.Link`."""
        if not self.alive:
            raise Closed("the actor is closed")
        with self._noticing():
            self._owed.append(self._actor.ask.remote(framed(document, arrays)))

    def receive(self, timeout: float | None = None) -> Message:
        """See `gradus.systems.link.Link`."""
        with self._noticing():
            if not self._ray.wait([self._owed[0]], timeout=timeout)[0]:
                raise TimeoutError(f"no answer within {timeout:g} seconds")
            return unframed(self._ray.get(self._owed.popleft()))

    def close(self) -> None:
        self.alive = False
        with suppress(Exception):  # Ray may have ended
            self._ray.kill(self._actor, no_restart=True)

    def _noticing(self) -> _Noticing:
        return _Noticing(self)


class _Noticing:
    """A context manager. If an actor or Ray ends within it, the exception becomes Closed."""

    def __init__(self, link: RayLink) -> None:
        self.link = link

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if error is not None and isinstance(error, self.link._ray.exceptions.RayError):
            self.link.alive = False
            self.link.ending = f"has ended ({cause_of(str(error))})"
            raise Closed(str(error)) from error


def cause_of(text: str) -> str:
    """Returns the cause of an actor's end from Ray's message, in one line: the worker's exit type, or else the first sentence."""
    for line in text.splitlines():
        if "exit type: " in line:
            return f"Ray: {line.partition('exit type: ')[2].split()[0]}"
    return f"Ray: {text.strip().partition('. ')[0].splitlines()[0]}" if text.strip() else "Ray gives no reason"


class Connected:
    """The connection of a run to Ray. A call starts a process of a role and returns the link to it.

    If `address` is None, Ray starts on this machine, with a new secret, and ends with the run. Ray's own statistics are off.
    """

    def __init__(self, system: Cluster) -> None:
        if system.address is None and "ray" not in sys.modules:
            # without the secret, any process that reaches Ray's ports could give Ray work; the package ray reads these variables at its import
            os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)})
        ray, self.system = imported(), system
        self.ours = not ray.is_initialized()
        if not self.ours:
            return
        how: dict[str, Any] = {"address": system.address, "log_to_driver": True, "logging_level": "ERROR"}
        if system.address is None:
            how |= {"include_dashboard": False, "address": "local"}
        try:
            ray.init(**how)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = "Ray does not start on this machine" if system.address is None else f"there is no Ray cluster at {system.address}"
            raise UserError(f"{where}: {str(error).strip().splitlines()[0]}; start Ray with ray start, and give the address with --system.address") from error

    def __call__(self, role: str) -> RayLink:
        return RayLink(role, self.options(role), self.system.patience)

    def options(self, role: str) -> dict[str, Any]:
        """Returns the resources that Ray reserves for a process of this role. Ray spreads the processes over the machines."""
        system = self.system
        if role == "players":
            found, resource = {"num_cpus": system.worker_cpus, "num_gpus": system.worker_gpus}, system.worker_resource
        else:
            found, resource = {"num_cpus": system.pool_cpus, "num_gpus": 0.0}, system.pool_resource
        return {**found, "scheduling_strategy": "SPREAD", **({"resources": {resource: 1.0}} if resource else {})}

    def close(self) -> None:
        """Disconnects from Ray. If this run has started Ray, ends it."""
        if self.ours:
            imported().shutdown()


def imported() -> Any:
    """Returns the package ray, without its statistics. Raises UserError if the package is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError("system Cluster needs the package ray; install it with: pip install 'gradus[ray]'") from error
    return ray
