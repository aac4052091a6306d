"""Makes the quick checks of every run before its first step. `gradus check` makes all checks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gradus.checks import data, judging, machine, prompts, template
from gradus.checks.findings import Finding, collected
from gradus.checks.learning import of_learning
from gradus.rewards.combine import Sum
from gradus.rewards.functions import Function

if TYPE_CHECKING:
    from gradus.training.run import Run

BAD_ROWS = "bad_rows.jsonl"  # the file in the run's folder for the rows that were left out

TESTED = 4  # number of problems whose tests are tried on programs that solve nothing
GENERATED, READ = 2, 16  # number of problems that are checked per source; smaller for a generator, because one problem may take long


def tell(run: Run) -> None:
    """Prints how the rows of the task's files are used, the form of the prompts, and warnings. Writes the bad rows into the run's folder."""
    rows = data.bad_rows_of(run.task)
    if rows and run.folder is not None:
        data.quarantine(run.folder.path / BAD_ROWS, rows)
    kept = f", and kept in {run.folder.path / BAD_ROWS}" if rows and run.folder is not None else ""
    found = looked_at(run)
    lines = [account.told for account in data.accounts_of(run.task)]
    lines += [prompts.told(finding) for finding in found if finding.check == "prompts"]
    lines += [f"{len(rows)} bad rows are left out{kept}"] if rows else []
    reward = run.recipe.reward
    parts = list(reward.parts.values()) if isinstance(reward, Sum) else [reward]
    if all(isinstance(part, Function) for part in parts) and run.view is not None:
        who = "reward functions" if len(parts) > 1 else "reward function"
        lines.append(f"accuracy is the share of answers whose reward is 1 or more, because the {who} alone judge{'s' * (len(parts) == 1)}")
    for finding in (finding for finding in found if finding.check != "prompts"):
        details = f" ({finding.details[0]})" if finding.details else ""
        lines.append(f"{finding.verdict}: {finding.says}{details}; {finding.remedy}")
    for line in lines:
        if run.view is not None:
            run.view.message(line)
        else:
            print(line, file=sys.stderr)


def looked_at(run: Run) -> list[Finding]:
    """Makes the quick checks. Returns the finding with the form of the prompts, and all warnings and faults.

    The checks cover the recipe, the held-out problems, the kernels and the disk. The checks also test the template and the verifier on some prompts and
    answers.
    """
    found: list[Finding] = []
    collected("recipe", found, of_learning(run.recipe))
    collected("data", found, data.of_held_out(run.task, run.recipe.study))
    policy, task = run.players["policy"].policy, run.task
    if task.of_text and "text" in policy.can and policy.tokenizer is not None:
        many = GENERATED if task.source.size is None else READ
        problems = data.some_problems(task, many) if task.environment is None else []
        collected("template", found, prompts.of_prompts(policy, task, problems))
        if task.environment is None:
            collected("template", found, template.of_template(policy, task, problems, whole=False))
            collected("verifier", found, judging.of_references(task, problems))
            collected("verifier", found, judging.of_tests(task, problems[:TESTED]))
    collected("kernels", found, machine.of_kernels(run))
    if run.folder is not None:
        collected("disk", found, machine.of_disk(run, run.folder.path))
    return [finding for finding in found if finding.check == "prompts" or finding.verdict in ("warning", "wrong")]
