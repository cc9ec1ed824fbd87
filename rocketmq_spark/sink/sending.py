"""``rocketmq_spark.send``: sends a few messages from any Python process, each acknowledged before the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rocketmq_spark.options.connection import connection_options

if TYPE_CHECKING:
    from rocketmq_spark.sink.outgoing import Body

PRODUCER_GROUP: Final = "rocketmq-spark"


def send(
    namesrv_addr: str,
    topic: str,
    messages: Body | Iterable[Body],
    *,
    tags: str | None = None,
    keys: str | Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Send messages to a topic, one after another, and return their IDs, in order, once the brokers have stored all.

    Queues are used round robin, from a random one on. After a transient error a message is sent again at once, to
    another broker if possible, in up to 3 attempts. One that is stored, but not flushed or replicated in time, counts
    as stored.

    Parameters
    ----------
    namesrv_addr : name servers, ``host:port`` separated by semicolons
    messages : one body or several; text is encoded as UTF-8
    tags, properties : the same for each message; no property of ``RESERVED_PROPERTIES``
    keys : the same for each message, or a sequence with one for each
    options : connection options of a reader: ``accessKey``, ``secretKey``, ``useTLS``, ``brokerTimeoutMs`` and so on;
        ``clusterTimeoutMs`` has no effect, because the number of attempts is fixed

    Raises, before anything is sent, OptionError for the address or the options and LocalProtocolError[INVALID_MESSAGE]
    for messages that cannot be encoded. Raises RouteError, BrokerError or TransportError for the first message that may
    not be stored; those before it are stored, and later ones are not sent.
    """
    from rocketmq_spark.remoting.cluster_client import ClusterClient
    from rocketmq_spark.remoting.pool import ConnectionPool
    from rocketmq_spark.remoting.producer import Producer, UniqueIds
    from rocketmq_spark.sink.outgoing import message_id, outgoing_messages

    connection = connection_options({**options, "namesrvAddr": namesrv_addr})
    next_id = UniqueIds().next_id
    outgoing = list(
        outgoing_messages(topic, messages, tags=tags, keys=keys, properties=properties or {}, next_id=next_id)
    )
    with closing(ConnectionPool(connection.broker_timeout_ms, security=connection.security)) as pool:
        producer = Producer(ClusterClient.of(connection, pool), group=PRODUCER_GROUP)
        for message in outgoing:
            producer.send(message)
    return tuple(map(message_id, outgoing))
