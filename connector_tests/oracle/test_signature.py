"""Signed requests beside those of Java's AclClientRPCHook."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from connector_tests.support.java_values import random_text
from rocketmq_spark.security import Credentials, Secret
from rocketmq_spark.wire.remoting.command import RemotingCommand, decode, encode
from rocketmq_spark.wire.remoting.signature import sign


def java_signed(java: Any, request: RemotingCommand, credentials: Credentials) -> dict[str, str]:
    """The extFields of ``request`` after Java has signed it."""
    acl = java.org.apache.rocketmq.acl.common
    token = credentials.security_token
    session = acl.SessionCredentials(credentials.access_key, credentials.secret_key.reveal())
    if token is not None:
        session.setSecurityToken(token.reveal())
    command = java.org.apache.rocketmq.remoting.protocol.RemotingCommand.decode(encode(request)[4:])
    acl.AclClientRPCHook(session).doBeforeRequest("", command)
    return dict(decode(bytes(command.encode().array())[4:]).fields)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("has_token", [False, True])
def test_a_request_is_signed_as_java_signs_it(java: Any, seed: int, has_token: bool) -> None:
    random = Random(seed)
    token = Secret(random_text(random)) if has_token else None
    credentials = Credentials(random_text(random), Secret(random_text(random, 40)), token)
    fields = {random_text(random): random_text(random, 20) for _ in range(random.randrange(1, 12))}
    request = RemotingCommand(11, fields=fields, body=random.randbytes(random.choice((0, 1, 1000))))
    assert sign(request, credentials).fields == java_signed(java, request, credentials)


def test_a_request_without_fields_is_signed_as_java_signs_it(java: Any) -> None:
    """A heartbeat."""
    credentials, request = Credentials("me", Secret("key")), RemotingCommand(34, body=b"{}")
    assert sign(request, credentials).fields == java_signed(java, request, credentials)


def test_capital_letters_come_first(java: Any) -> None:
    credentials = Credentials("me", Secret("key"))
    request = RemotingCommand(11, fields={"a": "1", "Z": "2", "\uff21": "3", "\U0001f680": "4"})
    assert sign(request, credentials).fields == java_signed(java, request, credentials)
