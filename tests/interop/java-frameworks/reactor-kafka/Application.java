import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import reactor.core.publisher.Mono;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;
import reactor.kafka.sender.KafkaSender;
import reactor.kafka.sender.SenderOptions;
import reactor.kafka.sender.SenderRecord;

/** A reactive pipeline that reads orders and writes bills. Arguments: bootstrap servers, number of orders. */
final class Application {
  public static void main(String[] arguments) {
    SenderOptions<String, String> sending = SenderOptions.<String, String>create(Map.of("bootstrap.servers", arguments[0]))
        .withKeySerializer(new StringSerializer())
        .withValueSerializer(new StringSerializer());
    ReceiverOptions<String, String> receiving = ReceiverOptions.<String, String>create(
            Map.of("bootstrap.servers", arguments[0], "group.id", "billing", "auto.offset.reset", "earliest"))
        .withKeyDeserializer(new StringDeserializer())
        .withValueDeserializer(new StringDeserializer())
        .subscription(List.of("orders"));
    KafkaSender<String, String> sender = KafkaSender.create(sending);
    KafkaReceiver.create(receiving)
        .receive()
        .concatMap(order -> sender
            .send(Mono.just(SenderRecord.create(
                new ProducerRecord<String, String>("bills", order.value().toUpperCase(Locale.ROOT)), null)))
            .then(order.receiverOffset().commit())
            .thenReturn(order))
        .take(Long.parseLong(arguments[1]))
        .blockLast(Duration.ofSeconds(60));
    sender.close();
    System.exit(0);
  }
}
