"""Environments with many turns, from the package `verifiers`. The package's own `run` plays the game; the replies of its agent are the player's actions.

`Env.run(task, agents)` conducts an exchange with an agent: `await exchange.turn(message)` gives a message and waits for the reply. Here a call of `turn`
returns control to the episode. The message of the call is the observation, and the next action is the reply.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from gradus.tasks.packages import imported
from gradus.tasks.packages.verifiers_traces import add, messages_of, text_of, trace_of
from gradus.types import Key, Message, Problem, UserError
from gradus.types.parts import Turn, World


@dataclass(frozen=True, eq=False)
class Exchange:
    """Plays an environment of verifiers with one agent."""

    rows: Any
    loaded: Any  # the environment and the name of its agent

    def start(self, problem: Problem, key: Key, world: World) -> Conversation:
        return Conversation(self.loaded, self.rows.all[int(problem.meta["number"])])


class Handover:
    """The point where the environment waits for the agent's reply to `message`. If the reply answers the prompt of the task, `message` is None."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def __await__(self) -> Generator[Any, Any, str]:
        reply = yield self
        return str(reply)


class Conversation:
    """One episode: a run of the environment that stops at every reply."""

    def __init__(self, loaded: Any, task: Any) -> None:
        self.traces: list[Any] = []
        self.loaded, self.task = loaded, task
        self.work = self._run()
        found = self.work.send(None)
        while found is None:  # the environment waits for other work, not for the agent
            found = self.work.send(None)
        if not isinstance(found, Handover):
            self.work.close()
            raise UserError(
                f"the environment {loaded.name} of the package verifiers waits before its first turn, which is not supported; its method "
                "run must call turn() before it waits"
            )
        self.first = Turn("" if found.message is None else observation_of(found.message))

    async def step(self, action: str) -> Turn:
        """Returns the environment's next message. At the end of the game, the turn's reward is the sum of the weighted rewards."""
        found = await Until(self.work, action)
        if found is not None:
            return Turn(observation_of(found.message))
        return Turn("", sum(trace.reward for trace in self.traces), terminated=True)

    async def _run(self) -> None:
        vf = imported("verifiers.v1", "verifiers")
        env, task = self.loaded.env, self.task
        agents = Agents(self.loaded.role, Agent(self))
        await env.setup(agents)
        await env.run(task, agents)
        if not self.traces:
            raise ValueError(f"{type(env).__name__}.run() ran no agent; it must run the agent of its role")
        data = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        await env.finalize(task, vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=data, traces=self.traces))


class Until:
    """Runs a coroutine up to its next `Handover`. The awaited result is this handover, or None if the coroutine has ended."""

    def __init__(self, work: Coroutine[Any, Any, None], reply: str) -> None:
        self.work, self.reply = work, reply

    def __await__(self) -> Generator[Any, Any, Handover | None]:
        sent: Any = self.reply
        raised: BaseException | None = None
        while True:
            try:
                found = self.work.send(sent) if raised is None else self.work.throw(raised)
            except StopIteration:
                return None
            if isinstance(found, Handover):
                return found
            sent = raised = None
            try:
                sent = yield found  # a future of the event loop
            except BaseException as error:
                raised = error


class Agents:
    """The agents of an environment. Each agent is an attribute with the name of its role. There is one agent, and the player writes its replies."""

    def __init__(self, role: str, agent: Agent) -> None:
        setattr(self, role, agent)


class Agent:
    """The agent of one episode, with the interface of an agent of verifiers."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.trainable = True

    async def run(self, task: Any, **_: Any) -> Any:
        """Asks for one reply to the task's prompt. Returns the judged trace."""
        async with self.interaction(task) as exchange:
            await exchange.turn()
        return exchange.trace

    def interaction(self, task: Any, **_: Any) -> Interaction:
        """Returns an exchange that goes turn by turn. After the last turn, the task's rewards judge the exchange."""
        return Interaction(task, self.conversation)


class Interaction:
    """An exchange with the agent: `turn` gives a message and waits for the reply."""

    def __init__(self, task: Any, conversation: Conversation) -> None:
        self.task, self.conversation, self.over = task, conversation, False
        loaded, data = conversation.loaded, task.data
        given = messages_of(data) if data.prompt is not None or data.system_prompt else ()
        self.trace = trace_of(task, given, role=loaded.role)
        self.trace.is_completed = False
        self.opened = data.prompt is None  # a prompt is answered before the first message
        self.most = getattr(loaded.env.config, loaded.role).max_turns

    async def __aenter__(self) -> Interaction:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        """Judges the exchange, unless an error ends it."""
        if kind is None:
            self.trace.stop("user_closed")
            await self.task.score(self.trace)
            self.trace.ok = True
            self.conversation.traces.append(self.trace)

    async def turn(self, message: Any = None) -> Any:
        """Returns the agent's reply as a `Segment`. If a limit or a stop condition has ended the exchange, the segment is empty and marked as
        terminated.
        """
        vf = imported("verifiers.v1", "verifiers")
        if self.over:
            raise RuntimeError("the exchange is over, because the run ended; read interaction.trace")
        if (message is None) is self.opened:
            raise ValueError("call turn() without a message only in the first turn of a task with a prompt; give a message in every other turn")
        if await self._ended():
            self.over = True
            return vf.Segment(messages=[], terminated=True)
        for given in messages_in(message):
            add(self.trace, given)
        self.opened = True
        reply = await Handover(message)
        add(self.trace, {"role": "assistant", "content": reply}, sampled=True)
        return vf.Segment(messages=[self.trace.nodes[-1].message])

    async def _ended(self) -> bool:
        """Returns whether the limit of turns or a stop condition of the task ends the exchange here."""
        from verifiers.v1.session import call_hook

        vf = imported("verifiers.v1", "verifiers")
        if self.most is not None and self.trace.num_turns >= self.most:
            self.trace.stop("max_turns")
            return True
        for stop in self.task.hooks("stop"):
            if await call_hook(stop, {vf.Trace: self.trace}):
                self.trace.stop(stop.__name__)
                return True
        return False


def messages_in(message: Any) -> list[Mapping[str, Any]]:
    """Returns a message of an environment (text, or messages) as chat messages."""
    if message is None:
        return []
    return [{"role": "user", "content": message}] if isinstance(message, str) else [{"role": m.role, "content": text_of(m)} for m in message]


def observation_of(message: Any) -> str | tuple[Message, ...]:
    """Returns a message of an environment as an observation."""
    return message if isinstance(message, str) else tuple(messages_in(message))
