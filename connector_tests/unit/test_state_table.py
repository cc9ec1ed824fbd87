from __future__ import annotations

from enum import Enum

import pytest

from rocketmq_spark.state_table import transition_of

State = Enum("State", ["ON", "OFF"])
Event = Enum("Event", ["START", "STOP"])
TRANSITIONS = {(State.OFF, Event.START): State.ON, (State.ON, Event.STOP): None}


def test_transition_of_the_table_is_returned() -> None:
    assert transition_of(TRANSITIONS, State.OFF, Event.START, "a lamp") is State.ON
    assert transition_of(TRANSITIONS, State.ON, Event.STOP, "a lamp") is None


def test_missing_transition_raises_with_subject_state_and_event() -> None:
    with pytest.raises(ValueError, match=r"^a lamp is ON, which has no event START$"):
        transition_of(TRANSITIONS, State.ON, Event.START, "a lamp")
