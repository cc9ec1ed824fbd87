"""The one table of conditions: what errors say, and what a user can do. Code raises them by name, see ``errors``.

The reference page ``docs/reference/errors.md`` is generated from this table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rocketmq_spark.condition import Condition

REPORT: Final = "Report this with the broker's version."

CONDITIONS: Final[Mapping[str, Condition]] = MappingProxyType(
    {
        # ---- options and schema
        "UNKNOWN_OPTION": Condition(
            "Unknown option {option!r}.",
            "{suggestion} docs/reference/options.md lists every option. Names are not case-sensitive, and Spark hands "
            "them over in lower case.",
        ),
        "MISSING_OPTION": Condition("Option {option!r} is required and was not given.", "{hint}"),
        "BAD_OPTION_VALUE": Condition("Option {option!r} cannot be {value!r}.", "It must be {expected}."),
        "CONTRADICTORY_OPTIONS": Condition("Options {first!r} and {second!r} contradict each other.", "{reason}"),
        "UNKNOWN_COLUMN": Condition(
            "The schema names columns that RocketMQ messages do not have: {columns}.",
            "There are: {available}. Properties are columns too where 'propertyColumns' names them.",
        ),
        "UNSENDABLE_COLUMNS": Condition(
            "Rows have columns that are nothing of a message to send: {columns}.",
            "Choose with select(...); there are: {available}. Beside them may only be what 'messageIdColumns' names.",
        ),
        "BAD_COLUMN_TYPE": Condition(
            "Column {column!r} cannot be read as {given}.", "Declare it as {expected}; there are: {available}."
        ),
        "MISSING_COLUMNS": Condition(
            "Rows cannot be sent back without {missing}.",
            "Name {needed} in the reader's schema, and keep them in the rows.",
        ),
        "UNWRITABLE_COLUMN": Condition(
            "Column {column!r} is {given}, and cannot be sent as that.", "Make it {expected}; there are: {available}."
        ),
        "SAME_COLUMNS": Condition(
            "Columns {first!r} and {second!r} both say {meaning!r} of a message.", "Drop one of them."
        ),
        "NOTHING_TO_SEND": Condition("Rows cannot be sent without {missing}.", "There are: {available}."),
        "NO_OVERWRITE": Condition(
            "Topic {topic!r} cannot be overwritten: what is written comes behind what is there.", "Use mode('append')."
        ),
        "BAD_OFFSET": Condition(
            "The checkpoint holds an offset that this version cannot read: {problem}.",
            "Use the version of rocketmq_spark that wrote it, or start with a new checkpoint location; "
            "the consumer group's offsets then say where to go on.",
        ),
        "CHECKPOINT_OF_ANOTHER": Condition(
            "The checkpoint was written with {option!r} {before!r}, and now it is {now!r}. {loses}",
            "Set it back, or start with a new checkpoint location: the query then goes on where the group is{or_else}.",
        ),
        "LOCAL_OFFSETS_UNUSABLE": Condition(
            "The offsets of this query are kept in {file}, which cannot be used: {problem}.",
            "Make it readable and writable, or change 'localOffsetStoreDir'. If it is damaged, remove it and its "
            "'.bak': the query then goes on from its checkpoint, or begins anew without one.",
        ),
        "SPOOL_UNUSABLE": Condition(
            "Batches are kept in {folder} until they are done, which cannot be used: {problem}.",
            "Make it a folder that the driver may write to, with room for some batches, or change 'spoolDir'. The "
            "checkpoint has no batch that is not kept: nothing is lost.",
        ),
        "BAD_TLS_FILE": Condition(
            "Option {option!r} is {path}, which cannot be used on {host}: {problem}.",
            "It must be a PEM file that can be read at this path on the driver and on every executor; an encrypted key "
            "needs 'tlsKeyPassword'.",
        ),
        "SPARK_TOO_OLD": Condition(
            "PySpark {version} is installed, and it has no {missing}.",
            "rocketmq_spark needs PySpark 4.2 or newer, on the driver and on the cluster: pip install "
            "'pyspark>=4.2,<4.4'.",
        ),
        "NO_BATCH_ID": Condition(
            "Ids need query and batch, of which Spark says {query} and {batch}.", "Set 'messageIdColumns'."
        ),
        "NOT_THERE_YET": Condition("format('rocketmq') reads streams; it has no {subject} yet.", "{instead}"),
        "NATIVE_NOT_BUILT": Condition(
            "{variable} asks for the native decoder, which cannot be loaded: {problem}.",
            "Install a wheel that has it, or build it with 'make native'; without the variable the decoder in Python "
            "is used, which reads the same, slower.",
        ),
        # ---- protocol
        "FRAME_TOO_LARGE": Condition(
            "{peer} announced a frame of {length_bytes} bytes; at most {limit_bytes} are accepted.",
            "Check that the address is a RocketMQ name server or broker, and not another service.",
        ),
        "BAD_FRAME": Condition(
            "{peer} sent bytes that are no RocketMQ frame: {problem}.",
            "Check that the address is a RocketMQ name server or broker, and not another service.",
        ),
        "BAD_BODY": Condition("The body of a {subject} cannot be read: {problem}.", REPORT),
        "BAD_HEADER": Condition("The header of a {subject} cannot be read: {problem}.", REPORT),
        "CORRUPT_MESSAGE": Condition(
            "Message number {index} of a pull, at byte {position} of {length_bytes}, cannot be decoded: {problem}.",
            "The stored message may be damaged; 'mqadmin queryMsgByOffset' shows it.",
        ),
        "CORRUPT_MESSAGE_IN_QUEUE": Condition(
            "A message of {queue}, pulled from offset {offset}, cannot be decoded: {problem}",
            "The stored message may be damaged; 'mqadmin queryMsgByOffset' shows it. No 'badMessages' leads past it: "
            "where one message ends wrongly nobody knows where the next begins.",
        ),
        "BAD_MESSAGE": Condition(
            "The body of the message at offset {offset} of {queue} cannot be read: {problem}.",
            "It was sent like this. Set 'badMessages' to 'null' to go on with a row that has no body, or to "
            "'deadLetter' to move it to the group's dead letter topic; the checkpoint stays usable with either.",
        ),
        "IMPOSSIBLE_BOUNDS": Condition(
            "The broker says of {queue} that it begins at {min_offset} and ends at {max_offset}, which no queue does.",
            "Nothing of it is read, and nothing is called lost, while that is so. RocketMQ 5.5.0 says it of a queue "
            "that lost all its files when a slave became master (apache/rocketmq#10417); restart that broker.",
        ),
        "PULL_STALLED": Condition(
            "{queue} cannot be read at offset {offset}: for {waited_ms} ms its broker has said {reason}, no later one.",
            "The broker's store may be damaged; its log says more.",
        ),
        "UNSENDABLE": Condition("This cannot be sent: {problem}.", "Change the message or the request."),
        "UNSENDABLE_ROW": Condition(
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
        "CERTIFICATE_REFUSED": Condition(
            "The certificate of {address} is not trusted: {reason}.",
            "Set 'tlsTrustCertPath' to a PEM file with it, or with the certificate of who has signed it.",
        ),
        "HOST_NAME_DIFFERS": Condition(
            "The certificate of {address} is trusted, and it is another host's: {reason}.",
            "Connect by a name that it has: 'namesrvAddr' has the name servers', 'brokerIP1' of broker.conf a "
            "broker's, 'endpoints' a proxy's; or set 'tlsCheckHostName' to false to trust every host with a "
            "certificate of this authority.",
        ),
        "CLIENT_CERTIFICATE_REFUSED": Condition(
            "{address} wants to know by a certificate who its clients are, and did not accept us: {reason}.",
            "Set 'tlsCertPath' and 'tlsKeyPath' to a certificate that the server trusts.",
        ),
        "TLS_WANTED": Condition(
            "{address} takes no connection without TLS: it ended a plain one without an answer, and speaks TLS.",
            "Set 'useTLS' to true, and 'tlsTrustCertPath' unless the system trusts its certificate.",
        ),
        "GRPC_WANTED": Condition(
            "{address} is no name server or broker, but a RocketMQ 5 proxy: {reason}.",
            "For 'loadBalance' 'message' set 'endpoints' to the proxy's gRPC address, port 8081 by default, and leave "
            "'namesrvAddr' out. Queues are read at its remoting port, 8080 by default, as 'namesrvAddr'.",
        ),
        "TLS_NOT_SPOKEN": Condition(
            "{address} does not speak TLS: it answers what is not encrypted. The handshake ended with: {reason}.",
            "Set 'useTLS' to false, or let the server accept TLS with 'tls.server.mode' permissive or enforcing.",
        ),
        "CONNECTION_LOST": Condition(
            "The connection to {address} was lost: {reason}.", "Check the server and the network."
        ),
        "CLUSTER_UNREACHABLE": Condition(
            "{doing} was tried for {waited_ms} ms without success; the last failure: {cause}",
            "Bring the servers back, or raise 'clusterTimeoutMs' ({limit_ms} ms now). A streaming query "
            "loses nothing: restarted, it goes on from its checkpoint. A batch write may have stored some rows: "
            "written again, these are there twice.",
        ),
        "RUN_ENDED": Condition(
            "The process that plans this query was told to end (SIGTERM or SIGHUP) {ended_for_ms} ms ago, and has left "
            "the group; Spark goes on.",
            "Start the query again: nothing is lost. If nobody sent that signal, look at what ends processes there.",
        ),
        "RANGE_UNREADABLE": Condition(
            "{wanted}, of a batch that is logged in the checkpoint, cannot be read: {cause}",
            "A restart reads it again. If its broker is gone for good, restart once with option 'giveUp' set to what "
            "of this batch is to be given up: {give_up}",
        ),
        "NOT_A_PROXY": Condition(
            "{address} is no RocketMQ 5 proxy that speaks gRPC: {reason}.",
            "Set 'endpoints' to a proxy's gRPC address, whose port is 8081 by default. Name servers are 'namesrvAddr'.",
        ),
        # ---- answers
        "BROKER_REFUSED": Condition(
            "{address} answered {request} with {code_name} ({code}): {remark}",
            "See RocketMQ's ResponseCode {code_name}.",
        ),
        "POLL_TOO_LATE": Condition(
            "{address} came to a request for messages too late, by its own clock: {remark}.",
            "Either the clock of the driver's machine is behind this broker's, where two seconds are enough: have both "
            "set by NTP. Or the broker has too much to do: look at its load, and at its log.",
        ),
        "PROXY_FAILED": Condition(
            "{address} could not carry out {request}, which may pass: {code_name} ({code}): {remark}",
            "Look at the proxy's log, and at the brokers behind it.",
        ),
        "PROXY_REFUSED": Condition(
            "{address} answered {request} with {code_name} ({code}): {remark}",
            "See Code {code_name} of RocketMQ's gRPC protocol, and the proxy's log.",
        ),
        "INVISIBLE_DURATION_REFUSED": Condition(
            "{address} does not take this 'invisibleDurationMs': {remark}.",
            "Set it to what the proxy takes, by default from 10 s to 12 h.",
        ),
        "IN_ORDER": Condition("{what} is FIFO, and shared messages come in no order.", "Use 'loadBalance' 'queue'."),
        "NOT_DURABLE": Condition(
            "{address} has stored messages for {queue} and says {status} ({code}): less safely than it is set up to.",
            "Look at its disk and its replicas, or set 'acceptNotDurable' to true to count that as stored.",
        ),
        "CREDENTIALS_MISSING": Condition(
            "{address} answers only requests that are signed, and {request} was not: {remark}",
            "Set 'accessKey' and 'secretKey'.",
        ),
        "CREDENTIALS_REFUSED": Condition(
            "{address} does not accept the credentials with which {request} was signed: {remark}",
            "Check 'accessKey' and 'secretKey', and whether this broker knows the user: each has users of its own.",
        ),
        "TOPIC_FORBIDDEN": Condition(
            "{address} refused {request}: the user of 'accessKey' has not the right on topic {topic!r}. {remark}",
            "Give it the right, on every broker of the topic; docs/guide/security.md lists what a query needs.",
        ),
        "GROUP_FORBIDDEN": Condition(
            "{address} refused {request}: the user of 'accessKey' has not the right on group {group!r}. {remark}",
            "Give it the right, on every broker of the topics; docs/guide/security.md lists what a query needs.",
        ),
        "ACCESS_FORBIDDEN": Condition(
            "{address} refused {request}: the user of 'accessKey' has not the right to it. {remark}",
            "Give it the right, or use an administrator's credentials; docs/guide/security.md lists what is needed.",
        ),
        "GROUP_NOT_FOUND": Condition(
            "{address} refused {request}: the group is not there, and the broker makes none by itself. {remark}",
            "Make it, on every broker of the topics: 'mqadmin updateSubGroup -g <group> -c <cluster>'.",
        ),
        "GROUP_NOT_SERVED": Condition(
            "Proxy {address} knows no broker that has the group, and refused {request}: {remark}",
            "Make it, on every broker of the topics, 'mqadmin updateSubGroup -g <group> -c <cluster>', or bring these "
            "back, within 'missingTopicTimeoutMs'.",
        ),
        "OFFSET_NOT_TAKEN": Condition(
            "{address} did not store the offset of group {group!r} for {queue}: it has been reset by an operator.",
            "Reading goes on from where it was reset to.",
        ),
        "NO_NAME_SERVER": Condition(
            "No name server says where topic {topic!r} is, of {addresses}: {cause}",
            "Bring one back, and see that each machine that runs tasks reaches it.",
        ),
        "TOPIC_NOT_FOUND": Condition(
            "Name server {address} knows no broker that has topic {topic!r}.",
            "If there is no such topic, correct its name or create it, with 'rocketmq-spark topic create {topic}' say; "
            "if there is one, bring its brokers back. 'missingTopicTimeoutMs' says how long it is waited for, "
            "'clusterTimeoutMs' how long at most where rows are written.",
        ),
        "TOPIC_NOT_SERVED": Condition(
            "Proxy {address} knows no broker that has topic {topic!r}.",
            "Correct its name, create it, or bring its brokers back within 'missingTopicTimeoutMs'.",
        ),
        "TOPIC_AWAY": Condition(
            "Name server {address} knows no broker any more that has topic {topic!r}; it was on {brokers}.",
            "Bring these back, and see that they register. 'missingQueuesTimeoutMs' and 'missingTopicTimeoutMs' say "
            "how long a query waits; the larger counts.",
        ),
        "BROKERS_AWAY": Condition(
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
        "TOPIC_NOT_ROUTED": Condition(
            "Topic {topic!r} was created on {brokers}, and after {waited_ms} ms the name server does not know all of "
            "its queues.",
            "Look whether the brokers reach the name server.",
        ),
        "NO_BROKER": Condition("{name_servers} know no broker with a master.", "Start one, and see that it registers."),
        "NO_READABLE_QUEUE": Condition(
            "Topic {topic!r} has no readable queue.", "Give it read permission and at least one read queue."
        ),
        "STATIC_TOPIC": Condition(
            "Topic {topic!r} is a static topic, made by 'mqadmin updateStaticTopic'; these cannot be read or written.",
            "Let its producers write to an ordinary topic, made by 'mqadmin updateTopic'.",
        ),
        "QUEUE_AWAY": Condition(
            "Name server {address} knows no broker any more that has topic {topic!r}; its queue {queue_id} was on "
            "{broker}.",
            "Bring that back, and see that it registers. 'missingQueuesTimeoutMs' says how long a task waits, and "
            "'missingQueues' 'fail' that it does not.",
        ),
        "QUEUES_MISSING": Condition(
            "Queues that this query has read are away: out of the route, without read permission, or no queues of "
            "their topic any more. {lasting}: {queues}.",
            "Bring them back, or {patience}, or set 'missingQueues' to 'drop' to go on without them. Their positions "
            "stay in the checkpoint: what the brokers keep of them is not lost. Where they are gone for good and the "
            "last batch has ranges of them, a restart names these for option 'giveUp'.",
        ),
        "NO_WRITABLE_QUEUE": Condition(
            "Topic {topic!r} has no queue that can be written to.",
            "Bring its brokers back, or give it write permission and at least one write queue.",
        ),
        "WRONG_BROKER": Condition(
            "At {address}, where broker {broker!r} is said to be, broker {other!r} answers.",
            "Brokers have exchanged addresses, and the name servers will know soon; if this stays, look at the "
            "'brokerIP1' of both.",
        ),
        "BROKER_NOT_ROUTED": Condition("Topic {topic!r} is not on {broker!r}.", "Bring it back, or mend 'brokerName'."),
        "NO_MASTER": Condition(
            "Broker {broker!r} has no master in the route of topic {topic!r}.", "Bring the master back."
        ),
        # ---- data
        "OFFSETS_GONE": Condition(
            "{count} offsets are not in the brokers any more: {ranges}.",
            "Set 'failOnDataLoss' to false to go on without them, or begin anew: with a new checkpoint location, and "
            "'groupOffsets' set to 'ignore', which moves the group to 'startingOffsets' unless others are in it.",
        ),
        "MESSAGE_GONE": Condition(
            "Its broker does not hold message {message} any more.",
            "Retention has deleted it before it was sent back; what is left of it is the row.",
        ),
        "NOT_SENT_BACK": Condition(
            "{count} messages were not sent back for group {group!r}: {messages}; the first failure: {cause}",
            "Send these again, or let the batch fail: its replay sends back all that fails then.",
        ),
        # ---- the group
        "NOT_ALONE": Condition(
            "'groupOffsets' is 'ignore', which moves group {group!r}, and others are in the group: {others}.",
            "Stop them, or take a group of your own, or set 'groupOffsets' to 'resume' to go on where the group is.",
        ),
        "DUPLICATE_CLIENT_ID": Condition(
            "Another live member of group {group!r} uses the client id {client_id!r}.",
            "Give one of the two queries another 'instanceName'.",
        ),
        "SUBSCRIPTIONS_DIFFER": Condition(
            "Members of group {group!r} subscribe to different things: {client_id!r} to {ours}; {other!r} to {theirs}.",
            "Give all members the same topics and expressions, or this one another group. Each stream is a member by "
            "itself: two streams of one application that read different topics want a group each.",
        ),
        "MEMBERS_DIFFER": Condition(
            "Members of group {group!r} consume differently: {client_id!r} with {ours}; {other!r} with {theirs}.",
            "Give all members the same settings, or this one another group.",
        ),
        "NOT_DRAINED": Condition(
            "Query {query!r} was not drained within {timeout_s} s.",
            "Allow more time than one micro-batch and one trigger interval take; the query goes on.",
        ),
        "PARTLY_DRAINED": Condition(
            "Query {query!r} was stopped after {timeout_s} s though {left} of its {sources} sources were not drained: "
            "the others had handed over.",
            "Allow more time. Where this query goes on or others read the group, its last batch of those comes twice.",
        ),
        "NO_SOURCE": Condition(
            "Query {query!r} reads nothing from RocketMQ: no source of its last progress is a 'rocketmq'.",
            "Stop it by its own stop(): it has no group to commit to and no queues to hand over.",
        ),
        "NOT_ON_THIS_MACHINE": Condition(
            "Query {query!r} runs on {host}, and cannot be stopped gracefully from {here}: it is asked through its "
            "driver's folder {folder}.",
            "Call rocketmq_spark.stop on {host}. Or have a file 'drain' made in that folder, and call query.stop() "
            "once a file 'drained' is there beside it; without that the running batch comes twice.",
        ),
        "NO_CONTROL_FOLDER": Condition(
            "Query {query!r} could not be asked to stop within {timeout_s} s: its folder {folder} is not there on "
            "{host}.",
            "The query makes it again at each trigger if the temporary files were cleaned up: allow for one, and look "
            "whether it may write there. If its driver is on another machine or in a container of the same name, call "
            "rocketmq_spark.stop there.",
        ),
        "NOT_LISTED": Condition(
            "The brokers do not list {client_id!r} as a member of group {group!r}.",
            "Check that the group exists or may be created, and that it may consume.",
        ),
        "NO_MACHINE_ROOM": Condition(
            "The machine room resolver names no room for {subject}.",
            "It must know every broker and every client of the group; all members need the same resolver.",
        ),
        # ---- embedded broker
        "NO_JAVA": Condition("No usable Java was found: {problem}.", "Install Java 17 or newer, or set JAVA_HOME."),
        "JARS_UNAVAILABLE": Condition(
            "The jars of Apache RocketMQ {version} could not be fetched: {problem}.",
            "Connect to a Maven repository once, or set ROCKETMQ_HOME to an unpacked distribution.",
        ),
        "JAR_CHECKSUM": Condition(
            "{jar} was fetched, and does not have its pinned SHA-256 sum.",
            "It was thrown away. Run again, and if that does not help, look at what your Maven repository delivers.",
        ),
        "SERVER_FAILED": Condition(
            "RocketMQ's embedded server failed: {problem}.",
            "Look whether its port is taken, or its store in use by another broker.",
        ),
        "JVM_FAILED": Condition("The embedded broker's JVM failed: {problem}.", "Its log ends:\n{log_tail}"),
        "CLUSTER_STATE": Condition("The embedded cluster cannot do this now: {problem}.", "{hint}"),
    }
)
