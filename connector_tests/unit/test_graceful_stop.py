"""Both ends of a graceful stop over their folder: asked, cleaned away, out of reach."""

from __future__ import annotations

import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector_tests.support.running_query import RunningQuery
from connector_tests.support.timeouts import WAIT_S
from rocketmq_spark.errors import MembershipError
from rocketmq_spark.source.stream.drain import FILES, Control, DrainState
from rocketmq_spark.source.stream.graceful_stop import DRAIN_TIMEOUT_S, DrainRequest, stop

DRAIN, DRAINED = FILES[DrainState.REQUESTED], FILES[DrainState.DRAINED]


@pytest.fixture
def runner() -> Iterator[DrainRequest]:
    request = DrainRequest()
    yield request
    request.close()


def stop_query(query: RunningQuery, timeout_s: float = WAIT_S) -> None:
    stop(query, timeout_s)  # type: ignore[arg-type]  # a query of the test


def answering(*runners: DrainRequest) -> Callable[[], None]:
    def group_lock() -> None:
        for runner in runners:
            if runner.check_request() and runner.claim():
                runner.finish()

    return group_lock


def test_it_stops_when_all_sources_have_responded(runner: DrainRequest) -> None:
    other = DrainRequest()
    controls = [runner.control, None, other.control]
    stop_query(query := RunningQuery(controls, answering(runner, other)))
    assert query.is_stopped
    stopped_early = RunningQuery(controls, answering(runner))
    shutil.rmtree(other.control.folder)
    other.check_request()
    with pytest.raises(MembershipError, match=r"GRACEFUL_STOP_INCOMPLETE.* 1 of its 2 sources"):
        stop_query(stopped_early, timeout_s=0.2)
    assert stopped_early.is_stopped, "one of its sources reads nothing any more"
    other.close()


def test_it_does_not_stop_before_a_source_has_responded(runner: DrainRequest) -> None:
    query = RunningQuery([runner.control])
    with pytest.raises(MembershipError, match="GRACEFUL_STOP_TIMEOUT"):
        stop_query(query, timeout_s=0.2)
    assert not query.is_stopped
    assert not runner.check_request(), "the query goes on; it used to plan nothing for ever"
    assert not runner.claim()


def test_a_query_without_a_source_of_ours_is_reported_at_once() -> None:
    query = RunningQuery([None, None])
    with pytest.raises(MembershipError) as raised:
        stop_query(query, timeout_s=60)
    assert not query.is_stopped
    assert str(raised.value) == (
        "[ROCKETMQ_NOT_A_ROCKETMQ_QUERY] Query 'orders' has no RocketMQ source: its last progress lists no "
        "'rocketmq' source. Stop it with its own stop(): it has no group offsets to commit and no queues to "
        "release."
    )


@pytest.mark.parametrize("shown", ["null", "None"])
def test_a_source_that_has_shown_nothing_yet_may_be_one_of_ours(runner: DrainRequest, shown: str) -> None:
    controls: list[Control | str | None] = [None, shown]
    query = RunningQuery(controls, first(lambda: None, lambda: controls.append(runner.control), answering(runner)))
    stop_query(query)
    assert query.is_stopped


def test_a_query_that_is_interrupted_while_it_waits_takes_its_request_back(runner: DrainRequest) -> None:
    def interrupt() -> None:
        if runner.check_request():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop_query(RunningQuery([runner.control], interrupt))
    assert not runner.check_request()


def test_a_query_interrupted_after_its_source_has_released_its_queues_reads_nothing_more(
    runner: DrainRequest,
) -> None:
    """It used to live on as a zombie: active, without an error, and its messages waited for ever."""

    def release_and_interrupt() -> None:
        answering(runner)()
        raise KeyboardInterrupt

    query = RunningQuery([runner.control], first(lambda: None, release_and_interrupt))
    with pytest.raises(KeyboardInterrupt):
        stop_query(query)
    assert query.is_stopped


def first(*actions: Callable[[], None]) -> Callable[[], None]:
    """A turn for each time that somebody looks."""
    left = iter(actions)
    return lambda: next(left)()


def test_a_request_that_was_claimed_is_not_withdrawn_and_its_response_is_waited_for(runner: DrainRequest) -> None:
    finish = threading.Timer(2, runner.finish)

    def release_slowly() -> None:
        if runner.check_request() and runner.claim() and finish.ident is None:
            finish.start()

    began_s = time.monotonic()
    stop_query(query := RunningQuery([runner.control], release_slowly), timeout_s=1)
    assert time.monotonic() - began_s < DRAIN_TIMEOUT_S, "it waits no longer than for the response"
    finish.join()
    assert query.is_stopped
    assert (runner.control.path / DRAINED).exists()
    assert runner.check_request(), "what was handed over stays so"


def test_a_folder_that_was_cleaned_up_is_made_again_and_used(runner: DrainRequest) -> None:
    shutil.rmtree(runner.control.folder)
    stop_query(query := RunningQuery([runner.control], answering(runner)))
    assert query.is_stopped


def test_a_requester_repeats_the_request_when_the_request_is_cleaned_up(runner: DrainRequest) -> None:
    seen = 0

    def group_lock() -> None:
        nonlocal seen
        if runner.check_request():
            seen += 1
            if seen == 1:
                shutil.rmtree(runner.control.folder)
            elif runner.claim():
                runner.finish()

    stop_query(query := RunningQuery([runner.control], group_lock))
    assert (query.is_stopped, seen) == (True, 2)


def test_the_folder_made_again_is_private_and_removed_in_the_end() -> None:
    runner = DrainRequest()
    folder = runner.control.path
    shutil.rmtree(folder)
    assert not runner.check_request()
    assert folder.stat().st_mode & 0o777 == 0o700
    runner.close()
    assert not folder.exists()


def test_next_start_receives_requests_in_the_folder_of_the_start_before() -> None:
    """Before Spark 4.2 the progress of a restart shows that folder until a batch is planned."""
    earlier = DrainRequest()
    earlier.close()
    runner = DrainRequest(earlier.control)
    assert runner.control == earlier.control
    stop_query(query := RunningQuery([earlier.control], answering(runner)))
    assert query.is_stopped
    runner.close()


def claimed(runner: DrainRequest) -> None:
    (runner.control.path / DRAIN).touch()
    assert runner.check_request()
    assert runner.claim()


def test_a_response_is_given_though_the_folder_was_cleaned_up(runner: DrainRequest) -> None:
    claimed(runner)
    shutil.rmtree(runner.control.folder)
    runner.finish()
    assert (runner.control.path / DRAINED).exists()
    assert runner.check_request(), "what was handed over stays so"


def test_a_response_that_was_cleaned_up_is_given_again(runner: DrainRequest) -> None:
    claimed(runner)
    runner.finish()
    shutil.rmtree(runner.control.folder)
    stop_query(query := RunningQuery([runner.control], answering(runner)))
    assert query.is_stopped


@pytest.mark.parametrize("is_called", [False, True])
def test_a_runner_that_has_claimed_nothing_writes_no_response(runner: DrainRequest, is_called: bool) -> None:
    if is_called:
        (runner.control.path / DRAIN).touch()
    assert runner.check_request() is is_called
    before = sorted(runner.control.path.iterdir())
    with pytest.raises(ValueError, match=f"{'REQUESTED' if is_called else 'RUNNING'}, which has no event FINISH"):
        runner.finish()
    assert sorted(runner.control.path.iterdir()) == before
    assert runner.check_request() is is_called


def test_a_request_that_is_withdrawn_between_a_probe_and_the_claim_is_not_claimed(runner: DrainRequest) -> None:
    (runner.control.path / DRAIN).touch()
    assert runner.check_request()
    (runner.control.path / DRAIN).unlink()
    assert not runner.claim()
    assert not runner.check_request()
    assert list(runner.control.path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_logged_once_and_fails_no_query(
    runner: DrainRequest, caplog: pytest.LogCaptureFixture
) -> None:
    folder = runner.control.path
    folder.rmdir()
    folder.touch()
    assert not runner.check_request()
    assert not runner.check_request()
    assert caplog.text.count("rocketmq_spark.stop cannot stop this query") == 1
    folder.unlink()


def linked(folder: Path, other: Path) -> None:
    folder.symlink_to(other, target_is_directory=True)


def open_to_other_users(folder: Path, other: Path) -> None:
    other.rename(folder)
    folder.chmod(0o777)


@pytest.mark.parametrize("claimed_by", [linked, open_to_other_users])
def test_a_folder_that_others_made_meanwhile_is_not_used(
    runner: DrainRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture, claimed_by: Callable[[Path, Path], None]
) -> None:
    claimed(runner)
    folder, other = runner.control.path, tmp_path / "other"
    other.mkdir()
    (other / DRAIN).touch()
    shutil.rmtree(folder)
    claimed_by(folder, other)
    runner.finish()
    assert [file.name for file in folder.iterdir()] == [DRAIN]
    assert caplog.text.count("rocketmq_spark.stop cannot stop this query") == 1
    folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)


def test_a_request_in_a_folder_of_others_is_none(runner: DrainRequest, tmp_path: Path) -> None:
    folder = runner.control.path
    folder.rmdir()
    folder.symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / DRAIN).touch()
    assert not runner.check_request()
    folder.unlink()


def test_a_request_follows_no_link(runner: DrainRequest, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (runner.control.path / DRAIN).symlink_to(target)
    with pytest.raises(MembershipError, match="GRACEFUL_STOP_TIMEOUT"):
        stop_query(RunningQuery([runner.control]), timeout_s=0.2)
    assert not target.exists()


def test_another_machine_is_named_at_once(runner: DrainRequest) -> None:
    elsewhere = Control("driver-7", "/nowhere/rocketmq-spark-that-is-elsewhere")
    query = RunningQuery([runner.control, elsewhere])
    with pytest.raises(MembershipError) as raised:
        stop_query(query, timeout_s=600)
    assert raised.value.condition == "STOP_FROM_OTHER_HOST"
    assert raised.value.context == {
        "query": "orders",
        "host": "driver-7",
        "here": platform.node(),
        "folder": "/nowhere/rocketmq-spark-that-is-elsewhere",
    }
    assert not (runner.control.path / DRAIN).exists(), "the sources in reach go on as well"


def test_another_machine_with_a_folder_in_common_is_used(runner: DrainRequest) -> None:
    stop_query(query := RunningQuery([Control("driver-7", runner.control.folder)], answering(runner)))
    assert query.is_stopped


def test_a_folder_that_stays_unavailable_is_named(runner: DrainRequest) -> None:
    shutil.rmtree(runner.control.folder)
    with pytest.raises(MembershipError) as raised:
        stop_query(RunningQuery([runner.control]), timeout_s=0.2)
    assert raised.value.condition == "STOP_CONTROL_DIR_MISSING"
    assert raised.value.context["folder"] == runner.control.folder


def test_a_query_that_has_ended_needs_no_asking(runner: DrainRequest) -> None:
    query = RunningQuery([runner.control])
    query.is_stopped, query.failure = True, RuntimeError("long ago")
    stop_query(query)
    assert not runner.check_request()


@pytest.mark.parametrize("failure", [RuntimeError("no broker answers"), None])
def test_a_query_that_fails_during_the_request_is_not_stopped_gracefully(
    runner: DrainRequest, failure: Exception | None
) -> None:
    """Its last batch is not acknowledged, and ``stop`` returned as if it were. One that came to its end is."""

    def group_lock() -> None:
        if runner.check_request():
            query.is_stopped, query.failure = True, failure

    query = RunningQuery([runner.control], group_lock)
    if failure is None:
        stop_query(query)
    else:
        with pytest.raises(RuntimeError) as raised:
            stop_query(query)
        assert raised.value is failure
