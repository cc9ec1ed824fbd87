"""Parameters of fixtures for what must hold on clusters with ACL and TLS, with one of the two, and with neither.

A change is checked on the first; 'make test-all' takes all four.
"""

from __future__ import annotations

from typing import Final

import pytest

from rocketmq_spark.embedded import EmbeddedCluster, Right
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.options.connection import options_of
from rocketmq_spark.security import Security

SECURITY_SHAPES: Final = (
    pytest.param({"acl": True, "tls": True}, id="ACL+TLS"),
    pytest.param({"acl": False, "tls": False}, id="plain", marks=pytest.mark.full),
    pytest.param({"acl": True, "tls": False}, id="ACL", marks=pytest.mark.full),
    pytest.param({"acl": False, "tls": True}, id="TLS", marks=pytest.mark.full),
)
"""Shapes for ``ClusterPool.get``."""


def user_options(cluster: EmbeddedCluster, *rights: Right) -> dict[str, str]:
    """Return the credentials of a new user with ``rights`` as options; {} where the cluster has no users."""
    if cluster.security.credentials is None:
        return {}
    actions: dict[str, set[str]] = {}
    for right in rights:
        actions.setdefault(right.resource, set()).update(right.actions)
    merged = [Right(resource, tuple(sorted(granted))) for resource, granted in actions.items()]
    return options_of(Security(cluster.create_user(unique_name("user"), *merged)))
