"""Parameters of fixtures for what must hold on clusters with ACL and TLS, with one of the two, and with neither.

A change is checked on the first; 'make test-all' takes all four.
"""

from __future__ import annotations

from typing import Final

import pytest

SECURITY_SHAPES: Final = (
    pytest.param({"acl": True, "tls": True}, id="ACL+TLS"),
    pytest.param({"acl": False, "tls": False}, id="plain", marks=pytest.mark.full),
    pytest.param({"acl": True, "tls": False}, id="ACL", marks=pytest.mark.full),
    pytest.param({"acl": False, "tls": True}, id="TLS", marks=pytest.mark.full),
)
"""Shapes for ``ClusterPool.get``."""
