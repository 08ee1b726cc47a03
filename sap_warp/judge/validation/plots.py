"""Plots of the report. matplotlib comes with the extra ``validate`` and is imported when a plot is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .result import Outcome

Outcomes = dict[str, Outcome]
DPI = 110


@contextmanager
def _figure(path: Path, columns: int = 1, width: float = 7.0, height: float = 4.0, **keywords: Any) -> Iterator[Any]:
    """Yield the axes of a new figure that is saved as ``path``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=(width, height), layout="constrained", **keywords)
    yield axes
    for one in np.atleast_1d(axes):
        one.grid(True, which="major", alpha=0.3)
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)


def drake(outcomes: Outcomes, path: Path) -> None:
    """Plot the largest differences from Drake, case by case."""
    found = {name.split("/")[1]: o.curves["drake"] for name, o in outcomes.items() if "drake" in o.curves}
    with _figure(path, height=0.3 * len(found) + 1.8) as axes:
        positions = np.arange(len(found))[::-1]
        for (label, marker), offset in zip(
            (("one step", "o"), ("positions", "s"), ("velocities", "^")), (0.2, 0, -0.2), strict=True
        ):
            values = [max(one[label], 1e-17) for one in found.values()]
            unit = {
                "one step": "velocity after one step",
                "positions": "positions over the run",
                "velocities": "velocities over the run",
            }
            axes.plot(values, positions + offset, marker, label=unit[label])
        axes.axvline(1e-6, color="black", lw=1, ls="--")
        axes.axvline(1e-10, color="black", lw=1, ls=":")
        axes.text(1e-6, len(found) - 0.4, " 1e-6", va="bottom")
        axes.text(1e-10, len(found) - 0.4, " 1e-10", va="bottom")
        axes.set_xscale("log")
        axes.set_ylim(-0.6, len(found) + 0.4)
        axes.set_yticks(positions, list(found))
        axes.set_xlabel("largest difference from Drake [m, rad, m/s, rad/s]")
        axes.legend(loc="upper left", fontsize="small", framealpha=1.0)


def order(outcomes: Outcomes, path: Path) -> None:
    """Plot the error against the time step."""
    curves = outcomes["convergence/order"].curves
    problems = list(dict.fromkeys(name.split(", ")[0] for name in curves))
    with _figure(path, columns=len(problems), width=10.0, height=3.6) as axes:
        for one, problem in zip(np.atleast_1d(axes), problems, strict=True):
            largest = 0.0
            for integrator, marker in (("sap_euler", "o-"), ("midpoint", "s-")):
                h, error = curves[f"{problem}, {integrator}"]
                one.loglog(h, error, marker, label=integrator)
                largest = max(largest, error[-1])
            one.loglog(h, 2.0 * largest * h / h[-1], "k--", lw=1, label="first order")
            one.set_title(problem)
            one.set_xlabel("time step h [s]")
        np.atleast_1d(axes)[0].set_ylabel("error [rad, rad, m/s]")
        np.atleast_1d(axes)[0].legend()


def drift(outcomes: Outcomes, path: Path) -> None:
    """Plot the energy of the pendulum."""
    with _figure(path) as axes:
        for name, energy in outcomes["convergence/drift"].curves.items():
            axes.plot(np.arange(1, len(energy) + 1), 100.0 * energy, label=name.split(", ")[1])
        axes.set_xlabel("steps of 2 ms")
        axes.set_ylabel("energy gained, % of the swing")
        axes.set_title("Pendulum from 1 rad, no dissipation")
        axes.legend()


def residual(outcomes: Outcomes, path: Path) -> None:
    """Plot the residual of every Newton iteration."""
    with _figure(path) as axes:
        for (variant, curve), marker in zip(outcomes["convergence/residual"].curves.items(), "os^", strict=True):
            axes.semilogy(curve[:, 0], np.maximum(curve[:, 1], 1e-17), marker + "-", ms=4, label=variant)
        axes.axhline(1e-6, color="black", ls="--", lw=1)
        axes.text(1, 1.5e-6, "default tolerance 1e-6")
        axes.set_xlabel("Newton iterations")
        axes.set_ylabel("optimality residual")
        axes.set_title("One step of 24 bodies in mid-collapse")
        axes.legend()


def iterations(outcomes: Outcomes, path: Path) -> None:
    """Plot a histogram of iterations per step."""
    curves = outcomes["qualities/clutter"].curves
    with _figure(path, columns=len(curves), width=10.0, height=3.4, sharey=True) as axes:
        for one, (variant, counts) in zip(np.atleast_1d(axes), curves.items(), strict=True):
            one.hist(counts, bins=np.arange(-0.5, counts.max() + 1.5), rwidth=0.9)
            one.set_title(f"{variant}, mean {counts.mean():.1f}")
            one.set_xlabel("Newton iterations")
        np.atleast_1d(axes)[0].set_ylabel("steps")


def grasp(outcomes: Outcomes, path: Path) -> None:
    """Plot the slip of the grasped bodies."""
    found = [outcomes[name].curves["grasp"] for name in ("grasp/2-ms", "grasp/10-ms")]
    with _figure(path, columns=2, width=11.0, height=4.6, sharey=True) as axes:
        for one, (dt, results) in zip(axes, found, strict=True):
            labels = list(results)
            positions, names = np.arange(len(labels)), list(next(iter(results.values())))
            for i, name in enumerate(names):
                slips = np.array([1e3 * results[label][name].slip for label in labels])
                bars = one.bar(positions + 0.27 * (i - 1), np.minimum(slips, 20.0), 0.25, label=name)
                for bar, slip in zip(bars, slips, strict=True):
                    if not slip < 20.0:
                        bar.set_hatch("///")
                        bar.set_alpha(0.35)
            one.set_yscale("log")
            one.set_ylim(0.01, 40.0)
            one.axhline(20.0, color="black", ls="--", lw=1)
            one.text(-0.45, 21.5, "dropped (hatched)")
            one.set_xticks(
                positions,
                [label.replace(", ", ",\n").replace(" (", "\n(").replace(" + ", "\n+ ") for label in labels],
                fontsize="x-small",
            )
            one.set_title(f"dt = {1e3 * dt:g} ms")
        axes[0].set_ylabel("slip in 16 s of shaking [mm]")
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


PLOTS: dict[str, tuple[Callable[[Outcomes, Path], None], tuple[str, ...], str]] = {
    "drake": (drake, ("drake/",), "Largest differences from Drake"),
    "order": (order, ("convergence/order",), "Error against the time step"),
    "drift": (drift, ("convergence/drift",), "Energy of a pendulum over 1,000 steps"),
    "residual": (residual, ("convergence/residual",), "Residual per Newton iteration"),
    "iterations": (iterations, ("qualities/clutter",), "Newton iterations per step in clutter"),
    "grasp": (grasp, ("grasp/2-ms", "grasp/10-ms"), "Slip of grasped bodies"),
}
"""Function, required cases (a name, or a family with a slash) and caption of each plot, by name."""


def draw_all(outcomes: Outcomes, folder: Path) -> dict[str, Path]:
    """Draw every plot whose cases were run; returns name to file."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for name, (function, needed, _) in PLOTS.items():
        if all(any(c.startswith(want) and o.curves for c, o in outcomes.items()) for want in needed):
            made[name] = folder / f"validation_{name}.png"
            function(outcomes, made[name])
    return made
