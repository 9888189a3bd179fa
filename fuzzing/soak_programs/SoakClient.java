import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A client of the soak with Apache Kafka's own client: {@code SoakClient ROLE TOPIC NAME LEDGER ADDRESSES}, until
 * SIGTERM. As in soak_clients.py, it appends each acknowledged or processed value to its ledger.
 */
final class SoakClient {
  private static final long PAUSE_MS = 50; // between two records of a producer
  private static final Duration POLL = Duration.ofMillis(500);
  private static volatile boolean stopped;

  private final String topic;
  private final String name;
  private final Path ledger;
  private final JsonNode addresses;

  private SoakClient(String topic, String name, Path ledger, JsonNode addresses) {
    this.topic = topic;
    this.name = name;
    this.ledger = ledger;
    this.addresses = addresses;
  }

  public static void main(String[] words) throws Exception {
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> end(main)));
    JsonNode addresses = new ObjectMapper().readTree(words[4]);
    SoakClient client = new SoakClient(words[1], words[2], Path.of(words[3]), addresses);
    while (!stopped) {
      try {
        if (words[0].equals("produce-java")) client.produce();
        else client.consume();
      } catch (KafkaException error) {
        System.err.println(words[2] + ": " + error);
        Thread.sleep(500);
      }
    }
  }

  /** Waits until the client is closed, so that a consumer leaves its group. */
  private static void end(Thread main) {
    stopped = true;
    try {
      main.join(15_000);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** An idempotent producer, over TLS and SCRAM. */
  private void produce() throws InterruptedException {
    Map<String, Object> settings = tls();
    settings.put("delivery.timeout.ms", 60_000);
    settings.put("request.timeout.ms", 20_000);
    settings.put("max.block.ms", 30_000);
    AtomicReference<Exception> failure = new AtomicReference<>();
    long number = System.currentTimeMillis() * 1_000;
    var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    try (producer) {
      while (!stopped && failure.get() == null) {
        String value = name + "-" + number++;
        producer.send(
            new ProducerRecord<>(topic, value, value),
            (metadata, error) -> {
              if (error == null) note(value);
              else failure.set(error);
            });
        Thread.sleep(PAUSE_MS);
      }
    }
    if (failure.get() != null) System.err.println(name + ": " + failure.get());
  }

  /** A member of a group of the consumer protocol (KIP-848). */
  private void consume() {
    Map<String, Object> settings = tls();
    settings.put("group.id", "java");
    settings.put("group.protocol", "consumer");
    settings.put("enable.auto.commit", false);
    settings.put("auto.offset.reset", "earliest");
    var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    try (consumer) {
      consumer.subscribe(List.of(topic));
      while (!stopped) {
        ConsumerRecords<String, String> records = consumer.poll(POLL);
        for (ConsumerRecord<String, String> record : records) note(record.value());
        if (!records.isEmpty()) consumer.commitSync(Duration.ofSeconds(20));
      }
    }
  }

  private synchronized void note(String value) {
    try {
      Files.writeString(ledger, value + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new KafkaException("the ledger cannot be written", error);
    }
  }

  private Map<String, Object> tls() {
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", addresses.get("SASL_SSL").asText());
    settings.put("security.protocol", "SASL_SSL");
    settings.put("ssl.truststore.type", "PEM");
    settings.put("ssl.truststore.location", addresses.get("ca").asText());
    settings.put("sasl.mechanism", "SCRAM-SHA-256");
    String module = "org.apache.kafka.common.security.scram.ScramLoginModule";
    settings.put("sasl.jaas.config", module + " required username=\"alice\" password=\"secret\";");
    return settings;
  }
}
