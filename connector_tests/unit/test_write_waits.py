from __future__ import annotations

import pytest

from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError, TransportError
from rocketmq_spark.options import WriteOptions
from rocketmq_spark.remoting.retry import topic_subject
from rocketmq_spark.sink.write_waits import WriteWaits
from rocketmq_spark.wire.remoting.codes import ResponseCode

MISSING = RouteError("TOPIC_NOT_FOUND", topic="T", address="ns:9876")
SILENT = TransportError("NO_NAME_SERVER", topic="T", addresses="ns:9876", cause="refused")
ILLEGAL = BrokerError(
    "BROKER_REFUSED",
    address="a:1",
    request="SEND_BATCH_MESSAGE",
    code=int(ResponseCode.MESSAGE_ILLEGAL),
    code_name="MESSAGE_ILLEGAL",
    remark="no",
)


BUSY = TransportError("CONNECTION_LOST", address="a:1", reason="reset")


class Subject:
    """``waits`` at ``now_ms``, and the topics whose routes were forgotten."""

    def __init__(self, **given: str) -> None:
        self.now_ms = 0
        self.forgotten: list[str] = []
        options = WriteOptions.parse({"namesrvAddr": "ns:9876", **given})
        self.waits = WriteWaits(options, self.forgotten.append, lambda: self.now_ms)


def test_topics_that_nobody_serves_are_given_up_when_their_time_is_over_each_by_its_own() -> None:
    subject = Subject(missingTopicTimeoutMs="1000")
    assert subject.waits.given_up({"T": MISSING}) == frozenset()
    subject.now_ms = 600
    assert subject.waits.given_up({"T": MISSING, "U": MISSING}) == frozenset()
    subject.now_ms = 1_000
    assert subject.waits.given_up({"T": MISSING, "U": MISSING}) == {"T"}
    subject.now_ms = 1_600
    assert subject.waits.given_up({"U": MISSING}) == {"U"}
    assert set(subject.forgotten) == {"T", "U"}


def test_silence_is_an_error_when_its_time_is_over() -> None:
    subject = Subject(clusterTimeoutMs="1000", missingTopicTimeoutMs="1000")
    assert subject.waits.given_up({"T": SILENT}) == frozenset()
    subject.now_ms = 1_000
    with pytest.raises(TransportError, match="CLUSTER_UNREACHABLE"):
        subject.waits.given_up({"T": SILENT})


def test_a_topic_s_time_begins_when_a_name_server_answers() -> None:
    subject = Subject(missingTopicTimeoutMs="1000")
    subject.waits.given_up({"T": SILENT})
    subject.now_ms = 5_000
    assert subject.waits.given_up({"T": MISSING}) == frozenset()
    subject.now_ms = 5_999
    assert subject.waits.given_up({"T": MISSING}) == frozenset()
    subject.now_ms = 6_000
    assert subject.waits.given_up({"T": MISSING}) == {"T"}


@pytest.mark.parametrize("failure", [MISSING, BUSY])
def test_flapping_name_servers_do_not_extend_the_limit_endlessly(failure: RocketMQError) -> None:
    """Whoever asks meets the one failure and then the other, each time."""
    subject = Subject(clusterTimeoutMs="1000", missingTopicTimeoutMs="1000")
    with pytest.raises((TransportError, RouteError), match=r"CLUSTER_UNREACHABLE|TOPIC_NOT_FOUND"):
        while subject.now_ms < 3_400:
            for error in (failure, SILENT):
                subject.now_ms += 100
                subject.waits.be_patient(topic_subject("T"), "T", error)
    assert subject.now_ms >= 3_000, "one outage of the name servers counts for nothing"


def test_what_another_attempt_would_not_change_is_raised_at_once() -> None:
    subject = Subject()
    with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
        subject.waits.given_up({"T": ILLEGAL})
    with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
        subject.waits.be_patient(topic_subject("T"), "T", ILLEGAL)


def test_who_waits_for_one_topic_raises_when_its_time_is_over_unless_it_was_over_before() -> None:
    subject = Subject(missingTopicTimeoutMs="1000")
    subject.waits.be_patient(topic_subject("T"), "T", MISSING)
    subject.now_ms = 900
    subject.waits.is_over(topic_subject("T"))
    subject.waits.be_patient(topic_subject("T"), "T", MISSING)
    subject.now_ms = 1_899
    subject.waits.be_patient(topic_subject("T"), "T", MISSING)
    subject.now_ms = 1_900
    with pytest.raises(RouteError, match="TOPIC_NOT_FOUND"):
        subject.waits.be_patient(topic_subject("T"), "T", MISSING)
