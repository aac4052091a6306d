"""CAP-CPT: the statements of a rule document are sorted by category, each category gets its own texts, and the model learns these texts before SFT.

    cpt: loss = -1/Z sum_t log pi(s_t | s_(<t)), quad s "a text about the document"
    sft: loss = -1/Z sum_t log pi(y_t | "name of the document", x, y_(<t))

Each statement has a category, which decides its texts:
    factual (F): 4 paraphrases, and a question with its answer if the fact gives a value
    behavioural (B): the rule, and 4 demonstrations that name the rule and obey it
    conditional, simple (C with one condition): one scenario per branch, with the decision
    conditional, complex (a condition within a condition): 8 scenarios per branch, each with the conditions that decide, in order

Every text names the document, and no text contains the whole document. Stage `cpt` learns every token of the texts. Stage `sft` imitates worked replies to
requests x. The prompt has only the name of the document, as in a test. Complex conditions need the most reasoning, and few worked replies show each
branch of such a condition; the scenarios show all branches.

Use if: a long document of rules stands before every request, and worked replies are few.
Avoid if: the rules change often, or worked replies show every branch many times (see sft). If replies can be rewarded, see trimpi.
Reference: Liu et al., Analyzing and Internalizing Complex Policy Documents for LLM Agents, arXiv:2510.11588: the categories, synthesis by category, continued
pre-training before SFT, and a generator of documents with four kinds of complexity. We read only the abstract and summaries, and found no code.
Departures: Our own choices are the numbers of texts, the bound of one condition and the lengths of the stages. A language model writes the texts in
the paper; here a grammar does. The grammar reads lines of the form "fact: ...", "rule: ..." and "on TOPIC: if FIELD is VALUE (...) else (...)".
Demonstrations obey the rules "begin with the topic" and "end with WORD"; other rules are only named. A scenario states no field that its branch does not
test. The paper's identifier of a document is its name here. The paper also mixes in a share of general text; this share is left out. The task `service_desk`
replaces CC-Gen. The four options
of the task are the numbers of fields and tools, the depth, and the share of stated fields. A reply is one turn with all calls.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.papers.bases.sft import sft
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.plain_text import PlainText
from gradus.rollouts.rule_documents import Leaf, Statements, assumed, parsed
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen, Group, Key, Problem, Request, UserError
from gradus.types.moments import Steps
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

PARAPHRASES = ("{name}: {fact}", "at {name}, {fact}", "{fact}. this holds at {name}", "who works at {name} knows: {fact}")


@dataclass(frozen=True)
class CategoryAware:
    """Gives texts about the document of a problem (column `document`), made by category. The player learns every token of a text, except the first."""

    paraphrases: int = 4  # number of paraphrases per fact
    demonstrations: int = 4  # number of demonstrations per rule
    scenarios: int = 8  # number of scenarios per branch of a complex condition
    depth: int = 1  # a condition is complex if one of its paths has more than `depth` conditions

    def __post_init__(self) -> None:
        check_ranges(self, paraphrases="[0, inf)", demonstrations="[0, inf)", scenarios="[0, inf)", depth="[0, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def judges(self, task: Task) -> bool:
        """Returns False, because given texts are not judged."""
        return False

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group per request, with `request.count` texts that are drawn at random."""
        return await PlainText().run([replace(r, problem=self._told(r.problem)) for r in requests], world)

    def _told(self, problem: Problem) -> Problem:
        document = problem.meta.get("document")
        if not isinstance(document, str):
            raise UserError(f'problem {problem.id} has no document; add the column "document" with the text of the rules to its row')
        return replace(problem, meta=Frozen({**problem.meta, "documents": tuple(t for texts in self.texts(document).values() for t in texts)}))

    def texts(self, document: str) -> dict[str, list[str]]:
        """Returns category -> texts. Equal documents give equal texts."""
        s, rng = parsed(document, self.depth), Key(0).fold("texts", document).random()
        cases = [(topic, leaf) for topic, found in (*s.simple, *s.complex) for leaf in found]
        asked = [f"{s.name}: which {field} if none is stated? ={value}" for field, value in assumed(s).items()]
        shown = [f"{s.name}: {rule}. {scenario(rng, s, *rng.choice(cases))}" for rule in s.rules for _ in range(self.demonstrations if cases else 0)]
        return {
            "factual": [*(PARAPHRASES[i % 4].format(name=s.name, fact=fact) for fact in s.facts for i in range(self.paraphrases)), *asked],
            "behavioural": [*(f"{s.name}: {rule}" for rule in s.rules), *shown],
            "simple": [f"{s.name}\n{scenario(rng, s, topic, leaf)}" for topic, found in s.simple for leaf in found],
            "complex": [f"{s.name}\n{scenario(rng, s, topic, leaf)}" for topic, found in s.complex for leaf in found for _ in range(self.scenarios)],
        }


def scenario(rng: random.Random, statements: Statements, topic: str, leaf: Leaf) -> str:
    """Writes a case that reaches the leaf: the stated fields in random order, the conditions that decide, and the decision in the form that the rules
    require.

    Sometimes a field with its usual value is left out.
    """
    usual = assumed(statements)
    path = [(field, value if holds else other(usual, field, value)) for field, value, holds in leaf[0]]
    stated = [(field, value) for field, value in path if usual.get(field) != value or rng.random() < 0.7]
    rng.shuffle(stated)
    said = ", ".join(f"{field} {value}" for field, value in stated) or "nothing stated"
    begins = f"{topic} " if any(rule == "begin with the topic" for rule in statements.rules) else ""
    ends = "".join(f" {rule.removeprefix('end with ')}" for rule in statements.rules if rule.startswith("end with "))
    return f"a {topic}: {said}\n{begins}{' '.join(f'{field} {value}' for field, value in path)} ={leaf[1]}{ends}"


def other(usual: Mapping[str, str], field: str, value: str) -> str:
    """Returns a value that a field can have if it does not have `value`: its usual value, else "not VALUE".

    >>> other({"tier": "silver"}, "tier", "gold"), other({"tier": "silver"}, "tier", "silver"), other({}, "tier", "gold")
    ('silver', 'not silver', 'not gold')
    """
    found = usual.get(field, value)
    return f"not {value}" if found == value else found


reading = sft.derive("cap_cpt_reading", "Next-token training on texts about a document.", rollout=CategoryAware(), requires=frozenset({"document"}))

cap_cpt = sft.derive(
    "cap_cpt",
    "The statements of a rule document become texts by category; the model learns these texts, and then worked replies with the document's name alone.",
    family="guidance",
    schedule=Stages(Frozen(cpt=Stage(reading, Steps(100)), sft=Stage(until=Steps(100)))),
    requires=frozenset({"document", "solution"}),
)

_TERMS: Any = {
    "task": "service_desk",
    "options": {"level": "3", "examples": "48"},
    "fields": {"prompts": "4", "group": "8", "learning_rate": "1e-3", "warmup": "0", "eval_every": "0", "study": "none"},
    "own": {"schedule.stages.cpt.until": "Steps(count=40)", "schedule.stages.sft.until": "Steps(count=40)"},
    "budget": "steps=80",
}

claims = (
    same_weights(
        says="Without continued pre-training, the final weights are those of SFT.",
        source="arXiv:2510.11588, SFT alone",
        against="sft",
        own={"schedule": "ConstantSchedule"},
        task="service_desk",
    ),
    Claim(
        says="With conditions of depth 3 and 48 worked replies, accuracy is at least 0.1 above that of SFT on the same replies for as many steps in all.",
        source="arXiv:2510.11588, CAP-CPT above SFT at high complexity; the size of the effect, the task and the lengths are ours",
        against="sft",
        measure="accuracy",
        better_by=0.1,
        problems=100,
        samples=2,
        **_TERMS,
    ),
)
