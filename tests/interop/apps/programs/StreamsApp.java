import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams: a topology from topic to topic. Its arguments, if any: the processing guarantee. */
public class StreamsApp {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("application.id", System.getenv("GROUP"));
        settings.put("bootstrap.servers", System.getenv("BOOTSTRAP"));
        settings.put("state.dir", System.getenv("FOLDER"));
        if (arguments.length > 0) {
            settings.put("processing.guarantee", arguments[0]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        var text = Serdes.String();
        builder.stream(System.getenv("SOURCE"), Consumed.with(text, text))
            .mapValues(line -> line.toUpperCase())
            .to(System.getenv("TARGET"), Produced.with(text, text));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            Throwable cause = failure;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.err.println(cause);
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
    }
}
