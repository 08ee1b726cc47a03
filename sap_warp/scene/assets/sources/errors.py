"""The error of all asset sources."""


class AssetSourceError(ValueError):
    """An asset cannot be had; the message says what was asked for, what was found and what to do."""
