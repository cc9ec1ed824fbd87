"""SubscribedTopics: the topics that a member reads, which with ``subscribePattern`` change while it runs. Pure."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from rocketmq_spark.model import MessageQueue, TopicList, TopicRoute
from rocketmq_spark.options import ReadOptions

log = logging.getLogger(__name__)


class SubscribedTopics(Collection[str]):
    """Topics of ``options``, and the group's retry topic if it is read. Not thread-safe.

    With ``subscribePattern``: the matching topics of the last ``TopicList``, and those of them that are unavailable. A
    topic that is not listed is *deleted* if the list is complete and has all brokers that the topic was on. Otherwise
    it stays subscribed: its name server may be unresponsive, or its broker stopped, so ``missingQueues`` applies to its
    queues. A deleted topic stays deleted until a list has it again.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._list: TopicList | None = None
        self._matching: tuple[str, ...] = ()
        self._topics = tuple(options.read_topics)
        self._brokers: dict[str, set[str]] = {}
        """Names of the brokers that matching topics are or were on."""
        self._deleted: set[str] = set()
        self._expected: Collection[MessageQueue] = ()
        self.version = 0
        """Number of changes of the topics."""

    @property
    def has_pattern(self) -> bool:
        return self._options.topic_pattern is not None

    @property
    def is_known(self) -> bool:
        """Return whether the topics were listed, or need not be."""
        return self._list is not None or not self.has_pattern

    @property
    def selected(self) -> tuple[str, ...]:
        """Return the topics without the retry topic; with a pattern ascending, and () before the first list."""
        return self._matching if self.has_pattern else self._options.listed_topics

    def expect(self, queues: Collection[MessageQueue]) -> None:
        """Record the brokers of ``queues`` that the query has read, of all topics, and compute the topics again. A
        topic of these queues is unavailable, not deleted, while one of these brokers is not registered. Do nothing
        without a pattern, or if ``queues`` is the same object as in the last call."""
        if not self.has_pattern or queues is self._expected:
            return
        self._expected = queues
        for queue in queues:
            if self._options.selects(queue.topic):
                self._brokers.setdefault(queue.topic, set()).add(queue.broker_name)
        self._match()

    def update(self, topics: TopicList, routes: Mapping[str, TopicRoute]) -> None:
        """Replace the list by ``topics`` and compute the topics again (``_match``). ``routes``: the last known ones, by
        topic; record the brokers of topics read so far from them, which decide whether a topic is deleted later."""
        for topic in self._matching:
            if topic in routes:
                self._brokers.setdefault(topic, set()).update(data.broker_name for data in routes[topic].queues)
        self._list = topics
        self._match()

    def _match(self) -> None:
        """Compute the topics again: listed ones that match and unlisted ones that are not deleted (see the class),
        ascending, then the retry topic if it is read. Add 1 to ``version`` if they differ. Do nothing before the first
        list."""
        if self._list is None:
            return
        listed = {topic for topic in self._list.topics if self._options.selects(topic)}
        unlisted = {*self._matching, *self._brokers} - listed - self._deleted
        deleted = {topic for topic in unlisted if self._is_deleted(topic, self._list)}
        self._deleted = (self._deleted - listed) | deleted
        matching = tuple(sorted(listed | (unlisted - deleted)))
        self.version += matching != self._matching
        self._matching = matching
        self._topics = tuple(dict.fromkeys((*matching, *self._options.read_topics)))

    def _is_deleted(self, topic: str, topics: TopicList) -> bool:
        """Return whether a topic that ``topics`` does not list is deleted: the list is complete and has all brokers
        that the topic was on."""
        return topics.is_complete and self._brokers.get(topic, set()) <= topics.broker_names

    # ------------------------------------------------------------------------------------------ as a collection

    def __contains__(self, topic: object) -> bool:
        return topic in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


@lru_cache(maxsize=1_024)
def warn_of_batch_queues(topic: str) -> None:
    """Log a warning that brokers filter each batch of messages in ``topic``, which has batch consume queues, as a
    whole. Later calls for the topic log nothing; only after 1,024 other topics it is logged again."""
    log.warning(
        "BATCHES_FILTERED: Topic=%s has batch consume queues, where brokers filter each batch of messages by the "
        "properties of the batch: 'subExpression' skips messages that match. Remove it, and filter in Spark.",
        topic,
    )
