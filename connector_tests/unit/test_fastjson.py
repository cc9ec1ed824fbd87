from __future__ import annotations

import pytest

from rocketmq_spark.errors import LocalProtocolError, RemoteProtocolError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.wire.remoting.fastjson import MAX_DEPTH, STANDARD_ATTEMPTS, parse_fastjson, write_fastjson

QUEUE = b'{"brokerName":"b","queueId":1,"topic":"T"}'
QUEUE_KEY = (("brokerName", "b"), ("queueId", 1), ("topic", "T"))


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"{}", {}),
        (b"[]", []),
        (b'{"a":[1,2.5,-3,true,false,null,"x\\u00e9\\n"]}', {"a": [1, 2.5, -3, True, False, None, "xé\n"]}),
        (b'{0:"a",-1:"b"}', {0: "a", -1: "b"}),
        (b'{"t":{%s:7}}' % QUEUE, {"t": {QUEUE_KEY: 7}}),
        (b'{"t":{%s:{0:1}},"u":[{},{1:[]}]}' % QUEUE, {"t": {QUEUE_KEY: {0: 1}}, "u": [{}, {1: []}]}),
        (b' {\t"t" :\n{ %s : [ {0 : 1} , 2 ] } }\r\n' % QUEUE, {"t": {QUEUE_KEY: [{0: 1}, 2]}}),
        ('{"t":{0:"订单😀"}}'.encode(), {"t": {0: "订单😀"}}),
        (b'{"t":["\\ud83d\\ude00",1.5,{0:null}]}', {"t": ["😀", 1.5, {0: None}]}),
    ],
)
def test_what_fastjson_writes_is_read(body: bytes, value: object) -> None:
    assert parse_fastjson(body, "test") == value
    assert parse_fastjson(memoryview(body), "test") == value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{0}",
        b"{0:}",
        b"{0:1",
        b"{0:1,",
        b"{0:1,}",
        b"[{0:1}",
        b"[{0:1},]",
        b"{0:1}x",
        b"{0:1}{",
        b"{1.5:1}",
        b"{null:1}",
        b"{true:1}",
        b"{1:1,false:2}",
        b"{[]:1}",
        b'{{"a":[]}:1}',
        b'{{"a":{}}:1}',
        b"{a:1}",
        b"\xff",
        b'"\\ud800"',
        b'{"a":["\\uDC00\\ud800"]}',
        b'{"\\udfff":1}',
        b'{{"a":"\\ud800"}:1}',
        b"9" * 5000,
        b"{0:" * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b"[" * MAX_DEPTH + b"{0:1}" + b"]" * MAX_DEPTH,
        b"[" * 1_000_000,
        b"{0:" * 1_000_000,
        b"{" * 1_000_000,
    ],
)
def test_what_is_not_fastjson_is_the_remote_ends_error(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="Cannot decode the body of a test") as caught:
        parse_fastjson(body, "test")
    assert caught.value.condition == "MALFORMED_RESPONSE.BODY"
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{0:1}rest", "unexpected 'rest' at character 5 of 9"),
        (b"{0:1}abcdefghijklmnopqrstuvwxyz", "unexpected 'abcdefghijklmnopqrst' at character 5 of 31"),
        (b"{0:1", "unexpected 'end' at character 4 of 4"),
    ],
)
def test_an_error_reports_what_is_where(body: bytes, problem: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        parse_fastjson(body, "test")
    assert caught.value.context["problem"] == problem


def test_depth_is_bounded_only_where_it_is_not_standard_json() -> None:
    half = MAX_DEPTH // 2
    deep = b"[{0:" * half + b"[" * 100 + b"]" * 100 + b"}]" * half
    assert parse_fastjson(deep, "test")


def test_queues_are_written_as_objects_wherever_they_stand() -> None:
    queue = MessageQueue("T", "b", 1)
    assert write_fastjson({"t": {queue: 7}, "s": [queue], "e": {}}) == b'{"t":{%s:7},"s":[%s],"e":{}}' % (QUEUE, QUEUE)


def test_values_are_written_as_json() -> None:
    assert write_fastjson(["ä\n", 1, True, False, None, 1.5, ()]) == '["ä\\n",1,true,false,null,1.5,[]]'.encode()


def test_a_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="a text in a body"):
        write_fastjson({"a": "\ud800"})


@pytest.mark.parametrize("count", [1, STANDARD_ATTEMPTS - 1, STANDARD_ATTEMPTS, STANDARD_ATTEMPTS + 100])
def test_many_objects_with_other_keys_are_read_as_the_first(count: int) -> None:
    """Also those that the standard library is not asked about any more."""
    one = b'{"a":{1:[]},"b":[{},{"c":"\\u00e9 \\"}"}, [1.5,null,true] ,-7]}'
    expected = {"a": {1: []}, "b": [{}, {"c": 'é "}'}, [1.5, None, True], -7]}
    assert parse_fastjson(b"[%s]" % b" , ".join([one] * count), "test") == [expected] * count
