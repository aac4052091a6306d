"""`gradus serve`: a model, or the best model of a run, behind an OpenAI-compatible address on this machine."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from gradus.lab.live import printable
from gradus.types import UserError


def run(
    model_or_run: str | None,
    *,
    task: str | None = None,
    final: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    device: str = "cpu",
    precision: str = "float32",
    max_batch: int = 64,
    api_key: str | None = None,
    log: bool = False,
) -> None:
    """Serves until Ctrl-C. With a task, the sampling settings and the system message of the task are the defaults of every request."""
    from gradus.cli.chat import load
    from gradus.serving.asked import Defaults
    from gradus.serving.server import address, listening, make_server
    from gradus.training.plan import load_task

    made = load_task(task) if task is not None else None
    if made is not None and not made.of_text:
        raise UserError(
            f"task {made.name} is for a generator, not for a language model; name a text task (gradus tasks lists the tasks)"
        )
    defaults = Defaults() if made is None else Defaults(made.sampling, made.system)
    name = "tiny" if model_or_run in (None, "tiny") else Path(str(model_or_run)).resolve().name
    with listening(host, port) as opened:
        model = load(model_or_run, task=task, which="final" if final else "best", device=device, precision=precision)
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
        logging.getLogger("gradus.serve").setLevel(logging.INFO if log else logging.WARNING)

        def ready() -> None:
            print("\n".join(map(printable, welcome(address(opened), name, model, defaults, max_batch, api_key))), flush=True)

        make_server(model, name, rows=max_batch, api_key=api_key, defaults=defaults, ready=ready).run(sockets=[opened])
    print("stopped", file=sys.stderr)


def welcome(url: str, name: str, model: Any, defaults: Any, max_batch: int, api_key: str | None) -> list[str]:
    """The lines that the command prints when it listens."""
    s = defaults.sampling
    limits = {"top_k": s.top_k, "top_p": s.top_p if s.top_p < 1 else 0, "min_p": s.min_p}
    more = "".join(f", {field} {value:g}" for field, value in limits.items() if value)
    stops = f", stop {json.dumps(list(s.stops))}" if s.stops else ""
    header = "" if api_key is None else ' -H "Authorization: Bearer KEY"'
    messages = '[{"role": "user", "content": "12+30"}]'
    return [
        *([model.note] if model.note else []),
        f"{name} on {url}; Ctrl-C ends it",
        f"context {model.context_length} tokens, {max_batch} sequences at once; without other fields: temperature {s.temperature:g}{more}, "
        f"{s.limit} new tokens at most{stops}",
        f"curl {url}/chat/completions{header} -d '{{\"messages\": {messages}}}'",
        f'python: openai.OpenAI(base_url="{url}", api_key="{"none" if api_key is None else "KEY"}")'
        f'.chat.completions.create(model="{name}", messages={messages})',
    ]
