"""Show a page from a call of `Simulation.view` or a command, in a script, a terminal or a notebook."""

from __future__ import annotations

import sys
from typing import Any

from .viewer import Viewer


def show(sim: Any, block: bool | None = None, **options: Any) -> Viewer:
    """Implement `Simulation.view`."""
    in_notebook = is_notebook()
    if not in_notebook:
        options.setdefault("open_browser", True)
    blocks = block or (block is None and not in_notebook)
    options.setdefault("wait", blocks or in_notebook)
    viewer = Viewer(sim, **options)
    announce(viewer)
    if blocks:
        viewer.run()
        return viewer
    viewer.start()
    if in_notebook:
        from IPython.display import display

        display(viewer)
    return viewer


def announce(viewer: Viewer) -> None:
    """Print the address of the page, and open it if that was asked for and is possible."""
    begins = "begins when it is open, " if viewer.is_waiting else ""
    print(f"viewer: {viewer.url} ({begins}Ctrl-C closes it)", flush=True)
    if viewer.options.open_browser and not viewer.show_browser():
        print("viewer: no browser could be opened here; open that address in one", flush=True)
    if viewer.options.host not in ("127.0.0.1", "localhost", "::1"):
        print(f"viewer: anybody who can reach {viewer.options.host} can use this page", flush=True)


def is_notebook() -> bool:
    """Return True in a notebook, which can show a page."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
