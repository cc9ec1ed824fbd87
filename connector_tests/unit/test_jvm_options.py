"""Options of JVMs in a variable of the environment, which Spark and Java split at blanks."""

from __future__ import annotations

import shlex

from connector_tests.support.jvm_options import joined


def test_options_are_split_where_they_were_joined() -> None:
    options = ["-XX:+UseSerialGC", "-XX:SharedArchiveFile=/home/of a user/build/classes/spark.jsa", "-Xlog:cds=off"]
    assert shlex.split(joined(options)) == options


def test_options_without_a_blank_are_as_they_were() -> None:
    assert joined(["-Xmx64m", "-Da=b"]) == "-Xmx64m -Da=b"
