import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Apache Kafka's assignor of share groups, given a group as its coordinator has it. */
final class ShareAssignor implements SubscribedTopicDescriber {
  private final Map<Uuid, Integer> counts = new HashMap<>();

  private ShareAssignor(JsonNode topics) {
    topics.fields().forEachRemaining(topic -> counts.put(Uuid.fromString(topic.getKey()), topic.getValue().asInt()));
  }

  /** The partitions of each member by topic id, or what the assignor threw. */
  static Map<String, Object> answer(JsonNode asked) {
    Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
    asked.get("members").forEach(member -> members.put(member.get("member_id").asText(), member(member)));
    GroupSpecImpl group =
        new GroupSpecImpl(
            members,
            asked.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
            Map.of(),
            Optional.of(partitions(asked.get("assignable"))));
    Map<String, Object> shares = new HashMap<>();
    Map<String, MemberAssignment> given;
    try {
      given = new SimpleAssignor().assign(group, new ShareAssignor(asked.get("topics"))).members();
    } catch (NoSuchElementException problem) {
      return Map.of("threw", problem.getClass().getSimpleName());
    }
    given.forEach((memberId, assignment) -> {
      Map<String, Set<Integer>> sorted = new TreeMap<>();
      assignment.partitions().forEach((topic, indexes) -> sorted.put(topic.toString(), new TreeSet<>(indexes)));
      shares.put(memberId, sorted);
    });
    return Map.of("shares", shares);
  }

  @Override
  public int numPartitions(Uuid topic) {
    return counts.getOrDefault(topic, -1);
  }

  @Override
  public Set<String> racksForPartition(Uuid topic, int partition) {
    return Set.of();
  }

  private static MemberSubscriptionAndAssignmentImpl member(JsonNode member) {
    Set<Uuid> topics = new LinkedHashSet<>();
    member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
    Assignment assigned = new Assignment(partitions(member.get("assigned")));
    return new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), topics, assigned);
  }

  /** As the coordinator has them after it read its records: a HashMap of sets copied from lists. */
  private static Map<Uuid, Set<Integer>> partitions(JsonNode topics) {
    Map<Uuid, Set<Integer>> found = new HashMap<>();
    topics.fields().forEachRemaining(topic -> {
      java.util.List<Integer> indexes = new java.util.ArrayList<>();
      topic.getValue().forEach(index -> indexes.add(index.asInt()));
      found.put(Uuid.fromString(topic.getKey()), new HashSet<>(indexes));
    });
    return found;
  }
}
