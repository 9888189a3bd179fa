import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Consume, transform, produce, in transactions. Commands come from the channel, events go to it. */
final class Transformer {
  private static final Duration POLL = Duration.ofSeconds(60);

  private final JsonNode options;
  private final Channel channel;
  private final KafkaConsumer<String, String> consumer;
  private final KafkaProducer<String, String> producer;
  private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();

  Transformer(JsonNode options, Channel channel) {
    this.options = options;
    this.channel = channel;
    Map<String, Object> reading = new HashMap<>();
    reading.put("bootstrap.servers", options.get("bootstrap").asText());
    reading.put("client.id", options.get("client_id").asText());
    reading.put("group.id", options.get("group").asText());
    reading.put("group.protocol", options.get("protocol").asText());
    if (options.get("protocol").asText().equals("classic")) {
      reading.put("session.timeout.ms", options.get("session_ms").asInt());
      reading.put("heartbeat.interval.ms", options.get("heartbeat_ms").asInt());
    }
    reading.put("auto.offset.reset", "earliest");
    reading.put("isolation.level", "read_committed");
    reading.put("enable.auto.commit", false);
    reading.put("fetch.max.wait.ms", 100); // which close() waits for
    consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
    consumer.subscribe(List.of(options.get("topic").asText()));
    Map<String, Object> writing = new HashMap<>();
    writing.put("bootstrap.servers", options.get("bootstrap").asText());
    writing.put("client.id", options.get("client_id").asText());
    writing.put("transactional.id", options.get("transactional_id").asText());
    writing.put("transaction.timeout.ms", options.get("transaction_timeout_ms").asInt());
    producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
  }

  /** Returns the exit code. */
  int run() {
    BlockingQueue<String> commands = channel.commands();
    try {
      producer.initTransactions();
      channel.tell(Map.of("event", "ready"));
      for (String line = commands.take(); !line.equals("leave"); line = commands.take()) {
        obey(line.split(" "));
      }
      producer.close();
      consumer.close();
      channel.tell(Map.of("event", "left"));
      return 0;
    } catch (ProducerFencedException | InvalidProducerEpochException | InvalidTxnStateException fenced) {
      channel.tell(Map.of("event", "fenced", "error", fenced.toString()));
      return 4;
    } catch (InterruptedException | InterruptException gone) {
      return Channel.DISCONNECTED;
    } finally {
      Thread.interrupted(); // close() would not wait for the threads of the clients
      producer.close(Duration.ZERO);
      consumer.close(Member.ABANDON);
    }
  }

  private void obey(String[] words) {
    switch (words[0]) {
      case "take" -> {
        take(Integer.parseInt(words[1]));
        channel.tell(Map.of("event", "taken"));
      }
      case "commit" -> {
        producer.commitTransaction();
        channel.tell(Map.of("event", "committed"));
      }
      case "abort" -> {
        producer.abortTransaction();
        rewind();
        channel.tell(Map.of("event", "aborted"));
      }
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  private void take(int wanted) {
    positions.clear();
    producer.beginTransaction();
    for (int taken = 0; taken < wanted; ) {
      for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
        channel.tell(
            Map.of(
                "event", "record",
                "topic", record.topic(),
                "partition", record.partition(),
                "offset", record.offset(),
                "value", record.value()));
        String output = options.get("output").asText();
        producer.send(new ProducerRecord<>(output, record.partition(), null, record.value() + ", done"));
        positions.put(
            new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        taken++;
      }
    }
    producer.flush();
    producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
  }

  /** To where the group is: what was aborted comes again. */
  private void rewind() {
    consumer
        .committed(positions.keySet())
        .forEach((at, committed) -> consumer.seek(at, committed == null ? 0 : committed.offset()));
  }
}
