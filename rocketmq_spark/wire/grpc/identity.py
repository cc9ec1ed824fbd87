"""Who makes a call: its metadata, signed where there are keys.

What is signed is the time, nothing of the call: whoever reads it can make calls of its own with it. TLS hides it.

Source: ``common/constant/GrpcConstants.java``,
``auth/authentication/builder/DefaultAuthenticationContextBuilder.java``.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from rocketmq_spark._version import __version__
from rocketmq_spark.security import Credentials

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
    said = f"{ALGORITHM} Credential={credentials.access_key}, SignedHeaders={DATE_TIME}, Signature={signature}"
    signed = ((DATE_TIME, date_time), ("authorization", said))
    token = credentials.security_token
    return signed if token is None else (*signed, ("x-mq-session-token", token.reveal()))
