// Transactional producers of Apache Kafka's own client, for java_producer.py: one call a line in; out, a line for
// each record that was acknowledged since, then one with what came of the call. Fields are parted by tabs.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaProducers {
    static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    static final Queue<String> acknowledged = new ConcurrentLinkedQueue<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            String answer = answer(line.split("\t"));
            for (String one = acknowledged.poll(); one != null; one = acknowledged.poll()) {
                System.out.println("acknowledged\t" + one);
            }
            System.out.println(answer);
        }
        System.exit(0); // What is open stays open, as after a crash.
    }

    static String answer(String[] call) {
        try {
            carryOut(call);
            return "done";
        } catch (RuntimeException error) {
            return String.join("\t", "failed", fate(call[1], error), Errors.forException(error).name(),
                error.toString().replaceAll("\\s+", " "));
        }
    }

    /** What is left to do after an error: what Kafka's documentation of the producer says. */
    static String fate(String call, RuntimeException error) {
        boolean isOver = error instanceof ProducerFencedException || error instanceof AuthorizationException
            || error instanceof UnsupportedVersionException || error instanceof IllegalStateException;
        if (isOver) return "over";
        return error instanceof RetriableException && !call.equals("offsets") && !call.equals("send") ? "again" : "abort";
    }

    static void carryOut(String[] call) {
        KafkaProducer<String, String> producer = producers.get(call[0]);
        switch (call[1]) {
            case "open" -> producers.put(call[0], open(call));
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(call[2], Integer.valueOf(call[3]), null, call[4]),
                (place, error) -> {
                    if (error == null) acknowledged.add(call[4] + "\t" + place.offset());
                });
            case "offsets" -> producer.sendOffsetsToTransaction(offsets(call), group(call[2]));
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "flush" -> producer.flush();
            case "drop" -> producers.remove(call[0]).close(Duration.ZERO);
            default -> throw new IllegalStateException(call[1]);
        }
    }

    static KafkaProducer<String, String> open(String[] call) {
        StringSerializer text = new StringSerializer();
        Map<String, Object> settings = new HashMap<>();
        for (String setting : List.of(call).subList(2, call.length)) {
            settings.put(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        return new KafkaProducer<>(settings, text, text);
    }

    /** Of a consumer that is no member of a group. */
    @SuppressWarnings("removal")
    static ConsumerGroupMetadata group(String id) {
        return new ConsumerGroupMetadata(id);
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(String[] call) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int place = 3; place < call.length; place += 3) {
            offsets.put(new TopicPartition(call[place], Integer.parseInt(call[place + 1])),
                new OffsetAndMetadata(Long.parseLong(call[place + 2])));
        }
        return offsets;
    }
}
