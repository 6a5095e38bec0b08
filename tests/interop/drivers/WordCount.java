// Kafka Streams' word count, at least once: java WordCount.java BOOTSTRAP APPLICATION TOPIC RECORDS DIRECTORY.
// It reads the topic until it has counted two words for each record, and prints as JSON how often the
// commonest word came and how many words there are. Its store has no changelog: that would be a compacted topic.
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

class WordCount {
    public static void main(String[] arguments) throws Exception {
        long records = Long.parseLong(arguments[3]);
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", arguments[0],
            "application.id", arguments[1],
            "state.dir", arguments[4],
            "auto.offset.reset", "earliest",
            "default.key.serde", Serdes.StringSerde.class,
            "default.value.serde", Serdes.StringSerde.class,
            "statestore.cache.max.bytes", 0L));
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store = Materialized.as("counts");
        Map<String, Long> counts = new ConcurrentHashMap<>();
        CountDownLatch ended = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .flatMapValues(text -> List.of(text.split(" ")))
            .groupBy((key, word) -> word)
            .count(store.withLoggingDisabled())
            .toStream()
            .foreach((word, count) -> {
                counts.put(word, count);
                if (counts.values().stream().mapToLong(Long::longValue).sum() >= 2 * records) ended.countDown();
            });
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setUncaughtExceptionHandler(failure -> {
                System.err.println(failure);
                ended.countDown();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            ended.await(50, TimeUnit.SECONDS);
            streams.close(Duration.ofSeconds(5));
        }
        long most = counts.values().stream().mapToLong(Long::longValue).max().orElse(0);
        System.out.println("{\"most\": " + most + ", \"words\": " + counts.size() + "}");
    }
}
