"""What comes of the network and of what servers say. See the package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

OF_SERVERS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        # ---- protocol
        "FRAME_TOO_LARGE": Condition(
            "{peer} announced a frame of {length_bytes} bytes; at most {limit_bytes} are accepted.",
            "Check that the address is a RocketMQ name server or broker, and not another service.",
        ),
        "RESPONSE_TOO_LARGE": Condition(
            "{address} answered {request} with more than was asked for, or with more than {limit_bytes} bytes.",
            "Check that the address is a RocketMQ 5 proxy, and not another service.",
        ),
        "MALFORMED_FRAME": Condition(
            "{peer} sent bytes that are no RocketMQ frame: {problem}.",
            "Check that the address is a RocketMQ name server or broker, and not another service.",
        ),
        "MALFORMED_RESPONSE.BODY": Condition(
            "The body of a {subject} cannot be read: {problem}.", "Report this with the broker's version."
        ),
        "MALFORMED_RESPONSE.HEADER": Condition(
            "The header of a {subject} cannot be read: {problem}.", "Report this with the broker's version."
        ),
        "CORRUPT_MESSAGE.RESPONSE": Condition(
            "Message number {index} of a pull, at byte {position} of {length_bytes}, cannot be decoded: {problem}.",
            "The stored message may be damaged; 'mqadmin queryMsgByOffset' shows it.",
        ),
        "CORRUPT_MESSAGE.QUEUE": Condition(
            "A message of {queue}, pulled from offset {offset}, cannot be decoded: {problem}",
            "The stored message may be damaged; 'mqadmin queryMsgByOffset' shows it. No 'badMessages' leads past it: "
            "where one message ends wrongly nobody knows where the next begins.",
        ),
        "UNDECODABLE_MESSAGE_BODY": Condition(
            "The body of the message at offset {offset} of {queue} cannot be read: {problem}.",
            "It was sent like this. Set 'badMessages' to 'null' to go on with a row that has no body, or to "
            "'deadLetter' to move it to the group's dead letter topic; the checkpoint stays usable with either.",
        ),
        "INVALID_QUEUE_OFFSETS": Condition(
            "The broker says of {queue} that it begins at {min_offset} and ends at {max_offset}, which no queue does.",
            "Nothing of it is read, and nothing is called lost, while that is so. RocketMQ 5.5.0 says it of a queue "
            "that lost all its files when a slave became master (apache/rocketmq#10417); restart that broker.",
        ),
        "PULL_STALLED": Condition(
            "{queue} cannot be read at offset {offset}: for {waited_ms} ms its broker has answered {reason} and "
            "named no later offset.",
            "The broker's store may be damaged; its log says more.",
        ),
        "INVALID_MESSAGE": Condition("This cannot be sent: {problem}.", "Change the message or the request."),
        "INVALID_ROW": Condition(
            "Row {row} of partition {partition} of {job} cannot be sent: {problem}. So it is with {others} others.",
            "Change such rows, filter them out, or set 'deadLetterTopic' to a topic for them.",
        ),
        # ---- transport
        "CONNECT_FAILED": Condition(
            "No connection to {address}: {reason}.", "Check the address and that the server is up."
        ),
        "RESPONSE_TIMED_OUT": Condition(
            "{address} did not answer {request} within {timeout_ms} ms.",
            "Raise 'brokerTimeoutMs' if the server is only slow.",
        ),
        "TLS_CERTIFICATE_UNTRUSTED": Condition(
            "The certificate of {address} is not trusted: {reason}.",
            "Set 'tlsTrustCertPath' to a PEM file with it, or with the certificate of who has signed it.",
        ),
        "TLS_HOSTNAME_MISMATCH": Condition(
            "The certificate of {address} is trusted, and it is another host's: {reason}.",
            "Connect by a name that it has: 'namesrvAddr' has the name servers', 'brokerIP1' of broker.conf a "
            "broker's, 'endpoints' a proxy's; or set 'tlsCheckHostName' to false to trust every host with a "
            "certificate of this authority.",
        ),
        "TLS_CLIENT_CERTIFICATE_REJECTED": Condition(
            "{address} wants to know by a certificate who its clients are, and did not accept us: {reason}.",
            "Set 'tlsCertPath' and 'tlsKeyPath' to a certificate that the server trusts.",
        ),
        "TLS_REQUIRED": Condition(
            "{address} takes no connection without TLS: it ended a plain one without an answer, and speaks TLS.",
            "Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its certificate.",
        ),
        "PROXY_REQUIRES_ENDPOINTS": Condition(
            "{address} is no name server or broker, but a RocketMQ 5 proxy: {reason}.",
            "For 'loadBalance' 'message' set 'endpoints' to the proxy's gRPC address, port 8081 by default, and leave "
            "'namesrvAddr' out. Queues are read at its remoting port, 8080 by default, as 'namesrvAddr'.",
        ),
        "TLS_NOT_SUPPORTED": Condition(
            "{address} does not speak TLS: it answers what is not encrypted. The handshake ended with: {reason}.",
            "Set 'useTLS' to false, or let the server accept TLS with 'tls.server.mode' permissive or enforcing.",
        ),
        "CONNECTION_LOST": Condition(
            "The connection to {address} was lost: {reason}.", "Check the server and the network."
        ),
        "CLUSTER_TIMEOUT": Condition(
            "{doing} was tried for {waited_ms} ms without success; the last failure: {cause}",
            "Bring the servers back, or raise 'clusterTimeoutMs' ({limit_ms} ms now). A streaming query "
            "loses nothing: restarted, it goes on from its checkpoint. A batch write may have stored some rows: "
            "written again, these are there twice.",
        ),
        "SOURCE_PROCESS_TERMINATED": Condition(
            "The process that plans this query was told to end (SIGTERM or SIGHUP) {ended_for_ms} ms ago, and has left "
            "the group; Spark goes on.",
            "Start the query again: nothing is lost. If nobody has sent that signal, look at what ends processes on "
            "the driver's machine.",
        ),
        "LOGGED_BATCH_UNREADABLE": Condition(
            "{wanted}, of a batch that is logged in the checkpoint, cannot be read: {cause}",
            "A restart reads it again. If its broker is gone for good, restart once with option 'skipRanges' set to "
            "what of this batch is to be given up: {give_up}",
        ),
        "NOT_A_GRPC_PROXY": Condition(
            "{address} is no RocketMQ 5 proxy that speaks gRPC: {reason}.",
            "Set 'endpoints' to a proxy's gRPC address, whose port is 8081 by default. Name servers are 'namesrvAddr'.",
        ),
        # ---- answers
        "BROKER_ERROR": Condition(
            "{address} answered {request} with {code_name} ({code}): {remark}",
            "See RocketMQ's ResponseCode {code_name}.",
        ),
        "POLL_REQUEST_EXPIRED": Condition(
            "{address} came to a request for messages too late, by its own clock: {remark}.",
            "Either the clock of the driver's machine is behind this broker's, where two seconds are enough: have both "
            "set by NTP. Or the broker has too much to do: look at its load, and at its log.",
        ),
        "PROXY_UNAVAILABLE": Condition(
            "{address} could not carry out {request}, which may pass: {code_name} ({code}): {remark}",
            "Look at the proxy's log, and at the brokers behind it.",
        ),
        "PROXY_ERROR": Condition(
            "{address} answered {request} with {code_name} ({code}): {remark}",
            "See Code {code_name} of RocketMQ's gRPC protocol, and the proxy's log.",
        ),
        "INVALID_INVISIBLE_DURATION": Condition(
            "{address} does not take this 'invisibleDurationMs': {remark}.",
            "Set it to what the proxy takes, by default from 10 s to 12 h.",
        ),
        "FIFO_NOT_SUPPORTED": Condition(
            "{what} is FIFO, and shared messages come in no order.", "Use 'loadBalance' 'queue'."
        ),
        "MESSAGE_NOT_DURABLE": Condition(
            "{address} has stored messages for {queue} and says {status} ({code}): less safely than it is set up to.",
            "Look at its disk and its replicas, or set 'acceptNotDurable' to true to count that as stored.",
        ),
        "CREDENTIALS_MISSING": Condition(
            "{address} answers only requests that are signed, and {request} was not: {remark}",
            "Set 'accessKey' and 'secretKey'.",
        ),
        "CREDENTIALS_REJECTED": Condition(
            "{address} does not accept the credentials with which {request} was signed: {remark}",
            "Check 'accessKey' and 'secretKey', and whether this broker knows the user: each broker has users of "
            "its own.",
        ),
        "TOPIC_DENIED": Condition(
            "{address} refused {request}: the user of 'accessKey' has not the right on topic {topic!r}. {remark}",
            "Give it the right, on every broker of the topic; docs/security.md lists what a query needs.",
        ),
        "GROUP_DENIED": Condition(
            "{address} refused {request}: the user of 'accessKey' has not the right on group {group!r}. {remark}",
            "Give it the right, on every broker of the topics; docs/security.md lists what a query needs.",
        ),
        "ACCESS_DENIED": Condition(
            "{address} refused {request}: the user of 'accessKey' has not the right to it. {remark}",
            "Give it the right, or use an administrator's credentials; docs/security.md lists what is needed.",
        ),
        "GROUP_NOT_FOUND.BROKER": Condition(
            "{address} refused {request}: the group is not there, and the broker makes none by itself. {remark}",
            "Make it, on every broker of the topics: 'mqadmin updateSubGroup -g <group> -c <cluster>'.",
        ),
        "PULL_REJECTED": Condition(
            "{address} rejected {request}: 'rejectPullConsumerEnable' is true there. {remark}",
            "Set it to false on every broker of the topics: 'mqadmin updateBrokerConfig -c <cluster> -k "
            "rejectPullConsumerEnable -v false'.",
        ),
        "TOPIC_RESERVED": Condition(
            "{address} rejected {request}: topic {topic!r} is RocketMQ's own, and nobody may write to it. {remark}",
            "Write to another topic.",
        ),
        "GROUP_NOT_FOUND.PROXY": Condition(
            "Proxy {address} knows no broker that has the group, and refused {request}: {remark}",
            "Make it, on every broker of the topics, 'mqadmin updateSubGroup -g <group> -c <cluster>', or bring these "
            "back, within 'missingTopicTimeoutMs'.",
        ),
        "OFFSET_RESET_PENDING": Condition(
            "{address} did not store the offset of group {group!r} for {queue}: it has been reset by an operator.",
            "Reading goes on from where it was reset to.",
        ),
        "NAME_SERVERS_UNAVAILABLE": Condition(
            "No name server says where topic {topic!r} is, of {addresses}: {cause}",
            "Bring one back, and see that each machine that runs tasks reaches it.",
        ),
        "TOPIC_NOT_FOUND": Condition(
            "Topic {topic!r} not found: {address} returned no route for it.",
            "Check the topic's name. If it does not exist, create it, for example with 'rocketmq-spark topic create "
            "{topic}'. If it exists, start its brokers and check that they register. The connector retries for "
            "'missingTopicTimeoutMs', when it writes for at most 'clusterTimeoutMs'.",
        ),
        "TOPIC_UNAVAILABLE.NO_ROUTE": Condition(
            "Name server {address} knows no broker any more that has topic {topic!r}; it was on {brokers}.",
            "Bring these back, and see that they register. If the topic was deleted, create it again.",
        ),
        "NOT_A_NAME_SERVER": Condition(
            "{address} is no name server: it is asked for {request} and does not know such a request.",
            "It is a broker, most likely. Set 'namesrvAddr' to the name server's address; its port is 9876 unless "
            "somebody has changed that, a broker's is 10911.",
        ),
        "TOPIC_EXISTS": Condition(
            "Topic {topic!r} is there already, with {count} queues; it was left as it is.",
            "Take another name, or delete it first, with its messages; 'mqadmin updateTopic' changes its queues.",
        ),
        "TOPIC_CREATION_TIMEOUT": Condition(
            "Topic {topic!r} was created on {brokers}, and after {waited_ms} ms the name server does not know all of "
            "its queues.",
            "Look whether the brokers reach the name server.",
        ),
        "NO_MASTER_BROKER": Condition(
            "{name_servers} know no broker with a master.", "Start one, and see that it registers."
        ),
        "TOPIC_UNAVAILABLE.NO_READABLE_QUEUE": Condition(
            "Topic {topic!r} has no readable queue.", "Give it read permission and at least one read queue."
        ),
        "STATIC_TOPIC_NOT_SUPPORTED": Condition(
            "Topic {topic!r} is a static topic, made by 'mqadmin updateStaticTopic'; these cannot be read or written.",
            "Let its producers write to an ordinary topic, made by 'mqadmin updateTopic'.",
        ),
        "TOPIC_UNAVAILABLE.QUEUE": Condition(
            "Name server {address} knows no broker any more that has topic {topic!r}; its queue {queue_id} was on "
            "{broker}.",
            "Bring that back, and see that it registers. 'missingQueuesTimeoutMs' says how long a task waits, and "
            "'missingQueues' 'fail' that it does not.",
        ),
        "QUEUES_UNAVAILABLE": Condition(
            "Queues that this query has read are away: out of the route, without read permission, or no queues of "
            "their topic any more. {lasting}: {queues}.",
            "Bring them back, or {patience}, or set 'missingQueues' to 'drop' to go on without them. Their positions "
            "stay in the checkpoint: what the brokers keep of them is not lost. Where they are gone for good and the "
            "last batch has ranges of them, a restart names these for option 'skipRanges'.",
        ),
        "INVALID_ORDER_CONF": Condition(
            "Producers cannot use the order configuration of topic {topic!r} at the name servers: {order_conf!r}.",
            "Set it to 'broker:queues;broker:queues', at most 65536 queues, or delete it (mqadmin updateOrderConf).",
        ),
        "TOPIC_UNAVAILABLE.NO_WRITABLE_QUEUE": Condition(
            "Topic {topic!r} has no queue that can be written to.",
            "Bring its brokers back, or give it write permission and at least one write queue.",
        ),
        "BROKER_ADDRESS_MISMATCH": Condition(
            "At {address}, where broker {broker!r} is said to be, broker {other!r} answers.",
            "Brokers have exchanged addresses, and the name servers will know soon; if this stays, look at the "
            "'brokerIP1' of both.",
        ),
        "UNKNOWN_BROKER": Condition(
            "The name servers know nothing of topic {topic!r} on broker {broker!r}.",
            "Bring the broker back, or mend the column 'brokerName'.",
        ),
        "MASTER_UNAVAILABLE": Condition(
            "Broker {broker!r} has no master in the route of topic {topic!r}.", "Bring the master back."
        ),
    }
)
