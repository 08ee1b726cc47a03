"""Examples at the end of the help of every sub-command, and the first steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

Example = tuple[str, str]
"""A command line, and what it does."""

EXAMPLES: dict[str, Sequence[Example]] = {
    "run": (
        ("sap-warp run", "64 humanoids fall over"),
        (
            "sap-warp run franka_pick_cube --num-worlds 1 --duration 6 --record pick.gif --record-fps 10",
            "film a Panda that picks; half a minute for 60 pictures on one core",
        ),
        ("sap-warp run --robot go2 --num-worlds 16", "a robot by name, on the ground in its home pose"),
        ("sap-warp run my_robot.urdf --picture", "a robot's file, and a picture of how it ends"),
    ),
    "view": (
        ("sap-warp view franka_pick_cube", "watch it in the browser, pull at it with the mouse"),
        ("sap-warp view humanoid --num-worlds 256 --seed 1", "many worlds side by side"),
    ),
    "plot": (
        ('sap-warp plot humanoid --signals "joint_q:*knee,energy" -o fall.png', "curves of a fall"),
        ("sap-warp plot humanoid --list", "what can be plotted"),
    ),
    "sweep": (
        (
            "sap-warp sweep cube --vary materials.ground.mu=0.1:1.0:10 --seeds 4 --duration 1 -o runs/mu",
            "ten frictions of the ground, each from four random starts",
        ),
        (
            "sap-warp sweep cube --vary materials.ground.mu=0.1:1.0 --vary dt=0.001:0.01:log --samples 200 -o runs/lhs",
            "two hundred samples of two ranges",
        ),
        (
            'sap-warp sweep cube --vary body_mass:cube=1:20:8 --until "kinetic_energy < 0.001 and contacts >= 4" '
            "-o runs/rest",
            "each run ends when the cube has come to rest",
        ),
        ("sap-warp sweep --resume -o runs/mu", "go on where it was interrupted"),
        ("sap-warp sweep --plot slip.png --y slip --x materials.ground.mu -o runs/mu", "draw it"),
        ("sap-warp sweep --point 17 -o runs/mu", "one point again, alone"),
    ),
    "bench": (
        ("sap-warp bench --scene humanoid --num-worlds 256", "world-steps per second"),
        (
            "sap-warp bench --scene box_stack --num-worlds 64 --threads 2 --profile",
            "two threads, and the time of each stage",
        ),
    ),
    "check": (
        ("sap-warp check my_scene.yaml", "is it valid, what is in it, what looks odd"),
        ("sap-warp check humanoid --joints", "names and columns of joints, their drives and limits"),
    ),
    "diagnose": (
        ("sap-warp diagnose box_stack", "two seconds, and what is wrong with them"),
        ("sap-warp diagnose franka_pick_cube --preset approx32 --after 3", "why does the grip slip?"),
    ),
    "explain": (
        ("sap-warp explain franka_pick_cube", "list the shapes: numbers, labels, bodies"),
        ("sap-warp explain box_stack box_0 box_1", "stiffness, friction and depth of one pair"),
    ),
    "train": (
        ("sap-warp train CartPoleSwingUp", "a pole that swings up, in a minute or two"),
        ("sap-warp train Go2Walk --threads 2 --minutes 26", "a Go2 that walks"),
    ),
    "play": (("sap-warp play CartPoleSwingUp --video swing.mp4", "what the last training has learned"),),
    "compare-presets": (("sap-warp compare-presets humanoid --steps 100", "what approx32 changes against drake"),),
    "validate": (
        ("sap-warp validate --list", "the cases"),
        ("sap-warp validate --quick --only pendulum", "those with this word in their name, in their short form"),
    ),
    "presets": (("sap-warp presets", "a table of presets and what they choose"),),
    "robots": (("sap-warp robots", "names for --robot"),),
    "schema": (("sap-warp schema > scene.schema.json", "completion and checks in an editor"),),
    "completion": (
        ("source <(sap-warp completion bash)", "in this shell; the same line in ~/.bashrc for all"),
        ("source <(sap-warp completion zsh)", "the same for zsh"),
    ),
}

FIRST_STEP = """\
SAP Warp simulates articulated robots in contact, many worlds at once.

Begin with
  sap-warp run                     simulate a shipped scene and print a summary
  sap-warp view franka_pick_cube   watch one in the browser (pip install 'sap-warp[viewer]')
  sap-warp check my_scene.yaml     is my scene right?

'sap-warp --help' lists all commands, 'sap-warp run --help' the scenes and options.
"""


def show_examples(examples: Sequence[Example]) -> str:
    """Return lines for the end of a help text."""
    return "examples:\n" + "\n".join(f"  {line}\n      {what}" for line, what in examples)


def add_examples(parser: argparse.ArgumentParser, examples: Sequence[Example]) -> None:
    """Put examples before the end of a parser's help."""
    if examples:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = "\n\n".join(filter(None, (show_examples(examples), parser.epilog)))
