import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.Utils;

/** Apache Kafka's assignors of members, given a group as a leader has it. */
final class Assignors {
  private static final int MAX_REPLICAS = 8;

  private final JsonNode asked;
  private final List<PartitionInfo> partitions = new ArrayList<>();
  private final Map<String, Subscription> subscriptions = new HashMap<>();

  private Assignors(JsonNode question) {
    asked = question;
    asked.get("topics").fields().forEachRemaining(topic -> addPartitions(topic.getKey(), topic.getValue()));
    asked.get("members").forEach(this::addMember);
  }

  /**
   * What the assignor gives to each member, what the member then says in its user data, and the nanoseconds of the
   * fastest of `rounds`; or what it threw.
   */
  static Map<String, Object> answer(JsonNode question) {
    Assignors group = new Assignors(question);
    try {
      return group.assign();
    } catch (NullPointerException | IllegalStateException problem) {
      return Map.of("threw", problem.getClass().getSimpleName());
    }
  }

  /** The assignors that a member carries unless it is told otherwise, by name, with the protocols that each supports. */
  static List<Map<String, Object>> defaults() {
    List<Map<String, Object>> found = new ArrayList<>();
    Object classes = ConsumerConfig.configDef().defaultValues().get(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG);
    for (Object one : (List<?>) classes) {
      ConsumerPartitionAssignor assignor =
          (ConsumerPartitionAssignor) Utils.newInstance((Class<?>) one);
      List<String> protocols = assignor.supportedProtocols().stream().map(p -> p.name().toLowerCase()).toList();
      found.add(Map.of("name", assignor.name(), "protocols", protocols));
    }
    return found;
  }

  private Map<String, Object> assign() {
    Cluster cluster = new Cluster("one", List.of(), partitions, Set.of(), Set.of());
    Map<String, Assignment> given = null;
    long fastest = Long.MAX_VALUE;
    for (int round = 0; round < asked.path("rounds").asInt(1); round++) {
      ConsumerPartitionAssignor assignor = fresh();
      subscriptions.values().forEach(one -> Optional.ofNullable(one.userData()).ifPresent(ByteBuffer::rewind));
      long start = System.nanoTime();
      given = assignor.assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
      fastest = Math.min(fastest, System.nanoTime() - start);
    }
    Map<String, Object> shares = new LinkedHashMap<>();
    Map<String, Object> next = new HashMap<>();
    int generation = asked.get("generation").asInt();
    given.forEach((member, assignment) -> {
      shares.put(member, assignment.partitions().stream().map(p -> List.of(p.topic(), p.partition())).toList());
      ConsumerPartitionAssignor assignor = fresh();
      Assignment heard = ConsumerProtocol.deserializeAssignment(ConsumerProtocol.serializeAssignment(assignment));
      assignor.onAssignment(heard, new ConsumerGroupMetadata("group", generation, member, Optional.empty()));
      ByteBuffer said = assignor.subscriptionUserData(Set.of());
      next.put(member, said == null ? null : HexFormat.of().formatHex(said.array()));
    });
    return Map.of("shares", shares, "next", next, "nanoseconds", fastest);
  }

  private ConsumerPartitionAssignor fresh() {
    return switch (asked.get("assignor").asText()) {
      case "range" -> new RangeAssignor();
      case "roundrobin" -> new RoundRobinAssignor();
      case "sticky" -> new StickyAssignor();
      case "cooperative-sticky" -> new CooperativeStickyAssignor();
      default -> throw new IllegalArgumentException(asked.get("assignor").asText());
    };
  }

  /** `racks`: for each partition those of its replicas, null for a broker without one. */
  private void addPartitions(String topic, JsonNode racks) {
    for (int number = 0; number < racks.size(); number++) {
      List<Node> replicas = new ArrayList<>();
      for (JsonNode rack : racks.get(number)) {
        replicas.add(new Node(number * MAX_REPLICAS + replicas.size(), "host", 9092, rack.textValue()));
      }
      Node[] nodes = replicas.toArray(new Node[0]);
      partitions.add(new PartitionInfo(topic, number, null, nodes, nodes));
    }
  }

  /** Through the bytes: the leader decodes the subscription and adds the instance id, which stands beside it. */
  private void addMember(JsonNode member) {
    Subscription said =
        ConsumerProtocol.deserializeSubscription(
            ByteBuffer.wrap(HexFormat.of().parseHex(member.get("subscription").asText())));
    said.setGroupInstanceId(Optional.ofNullable(member.get("instance_id").textValue()));
    subscriptions.put(member.get("member_id").asText(), said);
  }
}
