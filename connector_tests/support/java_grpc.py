"""A client of a proxy's gRPC port: the stubs of RocketMQ's own Java client, in the JVM of the Java oracle."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.security import Credentials, Security, Tls

TIMEOUT_S: Final = int(WAIT_S)
DATE: Final = "20260101T000000Z"


@contextmanager
def grpc_stub(java: Any, endpoints: str, security: Security) -> Iterator[Any]:
    """A blocking stub, over a connection that ends with the block."""
    host, _, port = endpoints.rpartition(":")
    builder = java.io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder.forAddress(host, int(port))
    headers = java.io.grpc.stub.MetadataUtils.newAttachHeadersInterceptor(metadata(java, security.credentials))
    channel = with_tls(java, builder, security.tls).intercept([headers]).build()
    try:
        stub = java.apache.rocketmq.v2.MessagingServiceGrpc.newBlockingStub(channel)
        yield stub.withDeadlineAfter(TIMEOUT_S, java.java.util.concurrent.TimeUnit.SECONDS)
    finally:
        channel.shutdownNow()


def with_tls(java: Any, builder: Any, tls: Tls | None) -> Any:
    """The builder of a channel, told what is trusted."""
    if tls is None:
        return builder.usePlaintext()
    context = java.io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts.forClient()
    return builder.sslContext(context.trustManager(java.java.io.File(tls.trust_cert_path)).build())


def metadata(java: Any, credentials: Credentials | None) -> Any:
    """What every call carries."""
    headers = {"x-mq-client-id": "test", "x-mq-language": "JAVA", "x-mq-client-version": "5.0.0", "x-mq-protocol": "v2"}
    if credentials is not None:
        key = credentials.secret_key.reveal().encode()
        signature = hmac.new(key, DATE.encode(), hashlib.sha1).hexdigest().upper()
        how = f"Credential={credentials.access_key}, SignedHeaders=x-mq-date-time, Signature={signature}"
        headers |= {"x-mq-date-time": DATE, "authorization": f"MQv2-HMAC-SHA1 {how}"}
    carried = java.io.grpc.Metadata()
    for name, value in headers.items():
        carried.put(java.io.grpc.Metadata.Key.of(name, java.io.grpc.Metadata.ASCII_STRING_MARSHALLER), value)
    return carried


def route(java: Any, stub: Any, topic: str) -> tuple[str, list[str]]:
    """The code of the answer, or of why there is none, and of each queue ``broker-a:3``."""
    protocol = java.apache.rocketmq.v2
    name = protocol.Resource.newBuilder().setName(topic).build()
    try:
        response = stub.queryRoute(protocol.QueryRouteRequest.newBuilder().setTopic(name).build())
    except Py4JJavaError as error:
        return str(error.java_exception.getStatus().getCode().name()), []
    queues = [f"{queue.getBroker().getName()}:{queue.getId()}" for queue in response.getMessageQueuesList()]
    return str(response.getStatus().getCode().name()), sorted(queues)
