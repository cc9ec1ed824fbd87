"""Allocation strategies by the names that users set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, TypeVar

from rocketmq_spark.consumer.allocation import (
    AllocateAllToEach,
    AllocateAllTopicsStrategy,
    AllocateAssigned,
    AllocateAveragelyOverAllTopics,
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
    MachineRoomResolver,
    Strategy,
)
from rocketmq_spark.errors import OptionError
from rocketmq_spark.model import MessageQueue
from rocketmq_spark.options import BROADCASTING, ReadOptions

T = TypeVar("T")

STRATEGY_OPTION: Final = "allocateStrategy"
QUEUES_OPTION: Final = "messageQueueList"
IDCS_OPTION: Final = "consumeridcs"
RESOLVER_OPTION: Final = "machineRoomResolver"

NEARBY_PREFIX: Final = "MACHINE_ROOM_NEARBY-"


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """Arguments of strategies: the queues of CONFIG, the rooms of MACHINE_ROOM, the resolver of MACHINE_ROOM_NEARBY.

    ``machine_room_resolver`` is an import path ``module:Class`` of a ``MachineRoomResolver``.
    """

    message_queues: Sequence[MessageQueue] = ()
    consumer_idcs: Collection[str] = ()
    machine_room_resolver: str = ""


NO_SETTINGS: Final = StrategySettings()


def strategy_named(name: str, settings: StrategySettings = NO_SETTINGS) -> Strategy:
    """Return the strategy with RocketMQ's ``name``, in any letter case, or an instance of a user's class,
    ``module:Class``.

    Users' modules are imported and their classes instantiated without arguments. Raises
    OptionError[INVALID_OPTION_VALUE] if no strategy has that name or a class is not usable,
    OptionError[OPTION_REQUIRES_OPTION] if ``settings`` lack its argument.
    """
    if name.upper().startswith(NEARBY_PREFIX):
        return _nearby(name, settings)
    if ":" in name:
        return _load_user_strategy(name)
    if name.upper() not in _STRATEGIES:
        raise _invalid_option(
            name, f"one of {', '.join(_STRATEGIES)}, {NEARBY_PREFIX}<name>, or an import path module:Class"
        )
    return _STRATEGIES[name.upper()](settings)


def strategy_of(options: ReadOptions) -> Strategy:
    """Return the strategy of ``options``. With ``assign`` it allocates the assigned queues, in BROADCASTING all queues
    to each member, otherwise ``allocateStrategy`` names it. Raises the errors of ``strategy_named``, and
    OptionError[INCOMPATIBLE_OPTIONS] for ``subscribePattern`` with a strategy that allocates all topics together."""
    if options.assigned is not None:
        return AllocateAssigned(frozenset(options.assigned))
    if options.message_model == BROADCASTING:
        return AllocateAllToEach()
    settings = StrategySettings(options.message_queue_list, options.consumer_idcs, options.machine_room_resolver)
    strategy = strategy_named(options.allocate_strategy, settings)
    if options.topic_pattern is not None and isinstance(strategy, AllocateAllTopicsStrategy):
        reason = (
            f"{strategy.name} allocates the queues of all topics together, and members with a pattern may have "
            "different topics for a moment. Use a strategy that allocates each topic by itself."
        )
        raise OptionError("INCOMPATIBLE_OPTIONS", first="subscribePattern", second=STRATEGY_OPTION, reason=reason)
    return strategy


def _by_config(settings: StrategySettings) -> Strategy:
    """Return CONFIG with the queues of ``settings``. Raises OptionError[OPTION_REQUIRES_OPTION] without queues."""
    queues = _required(settings.message_queues, QUEUES_OPTION, "CONFIG reads exactly the queues listed there.")
    return AllocateMessageQueueByConfig(tuple(queues))


def _by_machine_room(settings: StrategySettings) -> Strategy:
    """Return MACHINE_ROOM for the rooms of ``settings``. Raises OptionError[OPTION_REQUIRES_OPTION] without rooms."""
    rooms = _required(
        settings.consumer_idcs, IDCS_OPTION, "MACHINE_ROOM reads brokers named 'room@name' in these rooms."
    )
    return AllocateMessageQueueByMachineRoom(frozenset(rooms))


_STRATEGIES: Final[Mapping[str, Callable[[StrategySettings], Strategy]]] = {
    "AVG": lambda _: AllocateMessageQueueAveragely(),
    "AVG_BY_CIRCLE": lambda _: AllocateMessageQueueAveragelyByCircle(),
    "CONSISTENT_HASH": lambda _: AllocateMessageQueueConsistentHash(),
    "CONFIG": _by_config,
    "MACHINE_ROOM": _by_machine_room,
    "AVG_ALL_TOPICS": lambda _: AllocateAveragelyOverAllTopics(),
}


def _nearby(name: str, settings: StrategySettings) -> Strategy:
    """Return MACHINE_ROOM_NEARBY with the strategy named after the prefix of ``name``, and an instance of the user's
    resolver. Raises OptionError[INVALID_OPTION_VALUE] if this strategy allocates all topics together, or a class is not
    usable, OptionError[OPTION_REQUIRES_OPTION] without a resolver, and the errors of ``strategy_named``."""
    inner = strategy_named(name[len(NEARBY_PREFIX) :], settings)
    if not isinstance(inner, AllocateMessageQueueStrategy):
        raise _invalid_option(name, f"{NEARBY_PREFIX} and a strategy for single topics, which {inner.name} is not")
    path = _required(settings.machine_room_resolver, RESOLVER_OPTION, "It maps brokers and clients to machine rooms.")
    return AllocateMachineRoomNearby(inner, _resolver(path))


def _resolver(path: str) -> MachineRoomResolver:
    """Import and instantiate a user's resolver (``_instantiate``). Raises OptionError[INVALID_OPTION_VALUE] also if it
    is not a MachineRoomResolver."""
    resolver = _instantiate(path, RESOLVER_OPTION)
    if not isinstance(resolver, MachineRoomResolver):
        raise _invalid_option(path, "a class with methods 'broker_deploy_in' and 'consumer_deploy_in'", RESOLVER_OPTION)
    return resolver


def _load_user_strategy(path: str) -> Strategy:
    """Import ``module:Class``, a user's strategy, and return a new instance. Raises what ``_instantiate`` does, and
    OptionError[INVALID_OPTION_VALUE] if the instance is no strategy."""
    strategy = _instantiate(path, STRATEGY_OPTION)
    if not isinstance(strategy, AllocateMessageQueueStrategy | AllocateAllTopicsStrategy):
        raise _invalid_option(path, "a class with a 'name', and a method 'allocate' or 'allocate_all_topics'")
    return strategy


def _instantiate(path: str, option: str) -> Any:
    """Import ``module:Class`` and return a new instance. An ImportError, AttributeError, TypeError or ValueError
    becomes OptionError[INVALID_OPTION_VALUE] for ``option``; other errors are raised unchanged."""
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)()
    except (ImportError, AttributeError, TypeError, ValueError) as problem:
        expected = f"an import path module:Class of a class without arguments ({type(problem).__name__}: {problem})"
        raise _invalid_option(path, expected, option) from problem


def _required(value: T, needed: str, reason: str) -> T:
    """Return ``value``. Raises OptionError[OPTION_REQUIRES_OPTION] if it is empty: ``allocateStrategy`` requires option
    ``needed``."""
    if not value:
        raise OptionError("OPTION_REQUIRES_OPTION", option=STRATEGY_OPTION, needed=needed, reason=reason)
    return value


def _invalid_option(value: str, expected: str, option: str = STRATEGY_OPTION) -> OptionError:
    return OptionError("INVALID_OPTION_VALUE", option=option, value=value, expected=expected)
