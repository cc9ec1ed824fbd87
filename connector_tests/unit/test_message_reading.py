from __future__ import annotations

import pytest

from connector_tests.support.message_bytes import Record, batch_of, pull_body
from connector_tests.support.scripted_broker import build_response
from connector_tests.support.scripted_cluster import ScriptedCluster
from rocketmq_spark.cli.message_lines import message_of
from rocketmq_spark.cli.message_reading import read_messages
from rocketmq_spark.cli.redrive_plan import places_of, selected
from rocketmq_spark.errors import RemoteProtocolError
from rocketmq_spark.model import MessageQueue, QueueBounds
from rocketmq_spark.wire.arrow.undecodable import UndecodableMessage
from rocketmq_spark.wire.remoting.codes import RequestCode
from rocketmq_spark.wire.remoting.command import RemotingCommand

QUEUE = MessageQueue("T", "a", 0)
SHIFT = 2
"""How much larger stored offsets are than the queue's, behind as many messages with made-up IPv6 flags."""
STORED = 12


def pulled(request: RemotingCommand) -> RemotingCommand:
    """What the broker has, some of it stored after the range was known."""
    begin_offset = int(request.fields["queueOffset"])
    end_offset = min(begin_offset + int(request.fields["maxMsgNums"]), STORED)
    records = [Record(queue_offset=at + SHIFT, body=b"%d" % at) for at in range(begin_offset, end_offset)]
    fields = {"nextBeginOffset": str(end_offset), "minOffset": "0", "maxOffset": str(STORED)}
    return build_response(fields=fields, body=pull_body(*records))


def test_range_is_read_whole_though_stored_offsets_reach_behind_it_and_more_was_stored() -> None:
    """``tail --follow`` never printed its last messages, and ``dlq list`` printed places that ``--offset`` shared."""
    with ScriptedCluster("a") as cluster:
        cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, pulled)
        for begin_offset, end_offset in ((5, 8), (8, 10), (10, STORED)):
            found = list(read_messages(cluster.client(), {QUEUE: QueueBounds(begin_offset, end_offset)}))
            assert [int(message_of(one).body) for one in found] == list(range(begin_offset, end_offset))
            assert [message_of(one).queue_offset for one in found] == list(range(begin_offset, end_offset))


def test_an_inner_batch_has_no_more_places_than_its_broker_gave_it() -> None:
    """A producer may make one on 4.9.7. It had the places of the letters behind it too, which none could select."""
    lies = [(b"lie", b"UNIQ_KEY\1of-another\2")] * 12
    records = [batch_of(Record(queue_offset=4), lies), *(Record(queue_offset=at, body=b"%d" % at) for at in (5, 6))]
    fields = {"nextBeginOffset": "7", "minOffset": "4", "maxOffset": "7"}
    with ScriptedCluster("a") as cluster:
        cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, build_response(fields=fields, body=pull_body(*records)))
        found = list(read_messages(cluster.client(), {QUEUE: QueueBounds(4, 7)}))
    assert [message_of(one).queue_offset for one in found] == [4, 5, 6]
    assert [isinstance(one, UndecodableMessage) for one in found] == [True, False, False]
    assert [message_of(one).body for one in selected(found, "g", ["a:0:5"], places_of)] == [b"5"]


def test_records_before_a_damaged_one_are_read() -> None:
    body = pull_body(Record(queue_offset=0, body=b"0")) + b"damaged"
    fields = {"nextBeginOffset": "2", "minOffset": "0", "maxOffset": "2"}
    with ScriptedCluster("a") as cluster:
        cluster.brokers["a"].on(RequestCode.PULL_MESSAGE, build_response(fields=fields, body=body))
        found = read_messages(cluster.client(), {QUEUE: QueueBounds(0, 2)})
        assert message_of(next(found)).body == b"0"
        with pytest.raises(RemoteProtocolError, match=r"CORRUPT_MESSAGE.RESPONSE"):
            next(found)
