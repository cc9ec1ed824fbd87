from __future__ import annotations

from collections.abc import Sequence

import pytest

from rocketmq_spark.consumer.allocation import (
    AllocateAllToEach,
    AllocateAllTopicsStrategy,
    AllocateMachineRoomNearby,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueStrategy,
)
from rocketmq_spark.consumer.strategy_names import StrategySettings, strategy_named, strategy_of
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import ReadOptions

HERE = __name__
QUEUE = MessageQueue("T", "east", 0)
SETTINGS = StrategySettings((QUEUE,), ("east",), f"{HERE}:OneMachineRoom")


class OneMachineRoom:
    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return "room"

    def consumer_deploy_in(self, client_id: str) -> str:
        return "room"


class FirstTakesAll:
    name = "FIRST_TAKES_ALL"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(queues) if client_id == client_ids[0] else []


class FirstTakesAllTopics:
    name = "FIRST_TAKES_ALL_TOPICS"

    def allocate_all_topics(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(queues) if client_id == client_ids[0] else []


class NeedsArguments:
    def __init__(self, argument: str) -> None:
        self.argument = argument


NAMES = ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM", "AVG_ALL_TOPICS"]
NEARBY_NAMES = [f"MACHINE_ROOM_NEARBY-{name}" for name in NAMES if name != "AVG_ALL_TOPICS"]


@pytest.mark.parametrize("name", [*NAMES, *NEARBY_NAMES])
def test_a_strategy_found_by_its_name_has_that_name(name: str) -> None:
    assert strategy_named(name, SETTINGS).name == name
    assert strategy_named(name.lower(), SETTINGS).name == name


def test_the_settings_reach_the_strategy() -> None:
    config = strategy_named("CONFIG", SETTINGS)
    assert isinstance(config, AllocateMessageQueueStrategy)
    assert config.allocate("g", "c", [], []) == [QUEUE]


def test_the_rooms_and_the_resolver_reach_their_strategies() -> None:
    rooms = strategy_named("MACHINE_ROOM", SETTINGS)
    assert isinstance(rooms, AllocateMessageQueueByMachineRoom)
    assert rooms.consumer_idcs == {"east"}
    nearby = strategy_named("MACHINE_ROOM_NEARBY-AVG", SETTINGS)
    assert isinstance(nearby, AllocateMachineRoomNearby)
    assert isinstance(nearby.resolver, OneMachineRoom)


def options(strategy: str, **given: str) -> ReadOptions:
    required = {"namesrvAddr": "n:1", "consumerGroup": "g", "subscribe": "T", "allocateStrategy": strategy}
    return ReadOptions.parse(required | given)


def test_what_the_options_define_reaches_the_strategy() -> None:
    config = strategy_of(options("CONFIG", messageQueueList="T@east:0"))
    assert config == AllocateMessageQueueByConfig((QUEUE,))
    assert strategy_of(options("MACHINE_ROOM", consumeridcs="east")) == strategy_named("MACHINE_ROOM", SETTINGS)
    nearby = strategy_of(options("MACHINE_ROOM_NEARBY-AVG", machineRoomResolver=f"{HERE}:OneMachineRoom"))
    assert nearby.name == "MACHINE_ROOM_NEARBY-AVG"


def test_a_pattern_excludes_strategies_over_all_topics() -> None:
    """Members may know different topics for a moment, and would share the queues of all others differently."""
    required = {"namesrvAddr": "n:1", "consumerGroup": "g", "subscribePattern": "T.*"}
    with pytest.raises(OptionError, match=r"INCOMPATIBLE_OPTIONS.*'subscribePattern'.*AVG_ALL_TOPICS allocates"):
        strategy_of(ReadOptions.parse({**required, "allocateStrategy": "AVG_ALL_TOPICS"}))
    assert strategy_of(ReadOptions.parse(required)).name == "AVG"
    broadcasting = ReadOptions.parse({**required, "messageModel": "BROADCASTING", "instanceName": "one"})
    assert isinstance(strategy_of(broadcasting), AllocateAllToEach)


def test_in_broadcasting_each_member_gets_all() -> None:
    strategy = strategy_of(options("AVG", messageModel="BROADCASTING", instanceName="one"))
    assert isinstance(strategy, AllocateAllToEach)


def test_a_users_own_class_is_found_by_its_import_path() -> None:
    strategy = strategy_named(f"{HERE}:FirstTakesAll")
    assert isinstance(strategy, AllocateMessageQueueStrategy)
    assert strategy.allocate("g", "a", [QUEUE], ["a", "b"]) == [QUEUE]


def test_a_users_own_class_may_divide_all_topics() -> None:
    assert isinstance(strategy_named(f"{HERE}:FirstTakesAllTopics"), AllocateAllTopicsStrategy)


def test_a_users_own_strategy_works_within_machine_rooms() -> None:
    name = strategy_named(f"machine_room_nearby-{HERE}:FirstTakesAll", SETTINGS).name
    assert name == "MACHINE_ROOM_NEARBY-FIRST_TAKES_ALL"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("AVERAGE", "one of AVG, AVG_BY_CIRCLE"),
        ("", "one of AVG"),
        ("no_such_module:X", "ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{HERE}:NoSuchClass", "AttributeError"),
        (":X", "Empty module name"),
        (f"{HERE}:NeedsArguments", "TypeError"),
        (f"{HERE}:OneMachineRoom", "a method 'allocate' or 'allocate_all_topics'"),
        ("MACHINE_ROOM_NEARBY-AVG_ALL_TOPICS", "a strategy for single topics"),
        ("MACHINE_ROOM_NEARBY-", "one of AVG"),
    ],
)
def test_what_names_no_strategy_is_refused_with_the_reason(name: str, complaint: str) -> None:
    with pytest.raises(OptionError, match="for 'allocateStrategy'") as caught:
        strategy_named(name, SETTINGS)
    assert complaint in str(caught.value)
    assert caught.value.context["value"] == ("" if name == "MACHINE_ROOM_NEARBY-" else name)


CONFIG_HINT = "CONFIG reads exactly the queues listed there."


@pytest.mark.parametrize(
    ("name", "needed", "reason"),
    [
        ("CONFIG", "messageQueueList", CONFIG_HINT),
        ("MACHINE_ROOM", "consumeridcs", "MACHINE_ROOM reads brokers named 'room@name' in these rooms."),
        ("MACHINE_ROOM_NEARBY-AVG", "machineRoomResolver", "It maps brokers and clients to machine rooms."),
        ("MACHINE_ROOM_NEARBY-CONFIG", "messageQueueList", CONFIG_HINT),
    ],
)
def test_a_strategy_names_the_option_that_it_needs(name: str, needed: str, reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        strategy_named(name)
    assert raised.value.condition == "OPTION_REQUIRES_OPTION"
    assert raised.value.context == {"option": "allocateStrategy", "needed": needed, "reason": reason}


def test_a_resolver_must_map_brokers_and_clients() -> None:
    path = f"{HERE}:FirstTakesAll"
    with pytest.raises(OptionError) as raised:
        strategy_named("MACHINE_ROOM_NEARBY-AVG", StrategySettings(machine_room_resolver=path))
    assert raised.value.context == {
        "option": "machineRoomResolver",
        "value": path,
        "expected": "a class with methods 'broker_deploy_in' and 'consumer_deploy_in'",
    }


def test_a_resolver_that_is_not_there_is_a_wrong_resolver() -> None:
    with pytest.raises(OptionError, match="Invalid value 'no_such_module:X' for 'machineRoomResolver'"):
        strategy_named("MACHINE_ROOM_NEARBY-AVG", StrategySettings(machine_room_resolver="no_such_module:X"))


def test_a_class_without_the_methods_of_a_strategy_is_refused_with_their_names() -> None:
    with pytest.raises(OptionError) as raised:
        strategy_named(f"{HERE}:OneMachineRoom")
    assert raised.value.context["expected"] == "a class with a 'name', and a method 'allocate' or 'allocate_all_topics'"


def test_a_second_colon_is_no_part_of_a_module() -> None:
    with pytest.raises(OptionError, match="AttributeError"):
        strategy_named(f"{HERE}:One:Room")


def test_assigned_queues_are_allocated_as_far_as_there_are_such() -> None:
    given = {"namesrvAddr": "n:9876", "consumerGroup": "g", "assign": '{"T":{"east":[0,7]}}'}
    strategy = strategy_of(ReadOptions.parse(given))
    queues = [QUEUE, MessageQueue("T", "east", 1)]
    assert isinstance(strategy, AllocateAllTopicsStrategy)
    assert strategy.allocate_all_topics("g", "me", queues, ["me", "other"]) == [QUEUE]
