"""Draw the figures of docs/math.md and docs/concepts.md.

    python tools/draw_math.py

Curves are computed from the formulas of the page, so that a figure that looks wrong is a formula that is wrong. Needs
matplotlib (the `plot` extra). The files are the same whenever they are drawn.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
BLUE, ORANGE, GREEN, GREY = "#2563a8", "#d1741f", "#3a8a4d", "#777777"
STYLE = {
    "svg.hashsalt": "sap-warp",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def save(figure: plt.Figure, name: str) -> None:
    """Write a figure without a date."""
    figure.savefig(IMAGES / f"math_{name}.svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
    plt.close(figure)


def draw_step() -> None:
    """The stages of a step and what goes from one to the next."""
    stages = ("collide", "begin", "free motion", "contact data", "solve", "end")
    results = ("contacts", "q, v in sap order", "A, v*", "vc, Reg, w", "v = argmin l(v)", "q, v, poses")
    figure, axes = plt.subplots(figsize=(8.4, 1.5))
    for i, (stage, result) in enumerate(zip(stages, results, strict=True)):
        axes.add_patch(FancyBboxPatch((1.5 * i, 0.35), 1.1, 0.5, boxstyle="round,pad=0.06", fc="#e8eff7", ec=BLUE))
        axes.text(1.5 * i + 0.55, 0.6, stage, ha="center", va="center", fontsize=9)
        axes.text(1.5 * i + 0.55, 0.08, result, ha="center", va="center", color=GREY, fontsize=8)
        if i:
            arrow = FancyArrowPatch((1.5 * i - 0.33, 0.6), (1.5 * i - 0.05, 0.6), arrowstyle="->", mutation_scale=12)
            axes.add_patch(arrow)
    axes.set(xlim=(-0.2, 8.9), ylim=(-0.1, 1.0))
    axes.axis("off")
    save(figure, "step")


def draw_cost() -> None:
    """One dof above the ground: free motion wants -1 m/s, the contact wants 0."""
    mass, target, softness = 1.0, -1.0, 0.35
    v = np.linspace(-1.6, 0.8, 400)
    motion = 0.5 * mass * (v - target) ** 2
    contact = 0.5 * np.maximum(0.0, -v) ** 2 / softness
    best = target / (1.0 + 1.0 / (mass * softness))
    figure, axes = plt.subplots(figsize=(5.2, 3.0))
    axes.plot(v, motion, color=BLUE, label="½ m (v − v*)²")
    axes.plot(v, contact, color=ORANGE, label="contact, ½ R γ²")
    axes.plot(v, motion + contact, color="black", label="l(v)")
    axes.plot([best], [np.interp(best, v, motion + contact)], "o", color=GREEN, label="the step's velocity")
    axes.axvline(target, color=GREY, lw=0.8, ls=":")
    axes.text(target, 1.72, " v*", color=GREY)
    axes.set(xlabel="velocity along the normal [m/s]", ylabel="cost [J]", ylim=(0.0, 1.8))
    axes.legend(frameon=False, fontsize=8)
    save(figure, "cost")


def draw_normal() -> None:
    """Normal impulse over the velocity at the end of the step, without friction."""
    h, tau, k = 0.005, 0.02, 1.0e4
    softness = 1.0 / (h * k * (h + tau))
    v = np.linspace(-0.15, 0.15, 300)
    figure, axes = plt.subplots(figsize=(5.2, 2.8))
    for phi, color in ((-0.002, BLUE), (0.0, "black"), (0.001, ORANGE)):
        gamma = np.maximum(0.0, (-phi / (h + tau) - v) / softness)
        axes.plot(v, gamma, color=color, label=f"φ₀ = {1e3 * phi:g} mm")
    axes.set(xlabel="normal velocity at the end of the step [m/s]", ylabel="normal impulse [N s]")
    axes.legend(frameon=False, fontsize=8)
    save(figure, "normal")


def project(y_r: np.ndarray, y_n: np.ndarray, mu: float, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Impulse (radial, normal) for y; ``ratio`` is R_t / R_n."""
    mu_hat, f = mu * ratio, 1.0 / (1.0 + mu * mu * ratio)
    slide = f * (y_n + mu_hat * y_r)
    stick, apart = y_r <= mu * y_n, y_n <= -mu_hat * y_r
    normal = np.where(stick, y_n, np.where(apart, 0.0, slide))
    return np.where(stick, y_r, mu * normal), normal


def draw_cone() -> None:
    """The three regions of the projection, and where some points go."""
    mu, ratio = 0.7, 0.6
    figure, axes = plt.subplots(figsize=(5.2, 3.6))
    axes.fill([0, 1.4, 0], [0, 2.0, 2.0], color=GREEN, alpha=0.15)
    axes.fill([0, 1.4, 2.0, 2.0], [0, 2.0, 2.0, -2.0 * mu * ratio], color=ORANGE, alpha=0.13)
    axes.fill([0, 2.0, 2.0, 0], [0, -2.0 * mu * ratio, -1.2, -1.2], color=GREY, alpha=0.15)
    axes.plot([0, 1.4], [0, 2.0], color=GREEN)
    axes.plot([0, 2.0], [0, -2.0 * mu * ratio], color=GREY)
    for y_r, y_n in ((1.7, 1.2), (1.7, 0.3), (1.2, -0.2), (0.9, -0.9), (0.4, 1.4)):
        r, n = project(np.array(y_r), np.array(y_n), mu, ratio)
        axes.annotate("", (float(r), float(n)), (y_r, y_n), arrowprops={"arrowstyle": "->", "color": BLUE})
        axes.plot([y_r], [y_n], "o", color=BLUE, ms=4)
    axes.text(0.1, 1.75, "stiction: γ = y", color=GREEN)
    axes.text(1.16, 0.72, "sliding", color=ORANGE)
    axes.text(0.1, -1.08, "apart: γ = 0", color="#555555")
    axes.set(xlabel="|y_t|", ylabel="y_n", xlim=(0, 2), ylim=(-1.2, 2.0))
    save(figure, "cone")


def draw_friction() -> None:
    """Friction over slip for two loads: a steep line, then mu N."""
    slip = np.linspace(-3e-4, 3e-4, 600)
    figure, axes = plt.subplots(figsize=(5.2, 2.8))
    mu, h, weight, sigma = 0.5, 0.005, 1.0, 1e-3
    for load, color in ((9.81, BLUE), (19.62, ORANGE)):
        force = np.clip(-slip / (sigma * weight), -mu * load * h, mu * load * h) / h
        axes.plot(1e6 * slip, force, color=color, label=f"N = {load:g} N")
    axes.axhline(0.0, color=GREY, lw=0.6)
    axes.set(xlabel="slip velocity [µm/s]", ylabel="friction [N]")
    axes.legend(frameon=False, fontsize=8)
    save(figure, "friction")


def draw_joint_terms() -> None:
    """Impulses of drive, limit and dry friction of one dof over its velocity."""
    v = np.linspace(-3.0, 3.0, 600)
    h = 0.005
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.5), sharey=True, constrained_layout=True)
    drive = np.clip(200.0 * 0.1 - (h * 200.0 + 10.0) * v, -15.0, 15.0)
    limit = np.maximum(0.0, (-0.002 / (h + 0.01) - v) * h * 1e4 * (h + 0.01)) / h / 100.0
    friction = -np.clip(v / 0.05, -1.0, 1.0) * 6.0
    for one, force, title in zip(axes, (drive, limit, friction), ("drive", "lower limit", "dry friction"), strict=True):
        one.plot(v, force, color=BLUE)
        one.axhline(0.0, color=GREY, lw=0.6)
        one.set(title=title, xlabel="v [rad/s]", ylim=(-18, 22))
    axes[0].set_ylabel("torque [N m]")
    axes[1].set_ylabel("[100 N m]")
    save(figure, "joints")


def draw_rows() -> None:
    """Non-zeros of A for a base with two legs, and what a contact between the feet adds to the Hessian."""
    # children before parents: leg one (3), leg two (3), base (6)
    first = [0, 0, 0, 3, 3, 3] + [0] * 6
    touching = [0, 0, 0, 0, 0, 0] + [0] * 6
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.0), constrained_layout=True)
    titles = ("A: rows of the tree", "Hessian, feet touch")
    for one, rows, title in zip(axes, (first, touching), titles, strict=True):
        picture = np.ones((12, 12, 3))
        for row, start in enumerate(first):
            picture[row, start : row + 1] = matplotlib.colors.to_rgb(BLUE)
        for row, start in enumerate(rows):
            picture[row, start : first[row]] = matplotlib.colors.to_rgb(ORANGE)
        one.imshow(picture, interpolation="nearest")
        one.set(title=title, xticks=[1, 4, 8.5], yticks=[1, 4, 8.5])
        one.set_xticklabels(["leg 1", "leg 2", "base"])
        one.set_yticklabels(["leg 1", "leg 2", "base"])
        for edge in np.arange(-0.5, 12.0):
            one.axhline(edge, color="white", lw=0.6)
            one.axvline(edge, color="white", lw=0.6)
    save(figure, "rows")


def main() -> None:
    """Draw them all."""
    with plt.rc_context(STYLE):
        for draw in (draw_step, draw_cost, draw_normal, draw_cone, draw_friction, draw_joint_terms, draw_rows):
            draw()


if __name__ == "__main__":
    main()
