"""Access control of embedded brokers: settings of RocketMQ's ACL 2.0, or of 1.0 in versions without it, and users."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rocketmq_spark.embedded.jvm import ChildJvm
from rocketmq_spark.security import Credentials, Secret

ADMIN: Final = "rocketmq-admin"
ACL_1_JAR: Final = "rocketmq-acl-"
_AUTH: Final = "org.apache.rocketmq.auth"


class Right(NamedTuple):
    """Permission of a user: ``actions`` such as ``("SUB", "GET")`` on ``resource``, ``Topic:orders`` or ``Group:*``.

    ACL 1.0 supports PUB and SUB only, and no patterns.
    """

    resource: str
    actions: tuple[str, ...]


def new_credentials(name: str = ADMIN) -> Credentials:
    """Return credentials of a user ``name`` with a new random secret key."""
    return Credentials(name, Secret(secrets.token_hex(16)))


def acl_settings(admin: Credentials) -> dict[str, str]:
    """Return properties of broker.conf that enable ACL 2.0 and create ``admin``, a user with all rights. They have its
    secret key in plain text."""
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


def has_acl_1(class_path: Sequence[str]) -> bool:
    """Return whether the class path has the jar of ACL 1.0, which the supported versions of RocketMQ with ACL 2.0
    lack."""
    return any(ACL_1_JAR in jar for jar in class_path)


def write_acl_1(home: Path, admin: Credentials) -> None:
    """Write ``conf/plain_acl.yml``, the file of ACL 1.0, in folder ``home``, the servers' ``rocketmq.home.dir``. Its
    only user is ``admin``. JSON is valid YAML. Raises FileExistsError if the folder ``conf`` exists."""
    name, password = admin.access_key, admin.secret_key.reveal()
    accounts = [{"accessKey": name, "secretKey": password, "admin": True}]
    file = home / "conf" / "plain_acl.yml"
    file.parent.mkdir(parents=True, mode=0o700)
    file.write_text(json.dumps({"globalWhiteRemoteAddresses": [], "accounts": accounts}), encoding="utf-8")


def acl_1_arguments(user: Credentials, rights: Iterable[Right]) -> list[str]:
    """Return the arguments of ``mqadmin updateAclConfig`` that create ``user``, secret key in plain text, with only
    these rights; run nothing. Actions other than PUB and SUB are left out. A resource other than ``Topic:NAME`` or
    ``Group:NAME`` raises KeyError."""
    granted: dict[str, list[str]] = {"Topic": [], "Group": []}
    for right in rights:
        kind, _, name = right.resource.partition(":")
        supported = [action for action in ("PUB", "SUB") if action in right.actions]
        granted[kind].append(f"{name}={'|'.join(supported)}")
    account = ["-a", user.access_key, "-s", user.secret_key.reveal(), "-m", "false", "-i", "DENY", "-u", "DENY"]
    topics, groups = (",".join(granted[kind]) for kind in ("Topic", "Group"))
    return [*account, *(["-t", topics] if topics else []), *(["-g", groups] if groups else [])]


def create_user(jvm: ChildJvm, controller: Any, user: Credentials, rights: Iterable[Right]) -> None:
    """Create ``user`` in ACL 2.0 of the running broker ``controller`` in ``jvm``, then grant it each of ``rights``;
    wait for each step. A new user has no other rights. Raises what py4j does."""
    auth = jvm.connect().org.apache.rocketmq.auth
    action = jvm.connect().org.apache.rocketmq.common.action.Action
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
