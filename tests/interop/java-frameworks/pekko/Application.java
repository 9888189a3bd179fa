import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.pekko.Done;
import org.apache.pekko.actor.ActorSystem;
import org.apache.pekko.kafka.ConsumerSettings;
import org.apache.pekko.kafka.ProducerMessage;
import org.apache.pekko.kafka.ProducerSettings;
import org.apache.pekko.kafka.Subscriptions;
import org.apache.pekko.kafka.javadsl.Consumer;
import org.apache.pekko.kafka.javadsl.Transactional;
import org.apache.pekko.stream.javadsl.Sink;

/** A transactional stream that reads orders and writes bills. Arguments: bootstrap servers, number of orders. */
final class Application {
  public static void main(String[] arguments) throws Exception {
    ActorSystem system = ActorSystem.create("billing");
    ConsumerSettings<String, String> reading = ConsumerSettings.create(system, new StringDeserializer(), new StringDeserializer())
        .withBootstrapServers(arguments[0])
        .withGroupId("billing")
        .withProperty("auto.offset.reset", "earliest");
    ProducerSettings<String, String> writing = ProducerSettings.create(system, new StringSerializer(), new StringSerializer())
        .withBootstrapServers(arguments[0]);
    CountDownLatch written = new CountDownLatch(Integer.parseInt(arguments[1]));
    Consumer.DrainingControl<Done> control = Transactional.source(reading, Subscriptions.topics("orders"))
        .map(order -> ProducerMessage.single(
            new ProducerRecord<String, String>("bills", order.record().value().toUpperCase(Locale.ROOT)),
            order.partitionOffset()))
        .via(Transactional.flow(writing, "billing"))
        .map(result -> {
          written.countDown();
          return result;
        })
        .toMat(Sink.ignore(), Consumer::createDrainingControl)
        .run(system);
    boolean done = written.await(60, TimeUnit.SECONDS);
    control.drainAndShutdown(system.dispatcher()).toCompletableFuture().get(60, TimeUnit.SECONDS); // commits the transaction
    System.exit(done ? 0 : 1);
  }
}
