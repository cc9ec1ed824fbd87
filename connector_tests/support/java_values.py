"""Values for the Java oracle and back, with few calls however long they are: as JSON, which Java parses itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from rocketmq_spark.model import MessageQueue

ALPHABETS = ["ab", "0123456789", "٠١٢٣", "éß中文", "\uff21\ufffd\ue000", "\U0001f680\U0001d7d8\U0010ffff", "-_.@#% |"]
"""Letters, digits of ASCII and others, and characters that UTF-16 and code points order differently."""


def java_queues(java: Any, queues: Sequence[MessageQueue]) -> Any:
    """A ``List<MessageQueue>``."""
    rows = [{"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id} for queue in queues]
    return _parsed(java, rows, "org.apache.rocketmq.common.message.MessageQueue")


def java_strings(java: Any, texts: Sequence[str]) -> Any:
    """A ``List<String>``."""
    return _parsed(java, list(texts), "java.lang.String")


def queues_from(java: Any, queues: Any) -> list[MessageQueue]:
    """What a ``List<MessageQueue>`` holds."""
    rows = json.loads(java.com.alibaba.fastjson2.JSON.toJSONString(queues))
    return [MessageQueue(row["topic"], row["brokerName"], row["queueId"]) for row in rows]


def strings_from(java: Any, texts: Any) -> list[str]:
    """What a ``List<String>`` holds."""
    return [str(text) for text in json.loads(java.com.alibaba.fastjson2.JSON.toJSONString(texts))]


def _parsed(java: Any, values: list[Any], element_class: str) -> Any:
    kind = java.java.lang.Class.forName(element_class)
    return java.com.alibaba.fastjson2.JSON.parseArray(json.dumps(values), kind)


def random_text(random: Random, max_length: int = 8, alphabets: Iterable[str] = ALPHABETS) -> str:
    """One to ``max_length`` characters, mostly of one alphabet."""
    main, other = random.choices(list(alphabets), k=2)
    return "".join(
        random.choice(main if random.random() < 0.8 else other) for _ in range(random.randint(1, max_length))
    )
