// A consumer and producer with Apache Kafka's client, for `mockbroker torture -- java -cp 'JARS/*' TortureJava.java`.
// An argument sets the group protocol: classic or consumer.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class TortureJava {
  static String variable(String name) {
    return System.getenv().getOrDefault("MOCKBROKER_" + name, "");
  }

  static Map<String, Object> settings(Map<String, Object> own) {
    Map<String, Object> settings = new HashMap<>(own);
    settings.put("bootstrap.servers", variable("BOOTSTRAP_SERVERS"));
    settings.put("request.timeout.ms", 3_000);
    settings.put("metadata.max.age.ms", 3_000);
    settings.put("reconnect.backoff.max.ms", 500);
    String protocol = variable("SECURITY_PROTOCOL");
    if (!protocol.isEmpty()) {
      settings.put("security.protocol", protocol);
    }
    if (protocol.endsWith("SSL")) {
      settings.put("ssl.truststore.type", "PEM");
      settings.put("ssl.truststore.location", variable("TLS_CA"));
    }
    if (protocol.startsWith("SASL")) {
      String mechanism = variable("SASL_MECHANISM");
      if (mechanism.equals("OAUTHBEARER")) {
        settings.put("sasl.mechanism", mechanism);
        settings.put(
            "sasl.jaas.config",
            String.format(
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
                    + " unsecuredLoginStringClaim_sub=\"%s\";",
                variable("SASL_USERNAME")));
        return settings;
      }
      String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
      settings.put("sasl.mechanism", mechanism);
      settings.put(
          "sasl.jaas.config",
          String.format(
              "org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
              module, variable("SASL_USERNAME"), variable("SASL_PASSWORD")));
    }
    return settings;
  }

  static void work(String topic, String protocol) {
    Map<String, Object> reading =
        settings(
            Map.of(
                "group.id", variable("GROUP"),
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "default.api.timeout.ms", 5_000,
                "max.poll.interval.ms", 10_000));
    if (protocol.equals("consumer")) {
      reading.put("group.protocol", protocol);
    } else {
      reading.put("session.timeout.ms", 6_000);
      reading.put("heartbeat.interval.ms", 500);
    }
    Map<String, Object> writing = settings(Map.of("max.block.ms", 3_000, "delivery.timeout.ms", 5_000, "linger.ms", 0));
    try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
      consumer.subscribe(List.of(topic));
      while (true) {
        if (!consumer.poll(Duration.ofMillis(500)).isEmpty()) {
          consumer.commitSync();
          producer.send(new ProducerRecord<>(topic + "-results", "tea"));
        }
      }
    }
  }

  /** Begins again after an error, as an application does that is restarted. */
  public static void main(String[] words) throws InterruptedException {
    while (true) {
      try {
        work(variable("TOPIC"), words.length > 0 ? words[0] : "classic");
      } catch (KafkaException error) {
        System.out.println(error);
        Thread.sleep(500);
      }
    }
  }
}
