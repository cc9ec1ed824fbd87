from __future__ import annotations

import pytest

from rocketmq_spark.wire.remoting.codes import RequestCode, ResponseCode
from rocketmq_spark.wire.remoting.command import RemotingCommand
from rocketmq_spark.wire.remoting.meanings import MEANINGS, Meaning, is_go_away, meaning_of
from rocketmq_spark.wire.remoting.pull import PULL_STATUS
from rocketmq_spark.wire.remoting.send import SendStatus

SENDING = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


def response(code: int, remark: str | None = None) -> RemotingCommand:
    return RemotingCommand(code, remark=remark)


@pytest.mark.parametrize("request_code", [code for code in RequestCode if code not in MEANINGS])
def test_a_request_that_is_not_in_the_table_takes_success_only(request_code: RequestCode) -> None:
    known = {code for code in ResponseCode if meaning_of(request_code, response(code)) is not None}
    assert known == {ResponseCode.SUCCESS}


@pytest.mark.parametrize("request_code", SENDING)
def test_a_message_is_stored_in_each_of_java_s_states_of_sending_and_in_no_other(request_code: RequestCode) -> None:
    known = {code for code in ResponseCode if meaning_of(request_code, response(code)) is Meaning.ACCEPTED}
    assert known == {status.value for status in SendStatus}


def test_a_pull_has_an_outcome_for_each_of_java_s_states_of_pulling_and_for_no_other() -> None:
    known = {code for code in ResponseCode if meaning_of(RequestCode.PULL_MESSAGE, response(code)) is Meaning.ACCEPTED}
    assert known == PULL_STATUS.keys()


@pytest.mark.parametrize(
    ("request_code", "code", "remark", "meaning"),
    [
        (RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.QUERY_NOT_FOUND, "Not found", Meaning.EMPTY),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "x", Meaning.WRONG_SERVER_KIND),
        (RequestCode.GET_BROKER_CLUSTER_INFO, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "x", Meaning.WRONG_SERVER_KIND),
        (
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            "x",
            Meaning.WRONG_SERVER_KIND,
        ),
        (RequestCode.POP_MESSAGE, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "x", Meaning.WRONG_SERVER_KIND),
        (RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "x", None),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.TOPIC_NOT_EXIST, "No topic route info", Meaning.EMPTY),
        (
            RequestCode.GET_CONSUMER_LIST_BY_GROUP,
            ResponseCode.SYSTEM_ERROR,
            "no consumer for this group, g",
            Meaning.EMPTY,
        ),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR, "disk is full", None),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR, None, None),
        (
            RequestCode.UPDATE_CONSUMER_OFFSET,
            ResponseCode.SUCCESS,
            "Offset has been previously reset",
            Meaning.OFFSET_RESET_PENDING,
        ),
        (RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SUCCESS, None, Meaning.ACCEPTED),
        (
            RequestCode.CONSUMER_SEND_MSG_BACK,
            ResponseCode.SYSTEM_ERROR,
            "look message by offset failed, 7",
            Meaning.DELETED,
        ),
        (RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR, "putMessageResult", None),
        (RequestCode.PULL_MESSAGE, ResponseCode.SYSTEM_ERROR, None, None),
        (RequestCode.HEART_BEAT, 9_999, None, None),
    ],
)
def test_the_remark_distinguishes_what_has_no_code_of_its_own(
    request_code: RequestCode, code: int, remark: str | None, meaning: Meaning | None
) -> None:
    assert meaning_of(request_code, response(code, remark)) is meaning


def test_a_line_that_holds_for_any_remark_hides_none_that_comes_after_it() -> None:
    for meanings in MEANINGS.values():
        rows = list(meanings)
        for position, (code, remark) in enumerate(rows):
            hidden = [later for later in rows[position + 1 :] if later[0] == code and later[1].startswith(remark)]
            assert hidden == []


def test_goaway_means_nothing_to_a_request_and_is_distinguished() -> None:
    going = response(ResponseCode.GO_AWAY)
    assert is_go_away(going)
    assert not is_go_away(response(ResponseCode.SUCCESS))
    assert [code for code in RequestCode if meaning_of(code, going) is not None] == []
