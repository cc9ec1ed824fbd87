"""A query through the remoting port of a proxy, all that many clusters show; more stories: ``test_behind_a_proxy``."""

from __future__ import annotations

from connector_tests.support.core_stories import (
    test_start_and_restarts_read_each_message_once as test_start_and_restarts_read_each_message_once,
)
from connector_tests.support.through_a_proxy import cluster as cluster
from connector_tests.support.through_a_proxy import stream as stream
