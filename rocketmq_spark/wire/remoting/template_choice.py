"""Who reads ordinary answers: one contract, ``ordinary_answer.AnswerTemplate``, and two that keep it."""

from __future__ import annotations

from rocketmq_spark.wire.implementation import native_module
from rocketmq_spark.wire.remoting.ordinary_answer import AnswerTemplate


def choose_template(asked: str | None) -> type[AnswerTemplate]:
    """The template that ``implementation.VARIABLE`` asks for; without it the fastest that is there.

    Raises as ``native_module``.
    """
    module = native_module("rocketmq_spark.wire.remoting.native_answers", asked)
    native: type[AnswerTemplate] = AnswerTemplate if module is None else module.NativeAnswerTemplate
    return native
