"""How messages travel with their tasks, and what an executor makes of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NoReturn

import pytest

from connector_tests.support.message_bytes import COMPRESSED, INNER_BATCH, Record, batch_of
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import NAME_SERVER, ScriptedCluster
from connector_tests.support.traced_memory import least_peak_bytes
from rocketmq_spark.errors import BrokerError, RemoteProtocolError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.receipt_handles import BrokerHandle, OpaqueHandle, PopCheckPoint, ReceivedMessage, RecordFormat
from rocketmq_spark.remoting.cluster_client import ClusterClient
from rocketmq_spark.source.pop.message_reader import _decode_inner_batch, read_parts
from rocketmq_spark.source.pop.message_tasks import PART_BYTES, TASK_BYTES, TASK_MESSAGES, tasks_of
from rocketmq_spark.source.schema import default_schema
from rocketmq_spark.wire.arrow import columns, undecodable
from rocketmq_spark.wire.arrow.columns import BatchTooLargeError, ColumnDecoder
from rocketmq_spark.wire.grpc.messaging_pb2 import Encoding, Message, ReceivedMessages, Resource, SystemProperties
from rocketmq_spark.wire.message.stored_message import decode_messages
from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

MIB = 1024 * 1024
REQUIRED = {"namesrvAddr": "n:9876", "consumerGroup": "g", "subscribe": "T", "loadBalance": "message"}


def received(number: int, broker_name: str = "broker-a", size_bytes: int = 1) -> ReceivedMessage:
    handle = BrokerHandle(PopCheckPoint("T", 0, 1, 1, 0, "0", broker_name, 0), number)
    return ReceivedMessage(handle, memoryview(Record(body=b"x" * size_bytes, queue_offset=number).encode()))


def offsets(messages: list[ReceivedMessage], max_records: int | None = None) -> list[list[tuple[str, int]]]:
    """Of each task, (broker, queue offset)."""
    return [
        [
            (part.broker_name, message.queue_offset)
            for part in parts
            for message in decode_messages(part.body, broker_name=part.broker_name)
        ]
        for parts in tasks_of(messages, max_records)
    ]


def test_no_messages_need_no_task() -> None:
    assert tasks_of([], None) == []


def test_a_task_has_as_many_messages_as_the_options_define() -> None:
    messages = [received(number) for number in range(5)]
    assert offsets(messages, 2) == [[("broker-a", 0), ("broker-a", 1)], [("broker-a", 2), ("broker-a", 3)],
                                    [("broker-a", 4)]]  # fmt: skip


def test_a_task_has_a_bounded_number_of_messages_by_itself() -> None:
    assert [len(task) for task in offsets([received(0)] * (TASK_MESSAGES + 1))] == [TASK_MESSAGES, 1]


def test_messages_of_several_brokers_share_a_task() -> None:
    messages = [received(0), received(1, "broker-b"), received(2)]
    assert offsets(messages) == [[("broker-a", 0), ("broker-a", 2), ("broker-b", 1)]]


def test_tasks_and_parts_have_a_bounded_size_and_nothing_is_omitted() -> None:
    messages = [received(number, size_bytes=MIB) for number in range(20)]
    tasks = tasks_of(messages, None)
    assert max(sum(len(part.body) for part in task) for task in tasks) <= TASK_BYTES
    assert max(len(part.body) for task in tasks for part in task) <= PART_BYTES
    assert [offset for task in offsets(messages) for _, offset in task] == list(range(20))


def test_tasks_and_parts_may_be_as_large_as_they_may_be() -> None:
    record = received(0, size_bytes=MIB - len(received(0, size_bytes=0).record))
    tasks = tasks_of([record] * 24, None)
    assert [[len(part.body) for part in task] for task in tasks] == [[PART_BYTES, PART_BYTES]] * 3


ClientOf = Callable[[ReadOptions], ClusterClient]


def rows(*records: Record, client_of: ClientOf = ClusterClient.shared, **options: str) -> list[dict[str, object]]:
    handle = BrokerHandle(PopCheckPoint("T", 0, 1, 1, 0, "0", "broker-a", 0), 0)
    (task,) = tasks_of([ReceivedMessage(handle, memoryview(record.encode())) for record in records], None)
    read = read_parts(task, ReadOptions.parse(REQUIRED | options), default_schema(), client_of)
    return [row for batch in read for row in batch.to_pylist()]


def test_a_row_has_the_handle_of_its_message_wherever_the_column_is_and_whatever_is_omitted() -> None:
    records = [
        Record(properties={"TAGS": tag}, queue_offset=number, commit_log_offset=70 + number)
        for number, tag in enumerate(("AaAa", "BBBB", "AaAa"))
    ]
    handles = [BrokerHandle(PopCheckPoint("T", 0, 1, 1, 0, "0", "broker-a", 0), number) for number in range(3)]
    both = [ReceivedMessage(handle, memoryview(one.encode())) for handle, one in zip(handles, records, strict=True)]
    ours = default_schema(property_columns=("receipthandle",))
    place = type(ours["body"])("commitLogOffset", ours["queueOffset"].dataType)
    schema = type(ours)([ours["receipthandle"], ours["queueOffset"], place])
    (task,) = tasks_of(both, None, with_handles=True)
    found = [
        tuple(row.values())
        for batch in read_parts(task, ReadOptions.parse(REQUIRED | {"subExpression": "AaAa"}), schema)
        for row in batch.to_pylist()
    ]
    assert found == [("0 1 1 0 0 broker-a 0 0 70", 0, 70), ("0 1 1 0 0 broker-a 0 2 72", 2, 72)]
    (without,) = tasks_of(both, None)
    assert [part.handles for part in without] == [()], "nobody wants them"


def test_a_proxys_responses_have_their_handles_themselves() -> None:
    responded = ReceivedMessage(
        OpaqueHandle("T", "broker-a", "its own"), memoryview(b"an answer"), RecordFormat.PROXIED
    )
    ((part,),) = tasks_of([responded], None, with_handles=True)
    assert part.handles == ()


UNDECODABLE: Final = Record(body=b"no zlib", queue_offset=5, sys_flag=COMPRESSED)


def test_an_executor_makes_rows_of_them_whatever_their_order() -> None:
    found = rows(Record(body=b"b", queue_offset=9, queue_id=3), Record(body=b"a", queue_offset=2, reconsume_times=1))
    assert [(row["topic"], row["brokerName"], row["queueId"], row["queueOffset"]) for row in found] == [
        ("T", "broker-a", 3, 9),
        ("T", "broker-a", 0, 2),
    ]
    assert [(row["body"], row["reconsumeTimes"]) for row in found] == [(b"b", 0), (b"a", 1)]


def test_tags_whose_hashes_are_the_same_are_distinguished() -> None:
    found = rows(Record(properties={"TAGS": "AaAa"}), Record(properties={"TAGS": "BBBB"}), subExpression="AaAa")
    assert [row["tags"] for row in found] == ["AaAa"]


def test_an_undecodable_message_ends_the_query_or_has_no_body() -> None:
    with pytest.raises(RemoteProtocolError, match=r"UNDECODABLE_MESSAGE_BODY.*offset 5 of T@broker-a:0"):
        rows(UNDECODABLE)
    assert [(row["queueOffset"], row["body"]) for row in rows(UNDECODABLE, badMessages="null")] == [(5, None)]


def test_bodies_that_are_too_large_together_come_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 1_000)
    sizes = (600, 600, 1_001, 1_000, 1)
    records = [
        Record(body=zlib.compress(bytes(size)), queue_offset=number, sys_flag=COMPRESSED)
        for number, size in enumerate(sizes)
    ]
    bodies = [row["body"] for row in rows(*records, badMessages="null")]
    assert bodies == [None if size > 1_000 else bytes(size) for size in sizes]


def test_what_was_decoded_in_vain_is_freed_before_the_halves_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each half kept what the whole had decoded: 64 bodies of 31 MiB took 1.7 GiB."""
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", MIB)
    body = zlib.compress(bytes(250_000))
    records = [Record(body=body, queue_offset=number, sys_flag=COMPRESSED) for number in range(64)]
    (task,) = tasks_of([ReceivedMessage(received(0).handle, memoryview(one.encode())) for one in records], None)

    def read() -> None:
        batches = read_parts(task, ReadOptions.parse(REQUIRED), default_schema())
        assert sum(batch.num_rows for batch in batches) == 64

    assert least_peak_bytes(read) < 3 * MIB


def test_rows_of_one_good_batch_come_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (undecodable, columns):
        monkeypatch.setattr(module, "DECOMPRESSED_LIMIT_BYTES", 12_000)
    batch = batch_of(Record(queue_offset=5), [(b"", b"")] * 40)
    assert [row["queueOffset"] for row in rows(batch, Record(queue_offset=45))] == list(range(5, 46))


def dead_letters(responses: int, *records: Record) -> tuple[list[object], list[RemotingCommand]]:
    """Offsets of the rows, and what the broker was asked that answers each time with the same code."""
    calls: list[RemotingCommand] = []

    def stored(request: RemotingCommand) -> RemotingCommand:
        calls.append(request)
        return build_response(responses, fields={"msgId": "0", "queueId": "0", "queueOffset": "0"})

    with ScriptedCluster("broker-a") as cluster:
        cluster.brokers["broker-a"].on(RequestCode.SEND_MESSAGE_V2, stored)

        given = {"namesrvAddr": NAME_SERVER, "badMessages": "deadLetter"}
        return [row["queueOffset"] for row in rows(*records, client_of=lambda _: cluster.client(), **given)], calls


def at(offset: int, body: bytes = b"good", sys_flag: int = 0, properties: bytes = b"") -> Record:
    return Record("T", body, properties, queue_offset=offset, commit_log_offset=70 + offset, sys_flag=sys_flag)


def test_an_undecodable_message_is_sent_to_the_dead_letter_topic_and_has_no_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = at(5, b"no zlib", COMPRESSED, b"own\x01x\x02")
    found, (letter,) = dead_letters(ResponseCode.SUCCESS, at(9), broken, at(2))
    assert found == [9, 2]
    assert (letter.fields["b"], letter.fields["a"], letter.body) == ("%RETRY%g", "g", b"no zlib")
    assert "own\x01x\x02" in letter.fields["i"]
    (line,) = caplog.messages
    assert line.startswith(
        "UNDECODABLE_MESSAGE_BODY: Message of queue=T@broker-a:0 offset=5 sent to the group's dead-letter topic "
        "(badMessages=deadLetter): its ZLIB body is"
    )


def test_no_message_of_an_undecodable_batch_has_a_row() -> None:
    batch = at(5, b"no batch", INNER_BATCH, b"INNER_BASE\x015\x02INNER_NUM\x013\x02")
    found, letters = dead_letters(ResponseCode.SUCCESS, batch, at(8))
    assert (found, len(letters)) == ([8], 1)


def test_rows_of_one_undecodable_batch_come_a_few_at_a_time_and_it_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(columns, "REPEATED_LIMIT_BYTES", 12_000)
    batch = at(5, b"no batch", INNER_BATCH, b"INNER_BASE\x015\x02INNER_NUM\x0140\x02")
    found = rows(batch, at(45), badMessages="null")
    assert [row["queueOffset"] for row in found] == list(range(5, 46))
    assert len(caplog.messages) == 1
    assert dead_letters(ResponseCode.SUCCESS, batch, at(45))[0] == [45]


def test_without_undecodable_messages_no_broker_is_called() -> None:
    assert dead_letters(ResponseCode.SUCCESS, at(1), at(2)) == ([1, 2], [])


def test_an_undecodable_message_of_a_proxys_that_a_spool_has_kept_ends_the_query() -> None:
    system = SystemProperties(body_encoding=Encoding.GZIP, queue_offset=5)
    message = Message(topic=Resource(name="T"), body=b"no gzip", system_properties=system)
    record = memoryview(ReceivedMessages(messages=[message]).SerializeToString())
    (task,) = tasks_of([ReceivedMessage(OpaqueHandle("T", "broker-a", "its own"), record, RecordFormat.PROXIED)], None)
    options = ReadOptions.parse(REQUIRED | {"badMessages": "deadLetter"})
    with pytest.raises(RemoteProtocolError, match=r"offset 5 of T@broker-a:0.*; it was received through a proxy, so"):
        list(read_parts(task, options, default_schema()))


def test_there_are_no_rows_while_a_dead_letter_is_not_stored() -> None:
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        dead_letters(ResponseCode.NO_PERMISSION, at(1), at(5, b"no zlib", COMPRESSED))


class TooLargeAlways(ColumnDecoder):
    """A decoder to which a single message is too large, which no limit of today makes one."""

    def decode_with_undecodable(self, *_arguments: object) -> NoReturn:
        raise BatchTooLargeError


def test_a_single_inner_message_that_is_too_large_ends_the_halving() -> None:
    decoder = TooLargeAlways(("body",), broker_name="broker-a", tags=None)
    with pytest.raises(BatchTooLargeError):
        list(_decode_inner_batch(decoder, [memoryview(b"")], 0, 32_767))
