// Apache Kafka's own client in group `demo`: java -cp 'JARS/*' examples/ConnectJava.java HOST:PORT

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ConnectJava {
  public static void main(String[] words) {
    Map<String, Object> settings =
        Map.of("bootstrap.servers", words[0], "group.id", "demo", "auto.offset.reset", "earliest");
    try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("orders"));
      while (true) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
          System.out.println(record.partition() + " " + record.offset() + " " + record.value());
        }
      }
    }
  }
}
