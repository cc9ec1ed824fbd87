"""Hypothesis strategies for responses of name servers and brokers: mostly what they could be, with hostile values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from connector_tests.support.message_bytes import pull_body
from connector_tests.support.message_strategies import records
from connector_tests.support.scripted_broker import build_response
from rocketmq_spark.wire.remoting.codes import ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

NUMBERS: Final = st.sampled_from([0, 1, 4, -1, 65_535, 65_536, 65_537, 3_000_000, 2**31 - 1, 2**63 - 1, 2**64, 10**30])
TEXTS: Final = st.text(max_size=12) | st.sampled_from(["T", "a", "a:10911", "", "b\n[fake]", "x" * 300])
JSON: Final = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
LENGTHS: Final = st.sampled_from([b"[" * 50_000, b'{"a":' * 50_000, b"[" + b"[]," * 20_000 + b"0]", b"9" * 5_000])


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What ``strategy`` gives, and now and then anything else."""
    return st.integers(0, 9).flatmap(lambda dice: JSON if dice == 0 else strategy)


BROKERS: Final = st.fixed_dictionaries(
    {
        "brokerAddrs": mostly(st.dictionaries(st.sampled_from(["0", "1", "-1", "x"]), mostly(TEXTS), max_size=3)),
        "brokerName": mostly(TEXTS),
        "cluster": mostly(TEXTS),
    }
)
QUEUE_DATA: Final = st.fixed_dictionaries(
    {
        "brokerName": mostly(TEXTS),
        "perm": mostly(st.integers(0, 7) | NUMBERS),
        "readQueueNums": mostly(NUMBERS),
        "writeQueueNums": mostly(NUMBERS),
    }
)
ROUTES: Final = st.fixed_dictionaries(
    {
        "brokerDatas": mostly(st.lists(mostly(BROKERS), max_size=4)),
        "queueDatas": mostly(st.lists(QUEUE_DATA, max_size=4)),
    },
    optional={"topicQueueMappingByBroker": JSON},
)
CLUSTERS: Final = st.fixed_dictionaries(
    {
        "brokerAddrTable": mostly(st.dictionaries(TEXTS, mostly(BROKERS), max_size=3)),
        "clusterAddrTable": mostly(st.dictionaries(TEXTS, mostly(st.lists(TEXTS)), max_size=3)),
    }
)
QUEUES: Final = st.builds(
    lambda topic, broker, number: json.dumps({"topic": topic, "brokerName": broker, "queueId": number}),
    mostly(TEXTS),
    mostly(TEXTS),
    mostly(NUMBERS),
)
OFFSETS: Final = st.fixed_dictionaries(
    {"minOffset": mostly(NUMBERS), "maxOffset": mostly(NUMBERS), "lastUpdateTimestamp": mostly(NUMBERS)}
)
STATS: Final = st.fixed_dictionaries(
    {"offsetTable": mostly(st.dictionaries(QUEUES | TEXTS, mostly(OFFSETS), max_size=4))}
)
LISTS: Final = st.fixed_dictionaries(
    {"consumerIdList": mostly(st.lists(TEXTS)), "lockOKMQSet": mostly(st.lists(QUEUES.map(json.loads), max_size=3))}
)
SUBSCRIPTIONS: Final = st.fixed_dictionaries(
    {
        "topic": mostly(TEXTS),
        "subString": mostly(TEXTS),
        "tagsSet": mostly(st.lists(TEXTS, max_size=3)),
        "codeSet": mostly(st.lists(NUMBERS, max_size=3)),
        "subVersion": mostly(NUMBERS),
        "expressionType": mostly(TEXTS),
    }
)
MEMBERS: Final = st.fixed_dictionaries(
    {
        "clientId": mostly(TEXTS),
        "clientAddr": mostly(TEXTS),
        "language": mostly(TEXTS),
        "version": mostly(NUMBERS),
    }
)
CLOCKS: Final = st.fixed_dictionaries(
    {
        "bootTimestamp": mostly(NUMBERS.map(str)),
        "runtime": mostly(NUMBERS.map(lambda number: f"[ {number} days, 2 hours, {number} minutes, 4 seconds ]")),
    }
)
SETTINGS: Final = st.fixed_dictionaries(
    {
        "retryMaxTimes": mostly(NUMBERS),
        "retryQueueNums": mostly(NUMBERS),
        "consumeEnable": mostly(st.booleans()),
        "consumeBroadcastEnable": mostly(st.booleans()),
        "attributes": mostly(st.dictionaries(st.sampled_from(["message.type", "cleanup.policy"]), mostly(TEXTS))),
        "subscriptionGroupTable": mostly(st.dictionaries(TEXTS, JSON, max_size=3)),
        "connectionSet": mostly(st.lists(MEMBERS, max_size=3)),
        "subscriptionTable": mostly(st.dictionaries(TEXTS, mostly(SUBSCRIPTIONS), max_size=2)),
        "consumeType": mostly(TEXTS),
        "messageModel": mostly(TEXTS),
        "table": mostly(CLOCKS),
    }
)
"""Of topics, groups, their members, and brokers."""
PROCESS_QUEUES: Final = st.fixed_dictionaries(
    {
        name: mostly(NUMBERS)
        for name in (
            "commitOffset",
            "cachedMsgMinOffset",
            "cachedMsgMaxOffset",
            "cachedMsgCount",
            "lastLockTimestamp",
            "lastPullTimestamp",
            "lastConsumeTimestamp",
        )
    }
    | {"locked": mostly(st.booleans()), "droped": mostly(st.booleans())}
)
RUNNING_INFOS: Final = st.fixed_dictionaries(
    {
        "properties": mostly(st.dictionaries(TEXTS, mostly(TEXTS), max_size=3)),
        "subscriptionSet": mostly(st.lists(mostly(SUBSCRIPTIONS), max_size=2)),
        "mqTable": mostly(st.dictionaries(QUEUES | TEXTS, mostly(PROCESS_QUEUES), max_size=2)),
    }
)
TOPIC_LISTS: Final = st.fixed_dictionaries({"topicList": mostly(st.lists(mostly(TEXTS), max_size=5))})
OFFSET_FIELDS: Final = st.dictionaries(
    st.sampled_from(["offset", "popTime", "invisibleTime", "reviveQid", "nextBeginOffset", "minOffset", "maxOffset"]),
    NUMBERS.map(str) | NUMBERS.map(str) | TEXTS,
    min_size=3,
)
POP_FIELDS: Final = st.dictionaries(
    st.sampled_from(["popTime", "invisibleTime", "reviveQid", "startOffsetInfo", "msgOffsetInfo", "orderCountInfo"]),
    NUMBERS.map(str)
    | TEXTS
    | st.lists(st.tuples(st.sampled_from("012x"), NUMBERS, NUMBERS), max_size=3).map(
        lambda entries: ";".join(f"{retry} {queue} {offset}" for retry, queue, offset in entries)
    ),
)


def encoded(value: Any) -> bytes:
    """As JSON, with its NaN and infinities; lone surrogates as escapes."""
    return json.dumps(value).encode()


def bodies(values: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return values.map(encoded) | JSON.map(encoded) | st.binary(max_size=60) | LENGTHS


def responses(values: st.SearchStrategy[bytes], fields: st.SearchStrategy[dict[str, str]]) -> st.SearchStrategy[Any]:
    """Mostly a success; any code, remark and fields at times."""
    codes = st.just(int(ResponseCode.SUCCESS)) | st.sampled_from([*map(int, ResponseCode), -1, 99_999])
    return st.builds(
        build_response, codes, fields, values, st.none() | st.text(st.characters(exclude_categories=["Cs"]))
    )


NO_FIELDS: Final[st.SearchStrategy[dict[str, str]]] = st.just({}) | st.dictionaries(
    TEXTS.filter(str.isascii), TEXTS.filter(str.isascii), max_size=3
)


@st.composite
def popped(draw: st.DrawFn) -> RemotingCommand:
    """A POP response, some of whose fields fit its messages; their number and size go beyond what is accepted."""
    found = draw(st.lists(records(), max_size=3)) * draw(st.sampled_from([1, 1, 1, 8, 8, 342]))
    if draw(st.booleans()):
        any_fields: RemotingCommand = draw(responses(st.just(pull_body(*found)) | repeated_bytes(), POP_FIELDS))
        return any_fields
    placed = [replace(one, topic="T", queue_id=1, queue_offset=5 + index) for index, one in enumerate(found)]
    same = draw(st.sampled_from(["", "0 1 5", "1 1 5"]))
    offsets = same or "0 1 " + ",".join(str(5 + index) for index in range(len(found)))
    fields = {"popTime": "1", "invisibleTime": "60000", "reviveQid": "1"}
    places = {"startOffsetInfo": "0 1 5", "msgOffsetInfo": offsets}
    return build_response(fields=fields | places, body=pull_body(*placed))


def repeated_bytes() -> st.SearchStrategy[bytes]:
    """Up to some 100 kB."""
    return st.builds(lambda data, count: data * count, st.binary(max_size=100), st.sampled_from([1, 3, 1_000]))


def offset_responses() -> st.SearchStrategy[Any]:
    """To requests for offsets and times, and to pulls that verify these."""
    stored = st.lists(records(), max_size=2).map(lambda drawn: pull_body(*drawn))
    return responses(stored | repeated_bytes(), OFFSET_FIELDS)
