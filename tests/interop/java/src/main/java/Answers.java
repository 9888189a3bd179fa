import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What one line asks, done with a client of its own. */
final class Answers implements AutoCloseable {
  private static final long PATIENCE_MS = 15_000;

  private final JsonNode asked;
  private final Map<String, Object> settings = new HashMap<>();
  private final String topic;
  private final String group;
  private final String transactionalId;
  private final TopicPartition partition;
  private Admin admin;

  Answers(JsonNode question) {
    asked = question;
    topic = asked.path("topic").asText();
    group = asked.path("group").asText();
    transactionalId = asked.path("transactional_id").asText();
    partition = new TopicPartition(topic, asked.path("partition").asInt());
    settings.put("bootstrap.servers", asked.get("bootstrap").asText());
    settings.put("default.api.timeout.ms", (int) PATIENCE_MS);
    settings.put("request.timeout.ms", (int) PATIENCE_MS);
    settings.putAll(Security.settings(asked.path("security")));
  }

  Object give() throws Exception {
    return switch (asked.get("call").asText()) {
      case "produce" -> produce();
      case "read" -> read();
      case "ends" -> List.of(offset(OffsetSpec.earliest()), offset(OffsetSpec.latest()));
      case "at" -> offset(OffsetSpec.forTimestamp(asked.get("timestamp").asLong()));
      case "create_topic" -> done(admin().createTopics(List.of(newTopic())).all());
      case "delete_topic" -> done(admin().deleteTopics(List.of(topic)).all());
      case "create_partitions" -> done(admin().createPartitions(Map.of(topic, increased())).all());
      case "partitions" -> partitions();
      case "configs" -> configs();
      case "set_config" -> done(admin().incrementalAlterConfigs(Map.of(resource(), List.of(change()))).all());
      case "delete_records" ->
          done(admin().deleteRecords(Map.of(partition, before())).lowWatermarks().get(partition)).lowWatermark();
      case "has_acls" -> hasAcls();
      case "set_quota" -> done(admin().alterClientQuotas(List.of(alteration())).all());
      case "quotas" -> quotas();
      case "nodes" -> done(admin().describeCluster().nodes()).stream().map(Node::id).toList();
      case "groups" ->
          done(admin().listGroups(ListGroupsOptions.forConsumerGroups()).all()).stream()
              .map(GroupListing::groupId)
              .toList();
      case "members" -> members();
      case "delete_group" -> done(admin().deleteConsumerGroups(List.of(group)).all());
      case "committed" -> committed();
      case "commit_for" ->
          done(admin().alterConsumerGroupOffsets(group, Map.of(partition, wantedOffset())).all());
      case "delete_offset" -> done(admin().deleteConsumerGroupOffsets(group, Set.of(partition)).all());
      case "transactions" ->
          done(admin().listTransactions().all()).stream()
              .collect(Collectors.toMap(TransactionListing::transactionalId, one -> one.state().toString()));
      case "transaction" -> transaction();
      case "producers" ->
          done(admin().describeProducers(List.of(partition)).partitionResult(partition)).activeProducers().stream()
              .map(one -> List.of(one.producerId(), one.producerEpoch(), one.currentTransactionStartOffset().orElse(-1)))
              .toList();
      case "abort" -> done(admin().abortTransaction(unwantedTransaction()).all());
      case "fence" -> done(admin().fenceProducers(List.of(transactionalId)).all());
      default -> throw new IllegalArgumentException(asked.toString());
    };
  }

  @Override
  public void close() {
    if (admin != null) {
      admin.close(Duration.ofMillis(PATIENCE_MS));
    }
  }

  private ClientQuotaAlteration alteration() {
    var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, asked.get("client_id").asText()));
    var change = new ClientQuotaAlteration.Op(asked.get("key").asText(), asked.get("value").asDouble());
    return new ClientQuotaAlteration(entity, List.of(change));
  }

  /** Quotas by client id and key. */
  private Object quotas() throws Exception {
    return done(admin().describeClientQuotas(ClientQuotaFilter.all()).entities()).entrySet().stream()
        .collect(Collectors.toMap(each -> each.getKey().entries().get(ClientQuotaEntity.CLIENT_ID), Map.Entry::getValue));
  }

  private Object produce() throws Exception {
    settings.remove("default.api.timeout.ms");
    settings.put("acks", asked.get("acks").asText());
    settings.put("compression.type", asked.get("compression").asText());
    settings.put("max.block.ms", PATIENCE_MS);
    settings.put("linger.ms", 0);
    settings.put("delivery.timeout.ms", (int) PATIENCE_MS);
    if (asked.get("idempotent").asBoolean()) {
      settings.remove("acks"); // as Java's producer is unless told otherwise
    } else {
      settings.put("enable.idempotence", false);
    }
    Long timestamp = asked.get("timestamp").isNull() ? null : asked.get("timestamp").asLong();
    try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (JsonNode record : asked.get("records")) {
        int to = record.get("partition").asInt();
        sent.add(producer.send(new ProducerRecord<>(topic, to, timestamp, null, record.get("value").asText())));
      }
      producer.flush();
      for (Future<RecordMetadata> one : sent) {
        done(one);
      }
    }
    return null;
  }

  private Object read() {
    int wanted = asked.get("wanted").asInt();
    List<List<Object>> found = new ArrayList<>();
    settings.put("fetch.max.wait.ms", 100); // which close() waits for
    settings.put("isolation.level", asked.path("committed").asBoolean() ? "read_committed" : "read_uncommitted");
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.assign(List.of(partition));
      consumer.seek(partition, asked.get("start").asLong());
      long end = System.currentTimeMillis() + PATIENCE_MS;
      while (found.size() < wanted) {
        if (System.currentTimeMillis() > end) {
          throw new IllegalStateException(found.size() + " of " + wanted + " records");
        }
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          found.add(List.of(record.offset(), record.value()));
        }
      }
    }
    return found.subList(0, wanted);
  }

  private long offset(OffsetSpec which) throws Exception {
    return done(admin().listOffsets(Map.of(partition, which)).all()).get(partition).offset();
  }

  private NewTopic newTopic() {
    return new NewTopic(topic, asked.get("partitions").asInt(), (short) asked.get("replicas").asInt());
  }

  private NewPartitions increased() {
    return NewPartitions.increaseTo(asked.get("partitions").asInt());
  }

  private OffsetAndMetadata wantedOffset() {
    return new OffsetAndMetadata(asked.get("offset").asLong(), Optional.empty(), "");
  }

  private Object partitions() throws Exception {
    Set<String> names = done(admin().listTopics().names());
    Map<String, Integer> found = new HashMap<>();
    done(admin().describeTopics(names).allTopicNames())
        .forEach((name, description) -> found.put(name, description.partitions().size()));
    return found;
  }

  private ConfigResource resource() {
    return new ConfigResource(ConfigResource.Type.TOPIC, topic);
  }

  private AlterConfigOp change() {
    ConfigEntry entry = new ConfigEntry(asked.get("name").asText(), asked.get("value").asText());
    return new AlterConfigOp(entry, AlterConfigOp.OpType.SET);
  }

  private RecordsToDelete before() {
    return RecordsToDelete.beforeOffset(asked.get("before").asLong());
  }

  private boolean hasAcls() throws Exception {
    try {
      done(admin().describeAcls(AclBindingFilter.ANY).values());
      return true;
    } catch (java.util.concurrent.ExecutionException failure) {
      if (failure.getCause() instanceof SecurityDisabledException) {
        return false;
      }
      throw failure;
    }
  }

  private Object configs() throws Exception {
    ConfigResource wanted = resource();
    Map<String, String> found = new HashMap<>();
    for (ConfigEntry entry : done(admin().describeConfigs(List.of(wanted)).all()).get(wanted).entries()) {
      found.put(entry.name(), entry.value());
    }
    return found;
  }

  private Object members() throws Exception {
    ConsumerGroupDescription described = done(admin().describeConsumerGroups(List.of(group)).all()).get(group);
    Map<String, Object> shares = new HashMap<>();
    for (MemberDescription member : described.members()) {
      shares.put(member.clientId(), Client.sorted(member.assignment().topicPartitions()));
    }
    return Map.of("state", described.groupState().toString(), "members", shares);
  }

  private Object transaction() throws Exception {
    TransactionDescription described =
        done(admin().describeTransactions(List.of(transactionalId)).description(transactionalId));
    return List.of(
        described.state().toString(),
        described.transactionTimeoutMs(),
        Client.sorted(described.topicPartitions()));
  }

  private AbortTransactionSpec unwantedTransaction() {
    long producerId = asked.get("producer_id").asLong();
    return new AbortTransactionSpec(partition, producerId, (short) asked.get("epoch").asInt(), 0);
  }

  private Object committed() throws Exception {
    List<List<Object>> found = new ArrayList<>();
    done(admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
        .forEach((where, what) -> found.add(List.of(where.topic(), where.partition(), what.offset())));
    return found;
  }

  private Admin admin() {
    if (admin == null) {
      admin = Admin.create(settings);
    }
    return admin;
  }

  private static <T> T done(org.apache.kafka.common.KafkaFuture<T> future) throws Exception {
    return future.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
  }

  private static <T> T done(Future<T> future) throws Exception {
    return future.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
  }
}
