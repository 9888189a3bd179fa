import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;

/** How to come in: a mechanism or none, TLS with an authority or none, a certificate of one's own or none. */
final class Security {
  private static final String MODULES = "org.apache.kafka.common.security.";

  private Security() {}

  static Map<String, Object> settings(JsonNode asked) {
    Map<String, Object> found = new HashMap<>();
    if (asked.isMissingNode()) return found;
    String mechanism = asked.path("mechanism").asText();
    boolean tls = asked.has("ca");
    found.put("security.protocol", (mechanism.isEmpty() ? "" : "SASL_") + (tls ? "SSL" : "PLAINTEXT"));
    if (!mechanism.isEmpty()) {
      found.put("sasl.mechanism", mechanism);
      found.put("sasl.jaas.config", jaas(mechanism, asked));
    }
    if (tls) put(found, "truststore", asked.get("ca").asText());
    if (asked.has("client")) put(found, "keystore", asked.get("client").asText());
    return found;
  }

  private static void put(Map<String, Object> found, String store, String file) {
    found.put("ssl." + store + ".type", "PEM");
    found.put("ssl." + store + ".location", file);
  }

  private static String jaas(String mechanism, JsonNode asked) {
    String user = asked.get("user").asText();
    String password = asked.path("password").asText();
    return switch (mechanism) {
      case "PLAIN" -> MODULES + "plain.PlainLoginModule required" + login(user, password);
      case "OAUTHBEARER" ->
          MODULES + "oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"" + user + "\""
              + ";";
      default -> MODULES + "scram.ScramLoginModule required" + login(user, password);
    };
  }

  private static String login(String user, String password) {
    return " username=\"" + user + "\" password=\"" + password + "\";";
  }
}
