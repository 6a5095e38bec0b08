import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;

/**
 * Kafka Streams: a topology from topic to topic. Its arguments, if any: the processing guarantee, with which each
 * line is joined with the count of the lines until it, and told if it isn't the one that its own number says.
 */
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
        var lines = builder.stream(System.getenv("SOURCE"), Consumed.with(text, text));
        var shouted = arguments.length > 0 ? counted(lines) : lines.mapValues(line -> line.toUpperCase());
        shouted.to(System.getenv("TARGET"), Produced.with(text, text));
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

    static KStream<String, String> counted(KStream<String, String> lines) {
        var text = Serdes.String();
        var byKind = lines.selectKey((key, line) -> line.split(" ")[0]).repartition(Repartitioned.with(text, text));
        var counts = byKind.groupByKey().count();
        return byKind.join(counts, (line, count) -> {
            boolean isRight = line.startsWith("probe") || line.equals("line " + (count - 1));
            return line.toUpperCase() + (isRight ? "" : " is number " + count);
        }, Joined.with(text, text, Serdes.Long()));
    }
}
