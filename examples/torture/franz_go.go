// A consumer and producer with franz-go, for `mockbroker torture -- ./franz_go`, built in a module that requires franz-go.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func variable(name string) string { return os.Getenv("MOCKBROKER_" + name) }

func security() []kgo.Opt {
	var options []kgo.Opt
	protocol := variable("SECURITY_PROTOCOL")
	if strings.HasSuffix(protocol, "SSL") {
		pem, err := os.ReadFile(variable("TLS_CA"))
		if err != nil {
			panic(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: pool}))
	}
	if strings.HasPrefix(protocol, "SASL") {
		user, password := variable("SASL_USERNAME"), variable("SASL_PASSWORD")
		switch variable("SASL_MECHANISM") {
		case "OAUTHBEARER":
			options = append(options, kgo.SASL(oauth.Auth{Token: variable("SASL_TOKEN")}.AsMechanism()))
		case "PLAIN":
			options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		case "SCRAM-SHA-256":
			options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
		case "SCRAM-SHA-512":
			options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
		}
	}
	return options
}

func main() {
	topic := variable("TOPIC")
	client, err := kgo.NewClient(append(security(),
		kgo.SeedBrokers(strings.Split(variable("BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup(variable("GROUP")),
		kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.RebalanceTimeout(10*time.Second),
		kgo.RequestTimeoutOverhead(3*time.Second),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.MetadataMaxAge(3*time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RecordDeliveryTimeout(10*time.Second),
	)...)
	if err != nil {
		panic(err)
	}
	for {
		polled, done := context.WithTimeout(context.Background(), 5*time.Second)
		fetches := client.PollFetches(polled)
		done()
		fetches.EachError(func(_ string, _ int32, err error) { fmt.Println("poll:", err) })
		if fetches.NumRecords() == 0 {
			continue
		}
		committed, done := context.WithTimeout(context.Background(), 5*time.Second)
		if err := client.CommitUncommittedOffsets(committed); err != nil {
			fmt.Println("commit:", err)
		}
		done()
		client.Produce(context.Background(), &kgo.Record{Topic: topic + "-results", Value: []byte("tea")}, nil)
	}
}
