import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * Apache Kafka's own client at the test's command: `member OPTIONS` is a group member, `transform OPTIONS` works in
 * transactions, `ask` answers questions.
 */
public final class Client {
  static final ObjectMapper JSON = new ObjectMapper();
  static final BufferedReader STDIN = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
  private static final PrintStream STDOUT =
      new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);

  public static void main(String[] words) throws Exception {
    if (words[0].equals("member")) {
      new Member(JSON.readTree(words[1])).run();
      return;
    }
    if (words[0].equals("transform")) {
      new Transformer(JSON.readTree(words[1])).run();
      return;
    }
    for (String line = STDIN.readLine(); line != null; line = STDIN.readLine()) {
      tell(answer(JSON.readTree(line)));
    }
  }

  private static Map<String, Object> answer(JsonNode question) {
    if (question.get("call").asText().equals("assignors")) {
      return Map.of("answer", Assignors.defaults());
    }
    if (question.get("call").asText().equals("assign")) {
      try {
        return Map.of("answer", Assignors.answer(question));
      } catch (RuntimeException problem) {
        return Map.of("error", problem.toString());
      }
    }
    try (Answers answers = new Answers(question)) {
      Object answer = answers.give();
      return answer == null ? Map.of() : Map.of("answer", answer);
    } catch (Exception problem) {
      return Map.of("error", problem + (problem.getCause() == null ? "" : ", caused by " + problem.getCause()));
    }
  }

  /** Writes one JSON line. */
  static synchronized void tell(Map<String, ?> line) {
    try {
      STDOUT.println(JSON.writeValueAsString(line));
      STDOUT.flush();
    } catch (JsonProcessingException problem) {
      throw new IllegalStateException(problem);
    }
  }

  /** Pairs of topic and partition, in order. */
  static List<List<Object>> sorted(Collection<TopicPartition> partitions) {
    return partitions.stream()
        .sorted((a, b) -> a.topic().equals(b.topic()) ? a.partition() - b.partition() : a.topic().compareTo(b.topic()))
        .map(one -> List.<Object>of(one.topic(), one.partition()))
        .toList();
  }
}
