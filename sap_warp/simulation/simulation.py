"""`Simulation`: scene, states, control, contacts, pipeline, solver and captured graphs as one object.

This is the public API: how a simulation is made, and what can be asked of it beyond `step` and `reset`. Each is a few
lines that lead to a module of its own; what all simulations share is in `core`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from ..core.notes import show_notes
from ..core.runtime.cache import with_kernels
from ..model.model import check_bool
from ..randomization import Randomize
from ..scene.shipped.scene_files import find_scene_file
from ..solver.settings.keywords import SimulationOptions
from ..solver.settings.options import override_options
from .checkpoint.checkpoint import SimulationState, get_state, scene_origin, set_state
from .checkpoint.keyframes import go_home
from .core import SimulationCore
from .load import load_simulation, reduce_simulation
from .random.randomizer import randomize
from .run.compile import compile_ahead

if TYPE_CHECKING:
    from ..judge.diagnose import Report

if TYPE_CHECKING:
    from ..look.pictures import Camera, Recorder, Studio
    from ..look.sensors import ContactPairs, RaySensor
    from ..look.signals import SignalRecording
    from .views.views import WorldView


class Simulation(SimulationCore):
    """Worlds that can be advanced, read, changed and reset.

    Example:
        ```python
        sim = Simulation.from_scene("humanoid", num_worlds=64, threads=2)
        sim.step(400)
        q = sim.joint_q.numpy()  # (64, 28); on the CPU it shows every later step, too
        sim.reset(world_mask=q[:, 2] < 0.3)
        ```

    Steps are replayed from captured graphs that hold collision and solver. The state is advanced in place, so views
    stay valid. External forces and control stay as they are until they are changed.
    """

    @classmethod
    def from_scene(
        cls,
        scene: str | os.PathLike[str] | Mapping[str, Any],
        *,
        num_worlds: int | None = None,
        device: Any = None,
        dt: float | None = None,
        threads: int = 1,
        strict: bool = False,
        precision: str = "fp32",
        statistics: bool = True,
        confine: bool | None = None,
        **options: Unpack[SimulationOptions],
    ) -> Simulation:
        """Build a scene and make it ready to run.

        Args:
            scene: The path of a scene file, the name of a shipped scene, or the content of a file; or a robot's URDF,
                MJCF or USD file, which stands on a ground plane then unless it brings one (a note says what was added).
            num_worlds: Copies; None takes the scene's.
            device: Warp device; None is Warp's default.
            dt: Time step [s]; None takes the scene's, or what an MJCF file suggests where the scene has none.
            threads: See the constructor.
            strict: Whether features of a scene file that are not supported are an error; and see the constructor.
            precision: See the constructor.
            statistics: See the constructor.
            confine: Whether files outside of the folder of the scene are refused; see `load_sap_scene`.
            **options: See the constructor; they win over the scene's own.

        Raises:
            UnknownSceneError: It is neither a file nor the name of a shipped scene.
            SapSceneError: The scene cannot be loaded.
        """
        from ..scene import load_sap_scene
        from ..scene.assets.robot_files import scene_of_robot

        if isinstance(device, (list, tuple)):
            raise TypeError(
                f"device is {device!r}; worlds over several are SimulationGroup.from_scene(..., devices=...)."
            )
        source: Any = find_scene_file(scene) if isinstance(scene, (str, os.PathLike)) else scene
        robot = scene_of_robot(source) if isinstance(source, Path) else None
        source = source if robot is None else robot[0]
        load: dict[str, Any] = {"device": device, "num_worlds": num_worlds, "strict": check_bool("strict", strict)}
        load |= {"confine": confine, "when_built": partial(compile_ahead, device=device, **options)}
        loaded = with_kernels(partial(load_sap_scene, source, **load))
        loaded.notes[:0] = [] if robot is None else [robot[1]]
        common: dict[str, Any] = {"threads": threads, "precision": precision, "statistics": statistics}
        sim = cls.from_loaded(loaded, dt=dt, strict=strict, **common, **options)
        path = source if isinstance(source, Path) else None
        sim._origin = scene_origin(scene, path, num_worlds, confine)
        return sim

    @classmethod
    def from_robot(cls, robot: str, *, asset: dict[str, Any] | None = None, **options: Any) -> Simulation:
        """Make a simulation of a robot by name on the ground, in its home pose, held by its gains.

        Args:
            robot: For example ``"go2"`` or ``"panda"``; ``place:name`` where several places have one.
            asset: Keys of the asset that win, for example ``{"floating": True, "meshes": "raw"}``.
            **options: See `from_scene`.

        Raises:
            UnknownRobotError: There is no such robot here.
        """
        from ..scene.robots import robot_scene

        sim = cls.from_scene(robot_scene(robot, **(asset or {})), **options)
        go_home(sim)
        return sim

    @classmethod
    def from_loaded(
        cls,
        loaded: Any,
        *,
        dt: float | None = None,
        max_rigid_contact: int | None = None,
        notes: bool = True,
        **options: Any,
    ) -> Simulation:
        """Make a scene that was loaded before ready to run; see `from_scene` for the options, which win."""
        from ..scene import SapLoadedScene

        if not isinstance(loaded, SapLoadedScene):
            raise TypeError(f"loaded is a {type(loaded).__name__}; expected what load_sap_scene returns.")
        name = "contact_preset_variant"
        preset = {name: options[name]} if name in options else {}
        own: dict[str, Any] = {
            "max_rigid_contact": loaded.max_rigid_contact,
            **override_options(loaded.solver_options or {}, preset),
            "state": loaded.sap_state,
            "control": loaded.sap_control,
            "control_sequence": loaded.control_sequence,
            "name": loaded.name,
            "dt": loaded.dt,
            "notes": False,
        }
        given = {"dt": dt, "max_rigid_contact": max_rigid_contact}
        sim = cls(
            loaded.sap_model, **own | options | {name: value for name, value in given.items() if value is not None}
        )
        chosen = {n: value for n, value in options.items() if n in ("contact_weight_mode", name)}
        sim.notes += loaded.notes_with(dt, chosen)  # which know their places
        show_notes(sim.notes if notes else ())
        if max_rigid_contact is None and loaded.max_rigid_contact:
            sim._health.capacity.name = "simulation.max_rigid_contact"
        sim.keyframes = loaded.keyframes
        sim._load_display = loaded.load_display
        sim.read_visuals = loaded.read_visuals
        if loaded.path is not None:
            sim._origin = scene_origin(loaded.path, loaded.path, loaded.num_worlds, None)
        return sim

    # Parameters.

    def take_parameters(self, *names: str, world_mask: Any = None) -> None:
        """Apply parameters whose memory was written by torch, Warp or through the model, from the next step on.

        Assignments through the views (``sim.body_mass[...] = x``) do this by themselves.

        Args:
            names: Of the views; without any it is all of them.
            world_mask: Which worlds, booleans of shape (worlds,); None is all of them.

        Raises:
            ValueError: A number is not possible; the parameter has its last good values again.
        """
        self._parameters.take_named(names, world_mask)

    def randomize(
        self, terms: Sequence[Randomize | Mapping[str, Any]] | None, *, seed: int = 0, first_world: int = 0
    ) -> None:
        """Draw parameters, initial states, inputs or disturbances independently per world; see docs/randomization.md.

        Terms replace those of an earlier call. A world's numbers depend on the seed, the term, the number of the world
        and how often it was reset, and on nothing else: not on threads, the number of worlds, or the order of calls.

        Args:
            terms: `sap_warp.randomization.Randomize`, or mappings as `from_description` takes them. Without any,
                nothing is drawn any more, and the values stay. None begins the present terms again, from the
                nominal values and another seed.
            seed: Of all streams, below 2**64.
            first_world: Number of the first world for the streams, where these are some of more worlds.

        Raises:
            ValueError: There is no such view or column, or a number could come that is not possible.
        """
        randomize(self, terms, seed, first_world)

    # Checkpoints.

    def get_state(self) -> SimulationState:
        """Copy everything that decides the future to the host; see `set_state` and docs/checkpoints.md.

        State and control of all worlds, what the solver remembers, clock, control sequence, random streams, changed
        parameters of the model, status and statistics. Contacts and callbacks are not part of it.
        """
        return get_state(self)

    def set_state(self, state: SimulationState | str | os.PathLike[str]) -> None:
        """Continue from a state or its file: every later step gives exactly the bits that it gave there.

        The number of threads may be another one.

        Raises:
            CheckpointError: It belongs to another model or other options (the message says what differs), or the file
                is damaged.
        """
        set_state(self, state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `get_state` to one file, checksummed; an older file is replaced only when the new one is complete."""
        get_state(self).save(path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | SimulationState,
        *,
        model: Any = None,
        scene: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        threads: int | None = None,
        device: Any = None,
        strict: bool | None = None,
        control_sequence: Any = None,
        pipeline_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Load a simulation that continues a saved one, bit by bit.

        Args:
            path: What `save` wrote, or what `get_state` returned.
            model: What it simulated, built again; not needed if it came from a scene.
            scene: Where the scene is now; None takes the place or content that was saved.
            threads: See the constructor; this and all others None for what it had.
            device: Warp device.
            strict: See the constructor.
            control_sequence: The sequence it had, if it was not the scene's.
            pipeline_options: The options it had, where a file cannot hold them.

        Raises:
            FileNotFoundError: There is no such file.
            CheckpointError: The file is damaged, or model or scene are others; the message says what differs.
        """
        others: dict[str, Any] = {"threads": threads, "device": device, "strict": strict}
        others |= {"control_sequence": control_sequence, "pipeline_options": pipeline_options}
        return load_simulation(cls, path, model, scene, **others)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Support pickle and copy."""
        return reduce_simulation(self)

    # Inputs over time.

    @property
    def has_control_sequence(self) -> bool:
        """True if a control sequence was given, for example by the scene."""
        return self._schedule.has_sequence

    def follow_control_sequence(self, on: bool = True) -> None:
        """Let the control sequence write the inputs, as it does by default, or leave them to the caller."""
        self._schedule.follow(check_bool("on", on))

    # Looking at it.

    def view(self, *, block: bool | None = None, **options: Any) -> Any:
        """Show it in a browser page that steps it: play, pause, step, drag bodies, see contacts and live numbers.

        Args:
            block: Whether to return only when the page is closed, by Ctrl-C for example; None blocks unless this is a
                notebook, which shows the page below the cell.
            **options: See `sap_warp.look.viewer.ViewerOptions`: ``host``, ``port``, ``viewer_fps``,
                ``substeps_per_frame``, ``speed``, ``worlds``, ``paused``, ``wait``, ``open_browser``. Time begins when
                the page is open if this blocks or is a notebook.

        Returns:
            The `sap_warp.look.viewer.Viewer`.

        Raises:
            ViewerError: viser is not installed, or the address cannot be used.
        """
        from ..look.viewer import show

        return show(self, block, **options)

    # What goes wrong.

    def diagnose(
        self, seconds: float = 2.0, *, every: int | None = None, worlds: Sequence[int] | None = None
    ) -> Report:
        """Advance by ``seconds`` [s] and report what goes wrong, why, and what to change; worst first.

        The simulation goes on from where it is and stays where it ends. See `sap_warp.judge.diagnose.diagnose` for the
        arguments, and docs/diagnose.md for what is found.
        """
        from ..judge.diagnose import diagnose

        return diagnose(self, seconds, every=every, worlds=worlds)

    # Sensors.

    @cached_property
    def _forces(self) -> Any:
        from ..look.sensors import ForceSensors

        return ForceSensors(self)

    def joint_forces(self) -> Any:
        """Return forces on each dof in the last step, as views by world and name, on the device.

        Returns:
            Views ``drive``, ``actuator``, ``spring``, ``damping``, ``limit``, ``friction``, ``constraint``, ``contact``
            and ``applied`` of shape (worlds, dofs) [N or N m]; see `JointForces`. The next call overwrites them.

        Raises:
            RuntimeError: There was no step yet.
        """
        with self._team.lock:
            return self._forces.joint_forces()

    def contact_forces(self) -> WorldView:
        """Return the net contact force [N] on bodies and its moment about the centre of mass [N m] in the last step.

        Returns:
            A view of shape (worlds, bodies, 6), world axes, on the device. The next call overwrites it.

        Raises:
            RuntimeError: There was no step yet.
        """
        with self._team.lock:
            return self._forces.contact_forces()

    def contact_pairs(
        self, on: str | Iterable[str], by: str | Iterable[str] | None = None, kind: str = "body"
    ) -> ContactPairs:
        """Return contact forces on some bodies or shapes by others, for example on feet by the ground.

        Args:
            on: Names or patterns.
            by: Likewise; ``"world"`` is what belongs to no body, such as the ground. None is everything together.
            kind: ``"body"`` or ``"shape"``; ``"world"`` among shapes is what all worlds share.

        Returns:
            An object whose ``update()`` fills ``force``, vec3 of shape (worlds, on, by) on the device [N].
        """
        from ..look.sensors import ContactPairs

        return ContactPairs(self, on, by, kind)

    def ray_sensor(self, origins: Any, directions: Any, **options: Any) -> RaySensor:
        """Make rays that measure the distance to the next colliding shape: range finders and lidars.

        Args:
            origins: Where rays begin, in the frame of the sensor [m], shape (rays, 3) or (3,).
            directions: Where they go, likewise, of any length.
            **options: ``body`` carries the frame (else it is the world's); ``turn`` is ``"body"``, ``"yaw"`` (with the
                heading only) or ``"world"``; ``ignore`` names bodies that rays pass through; ``max_distance`` [m].

        Returns:
            An object whose ``update()`` fills ``distance`` of shape (worlds, rays) and ``point`` on the device.
        """
        from ..look.sensors import RaySensor

        return RaySensor(self, origins, directions, **options)

    def height_scan(
        self, body: str, size: tuple[float, float] = (1.6, 1.0), spacing: float = 0.1, **options: Any
    ) -> RaySensor:
        """Measure heights of the ground on a grid around a body that turns with its heading.

        Args:
            body: Name of the body.
            size: Length and width of the grid [m], x first.
            spacing: Of its points [m].
            **options: ``above``, where rays begin over the body [m]; and those of `ray_sensor`. All moving bodies are
                ignored unless ``ignore`` says otherwise.

        Returns:
            A `ray_sensor`: ``update()``, then ``point`` has the heights in its third numbers.
        """
        from ..look.sensors import height_scan

        return height_scan(self, body, size, spacing, **options)

    def observe(self, kinds: Any) -> Any:
        """Let steps fill what Newton's sensors read beside the state.

        Args:
            kinds: Newton's kinds or their names: ``"body_qdd"``, ``"contact_f"``, ``"body_parent_f"``; or a sensor's
                ``solver_observable_kinds``.

        Returns:
            Newton's `Observables`, for ``sensor.update(sim.state, observables=...)``. They are filled whenever `step`
            returns or a callback runs. The next call replaces them.

        Raises:
            ValueError: A kind is not offered, or not with these options.
        """
        from ..look.sensors import Observed

        self._observed = Observed(self, kinds)
        return self._observed.arrays

    # Signals.

    def record(
        self, signals: str | Iterable[str], every: int = 1, worlds: Iterable[int] | int | None = None
    ) -> SignalRecording:
        """Record signals over time, from now on until the recording is stopped.

        Samples are copied on the device and read in bundles, so that steps do not wait for them.

        Args:
            signals: Names such as ``joint_q:left_knee``, ``body_q:torso.z``, ``contact_force:*_foot``, ``iterations``
                or ``energy``; patterns stand for all that match. `sap_warp.look.signals.QUANTITIES` says what there is.
            every: Steps between samples.
            worlds: Which worlds; None is all.

        Returns:
            The recording; with ``with`` it stops by itself.

        Raises:
            SignalError: There is no such signal.
        """
        from ..look.signals import SignalRecording

        return SignalRecording(self, signals, every, worlds)

    # Pictures.

    _load_display: Callable[[], Any] | None = None

    @cached_property
    def studio(self) -> Studio:
        """Studio in which `render` takes its pictures; made when it is first asked for."""
        from ..look.pictures.display import make_studio

        return make_studio(self.model, self._load_display)

    def render(
        self,
        camera: Camera | Mapping[str, Any] | str | None = None,
        *,
        width: int = 640,
        height: int = 480,
        worlds: int | Sequence[int] = 0,
        kind: str = "color",
        samples: int = 3,
    ) -> np.ndarray:
        """Take a picture, without a display and on every device. The first one compiles the ray tracer.

        Args:
            camera: A preset (auto, iso, front, back, side, top), a `Camera`, its settings as a mapping or as a text
                like ``"side,follow=torso,fov=30"``. None shows the whole world from the front and the side.
            width: [pixels].
            height: [pixels].
            worlds: Which world, or several of them.
            kind: ``"color"``, ``"depth"`` or ``"segmentation"``.
            samples: Edges are the mean of ``samples`` x ``samples`` rays in each pixel; 1 is fastest.

        Returns:
            sRGB bytes of shape (height, width, 3); with ``"depth"`` the depth along the axis of the camera [m] of shape
            (height, width), infinite where there is nothing; with ``"segmentation"`` numbers of bodies within their
            world, -1 for what belongs to none, -2 for nothing. With several worlds there is one more axis in front.

        Raises:
            ValueError: An argument has no valid value.
        """
        from ..look.pictures.display import take_picture

        return take_picture(self, camera, (width, height), worlds, kind=kind, samples=samples)

    def recorder(self, path: str | os.PathLike[str], **options: Any) -> Recorder:
        """Begin a recording: .mp4, .gif, .png (the last picture) or .html (a page that replays it).

        Args:
            path: The file, which is written when the recorder is closed.
            **options: See `Recorder`: fps, width, height, camera, orbit, worlds and samples.

        Raises:
            RecordingError: The file cannot be written, or something is missing that it needs.
        """
        from ..look.pictures import Recorder

        return Recorder(self, path, **options)
