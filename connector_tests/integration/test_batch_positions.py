"""Any mix of the options for start and end of a batch read resolves, on a real broker, as a short reference does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta, timezone
from functools import partial
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector_tests.support.admin_broker import AdminBroker
from connector_tests.support.streams import Topic, eventually
from connector_tests.support.timeouts import REQUEST_TIMEOUT_MS
from rocketmq_spark.embedded import EmbeddedCluster
from rocketmq_spark.embedded.pytest_plugin import unique_name
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import BrokerAddress, Message, MessageQueue
from rocketmq_spark.options import BatchReadOptions
from rocketmq_spark.options.times import EPOCH
from rocketmq_spark.remoting.pool import ConnectionPool
from rocketmq_spark.source.batch.batch_plan import QueueLookup
from rocketmq_spark.wire.message.stored_message import decode_messages

pytestmark = pytest.mark.broker

Listed: TypeAlias = Any
"""What one option sets: a word or a number, or by topic either of them or by queue ID."""
Ranges: TypeAlias = dict[MessageQueue, tuple[int, int]]

WORDS: Final = ("group", "group:earliest", "group:latest")
SIZES: Final = {"first": (7, 1, 0), "second": (4, 5)}
"""Messages in each queue of two topics."""
COMMITTED: Final = (
    {"first": (3, None, 0), "second": (None, 2)},
    {"first": (7, 1, 0), "second": (0, 9)},
)
"""Offsets of two groups: one lacks some, and one has an offset beyond its queue."""
FAR_MS: Final = 10**9
TIMED: Final = ("Timestamp", "OffsetsByTimestamp")
ENDS: Final = ("starting", "ending")


@dataclass
class Held:
    """What the broker has. ``stored_ms``: store times of the messages of each queue, in order."""

    namesrv_addr: str
    pool: ConnectionPool
    groups: Sequence[str]
    stored_ms: dict[MessageQueue, list[int]]
    committed: Sequence[dict[MessageQueue, int | None]]
    """By group."""
    names: dict[str, str]
    """Of the topics that a drawn option calls first and second."""

    def texts(self, drawn: Mapping[str, Any]) -> dict[str, str]:
        """The drawn options as a user writes them."""
        given = {"namesrvAddr": self.namesrv_addr, "subscribe": ",".join(self.names.values())}
        given |= {"consumerGroup": self.groups[drawn["group"]]} if drawn["has_group"] else {}
        given |= {"startingOffsetsByTimestampStrategy": "latest"} if drawn["is_lenient"] else {}
        return given | {name: self._text(value, name) for name, value in drawn["options"].items()}

    def _text(self, value: Listed, name: str) -> str:
        if not isinstance(value, dict):
            return str(self._value(value, name))
        return json.dumps({self.names.get(topic, topic): self._of_topic(one, name) for topic, one in value.items()})

    def _of_topic(self, value: Listed, name: str) -> Any:
        if not isinstance(value, dict):
            return self._value(value, name)
        broker_name = next(iter(self.stored_ms)).broker_name
        return {broker_name: {str(queue_id): self._value(one, name) for queue_id, one in value.items()}}

    def _value(self, value: Any, name: str) -> Any:
        """A time is drawn as that of a message of all, plus ms, and written as a number or in a zone."""
        if not isinstance(value, tuple):
            return value
        time_ms = self.time_ms(value)
        hours = value[2]
        if hours is None:
            return time_ms
        zone = timezone(timedelta(hours=hours))
        return (EPOCH + timedelta(milliseconds=time_ms)).astimezone(zone).isoformat(timespec="milliseconds")

    def time_ms(self, value: tuple[int, int, int | None]) -> int:
        all_ms = sorted(ms for of_queue in self.stored_ms.values() for ms in of_queue)
        return all_ms[value[0] % len(all_ms)] + value[1]


TIME: Final = st.tuples(
    st.integers(0, 100), st.sampled_from((-FAR_MS, -1, 0, 1, FAR_MS)), st.sampled_from((None, 0, 2, -7))
)


def listed(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Listed]:
    """By topic; most often all queues of both topics, and no others."""
    of_topic = {
        topic: st.one_of(value, *[st.fixed_dictionaries(dict.fromkeys(range(len(sizes)), value))] * 2)
        for topic, sizes in SIZES.items()
    }
    of_some = st.dictionaries(st.sampled_from([0, 1, 2, 7]), value, min_size=1)
    odd = st.dictionaries(st.sampled_from(["first", "second", "other"]), value | of_some, min_size=1)
    complete = st.fixed_dictionaries(of_topic)
    return st.integers(0, 9).flatmap(lambda number: odd if number == 0 else complete)


@st.composite
def mixes(draw: st.DrawFn) -> dict[str, Any]:
    options: dict[str, Listed] = {}
    for prefix, word, number in (("starting", "earliest", -2), ("ending", "latest", -1)):
        position = st.sampled_from((word, number, word, *WORDS)) | st.integers(0, 8)
        kinds = {
            "Offsets": st.sampled_from((word, *WORDS)) | listed(position),
            "OffsetsByTimestamp": listed(TIME),
            "Timestamp": TIME,
        }
        for kind in draw(st.just(["Offsets"]) | st.lists(st.sampled_from(sorted(kinds)), unique=True)):
            options[prefix + kind] = draw(kinds[kind])
    is_mistaken = st.integers(0, 9).map(lambda number: number == 0)
    is_lenient = draw(st.booleans() if is_timed(options) else is_mistaken)
    has_group, group = uses_group(options) != draw(is_mistaken), draw(st.sampled_from((0, 0, 0, 1)))
    return {"options": options, "has_group": has_group, "group": group, "is_lenient": is_lenient}


def uses_group(options: Mapping[str, Listed]) -> bool:
    return any("group" in str(options.get(f"{prefix}Offsets")) for prefix in ENDS)


def is_timed(options: Mapping[str, Listed]) -> bool:
    return any(f"starting{kind}" in options for kind in TIMED)


# ------------------------------------------------------------------------------------------------------ the reference


def reference(drawn: Mapping[str, Any], held: Held) -> Ranges | str:
    """The ranges to read, or the condition of the error: by minimum, maximum, and search by time of each queue."""
    given = drawn["options"]
    ends: dict[str, tuple[str, dict[MessageQueue, Any]]] = {}
    if (mistake := mistake_in(drawn, held)) is not None:
        return mistake
    for prefix, default in (("starting", "earliest"), ("ending", "latest")):
        kind = next((kind for kind in (*TIMED, "Offsets") if prefix + kind in given), "Offsets")
        if (of_queues := positions(given.get(prefix + kind, default), held)) is None:
            return "LISTED_QUEUES_MISMATCH"
        ends[prefix] = kind, of_queues
    offsets: dict[str, dict[MessageQueue, int]] = {}
    for prefix, (kind, of_queues) in ends.items():
        committed = held.committed[drawn["group"]]
        of_all = {queue: offset(kind, at, queue, held, committed) for queue, at in of_queues.items()}
        found = {queue: at for queue, at in of_all.items() if at is not None}
        if len(found) < len(of_all):
            return "COMMITTED_OFFSETS_NOT_FOUND"
        is_strict = prefix == "starting" and kind in TIMED and not drawn["is_lenient"]
        if is_strict and any(at == len(held.stored_ms[queue]) for queue, at in found.items()):
            return "TIMESTAMP_NOT_MATCHED"
        offsets[prefix] = found
    if any(at > len(held.stored_ms[queue]) for found in offsets.values() for queue, at in found.items()):
        return "OFFSETS_OUT_OF_RANGE"
    ranges = {queue: (begin, offsets["ending"][queue]) for queue, begin in offsets["starting"].items()}
    if any(end < begin for begin, end in ranges.values()):
        return "END_BEFORE_START"
    return {queue: (begin, end) for queue, (begin, end) in ranges.items() if begin < end}


def mistake_in(drawn: Mapping[str, Any], held: Held) -> str | None:
    """The condition of an error that shows without a broker."""
    given = drawn["options"]
    if drawn["has_group"] != uses_group(given) or (drawn["is_lenient"] and not is_timed(given)):
        return "OPTION_REQUIRES_OPTION"
    one_time = [held.time_ms(given[f"{prefix}Timestamp"]) for prefix in ENDS if f"{prefix}Timestamp" in given]
    return "INCOMPATIBLE_OPTIONS" if one_time != sorted(one_time) else None


def positions(value: Listed, held: Held) -> dict[MessageQueue, Any] | None:
    """Of each queue; None if they are not listed exactly."""
    if not isinstance(value, dict):
        return dict.fromkeys(held.stored_ms, value)
    if value.keys() != held.names.keys():
        return None
    topics = {name: value[topic] for topic, name in held.names.items()}
    sizes = {name: len(SIZES[topic]) for topic, name in held.names.items()}
    if any(isinstance(one, dict) and one.keys() != set(range(sizes[name])) for name, one in topics.items()):
        return None
    of_topics = {queue: topics[queue.topic] for queue in held.stored_ms}
    return {queue: one[queue.queue_id] if isinstance(one, dict) else one for queue, one in of_topics.items()}


def offset(
    kind: str, at: Any, queue: MessageQueue, held: Held, committed: Mapping[MessageQueue, int | None]
) -> int | None:
    """None: the group has none."""
    stored_ms = held.stored_ms[queue]
    if kind in TIMED:
        return next((number for number, ms in enumerate(stored_ms) if ms >= held.time_ms(at)), len(stored_ms))
    fallback: int | None = {"earliest": 0, -2: 0, "latest": len(stored_ms), -1: len(stored_ms)}.get(at, at)
    if str(at).startswith("group"):
        fallback = {"group": None, "group:earliest": 0, "group:latest": len(stored_ms)}[at]
        return fallback if (of_group := committed[queue]) is None else of_group
    return fallback


# ------------------------------------------------------------------------------------------------------- what is real


@pytest.fixture(scope="module")
def held(cluster: EmbeddedCluster) -> Iterator[Held]:
    """Two topics of queues of different lengths, and a group that has offsets of some."""
    names = {topic: cluster.create_topic(unique_name(topic), len(sizes)) for topic, sizes in SIZES.items()}
    groups = [unique_name("reads") for _ in COMMITTED]
    with closing(ConnectionPool(REQUEST_TIMEOUT_MS)) as pool:
        stored_ms: dict[MessageQueue, list[int]] = {}
        committed: list[dict[MessageQueue, int | None]] = [{} for _ in groups]
        for topic, name in names.items():
            with closing(Topic(cluster, name)) as handle:
                queues = list(handle.queues)
                broker = AdminBroker(master_of(cluster, pool, queues[0]), pool, REQUEST_TIMEOUT_MS)
                for group in groups:
                    broker.ensure_group(group)
                for queue in queues:
                    for number in range(SIZES[topic][queue.queue_id]):
                        broker.send(Message(name, str(number).encode()), queue, "tests")
                        time.sleep(0.003)
                    for number, group in enumerate(groups):
                        if (at := COMMITTED[number][topic][queue.queue_id]) is not None:
                            broker.update_offset(group, queue, at)
                        committed[number][queue] = at
                eventually(partial(has_all, handle, sum(SIZES[topic])), "all messages in their queues")
                stored_ms |= {queue: times_of(broker, queue, SIZES[topic][queue.queue_id]) for queue in queues}
        yield Held(cluster.namesrv_addr, pool, groups, stored_ms, committed, names)


def has_all(topic: Topic, count: int) -> bool:
    return sum(held.max_offset for held in topic.bounds().values()) == count


def master_of(cluster: EmbeddedCluster, pool: ConnectionPool, queue: MessageQueue) -> BrokerAddress:
    options = BatchReadOptions.parse({"namesrvAddr": cluster.namesrv_addr, "subscribe": queue.topic})
    lookup = QueueLookup(options, pool)
    lookup.query_queues([queue.topic])
    return lookup.masters([queue.broker_name])[queue.broker_name]


def times_of(broker: AdminBroker, queue: MessageQueue, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        pulled = broker.pull("TOOLS_CONSUMER", queue, len(found), 32)
        found += [message.store_timestamp_ms for message in decode_messages(pulled.body, broker_name="")]
    return found


def resolved(drawn: Mapping[str, Any], held: Held) -> Ranges | str:
    try:
        options = BatchReadOptions.parse(held.texts(drawn))
        ranges = QueueLookup(options, held.pool).ranges()
    except OptionError as error:
        return error.condition
    return {one.queue: (one.begin_offset, one.end_offset) for one in ranges}


@pytest.mark.parametrize("count", [250, pytest.param(4_000, marks=[pytest.mark.long, pytest.mark.timeout(3_600)])])
def test_any_options_resolve_as_in_the_reference(held: Held, count: int) -> None:
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mixes())
    def check(drawn: dict[str, Any]) -> None:
        assert resolved(drawn, held) == reference(drawn, held)

    check()
