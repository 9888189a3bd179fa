import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import org.apache.kafka.clients.consumer.CloseOptions;
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
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group, by either protocol. Commands come from the channel, events go to it. */
final class Member implements ConsumerRebalanceListener {
  private static final Duration POLL = Duration.ofMillis(100); // that a poll may take before commands are looked at
  private static final Map<String, Class<?>> ASSIGNORS =
      Map.of(
          "range", RangeAssignor.class,
          "roundrobin", RoundRobinAssignor.class,
          "sticky", StickyAssignor.class,
          "cooperative-sticky", CooperativeStickyAssignor.class);

  /** Closes at once, without leaving the group. */
  static final CloseOptions ABANDON =
      CloseOptions.timeout(Duration.ZERO)
          .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);

  private final Channel channel;
  private final KafkaConsumer<String, String> consumer;

  Member(JsonNode options, Channel channel) {
    this.channel = channel;
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

  /** Returns the exit code. */
  int run() {
    BlockingQueue<String> commands = channel.commands();
    try {
      for (String asked = ""; !asked.equals("leave"); asked = asked.isEmpty() ? next(commands) : asked) {
        if (asked.equals("commit") && committed()) {
          channel.tell(Map.of("event", "committed"));
          asked = "";
        }
        for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
          channel.tell(
              Map.of(
                  "event", "record",
                  "topic", record.topic(),
                  "partition", record.partition(),
                  "offset", record.offset(),
                  "value", record.value()));
        }
      }
      consumer.close();
      channel.tell(Map.of("event", "left"));
      return 0;
    } catch (FencedInstanceIdException fenced) {
      channel.tell(Map.of("event", "fenced"));
      return 4;
    } catch (UnreleasedInstanceIdException refused) {
      channel.tell(Map.of("event", "refused"));
      return 5;
    } catch (InterruptException gone) {
      return Channel.DISCONNECTED;
    } finally {
      Thread.interrupted(); // close() would not wait for the threads of the client
      consumer.close(ABANDON);
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

  private static String next(BlockingQueue<String> commands) {
    String command = commands.poll();
    return command == null ? "" : command;
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    channel.tell(Map.of("event", "assigned", "partitions", Client.sorted(partitions)));
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    channel.tell(Map.of("event", "revoked", "partitions", Client.sorted(partitions)));
  }
}
