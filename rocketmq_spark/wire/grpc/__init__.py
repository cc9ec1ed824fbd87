"""Requests to a RocketMQ 5 proxy over gRPC, and its responses. ``messaging_pb2`` is generated from
``messaging.proto``."""
