"""The package's version, defined here only; ``setup.py`` reads it without importing the package."""

__version__ = "0.1.0"
