"""Who reads answers in this process."""

from __future__ import annotations

import os
from functools import cache

from rocketmq_spark.wire.implementation import VARIABLE
from rocketmq_spark.wire.remoting.ordinary_answer import AnswerTemplate
from rocketmq_spark.wire.remoting.template_choice import choose_template


@cache
def answer_template() -> type[AnswerTemplate]:
    """As the environment asks for it, see ``choose_template``."""
    return choose_template(os.environ.get(VARIABLE) or None)
