import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** As reading.py: HOW ADDRESS TOPIC RECORDS. */
class Reading {
  public static void main(String[] args) {
    long begun = System.nanoTime();
    Map<String, Object> settings = new HashMap<>();
    settings.put("bootstrap.servers", args[1]);
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", false);
    boolean member = args[0].equals("group");
    if (member) {
      settings.put("group.id", "reader-" + begun);
    }
    var deserializer = new ByteArrayDeserializer();
    try (var consumer = new KafkaConsumer<byte[], byte[]>(settings, deserializer, deserializer)) {
      if (member) {
        consumer.subscribe(List.of(args[2]));
      } else {
        consumer.assign(IntStream.range(0, 6).mapToObj(n -> new TopicPartition(args[2], n)).toList());
      }
      int wanted = Integer.parseInt(args[3]);
      long found = 0;
      long size = 0;
      double first = 0;
      while (found < wanted) {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(60))) {
          if (found++ == 0) {
            first = since(begun);
          }
          size += record.value().length;
        }
      }
      System.out.printf(
          "{\"first\": %.4f, \"last\": %.4f, \"cpu\": 0, \"size\": %d}%n", first, since(begun), size);
    }
  }

  private static double since(long begun) {
    return (System.nanoTime() - begun) / 1e9;
  }
}
