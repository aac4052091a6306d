"""The table of bad input, by subject; tests/test_bad_input.py runs it, docs/mistakes.md is written from it."""

from __future__ import annotations

from tests.bad_input.acting import ACTING
from tests.bad_input.claims import CLAIMS
from tests.bad_input.code import CODE
from tests.bad_input.comparisons import COMPARISONS
from tests.bad_input.contracts import CONTRACTS
from tests.bad_input.data import DATA
from tests.bad_input.models import MODELS
from tests.bad_input.names import NAMES
from tests.bad_input.numbers import NUMBERS
from tests.bad_input.own_parts import OWN_PARTS
from tests.bad_input.parts import PARTS
from tests.bad_input.races import RACES
from tests.bad_input.row import TRAIN, Row
from tests.bad_input.runs import RUNS

__all__ = ["SECTIONS", "TRAIN", "Row"]

SECTIONS: dict[str, list[Row]] = {
    "Names and options": NAMES,
    "Numbers, durations and sizes": NUMBERS,
    "Parts of a recipe": PARTS,
    "Stages, schedules, readers, heads, seats, media, actions": CONTRACTS,
    "Models and worlds": ACTING,
    "Models and devices": MODELS,
    "Data": DATA,
    "Your own code": CODE,
    "Your own parts": OWN_PARTS,
    "Runs": RUNS,
    "Comparisons": COMPARISONS,
    "Claims": CLAIMS,
    "Races": RACES,
}
