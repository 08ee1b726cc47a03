"""mujoco_warp on the CPU beside SAP Warp and MuJoCo C, on the same scenes.

    python benchmarks/mujoco_warp_cpu.py [--scenes cube humanoid] [--worlds 64] [--repeats 5]

mujoco_warp is written for GPUs, and this says nothing about one: it is the only device to be had here. Its model is
the very MjModel that MuJoCo C steps, so solver, tolerances and contact parameters are the same. It is used by itself,
not through Newton's SolverMuJoCo, which does not fit the version that is installed. Both Warp programs are replayed as
captured graphs; where mujoco_warp cannot be, a line says so. Its first step compiles for one to two minutes per scene.
"""

from __future__ import annotations

import argparse

import mujoco
import mujoco_warp
import numpy as np
import robots
import warp as wp
from compare import Clock, Timing, measure
from engines import MujocoEngine, SapEngine, choose_height, settling_steps


class MujocoWarpEngine(MujocoEngine):
    """mujoco_warp: all worlds in one `step`, on the CPU."""

    name = "mujoco_warp"

    def __init__(self, scene: robots.Scene, worlds: int):
        super().__init__(scene, worlds)
        with wp.ScopedDevice("cpu"):
            self.warp_model = mujoco_warp.put_model(self.model)
            self.warp_data = mujoco_warp.put_data(
                self.model,
                self.data[0],
                nworld=worlds,
                nconmax=scene.max_rigid_contact,
                njmax=8 * scene.max_rigid_contact,
            )
            self.restart()
            mujoco_warp.step(self.warp_model, self.warp_data)
            self.graph = self._capture()

    def _capture(self) -> wp.Graph | None:
        try:
            with wp.ScopedCapture() as capture:
                mujoco_warp.step(self.warp_model, self.warp_data)
        except Exception as error:
            print(f"mujoco_warp cannot be captured on the CPU ({str(error).splitlines()[0]}): its steps are launched")
            return None
        return capture.graph

    def restart(self) -> None:
        mujoco.mj_resetData(self.model, self.data[0])
        nq, nv = self.model.nq, self.model.nv
        first = 1  # the time
        with wp.ScopedDevice("cpu"):
            self.warp_data.qpos.assign(self.initial[:, first : first + nq].astype(np.float32))
            self.warp_data.qvel.assign(np.zeros((self.worlds, nv), np.float32))
            self.warp_data.qacc_warmstart.zero_()

    def settle(self) -> None:
        self.restart()
        self.advance(settling_steps(self.scene))

    def advance(self, steps: int) -> None:
        with wp.ScopedDevice("cpu"):
            for _ in range(steps):
                if self.graph is None:
                    mujoco_warp.step(self.warp_model, self.warp_data)
                else:
                    wp.capture_launch(self.graph)

    def height(self) -> float:
        return float(np.median(choose_height(self.scene, self.warp_data.xpos.numpy()[:, 1:, 2])))

    def contacts(self) -> float:
        return float(self.warp_data.nacon.numpy()[0]) / self.worlds


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", nargs="+", choices=robots.SCENES, default=["cube", "humanoid"])
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    arguments = parser.parse_args()
    wp.config.log_level = wp.LOG_WARNING
    print("| scene | worlds | contacts | SAP Warp us | MuJoCo C us | mujoco_warp us | SAP Warp over mujoco_warp |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in arguments.scenes:
        scene = robots.SCENES[name]
        kinds = (SapEngine, MujocoEngine, MujocoWarpEngine)
        engines = [kind(scene, arguments.worlds) for kind in kinds]
        row = measure(scene, arguments.worlds, engines, "settled", arguments.repeats, arguments.seconds, Clock(1))
        found: list[Timing] = [row.timings[kind.name] for kind in kinds]
        low, middle, high = row.ratio(MujocoWarpEngine.name)
        contacts = " / ".join(f"{timing.contacts:.1f}" for timing in found)
        times = " | ".join(f"{timing.median:.1f}" for timing in found)
        print(f"| {name} | {arguments.worlds} | {contacts} | {times} | {middle:.0f} ({low:.0f} to {high:.0f}) |")
        for note in row.notes:
            print(f"  {name}: {note}")


if __name__ == "__main__":
    main()
