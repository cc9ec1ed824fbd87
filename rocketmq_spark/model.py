"""Frozen value types for every package. They have no behaviour beyond what follows from the values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rocketmq_spark.condition import cut
from rocketmq_spark.errors import RouteError

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""Group of every broker for tools that read single messages; it owns no queues and stores no offsets."""

RETRY_TOPIC_PREFIX: Final = "%RETRY%"
DEAD_LETTER_TOPIC_PREFIX: Final = "%DLQ%"

PERM_WRITE: Final = 2
PERM_READ: Final = 4
MASTER_ID: Final = 0

MAX_PORT: Final = 65_535


def retry_topic(group: str) -> str:
    """Return the topic that redelivers the messages a group sent back. Source: ``common/MixAll.java#getRetryTopic``."""
    return RETRY_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of messages that the group could not process. Source: ``common/MixAll.java#getDLQTopic``."""
    return DEAD_LETTER_TOPIC_PREFIX + group


def is_of_group(topic: str) -> bool:
    """Return whether ``topic`` is the retry topic or the dead-letter topic of a group."""
    return topic.startswith((RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX))


MAX_CACHED_CHARACTERS: Final = 255
"""A topic's name has at most this length. Client IDs of other members, which brokers list, may have any length."""


def java_string_order(text: str) -> bytes:
    """Return a sort key with the order of ``java.lang.String.compareTo``: by UTF-16 code units. The keys of the last
    4,096 texts of up to 255 characters are cached."""
    return _utf_16(text) if len(text) <= MAX_CACHED_CHARACTERS else text.encode("utf-16-be", "surrogatepass")


@lru_cache(maxsize=4096)
def _utf_16(text: str) -> bytes:
    """Return ``text`` in UTF-16, big-endian, without a byte order mark; lone surrogates are kept."""
    return text.encode("utf-16-be", "surrogatepass")


SUB_ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"


class MessageFilter(NamedTuple):
    """Filter that brokers apply to a topic: by tags, ``TagA || TagB``, where ``*`` is no filter, or by a SQL92
    expression over properties. Source: ``common/filter/ExpressionType.java``."""

    expression: str = SUB_ALL
    expression_type: str = TAG

    @property
    def is_sql(self) -> bool:
        return self.expression_type == SQL92

    def __str__(self) -> str:
        return f"{SQL92}: {self.expression}" if self.is_sql else self.expression


UNFILTERED: Final = MessageFilter()


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Source: ``common/message/MessageQueue.java``.

    A tuple for fast hashing: it is the key of all lookups by queue, and a plan of thousands hashes each one 80 times.
    """

    topic: str
    broker_name: str
    queue_id: int

    def sort_key(self) -> tuple[bytes, bytes, int]:
        """Return a key with the order of Java's ``MessageQueue.compareTo``: topic, broker name, queue ID."""
        return java_string_order(self.topic), java_string_order(self.broker_name), self.queue_id

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


def nested(values: Mapping[MessageQueue, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return ``{topic: {broker name: {queue id as str: value}}}`` with all keys in the order of ``sort_key``."""
    topics: dict[str, dict[str, dict[str, Any]]] = {}
    for queue in sorted(values, key=MessageQueue.sort_key):
        topics.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = values[queue]
    return topics


def flat(topics: Any) -> Iterator[tuple[MessageQueue, Any]]:
    """Yield the entries of a dict made by ``nested``, in its order. Raises ValueError, TypeError or AttributeError,
    during iteration, for any other value."""
    for topic, brokers in topics.items():
        for broker_name, by_id in brokers.items():
            for queue_id, value in by_id.items():
                yield MessageQueue(topic, broker_name, int(queue_id)), value


RESERVED_PROPERTIES: Final = frozenset(
    {
        "1ST_POP_TIME", "ARRIVE_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CHECK_IMMUNITY_TIME_IN_SECONDS", "CLUSTER",
        "CONSUME_START_TIME", "CORRECTION_FLAG", "CORRELATION_ID", "DELAY", "DLQ_ORIGIN_MESSAGE_ID",
        "DLQ_ORIGIN_TOPIC", "DUP_INFO", "EXTEND_UNIQ_INFO", "E_T", "INNER_BASE", "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET", "INNER_NUM", "INSTANCE_ID", "KEYS", "MAX_OFFSET", "MAX_RECONSUME_TIMES",
        "MIN_OFFSET", "MQ2_FLAG", "MSG_REGION", "MSG_TYPE", "ORIGIN_GROUP", "ORIGIN_MESSAGE_ID", "PGROUP", "POP_CK",
        "POP_CK_OFFSET", "PROPERTY_FORWARD_QUEUE_ID", "PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME",
        "REDIRECT", "REPLY_TO_CLIENT", "RETRY_TOPIC", "TAGS", "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS",
        "TIMER_OUT_MS", "TIMER_ROLL_LABEL", "TIMER_ROLL_TIMES", "TRACE_ON", "TRANSACTION_CHECK_TIMES",
        "TRANSFER_FLAG", "TRANS_OFFSET", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "TTL", "UNIQ_KEY", "WAIT",
        "_SYS_MSG_PRIORITY_", "__BORNHOST", "__CRC32#", "__LITE_TOPIC", "__RMQ.TRANSIENT.GROUP_SYS_FLAG",
        "__RMQ.TRANSIENT.TOPIC_SYS_FLAG", "__SHARDINGKEY", "__transactionId__",
    }
)  # fmt: skip
"""Property names that RocketMQ reserves: all of its constants but TRACE_CONTEXT, which no server evaluates. Source:
``common/message/MessageConst.java``."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets ``[begin_offset, end_offset)`` of one queue."""

    queue: MessageQueue
    begin_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        """Raise ValueError unless ``0 <= begin_offset <= end_offset``."""
        if not 0 <= self.begin_offset <= self.end_offset:
            raise ValueError(f"not a range: [{self.begin_offset}, {self.end_offset}) of {self.queue}")

    def __len__(self) -> int:
        return self.end_offset - self.begin_offset

    def __str__(self) -> str:
        return f"{self.queue}[{self.begin_offset},{self.end_offset})"


class QueueBounds(NamedTuple):
    """Offsets ``[min_offset, max_offset)`` that a broker has of a queue, and the last message's store time, or 0."""

    min_offset: int
    max_offset: int
    last_store_timestamp_ms: int = 0

    def clamp(self, offset: int) -> int:
        """Return the offset nearest to ``offset`` from the min offset to the max offset, both included."""
        return min(max(offset, self.min_offset), self.max_offset)


class BrokerAddress(NamedTuple):
    """Destination of requests for a broker or a name server.

    ``server``: ``host:port`` as in routes and options, to which connections are opened. ``broker_name``: the broker to
    which the proxy at ``server`` forwards the requests, or None without a proxy.
    """

    server: str
    broker_name: str | None = None

    def __str__(self) -> str:
        return self.server if self.broker_name is None else f"{self.broker_name}@{self.server}"


def split_address(server: str) -> tuple[str, int]:
    """Return (host, port) of ``"host:port"`` or ``"[ipv6]:port"``, the host without brackets; resolve nothing. Raises
    ValueError without a host, or without a port of 1 to MAX_PORT."""
    bracketed_host, _, port = server.rpartition(":")
    host = bracketed_host.removeprefix("[").removesuffix("]")
    # The resolver reduces ports modulo 65536, and reads no host as this machine: it would connect to another server.
    if not host or not 0 < int(port) <= MAX_PORT:
        raise ValueError("an address is host:port")
    return host, int(port)


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The addresses of one broker name: ``{broker id: "host:port"}``, id 0 is the master.

    ``is_proxied``: the addresses are those of a proxy. ``is_acting``: id 0 is a slave that serves reads while there is
    no master.
    """

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    is_proxied: bool = False
    is_acting: bool = False

    @property
    def all_addresses(self) -> dict[int, BrokerAddress]:
        """Return the addresses by broker ID, slaves included."""
        return {broker_id: self._address(server) for broker_id, server in self.addresses.items()}

    @property
    def master_address(self) -> BrokerAddress | None:
        """Return the address of the master, or None while there is none, or a slave acts as one."""
        server = None if self.is_acting else self.addresses.get(MASTER_ID)
        return None if server is None else self._address(server)

    @property
    def slave_addresses(self) -> dict[int, BrokerAddress]:
        """Return the addresses of the slaves by broker ID, ascending; an acting master is one, with ID 0."""
        return {
            broker_id: self._address(self.addresses[broker_id])
            for broker_id in sorted(self.addresses)
            if broker_id != MASTER_ID or self.is_acting
        }

    def _address(self, server: str) -> BrokerAddress:
        """Return the address of this broker at ``server``, with the broker's name if it is behind a proxy."""
        return BrokerAddress(server, self.broker_name if self.is_proxied else None)


@dataclass(frozen=True, slots=True)
class QueueData:
    """Numbers of a topic's read and write queues on one broker, and the permission: PERM_READ, PERM_WRITE, or both."""

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    permission: int


MAX_SHOWN_CHARACTERS: Final = 200
"""Maximum number of characters of an order configuration in an error."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Brokers and queues of a topic. Source: ``remoting/protocol/route/TopicRouteData.java``.

    ``is_static``: the topic has logical queue ids, each mapped to queues of one broker after another; ``queues`` counts
    the brokers' queues. ``order_conf``: the queues for producers, in this order: ``"broker-a:4;broker-b:4"``.
    ``ordered_brokers``: ``order_conf`` parsed; empty if it is invalid, which concerns producers only.
    """

    topic: str
    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]
    is_static: bool = False
    order_conf: str = ""
    ordered_brokers: tuple[tuple[str, int], ...] = ()

    def read_queues(self) -> tuple[MessageQueue, ...]:
        """Return the queues with read permission in Java's order, including those of brokers without a master. Not for
        static topics, where these are not the logical queues.

        Source: ``client/impl/factory/MQClientInstance.java#topicRouteData2TopicSubscribeInfo``.
        """
        readable = (data for data in self.queues if data.permission & PERM_READ)
        queues = (
            MessageQueue(self.topic, data.broker_name, queue_id)
            for data in readable
            for queue_id in range(data.read_queue_count)
        )
        return tuple(sorted(queues, key=MessageQueue.sort_key))

    def publish_queues(self) -> tuple[MessageQueue, ...]:
        """Return the queues of a producer: those of ``order_conf`` in its order, with any permission. Without an
        ``order_conf`` return the queues with write permission in Java's order.

        Includes queues of brokers without a master. Raises RouteError[INVALID_ORDER_CONF] if ``order_conf`` is not
        parsable. Source: ``client/impl/factory/MQClientInstance.java#topicRouteData2TopicPublishInfo``.
        """
        if self.order_conf:
            if not self.ordered_brokers:
                raise RouteError(
                    "INVALID_ORDER_CONF", topic=self.topic, order_conf=self.order_conf[:MAX_SHOWN_CHARACTERS]
                )
            return tuple(
                MessageQueue(self.topic, broker_name, queue_id)
                for broker_name, queue_count in self.ordered_brokers
                for queue_id in range(queue_count)
            )
        queues = (
            MessageQueue(self.topic, data.broker_name, queue_id)
            for data in self.queues
            if data.permission & PERM_WRITE
            for queue_id in range(data.write_queue_count)
        )
        return tuple(sorted(queues, key=MessageQueue.sort_key))

    def write_queues(self) -> tuple[MessageQueue, ...]:
        """Return the ``publish_queues`` of brokers on which the topic has write permission, and that have a master in
        the route. Raises what ``publish_queues`` raises."""
        writable = {
            data.broker_name
            for data in self.queues
            if data.permission & PERM_WRITE and self.master_address(data.broker_name) is not None
        }
        return tuple(queue for queue in self.publish_queues() if queue.broker_name in writable)

    def master_address(self, broker_name: str) -> BrokerAddress | None:
        """Return the address of the named broker's master, or None if the route lacks the broker or its master."""
        for broker in self.brokers:
            if broker.broker_name == broker_name:
                return broker.master_address
        return None


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent. ``properties`` must not contain TAGS and KEYS, which ``tags`` and ``keys`` set."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Identity of a message in a broker's commit log. ``topic`` and ``msg_id`` are those of its first delivery."""

    topic: str
    broker_name: str
    commit_log_offset: int
    msg_id: str

    def __str__(self) -> str:
        place = f"{cut(self.topic)}@{self.broker_name} at commit log offset {self.commit_log_offset}"
        return f"{cut(self.msg_id)} of {place}"


@dataclass(frozen=True, slots=True)
class MessageExt:
    """A stored message as a consumer receives it. Source: ``common/message/MessageExt.java``.

    ``body`` is decompressed. ``msg_id`` is the producer's UNIQ_KEY, or without one ``offset_msg_id``. ``body_crc``
    covers the stored (maybe compressed) body. Hosts are ``"ip:port"``.
    """

    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    msg_id: str
    offset_msg_id: str
    body: bytes
    properties: Mapping[str, str]
    born_timestamp_ms: int
    store_timestamp_ms: int
    born_host: str
    store_host: str
    reconsume_times: int
    commit_log_offset: int
    sys_flag: int
    flag: int
    body_crc: int
    prepared_transaction_offset: int

    @property
    def tags(self) -> str | None:
        return self.properties.get("TAGS")

    @property
    def keys(self) -> str | None:
        return self.properties.get("KEYS")

    @property
    def origin_topic(self) -> str:
        """Return the topic to which the message was first sent, also if a retry topic redelivered it."""
        return self.properties.get("RETRY_TOPIC", self.topic)

    @property
    def origin_msg_id(self) -> str:
        """Return the ``msg_id`` of the message before it was sent back for retry, or of one that was not."""
        return self.properties.get("UNIQ_KEY") or self.properties.get("ORIGIN_MESSAGE_ID", self.msg_id)


class TopicList(NamedTuple):
    """Topics without the system's, and names of the registered brokers, of all name servers that responded.

    ``is_complete``: all of them responded. Brokers register with all their topics, so a topic that is not in a complete
    list does not exist on the brokers in it.
    """

    topics: frozenset[str]
    broker_names: frozenset[str]
    is_complete: bool = True
