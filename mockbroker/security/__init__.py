"""Users, ACLs, principals, and the decisions of Kafka's StandardAuthorizer. Sans-IO."""
