package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type sharing struct {
	Bootstrap       string `json:"bootstrap"`
	ClientID        string `json:"client_id"`
	Group           string `json:"group"`
	Topic           string `json:"topic"`
	Acknowledgement string `json:"acknowledgement"`
}

// runSharer is a member of a share group. With explicit acknowledgement, the value of a record decides: "reject..." is
// rejected, "release..." is released at its first delivery, all else is accepted.
func runSharer(asked sharing) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(asked.Bootstrap, ",")...),
		kgo.ClientID(asked.ClientID),
		kgo.ShareGroup(asked.Group),
		kgo.ConsumeTopics(asked.Topic),
		kgo.MetadataMaxAge(time.Second),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.FetchMaxWait(poll),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		panic(err)
	}
	commands := lines()
	for {
		select {
		case command, open := <-commands:
			if !open {
				os.Exit(3) // the test has ended
			}
			if command == "leave" {
				client.Close()
				tell(map[string]any{"event": "left"})
				return
			}
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), poll)
		fetches := client.PollFetches(ctx)
		cancel()
		records := [][]any{}
		fetches.EachRecord(func(record *kgo.Record) {
			records = append(records, []any{string(record.Value), record.DeliveryCount()})
			if asked.Acknowledgement == "explicit" {
				record.Ack(statusOf(record))
			} else {
				record.Ack(kgo.AckAccept)
			}
		})
		if len(records) > 0 {
			if err := client.FlushAcks(context.Background()); err != nil {
				panic(err)
			}
			tell(map[string]any{"event": "records", "records": records})
		}
	}
}

func statusOf(record *kgo.Record) kgo.AckStatus {
	value := string(record.Value)
	switch {
	case strings.HasPrefix(value, "reject"):
		return kgo.AckReject
	case strings.HasPrefix(value, "release") && record.DeliveryCount() == 1:
		return kgo.AckRelease
	}
	return kgo.AckAccept
}
