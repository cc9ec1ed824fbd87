"""The doctor's report as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from rocketmq_spark.doctor.diagnosis import Area, Diagnosis, Severity
from rocketmq_spark.doctor.facts import BrokerFacts, Environment, Job, ServerFacts
from rocketmq_spark.doctor.report import EXECUTORS, as_json, as_text, report_of

ENVIRONMENT = Environment((3, 11, 7), "4.3.0", "python")
PROBLEM = Diagnosis(
    area=Area.GROUP, condition="C", problem="it fails", cause="so", advice="Mend it.", places=("a", "b")
)
WARNING = Diagnosis(area=Area.CLOCK, condition="W", problem="late", advice="Wait.", severity=Severity.WARNING)
MACHINE = "this machine: Python 3.11.7, PySpark 4.3.0, decoder python"
JOB = Job(topics=("orders",), group="g", is_member=True)
SERVERS = ServerFacts(
    name_servers={"ns:9876": {}},
    brokers=(
        BrokerFacts(name="a", server="a:10911", version=513, clock_ahead_ms=0),
        BrokerFacts(name="b", server="b:1"),
    ),
    unchecked=("broker c at c:1",),
)


def test_text_has_the_first_problem_first_and_what_was_not_checked_last() -> None:
    text = as_text(report_of((PROBLEM, WARNING), ENVIRONMENT, JOB, SERVERS))
    assert text.splitlines() == [
        "problem: it fails: so.",
        "  on: a, b",
        "  do: Mend it.",
        "  condition: C",
        "warning: late.",
        "  do: Wait.",
        "  condition: W",
        "not sound: problems: 1, warnings: 1",
        f"checked: {MACHINE}",
        "checked: name server ns:9876",
        "checked: broker a at a:10911, RocketMQ 5.5.0",
        "checked: broker b at b:1",
        "not checked: broker c at c:1",
        "not checked: write permissions: set --write",
        "not checked: clock of b: the broker does not report it, or not to this user",
        f"not checked: {EXECUTORS}",
    ]


def test_a_report_with_warnings_only_is_sound() -> None:
    report = report_of((WARNING,), ENVIRONMENT, JOB, ServerFacts())
    assert report.is_sound
    assert "\nsound: problems: 0, warnings: 1\n" in as_text(report)


def test_a_report_with_notes_only_is_sound_and_counts_them() -> None:
    note = replace(WARNING, severity=Severity.NOTE)
    report = report_of((WARNING, note, note), ENVIRONMENT, JOB, ServerFacts())
    assert report.is_sound
    assert "\nnote: late.\n" in as_text(report)
    assert "\nsound: problems: 0, warnings: 1, notes: 2\n" in as_text(report)
    assert [one["severity"] for one in json.loads(as_json(report))["diagnoses"]] == ["warning", "note", "note"]


def test_slaves_that_were_checked_are_listed_as_such() -> None:
    servers = ServerFacts(slaves=(BrokerFacts(name="a", server="b:10911", version=513),))
    report = report_of((), ENVIRONMENT, JOB, servers)
    assert report.checked == (MACHINE, "slave of broker a at b:10911, RocketMQ 5.5.0")


def test_a_report_without_diagnoses_begins_with_the_verdict() -> None:
    report = report_of((), ENVIRONMENT, Job(), ServerFacts(proxies={"p:8081": ()}))
    assert as_text(report).splitlines() == [
        "sound: no problem found",
        f"checked: {MACHINE}",
        "checked: proxy p:8081",
        "not checked: topics: none is given, set --topic",
        "not checked: consumer group and read permissions: no group is given, set --group",
        "not checked: group, permissions, clocks and versions of the brokers behind the proxies",
        f"not checked: {EXECUTORS}",
    ]


def test_a_writing_job_needs_no_group() -> None:
    report = report_of((), ENVIRONMENT, Job(topics=("orders",), is_writing=True), ServerFacts())
    assert report.unchecked == (EXECUTORS,)


def test_message_mode_through_brokers_needs_a_permission_that_is_not_checked() -> None:
    job = Job(topics=("orders",), group="g", is_message_based=True)
    assert "not checked: SUB on Group:g_<topic> for each topic" in as_text(report_of((), ENVIRONMENT, job, SERVERS))


def test_without_valid_options_no_server_is_checked() -> None:
    report = report_of((PROBLEM,), ENVIRONMENT, None, ServerFacts())
    assert (report.checked, report.unchecked) == ((MACHINE,), ("servers: correct the options first", EXECUTORS))


def test_json_has_the_same() -> None:
    report = report_of((PROBLEM,), ENVIRONMENT, JOB, SERVERS)
    assert json.loads(as_json(report)) == {
        "isSound": False,
        "diagnoses": [
            {
                "severity": "problem",
                "condition": "C",
                "problem": "it fails",
                "cause": "so",
                "advice": "Mend it.",
                "brokers": ["a", "b"],
            }
        ],
        "checked": list(report.checked),
        "notChecked": list(report.unchecked),
    }
