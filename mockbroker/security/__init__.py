"""Users, ACLs, principals, and the decisions of Kafka's StandardAuthorizer. This package does no I/O."""
