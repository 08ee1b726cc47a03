"""Named signals of a simulation over time: what they are called, how they are collected, written and drawn."""

from .catalog import Signal, SignalError, find_signals, list_signals
from .recording import SignalRecording

__all__ = ["Signal", "SignalError", "SignalRecording", "find_signals", "list_signals"]
