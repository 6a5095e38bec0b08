// Kafka Streams' word count, at least once: java WordCount.java BOOTSTRAP APPLICATION TOPIC RECORDS DIRECTORY.
// It reads the topic until its store has two words for each record, and prints as JSON how often the commonest
// word came and how many words there are. In an empty DIRECTORY the store comes back from its changelog.
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;

class WordCount {
    static long most, words, all;

    public static void main(String[] arguments) throws Exception {
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
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .flatMapValues(text -> List.of(text.split(" ")))
            .groupBy((key, word) -> word)
            .count(store);
        long end = System.nanoTime() + Duration.ofSeconds(50).toNanos();
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setUncaughtExceptionHandler(failure -> {
                System.err.println(failure);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            long expected = 2 * Long.parseLong(arguments[3]);
            while (all < expected && System.nanoTime() < end) {
                Thread.sleep(100);
                if (streams.state() == KafkaStreams.State.RUNNING) look(streams);
            }
            streams.close(Duration.ofSeconds(5));
        }
        System.out.println("{\"most\": " + most + ", \"words\": " + words + "}");
    }

    static void look(KafkaStreams streams) {
        most = words = all = 0;
        var type = QueryableStoreTypes.<String, Long>keyValueStore();
        var counts = streams.store(StoreQueryParameters.fromNameAndType("counts", type));
        try (var each = counts.all()) {
            each.forEachRemaining(one -> {
                most = Math.max(most, one.value);
                words++;
                all += one.value;
            });
        }
    }
}
