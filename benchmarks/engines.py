"""SAP Warp, MuJoCo C and Drake behind one interface, for timing the same scene in each."""

from __future__ import annotations

import logging
from typing import Any, Protocol

import export
import mujoco
import mujoco.rollout
import newton
import numpy as np
import robots

from sap_warp import Simulation

CHUNK = 200
"""Steps of one rollout while settling; MuJoCo's rollout keeps the state of every step."""
LOOKED_AT = 64
"""Worlds at most that are looked at for heights and contacts in MuJoCo, one by one in Python."""


class Engine(Protocol):
    """What the timing loop needs to know."""

    name: str

    def restart(self) -> None:
        """Go to the initial poses."""

    def settle(self) -> None:
        """From the initial poses, run until the scene is at rest, and continue from there."""

    def advance(self, steps: int) -> None:
        """Take so many steps in all worlds and wait for them; this is what is timed."""

    def mass(self) -> float:
        """Mass of one world [kg]."""

    def height(self) -> float:
        """Median over worlds of the height that the scene compares [m]."""

    def contacts(self) -> float:
        """Mean number of contact points per world now."""


class SapEngine:
    """SAP Warp."""

    name = "SAP Warp"

    def __init__(self, scene: robots.Scene, worlds: int, threads: int = 1, **options: Any):
        self.scene = scene
        self.model = robots.build(scene, worlds)
        self.sim = Simulation(
            self.model,
            dt=scene.dt,
            max_rigid_contact=scene.max_rigid_contact,
            threads=threads,
            statistics=False,
            **options,
        )
        self.sim.prepare()

    def restart(self) -> None:
        self.sim.reset()

    def settle(self) -> None:
        self.restart()
        self.advance(settling_steps(self.scene))

    def advance(self, steps: int) -> None:
        self.sim.step(steps)
        self.sim.synchronize()

    def mass(self) -> float:
        return float(self.model.body_mass.numpy().sum()) / self.sim.world_count

    def height(self) -> float:
        return float(np.median(choose_height(self.scene, self.sim.body_q.numpy()[:, :, 2])))

    def contacts(self) -> float:
        return float(self.sim.contact_counts.mean())

    def lost(self) -> int:
        """Worlds that diverged."""
        return int(self.sim.diverged.sum())


class MujocoEngine:
    """MuJoCo C with its default solver, through `mujoco.rollout`."""

    name = "MuJoCo C"

    def __init__(self, scene: robots.Scene, worlds: int, threads: int = 1):
        self.scene, self.worlds = scene, worlds
        self.model = export.to_mujoco(robots.build(scene, 1), scene.dt)
        self.data = [mujoco.MjData(self.model) for _ in range(threads)]
        self.rollout = mujoco.rollout.Rollout(nthread=0 if threads == 1 else threads)
        source = robots.build(scene, worlds)
        self.initial = self._states(source)
        self.start = self.current = self.initial
        self._buffers: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _states(self, source: newton.Model) -> np.ndarray:
        """MuJoCo's full physics states of Newton's coordinates: quaternions wxyz instead of xyzw."""
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        states = np.empty((self.worlds, mujoco.mj_stateSize(self.model, kind)))
        data = self.data[0]
        joints = source.joint_count // self.worlds
        q, starts = source.joint_q.numpy().astype(float), source.joint_q_start.numpy()
        kinds = source.joint_type.numpy()
        for world in range(self.worlds):
            parts = []
            for j in range(world * joints, (world + 1) * joints):
                part = q[starts[j] : starts[j + 1]]
                parts.append(part[[0, 1, 2, 6, 3, 4, 5]] if kinds[j] == int(newton.JointType.FREE) else part)
            mujoco.mj_resetData(self.model, data)
            data.qpos[:] = np.concatenate(parts)
            mujoco.mj_getState(self.model, data, states[world], kind)
        return states

    def restart(self) -> None:
        self.start = self.current = self.initial

    def settle(self) -> None:
        self.restart()
        left = settling_steps(self.scene)
        while left > 0:
            self.advance(min(CHUNK, left))
            left -= CHUNK
        self.start = self.current

    def advance(self, steps: int) -> None:
        if steps not in self._buffers:  # outside the timed part from the second call on
            shape = (self.worlds, steps)
            self._buffers[steps] = np.empty((*shape, self.initial.shape[1])), np.empty((*shape, self.model.nsensordata))
        state, sensors = self._buffers[steps]
        self.rollout.rollout(self.model, self.data, self.current, nstep=steps, state=state, sensordata=sensors)
        self.current = state[:, -1].copy()

    def mass(self) -> float:
        return float(self.model.body_mass.sum())

    def _look(self, what: Any) -> list[Any]:
        found = []
        data = self.data[0]
        for state in self.current[:LOOKED_AT]:
            mujoco.mj_setState(self.model, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
            mujoco.mj_forward(self.model, data)
            found.append(what(data))
        return found

    def height(self) -> float:
        heights = np.array(self._look(lambda data: data.xpos[1:, 2].copy()))
        return float(np.median(choose_height(self.scene, heights)))

    def contacts(self) -> float:
        return float(np.mean(self._look(lambda data: data.ncon)))


class DrakeEngine:
    """Drake's discrete SAP, one world; Drake has no batches."""

    name = "Drake SAP"

    def __init__(self, scene: robots.Scene):
        import pydrake.common  # noqa: F401  (sets up the logger)

        logging.getLogger("drake").setLevel(logging.ERROR)
        self.scene = scene
        self.model = robots.build(scene, 1)
        self.drake = export.to_drake(self.model, scene.dt, robots.DISSIPATION, scene.hydroelastic)
        self.restart()

    def restart(self) -> None:
        self.drake.set_coordinates(self.model.joint_q.numpy())

    def settle(self) -> None:
        self.restart()
        self.advance(settling_steps(self.scene))

    def advance(self, steps: int) -> None:
        simulator = self.drake.simulator
        done = round(simulator.get_context().get_time() / self.scene.dt)
        simulator.AdvanceTo((done + steps) * self.scene.dt)

    def mass(self) -> float:
        return float(self.drake.plant.CalcTotalMass(self._context()))

    def height(self) -> float:
        plant, context = self.drake.plant, self._context()
        poses = [plant.EvalBodyPoseInWorld(context, self.drake.bodies[b]) for b in range(self.model.body_count)]
        return float(choose_height(self.scene, np.array([[pose.translation()[2] for pose in poses]]))[0])

    def contacts(self) -> float:
        results = self.drake.plant.get_contact_results_output_port().Eval(self._context())
        faces = [results.hydroelastic_contact_info(i) for i in range(results.num_hydroelastic_contacts())]
        return float(results.num_point_pair_contacts() + sum(f.contact_surface().num_faces() for f in faces))

    def _context(self) -> Any:
        return self.drake.plant.GetMyContextFromRoot(self.drake.simulator.get_context())


def settling_steps(scene: robots.Scene) -> int:
    """Steps after which a scene is at rest."""
    return 2 * round(scene.settle / scene.dt / 2)


def choose_height(scene: robots.Scene, heights: np.ndarray) -> np.ndarray:
    """The height that is compared, by world, from those of all bodies, shape (worlds, bodies)."""
    if scene.height_of == "mean":
        return heights.mean(axis=1)
    return heights[:, 0 if scene.height_of == "first" else -1]
