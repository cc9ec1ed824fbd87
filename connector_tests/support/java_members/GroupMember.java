import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** A member of a consumer group, made of RocketMQ's own consumers. It remembers the bodies that it has seen. */
public final class GroupMember {
    private static final String FAILS_ONCE = "fails-once";
    private static final long POLL_MS = 100;

    /**
     * As on a machine of eight cores. To tell its running info a consumer asks the broker for offsets that it does not
     * know, and it takes a free thread of these to hand on each answer: two threads, two who ask, and it hangs.
     */
    private static final int CALLBACK_THREADS = 8;

    private final List<String> bodies = new CopyOnWriteArrayList<>();
    private volatile boolean leaving = false;
    private Runnable shutdown;

    /** A DefaultMQPushConsumer; a message with the tag "fails-once" fails when it comes for the first time. */
    public static GroupMember push(String namesrv, String group, String topic, String name) throws MQClientException {
        return push(new DefaultMQPushConsumer(group), namesrv, topic, name);
    }

    /** One that signs its requests. */
    public static GroupMember pushWithKeys(String namesrv, String group, String topic, String name, String accessKey,
        String secretKey) throws MQClientException {
        AclClientRPCHook signing = new AclClientRPCHook(new SessionCredentials(accessKey, secretKey));
        return push(new DefaultMQPushConsumer(group, signing), namesrv, topic, name);
    }

    /** One whose messages are handed out by the brokers one by one, where they say so of its group. */
    public static GroupMember pop(String namesrv, String group, String topic, String name) throws MQClientException {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setClientRebalance(false);
        return push(consumer, namesrv, topic, name);
    }

    private static GroupMember push(DefaultMQPushConsumer consumer, String namesrv, String topic, String name)
        throws MQClientException {
        GroupMember member = new GroupMember();
        configure(consumer, namesrv, name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            member.see(messages);
            return messages.stream().anyMatch(GroupMember::fails)
                ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        member.shutdown = consumer::shutdown;
        return member;
    }

    /** A DefaultLitePullConsumer. */
    public static GroupMember litePull(String namesrv, String group, String topic, String name)
        throws MQClientException {
        GroupMember member = new GroupMember();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        configure(consumer, namesrv, name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        Thread polling = new Thread(() -> {
            while (!member.leaving) {
                member.see(consumer.poll(POLL_MS));
            }
            consumer.shutdown();
        });
        polling.start();
        member.shutdown = () -> { };
        return member;
    }

    private static void configure(ClientConfig consumer, String namesrv, String name) {
        consumer.setNamesrvAddr(namesrv);
        consumer.setInstanceName(name);
        consumer.setClientCallbackExecutorThreads(CALLBACK_THREADS);
    }

    /** What it has seen, a line for each message as often as it came. */
    public String bodies() {
        return String.join("\n", bodies);
    }

    public void leave() {
        leaving = true;
        shutdown.run();
    }

    private void see(List<MessageExt> messages) {
        messages.forEach(message -> bodies.add(new String(message.getBody())));
    }

    private static boolean fails(MessageExt message) {
        return message.getReconsumeTimes() == 0 && FAILS_ONCE.equals(message.getTags());
    }
}
