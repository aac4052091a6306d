"""Completion of typed words in a shell: the candidates for the last word, and the scripts of the shells.

The scripts contain no list of commands: at every Tab they run `gradus completion words ...`, which reads the parser and the lists of names.
Only names after a dot (--objective.policy.) need the recipe itself; loading it takes a second or two.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence

from gradus.cli.options import SHELLS
from gradus.cli.parser import COMMANDS, Parser, build_parser

RECIPES = {
    *((name, "recipe") for name in ("train", "check", "profile", "simulate", "show", "cite", "explain")),
    *(("diff", "a"), ("diff", "b"), ("claims", "keys"), ("compare", "recipes"), ("race", "recipes")),
}
"""(command, argument) pairs whose value is the key of a recipe."""
VALUES: Mapping[str, Sequence[str]] = {
    "device": ("cpu", "cuda"),
    "precision": ("float32", "bfloat16", "float64"),
    "log": ("tensorboard", "trackio", "wandb", "prometheus", "opentelemetry"),
    "form": ("model", "classifier", "card", "sft", "preference", "rollouts"),
}
"""Copies of values from modules that load too slowly for a Tab; a test compares the copies with the originals."""
OF_RECIPE = ("train", "eval", "explain", "check", "profile", "compare", "race")  # commands that take the fields of a recipe


def candidates(words: Sequence[str]) -> list[str]:
    """The candidates for the last word, given the words before it. There are none for a file or a folder, because the shell itself completes these."""
    *before, last = words or [""]
    if not before:
        return starting_with(last, [*COMMANDS, "--help", "--version"])
    parser = build_parser()[1].get(before[0])
    if parser is None:
        return []
    options = {name: action for action in parser._actions for name in action.option_strings}
    previous = options.get(before[-1])
    if previous is not None and previous.nargs != 0:
        return starting_with(last, values(before[0], previous))
    if last.startswith("-"):
        names = [*options, *(fields(before, last) if before[0] in OF_RECIPE else [])]
        return starting_with(last, names)
    if before[-1].startswith("--") and previous is None and before[0] in OF_RECIPE:
        return []  # the value of a field
    action = positional(parser, before[1:], options)
    return starting_with(last, values(before[0], action)) if action is not None else []


def starting_with(start: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(start)})


def positional(parser: Parser, before: Sequence[str], options: dict[str, argparse.Action]) -> argparse.Action | None:
    """The positional argument whose value is the next word; None if there is no further positional argument."""
    given, skip = 0, False
    for word in before:
        known = options.get(word)
        if skip or word.startswith("-"):
            skip = not skip and "=" not in word and (known is None or known.nargs != 0)
            continue
        given += 1
    actions = [action for action in parser._actions if not action.option_strings]
    return actions[min(given, len(actions) - 1)] if actions and (given < len(actions) or actions[-1].nargs in ("*", "+")) else None


def values(command: str, action: argparse.Action) -> list[str]:
    """The known values of an option or an argument."""
    from gradus.recipe import registry

    if (command, action.dest) in RECIPES:
        return list(registry.recipe_modules())
    if (command, action.dest) == ("explain", "field"):
        return [name.removeprefix("--") for name in fields([command], "")]
    if action.dest in ("task", "against"):
        return list(registry.task_modules())
    if action.dest == "family":
        return [file.parent.name for file in registry.PAPERS.glob("*/*.py")]
    if action.dest in ("ground", "calibrate"):
        from gradus.comparison.ground import grounds

        return grounds()
    if action.dest == "profile":
        from gradus.recipe.core import PROFILES

        return list(PROFILES)
    return [str(choice) for choice in action.choices or VALUES.get(action.dest, ())]


def fields(before: Sequence[str], last: str) -> list[str]:
    """The dotted fields of the typed recipe (without a typed recipe: of all recipes), one level at a time: `--objective.` first, then its fields."""
    from gradus.recipe.core import Recipe, Setting, describe
    from gradus.types import UserError
    from gradus.types.frozen import value_fields

    if "." not in last:
        heads = [f.name for f in value_fields(Recipe) if f.name not in ("key", "base", "about", "family", "requires")]
        return [*(f"--{f.name}" for f in value_fields(Setting)), *(f"--{name}." for name in heads)]
    if before[0] not in ("train", "check") or len(before) < 2:
        return []
    from gradus.recipe import registry

    try:
        paths = [path for path, _ in describe(registry.recipe(before[1]))]
    except UserError:
        return []
    depth = last.count(".")
    found = {".".join(path.split(".")[: depth + 1]) for path in paths if path.count(".") >= depth}
    deeper = {name for name in found if any(path.startswith(f"{name}.") for path in paths)}
    return [f"--{name}" for name in found] + [f"--{name}." for name in deeper]


BASH = """_gradus() {
    local line=${COMP_LINE:0:COMP_POINT} word
    local -a words=()
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    while IFS= read -r word; do [[ -n $word ]] && COMPREPLY+=("$word"); done < <("${words[0]}" completion words "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *. ]] && compopt -o nospace
    return 0
}
complete -o default -F _gradus gradus"""

ZSH = """#compdef gradus
_gradus() {
    local -a found
    found=("${(@f)$("${words[1]}" completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then
        compadd -S '' -- "${(@M)found:#*.}"
        compadd -- "${(@)found:#*.}"
    else
        _files
    fi
}
if [[ $funcstack[1] == _gradus ]]; then _gradus "$@"; else compdef _gradus gradus; fi"""

FISH = """function __gradus_words
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion words $words[2..-1] 2>/dev/null | string match -rv '^$')
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c gradus -f -a '(__gradus_words)'"""


def script(shell: str) -> str:
    """The script with which a shell completes the words of `gradus`."""
    return dict(zip(SHELLS, (BASH, ZSH, FISH), strict=True))[shell]
