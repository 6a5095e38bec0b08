"""A completion script for bash, made from the commands: the words that may follow, the options. Pure."""

from __future__ import annotations

import argparse
from typing import Final

from springtide.parser import PROG

_SCRIPT: Final = """\
# Completion of {prog} for bash: source it, or put it into /etc/bash_completion.d/.
_{prog}() {{
    local word path="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case "$path/$word" in
{steps}
        esac
    done
    local words=""
    case "$path" in
{words}
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F _{prog} {prog}
"""


def bash_script(parser: argparse.ArgumentParser) -> str:
    words: dict[str, list[str]] = {}
    _collect(parser, "", words)
    steps = "|".join(path for path in words if path)
    return _SCRIPT.format(
        prog=PROG,
        steps=f"            {steps}) path=$path/$word ;;",
        words="\n".join(f'        "{path}") words="{" ".join(found)}" ;;' for path, found in words.items()),
    )


def _collect(parser: argparse.ArgumentParser, path: str, words: dict[str, list[str]]) -> None:
    found: list[str] = []
    words[path] = found
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                found.append(name)
                _collect(below, f"{path}/{name}", words)
        elif action.option_strings:
            found.append(action.option_strings[-1])
        else:
            found += [str(choice) for choice in action.choices or ()]
