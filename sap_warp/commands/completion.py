"""`sap-warp completion`: print a script that completes the command line in a shell, made from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from ..core.task_names import TASKS
from ..scene.shipped.scene_files import SHORT_NAMES, shipped_scenes
from ..solver.settings.options import LINE_SEARCHES, PRESETS
from . import SUMMARIES
from .common import EXIT_OK

_SCRIPT = """\
# Completion of sap-warp, written by 'sap-warp completion {shell}'.
_sap_warp() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="${{COMP_WORDS[1]}}"
    local words="" files=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -le 1 ]; then
        COMPREPLY=( $(compgen -W "{commands} --help --version" -- "$cur") )
        return
    fi
    case "$command $before" in
{values}
        *)
            case "$command" in
{options}
            esac ;;
    esac
    if [ "${{cur#-}}" = "$cur" ] && [ -n "$files" ]; then
        COMPREPLY=( $(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur") )
    else
        COMPREPLY=( $(compgen -W "$words" -- "$cur") )
    fi
}}
complete -o filenames -F _sap_warp sap-warp
"""
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("completion", help=SUMMARIES["completion"])
    parser.add_argument("shell", choices=("bash", "zsh"))
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from ..cli import make_parsers

    _, parsers = make_parsers()
    print((_ZSH if arguments.shell == "zsh" else "") + completion_script(arguments.shell, parsers), end="")
    return EXIT_OK


def completion_script(shell: str, parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script for these sub-commands."""
    values = [line for name, parser in parsers.items() for line in _value_lines(name, parser)]
    options = [_option_line(name, parser) for name, parser in parsers.items()]
    return _SCRIPT.format(shell=shell, commands=" ".join(parsers), values="\n".join(values), options="\n".join(options))


def _value_lines(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield what may follow each option of a sub-command; nothing is offered for numbers."""
    for action in parser._actions:
        if not action.option_strings or action.nargs == 0:
            continue
        words = _words(action)
        body = f'words="{" ".join(words)}"' if words else ":"
        if _takes_file(action):
            body += "; files=yes"
        patterns = "|".join(f'"{name} {option}"' for option in action.option_strings)
        yield f"        {patterns}) {body} ;;"


def _option_line(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the options of a sub-command, and what may stand without one."""
    words = [option for action in parser._actions for option in action.option_strings]
    positional = [action for action in parser._actions if not action.option_strings]
    for action in positional:
        words += _words(action)
    files = "; files=yes" if any(map(_takes_file, positional)) else ""
    return f'                {name}) words="{" ".join(words)}"{files} ;;'


def _words(action: argparse.Action) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    known = {
        "scene": [*shipped_scenes(), *SHORT_NAMES],
        "task": list(TASKS),
        "preset": list(PRESETS),
        "line_search": list(LINE_SEARCHES),
        "device": ["cpu", "cuda"],
    }
    return known.get(action.dest, [])


def _takes_file(action: argparse.Action) -> bool:
    """Return True if the value may be a file: a scene, or what its metavar says."""
    return action.dest in {"scene", "task"} or action.metavar in {"FILE", "DIR", "PLACE"}
