import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** Sends batches as an application does with RocketMQ's producer: each is awaited by the thread that sends it. */
public final class BatchProducer implements AutoCloseable {
    private final DefaultMQProducer producer = new DefaultMQProducer("benchmark-batches");
    private final String topic;
    private final Bodies bodies;

    public BatchProducer(String nameServer, String topic, int bodyBytes) throws Exception {
        this.topic = topic;
        bodies = new Bodies(bodyBytes, false);
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(30_000);
        producer.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        producer.start();
    }

    /** So many messages by each of so many threads; returns nanoseconds. */
    public long send(int threadCount, int countOfEach, int batchSize) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(threadCount);
        long begin = System.nanoTime();
        List<Future<?>> parts = new ArrayList<>();
        for (int thread = 0; thread < threadCount; thread++) {
            int first = thread * countOfEach;
            parts.add(threads.submit(() -> { sendShare(first, first + countOfEach, batchSize); return null; }));
        }
        for (Future<?> part : parts) {
            part.get();
        }
        long nanos = System.nanoTime() - begin;
        threads.shutdown();
        return nanos;
    }

    private void sendShare(int from, int to, int batchSize) throws Exception {
        for (int at = from; at < to; at += batchSize) {
            List<Message> batch = new ArrayList<>(batchSize);
            for (int number = at; number < Math.min(at + batchSize, to); number++) {
                batch.add(new Message(topic, null, Bodies.key(number), bodies.body(number)));
            }
            producer.send(batch);
        }
    }

    @Override
    public void close() {
        producer.shutdown();
    }
}
