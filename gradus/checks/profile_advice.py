"""The largest gaps of a profile, each with advice. The advice depends only on the name of the part and on the numbers of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradus.runtime.activity import ENVIRONMENT, JUDGING, OTHER, SAMPLING, SAVING, SCORING, UPDATING

MOST = 2  # largest number of gaps in the advice
LEAST = 0.05  # a gap below this share of the step gets no advice
FEW_ROWS = 64  # if a decoding step has fewer rows, more answers at a time cost little
CLOSE = 0.6  # above this share of the peak, only less work or another machine helps
_SMALL = "Attention, norms and activations are not in the floor; in a small model they take much of the time."


def gaps(rows: Sequence[Any]) -> list[Any]:
    """Returns the rows without parts, sorted by their gap to the floor. The largest gap is first."""
    inner = {row.name.partition("/")[0] for row in rows if "/" in row.name}
    return sorted((row for row in rows if row.name not in inner), key=lambda row: -row.gap)


def advice(rows: Sequence[Any], whole: float, recipe: Any, device: str) -> tuple[str, ...]:
    """Returns a sentence or two for each of the largest gaps. `whole`: the seconds of a step."""
    found = [row for row in gaps(rows) if whole > 0 and row.gap / whole >= LEAST][:MOST]
    return tuple(f"{_said(row, whole)} {_remedy(row, recipe, device)}" for row in found)


def _said(row: Any, whole: float) -> str:
    name = row.name.replace("/", ", ")
    if row.floor is None:
        return f"{name}: {row.seconds:.3g} s of {whole:.3g} s per step ({row.seconds / whole:.0%}); this part has no floor."
    return f"{name}: {row.seconds:.3g} s per step, {row.seconds / row.floor:.1f} times the floor of {row.floor:.3g} s."


def _micro_batch(rows: float, setting: Any) -> str:
    """Returns a sentence about the rows of a micro-batch."""
    told = f"A micro-batch has {rows:,.0f} rows on average"
    if rows >= setting.micro_tokens / 2:
        return f"{told}, near the limit --micro_tokens {setting.micro_tokens}; a higher limit may use the machine better."
    return f"{told}, far below the limit --micro_tokens {setting.micro_tokens}; more answers per mini-batch (--prompts, --group) may use the machine better."


def _precision(setting: Any, gpu: bool) -> str:
    recompute = " --recompute true computes each forward pass twice." if setting.recompute else ""
    return recompute + (" On a GPU, --precision bfloat16 is faster." if gpu and setting.precision == "float32" else "")


def _remedy(row: Any, recipe: Any, device: str) -> str:
    gpu, per_call, setting = device != "cpu", row.tokens / row.calls if row.calls else 0.0, recipe.setting
    reached = row.floor / row.seconds if row.floor and row.seconds else 0.0
    less = "This part is close to the peak of the machine. Only less work helps (shorter answers, fewer samples, a smaller model), or a faster machine."
    match row.name:
        case name if reached >= CLOSE:
            return less
        case name if name == f"{SAMPLING}/decode" and per_call < FEW_ROWS:
            took, floor = (1000 * value / row.calls for value in (row.seconds, row.floor or 0.0))
            return (
                f"A decoding step has {per_call:.0f} rows on average and takes {took:.2g} ms; its products need {floor:.2g} ms. More rows share the fixed "
                "costs of a step: a larger --prompts or --group."
            )
        case name if name == f"{SAMPLING}/decode" and gpu:
            return "An engine with paged attention samples faster: --players.policy.engine VLLM."
        case name if name == f"{SAMPLING}/decode":
            return "Attention to the tokens so far is not in the floor; it grows with the length of the answers (--max_tokens)."
        case name if name == f"{SAMPLING}/prefill":
            return "A prompt is read once for its whole group. Shorter prompts or a larger --group in place of more --prompts need less time."
        case name if name in (SAMPLING, f"{SAMPLING}/rest"):
            return "This time goes to the choice of tokens, to texts and to the model's own loop. More answers at a time (--prompts, --group) need less time each."
        case name if name.startswith(JUDGING):
            return "A faster reward function helps. With --system Ahead, the judging of the next step runs while this step updates."
        case name if name == ENVIRONMENT:
            return "A faster environment helps, or more episodes at a time (--prompts, --group). With --system Ahead, the next step's episodes run early."
        case name if name.startswith(SCORING):
            return (
                f"These passes read log-probabilities, for example those of the reference model. {_micro_batch(per_call, setting)} A recipe that reads fewer "
                "signals needs fewer passes."
            )
        case name if name == f"{UPDATING}/optimiser":
            return "Fewer and larger mini-batches need fewer optimiser steps."
        case name if name.startswith(f"{UPDATING}/") and name != f"{UPDATING}/rest":
            return f"{_micro_batch(per_call, setting)}{_precision(setting, gpu)} {_SMALL}"
        case name if name.startswith(UPDATING):
            return "This time goes to the loss and to the handling of batches. With larger micro-batches (--micro_tokens), this time is shorter."
        case name if name == SAVING:
            return f"A checkpoint is written every {setting.save_every} steps; a larger --save_every writes fewer."
        case name if name == OTHER:
            return "This time goes to the curriculum, the selection, the credit and the records of the run."
    return less
