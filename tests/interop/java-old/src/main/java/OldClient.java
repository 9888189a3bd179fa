import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Says what an application of long ago did: OldClient BOOTSTRAP TOPIC GROUP PATIENCE_MS.
 *
 * <p>Produces two records in each compression, reads in a group until it has them all, commits, and begins again where
 * it left off. Prints a line for each: produced, assigned, value, committed, again; failed where it gives up. Written so
 * that it compiles with clients from 0.9 to 2.8.
 */
@SuppressWarnings("deprecation")
public final class OldClient {
  private static final String[] COMPRESSIONS = {"none", "gzip", "snappy", "lz4"};

  private final String bootstrap;
  private final String topic;
  private final String group;
  private final int patience;

  private OldClient(String[] arguments) {
    bootstrap = arguments[0];
    topic = arguments[1];
    group = arguments[2];
    patience = Integer.parseInt(arguments[3]);
  }

  public static void main(String[] arguments) throws Exception {
    OldClient client = new OldClient(arguments);
    client.endSomeTime();
    int count = client.produce();
    if (count > 0) {
      client.consume(count);
      client.comeBack();
    }
  }

  /** A client of 0.9 that cannot find out where to begin never returns from poll. */
  private void endSomeTime() {
    Thread watch =
        new Thread(
            () -> {
              try {
                Thread.sleep(5L * patience);
              } catch (InterruptedException interrupted) {
                return;
              }
              say("failed to end");
              Runtime.getRuntime().halt(1);
            });
    watch.setDaemon(true);
    watch.start();
  }

  private int produce() throws Exception {
    int count = 0;
    for (String compression : COMPRESSIONS) {
      Properties properties = common("Serializer", "key.serializer", "value.serializer");
      properties.put("compression.type", compression);
      properties.put("linger.ms", "5");
      properties.put("retries", "0");
      properties.put("max.block.ms", String.valueOf(patience));
      properties.put("request.timeout.ms", String.valueOf(patience));
      properties.put("delivery.timeout.ms", String.valueOf(patience + 100));
      KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
      List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
      for (int number = 0; number < 2; number++) {
        sent.add(producer.send(new ProducerRecord<>(topic, 0, "key", compression + "-" + number)));
      }
      for (java.util.concurrent.Future<?> each : sent) {
        try {
          each.get();
          count++;
        } catch (java.util.concurrent.ExecutionException failure) {
          say("failed to produce: " + failure.getCause().getClass().getSimpleName());
        }
      }
      producer.close();
      if (count == 0) {
        break;
      }
    }
    say("produced " + count);
    return count;
  }

  private void consume(int count) {
    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings());
    subscribe(consumer);
    long until = System.currentTimeMillis() + patience;
    int found = 0;
    while (found < Math.max(count, 1) && System.currentTimeMillis() < until) {
      for (ConsumerRecord<String, String> record : consumer.poll(200)) {
        say("value " + record.value() + " " + record.key() + " " + record.offset());
        found++;
      }
    }
    if (found == 0) {
      say("failed to consume");
    } else {
      consumer.commitSync();
      OffsetAndMetadata committed = consumer.committed(new TopicPartition(topic, 0));
      say("committed " + (committed == null ? "nothing" : committed.offset()));
    }
    consumer.close();
  }

  /** Another member of the group, which finds what was committed. */
  private void comeBack() {
    KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings());
    subscribe(consumer);
    long until = System.currentTimeMillis() + patience;
    while (consumer.assignment().isEmpty() && System.currentTimeMillis() < until) {
      consumer.poll(100);
    }
    if (consumer.assignment().isEmpty()) {
      say("failed to come back");
    } else {
      try {
        say("again " + consumer.position(new TopicPartition(topic, 0)));
      } catch (RuntimeException failure) {
        say("failed to find its place: " + failure.getClass().getSimpleName());
      }
    }
    consumer.close();
  }

  private void subscribe(KafkaConsumer<String, String> consumer) {
    consumer.subscribe(
        Collections.singletonList(topic),
        new ConsumerRebalanceListener() {
          @Override
          public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

          @Override
          public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            say("assigned " + partitions.size());
          }
        });
  }

  private Properties consumerSettings() {
    Properties properties = common("Deserializer", "key.deserializer", "value.deserializer");
    properties.put("group.id", group);
    properties.put("auto.offset.reset", "earliest");
    properties.put("enable.auto.commit", "false");
    properties.put("session.timeout.ms", "6000");
    properties.put("heartbeat.interval.ms", "500");
    properties.put("fetch.max.wait.ms", "100");
    properties.put("request.timeout.ms", "7000");
    properties.put("default.api.timeout.ms", String.valueOf(patience));
    return properties;
  }

  private Properties common(String kind, String... names) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", bootstrap);
    properties.put("client.id", "old");
    for (String name : names) {
      properties.put(name, "org.apache.kafka.common.serialization.String" + kind);
    }
    return properties;
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }
}
