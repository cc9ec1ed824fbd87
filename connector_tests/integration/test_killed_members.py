"""Two queries that share messages, killed again and again under load, and the broker and the proxy between: nothing is
lost, and of all that comes twice it is said which kill it was."""

from __future__ import annotations

import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from connector_tests.support.cluster_pool import ClusterPool
from connector_tests.support.consumer_offset_file import NAME, read_offsets
from connector_tests.support.message_member import MessageMember, Place, message_members
from connector_tests.support.streams import Topic, eventually
from rocketmq_spark.embedded import EmbeddedCluster

pytestmark = [pytest.mark.broker, pytest.mark.full]

SEED: Final = 20
LOAD: Final = 3_000
"""Messages that are sent before each kill."""

INVISIBLE_S: Final = 20
UNTIL_ACKNOWLEDGED_S: Final = 5
"""From when the next batch is in the sink: that is planned when the one before is acknowledged. A query that is killed
acknowledges it when it is back."""

UNTIL_REVIVED_S: Final = INVISIBLE_S
"""A bound of what the stored offsets do not show: how far the broker had come with what it delivers again. Source:
``PopReviveService.java#mergeAndRevive``."""

NO_REASON: Final = "for no reason"


class QueryKill(NamedTuple):
    """``batch``: the last that it had logged; ``where``: how far that had come."""

    name: str
    batch: int
    where: str
    back_s: float


class BrokerKill(NamedTuple):
    """``written_s``: when it had last written its offsets; ``committed``: those of the topic and of the group's retry
    topic, by whether a queue is of the latter, and its ID. By the clock, unix seconds."""

    written_s: float
    at_s: float
    committed: Mapping[tuple[bool, int], int]

    def forgets(self, copy: Copy) -> bool:
        """Whether the broker, started again, delivers what it had delivered for this copy: it had not written an offset
        beyond it. Nor does it, however long ago the message was acknowledged, while its scan for offsets stops at an
        earlier one of the queue. Source: ``PopBufferMergeService.java#scanCommitOffset``."""
        place = copy.place
        return copy.written_s < self.at_s and place.offset >= self.committed.get((place.attempt > 0, place.queue_id), 0)


class Copy(NamedTuple):
    """A message in a sink; ``next_s``: when the batch after its own was written, infinite for the last."""

    name: str
    batch: int
    written_s: float
    next_s: float
    place: Place


@pytest.fixture(scope="module")
def cluster(clusters: ClusterPool) -> EmbeddedCluster:
    """With a JVM for each server alone."""
    return clusters.get(separate_jvms=True, proxy=True)


class Scenario:
    """What was sent, what was killed, and what the queries have in their sinks."""

    def __init__(self, cluster: EmbeddedCluster, messages: Topic, members: Mapping[str, MessageMember]) -> None:
        self._cluster = cluster
        self._messages = messages
        self._members = members
        self._chance = random.Random(SEED)
        self._query_kills: list[QueryKill] = []
        self._broker_kills: list[BrokerKill] = []
        self._sent_s: dict[str, float] = {}

    def begin(self) -> None:
        for member in self._members.values():
            member.start()

    def kill_a_query(self) -> None:
        """Some time after it has done a batch; and start it again."""
        name = self._chance.choice(sorted(self._members))
        member = self._members[name]
        had = len(member.batches())
        self._send()
        eventually(lambda: self._has_another_batch(member, had), f"another batch of {name}")
        time.sleep(self._chance.uniform(0, 1))
        member.kill()
        killed_s, batch, where = time.monotonic(), member.last_logged(), member.where()
        member.start()
        eventually(lambda: member.has_begun, f"{name} is back")
        self._query_kills.append(QueryKill(name, batch, where, time.monotonic() - killed_s))

    def _send(self) -> None:
        self._sent_s |= dict.fromkeys(self._messages.send_batches(LOAD), time.time())

    def _has_another_batch(self, member: MessageMember, had: int) -> bool:
        """Whether the member has more batches than before. If the others, on a busy machine, were quicker and have read
        all that there was, there is more to read now."""
        assert member.is_running, member.log()
        if len(member.batches()) > had:
            return True
        if not self.lost():
            self._send()
        return False

    def kill_the_broker(self) -> None:
        at_s = time.time()
        self._cluster.kill_broker()
        self._broker_kills.append(self._stored(at_s))
        self._cluster.start_broker()

    def _stored(self, at_s: float) -> BrokerKill:
        """What a broker killed at ``at_s`` has stored, in a file that it moves away before it renames the next."""
        config = self._cluster.store_dir() / "config"
        files = [config / NAME, config / f"{NAME}.bak"]
        file = next(filter(Path.exists, files), None)
        if file is None:
            return BrokerKill(0, at_s, {})
        committed = {
            (topic.startswith("%RETRY%"), queue_id): offset
            for topic, offsets in read_offsets(file).items()
            for queue_id, offset in offsets.items()
            if self._messages.name in topic
        }
        return BrokerKill(file.stat().st_mtime, at_s, committed)

    def kill_the_proxy(self) -> None:
        self._cluster.kill_proxy()
        self._cluster.start_proxy()

    def end(self) -> None:
        """All that there is has been read, and is acknowledged."""
        while lost := self.lost():
            eventually(partial(self._is_some_there, lost), f"any of {len(lost)} in a sink: {sorted(lost)[:9]}")
        for member in self._members.values():
            member.stop()
            member.run_to_end()

    def _is_some_there(self, lost: set[str]) -> bool:
        return self.lost() < lost

    def lost(self) -> set[str]:
        return self._sent_s.keys() - {body for member in self._members.values() for body in member.bodies()}

    def _copies(self) -> dict[str, list[Copy]]:
        """By body."""
        copies = defaultdict(list)
        for name, member in self._members.items():
            batches = sorted(member.batches())
            later_s = [*(batch.written_s for batch in batches[1:]), math.inf][: len(batches)]
            for batch, next_s in zip(batches, later_s, strict=True):
                for body, place in zip(batch.bodies, batch.places, strict=True):
                    copies[body].append(Copy(name, batch.number, batch.written_s, next_s, place))
        return copies

    def account(self) -> Counter[str]:
        """How many messages came how often, and why."""
        return Counter(
            f"{len(copies)} times{self._why(self._sent_s[body], copies)}" for body, copies in self._copies().items()
        )

    def _why(self, sent_s: float, copies: list[Copy]) -> str:
        """A broker that is killed forgets what it has not written down, what came of released messages too: it delivers
        again what was under way since then. A query that had written a batch when it was killed, and is back late, may
        get that once more. Nothing else is a reason."""
        done_s = min(copies, key=lambda copy: copy.written_s).next_s
        forgotten = sum(
            any(map(kill.forgets, copies)) or _was_under_way(kill, sent_s, done_s) for kill in self._broker_kills
        )
        late = sum(self._is_late(copy) for copy in copies)
        if len(copies) == 1:
            return ""
        if forgotten:
            return f", under way when {forgotten} brokers were killed"
        return f", back late from {late} kills" if len(copies) <= 1 + late else f" {NO_REASON}: {copies}"

    def _is_late(self, copy: Copy) -> bool:
        return any(
            (kill.name, kill.batch) == (copy.name, copy.batch) and kill.back_s > INVISIBLE_S / 2
            for kill in self._query_kills
        )

    def __str__(self) -> str:
        return "\n".join(map(str, [f"seed {SEED}", *self._query_kills, *self._broker_kills, *self.account().items()]))


def _was_under_way(kill: BrokerKill, sent_s: float, done_s: float) -> bool:
    return sent_s < kill.at_s and kill.written_s - UNTIL_ACKNOWLEDGED_S - UNTIL_REVIVED_S < done_s


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("over", ["namesrvAddr", "endpoints"])
def test_queries_that_are_killed_under_load_lose_nothing_and_what_comes_twice_has_a_reason(
    cluster: EmbeddedCluster, messages: Topic, group: str, tmp_path: Path, over: str, kills: int
) -> None:
    server = {"endpoints": cluster.endpoints} if over == "endpoints" else {"namesrvAddr": cluster.namesrv_addr}
    options = {"consumerGroup": group, "subscribe": messages.name, "maxOffsetsPerTrigger": "100", **server}
    with message_members(tmp_path, "ab", invisibleDurationMs=str(1_000 * INVISIBLE_S), **options) as members:
        scenario = Scenario(cluster, messages, dict(zip("ab", members, strict=True)))
        scenario.begin()
        for number in range(kills):
            scenario.kill_a_query()
            if number in (kills // 4, kills // 2):
                scenario.kill_the_broker()
                if over == "endpoints":
                    scenario.kill_the_proxy()
        scenario.end()
        sys.stdout.write(f"{scenario}\n")
        assert not scenario.lost()
        assert NO_REASON not in str(scenario.account())
