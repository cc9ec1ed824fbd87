"""Tags hash as in Java; a broker drops messages whose tag hashes otherwise."""

from __future__ import annotations

from random import Random
from typing import Any

from connector_tests.support.java_values import random_text
from rocketmq_spark.wire.body.subscription import build_subscription, java_hash_code


def test_strings_hash_as_in_java(java: Any) -> None:
    random = Random(3)
    texts = ["", "\x00", *(random_text(random, 40) for _ in range(500))]
    hash_code = java.java.util.Objects.hashCode
    assert [java_hash_code(text) for text in texts] == [hash_code(text) for text in texts]


def test_subscriptions_have_the_tags_and_the_hashes_of_java(java: Any) -> None:
    random = Random(4)
    build = java.org.apache.rocketmq.remoting.protocol.filter.FilterAPI.buildSubscriptionData
    for _ in range(300):
        expression = random_expression(random)
        ours, theirs = build_subscription("T", expression, 1), build("T", expression)
        assert ours.tags_set == set(theirs.getTagsSet()), expression
        assert ours.code_set == set(theirs.getCodeSet()), expression
        assert ours.sub_string == theirs.getSubString(), expression


def random_expression(random: Random) -> str:
    """Tags with blanks around them and empty ones in between; sometimes everything."""
    if random.random() < 0.1:
        return random.choice(["*", ""])
    tags = [random_text(random).replace("|", "/").replace("*", "+") for _ in range(random.randint(1, 5))]
    tags += random.choices(["", " ", "\t"], k=random.randint(0, 2))
    random.shuffle(tags)
    tags.insert(random.randrange(len(tags) + 1), "x")
    return random.choice(["||", " || ", "\t||"]).join(tags)
