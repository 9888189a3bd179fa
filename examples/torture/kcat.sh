#!/bin/sh
# kcat in a group, for `mockbroker torture -- sh kcat.sh`. Its librdkafka needs 2.6.1 or newer for SCRAM.
exec kcat -b "$MOCKBROKER_BOOTSTRAP_SERVERS" -G "$MOCKBROKER_GROUP" -u -f '%p %o\n' \
  -X auto.offset.reset=earliest -X auto.commit.interval.ms=200 \
  -X session.timeout.ms=6000 -X heartbeat.interval.ms=500 -X socket.timeout.ms=3000 \
  -X topic.metadata.refresh.interval.ms=3000 \
  -X security.protocol="${MOCKBROKER_SECURITY_PROTOCOL:-PLAINTEXT}" \
  ${MOCKBROKER_TLS_CA:+-X ssl.ca.location="$MOCKBROKER_TLS_CA"} \
  ${MOCKBROKER_SASL_MECHANISM:+-X sasl.mechanism="$MOCKBROKER_SASL_MECHANISM"} \
  ${MOCKBROKER_SASL_USERNAME:+-X sasl.username="$MOCKBROKER_SASL_USERNAME"} \
  ${MOCKBROKER_SASL_PASSWORD:+-X sasl.password="$MOCKBROKER_SASL_PASSWORD"} \
  ${MOCKBROKER_SASL_TOKEN:+-X enable.sasl.oauthbearer.unsecure.jwt=true} \
  ${MOCKBROKER_SASL_TOKEN:+-X sasl.oauthbearer.config="principal=$MOCKBROKER_SASL_USERNAME"} \
  "$MOCKBROKER_TOPIC"
