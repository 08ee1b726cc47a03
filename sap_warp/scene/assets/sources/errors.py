"""The error of all asset sources."""


class AssetSourceError(ValueError):
    """An asset cannot be had; the message names what was asked for, what was found and what to do."""
