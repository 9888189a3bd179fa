import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of one topic and writes the counts to another one.
 *
 * <p>Arguments: bootstrap servers, application id, processing guarantee, state directory, both topics, and further settings as
 * name=value. Compiles with Kafka Streams 2.8 and later. Prints each state of the client; ends when its input ends.
 */
final class WordCount {
  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
    settings.put("group.protocol", "streams"); // without effect before 4.1
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    settings.put("statestore.cache.max.bytes", 0); // since 3.4
    settings.put("cache.max.bytes.buffering", 0);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    for (String setting : Arrays.copyOfRange(arguments, 6, arguments.length)) {
      String[] parts = setting.split("=", 2);
      settings.put(parts[0], parts[1]);
    }
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(arguments[4], Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
        .groupBy((key, word) -> word, Grouped.as("words"))
        .count(Materialized.as("counts-store"))
        .toStream()
        .to(arguments[5], Produced.with(Serdes.String(), Serdes.Long()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    CountDownLatch failed = new CountDownLatch(1);
    streams.setStateListener((state, before) -> {
      System.out.println("state " + state);
      if (state == KafkaStreams.State.ERROR) {
        failed.countDown();
      }
    });
    streams.start();
    Thread input = new Thread(() -> {
      try {
        while (System.in.read() >= 0) {}
      } catch (java.io.IOException end) {
        // the same as the end of the input
      }
      failed.countDown();
    });
    input.setDaemon(true);
    input.start();
    failed.await();
    streams.close(Duration.ofSeconds(20));
    System.out.println("closed");
  }
}
