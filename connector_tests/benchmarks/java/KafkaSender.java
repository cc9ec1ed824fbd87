import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends numbered records: number n goes to partition n % partitions; with as many headers as RocketMQ's have properties. */
public final class KafkaSender implements AutoCloseable {
    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final int partitions;
    private final Bodies bodies;
    private final boolean hasHeaders;
    private int next = 0;

    public KafkaSender(
            String servers, String topic, int partitions, int bodyBytes, boolean isCompressed, boolean hasHeaders) {
        this.hasHeaders = hasHeaders;
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
        int partition = number % partitions;
        producer.send(
                new ProducerRecord<>(topic, partition, Bodies.keyBytes(number), bodies.body(number), headers(number)));
    }

    /** What RocketMQ's producer and broker say of a message: names and values as long as theirs. */
    private List<Header> headers(int number) {
        if (!hasHeaders) {
            return List.of();
        }
        return List.of(
                header("KEYS", Bodies.key(number)),
                header("UNIQ_KEY", String.format("%032X", number)),
                header("CLUSTER", "DefaultCluster"),
                header("WAIT", "true"),
                header("TAGS", "TagA"));
    }

    private static Header header(String name, String value) {
        return new RecordHeader(name, value.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public void close() {
        producer.close();
    }
}
