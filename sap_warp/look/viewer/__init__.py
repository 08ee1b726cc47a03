"""Page in the browser that shows a simulation while it runs, and lets people act on it."""

from .options import ViewerError, ViewerOptions
from .show import show
from .viewer import Viewer

__all__ = ["Viewer", "ViewerError", "ViewerOptions", "show"]
