package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type transforming struct {
	options
	Output               string `json:"output"`
	TransactionalID      string `json:"transactional_id"`
	TransactionTimeoutMs int    `json:"transaction_timeout_ms"`
}

// runTransformer consumes, transforms and produces, in transactions.
func runTransformer(asked transforming) {
	config := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(asked.Bootstrap, ",")...),
		kgo.ClientID(asked.ClientID),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(poll),
		kgo.SessionTimeout(time.Duration(asked.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(asked.HeartbeatMs) * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.TransactionalID(asked.TransactionalID),
		kgo.TransactionTimeout(time.Duration(asked.TransactionTimeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // which every reader understands
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	if asked.Protocol == "consumer" {
		config = append(config, kgo.ServerSideBalancer())
	}
	session, err := kgo.NewGroupTransactSession(config...)
	if err != nil {
		panic(err)
	}
	if _, _, err := session.Client().ProducerID(context.Background()); err != nil {
		panic(err)
	}
	tell(map[string]any{"event": "ready"})
	for line := range lines() {
		words := strings.Fields(line)
		switch words[0] {
		case "take":
			wanted, err := strconv.Atoi(words[1])
			if err != nil {
				panic(err)
			}
			take(session, asked.Output, wanted)
			tell(map[string]any{"event": "taken"})
		case "commit":
			end(session, kgo.TryCommit)
			tell(map[string]any{"event": "committed"})
		case "abort":
			end(session, kgo.TryAbort) // and goes back to where the group is
			tell(map[string]any{"event": "aborted"})
		case "leave":
			session.Close()
			tell(map[string]any{"event": "left"})
			return
		}
	}
	os.Exit(3) // the test is gone, so nobody needs this one
}

func take(session *kgo.GroupTransactSession, output string, wanted int) {
	check(session.Begin())
	for wanted > 0 {
		fetches := session.PollFetches(context.Background())
		check(fetches.Err())
		wanted -= fetches.NumRecords()
		fetches.EachRecord(func(record *kgo.Record) {
			tell(map[string]any{
				"event": "record", "topic": record.Topic, "partition": record.Partition, "offset": record.Offset,
				"value": string(record.Value),
			})
			made := &kgo.Record{Topic: output, Partition: record.Partition, Value: []byte(string(record.Value) + ", done")}
			session.Produce(context.Background(), made, func(_ *kgo.Record, err error) { check(err) })
		})
	}
	check(session.Client().Flush(context.Background()))
}

func end(session *kgo.GroupTransactSession, how kgo.TransactionEndTry) {
	committed, err := session.End(context.Background(), how)
	check(err)
	if committed != bool(how) {
		panic("aborted, and it was to be committed")
	}
}

// check ends the program if something is wrong; that another has the name is told.
func check(err error) {
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		tell(map[string]any{"event": "fenced", "error": err.Error()})
		os.Exit(4)
	}
	if err != nil {
		panic(err)
	}
}
