import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends numbered records: number n goes to partition n % partitions. */
public final class KafkaSender implements AutoCloseable {
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final int partitions;
    private final Bodies bodies;
    private int next = 0;

    public KafkaSender(String servers, String topic, int partitions, int bodyBytes, boolean isCompressed) {
        this.topic = topic;
        this.partitions = partitions;
        this.bodies = new Bodies(bodyBytes, isCompressed);
        producer = new KafkaProducer<>(
                Map.of(
                        "bootstrap.servers", servers,
                        "batch.size", 256 * 1024,
                        "compression.type", isCompressed ? "gzip" : "none"),
                new ByteArraySerializer(),
                new ByteArraySerializer());
    }

    /** As fast as it goes; returns nanoseconds. */
    public long fill(int count) {
        long begin = System.nanoTime();
        for (int last = next + count; next < last; next++) {
            send(next);
        }
        producer.flush();
        return System.nanoTime() - begin;
    }

    /** At a steady rate: every millisecond what is due by then. */
    public void pace(int count, int perSecond) throws InterruptedException {
        long begin = System.nanoTime();
        int first = next;
        while (next < first + count) {
            long due = first + Math.min(count, (System.nanoTime() - begin) * perSecond / 1_000_000_000L);
            for (; next < due; next++) {
                send(next);
            }
            Thread.sleep(1);
        }
        producer.flush();
    }

    private void send(int number) {
        producer.send(new ProducerRecord<>(topic, number % partitions, Bodies.keyBytes(number), bodies.body(number)));
    }

    @Override
    public void close() {
        producer.close();
    }
}
