import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group. With explicit acknowledgement, the value of a record decides: `reject...` is rejected,
 * `release...` is released at its first delivery, all else is accepted.
 */
final class Sharer {
  private static final Duration POLL = Duration.ofMillis(100);

  private final JsonNode options;
  private final Channel channel;
  private final boolean explicit;

  Sharer(JsonNode options, Channel channel) {
    this.options = options;
    this.channel = channel;
    explicit = options.get("acknowledgement").asText().equals("explicit");
  }

  /** Returns the exit code. */
  int run() {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", options.get("bootstrap").asText());
    config.put("client.id", options.get("client_id").asText());
    config.put("group.id", options.get("group").asText());
    config.put("share.acknowledgement.mode", options.get("acknowledgement").asText());
    config.put("metadata.max.age.ms", 1_000);
    BlockingQueue<String> commands = channel.commands();
    try (KafkaShareConsumer<String, String> consumer =
        new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(options.get("topic").asText()));
      while (!"leave".equals(commands.poll())) {
        List<List<Object>> records = new ArrayList<>();
        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
          records.add(List.of(record.value(), (int) record.deliveryCount().orElse((short) 0)));
          if (explicit) {
            consumer.acknowledge(record, type(record));
          }
        }
        if (!records.isEmpty()) {
          consumer.commitSync();
          channel.tell(Map.of("event", "records", "records", records));
        }
      }
    }
    channel.tell(Map.of("event", "left"));
    return 0;
  }

  private static AcknowledgeType type(ConsumerRecord<String, String> record) {
    if (record.value().startsWith("reject")) {
      return AcknowledgeType.REJECT;
    }
    boolean first = record.deliveryCount().orElse((short) 1) == 1;
    return record.value().startsWith("release") && first ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
  }
}
