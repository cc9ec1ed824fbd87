import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends messages in transactions of their own, all of which end in the same way. Its producers live as long as the JVM: the
 * end of a transaction is sent without an answer, and lost with a producer that is shut down.
 */
public final class TransactionSender {
    private TransactionSender() {}

    /** A message for each line of bodies; outcome is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW, as RocketMQ spells it. */
    public static void send(String namesrv, String topic, String bodies, String outcome) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer("transactions-" + System.nanoTime());
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(60_000); // 3 s by default, which a busy machine may need
        producer.setTransactionListener(always(LocalTransactionState.valueOf(outcome)));
        producer.start();
        for (String body : bodies.split("\n")) {
            Message message = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
            send(producer, message);
        }
    }

    /** Again if the name server did not respond in time, before anything was sent: Java's limit for that is fixed. */
    private static void send(TransactionMQProducer producer, Message message) throws MQClientException {
        for (int triesLeft = 9; ; triesLeft--) {
            try {
                producer.sendMessageInTransaction(message, null);
                return;
            } catch (MQClientException failure) {
                if (triesLeft == 0 || !(failure.getCause() instanceof IllegalStateException)) {
                    throw failure;
                }
            }
        }
    }

    private static TransactionListener always(LocalTransactionState outcome) {
        return new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return outcome;
            }
        };
    }
}
