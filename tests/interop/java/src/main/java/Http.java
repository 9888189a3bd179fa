import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.stream.Collectors;

/** Sends one HTTP request with Java's own client; of a stream, reads only the first lines with data. */
final class Http {
  private static final HttpClient CLIENT = HttpClient.newHttpClient();

  private Http() {}

  static Map<String, Object> answer(JsonNode question) throws IOException, InterruptedException {
    JsonNode body = question.path("body");
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(question.get("url").asText()))
            .method(
                question.get("method").asText(),
                body.isTextual() ? BodyPublishers.ofString(body.asText()) : BodyPublishers.noBody());
    question.get("headers").fields().forEachRemaining(field -> request.header(field.getKey(), field.getValue().asText()));
    long lines = question.get("lines").asLong();
    if (lines == 0) {
      var response = CLIENT.send(request.build(), BodyHandlers.ofString());
      return Map.of("status", response.statusCode(), "body", response.body());
    }
    var response = CLIENT.send(request.build(), BodyHandlers.ofInputStream());
    try (var reader = new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8))) {
      String data = reader.lines().filter(line -> line.startsWith("data:")).limit(lines).collect(Collectors.joining("\n"));
      return Map.of("status", response.statusCode(), "body", data);
    }
  }
}
