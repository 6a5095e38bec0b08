import io.vertx.core.Vertx;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.producer.KafkaProducer;
import io.vertx.kafka.client.producer.KafkaProducerRecord;
import java.util.Map;

/** Vert.x: a consumer whose handler writes. */
public class VertxApp {
    private static final String TEXT = "org.apache.kafka.common.serialization.String";

    public static void main(String[] arguments) {
        Vertx vertx = Vertx.vertx();
        String brokers = System.getenv("BOOTSTRAP");
        KafkaProducer<String, String> producer = KafkaProducer.create(vertx, Map.of(
            "bootstrap.servers", brokers, "key.serializer", TEXT + "Serializer", "value.serializer", TEXT + "Serializer"));
        KafkaConsumer<String, String> consumer = KafkaConsumer.create(vertx, Map.of(
            "bootstrap.servers", brokers, "group.id", System.getenv("GROUP"),
            "key.deserializer", TEXT + "Deserializer", "value.deserializer", TEXT + "Deserializer"));
        consumer.handler(line ->
            producer.send(KafkaProducerRecord.create(System.getenv("TARGET"), line.value().toUpperCase())));
        consumer.subscribe(System.getenv("SOURCE")).onFailure(Throwable::printStackTrace);
    }
}
