"""Servers: asking name servers and brokers. The one place where a failure becomes an outage.

Who is silent is left out and asked again later. No decisions about queues or offsets are made here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

from rocketmq_spark.consumer.broker_names import BrokerNames
from rocketmq_spark.consumer.heartbeats import Heartbeats
from rocketmq_spark.consumer.outages import Outages
from rocketmq_spark.consumer.ports import Answer, BrokerPort, Cluster, Link
from rocketmq_spark.errors import BrokerError, RocketMQError, RouteError
from rocketmq_spark.model import BrokerAddress, MessageQueue, QueueBounds
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.remoting.looker import TOOLS, Looker
from rocketmq_spark.remoting.retry import (
    NAME_SERVERS,
    Outlook,
    broker_subject,
    is_away,
    is_no_name_server,
    is_refusal,
    outlook_of_request,
    topic_subject,
)
from rocketmq_spark.wire.remoting.codes import ResponseCode

log = logging.getLogger(__name__)

DELETES_OFFSETS: Final = 441
"""V5_1_4, the oldest on which that was seen. Source: ``common/MQVersion.java``."""

REGISTERED_WITHIN_MS: Final = 15_000
"""A broker that is back serves its queues before the name servers name it, and a name server that is back hears of
brokers only from them. While the queues are served nobody waits for that, so at first nothing is said."""

NO_TOPIC: Final = frozenset({ResponseCode.TOPIC_NOT_EXIST})

T = TypeVar("T")
K = TypeVar("K")
P = ParamSpec("P")


class Servers:
    """The servers of the topics that are read. Not thread-safe."""

    def __init__(self, options: ReadOptions, cluster: Cluster, outages: Outages) -> None:
        self._options = options
        self._cluster = cluster
        self._routes = cluster.routes
        self._outages = outages
        self._looker = TOOLS
        self._names = BrokerNames(cluster, NO_TOPIC)

    def hand_resets_to(self, told_reset: Callable[[MessageQueue, int], None]) -> None:
        """Who signs looks at messages as a member of the query's group, because that is what it has the right to: so it
        may be told of an operator's reset."""
        if self._options.security.credentials is not None:
            self._looker = Looker(self._options.consumer_group, told_reset)

    # ------------------------------------------------------------------------------------------ how to ask

    def ask(
        self, broker_name: str, call: Callable[Concatenate[BrokerPort, P], T], *given: P.args, **named: P.kwargs
    ) -> T | None:
        """Ask a broker by name; None if it is silent, or was a moment ago. Refusals that will not pass are raised."""
        address = self._routes.master(broker_name)
        if address is None or not self._outages.may_ask(broker_name) or not self._met([broker_name]):
            return None
        try:
            answer = call(self._cluster.broker(address), *given, **named)
        except RocketMQError as error:
            if outlook_of_request(error) is not Outlook.PASSES:
                raise
            self._note_failure(broker_name, error)
            return None
        self._outages.succeeded(broker_subject(broker_name))
        return answer

    def _met(self, broker_names: Iterable[str]) -> list[str]:
        """Those of which it is known who answers: where a connection is new, that takes a request, to all at once."""
        names = list(broker_names)
        self.ask_together({name: name for name in names if not self._names.is_known(name)}, self._names.submit_check)
        return [name for name in names if self._names.is_known(name)]

    def ask_one_by_one(
        self, queues: Iterable[MessageQueue], call: Callable[[BrokerPort, Collection[MessageQueue]], T]
    ) -> Iterator[T]:
        """Ask the broker of each of ``queues`` about those that it has: what takes a broker several requests, each for
        what was said to the one before."""
        for broker_name, of_broker in _by_broker(queues).items():
            answer = self.ask(broker_name, call, of_broker)
            if answer is not None:
                yield answer

    def ask_each(
        self, queues: Iterable[MessageQueue], submit: Callable[[BrokerPort, Collection[MessageQueue]], Answer[T]]
    ) -> list[tuple[Collection[MessageQueue], T]]:
        """Ask the broker of each of ``queues`` about those that it has, all at once: (queues, answer) of each that
        answers. A turn waits for the slowest of them, and not for their sum."""
        of_broker = _by_broker(queues)

        def submit_to_known(broker: BrokerPort, name: str) -> Answer[T]:
            self._names.ensure_known(name)  # others were asked since, and connections are lost in a moment
            return submit(broker, of_broker[name])

        told = self.ask_together({name: name for name in self._met(of_broker)}, submit_to_known)
        return [(of_broker[name], answer) for name, answer in told.items()]

    def ask_together(
        self,
        questions: Mapping[K, str],
        submit: Callable[[BrokerPort, K], Answer[T]],
        none_for: Collection[int] = (),
    ) -> dict[K, T]:
        """Ask brokers by name, all at once. Left out is what silent brokers were asked, and what was refused with a
        code of ``none_for``; other refusals that will not pass are raised."""
        asked = _Round(none_for)
        answers: dict[K, Answer[T]] = {}
        for key, broker_name in questions.items():
            address = self._routes.master(broker_name)
            if address is not None and broker_name not in asked.failures and self._outages.may_ask(broker_name):
                asked.note(broker_name, answers, key, partial(submit, self._cluster.broker(address), key))
        told: dict[K, T] = {}
        for key, answer in answers.items():
            asked.note(questions[key], told, key, answer.result)
        for broker_name, error in asked.failures.items():
            self._note_failure(broker_name, error)
        for broker_name in asked.answered - asked.failures.keys():
            if not self._names.is_elsewhere(broker_name):
                self._outages.succeeded(broker_subject(broker_name))
        return told

    def ask_any(self, call: Callable[[BrokerPort], T]) -> T | None:
        """Ask a broker, any that was not silent when it was last asked. None, and no outage, if it does not answer."""
        address = next(iter(self._outages.answering().values()), None)
        if address is None:
            return None
        try:
            return call(self._cluster.broker(address))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Request to address=%s failed: %s", address, error)
            return None

    def send(self, heartbeats: Heartbeats) -> set[BrokerAddress]:
        """Who has answered."""
        return heartbeats.send(self._cluster)

    def tell(self, address: BrokerAddress, call: Callable[[BrokerPort], object]) -> bool:
        """Tell a broker something that is told again by the timer, or need not be; says whether it has answered."""
        try:
            call(self._cluster.broker(address))
        except RocketMQError as error:
            log.debug("REQUEST_FAILED: Notification to address=%s failed: %s", address, error)
            return False
        return True

    def link(self, broker_name: str) -> Link | None:
        """By which the broker is reached now; None while no route names its master, and where a proxy is between: then
        a connection says nothing of the broker."""
        address = self._routes.master(broker_name)
        return None if address is None or address.broker_name is not None else self._names.link(broker_name)

    def deletes_offsets(self, broker_name: str) -> bool:
        """Whether the broker is known to delete groups' offsets with their topic. Older ones keep them."""
        address = self._routes.master(broker_name)
        return address is not None and self._cluster.version(address) >= DELETES_OFFSETS

    def _note_failure(self, broker_name: str, error: RocketMQError) -> None:
        self._outages.failed(broker_subject(broker_name), error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ commits

    def may_commit(self, queue: MessageQueue) -> bool:
        """Whether the broker has not refused a moment ago to store the queue's offset."""
        return self._outages.may_commit(queue)

    def note_commit(self, queue: MessageQueue, error: RocketMQError | None) -> None:
        """The broker has stored the queue's offset, or not. The limit counts from the first refusal, whatever else the
        broker answers."""
        if error is None:
            self._outages.commit_succeeded(queue)
        else:
            self._outages.commit_failed(queue, error, self._options.cluster_timeout_ms)

    # ------------------------------------------------------------------------------------------ name servers

    def refresh_routes(self) -> None:
        """Ask for the route of every topic. One that is not told now stays as it was."""
        failures = self._routes.refresh(self._options.read_topics)
        for topic in self._options.read_topics:
            error = failures.get(topic)
            # Without read permission a topic looks like an idle one.
            if error is None and not self._routes.queues_of(topic):
                error = RouteError("TOPIC_UNAVAILABLE.NO_READABLE_QUEUE", topic=topic)
            if isinstance(error, RouteError):
                self._note_missing(topic, error)
            elif error is None:
                self._outages.succeeded(topic_subject(topic))
        self._note_name_servers([one for one in failures.values() if not isinstance(one, RouteError)])
        self._outages.forget_brokers_that_left()
        for broker_name in self._routes.without_master():
            # It is listed, so it is there; it is its master that does not answer.
            self._note_failure(
                broker_name,
                RouteError("MASTER_UNAVAILABLE", broker=broker_name, topic=self._routes.topics_at(broker_name)[0]),
            )

    def _note_name_servers(self, silent: Sequence[RocketMQError]) -> None:
        for error in silent:
            if is_no_name_server(error):
                raise error
        if silent:
            passes = outlook_of_request(silent[0]) is Outlook.PASSES
            self._outages.failed(NAME_SERVERS, silent[0], self._options.cluster_timeout_ms if passes else 0)
        else:
            self._outages.succeeded(NAME_SERVERS)

    def _note_missing(self, topic: str, error: RouteError) -> None:
        """One that has had a route is missed as its brokers are. The group's retry topic is made by its brokers, when
        they have the first heartbeat of a member."""
        limit_ms, quiet_ms = self._options.missing_topic_timeout_ms, 0
        if is_away(error):
            limit_ms, quiet_ms = self._options.cluster_timeout_ms, REGISTERED_WITHIN_MS
        elif topic == self._options.retry_topic:
            quiet_ms = REGISTERED_WITHIN_MS
        self._outages.failed(topic_subject(topic), error, limit_ms, quiet_ms)

    # ------------------------------------------------------------------------------------------ what queues hold

    def bounds(self) -> dict[MessageQueue, QueueBounds]:
        """The bounds of all readable queues, one request for each topic and broker, all at once; without the silent
        brokers' queues."""
        readable = {topic: set(queues) for topic, queues in self._routes.queues.items()}
        questions = {
            (topic, broker_name): broker_name
            for topic, queues in readable.items()
            for broker_name in sorted({queue.broker_name for queue in queues})
        }
        # A broker may not have a topic any more: the route will follow.
        held = self.ask_together(
            questions,
            lambda broker, question: self._names.submit_bounds(broker, *question),
            NO_TOPIC,
        )
        self._met({broker_name for _, broker_name in questions})  # who has nothing to tell has not said who it is
        return {
            queue: of_queue
            for (topic, _), bounds in held.items()
            for queue, of_queue in bounds.items()
            if queue in readable[topic]
        }

    def check_group(self) -> None:
        """Raises why brokers do not list us, where they say so: BrokerError[GROUP_NOT_FOUND.BROKER | GROUP_DENIED |
        TOPIC_DENIED]."""
        questions = {
            (topic, broker.broker_name): broker.broker_name
            for topic, route in self._routes.routes.items()
            for broker in route.brokers
        }
        group = self._options.consumer_group
        self.ask_together(questions, lambda broker, question: broker.submit_group_check(group, question[0]))

    def stored_at(self, offsets: Mapping[MessageQueue, int]) -> dict[MessageQueue, int | None]:
        """When the message at an offset of each queue was stored, in ms; None where there is none. Queues whose broker
        is silent are left out, and those whose broker refuses pulls, for ``clusterTimeoutMs``."""
        found: dict[MessageQueue, int | None] = {}
        for answer in self.ask_one_by_one(offsets, lambda broker, queues: self._look(broker, queues, offsets)):
            found |= answer
        return found

    def _look(
        self, broker: BrokerPort, queues: Collection[MessageQueue], offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, int | None]:
        """A refusal ends nothing at once: a topic may just have been deleted, or reading be forbidden for a while. What
        is refused to us alone is raised."""
        subject = f"messages of {broker_subject(next(iter(queues)).broker_name)}"
        try:
            found = broker.stored_at({queue: offsets[queue] for queue in queues}, self._looker)
        except BrokerError as error:
            if not is_refusal(error):
                raise
            self._outages.failed(subject, error, self._options.cluster_timeout_ms)
            return {}
        self._outages.succeeded(subject)
        return found

    def search_hints(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """As ``search_offsets``, quickly and unchecked: it may be too small."""
        found: dict[MessageQueue, int] = {}
        for _, offsets in self.ask_each(
            timestamps_ms,
            lambda broker, queues: broker.submit_search_hints({queue: timestamps_ms[queue] for queue in queues}),
        ):
            found |= offsets
        return found

    def search_offsets(self, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first offset of each queue that was stored at the given time or later, else its max offset. Queues whose
        broker is silent are left out."""
        found: dict[MessageQueue, int] = {}
        for offsets in self.ask_one_by_one(
            timestamps_ms,
            lambda broker, queues: broker.search_offsets(
                {queue: timestamps_ms[queue] for queue in queues}, self._looker
            ),
        ):
            found |= offsets
        return found


class _Round:
    """One round of questions to brokers: who has answered, and who has not."""

    def __init__(self, none_for: Collection[int]) -> None:
        self.failures: dict[str, RocketMQError] = {}
        self.answered: set[str] = set()
        self._none_for = none_for

    def note(self, broker_name: str, results: dict[K, T], key: K, call: Callable[[], T]) -> None:
        """Put what a broker says among the ``results``. A failure that passes is remembered, others are raised."""
        try:
            results[key] = call()
        except RocketMQError as error:
            if outlook_of_request(error) is Outlook.PASSES:
                self.failures[broker_name] = error
                return
            if not (is_refusal(error) and error.code in self._none_for):
                raise
        self.answered.add(broker_name)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    grouped: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        grouped.setdefault(queue.broker_name, []).append(queue)
    return grouped
