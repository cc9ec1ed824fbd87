"""Requests to a proxy, of a group that reads some topics, and who makes them: their metadata, signed where there are
keys.

What is signed is the time, nothing of the request: whoever reads it can make requests of its own with it. TLS hides it.

Source: ``proxy/grpc/v2/client/ClientActivity.java``, ``proxy/grpc/v2/consumer/ReceiveMessageActivity.java``,
``common/constant/GrpcConstants.java``, ``auth/authentication/builder/DefaultAuthenticationContextBuilder.java``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark._version import __version__
from rocketmq_spark.security import Credentials
from rocketmq_spark.wire.grpc import messaging_pb2 as pb


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a group reads: each of its topics with the same tags."""

    group: str
    topics: tuple[str, ...]
    expression: str

    def settings(self, host_name: str, timeout_ms: int) -> pb.TelemetryCommand:
        """Who we are, and what we want: a proxy hands nothing out to who has not said that."""
        entries = [pb.SubscriptionEntry(topic=_named(topic), expression=self._filter()) for topic in self.topics]
        settings = pb.Settings(
            client_type=pb.ClientType.SIMPLE_CONSUMER,
            subscription=pb.Subscription(group=_named(self.group), subscriptions=entries),
            user_agent=pb.UA(language=pb.Language.PYTHON, version=__version__, hostname=host_name),
        )
        settings.request_timeout.FromMilliseconds(timeout_ms)
        return pb.TelemetryCommand(settings=settings)

    def heartbeat(self) -> pb.HeartbeatRequest:
        """We are still there."""
        return pb.HeartbeatRequest(group=_named(self.group), client_type=pb.ClientType.SIMPLE_CONSUMER)

    def termination(self) -> pb.NotifyClientTerminationRequest:
        """We are leaving."""
        return pb.NotifyClientTerminationRequest(group=_named(self.group))

    def receive(
        self, topic: str, broker_name: str, *, max_messages: int, invisible_ms: int, poll_ms: int
    ) -> pb.ReceiveMessageRequest:
        """Messages of any queue of one broker."""
        request = pb.ReceiveMessageRequest(
            group=_named(self.group),
            message_queue=pb.MessageQueue(topic=_named(topic), id=-1, broker=pb.Broker(name=broker_name)),
            filter_expression=self._filter(),
            batch_size=max_messages,
        )
        request.invisible_duration.FromMilliseconds(invisible_ms)
        request.long_polling_timeout.FromMilliseconds(poll_ms)
        return request

    def acknowledge(self, topic: str, handles: Iterable[str]) -> pb.AckMessageRequest:
        """These messages are done."""
        entries = [pb.AckMessageEntry(receipt_handle=handle) for handle in handles]
        return pb.AckMessageRequest(group=_named(self.group), topic=_named(topic), entries=entries)

    def change(self, topic: str, handle: str, invisible_ms: int, *, suspend: bool) -> pb.ChangeInvisibleDurationRequest:
        """A message is invisible for so long from now on; with ``suspend`` that counts as no attempt."""
        request = pb.ChangeInvisibleDurationRequest(
            group=_named(self.group), topic=_named(topic), receipt_handle=handle, suspend=suspend
        )
        request.invisible_duration.FromMilliseconds(invisible_ms)
        return request

    def _filter(self) -> pb.FilterExpression:
        return pb.FilterExpression(type=pb.FilterType.TAG, expression=self.expression)


def route(topic: str, addresses: Sequence[tuple[str, int]]) -> pb.QueryRouteRequest:
    """Where a topic is; ``addresses``: by which we know the proxy, which may say that it is there."""
    return pb.QueryRouteRequest(topic=_named(topic), endpoints=_endpoints(addresses))


def _endpoints(addresses: Sequence[tuple[str, int]]) -> pb.Endpoints:
    of_addresses = [pb.Address(host=host, port=port) for host, port in addresses]
    return pb.Endpoints(scheme=_scheme(addresses[0][0]), addresses=of_addresses)


def _scheme(host: str) -> pb.AddressScheme:
    try:
        version = ip_address(host).version
    except ValueError:
        return pb.AddressScheme.DOMAIN_NAME
    return pb.AddressScheme.IPv4 if version == 4 else pb.AddressScheme.IPv6


def _named(name: str) -> pb.Resource:
    return pb.Resource(name=name)


Metadata: TypeAlias = tuple[tuple[str, str], ...]

DATE_TIME: Final = "x-mq-date-time"
ALGORITHM: Final = "MQv2-HMAC-SHA1"


class Identity(NamedTuple):
    """Of one query."""

    client_id: str
    credentials: Credentials | None

    def metadata(self, epoch_s: float) -> Metadata:
        """Of a call that is made now."""
        own = (
            ("x-mq-client-id", self.client_id),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", __version__),
            ("x-mq-protocol", "v2"),
        )
        return own if self.credentials is None else own + _signed(self.credentials, epoch_s)


def _signed(credentials: Credentials, epoch_s: float) -> Metadata:
    date_time = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    key = credentials.secret_key.reveal().encode()
    signature = hmac.new(key, date_time.encode(), hashlib.sha1).hexdigest().upper()
    authorization = f"{ALGORITHM} Credential={credentials.access_key}, SignedHeaders={DATE_TIME}, Signature={signature}"
    signed = ((DATE_TIME, date_time), ("authorization", authorization))
    token = credentials.security_token
    return signed if token is None else (*signed, ("x-mq-session-token", token.reveal()))
