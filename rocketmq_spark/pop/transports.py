"""Selection of the transport by the query's options."""

from __future__ import annotations

from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.retention_check import ReportDeleted, ignore_deleted
from rocketmq_spark.pop.transport import Transport


def transport_of(options: ReadOptions, report: ReportDeleted = ignore_deleted) -> Transport:
    """Return a transport to brokers, which calls ``report`` with ranges that a broker deleted before delivery. With
    ``endpoints`` return one to a proxy, without such calls. Open no connection; import gRPC only for a proxy."""
    if options.endpoints is None:
        from rocketmq_spark.pop.remoting_transport import RemotingTransport

        return RemotingTransport(options, report)
    from rocketmq_spark.pop.grpc_transport import GrpcTransport

    return GrpcTransport(options, options.endpoints)
