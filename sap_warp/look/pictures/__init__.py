"""Pictures of a simulation without a display, as arrays and as files."""

from .cameras import Camera, as_camera
from .files import RecordingError
from .record import Recorder
from .studio import Studio

__all__ = ["Camera", "Recorder", "RecordingError", "Studio", "as_camera"]
