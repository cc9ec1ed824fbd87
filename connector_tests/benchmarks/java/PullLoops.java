import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** What RocketMQ's own two pull consumers do with a topic, read from its beginning to its end. */
public final class PullLoops {
    public static final int BATCH = 32;
    public static final int THRESHOLD_MESSAGES = 100_000;
    public static final int THRESHOLD_MIB = 1_000;
    public static final int PULL_THREADS = 20;
    private static final int POLL_MS = 1_000;
    private static final int SILENT_POLLS = 30;

    private PullLoops() {}

    /** Nanoseconds from the first poll until expected messages have come. */
    public static long litePull(String nameServer, String topic, long expected) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("lite-pull-" + System.nanoTime());
        consumer.setNamesrvAddr(nameServer);
        consumer.setPullBatchSize(BATCH);
        consumer.setPullThreadNums(PULL_THREADS);
        consumer.setPullThresholdForAll(THRESHOLD_MESSAGES);
        consumer.setPullThresholdForQueue(THRESHOLD_MESSAGES);
        consumer.setPullThresholdSizeForQueue(THRESHOLD_MIB);
        consumer.setConsumeMaxSpan(THRESHOLD_MESSAGES);
        consumer.setAutoCommit(false);
        // Not by seek: it interrupts the pulls that assign has begun, and once nothing was pulled after that.
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
            long begin = System.nanoTime();
            consumer.assign(queues);
            int silent = 0;
            for (long count = 0; count < expected; ) {
                int found = consumer.poll(POLL_MS).size();
                count += found;
                silent = found == 0 ? silent + 1 : 0;
                if (silent == SILENT_POLLS) {
                    throw new IllegalStateException("no more after " + count + " of " + expected + " messages");
                }
            }
            return System.nanoTime() - begin;
        } finally {
            consumer.shutdown();
        }
    }

    /** The same with a thread for each queue that pulls again and again. */
    public static long pull(String nameServer, String topic, long expected) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("pull-" + System.nanoTime());
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
        ExecutorService threads = Executors.newCachedThreadPool();
        try {
            Set<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(topic);
            long begin = System.nanoTime();
            List<Future<Long>> parts = new ArrayList<>();
            for (MessageQueue queue : queues) {
                parts.add(threads.submit(() -> pullToEnd(consumer, queue)));
            }
            long count = 0;
            for (Future<Long> part : parts) {
                count += part.get();
            }
            long nanos = System.nanoTime() - begin;
            if (count != expected) {
                throw new IllegalStateException(count + " messages instead of " + expected);
            }
            return nanos;
        } finally {
            threads.shutdown();
            consumer.shutdown();
        }
    }

    private static long pullToEnd(DefaultMQPullConsumer consumer, MessageQueue queue) throws Exception {
        long count = 0;
        long offset = 0;
        while (true) {
            PullResult result = consumer.pull(queue, "*", offset, BATCH, 10_000);
            if (result.getPullStatus() != PullStatus.FOUND) {
                return count;
            }
            count += result.getMsgFoundList().size();
            offset = result.getNextBeginOffset();
        }
    }
}
