package marketlog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StreamPartitioner;
import org.apache.kafka.streams.state.Stores;

/**
 * The book as a Kafka Streams program. Takes the path of its settings (JSON); obeys `pause` and `resume` on standard
 * input and answers each with its name; ends at the end of standard input. Says `running` when it first runs.
 */
public final class StreamsBook {
    static final String STORE = "book";
    static final String CHANGES = "changes";
    static final String REFRESHES = "refreshes";
    static final String MARK = "refresh|";

    private StreamsBook() {}

    public static void main(String[] args) throws Exception {
        JsonNode settings = new ObjectMapper().readTree(Path.of(args[0]).toFile());
        Catalog catalog = new Catalog(
            Path.of(settings.get("catalog").textValue()), settings.get("catalogVersion").textValue());
        KafkaStreams streams = new KafkaStreams(topologyOf(settings, catalog), configOf(settings));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) say("running");
        });
        streams.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            if (command.equals("pause")) streams.pause();
            else if (command.equals("resume")) streams.resume();
            else throw new IllegalArgumentException("no such command: " + command);
            say(command);
        }
        streams.close();
    }

    private static synchronized void say(String word) {
        System.out.println(word);
    }

    private static Topology topologyOf(JsonNode settings, Catalog catalog) {
        String input = settings.get("input").textValue();
        JsonNode topics = settings.get("outputs");
        var bytes = new ByteArrayDeserializer();
        var serialized = new ByteArraySerializer();
        Topology topology = new Topology();
        topology.addSource("input", bytes, bytes, input);
        topology.addProcessor("book", () -> new BookProcessor(new Events(settings.get("schemas")), catalog), "input");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(
                    Stores.inMemoryKeyValueStore(STORE), Serdes.ByteArray(), Serdes.ByteArray())
                .withLoggingEnabled(Map.of("max.message.bytes", "16777216"))
                .withCachingDisabled(),
            "book");
        topology.addSink(
            CHANGES, topics.get(CHANGES).textValue(), serialized, serialized, new MarksToAll(), "book");
        topology.addSink(REFRESHES, topics.get(REFRESHES).textValue(), serialized, serialized, "book");
        return topology;
    }

    private static Properties configOf(JsonNode settings) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, settings.get("applicationId").textValue());
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, settings.get("brokers").textValue());
        settings.get("client").properties().forEach(each -> config.put(each.getKey(), each.getValue().textValue()));
        config.put(StreamsConfig.STATE_DIR_CONFIG, settings.get("stateDir").textValue());
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, settings.get("threads").intValue());
        config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, -1);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        config.put(StreamsConfig.producerPrefix("compression.type"), settings.get("compression").textValue());
        return config;
    }

    /** A marker goes to every partition, a change to that of its key. */
    private static final class MarksToAll implements StreamPartitioner<byte[], byte[]> {
        private static final byte[] START = MARK.getBytes(StandardCharsets.UTF_8);

        @Override
        public Optional<Set<Integer>> partitions(String topic, byte[] key, byte[] value, int count) {
            if (key.length < START.length || key[0] != START[0]) return Optional.empty();
            return Optional.of(IntStream.range(0, count).boxed().collect(Collectors.toSet()));
        }
    }
}
