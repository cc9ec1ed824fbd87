from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator

import pytest

from rocketmq_spark.errors import TransportError
from rocketmq_spark.said.shown_errors import alone, iterating_alone, raising_alone

REFUSED = TransportError("CONNECT_FAILED", address="n:9876", reason="refused")


def deep_down() -> int:
    try:
        raise ConnectionRefusedError(111)
    except OSError as error:
        raise TransportError("CONNECT_FAILED", address="n:9876", reason="refused") from error


def one_after_another() -> Iterator[int]:
    yield 1
    yield deep_down()


def of_a_call() -> None:
    raising_alone(deep_down)()


def of_an_iteration() -> None:
    for _ in iterating_alone(one_after_another()):
        pass


@pytest.mark.parametrize("ask", [of_a_call, of_an_iteration])
def test_an_error_of_ours_comes_once_and_without_the_way_to_it(
    ask: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "rocketmq_spark")
    with pytest.raises(TransportError) as raised:
        ask()
    shown = "".join(traceback.format_exception(raised.value))
    assert shown.count(str(REFUSED)) == 1
    assert "in deep_down" not in shown
    assert "ConnectionRefusedError" not in shown
    assert "ConnectionRefusedError" in caplog.text
    assert "in deep_down" in caplog.text


def test_what_is_not_ours_arrives_as_it_is() -> None:
    def broken() -> int:
        return 1 // 0

    with pytest.raises(ZeroDivisionError) as raised:
        raising_alone(broken)()
    assert "in broken" in "".join(traceback.format_exception(raised.value))
    with pytest.raises(ZeroDivisionError):
        list(iterating_alone(broken() for _ in range(1)))


def test_what_works_works() -> None:
    assert raising_alone(divmod)(7, 2) == (3, 1)
    assert list(iterating_alone(iter((1, 2)))) == [1, 2]


def test_an_error_that_was_kept_is_raised_as_if_it_were_new() -> None:
    with pytest.raises(TransportError) as raised:
        deep_down()
    kept = alone(raised.value)
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)
