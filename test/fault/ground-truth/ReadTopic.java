import java.io.BufferedOutputStream;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a topic from its start to its end with Kafka's own client: the ground truth of fault tests.
 *
 * Arguments: brokers, topic, read_committed or read_uncommitted, file, and the client's further settings as a file of
 * properties where the brokers ask for credentials. Writes a line for each record:
 * partition, offset, key and value (base64; "-" for null), separated by tabs. Ends with 1 when the end is not
 * reached in time. Run from source: java -cp JARS ReadTopic.java ...
 */
public class ReadTopic {
  private static final long LIMIT_MS = 180_000;

  public static void main(String[] arguments) throws Exception {
    String topic = arguments[1];
    try (KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(
                settings(arguments), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        OutputStream out = new BufferedOutputStream(new FileOutputStream(arguments[3]), 1 << 20)) {
      List<TopicPartition> partitions =
          consumer.partitionsFor(topic).stream().map(info -> new TopicPartition(topic, info.partition())).toList();
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      long startedAt = System.currentTimeMillis();
      while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
        if (System.currentTimeMillis() - startedAt > LIMIT_MS) {
          System.err.println(topic + " was not read to " + ends + " within " + LIMIT_MS + " ms");
          System.exit(1);
        }
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
          String place = record.partition() + "\t" + record.offset() + "\t";
          out.write((place + text(record.key()) + "\t" + text(record.value()) + "\n").getBytes(StandardCharsets.US_ASCII));
        }
      }
    }
  }

  private static Properties settings(String[] arguments) throws IOException {
    Properties settings = new Properties();
    if (arguments.length > 4) {
      try (InputStream file = new FileInputStream(arguments[4])) {
        settings.load(file);
      }
    }
    settings.put("bootstrap.servers", arguments[0]);
    settings.put("isolation.level", arguments[2]);
    settings.put("enable.auto.commit", "false");
    settings.put("auto.offset.reset", "earliest");
    settings.put("max.poll.records", "20000");
    return settings;
  }

  private static String text(byte[] bytes) {
    return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
  }
}
