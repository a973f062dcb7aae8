import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The Java client as a member: the counterpart of member.py, with the same arguments and output. */
public final class Member {
    private static final Duration POLL = Duration.ofSeconds(1);
    private static final long PATIENCE_NS = 30_000_000_000L;
    private static final String HEARTBEAT_MS = "1000";
    private static final String ASSIGNORS = "org.apache.kafka.clients.consumer.";
    private static final Map<String, Map<String, String>> PROTOCOLS =
        Map.of(
            "classic",
            Map.of(
                "group.protocol", "classic",
                "heartbeat.interval.ms", HEARTBEAT_MS,
                "partition.assignment.strategy", ASSIGNORS + "RangeAssignor"),
            "cooperative",
            Map.of(
                "group.protocol", "classic",
                "heartbeat.interval.ms", HEARTBEAT_MS,
                "partition.assignment.strategy", ASSIGNORS + "CooperativeStickyAssignor"),
            "consumer", Map.of("group.protocol", "consumer"));

    private final String bootstrap;
    private final List<String> topics;
    private final String protocol;

    private Member(String bootstrap, String topic, String protocol) {
        this.bootstrap = bootstrap;
        this.topics = List.of(topic);
        this.protocol = protocol;
    }

    /** Arguments: bootstrap, topic, protocol, then `first` and rounds, or `watch` and a group. */
    public static void main(String[] arguments) throws IOException {
        Member member = new Member(arguments[0], arguments[1], arguments[2]);
        if (arguments[3].equals("first")) {
            member.first(Integer.parseInt(arguments[4]));
        } else {
            member.watch(arguments[4]);
        }
    }

    private void first(int rounds) {
        for (int round = 0; round < rounds; round++) {
            long begun = System.nanoTime();
            try (KafkaConsumer<byte[], byte[]> consumer =
                construct("first-" + UUID.randomUUID(), "earliest")) {
                long subscribing = System.nanoTime();
                consumer.subscribe(topics);
                while (consumer.poll(POLL).isEmpty()) {
                    if (System.nanoTime() - subscribing > PATIENCE_NS) {
                        throw new IllegalStateException("no record");
                    }
                }
                long end = System.nanoTime();
                System.out.printf(
                    "{\"first_record_ms\": %f, \"with_construction_ms\": %f}%n",
                    (end - subscribing) / 1e6, (end - begun) / 1e6);
            }
        }
    }

    private void watch(String group) throws IOException {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaConsumer<byte[], byte[]> consumer = construct(group, "latest")) {
            System.out.println("{\"ready\": true}");
            commands.readLine();
            long subscribed = System.nanoTime();
            consumer.subscribe(topics);
            Map<Integer, List<Long>> polls = read(consumer, endOf(commands));
            System.out.printf(
                "{\"subscribed\": %d, \"polls\": %s}%n", subscribed, json(polls));
        }
    }

    private static Map<Integer, List<Long>> read(
        KafkaConsumer<byte[], byte[]> consumer, AtomicBoolean ended) {
        Map<Integer, List<Long>> polls = new HashMap<>();
        Set<Integer> owned = Set.of();
        while (!ended.get()) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            long now = System.nanoTime();
            for (TopicPartition partition : records.partitions()) {
                polls.computeIfAbsent(partition.partition(), number -> new ArrayList<>()).add(now);
            }
            Set<Integer> seen = new TreeSet<>();
            consumer.assignment().forEach(partition -> seen.add(partition.partition()));
            if (!records.isEmpty() && !seen.equals(owned)) {
                owned = seen;
                System.out.printf("{\"owned\": %s}%n", owned);
            }
        }
        return polls;
    }

    /** Becomes true when the next command arrives. */
    private static AtomicBoolean endOf(BufferedReader commands) {
        AtomicBoolean ended = new AtomicBoolean();
        Thread listener =
            new Thread(
                () -> {
                    try {
                        commands.readLine();
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    } finally {
                        ended.set(true);
                    }
                });
        listener.setDaemon(true);
        listener.start();
        return ended;
    }

    private static String json(Map<Integer, List<Long>> polls) {
        List<String> entries = new ArrayList<>();
        new TreeMap<>(polls)
            .forEach((partition, times) -> entries.add("\"" + partition + "\": " + times));
        return "{" + String.join(", ", entries) + "}";
    }

    private KafkaConsumer<byte[], byte[]> construct(String group, String reset) {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        options.put("group.id", group);
        options.put("auto.offset.reset", reset);
        options.putAll(PROTOCOLS.get(protocol));
        return new KafkaConsumer<>(
            options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
