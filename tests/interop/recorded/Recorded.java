import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's own client: `java Recorded.java SERVERS POLL_MS`. */
public class Recorded {
  public static void main(String[] words) throws Exception {
    Map<String, Object> writing = Map.of("bootstrap.servers", words[0], "client.id", "shop");
    try (var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < 6; number++) {
        producer.send(new ProducerRecord<>("orders", number % 2, (String) null, "order " + number)).get();
      }
    }
    Map<String, Object> reading =
        Map.of(
            "bootstrap.servers", words[0],
            "client.id", "reader",
            "group.id", "billing",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false,
            "max.poll.records", 2);
    Duration poll = Duration.ofMillis(Long.parseLong(words[1]));
    try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("orders"));
      for (int found = 0; found < 6; ) {
        for (ConsumerRecord<String, String> record : consumer.poll(poll)) {
          System.out.println(record.value());
          found++;
        }
      }
      consumer.commitSync();
    }
  }
}
