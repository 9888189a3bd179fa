import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;

/** A listener container whose transactions read orders and write bills. Arguments: bootstrap servers, number of orders. */
final class Application {
  public static void main(String[] arguments) throws Exception {
    CountDownLatch read = new CountDownLatch(Integer.parseInt(arguments[1]));
    DefaultKafkaProducerFactory<String, String> producers = new DefaultKafkaProducerFactory<>(
        Map.of("bootstrap.servers", arguments[0]), new StringSerializer(), new StringSerializer());
    producers.setTransactionIdPrefix("billing-");
    KafkaTemplate<String, String> template = new KafkaTemplate<>(producers);
    ContainerProperties properties = new ContainerProperties("orders");
    properties.setGroupId("billing");
    properties.setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
    properties.setMessageListener((MessageListener<String, String>) order -> {
      template.send("bills", order.value().toUpperCase(Locale.ROOT));
      read.countDown();
    });
    Map<String, Object> settings =
        Map.of("bootstrap.servers", arguments[0], "auto.offset.reset", "earliest", "isolation.level", "read_committed");
    KafkaMessageListenerContainer<String, String> container = new KafkaMessageListenerContainer<>(
        new DefaultKafkaConsumerFactory<>(settings, new StringDeserializer(), new StringDeserializer()), properties);
    container.start();
    boolean done = read.await(60, TimeUnit.SECONDS);
    container.stop();
    producers.destroy();
    System.exit(done ? 0 : 1);
  }
}
