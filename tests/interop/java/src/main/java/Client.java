import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.IOException;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/**
 * Apache Kafka's own client at the test's command: `member OPTIONS` is a group member, `transform OPTIONS` works in
 * transactions, `share OPTIONS` is a member of a share group, `ask` answers questions.
 *
 * <p>`host` is any number of these in one process: it prints a port of the loopback interface. The first line of each
 * connection is `{"role": "member", "options": OPTIONS}`, the others are those of stdin and stdout of a process; a line
 * `{"event": "log"}` has a line of stderr, and the last line, `{"event": "exit"}`, the exit code. It ends with stdin.
 */
public final class Client {
  static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] words) throws Exception {
    if (words[0].equals("host")) {
      host();
    } else {
      Channel channel = new Channel.OfProcess();
      JsonNode options = words.length > 1 ? JSON.readTree(words[1]) : MissingNode.getInstance();
      channel.end(run(words[0], options, channel));
    }
  }

  /** Returns the exit code. */
  private static int run(String role, JsonNode options, Channel channel) {
    try {
      return switch (role) {
        case "member" -> new Member(options, channel).run();
        case "transform" -> new Transformer(options, channel).run();
        case "share" -> new Sharer(options, channel).run();
        case "ask" -> answerAll(channel);
        default -> throw new IllegalArgumentException(role);
      };
    } catch (Throwable problem) {
      problem.printStackTrace();
      return 1;
    }
  }

  private static void host() throws IOException {
    System.setErr(new PrintStream(new Channel.OfSocket.Errors(System.err), true, StandardCharsets.UTF_8));
    ServerSocket server = new ServerSocket(0, 0, InetAddress.getLoopbackAddress());
    System.out.println(server.getLocalPort());
    start(
        () -> {
          while (true) {
            Socket socket = server.accept();
            start(() -> serve(socket));
          }
        });
    while (System.in.read() >= 0) {}
    Runtime.getRuntime().halt(0);
  }

  private static void serve(Socket socket) throws IOException {
    Channel.OfSocket channel = new Channel.OfSocket(socket);
    channel.enter();
    JsonNode asked = JSON.readTree(channel.read());
    channel.end(run(asked.get("role").asText(), asked.get("options"), channel));
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void start(Work work) {
    Runnable reporting =
        () -> {
          try {
            work.run();
          } catch (IOException problem) {
            problem.printStackTrace();
          }
        };
    new Thread(reporting).start();
  }

  private static int answerAll(Channel channel) throws IOException {
    for (String line = channel.read(); line != null; line = channel.read()) {
      channel.tell(answer(JSON.readTree(line)));
    }
    return 0;
  }

  private static Map<String, Object> answer(JsonNode question) {
    if (question.get("call").asText().equals("assignors")) {
      return Map.of("answer", Assignors.defaults());
    }
    String call = question.get("call").asText();
    if (call.equals("assign") || call.equals("assign_share")) {
      try {
        return Map.of(
            "answer", call.equals("assign") ? Assignors.answer(question) : ShareAssignor.answer(question));
      } catch (RuntimeException problem) {
        return Map.of("error", problem.toString());
      }
    }
    if (question.get("call").asText().equals("http")) {
      try {
        return Map.of("answer", Http.answer(question));
      } catch (IOException | InterruptedException problem) {
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

  /** Pairs of topic and partition, in order. */
  static List<List<Object>> sorted(Collection<TopicPartition> partitions) {
    return partitions.stream()
        .sorted((a, b) -> a.topic().equals(b.topic()) ? a.partition() - b.partition() : a.topic().compareTo(b.topic()))
        .map(one -> List.<Object>of(one.topic(), one.partition()))
        .toList();
  }
}
