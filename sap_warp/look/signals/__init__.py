"""Named signals of a simulation over time: their names, collection, files and drawings."""

from .catalog import Signal, SignalError, find_signals, list_signals
from .recording import SignalRecording

__all__ = ["Signal", "SignalError", "SignalRecording", "find_signals", "list_signals"]
