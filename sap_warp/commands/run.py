"""`sap-warp run`: simulate a scene and say how it went."""

from __future__ import annotations

import argparse
import math
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core.notes import show_notes
from . import SUMMARIES
from .common import (
    COMPILING,
    EXIT_DIVERGED,
    EXIT_OK,
    CommandError,
    add_run_arguments,
    asked_by_user,
    find_device,
    print_summary,
    scene_listing,
    show_progress,
)
from .recording import add_recording_arguments, check_recording, open_recorder, record, write_last_picture
from .sources import find_source, load_source
from .view import add_viewer_arguments

if TYPE_CHECKING:
    from ..simulation import Simulation


def add_parser(commands: Any) -> None:
    """Add the sub-command to ``commands``, an argparse sub-parser action."""
    parser = commands.add_parser("run", help=SUMMARIES["run"], **scene_listing())
    add_run_arguments(parser, num_worlds=64, duration=4.0)
    parser.add_argument("--viewer", choices=("viser",), help="show it in a page of the browser while it runs")
    add_viewer_arguments(parser)
    add_recording_arguments(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_recording(arguments)
    if arguments.viewer is not None and arguments.record is not None:
        raise CommandError("give --viewer or --record, not both")
    sim = make_simulation(arguments)
    recorder = open_recorder(sim, arguments)
    if arguments.viewer is not None:
        from .view import open_viewer, print_address

        viewer = open_viewer(sim, arguments)
        ready = prepare(sim)
        print_address(viewer)
        viewer.run(arguments.duration)
        steps, elapsed = viewer.steps_taken, viewer.step_seconds
        if steps == 0:
            print("closed before the first step")
            return EXIT_OK
    else:
        ready = prepare(sim)
        steps = max(1, math.ceil(round(arguments.duration / sim.dt, 6)))
        elapsed = advance(sim, steps) if recorder is None else record(recorder, arguments.duration, steps)
    print_summary("Summary", _summary(sim, steps, ready, elapsed))
    write_last_picture(sim, arguments)
    return verdict(sim)


def make_simulation(arguments: argparse.Namespace) -> Simulation:
    """Make the simulation that ``arguments`` ask for, and print what it is."""
    source = find_source(arguments)  # fails before the slow imports
    device = find_device(arguments.device)
    from ..scene.shipped.scenes import randomize_start
    from ..simulation import Simulation
    from ..simulation.checkpoint.keyframes import go_home
    from ..simulation.run.compile import compile_ahead
    from ..solver.settings.options import expand_options

    given = {"contact_preset_variant": arguments.preset, "line_search_variant": arguments.line_search}
    options = {name: value for name, value in given.items() if value is not None}
    with asked_by_user():
        expand_options(**options)
        ahead = partial(compile_ahead, device=device, **options)
        chosen = {"num_worlds": arguments.num_worlds, "confine": arguments.confine}
        scene = load_source(source, device=device, when_built=ahead, **chosen)
        if arguments.seed is not None:
            randomize_start(scene.sap_model.newton_model, abs(arguments.seed))
            scene.sap_state = scene.sap_model.state()
        sim = Simulation.from_loaded(scene, dt=arguments.dt, notes=False, **options)
    print(f"{scene.name}: {scene.description}" if scene.description else scene.name, flush=True)
    for feature in scene.unsupported_features:
        print(f"unsupported: {feature}", file=sys.stderr)
    show_notes(scene.notes_with(arguments.dt, options))
    if arguments.robot is not None and arguments.seed is None:
        go_home(sim)
    return sim


def prepare(sim: Simulation) -> float:
    """Load or compile the kernels; returns the time it took [s]."""
    print(COMPILING, flush=True)
    start = time.perf_counter()
    sim.prepare()
    sim.synchronize()
    return time.perf_counter() - start


def advance(sim: Simulation, steps: int) -> float:
    """Take all steps; returns the time spent on them [s]."""
    chunk = max(2, 2 * (steps // 40))
    elapsed, done = 0.0, 0
    with show_progress(steps) as report:
        while done < steps:
            count = min(chunk, steps - done)
            start = time.perf_counter()
            sim.step(count)
            sim.synchronize()
            elapsed += time.perf_counter() - start
            done += count
            report(done)
    return elapsed


def _summary(sim: Simulation, steps: int, ready: float, elapsed: float) -> list[tuple[str, str]]:
    import numpy as np

    from ..solver import SolveStatus

    worlds, statistics = sim.world_count, sim.statistics
    iterations, trials = statistics.iterations, statistics.line_search_trials
    status = sim.status
    names = [f"{np.count_nonzero(status == s)} {s.name.lower()}" for s in SolveStatus if (status == s).any()]
    body = watched_body(sim)
    height = sim.body_q.flat()[sim.body_q.offsets[:-1] + body, 2]
    label = sim.model.body_label[body].rsplit("/", 1)[-1]
    dofs = np.diff(sim.joint_qd.offsets)
    simulated = steps * sim.dt
    ratio = simulated / elapsed
    return [
        ("scene", sim.name),
        ("device", f"{sim.model.device} ({sim.model.device.name})"),
        ("solver", name_solver(sim)),
        ("worlds", str(worlds)),
        ("dofs per world", f"{dofs.min()}" if dofs.min() == dofs.max() else f"{dofs.min()} to {dofs.max()}"),
        ("time step", f"{1e3 * sim.dt:g} ms"),
        ("steps", f"{steps} ({simulated:g} s simulated)"),
        ("compile and first steps", f"{ready:.2f} s"),
        ("elapsed", f"{elapsed:.3f} s, stepping only"),
        ("world-steps per second", f"{worlds * steps / elapsed:,.0f}"),
        ("time per world-step", f"{1e6 * elapsed / (worlds * steps):.2f} us"),
        (
            "realtime ratio",
            f"{worlds * ratio:,.1f} over all worlds, {ratio:,.1f} for each",
        ),
        ("contacts per world", f"{statistics.mean_contacts:.2f} mean"),
        ("Newton iterations", f"{iterations.mean:.2f} mean, {iterations.p99} p99, {iterations.max} max"),
        ("line search trials", f"{trials.mean:.2f} mean, {trials.p99} p99, {trials.max} max"),
        ("truncated contacts", _truncation(sim)),
        ("not converged", f"{statistics.not_converged} of {statistics.world_steps} world-steps"),
        ("worlds at the end", ", ".join(names)),
        (f"final height of {label}", f"{height.mean():.4f} m mean, {height.min():.4f} to {height.max():.4f} m"),
    ]


def name_solver(sim: Simulation) -> str:
    """Name preset and line search, and a better preset where links are light for what they hold."""
    from ..judge.advice.weights import advise_weights

    options = sim.shards[0].solver.options
    light = advise_weights(sim.model, {"contact_weight_mode": options.contact_weight_mode})
    return f"{sim.preset}, {options.line_search_variant}" + ("; --preset robot holds better here" if light else "")


def watched_body(sim: Simulation) -> int:
    """Return the body, in each world, whose height is reported: the first that floats, else the last.

    So in a scene with an arm it is what the arm handles, or its end, and not a link that is fixed to the ground.
    """
    import newton

    if not sim.body_q.is_uniform:
        return 0
    floats = (sim.model.joint_type.numpy() == newton.JointType.FREE) & (sim.model.joint_parent.numpy() < 0)
    bodies = sim.model.joint_child.numpy()[floats]
    count = int(sim.body_q.offsets[1])
    return int(min(bodies[bodies < count], default=count - 1))


def _truncation(sim: Simulation) -> str:
    count = sim.statistics.truncated_contacts
    return f"{count}" if count == 0 else f"{count}: raise max_rigid_contact above {sim.max_rigid_contact}"


def verdict(sim: Simulation) -> int:
    """Return the exit code of a run; worlds that could not go on are named."""
    import numpy as np

    lost = sim.diverged
    if lost.any():
        which = ", ".join(map(str, np.flatnonzero(lost)[:5])) + (", ..." if lost.sum() > 5 else "")
        print(f"sap-warp: {lost.sum()} of {len(lost)} worlds diverged: {which}", file=sys.stderr)
        return EXIT_DIVERGED
    return EXIT_OK
