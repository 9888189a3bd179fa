// A client of the soak with franz-go: ROLE TOPIC NAME LEDGER ADDRESSES, until SIGTERM. As in soak_clients.py, it appends
// each acknowledged or processed value to its ledger.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const pause = 50 * time.Millisecond // between two records of a producer

type soakClient struct {
	topic, name string
	ledger      *os.File
	addresses   map[string]string
}

func main() {
	stopped, release := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer release()
	ledger, err := os.OpenFile(os.Args[4], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	client := soakClient{topic: os.Args[2], name: os.Args[3], ledger: ledger}
	if err := json.Unmarshal([]byte(os.Args[5]), &client.addresses); err != nil {
		panic(err)
	}
	run := client.consume
	if os.Args[1] == "produce-franz-go" {
		run = client.produce
	}
	for stopped.Err() == nil {
		if err := run(stopped); err != nil && stopped.Err() == nil {
			fmt.Fprintln(os.Stderr, client.name, err)
			time.Sleep(500 * time.Millisecond)
		}
	}
}

func (c *soakClient) note(value []byte) {
	if _, err := c.ledger.Write(append(append([]byte{}, value...), '\n')); err != nil {
		panic(err)
	}
}

// produce sends with an idempotent producer, with SASL and without TLS.
func (c *soakClient) produce(stopped context.Context) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.addresses["SASL_PLAINTEXT"]),
		kgo.SASL(plain.Auth{User: "alice", Pass: "secret"}.AsMechanism()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // all consumers can read it
		kgo.RecordDeliveryTimeout(time.Minute),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	failed := make(chan error, 1)
	for number := time.Now().UnixMicro(); stopped.Err() == nil; number++ {
		value := fmt.Appendf(nil, "%s-%d", c.name, number)
		record := &kgo.Record{Topic: c.topic, Key: value, Value: value}
		client.Produce(stopped, record, func(_ *kgo.Record, err error) {
			if err == nil {
				c.note(value)
				return
			}
			select {
			case failed <- err:
			default:
			}
		})
		select {
		case err := <-failed:
			return err
		case <-time.After(pause):
		}
	}
	return nil
}

// consume is a member of a classic group with the cooperative protocol, without TLS and SASL.
func (c *soakClient) consume(stopped context.Context) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(c.addresses["PLAINTEXT"]),
		kgo.ConsumerGroup("franz-go"),
		kgo.ConsumeTopics(c.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(time.Second),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close() // leaves the group
	for stopped.Err() == nil {
		fetches := client.PollFetches(stopped)
		fetches.EachRecord(func(record *kgo.Record) { c.note(record.Value) })
		if fetches.NumRecords() > 0 {
			if err := client.CommitUncommittedOffsets(stopped); err != nil {
				fmt.Fprintln(os.Stderr, c.name, err) // the records are delivered again
			}
		}
	}
	return nil
}
