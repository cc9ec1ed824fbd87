from __future__ import annotations

import copy
import dataclasses
import pickle
import traceback

import pytest

from rocketmq_spark.security import Credentials, Secret, Security, Tls

HIDDEN = "hunter2"
EVERYTHING = Security(
    Credentials("me", Secret(HIDDEN), Secret(f"token-{HIDDEN}")), Tls(key_password=Secret(f"key-{HIDDEN}"))
)


def test_a_secret_is_returned_only_on_explicit_request() -> None:
    assert Secret(HIDDEN).reveal() == HIDDEN


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        "{}".format,
        "{!r}".format,
        lambda value: "%s %r" % (value, value),  # noqa: UP031  # the old way is what is tried
        lambda value: f"{value}{value!s}{value!r}",
        lambda value: repr({"key": [value]}),
        lambda value: repr(pickle.loads(pickle.dumps(value))),
        lambda value: repr(copy.deepcopy(value)),
    ],
)
@pytest.mark.parametrize("value", [Secret(HIDDEN), EVERYTHING, EVERYTHING.credentials, EVERYTHING.tls])
def test_a_secret_is_shown_nowhere(show: object, value: object) -> None:
    assert callable(show)
    assert HIDDEN not in show(value)


def test_a_secret_is_formatted_as_what_stands_for_it() -> None:
    assert f"{Secret(HIDDEN):>5}" == "  ***"


def test_a_secret_has_no_attributes_that_reporters_would_print() -> None:
    with pytest.raises(TypeError):
        vars(Secret(HIDDEN))
    assert HIDDEN not in repr(dataclasses.asdict(EVERYTHING))


def test_an_error_about_a_secret_does_not_show_it() -> None:
    with pytest.raises(TypeError) as raised:
        "".join(["a", Secret(HIDDEN)])  # type: ignore[list-item]  # what mypy forbids is tried
    assert HIDDEN not in "".join(traceback.format_exception(raised.value))


def test_secrets_are_compared_by_their_texts() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert hash(Secret("a")) == hash(Secret("a"))


def test_security_is_a_key_that_travels() -> None:
    other = pickle.loads(pickle.dumps(EVERYTHING))
    assert {EVERYTHING: 1}[other] == 1
    assert other.credentials.secret_key.reveal() == HIDDEN
