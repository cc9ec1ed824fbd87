"""Requests to a proxy for a consumer group, and call metadata that identifies the client, signed with its credentials.

The signature covers the time, not the request: an eavesdropper can sign other requests with it. TLS prevents that.

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
from rocketmq_spark.model import TAG
from rocketmq_spark.security import Credentials
from rocketmq_spark.wire.grpc import messaging_pb2 as pb


@dataclass(frozen=True, slots=True)
class Subscription:
    """Subscription of a group to topics, with one filter for all of them; builds the group's requests to a proxy."""

    group: str
    topics: tuple[str, ...]
    expression: str
    expression_type: str = TAG

    def settings(self, host_name: str, timeout_ms: int) -> pb.TelemetryCommand:
        """Build the command with client settings and subscription; a proxy delivers nothing to a client that has not
        sent it. ``timeout_ms``: request timeout that the settings report to the proxy."""
        entries = [pb.SubscriptionEntry(topic=_named(topic), expression=self._filter()) for topic in self.topics]
        settings = pb.Settings(
            client_type=pb.ClientType.SIMPLE_CONSUMER,
            subscription=pb.Subscription(group=_named(self.group), subscriptions=entries),
            user_agent=pb.UA(language=pb.Language.PYTHON, version=__version__, hostname=host_name),
        )
        settings.request_timeout.FromMilliseconds(timeout_ms)
        return pb.TelemetryCommand(settings=settings)

    def heartbeat(self) -> pb.HeartbeatRequest:
        """Return the heartbeat of the client."""
        return pb.HeartbeatRequest(group=_named(self.group), client_type=pb.ClientType.SIMPLE_CONSUMER)

    def termination(self) -> pb.NotifyClientTerminationRequest:
        """Return the notification that the client leaves the group."""
        return pb.NotifyClientTerminationRequest(group=_named(self.group))

    def receive(
        self, topic: str, broker_name: str, *, max_messages: int, invisible_ms: int, poll_ms: int
    ) -> pb.ReceiveMessageRequest:
        """Build a request for up to ``max_messages`` messages of any queue of one broker. They are then invisible for
        ``invisible_ms``. Without messages, the proxy holds the request up to ``poll_ms``."""
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
        """Return the acknowledgement of messages of one topic by their receipt handles, in order."""
        entries = [pb.AckMessageEntry(receipt_handle=handle) for handle in handles]
        return pb.AckMessageRequest(group=_named(self.group), topic=_named(topic), entries=entries)

    def change(self, topic: str, handle: str, invisible_ms: int, *, suspend: bool) -> pb.ChangeInvisibleDurationRequest:
        """Build the request that makes a message invisible for ``invisible_ms``, from its arrival at the broker. With
        ``suspend`` the redelivery does not count as a delivery attempt."""
        request = pb.ChangeInvisibleDurationRequest(
            group=_named(self.group), topic=_named(topic), receipt_handle=handle, suspend=suspend
        )
        request.invisible_duration.FromMilliseconds(invisible_ms)
        return request

    def _filter(self) -> pb.FilterExpression:
        """Return the filter, of type SQL unless the expression's is TAG."""
        filter_type = pb.FilterType.TAG if self.expression_type == TAG else pb.FilterType.SQL
        return pb.FilterExpression(type=filter_type, expression=self.expression)


def route(topic: str, addresses: Sequence[tuple[str, int]]) -> pb.QueryRouteRequest:
    """Return a route request. ``addresses``: the proxy's as the client uses them, at least one; it may return them in
    the route."""
    return pb.QueryRouteRequest(topic=_named(topic), endpoints=_endpoints(addresses))


def _endpoints(addresses: Sequence[tuple[str, int]]) -> pb.Endpoints:
    """Return ``addresses`` in order, at least one, with the scheme of the first."""
    of_addresses = [pb.Address(host=host, port=port) for host, port in addresses]
    return pb.Endpoints(scheme=_scheme(addresses[0][0]), addresses=of_addresses)


def _scheme(host: str) -> pb.AddressScheme:
    """Return the address scheme of a host: IPv4, IPv6 (without brackets), or DOMAIN_NAME if it is no IP address."""
    try:
        version = ip_address(host).version
    except ValueError:
        return pb.AddressScheme.DOMAIN_NAME
    return pb.AddressScheme.IPv4 if version == 4 else pb.AddressScheme.IPv6


def _named(name: str) -> pb.Resource:
    """Return a topic or group without a namespace."""
    return pb.Resource(name=name)


Metadata: TypeAlias = tuple[tuple[str, str], ...]

DATE_TIME: Final = "x-mq-date-time"
ALGORITHM: Final = "MQv2-HMAC-SHA1"


class Identity(NamedTuple):
    """Client ID and credentials of one query."""

    client_id: str
    credentials: Credentials | None

    def metadata(self, epoch_s: float) -> Metadata:
        """Return the metadata of a call made at ``epoch_s`` (Unix seconds): client ID, language, version and protocol.
        With credentials also the signature of the time."""
        own = (
            ("x-mq-client-id", self.client_id),
            ("x-mq-language", "PYTHON"),
            ("x-mq-client-version", __version__),
            ("x-mq-protocol", "v2"),
        )
        return own if self.credentials is None else own + _signed(self.credentials, epoch_s)


def _signed(credentials: Credentials, epoch_s: float) -> Metadata:
    """Return the metadata entries that authenticate a call at ``epoch_s`` (Unix seconds): the time in UTC, its
    HMAC-SHA1 signature by the secret key, and the security token, if any."""
    date_time = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    key = credentials.secret_key.reveal().encode()
    signature = hmac.new(key, date_time.encode(), hashlib.sha1).hexdigest().upper()
    authorization = f"{ALGORITHM} Credential={credentials.access_key}, SignedHeaders={DATE_TIME}, Signature={signature}"
    signed = ((DATE_TIME, date_time), ("authorization", authorization))
    token = credentials.security_token
    return signed if token is None else (*signed, ("x-mq-session-token", token.reveal()))
