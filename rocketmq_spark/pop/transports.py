"""Selection of the transport by the query's options."""

from __future__ import annotations

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.retention_check import ReportDeleted, ignore_deleted
from rocketmq_spark.pop.transport import Transport


def transport_of(options: ReadOptions, report: ReportDeleted = ignore_deleted) -> Transport:
    """Return a transport to brokers, which calls ``report`` with deleted messages; with ``endpoints`` a transport to a
    proxy, which never does. Open no connection. Only for a proxy import gRPC."""
    if options.endpoints is None:
        from rocketmq_spark.pop.remoting_transport import RemotingTransport

        return RemotingTransport(options, report)
    from rocketmq_spark.pop.grpc_transport import GrpcTransport

    return GrpcTransport(options, options.endpoints)
