"""Access control of embedded brokers: what turns RocketMQ's ACL 2.0 on, and users with rights."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.security import Credentials, Secret

ADMIN: Final = "admin"
_AUTH: Final = "org.apache.rocketmq.auth"


class Right(NamedTuple):
    """What a user may do: ``actions`` such as ``("SUB", "GET")`` on ``resource``, ``Topic:orders`` or ``Group:*``."""

    resource: str
    actions: tuple[str, ...]


def new_credentials(name: str = ADMIN) -> Credentials:
    """Of a user ``name``, with a secret key that nobody knows yet."""
    return Credentials(name, Secret(secrets.token_urlsafe(24)))


def acl_settings(admin: Credentials) -> dict[str, str]:
    """Lines of broker.conf that let nobody in who has no rights, and ``admin`` do everything."""
    name, password = admin.access_key, admin.secret_key.reveal()
    return {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": json.dumps({"username": name, "password": password}),
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": name, "secretKey": password}),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
    }


def create_user(jvm: ChildJvm, controller: Any, user: Credentials, rights: Iterable[Right]) -> None:
    """Make a user of a broker, who has these rights and no others."""
    auth = jvm.java.org.apache.rocketmq.auth
    action = jvm.java.org.apache.rocketmq.common.action.Action
    subject = auth.authentication.model.User.of(user.access_key, user.secret_key.reveal())
    controller.getAuthenticationMetadataManager().createUser(subject).get()
    allow = auth.authorization.enums.Decision.ALLOW
    policies = [
        auth.authorization.model.Policy.of(
            auth.authorization.model.Resource.of([right.resource]),
            [action.getByName(name) for name in right.actions],
            None,
            allow,
        )
        for right in rights
    ]
    for policy in policies:
        acl = auth.authorization.model.Acl.of(subject, policy)
        controller.getAuthorizationMetadataManager().updateAcl(acl).get()
