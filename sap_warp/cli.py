"""The `sap-warp` command.

Only the module of the sub-command that is named is imported, and that imports only the standard library; Newton, Warp
and rich are loaded when it runs, so that ``sap-warp --help`` and a misspelt option answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any, NoReturn

from .commands import SUMMARIES
from .commands.common import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, CommandError, Parser
from .commands.examples import EXAMPLES, FIRST_STEP, add_examples
from .core.printable import printable
from .scene.shipped.scene_files import UnknownSceneError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Returns:
        0 on success; 1 if a world diverged, a point of a sweep failed, `check` finds a scene not valid, `diagnose` a
        problem or `validate` a bound not kept; 2 for a request that cannot be met; 130 after Ctrl-C.
    """
    words = sys.argv[1:] if argv is None else argv
    format_as_code, warnings.formatwarning = warnings.formatwarning, _format_warning
    try:
        if not words:
            print(FIRST_STEP, end="")
            return EXIT_OK
        named = [word for word in words if not word.startswith("-")][:1]
        parser, _ = make_parsers(named)
        arguments = _parse(parser, words)
        return arguments.command(arguments)
    except (CommandError, UnknownSceneError) as error:
        print("sap-warp: error: " + "\n".join(map(printable, str(error).splitlines())), file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:  # the reader of our output has enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        print("sap-warp: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as stop:  # argparse has printed help, version or an error
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    finally:
        warnings.formatwarning = format_as_code


def _format_warning(message: Warning | str, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
    """Format a warning without the line of code that it comes from, which is ours."""
    return f"warning: {printable(str(message))}\n"


class _Version(argparse.Action):
    """Prints the version, which is looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        import sap_warp

        print(f"sap-warp {sap_warp.__version__}")
        parser.exit()


def make_parsers(
    declared: Collection[str] = tuple(SUMMARIES),
) -> tuple[Parser, dict[str, Parser]]:
    """Make the parser of the command line, and those of the sub-commands by name.

    Args:
        declared: Sub-commands that get their arguments, which imports their modules; the others have only a summary.
    """
    parser = Parser(prog="sap-warp", description="Simulate articulated robots in contact, many worlds at once.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for name, summary in SUMMARIES.items():
        if name in declared:
            import_module(f".commands.{name.replace('-', '_')}", __package__).add_parser(commands)
            add_examples(commands.choices[name], EXAMPLES[name])
        else:
            commands.add_parser(name, help=summary)
    add_examples(parser, [EXAMPLES[name][0] for name in ("run", "view", "check")])
    return parser, commands.choices


def _parse(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments. The shapes of `explain` may stand behind an option, which argparse does not support."""
    arguments, rest = parser.parse_known_args(words)
    if rest and getattr(arguments, "shapes", None) == [] and not any(word.startswith("-") for word in rest):
        arguments.shapes = rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
