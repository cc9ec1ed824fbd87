"""One example may take as long as it takes: a deadline on a busy machine says nothing about the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("connector", deadline=None)
settings.load_profile("connector")
