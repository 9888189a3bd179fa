import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.ProcessBuilder.Redirect;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A JUnit 5 extension: a mock Kafka cluster in a child process for each test, and a client of its control API.
 *
 * <p>The broker stops after the test. It also stops when this process dies, because that closes its stdin.
 */
public final class MockBroker implements BeforeEachCallback, AfterEachCallback {
  /** A fault rule; match, occurrence and action have the keys of docs/faults.md. */
  public record Rule(String name, Map<String, ?> match, Map<String, ?> occurrence, Map<String, ?> action) {}

  /** The counters of a rule. */
  public record Fault(String name, int matched, int applied, int holding, boolean exhausted) {}

  /** A consumer group with its members and committed offsets. */
  public record Group(String id, String state, int generation, List<Member> members, List<Offset> offsets) {}

  public record Member(String memberId, String clientId, Map<String, List<Integer>> assignment) {}

  public record Offset(String topic, int partition, long offset, Long lag) {}

  /** A client's request with its response; fault: the name of the rule that was applied to it, or null. */
  public record Request(String api, String clientId, JsonNode request, JsonNode response, String fault) {}

  private record Ready(String bootstrapServers, String http) {}

  private static final Duration READY_WITHIN = Duration.ofSeconds(20);
  private static final Duration WAIT_AT_MOST = Duration.ofSeconds(5); // of the control API's waits
  private static final ObjectMapper JSON =
      new ObjectMapper()
          .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);

  private final HttpClient http = HttpClient.newHttpClient();
  private final String token = System.getenv("MOCKBROKER_HTTP_TOKEN");
  private final List<String> options;
  private Process process;
  private Ready ready;

  /** An extension for brokers with more options of {@code mockbroker serve}. */
  public MockBroker(String... options) {
    this.options = List.of(options);
  }

  @Override
  public void beforeEach(ExtensionContext context) throws IOException, InterruptedException {
    Path folder = Files.createTempDirectory("mockbroker");
    Path file = folder.resolve("ready.json");
    var command = new ArrayList<String>(List.of(System.getenv().getOrDefault("MOCKBROKER", "mockbroker"), "serve"));
    command.addAll(List.of("--port", "0", "--http", "0", "--ready-file", file.toString(), "--stop-on-stdin-eof"));
    command.addAll(options);
    process = new ProcessBuilder(command).redirectOutput(Redirect.DISCARD).redirectError(Redirect.INHERIT).start();
    long giveUp = System.nanoTime() + READY_WITHIN.toNanos();
    while (!Files.exists(file)) {
      if (!process.isAlive() || System.nanoTime() > giveUp) {
        process.destroyForcibly().waitFor();
        throw new IllegalStateException("mockbroker is not ready: exit code " + process.exitValue());
      }
      Thread.sleep(20);
    }
    ready = JSON.readValue(file.toFile(), Ready.class);
    Files.delete(file);
    Files.delete(folder);
  }

  @Override
  public void afterEach(ExtensionContext context) throws InterruptedException {
    if (ready == null) {
      return; // it has not started
    }
    process.destroy(); // SIGTERM
    if (!process.waitFor(10, TimeUnit.SECONDS)) {
      process.destroyForcibly().waitFor();
      throw new IllegalStateException("mockbroker did not stop");
    }
  }

  /** The addresses for the client's setting of the same name. */
  public String bootstrapServers() {
    return ready.bootstrapServers();
  }

  /** Append records with these values to a topic; return the offset of each. */
  public List<Long> produce(String topic, String... values) {
    var records = List.of(values).stream().map(value -> Map.of("value", value)).toList();
    var answer = call("POST", "/topics/" + segment(topic) + "/records", Map.of("records", records));
    return List.of(JSON.convertValue(answer.get("offsets"), Long[].class));
  }

  /** Add a fault rule. */
  public Fault addFault(Rule rule) {
    return JSON.convertValue(call("POST", "/faults", rule), Fault.class);
  }

  /** Wait until a rule was applied to this number of requests. */
  public Fault waitApplied(String name, int applied) {
    var query = "/wait?applied=" + applied + "&timeout_ms=" + WAIT_AT_MOST.toMillis();
    return JSON.convertValue(call("GET", "/faults/" + segment(name) + query, null), Fault.class);
  }

  /** Return a group. */
  public Group group(String id) {
    return JSON.convertValue(call("GET", "/groups/" + segment(id), null), Group.class);
  }

  /** Wait until a group has this state and this number of members. */
  public Group waitGroup(String id, String state, int members) {
    var query = "/wait?state=" + state + "&members=" + members + "&timeout_ms=" + WAIT_AT_MOST.toMillis();
    return JSON.convertValue(call("GET", "/groups/" + segment(id) + query, null), Group.class);
  }

  /** Return the latest requests to one API. */
  public List<Request> requests(String api) {
    var items = call("GET", "/requests?api=" + segment(api), null).get("items");
    return List.of(JSON.convertValue(items, Request[].class));
  }

  private JsonNode call(String method, String path, Object body) {
    try {
      var content = body == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(JSON.writeValueAsBytes(body));
      var request =
          HttpRequest.newBuilder(URI.create(ready.http() + "/v1" + path))
              .method(method, content)
              .header("Content-Type", "application/json");
      if (token != null) {
        request.header("Authorization", "Bearer " + token);
      }
      HttpResponse<byte[]> response = http.send(request.build(), BodyHandlers.ofByteArray());
      if (response.statusCode() >= 300) {
        var problem = new String(response.body(), StandardCharsets.UTF_8);
        throw new IllegalStateException(method + " " + path + ": " + response.statusCode() + ": " + problem);
      }
      return JSON.readTree(response.body());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(error);
    }
  }

  private static String segment(String name) {
    return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
  }
}
