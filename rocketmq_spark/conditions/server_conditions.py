"""Conditions of the network and of servers' responses. See the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

_CREATE_GROUP: Final = "'mqadmin updateSubGroup -g <group> -c <cluster>'"
_WHY_UNAVAILABLE: Final = (
    "Their broker is not in the route, read permission was removed, or the topic has fewer queues."
)
_WITHOUT_QUEUES: Final = (
    "To continue without them, set 'missingQueues' to 'drop': the checkpoint keeps their offsets. If they are "
    "permanently lost, restart the query: its error lists the ranges to set in 'skipRanges'."
)

SERVER_CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        # ---- protocol
        "FRAME_TOO_LARGE": Condition(
            "{peer} sent a frame of {length_bytes} bytes; the limit is {limit_bytes} bytes.",
            "Check that the address is that of a RocketMQ name server or broker, not of another service.",
        ),
        "RESPONSE_TOO_LARGE": Condition(
            "{address} returned more messages for {request} than requested, or more than {limit_bytes} bytes.",
            "Check that the address is that of a RocketMQ 5 proxy.",
        ),
        "MALFORMED_FRAME": Condition(
            "{peer} sent bytes that are not a RocketMQ frame: {problem}.",
            "Check that the address is that of a RocketMQ name server or broker, not of another service.",
        ),
        "MALFORMED_RESPONSE.BODY": Condition(
            "Cannot decode the body of a {subject}: {problem}.", "Report this error with the version of the server."
        ),
        "MALFORMED_RESPONSE.HEADER": Condition(
            "Cannot decode the header of a {subject}: {problem}.", "Report this error with the version of the server."
        ),
        "CORRUPT_MESSAGE.RESPONSE": Condition(
            "Cannot decode message {index} (from 0) of a response, at byte {position} of {length_bytes}: {problem}.",
            "Check the stored message with 'mqadmin queryMsgByOffset'; it may be damaged.",
        ),
        "CORRUPT_MESSAGE.QUEUE": Condition(
            "Cannot decode a message of {queue}, pulled from offset {offset}: {problem}",
            "Check it with 'mqadmin queryMsgByOffset'; it may be damaged. 'badMessages' cannot skip it, because the "
            "start of the next message is unknown.",
        ),
        "UNDECODABLE_MESSAGE_BODY": Condition(
            "Cannot decode the body of the message at offset {offset} of {queue}: {problem}. The producer sent it "
            "this way.",
            "Set 'badMessages' to 'null' to read the message as a row without a body. Or, in a stream without "
            "'endpoints', set it to 'deadLetter' to move the message to the group's dead-letter topic. The checkpoint "
            "remains valid with either value.",
        ),
        "INVALID_QUEUE_OFFSETS": Condition(
            "The broker reports impossible offsets of {queue}: min offset {min_offset}, max offset {max_offset}.",
            "Restart that broker: RocketMQ 5.5.0 reports a min offset above the max offset for a queue that lost all "
            "its files when a slave became master (https://github.com/apache/rocketmq/issues/10417). Meanwhile the "
            "queue is not read, and none of it is reported as lost.",
        ),
        "SEARCH_STALLED": Condition(
            "Cannot find the first message of {queue} stored at or after {timestamp_ms} (Unix ms): its broker returned "
            "a message to few of {pulls} pulls, the last one from offset {offset}.",
            "Check the broker's log and disk; its store may be damaged. Or set 'startingOffsets' to an offset of the "
            "queue.",
        ),
        "PULL_STALLED": Condition(
            "Cannot read offset {offset} of {queue}: for {waited_ms} ms its broker has returned {reason}, "
            "without a later offset to resume from.",
            "Check the broker's log and disk; its store may be damaged. A restarted query replays the batch.",
        ),
        "INVALID_MESSAGE": Condition(
            "Cannot send a message or request: {problem}.",
            "Correct the message, or the option from which the text comes.",
        ),
        "INVALID_ROW": Condition(
            "Invalid row {row} in partition {partition} of {job}: {problem}. This Arrow batch has {count:invalid row}; "
            "none of its rows was sent.",
            "Correct or filter these rows, or set 'deadLetterTopic' to a topic for them.",
        ),
        # ---- transport
        "CONNECT_FAILED": Condition(
            "Cannot connect to {address}: {reason}.", "Check the address, and that the server is running."
        ),
        "RESPONSE_TIMED_OUT": Condition(
            "{address} did not respond to {request} within {timeout_ms} ms.",
            "Check the server. If it is only slow, raise 'brokerTimeoutMs'.",
        ),
        "TLS_CERTIFICATE_UNTRUSTED": Condition(
            "The certificate of {address} is not trusted: {reason}.",
            "Set 'tlsTrustCertPath' to a PEM file with this certificate, or with the certificate that signed it.",
        ),
        "TLS_HOSTNAME_MISMATCH": Condition(
            "The certificate of {address} is trusted, but not valid for this host: {reason}.",
            "Use a host name from the certificate in 'namesrvAddr' or 'endpoints', or correct the broker's "
            "'brokerIP1'. To accept any host with a trusted certificate, set 'tlsCheckHostName' to false.",
        ),
        "TLS_CLIENT_CERTIFICATE_REJECTED": Condition(
            "{address} requires a client certificate, and rejected this client: {reason}.",
            "Set 'tlsCertPath' and 'tlsKeyPath' to a certificate that the server trusts.",
        ),
        "TLS_REQUIRED": Condition(
            "{address} requires TLS: it closed a plain connection without a response, and accepts TLS.",
            "Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its certificate.",
        ),
        "PROXY_REQUIRES_ENDPOINTS": Condition(
            "{address} is a RocketMQ 5 proxy, not a name server or broker: {reason}.",
            "For loadBalance=message, set 'endpoints' to the proxy's gRPC address (port 8081 by default) and remove "
            "'namesrvAddr'. For loadBalance=queue, set 'namesrvAddr' to its remoting address (port 8080 by default).",
        ),
        "TLS_NOT_SUPPORTED": Condition(
            "{address} does not support TLS: it responds to plain requests. The handshake failed: {reason}.",
            "Set 'useTLS' to false, or set the server's 'tls.server.mode' to permissive or enforcing.",
        ),
        "CONNECTION_LOST": Condition(
            "Lost the connection to {address}: {reason}.", "Check the server and the network."
        ),
        "CLUSTER_TIMEOUT": Condition(
            "No successful response from {subject} for {waited_ms} ms (limit {limit_ms} ms). Last error: {cause}",
            "Check that the servers are running and reachable from the driver and all executors, or raise "
            "'clusterTimeoutMs'. A restarted streaming query resumes from its checkpoint. A batch write may have "
            "stored some rows: a rerun stores these again.",
        ),
        "SOURCE_PROCESS_TERMINATED": Condition(
            "The source's Python process on {host} received SIGTERM or SIGHUP {ended_for_ms} ms ago and left the "
            "group, while Spark kept running.",
            "Restart the query: no data is lost. Check what terminates processes on that host.",
        ),
        "LOGGED_BATCH_UNREADABLE": Condition(
            "Cannot read {range} of a batch that the checkpoint has logged. Last error: {cause}",
            "Restart the query when the broker is available: it replays the batch. If the broker is permanently lost, "
            "restart once with 'skipRanges' set to these ranges; their messages are then lost: {skip_ranges}",
        ),
        "NOT_A_GRPC_PROXY": Condition(
            "{address} is not the gRPC address of a RocketMQ 5 proxy: {reason}.",
            "Set 'endpoints' to a proxy's gRPC address (port 8081 by default). Name servers belong in 'namesrvAddr'.",
        ),
        # ---- responses
        "BROKER_ERROR": Condition(
            "{address} returned {code_name} ({code}) for {request}: {remark}",
            "Check the server's log for {code_name}.",
        ),
        "POLL_REQUEST_EXPIRED": Condition(
            "{address} rejected a poll request as expired: {remark}. The driver's clock is about 2 s or more behind "
            "the broker's, or the broker is overloaded.",
            "Synchronize both clocks with NTP, and check the broker's load and log.",
        ),
        "MESSAGE_MODE_UNSUPPORTED": Condition(
            "Broker {address} does not support 'loadBalance' 'message': it rejected POP_MESSAGE as an unknown request "
            "({code}).",
            "Upgrade the brokers to RocketMQ 5, or set 'loadBalance' to 'queue'.",
        ),
        "PROXY_UNAVAILABLE": Condition(
            "Proxy {address} is temporarily unable to process {request}: {code_name} ({code}): {remark}",
            "Check the proxy's log, and the brokers behind it.",
        ),
        "PROXY_ERROR": Condition(
            "Proxy {address} returned {code_name} ({code}) for {request}: {remark}",
            "Check the proxy's log for {code_name}.",
        ),
        "INVALID_INVISIBLE_DURATION": Condition(
            "Proxy {address} rejected the value of 'invisibleDurationMs': {remark}.",
            "Set it to a value that the proxy accepts, by default from 10000 (10 s) to 43200000 (12 h).",
        ),
        "FIFO_NOT_SUPPORTED": Condition(
            "{subject} is FIFO, but loadBalance=message does not preserve the order of messages.",
            "Set 'loadBalance' to 'queue'.",
        ),
        "BATCH_QUEUES_NOT_SUPPORTED": Condition(
            "Topic '{topic}' has batch consume queues (queue.type=BatchCQ), but with loadBalance=message brokers "
            "cannot redeliver a message of a batch.",
            "Set 'loadBalance' to 'queue'.",
        ),
        "MESSAGE_NOT_DURABLE": Condition(
            "{address} stored messages for {queue}, but returned {status} ({code}): it did not flush or replicate them "
            "as configured, and 'acceptNotDurable' is false.",
            "Check its disk and its replicas, or set 'acceptNotDurable' to true to accept this status. A rerun of the "
            "write stores these messages again.",
        ),
        "CREDENTIALS_MISSING": Condition(
            "{address} requires signed requests, and {request} was not signed: {remark}",
            "Set 'accessKey' and 'secretKey'.",
        ),
        "CREDENTIALS_REJECTED": Condition(
            "{address} rejected the credentials of {request}: {remark}",
            "Check 'accessKey' and 'secretKey', and that the user exists on this broker: each broker has its own "
            "users.",
        ),
        "TOPIC_DENIED": Condition(
            "{address} denied {request}: the user of 'accessKey' lacks a permission on topic '{topic}'. {remark}",
            "Grant it on every broker of the topic. Reading needs SUB and GET on Topic:{topic}, writing PUB.",
        ),
        "GROUP_DENIED": Condition(
            "{address} denied {request}: the user of 'accessKey' lacks a permission on group '{group}'. {remark}",
            "Grant it on every broker of the topics. Reading needs SUB on Group:{group}. 'retryTopic' and "
            "the check of other members also need GET on it.",
        ),
        "ACCESS_DENIED": Condition(
            "{address} denied {request}: the user of 'accessKey' lacks the permission. {remark}",
            "Grant it, or use an administrator's credentials.",
        ),
        "GROUP_NOT_FOUND.BROKER": Condition(
            "{address} rejected {request}: the consumer group does not exist, and the broker does not create it. "
            "{remark}",
            f"Create it on every broker of the topics: {_CREATE_GROUP}.",
        ),
        "GROUP_NOT_FOUND.PROXY": Condition(
            "Proxy {address} rejected {request}: no broker has the consumer group. {remark}",
            f"Create it on every broker of the topics, {_CREATE_GROUP}, or start these brokers, within "
            "'missingTopicTimeoutMs'.",
        ),
        "FILTER_EXPRESSION_INVALID": Condition(
            "{address} rejected {request}: it cannot parse the SQL92 expression of 'subExpression'. {remark}",
            "Correct the expression: property names without quotes, text in single quotes, and =, <>, >, >=, <, <=, "
            "BETWEEN, IN, IS NULL, AND, OR, NOT, TRUE, FALSE.",
        ),
        "PROPERTY_FILTER_DISABLED": Condition(
            "{address} rejected {request}: it does not filter by SQL92, because its 'enablePropertyFilter' is false. "
            "{remark}",
            "Set it to true on every broker of the topics: 'mqadmin updateBrokerConfig -c <cluster> -k "
            "enablePropertyFilter -v true'. Or filter by tags, and in Spark.",
        ),
        "SQL_FILTER_UNUSABLE": Condition(
            "Cannot filter {queue} by SQL92: its broker stores messages that it does not deliver, so the offsets of "
            "filtered messages are unknown. Most likely their producer set flags of an IPv6 host.",
            "Remove 'expressionType' and 'subExpression', and filter in Spark.",
        ),
        "FILTER_NOT_VERIFIABLE": Condition(
            "Cannot filter by SQL92 through proxy {address}: it does not pass on the check of the expression, and "
            "brokers send all messages for an invalid one.",
            "Set 'namesrvAddr' to the name servers of the brokers, or use 'loadBalance=message' with 'endpoints'.",
        ),
        "GROUP_NOT_FOUND.CLUSTER": Condition(
            "No broker that is registered at {name_servers} has the consumer group '{group}'.",
            "Check the name. 'rocketmq-spark lag' without '--group' lists all groups.",
        ),
        "PULL_REJECTED": Condition(
            "{address} rejected {request}: its 'rejectPullConsumerEnable' is true. {remark}",
            "Set it to false on every broker of the topics: 'mqadmin updateBrokerConfig -c <cluster> -k "
            "rejectPullConsumerEnable -v false'.",
        ),
        "TOPIC_RESERVED": Condition(
            "{address} rejected {request}: topic '{topic}' is reserved for RocketMQ itself. {remark}",
            "Write to another topic.",
        ),
        "OFFSET_RESET_PENDING": Condition(
            "{address} did not store the offset of group '{group}' for {queue}, because an operator reset it.",
            "No action is required: the next batch starts at the reset offset.",
        ),
        # ---- routes
        "NAME_SERVERS_UNAVAILABLE": Condition(
            "Cannot get the route of topic '{topic}': no name server of {addresses} responds. Last error: {cause}",
            "Start a name server, and check that each host that runs tasks can reach it.",
        ),
        "NOT_A_NAME_SERVER": Condition(
            "{address} is not a name server, but probably a broker: it does not support {request}.",
            "Set 'namesrvAddr' to the name server's address. Its port is 9876 by default, a broker's is 10911.",
        ),
        "TOPIC_NOT_FOUND": Condition(
            "Topic '{topic}' not found: {address} returned no route.",
            "Check the topic's name. If it does not exist, create it, for example with 'rocketmq-spark topic create "
            "{topic}'. If it exists, start its brokers. A query retries for 'missingTopicTimeoutMs', a write for at "
            "most 'clusterTimeoutMs', a command not at all.",
        ),
        "TOPIC_UNAVAILABLE.NO_ROUTE": Condition(
            "Topic '{topic}' is unavailable: name server {address} no longer returns a route. Last brokers: {brokers}.",
            "Start these brokers, and check that they register. If the topic was deleted, create it again.",
        ),
        "TOPIC_UNAVAILABLE.QUEUE": Condition(
            "Queue {queue_id} of topic '{topic}' is unavailable: name server {address} no longer returns a route of "
            "the topic. Last broker: {broker}.",
            "Start this broker, and check that it registers. A task retries for 'missingQueuesTimeoutMs'; in "
            "a stream with missingQueues=fail it fails at once.",
        ),
        "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE": Condition(
            "Topic '{topic}' has no readable queue.",
            "Give it read permission and at least one read queue, with 'mqadmin updateTopic'.",
        ),
        "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE": Condition(
            "Topic '{topic}' has no writable queue.",
            "Start its brokers, or give it write permission and at least one write queue, with 'mqadmin updateTopic'.",
        ),
        "QUEUES_UNAVAILABLE.TIMEOUT": Condition(
            "{count:queue} unavailable for {waited_ms} ms (limit {limit_ms} ms): {queues}. " + _WHY_UNAVAILABLE,
            "Restore the queues, and restart the query. To wait longer, raise 'missingQueuesTimeoutMs'. "
            + _WITHOUT_QUEUES,
        ),
        "QUEUES_UNAVAILABLE.FAIL": Condition(
            "{count:queue} unavailable, with missingQueues=fail: {queues}. " + _WHY_UNAVAILABLE,
            "Restore the queues, and restart the query. To wait for them, set 'missingQueues' to 'wait'. "
            + _WITHOUT_QUEUES,
        ),
        "STATIC_TOPIC_NOT_SUPPORTED": Condition(
            "Topic '{topic}' is a static topic ('mqadmin updateStaticTopic'), which cannot be read or written.",
            "Have its producers write to an ordinary topic ('mqadmin updateTopic').",
        ),
        "TOPIC_EXISTS": Condition(
            "Topic '{topic}' already exists, with {count:queue}; it was not changed.",
            "Use another name, or delete the topic and its messages first. To change its queues, use 'mqadmin "
            "updateTopic'.",
        ),
        "TOPIC_CREATION_TIMEOUT": Condition(
            "Topic '{topic}' was created on {brokers}, but after {waited_ms} ms the name server does not list all of "
            "its queues.",
            "Check that the brokers can reach the name server. The topic exists: do not create it again.",
        ),
        "INVALID_ORDER_CONF": Condition(
            "Topic '{topic}' has an invalid order configuration on the name servers: '{order_conf}'.",
            "Set it to 'broker:queues;broker:queues', at most 65536 queues, or delete it, with 'mqadmin "
            "updateOrderConf'.",
        ),
        "BROKER_ADDRESS_MISMATCH": Condition(
            "Broker '{other}' responds at {address}, where the route lists broker '{broker}'.",
            "No action is required after brokers have exchanged addresses: the connector retries until the name "
            "servers list the new ones. If this persists, check 'brokerIP1' of both brokers.",
        ),
        "UNKNOWN_BROKER": Condition(
            "Broker '{broker}' is not in the route of topic '{topic}'.",
            "Start the broker, or correct column 'brokerName'.",
        ),
        "MASTER_UNAVAILABLE": Condition(
            "Broker '{broker}' has no master in the route of topic '{topic}'.", "Start the broker's master."
        ),
        "READING_FROM_SLAVE": Condition(
            "The master of broker '{broker}' is not in the route or does not respond; reading what its slave {address} "
            "has. Offsets are committed when the master responds again.",
            "Start the broker's master.",
        ),
        "MASTER_NOT_REGISTERED": Condition(
            "Broker '{broker}' has no master at the name servers, so its queues and offsets are unknown.",
            "Start the broker's master, or wait until it has registered.",
        ),
        "NO_MASTER_BROKER": Condition(
            "{name_servers} list no broker with a master.", "Start a broker, and check that it registers."
        ),
    }
)
