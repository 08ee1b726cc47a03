"""The scenes that come with the package, and where their files are."""
