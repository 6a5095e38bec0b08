// One member of a group around Kafka's own client: what member.py is around the others. It keeps the same diary.
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import sun.misc.Signal;

class JavaMember {
    static final Duration ANSWER = Duration.ofSeconds(5);
    static final long COMMIT_NS = 100_000_000;

    final Map<String, String> options;
    final KafkaConsumer<byte[], byte[]> consumer;
    final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    volatile boolean ends = false;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int at = 0; at < arguments.length; at += 2) options.put(arguments[at].substring(2), arguments[at + 1]);
        new JavaMember(options).run();
    }

    JavaMember(Map<String, String> options) {
        this.options = options;
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("group.id", options.get("group"));
        settings.put("client.id", options.get("name"));
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", 5000);
        settings.put("default.api.timeout.ms", (int) ANSWER.toMillis());
        settings.put("request.timeout.ms", (int) ANSWER.toMillis());
        settings.put("group.protocol", options.get("protocol"));
        if (options.get("protocol").equals("classic")) {
            settings.put("session.timeout.ms", 6000);
            settings.put("heartbeat.interval.ms", 1000);
            settings.put("partition.assignment.strategy", RangeAssignor.class.getName());
        }
        if (options.containsKey("instance")) settings.put("group.instance.id", options.get("instance"));
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    void run() throws Exception {
        for (String name : List.of("TERM", "INT")) Signal.handle(new Signal(name), signal -> ends = true);
        consumer.subscribe(List.of(options.get("topic")), new Listener());
        long committed = System.nanoTime();
        while (!ends) {
            ConsumerRecords<byte[], byte[]> found;
            try {
                found = consumer.poll(Duration.ofMillis(200));
            } catch (RetriableException error) { // It could not learn where to begin: poll again.
                refused("poll(): " + error);
                continue;
            }
            for (TopicPartition partition : found.partitions()) note(partition, found.records(partition));
            if (!next.isEmpty() && System.nanoTime() - committed >= COMMIT_NS) {
                committed = System.nanoTime();
                commit();
            }
        }
        write("Left", "\"at_ns\":" + System.nanoTime());
        consumer.close();
    }

    void note(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) {
        long first = records.get(0).offset(), last = first - 1;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (record.offset() != last + 1) {
                read(partition, first, last);
                first = record.offset();
            }
            last = record.offset();
        }
        read(partition, first, last);
        next.put(partition, new OffsetAndMetadata(last + 1));
    }

    void read(TopicPartition partition, long first, long last) {
        String where = "\"partition\":%d,\"first\":%d,\"last\":%d".formatted(partition.partition(), first, last);
        write("Read", "\"at_ns\":" + System.nanoTime() + "," + where);
    }

    void commit() {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(next);
        next.clear();
        long asked = System.nanoTime();
        try {
            consumer.commitSync(offsets, ANSWER);
        } catch (KafkaException error) {
            refused("commit: " + error);
            return;
        }
        String told = offsets.entrySet().stream()
            .map(each -> "\"" + each.getKey().partition() + "\":" + each.getValue().offset())
            .collect(Collectors.joining(","));
        write("Committed", "\"asked_ns\":%d,\"at_ns\":%d,\"offsets\":{%s}".formatted(asked, System.nanoTime(), told));
    }

    class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> given) {
            moved("Assigned", given);
            if (given.isEmpty()) return;
            long asked = System.nanoTime();
            try {
                Map<TopicPartition, OffsetAndMetadata> found = consumer.committed(Set.copyOf(given), ANSWER);
                for (TopicPartition each : given) {
                    long offset = found.get(each) == null ? -1 : found.get(each).offset();
                    String began = "\"asked_ns\":%d,\"at_ns\":%d,\"partition\":%d,\"offset\":%d";
                    write("Began", began.formatted(asked, System.nanoTime(), each.partition(), offset));
                }
            } catch (KafkaException error) { // The client asks by itself where to begin.
                refused("committed(): " + error);
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> gone) {
            try {
                while (options.containsKey("hold") && Files.exists(Path.of(options.get("hold")))) Thread.sleep(50);
            } catch (InterruptedException ended) {
                ends = true;
            }
            moved("Revoked", gone);
            next.keySet().removeAll(gone);
        }
    }

    void moved(String what, Collection<TopicPartition> partitions) {
        String told = partitions.stream()
            .map(each -> String.valueOf(each.partition()))
            .collect(Collectors.joining(","));
        write(what, "\"at_ns\":%d,\"partitions\":[%s]".formatted(System.nanoTime(), told));
    }

    void refused(String why) {
        String plain = why.replaceAll("[^ -~]|[\"\\\\]", " ");
        write("Refused", "\"at_ns\":%d,\"why\":\"%s\"".formatted(System.nanoTime(), plain.substring(0, Math.min(200, plain.length()))));
    }

    /** System.nanoTime is the machine's monotonic clock, as Python's time.monotonic_ns. */
    void write(String what, String fields) {
        try {
            String line = "{\"type\":\"" + what + "\"," + fields + "}\n";
            Files.writeString(Path.of(options.get("diary")), line, StandardOpenOption.APPEND, StandardOpenOption.CREATE);
        } catch (IOException failed) {
            throw new IllegalStateException(failed);
        }
    }
}
