import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group, by either protocol. Commands come on stdin, what happens goes out as JSON lines. */
final class Member implements ConsumerRebalanceListener {
  private static final Duration POLL = Duration.ofMillis(100); // that a poll may take before commands are looked at
  private static final Map<String, Class<?>> ASSIGNORS =
      Map.of(
          "range", RangeAssignor.class,
          "roundrobin", RoundRobinAssignor.class,
          "sticky", StickyAssignor.class,
          "cooperative-sticky", CooperativeStickyAssignor.class);

  private final KafkaConsumer<String, String> consumer;
  private final BlockingQueue<String> commands = new LinkedBlockingQueue<>();

  Member(JsonNode options) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", options.get("bootstrap").asText());
    settings.put("client.id", options.get("client_id").asText());
    settings.put("group.id", options.get("group").asText());
    settings.put("group.protocol", options.path("protocol").asText("classic"));
    if (options.path("protocol").asText().equals("consumer")) {
      settings.put("group.remote.assignor", options.get("assignor").asText());
    } else {
      settings.put("session.timeout.ms", options.get("session_ms").asInt());
      settings.put("heartbeat.interval.ms", options.get("heartbeat_ms").asInt());
      settings.put("partition.assignment.strategy", List.of(ASSIGNORS.get(options.get("assignor").asText())));
    }
    settings.put("auto.offset.reset", options.get("reset").asText());
    settings.put("enable.auto.commit", false);
    settings.put("metadata.max.age.ms", 1000);
    settings.put("fetch.max.wait.ms", 100); // which close() waits for
    if (!options.path("instance").asText().isEmpty()) {
      settings.put("group.instance.id", options.get("instance").asText());
    }
    consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    if (options.path("regex").asText().isEmpty()) {
      consumer.subscribe(List.of(options.get("topic").asText()), this);
    } else {
      consumer.subscribe(new SubscriptionPattern(options.get("regex").asText()), this); // the broker matches it
    }
  }

  void run() {
    Thread listener = new Thread(this::listen);
    listener.setDaemon(true);
    listener.start();
    try {
      for (String asked = ""; !asked.equals("leave"); asked = asked.isEmpty() ? next() : asked) {
        if (asked.equals("commit") && committed()) {
          Client.tell(Map.of("event", "committed"));
          asked = "";
        }
        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
          Client.tell(
              Map.of(
                  "event", "record",
                  "topic", record.topic(),
                  "partition", record.partition(),
                  "offset", record.offset(),
                  "value", record.value()));
        }
      }
      consumer.close();
      Client.tell(Map.of("event", "left"));
      Runtime.getRuntime().halt(0);
    } catch (FencedInstanceIdException fenced) {
      Client.tell(Map.of("event", "fenced"));
      Runtime.getRuntime().halt(4);
    } catch (UnreleasedInstanceIdException refused) {
      Client.tell(Map.of("event", "refused"));
      Runtime.getRuntime().halt(5);
    }
  }

  /** False if the group has moved on, as this member will with its next poll. */
  private boolean committed() {
    try {
      consumer.commitSync();
      return true;
    } catch (CommitFailedException | RebalanceInProgressException moved) {
      return false;
    }
  }

  private String next() {
    String command = commands.poll();
    return command == null ? "" : command;
  }

  private void listen() {
    try {
      for (String line = Client.STDIN.readLine(); line != null; line = Client.STDIN.readLine()) {
        commands.add(line);
      }
    } catch (IOException gone) {
      System.err.println(gone);
    }
    Runtime.getRuntime().halt(3); // the test is gone, so nobody needs this member
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    Client.tell(Map.of("event", "assigned", "partitions", Client.sorted(partitions)));
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    Client.tell(Map.of("event", "revoked", "partitions", Client.sorted(partitions)));
  }
}
