"""Signed requests. Those of Java's own client are beside them in oracle/test_signature.py."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

import pytest

from rocketmq_spark.errors import LocalProtocolError
from rocketmq_spark.security import Credentials, Secret
from rocketmq_spark.wire.remoting.command import RemotingCommand, encode
from rocketmq_spark.wire.remoting.signature import SIGNATURE, SignatureTemplate, identity, sign

ME = Credentials("me", Secret("key"), Secret("token"))
ODD_NAMES = {"a": "1", "Z": "2", "\uff5e": "3", "\U0001f680": "%d"}


def signature_of(content: bytes) -> str:
    return b64encode(hmac.new(b"key", content, hashlib.sha1).digest()).decode()


def test_the_values_are_signed_in_javas_order_of_their_names_and_then_the_body() -> None:
    """AccessKey, SecurityToken, Z, a, and characters beyond 16 bits before the last of those within."""
    request = sign(RemotingCommand(11, fields=ODD_NAMES, body=b"body"), ME)
    assert request.fields == {
        **ODD_NAMES,
        "AccessKey": "me",
        "SecurityToken": "token",
        "Signature": signature_of(b"metoken21%d3body"),
    }
    assert (request.code, request.body) == (11, b"body")


def test_a_caller_that_has_no_token_sends_none() -> None:
    assert identity(Credentials("me", Secret("key"))) == {"AccessKey": "me"}


@pytest.mark.parametrize("numbers", [("n",), ("Z", "n"), ("AccessKey", "n")])
def test_a_template_signs_as_each_request_is_signed_by_itself(numbers: tuple[str, ...]) -> None:
    sample = {**ODD_NAMES, **dict.fromkeys(numbers, "0")}
    template = SignatureTemplate({"AccessKey": "me", "SecurityToken": "token", **sample}, numbers, ME.secret_key)
    values = [7 + at for at in range(len(numbers))]
    credentials = Credentials(str(values[0]), ME.secret_key, ME.security_token) if "AccessKey" in numbers else ME
    request = RemotingCommand(11, fields={**sample, **dict(zip(numbers, map(str, values), strict=True))})
    assert template.sign(*values).decode() == sign(request, credentials).fields[SIGNATURE]


def test_what_is_no_unicode_is_refused_by_the_writer_of_the_frame() -> None:
    request = sign(RemotingCommand(11, fields={"a": "\ud800"}), ME)
    with pytest.raises(LocalProtocolError) as caught:
        encode(request)
    assert caught.value.condition == "INVALID_MESSAGE"
