import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Apache Kafka's own client, whose commit is answered REBALANCE_IN_PROGRESS. Run: mvn test */
class OrdersTest {
  @RegisterExtension
  final MockBroker broker = new MockBroker("--topic", "orders:1", "--set", "group.initial.rebalance.delay.ms=0");

  /** The code under test: bills records until a commit succeeds. */
  private static List<String> bill(Consumer<String, String> consumer) {
    var billed = new ArrayList<String>();
    while (true) {
      var records = consumer.poll(Duration.ofMillis(500));
      records.forEach(record -> billed.add(record.value()));
      if (!records.isEmpty()) {
        try {
          consumer.commitSync();
          return billed;
        } catch (RebalanceInProgressException error) {
          // The next poll joins the group again, and continues at the committed offset.
        }
      }
    }
  }

  @Test
  @Timeout(15)
  void afterACommitDuringARebalanceTheConsumerJoinsAgainAndReadsAgain() {
    broker.produce("orders", "soup", "salad", "cake");
    broker.addFault(
        new MockBroker.Rule(
            "commit-fails",
            Map.of("api", "OffsetCommit", "group", "billing"),
            Map.of("times", 1),
            Map.of("error", "REBALANCE_IN_PROGRESS")));
    Map<String, Object> settings =
        Map.of(
            "bootstrap.servers", broker.bootstrapServers(),
            "group.id", "billing",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);

    List<String> billed;
    MockBroker.Group group;
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("orders"));
      billed = bill(consumer);
      group = broker.waitGroup("billing", "Stable", 1);
    }

    assertEquals(1, broker.waitApplied("commit-fails", 1).applied());
    assertEquals(List.of("soup", "salad", "cake", "soup", "salad", "cake"), billed); // at least once: billing must cope
    assertEquals(2, group.generation());
    assertEquals(List.of(new MockBroker.Offset("orders", 0, 3, 0L)), group.offsets());
    var commits = broker.requests("OffsetCommit");
    assertEquals("commit-fails", commits.get(0).fault());
    assertNull(commits.get(1).fault());
  }
}
