"""The task molecules: write a small molecule for a description. Molecules are chains of atoms in the notation of SELFIES."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

ATOMS = {"C": 4, "N": 3, "O": 2, "S": 2, "F": 1}  # atom -> its bonds
NAMES = {"C": "carbon", "N": "nitrogen", "O": "oxygen", "S": "sulfur", "F": "fluorine"}
_TOKEN = re.compile(r"\[([CNOSF])\]")
_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_MOST = 12  # atoms


def molecules(level: int = 2) -> Task:
    """Makes the task. `level` 1 to 4: chains of 3, 4, 5 and 6 atoms.

    A description names the atoms of a chain from one end, such as "carbon 2 oxygen 1" for [C][C][O]. The answer is in the last `<answer>` tag, or after the last
    "=". Both directions of a chain are the same molecule. A chain is a molecule if no atom has more neighbours than bonds, so fluorine can only be at an end.
    """
    return generated_task(
        "molecules", _molecules, ChainLikeness(), level=level, levels=(1, 4), max_tokens=110, chance=0.0,
        about='molecules of a description: "carbon 2 oxygen 1" -> "<answer>[C][C][O]</answer>"; level: atoms',
    )  # fmt: skip


def _molecules(rng: random.Random, level: int) -> Draft:
    while True:
        chain = [rng.choice("CCCCNOSF") for _ in range(level + 2)]
        if valid(chain):
            break
    runs: list[list[str]] = []
    for atom in chain:
        if runs and runs[-1][0] == atom:
            runs[-1].append(atom)
        else:
            runs.append([atom])
    question = " ".join(f"{NAMES[run[0]]} {len(run)}" for run in runs)
    text = written(chain)
    return Draft(question, text, f"<think>{len(chain)} atoms</think><answer>{text}</answer>", "".join(canonical(chain)), Frozen(category="chain"))


def written(chain: Sequence[str]) -> str:
    return "".join(f"[{atom}]" for atom in chain)


def valid(chain: Sequence[str]) -> bool:
    """Returns whether the chain has 1 to 12 atoms, and every inner atom has at least two bonds."""
    return 1 <= len(chain) <= _MOST and all(ATOMS[atom] >= 2 for atom in chain[1:-1])


def decoded(text: str) -> list[str] | None:
    """Returns the atoms of a text such as "[C][O]"; None if it is no molecule."""
    chain = _TOKEN.findall(text)
    return chain if chain and written(chain) == text and valid(chain) else None


def canonical(chain: Sequence[str]) -> list[str]:
    """Returns the chain in the direction that is first in the alphabet.

    >>> canonical(["O", "C", "C"])
    ['C', 'C', 'O']
    """
    return min(list(chain), list(chain)[::-1])


def paths(chain: Sequence[str], longest: int) -> set[str]:
    """Returns the canonical paths of 1 to `longest` atoms."""
    return {"".join(canonical(chain[i : i + n])) for n in range(1, longest + 1) for i in range(len(chain) - n + 1)}


def surroundings(chain: Sequence[str], radius: int) -> set[str]:
    """Returns the canonical neighbourhoods of all atoms, with up to `radius` atoms on each side."""
    return {"".join(canonical(chain[max(i - radius, 0) : i + radius + 1])) for i in range(len(chain))}


def fragments(chain: Sequence[str]) -> set[str]:
    """Returns the fragments that remain if the bonds between carbon and other atoms are cut."""
    return set(re.findall(r"C+|[^C]", "".join(chain)))


def groups(chain: Sequence[str]) -> Counter[str]:
    """Counts functional groups: alcohol, ether, amine (at an end), bridge (nitrogen inside), thiol, sulfide and fluoride."""
    ends = {"O": "alcohol", "N": "amine", "S": "thiol", "F": "fluoride"}
    inner = {"O": "ether", "N": "bridge", "S": "sulfide"}
    last = len(chain) - 1
    return Counter((ends if i in (0, last) else inner)[atom] for i, atom in enumerate(chain) if atom != "C")


def tanimoto(a: set[str], b: set[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def group_likeness(said: Counter[str], due: Counter[str]) -> float:
    """Returns exp(-differences / (number of groups of `due` + 1e-5)).

    >>> round(group_likeness(Counter(alcohol=1), Counter(alcohol=1, amine=1)), 4)
    0.6065
    """
    apart = sum(abs(said[name] - due[name]) for name in said | due)
    return math.exp(-apart / (due.total() + 1e-5))


@dataclass(frozen=True)
class ChainLikeness:
    """A verifier that compares molecules: 1 for the same molecule, else 0."""

    def said(self, completion: str) -> str | None:
        found = _ANSWER.findall(completion[-500:])
        text = found[-1] if found else completion[-200:].rpartition("=")[2] if "=" in completion[-200:] else None
        return None if text is None else text.strip()

    def likeness(self, problem: Problem, completion: str) -> Mapping[str, float]:
        """Returns whether the answer is a molecule (valid), whether it is the right molecule (exact), and the likeness of fingerprints, fragments and
        groups."""
        text = self.said(completion)
        chain, due = None if text is None else decoded(text), decoded(str(problem.answer))
        if chain is None or due is None:
            return {"valid": 0.0, "exact": 0.0, "fingerprints": 0.0, "fragments": 0.0, "groups": 0.0}
        prints = [tanimoto(paths(chain, 2), paths(due, 2)), tanimoto(paths(chain, 7), paths(due, 7)), tanimoto(surroundings(chain, 2), surroundings(due, 2))]
        a, b = fragments(chain), fragments(due)
        return {
            "valid": 1.0, "exact": float(canonical(chain) == canonical(due)), "fingerprints": sum(prints) / 3,
            "fragments": 0.5 * tanimoto(a, b) + 0.5 * len(a & b) / len(b), "groups": group_likeness(groups(chain), groups(due)),
        }  # fmt: skip

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return self.likeness(problem, completion)["exact"]
