"""What the examples share: arguments, solvers, viewers and the loop. Nothing here is special to SAP but one line."""

import argparse

import newton
import newton.viewer
import numpy as np

import sap_warp

FPS = 60
SUBSTEPS = {"sap": 4, "mujoco": 4, "xpbd": 16, "featherstone": 32}


def make_solver(name, model):
    """The one line that changes between solvers."""
    solvers = newton.solvers
    return {
        "sap": lambda: sap_warp.SolverSAP(model),
        "mujoco": lambda: solvers.SolverMuJoCo(model, use_mujoco_contacts=False),
        "xpbd": lambda: solvers.SolverXPBD(model, iterations=8),
        "featherstone": lambda: solvers.SolverFeatherstone(model),
    }[name]()


def make_viewer(name, frames, output):
    viewers = newton.viewer
    return {
        "null": lambda: viewers.ViewerNull(num_frames=frames),
        "viser": lambda: viewers.ViewerViser(),
        "rerun": lambda: viewers.ViewerRerun(),
        "usd": lambda: viewers.ViewerUSD(output_path=output, fps=FPS, num_frames=frames),
    }[name]()


class Example:
    """A scene, its solver and what has to be true in the end. Subclasses say what is in it."""

    def build(self, builder):
        raise NotImplementedError

    def prepare(self):
        """Called once, after the model is made."""

    def actuate(self):
        """Called before every substep; may write into self.control or self.state."""

    def test_final(self):
        raise NotImplementedError

    def __init__(self, viewer, solver="sap"):
        self.viewer, self.solver_name = viewer, solver
        builder = newton.ModelBuilder()
        builder.rigid_gap = 0.005
        builder.default_shape_cfg.ke = 1e5
        builder.default_shape_cfg.kd = 1e3
        if solver == "sap":
            sap_warp.SolverSAP.register_custom_attributes(builder)
        self.build(builder)
        self.model = builder.finalize()
        self.solver = make_solver(solver, self.model)
        self.state, self.next_state = self.model.state(), self.model.state()
        self.control = self.model.control()
        newton.eval_fk(self.model, self.model.joint_q, self.model.joint_qd, self.state)
        self.pipeline = newton.CollisionPipeline(self.model)
        self.contacts = self.pipeline.contacts()
        self.time, self.dt = 0.0, 1.0 / FPS / SUBSTEPS[solver]
        viewer.set_model(self.model)
        self.prepare()

    def step(self):
        """One frame."""
        for _ in range(SUBSTEPS[self.solver_name]):
            self.state.clear_forces()
            self.actuate()
            self.pipeline.collide(self.state, self.contacts)
            self.solver.step(self.state, self.next_state, self.control, self.contacts, self.dt)
            self.state, self.next_state = self.next_state, self.state
            self.time += self.dt

    def render(self):
        self.viewer.begin_frame(self.time)
        self.viewer.log_state(self.state)
        self.viewer.end_frame()

    @property
    def body_q(self):
        return self.state.body_q.numpy()

    @property
    def body_qd(self):
        return self.state.body_qd.numpy()

    def speed(self):
        """The fastest body [m/s]."""
        return float(np.linalg.norm(self.body_qd[:, :3], axis=1).max())


def run(example_class, argv=None):
    """Parse arguments, run the frames, check the physics."""
    sap_warp.quiet()
    parser = argparse.ArgumentParser(description=example_class.__doc__)
    parser.add_argument("--viewer", choices=("null", "viser", "rerun", "usd"), default="null")
    parser.add_argument("--solver", choices=tuple(SUBSTEPS), default="sap")
    parser.add_argument("--num-frames", type=int, default=200)
    parser.add_argument("--output-path", default="example.usd", help="file of the usd viewer")
    arguments = parser.parse_args(argv)
    viewer = make_viewer(arguments.viewer, arguments.num_frames, arguments.output_path)
    example = example_class(viewer, arguments.solver)
    for _ in range(arguments.num_frames):
        example.step()
        example.render()
    example.test_final()
    viewer.close()
    print(f"{example_class.__name__} with {arguments.solver}: {arguments.num_frames} frames, all checks passed.")
    return example
