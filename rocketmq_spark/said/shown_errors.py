"""What Spark shows of our errors. It prints the whole traceback of what it is told, and that of each cause before it.

An error of ours says by itself what happened and what to do, its cause included; how the code came to it helps nobody
who runs a query. So it arrives without. The level ``DEBUG`` has all of it in a line before. What is not ours is a bug,
and arrives as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from rocketmq_spark.errors import RocketMQError

log = logging.getLogger(__name__)

Error = TypeVar("Error", bound=RocketMQError)
P = ParamSpec("P")
T = TypeVar("T")


def alone(error: Error) -> Error:
    """The error without what led to it."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def raising_alone(call: Callable[P, T]) -> Callable[P, T]:
    """``call``, which Spark makes."""

    @wraps(call)
    def called(*given: P.args, **named: P.kwargs) -> T:
        try:
            return call(*given, **named)
        except RocketMQError as error:
            log.debug("this ends the query or its task", exc_info=error)
            raise alone(error) from None

    return called


def iterating_alone(items: Iterator[T]) -> Iterator[T]:
    """``items``, over which Spark iterates."""
    try:
        yield from items
    except RocketMQError as error:
        log.debug("this ends the task", exc_info=error)
        raise alone(error) from None
