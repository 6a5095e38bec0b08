// The driver of Apache Kafka's own client: one request a line in, one answer a line out (rows.py).
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

class JavaClient {
    static final Duration WITHIN = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("value", call(json.readTree(line)));
            } catch (ExecutionException failed) {
                answer.put("error", failed.getCause().toString());
            } catch (Exception failed) {
                answer.put("error", failed.toString());
            }
            System.out.println(json.writeValueAsString(answer));
        }
    }

    static Object call(JsonNode asked) throws Exception {
        switch (asked.get("call").asText()) {
            case "version": return AppInfoParser.getVersion();
            case "produce": return produce(asked);
            case "fetch": return fetch(asked);
        }
        try (Admin admin = Admin.create(settings(asked))) {
            return administer(admin, asked);
        }
    }

    static Object administer(Admin admin, JsonNode asked) throws Exception {
        String topic = asked.get("topic").asText();
        TopicPartition partition = new TopicPartition(topic, 0);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        String setting = asked.get("setting").asText();
        switch (asked.get("call").asText()) {
            case "connect":
                return admin.describeCluster().nodes().get().size();
            case "list_topics":
                return admin.listTopics().names().get();
            case "create":
                short factor = (short) asked.get("replication_factor").asInt();
                return admin.createTopics(List.of(new NewTopic(topic, asked.get("partitions").asInt(), factor))).all().get();
            case "delete":
                return admin.deleteTopics(List.of(topic)).all().get();
            case "describe_configs":
                return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(setting).value();
            case "alter_configs":
                ConfigEntry entry = new ConfigEntry(setting, asked.get("value").asText());
                Collection<AlterConfigOp> change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                return admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
            case "offset_by_time":
                OffsetSpec from = OffsetSpec.forTimestamp(asked.get("timestamp_ms").asLong());
                return admin.listOffsets(Map.of(partition, from)).partitionResult(partition).get().offset();
            case "delete_records":
                RecordsToDelete before = RecordsToDelete.beforeOffset(asked.get("offset").asLong());
                return admin.deleteRecords(Map.of(partition, before)).all().get();
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    static Object produce(JsonNode asked) throws Exception {
        Map<String, Object> settings = settings(asked);
        settings.put("acks", "all");
        settings.put("compression.type", asked.get("codec").asText());
        settings.put("enable.idempotence", asked.get("idempotent").asBoolean());
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            List<Future<?>> pending = new ArrayList<>();
            for (int number = 0; number < asked.get("count").asInt(); number++) {
                String topic = asked.get("topic").asText();
                pending.add(producer.send(new ProducerRecord<>(topic, 0, "k" + number, "value " + number)));
            }
            for (Future<?> one : pending) one.get();
            return null;
        }
    }

    static Object fetch(JsonNode asked) {
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(asked), text, text)) {
            List<TopicPartition> assigned = List.of(new TopicPartition(asked.get("topic").asText(), 0));
            consumer.assign(assigned);
            consumer.seekToBeginning(assigned);
            List<List<String>> found = new ArrayList<>();
            long deadline = System.nanoTime() + WITHIN.toNanos();
            while (found.size() < asked.get("count").asInt() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(one -> found.add(List.of(one.key(), one.value())));
            }
            return found;
        }
    }

    static Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        settings.put("default.api.timeout.ms", (int) WITHIN.toMillis());
        settings.put("delivery.timeout.ms", (int) WITHIN.toMillis());
        settings.put("request.timeout.ms", 20000);
        return settings;
    }
}
