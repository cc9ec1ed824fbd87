"""Channels: gRPC's connections to one address."""

from __future__ import annotations

import os
from typing import Final

from rocketmq_spark.proxy.credentials import tls_credentials
from rocketmq_spark.security import Tls
from rocketmq_spark.wire.bounds import RESPONSE_BYTES

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
"""Else the library writes lines of its own to standard error, before what fails is raised here."""

import grpc  # noqa: E402  # it reads that when it is loaded
from grpc.experimental import ChannelOptions  # noqa: E402  # the same

OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    (ChannelOptions.SingleThreadedUnaryStream, 1),  # halves what a message that is received costs
    ("grpc.enable_http_proxy", 0),  # as all other connections of ours
    ("grpc.enable_retries", 0),  # a change of invisibility is not to be repeated
    ("grpc.use_local_subchannel_pool", 1),  # a new channel is a new connection
    ("grpc.max_receive_message_length", RESPONSE_BYTES.most),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none: older libraries check the length after decompression
    ("grpc.initial_reconnect_backoff_ms", 250),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


def open_channel(address: str, tls: Tls | None, timeout_ms: int) -> grpc.Channel:
    """It connects with the first call; an attempt may take ``timeout_ms``. Raises what ``tls_credentials`` does."""
    options = (*OPTIONS, ("grpc.min_reconnect_backoff_ms", timeout_ms))
    if tls is None:
        return grpc.insecure_channel(address, options)
    given = tls_credentials(address, tls, timeout_ms)
    credentials = grpc.ssl_channel_credentials(given.roots, given.key, given.chain)
    name = () if given.name is None else (("grpc.ssl_target_name_override", given.name),)
    return grpc.secure_channel(address, credentials, (*options, *name))
