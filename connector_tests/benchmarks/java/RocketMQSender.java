import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends numbered messages: number n goes to queue n % queues, and every hundredth one has the tag "Rare". */
public final class RocketMQSender implements AutoCloseable {
    private static final int THREADS = 4;
    private static final int BATCH_BYTES = 256 * 1024;
    private static final int MOST_IN_A_BATCH = 1_000;

    private final DefaultMQProducer producer;
    private final String topic;
    private final String broker;
    private final int queues;
    private final int bodyBytes;
    private final boolean isCompressed;
    private final Bodies bodies;
    private int next = 0;

    public RocketMQSender(
            String nameServer, String topic, String broker, int queues, int bodyBytes, boolean isCompressed)
            throws Exception {
        this.topic = topic;
        this.broker = broker;
        this.queues = queues;
        this.bodyBytes = bodyBytes;
        this.isCompressed = isCompressed;
        this.bodies = new Bodies(bodyBytes, isCompressed);
        producer = new DefaultMQProducer("benchmark-producer-" + topic);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(topic);
        producer.setSendMsgTimeout(30_000);
        producer.setCompressMsgBodyOverHowmuch(isCompressed ? 0 : Integer.MAX_VALUE);
        producer.start();
    }

    /** As fast as it goes; returns nanoseconds. */
    public long fill(int count) throws Exception {
        long begin = System.nanoTime();
        int first = next;
        next += count;
        ExecutorService threads = Executors.newFixedThreadPool(isCompressed ? 4 * THREADS : THREADS);
        List<Future<?>> parts = new ArrayList<>();
        int step = isCompressed ? 1 : Math.max(1, Math.min(MOST_IN_A_BATCH, BATCH_BYTES / bodyBytes));
        for (int at = first; at < first + count; at += step * queues) {
            for (int queue = 0; queue < queues; queue++) {
                int from = at + queue;
                int to = Math.min(at + step * queues, first + count);
                parts.add(threads.submit(() -> { send(from, to); return null; }));
            }
        }
        for (Future<?> part : parts) {
            part.get();
        }
        threads.shutdown();
        return System.nanoTime() - begin;
    }

    /** At a steady rate: every millisecond what is due by then. */
    public void pace(int count, int perSecond) throws Exception {
        long begin = System.nanoTime();
        int first = next;
        while (next < first + count) {
            long due = first + Math.min(count, (System.nanoTime() - begin) * perSecond / 1_000_000_000L);
            int from = next;
            next = (int) Math.max(next, due);
            for (int queue = 0; queue < Math.min(queues, next - from); queue++) {
                send(from + queue, next);
            }
            Thread.sleep(1);
        }
    }

    /** Numbers from, from + queues, ... below to: all of one queue. */
    private void send(int from, int to) throws Exception {
        if (from >= to) {
            return;
        }
        MessageQueue queue = new MessageQueue(topic, broker, from % queues);
        List<Message> batch = new ArrayList<>();
        for (int number = from; number < to; number += queues) {
            batch.add(message(number));
        }
        if (batch.size() == 1) {
            producer.send(batch.get(0), queue);
        } else {
            producer.send(batch, queue);
        }
    }

    private Message message(int number) {
        String tag = number % 100 == 0 ? "Rare" : "TagA";
        return new Message(topic, tag, Bodies.key(number), bodies.body(number));
    }

    @Override
    public void close() {
        producer.shutdown();
    }
}
