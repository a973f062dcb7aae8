import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Runs Kafka's own assignors: a group per line comes in as JSON, its assignment goes out. */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader groups = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = groups.readLine(); line != null; line = groups.readLine()) {
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        }
    }

    private static Map<String, List<String>> assign(JsonNode group) {
        ConsumerPartitionAssignor assignor = named(group.get("assignor").asText());
        Map<String, ConsumerPartitionAssignor.Subscription> members = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            members.put(member.get("id").asText(), subscription(assignor, member));
        }
        // One that has not seen the members' assignments.
        assignor = named(group.get("assignor").asText());
        Map<String, List<String>> assigned = new TreeMap<>();
        assignor.assign(cluster(group.get("topics")), new ConsumerPartitionAssignor.GroupSubscription(members))
            .groupAssignment()
            .forEach((id, assignment) -> {
                List<String> partitions = new ArrayList<>();
                assignment.partitions().forEach(each -> partitions.add(each.topic() + "-" + each.partition()));
                assigned.put(id, partitions);
            });
        return assigned;
    }

    private static ConsumerPartitionAssignor named(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException(name);
        }
    }

    private static ConsumerPartitionAssignor.Subscription subscription(
            ConsumerPartitionAssignor assignor, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(each -> topics.add(each.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(each ->
            owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        int generation = member.get("generation").asInt();
        Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
        Optional<String> rack = Optional.ofNullable(member.get("rack").textValue());
        assignor.onAssignment(
            new ConsumerPartitionAssignor.Assignment(owned),
            new ConsumerGroupMetadata("group", generation, member.get("id").asText(), instance));
        ConsumerPartitionAssignor.Subscription subscription =
            new ConsumerPartitionAssignor.Subscription(
                topics, assignor.subscriptionUserData(new HashSet<>(topics)), owned, generation, rack);
        subscription.setGroupInstanceId(instance);
        return subscription;
    }

    /** A broker for each rack: its replica stands for any in that rack. */
    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> brokers = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().size(); number++) {
                List<Node> replicas = new ArrayList<>();
                topic.getValue().get(number).forEach(rack -> replicas.add(
                    brokers.computeIfAbsent(rack.asText(), name -> new Node(brokers.size(), name, 9092, name))));
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), number, Node.noNode(), array, array));
            }
        });
        return new Cluster("cluster", new ArrayList<>(brokers.values()), partitions, Set.of(), Set.of());
    }
}
