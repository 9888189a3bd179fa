import java.util.Locale;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** A job with an exactly-once sink that reads orders to their end and writes bills. Arguments: bootstrap servers, number. */
final class Application {
  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
    environment.enableCheckpointing(500);
    KafkaSource<String> source = KafkaSource.<String>builder()
        .setBootstrapServers(arguments[0])
        .setTopics("orders")
        .setGroupId("billing")
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setBounded(OffsetsInitializer.latest())
        .setValueOnlyDeserializer(new SimpleStringSchema())
        .build();
    Properties settings = new Properties();
    settings.setProperty("transaction.timeout.ms", "600000");
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(arguments[0])
        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .setTransactionalIdPrefix("billing")
        .setKafkaProducerConfig(settings)
        .setRecordSerializer(KafkaRecordSerializationSchema.builder()
            .setTopic("bills")
            .setValueSerializationSchema(new SimpleStringSchema())
            .build())
        .build();
    environment.fromSource(source, WatermarkStrategy.noWatermarks(), "orders")
        .map(order -> order.toUpperCase(Locale.ROOT))
        .returns(Types.STRING)
        .sinkTo(sink);
    environment.execute("billing");
    System.exit(0);
  }
}
