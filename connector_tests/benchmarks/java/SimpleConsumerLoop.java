import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** What RocketMQ's own gRPC client does with a topic: messages are received and acknowledged one by one. */
public final class SimpleConsumerLoop {
    private static final int AT_MOST = 32;
    private static final Duration WAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofSeconds(60);
    private static final int SILENT_RECEIVES = 6;

    private SimpleConsumerLoop() {}

    /** Nanoseconds from the first receive until expected messages are acknowledged. */
    public static long consume(String endpoints, String group, String topic, int expected) throws Exception {
        ClientConfiguration configuration =
                ClientConfiguration.newBuilder().setEndpoints(endpoints).enableSsl(false).build();
        try (SimpleConsumer consumer = ClientServiceProvider.loadService()
                .newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setAwaitDuration(WAIT)
                .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
                .build()) {
            long begin = System.nanoTime();
            int silent = 0;
            List<CompletableFuture<Void>> acknowledgements = new ArrayList<>();
            for (int count = 0; count < expected; ) {
                List<MessageView> found = consumer.receive(AT_MOST, INVISIBLE);
                count += found.size();
                for (MessageView message : found) {
                    acknowledgements.add(consumer.ackAsync(message));
                }
                silent = found.isEmpty() ? silent + 1 : 0;
                if (silent == SILENT_RECEIVES) {
                    throw new IllegalStateException("no more after " + count + " of " + expected + " messages");
                }
            }
            for (CompletableFuture<Void> one : acknowledgements) {
                one.get();
            }
            return System.nanoTime() - begin;
        }
    }
}
