// The driver of Apache Kafka's own client: one request a line in, one answer a line out (rows.py).
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.security.scram.ScramLoginModule;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

class JavaClient {
    static class Absent extends Exception {}

    static final Duration WITHIN = Duration.ofSeconds(30);

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("value", call(json.readTree(line)));
            } catch (Absent absent) {
                answer.put("absent", "");
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
            case "version": return version();
            case "produce": return produce(asked);
            case "fetch": return fetch(asked);
            case "group_share":
            case "consumer_share":
                return share(asked);
            case "group_static":
            case "consumer_static":
                return returnStatic(asked);
            case "fetch_committed": return fetch(asked);
            case "transact": return transact(asked);
            case "copy": return copy(asked);
            case "take_over": return takeOver(asked);
            case "group_resume":
            case "consumer_resume":
                readAndCommit(asked, asked.get("offset").asInt());
                return readAndCommit(asked, asked.get("count").asInt() - asked.get("offset").asInt());
        }
        try (Admin admin = Admin.create(settings(asked))) {
            return administer(admin, asked);
        }
    }

    /** AppInfoParser moves from release to release; what it reads does not. */
    static String version() throws IOException {
        Properties told = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            told.load(file);
        }
        return told.getProperty("version");
    }

    static Object administer(Admin admin, JsonNode asked) throws Exception {
        String topic = asked.get("topic").asText();
        String group = asked.get("group").asText();
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
            case "list_transactions":
                return admin.listTransactions().all().get().stream().map(TransactionListing::transactionalId).toList();
            case "describe_transaction":
                TransactionDescription open = admin.describeTransactions(List.of(group)).description(group).get();
                return Map.of("state", open.state().toString(), "partitions",
                    open.topicPartitions().stream().map(TopicPartition::partition).toList());
            case "list_groups":
                return admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
            case "describe_group":
                ConsumerGroupDescription told = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                return Map.of("state", told.groupState().toString(), "members", told.members().size());
            case "group_offsets":
                return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset();
            case "reset_group":
                OffsetAndMetadata offset = new OffsetAndMetadata(asked.get("offset").asLong());
                return admin.alterConsumerGroupOffsets(group, Map.of(partition, offset)).all().get();
            case "delete_group_offsets":
                return admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
            case "delete_group":
                return admin.deleteConsumerGroups(List.of(group)).all().get();
            default:
                return administerSecurity(admin, asked);
        }
    }

    static Object administerSecurity(Admin admin, JsonNode asked) throws Exception {
        String user = asked.get("user").asText();
        ScramMechanism mechanism = ScramMechanism.SCRAM_SHA_256;
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, user));
        ResourcePattern topic = new ResourcePattern(ResourceType.TOPIC, asked.get("topic").asText(), PatternType.LITERAL);
        AclBindingFilter acls = new AclBindingFilter(topic.toFilter(), AccessControlEntryFilter.ANY);
        switch (asked.get("call").asText()) {
            case "set_password":
                ScramCredentialInfo info = new ScramCredentialInfo(mechanism, asked.get("iterations").asInt());
                String password = asked.get("password").asText();
                return admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user, info, password))).all().get();
            case "describe_user":
                Map<String, Object> described = new HashMap<>();
                admin.describeUserScramCredentials(List.of(user)).description(user).get().credentialInfos()
                    .forEach(one -> described.put(one.mechanism().mechanismName(), one.iterations()));
                return described;
            case "delete_password":
                return admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(user, mechanism))).all().get();
            case "set_quota":
                ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op(asked.get("quota").asText(), asked.get("rate").asDouble());
                return admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(op)))).all().get();
            case "describe_quotas":
                ClientQuotaFilterComponent who = ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, user);
                return admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(who))).entities().get().get(entity);
            case "create_acl":
                String principal = asked.get("principal").asText();
                AccessControlEntry may = new AccessControlEntry(principal, "*", AclOperation.READ, AclPermissionType.ALLOW);
                return admin.createAcls(List.of(new AclBinding(topic, may))).all().get();
            case "describe_acls":
                return admin.describeAcls(acls).values().get().stream()
                    .map(one -> List.of(one.entry().principal(), one.entry().operation().name())).toList();
            case "delete_acl":
                admin.deleteAcls(List.of(acls)).all().get();
                return null;
            default:
                throw new Absent();
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
                Future<?> one = producer.send(new ProducerRecord<>(topic, 0, "k" + number, "value " + number));
                if (one.isDone()) one.get(); // refused before it was sent: each further one waits for metadata
                pending.add(one);
            }
            for (Future<?> one : pending) one.get();
            return null;
        }
    }

    static KafkaProducer<String, String> transactional(JsonNode asked) {
        Map<String, Object> settings = settings(asked);
        settings.put("transactional.id", asked.get("group").asText());
        settings.put("max.block.ms", WITHIN.toMillis());
        StringSerializer text = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text);
        producer.initTransactions();
        return producer;
    }

    static void write(KafkaProducer<String, String> producer, JsonNode asked, String word) {
        producer.beginTransaction();
        for (int number = 0; number < asked.get("count").asInt(); number++) {
            producer.send(new ProducerRecord<>(asked.get("topic").asText(), 0, "k" + number, word + " " + number));
        }
        producer.flush();
    }

    static Object transact(JsonNode asked) {
        try (KafkaProducer<String, String> producer = transactional(asked)) {
            write(producer, asked, "lost");
            producer.abortTransaction();
            write(producer, asked, "value");
            producer.commitTransaction();
            return null;
        }
    }

    static Object copy(JsonNode asked) {
        String topic = asked.get("topic").asText();
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(groupSettings(asked), text, text);
             KafkaProducer<String, String> producer = transactional(asked)) {
            consumer.subscribe(List.of(topic));
            producer.beginTransaction();
            int[] copied = {0};
            long deadline = System.nanoTime() + WITHIN.toNanos();
            while (copied[0] < asked.get("count").asInt() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(one -> {
                    producer.send(new ProducerRecord<>(topic, 1, one.key(), one.value()));
                    copied[0]++;
                });
            }
            TopicPartition partition = new TopicPartition(topic, 0);
            Map<TopicPartition, OffsetAndMetadata> offset = Map.of(partition, new OffsetAndMetadata(consumer.position(partition)));
            producer.sendOffsetsToTransaction(offset, consumer.groupMetadata());
            producer.commitTransaction();
            return null;
        }
    }

    static Object takeOver(JsonNode asked) {
        try (KafkaProducer<String, String> first = transactional(asked)) {
            write(first, asked, "lost");
            try (KafkaProducer<String, String> second = transactional(asked)) {
                write(second, asked, "value");
                second.commitTransaction();
            }
            try {
                first.commitTransaction();
                return false;
            } catch (ProducerFencedException | InvalidProducerEpochException refused) {
                return true;
            }
        }
    }

    static Object fetch(JsonNode asked) {
        StringDeserializer text = new StringDeserializer();
        Map<String, Object> settings = settings(asked);
        if (asked.get("call").asText().equals("fetch_committed")) settings.put("isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
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

    /** A member of the group, which a thread polls until it is closed. */
    static class Member implements AutoCloseable, ConsumerRebalanceListener {
        volatile List<Integer> partitions = List.of();
        volatile int revocations = 0;
        volatile boolean open = true;
        final Thread thread;

        Member(JsonNode asked, String instance) {
            Map<String, Object> settings = groupSettings(asked);
            if (!instance.isEmpty()) settings.put("group.instance.id", instance);
            thread = new Thread(() -> {
                StringDeserializer text = new StringDeserializer();
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
                    consumer.subscribe(List.of(asked.get("topic").asText()), this);
                    while (open) consumer.poll(Duration.ofMillis(100));
                }
            });
            thread.start();
        }

        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            Stream<Integer> more = assigned.stream().map(TopicPartition::partition);
            partitions = Stream.concat(partitions.stream(), more).sorted().toList();
        }

        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            List<Integer> gone = revoked.stream().map(TopicPartition::partition).toList();
            if (!gone.isEmpty()) revocations++;
            partitions = partitions.stream().filter(one -> !gone.contains(one)).toList();
        }

        public void close() throws InterruptedException {
            open = false;
            thread.join();
        }
    }

    static Object share(JsonNode asked) throws Exception {
        try (Member first = new Member(asked, "")) {
            List<List<Integer>> together;
            try (Member second = new Member(asked, "")) {
                until("each has one", () -> first.partitions.size() == 1 && second.partitions.size() == 1);
                together = new ArrayList<>(List.of(first.partitions, second.partitions));
            }
            together.sort(Comparator.comparing(one -> one.get(0)));
            until("the first has both", () -> first.partitions.size() == 2);
            return Map.of("together", together, "alone", first.partitions);
        }
    }

    static Object returnStatic(JsonNode asked) throws Exception {
        try (Member stays = new Member(asked, "static-2")) {
            List<Integer> before;
            int revocations;
            try (Member first = new Member(asked, "static-1")) {
                until("each has one", () -> first.partitions.size() == 1 && stays.partitions.size() == 1);
                before = first.partitions;
                revocations = stays.revocations;
            }
            try (Member again = new Member(asked, "static-1")) {
                until("it has partitions again", () -> !again.partitions.isEmpty());
                int since = stays.revocations - revocations;
                return Map.of("before", before, "after", again.partitions, "revocations", since);
            }
        }
    }

    static void until(String what, BooleanSupplier isSo) throws Exception {
        long deadline = System.nanoTime() + 2 * WITHIN.toNanos();
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > deadline) throw new TimeoutException("still not: " + what);
            Thread.sleep(50);
        }
    }

    static Object readAndCommit(JsonNode asked, int count) {
        Map<String, Object> settings = groupSettings(asked);
        settings.put("max.poll.records", count);
        StringDeserializer text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(asked.get("topic").asText()));
            List<List<String>> found = new ArrayList<>();
            long deadline = System.nanoTime() + WITHIN.toNanos();
            while (found.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(one -> found.add(List.of(one.key(), one.value())));
            }
            consumer.commitSync();
            return found;
        }
    }

    static Map<String, Object> groupSettings(JsonNode asked) {
        Map<String, Object> settings = settings(asked);
        settings.put("group.id", asked.get("group").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        if (asked.get("call").asText().startsWith("consumer_")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", RangeAssignor.class.getName());
            settings.put("heartbeat.interval.ms", 500);
        }
        return settings;
    }

    static Map<String, Object> settings(JsonNode asked) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", asked.get("bootstrap").asText());
        settings.put("default.api.timeout.ms", (int) WITHIN.toMillis());
        settings.put("delivery.timeout.ms", (int) WITHIN.toMillis());
        settings.put("request.timeout.ms", 20000);
        if (!asked.path("login").isEmpty()) logIn(asked.get("login"), settings);
        return settings;
    }

    /** How it gets in where the request says so (security.py). */
    static void logIn(JsonNode login, Map<String, Object> settings) {
        settings.put("security.protocol", login.get("protocol").asText());
        settings.put("ssl.truststore.type", "PEM");
        settings.put("ssl.truststore.location", login.get("ca").asText());
        String identity = login.get("identity").asText();
        if (!identity.isEmpty()) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", identity);
        }
        String mechanism = login.get("mechanism").asText();
        if (mechanism.isEmpty()) return;
        settings.put("sasl.mechanism", mechanism);
        if (mechanism.equals("OAUTHBEARER")) {
            String url = Path.of(login.get("token_file").asText()).toUri().toString();
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            settings.put("sasl.oauthbearer.token.endpoint.url", url);
            settings.put("sasl.login.callback.handler.class", OAuthBearerLoginCallbackHandler.class.getName());
            settings.put("sasl.jaas.config", OAuthBearerLoginModule.class.getName() + " required;");
            return;
        }
        Class<?> module = mechanism.equals("PLAIN") ? PlainLoginModule.class : ScramLoginModule.class;
        String who = "username=\"%s\" password=\"%s\"".formatted(login.get("user").asText(), login.get("password").asText());
        settings.put("sasl.jaas.config", module.getName() + " required " + who + ";");
    }
}
