package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const poll = 100 * time.Millisecond // that a poll may take before commands are looked at

type options struct {
	Bootstrap   string `json:"bootstrap"`
	ClientID    string `json:"client_id"`
	Group       string `json:"group"`
	Topic       string `json:"topic"`
	SessionMs   int    `json:"session_ms"`
	HeartbeatMs int    `json:"heartbeat_ms"`
	Assignor    string `json:"assignor"`
	Reset       string `json:"reset"`
	Instance    string `json:"instance"`
	Protocol    string `json:"protocol"`
	Regex       string `json:"regex"`
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	"uniform":            kgo.StickyBalancer(), // what asks a coordinator for it
}

func runMember(asked options) {
	start := kgo.NewOffset().AtStart()
	if asked.Reset == "latest" {
		start = kgo.NewOffset().AtEnd()
	}
	config := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(asked.Bootstrap, ",")...),
		kgo.ClientID(asked.ClientID),
		kgo.ConsumerGroup(asked.Group),
		kgo.ConsumeResetOffset(start),
		kgo.SessionTimeout(time.Duration(asked.SessionMs) * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(asked.HeartbeatMs) * time.Millisecond),
		kgo.Balancers(balancers[asked.Assignor]),
		kgo.MetadataMaxAge(time.Second),
		kgo.FetchMaxWait(poll), // partitions that come later are read after the fetch that is under way
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(partitionsTold("assigned")),
		kgo.OnPartitionsRevoked(partitionsTold("revoked")),
		kgo.OnPartitionsLost(partitionsTold("revoked")),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	if asked.Protocol == "consumer" {
		config = append(config, kgo.ServerSideBalancer())
	}
	if asked.Regex != "" {
		config = append(config, kgo.ConsumeTopics(asked.Regex), kgo.ConsumeRegex())
	} else {
		config = append(config, kgo.ConsumeTopics(asked.Topic))
	}
	if asked.Instance != "" {
		config = append(config, kgo.InstanceID(asked.Instance))
	}
	client, err := kgo.NewClient(config...)
	if err != nil {
		panic(err)
	}
	commands := lines()
	for {
		select {
		case command, open := <-commands:
			switch {
			case !open:
				os.Exit(3) // the test is gone, so nobody needs this member
			case command == "commit":
				if err := commit(client); err != nil {
					panic(err)
				}
				tell(map[string]any{"event": "committed"})
			case command == "leave":
				client.Close() // leaves the group, unless the member is static
				tell(map[string]any{"event": "left"})
				return
			}
		default:
			tellRecords(client)
		}
	}
}

// commit tries again if the coordinator could not be reached: the client may report that, and not look for another one.
func commit(client *kgo.Client) error {
	for {
		err := client.CommitUncommittedOffsets(context.Background())
		var unreached *net.OpError
		if !errors.As(err, &unreached) {
			return err
		}
		fmt.Fprintln(os.Stderr, "commit:", err)
		time.Sleep(poll)
	}
}

func tellRecords(client *kgo.Client) {
	limit, cancel := context.WithTimeout(context.Background(), poll)
	defer cancel()
	fetches := client.PollFetches(limit)
	fetches.EachError(func(topic string, partition int32, err error) {
		if errors.Is(err, kerr.FencedInstanceID) {
			tell(map[string]any{"event": "fenced"})
			os.Exit(4)
		}
		if errors.Is(err, kerr.UnreleasedInstanceID) {
			tell(map[string]any{"event": "refused"})
			os.Exit(5)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			fmt.Fprintln(os.Stderr, topic, partition, err)
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		tell(map[string]any{
			"event": "record", "topic": record.Topic, "partition": record.Partition, "offset": record.Offset,
			"value": string(record.Value),
		})
	})
}

func partitionsTold(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		tell(map[string]any{"event": event, "partitions": sorted(partitions)})
	}
}

// sorted gives pairs of topic and partition.
func sorted(partitions map[string][]int32) [][2]any {
	pairs := [][2]any{}
	for topic, indexes := range partitions {
		slices.Sort(indexes)
		for _, index := range indexes {
			pairs = append(pairs, [2]any{topic, index})
		}
	}
	slices.SortStableFunc(pairs, func(a, b [2]any) int { return strings.Compare(a[0].(string), b[0].(string)) })
	return pairs
}
