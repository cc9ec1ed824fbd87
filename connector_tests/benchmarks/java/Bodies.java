import java.nio.charset.StandardCharsets;
import java.util.Random;

/** Bodies and keys of numbered messages, the same for every broker. */
final class Bodies {
    private static final int STOCK_BYTES = 1 << 20;
    private static final String TEXT = "{\"order\": 4711, \"state\": \"paid\", \"amount\": 99.5}, ";

    private final byte[] stock;
    private final int bodyBytes;

    /** Cut from random bytes, or from text that compresses. */
    Bodies(int bodyBytes, boolean isCompressed) {
        this.bodyBytes = bodyBytes;
        stock = new byte[STOCK_BYTES + bodyBytes];
        new Random(7).nextBytes(stock);
        for (int at = 0; isCompressed && at < stock.length; at++) {
            stock[at] = at % 64 < 8 ? stock[at] : (byte) TEXT.charAt(at % TEXT.length());
        }
    }

    byte[] body(int number) {
        byte[] body = new byte[bodyBytes];
        System.arraycopy(stock, (int) (number * 64L % STOCK_BYTES), body, 0, bodyBytes);
        return body;
    }

    static String key(int number) {
        return "key-" + number;
    }

    static byte[] keyBytes(int number) {
        return key(number).getBytes(StandardCharsets.UTF_8);
    }
}
