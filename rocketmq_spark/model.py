"""Frozen value types that every room may use. No behaviour beyond what follows from the values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rocketmq_spark.errors import RouteError

RETRY_TOPIC_PREFIX: Final = "%RETRY%"
DEAD_LETTER_TOPIC_PREFIX: Final = "%DLQ%"

PERM_WRITE: Final = 2
PERM_READ: Final = 4
MASTER_ID: Final = 0

MAX_PORT: Final = 65_535


def retry_topic(group: str) -> str:
    """The topic through which a group gets what it has sent back. Source: ``common/MixAll.java#getRetryTopic``."""
    return RETRY_TOPIC_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of what a group could not process. Source: ``common/MixAll.java#getDLQTopic``."""
    return DEAD_LETTER_TOPIC_PREFIX + group


@lru_cache(maxsize=4096)
def java_string_order(text: str) -> bytes:
    """Sort key that orders strings as ``java.lang.String.compareTo`` does: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


class MessageQueue(NamedTuple):
    """One queue of a topic on one broker. Source: ``common/message/MessageQueue.java``.

    A tuple, because it is a key wherever queues are looked up, and a plan of thousands hashes each of them 80 times.
    """

    topic: str
    broker_name: str
    queue_id: int

    def sort_key(self) -> tuple[bytes, bytes, int]:
        """Java's ``MessageQueue.compareTo``: topic, broker name, queue id."""
        return java_string_order(self.topic), java_string_order(self.broker_name), self.queue_id

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


def nested(values: Mapping[MessageQueue, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """``{topic: {broker name: {queue id: value}}}`` with all keys in queue order."""
    topics: dict[str, dict[str, dict[str, Any]]] = {}
    for queue in sorted(values, key=MessageQueue.sort_key):
        topics.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})[str(queue.queue_id)] = values[queue]
    return topics


def flat(topics: Any) -> Iterator[tuple[MessageQueue, Any]]:
    """The reverse of ``nested``. Raises ValueError, TypeError or AttributeError for what that never made."""
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
"""Properties that RocketMQ has taken for itself: all that it names, but for TRACE_CONTEXT, by which no server acts.
Source: ``common/message/MessageConst.java``."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Offsets ``[begin_offset, end_offset)`` of one queue."""

    queue: MessageQueue
    begin_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        if not 0 <= self.begin_offset <= self.end_offset:
            raise ValueError(f"not a range: [{self.begin_offset}, {self.end_offset}) of {self.queue}")

    def __len__(self) -> int:
        return self.end_offset - self.begin_offset

    def __str__(self) -> str:
        return f"{self.queue}[{self.begin_offset},{self.end_offset})"


class QueueBounds(NamedTuple):
    """What a broker holds of a queue: offsets ``[min_offset, max_offset)``; store time of the last message or 0."""

    min_offset: int
    max_offset: int
    last_store_timestamp_ms: int = 0


class BrokerAddress(NamedTuple):
    """Where requests for a broker, or for a name server, go.

    ``server``: ``host:port`` as routes and options spell it, which is connected to. ``broker_name``: of a broker behind
    a proxy, to whom the proxy at ``server`` passes the requests on; None without a proxy.
    """

    server: str
    broker_name: str | None = None

    def __str__(self) -> str:
        return self.server if self.broker_name is None else f"{self.broker_name}@{self.server}"


def split_address(server: str) -> tuple[str, int]:
    """``"host:port"`` or ``"[ipv6]:port"`` as (host, port). Raises ValueError."""
    host, _, port = server.rpartition(":")
    # The system's resolver takes ports modulo 65536, and so connects to somebody else.
    if not host or not 0 < int(port) <= MAX_PORT:
        raise ValueError("an address is host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The addresses of one broker name: ``{broker id: "host:port"}``, id 0 is the master. ``is_proxied``: they are
    those of a proxy."""

    cluster: str
    broker_name: str
    addresses: Mapping[int, str]
    is_proxied: bool = False

    @property
    def all_addresses(self) -> dict[int, BrokerAddress]:
        """By broker id, slaves included."""
        return {broker_id: self._address(server) for broker_id, server in self.addresses.items()}

    @property
    def master_address(self) -> BrokerAddress | None:
        server = self.addresses.get(MASTER_ID)
        return None if server is None else self._address(server)

    def _address(self, server: str) -> BrokerAddress:
        return BrokerAddress(server, self.broker_name if self.is_proxied else None)


@dataclass(frozen=True, slots=True)
class QueueData:
    """How many queues of a topic one broker serves, and what may be done with them."""

    broker_name: str
    read_queue_count: int
    write_queue_count: int
    permission: int


MAX_SHOWN_CHARACTERS: Final = 200
"""Characters of an order configuration that an error shows."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic lives. Source: ``remoting/protocol/route/TopicRouteData.java``.

    ``is_static``: the topic's queues have ids of their own, each mapped to one broker's queue after another; ``queues``
    counts the brokers'. ``order_conf``: the queues that producers use, in this order: ``"broker-a:4;broker-b:4"``;
    ``ordered_brokers``: what it says, empty where it cannot be read, which concerns producers only.
    """

    topic: str
    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]
    is_static: bool = False
    order_conf: str = ""
    ordered_brokers: tuple[tuple[str, int], ...] = ()

    def read_queues(self) -> tuple[MessageQueue, ...]:
        """Queues a consumer may read, in Java's order. Not for static topics.

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
        """Return the queues of a producer in Java's order: those of ``order_conf``, else those with write permission.

        Brokers without a master are among them. Raises RouteError[INVALID_ORDER_CONF].
        Source: ``client/impl/factory/MQClientInstance.java#topicRouteData2TopicPublishInfo``.
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
        """Return those of ``publish_queues`` that a producer may write: write permission, and a master that is up."""
        writable = {
            data.broker_name
            for data in self.queues
            if data.permission & PERM_WRITE and self.master_address(data.broker_name) is not None
        }
        return tuple(queue for queue in self.publish_queues() if queue.broker_name in writable)

    def master_address(self, broker_name: str) -> BrokerAddress | None:
        """Address of the named broker's master; None while it is away."""
        for broker in self.brokers:
            if broker.broker_name == broker_name:
                return broker.master_address
        return None


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be sent. ``properties`` must not repeat what ``tags`` and ``keys`` say."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """Which message of a broker's commit log is meant. ``topic`` and ``msg_id`` are what its first delivery had."""

    topic: str
    broker_name: str
    commit_log_offset: int
    msg_id: str

    def __str__(self) -> str:
        return f"{self.msg_id} of {self.topic}@{self.broker_name} at commit log offset {self.commit_log_offset}"


@dataclass(frozen=True, slots=True)
class MessageExt:
    """A stored message as a consumer gets it. Source: ``common/message/MessageExt.java``.

    ``body`` is decompressed. ``msg_id`` is the producer's UNIQ_KEY where there is one, else ``offset_msg_id``.
    ``body_crc`` covers the stored (maybe compressed) body. Hosts are ``"ip:port"``.
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
        """Where a message was sent that has come back through a retry topic."""
        return self.properties.get("RETRY_TOPIC", self.topic)

    @property
    def origin_msg_id(self) -> str:
        """``msg_id`` as it was before the message was sent back."""
        return self.properties.get("UNIQ_KEY") or self.properties.get("ORIGIN_MESSAGE_ID", self.msg_id)
