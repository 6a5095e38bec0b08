import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.ref.Reference;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Kafka's own assignors on the groups of bench/assignments.py. Arguments: assignor, topics, partitions of each,
 * rounds. Standard input: of each member the places of its topics, separated by commas; the last is the one more.
 * Prints a line for "from nothing" and one for "one more": the first round's processor time and the median, in
 * ms, the moved partitions, and the MB that the assignment holds.
 */
public final class Assignors {
    /** The assignor takes maps of this class only. */
    private static final Map<Uuid, Set<Integer>> NOTHING = Collections.unmodifiableMap(new HashMap<>());

    private record Subscription(Set<Uuid> subscribedTopicIds) implements MemberSubscription {
        public Optional<String> rackId() {
            return Optional.empty();
        }

        public Optional<String> instanceId() {
            return Optional.empty();
        }
    }

    private record Group(
            Map<String, Subscription> members,
            Map<String, MemberAssignment> held,
            Map<Uuid, Set<Integer>> taken,
            SubscriptionType subscriptionType) implements GroupSpec {
        public Collection<String> memberIds() {
            return members.keySet();
        }

        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return taken.getOrDefault(topic, Set.of()).contains(partition);
        }

        public boolean isPartitionAssignable(Uuid topic, int partition) {
            return true;
        }

        public MemberSubscription memberSubscription(String member) {
            return members.get(member);
        }

        public MemberAssignment memberAssignment(String member) {
            MemberAssignment own = held.get(member);
            return own == null ? () -> NOTHING : () -> Collections.unmodifiableMap(own.partitions());
        }
    }

    public static void main(String[] arguments) throws IOException {
        ConsumerGroupPartitionAssignor assignor =
                arguments[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        int topics = Integer.parseInt(arguments[1]);
        int partitions = Integer.parseInt(arguments[2]);
        int rounds = Integer.parseInt(arguments[3]);
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return partitions;
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        Uuid[] ids = new Uuid[topics];
        for (int place = 0; place < topics; place++) ids[place] = new Uuid(1, place + 1);
        Map<String, Subscription> members = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String last = "";
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Set<Uuid> own = new HashSet<>();
            for (String topic : line.split(",")) own.add(ids[Integer.parseInt(topic)]);
            last = String.format("m%06d", members.size());
            members.put(last, new Subscription(own));
        }
        boolean isEqual = new HashSet<>(members.values()).size() == 1;
        SubscriptionType type = isEqual ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, Subscription> more = new HashMap<>(members);
        members.remove(last);
        Group first = new Group(members, Map.of(), Map.of(), type);
        Map<String, MemberAssignment> held = measure(assignor, first, describer, rounds);
        Map<Uuid, Set<Integer>> taken = new HashMap<>();
        held.values().forEach(own -> own.partitions().forEach(
                (topic, some) -> taken.computeIfAbsent(topic, each -> new HashSet<>()).addAll(some)));
        measure(assignor, new Group(more, held, taken, type), describer, rounds);
    }

    private static Map<String, MemberAssignment> measure(
            ConsumerGroupPartitionAssignor assignor, Group group, SubscribedTopicDescriber describer, int rounds) {
        double[] took = new double[rounds];
        Map<String, MemberAssignment> found = Map.of();
        for (int round = 0; round < rounds; round++) {
            long began = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            found = assignor.assign(group, describer).members();
            took[round] = (ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - began) / 1e6;
        }
        Map<String, MemberAssignment> again = assignor.assign(group, describer).members();
        usedBytes();
        double heldMb = usedBytes();
        Reference.reachabilityFence(again);
        again = null;
        heldMb = (heldMb - usedBytes()) / 1e6;
        int moved = 0;
        for (Map.Entry<String, MemberAssignment> member : found.entrySet()) {
            Map<Uuid, Set<Integer>> before = group.memberAssignment(member.getKey()).partitions();
            for (Map.Entry<Uuid, Set<Integer>> topic : member.getValue().partitions().entrySet()) {
                Set<Integer> own = new HashSet<>(topic.getValue());
                own.removeAll(before.getOrDefault(topic.getKey(), Set.of()));
                moved += own.size();
            }
        }
        double cold = took[0];
        Arrays.sort(took);
        System.out.printf("%.3f %.3f %d %.3f%n", cold, took[rounds / 2], moved, heldMb);
        return found;
    }

    private static long usedBytes() {
        for (int round = 0; round < 3; round++) System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
