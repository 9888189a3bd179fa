// franz-go in group `demo`: go run examples/connect_franz_go.go HOST:PORT, in a module that requires franz-go.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	brokers := kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)
	client, err := kgo.NewClient(brokers, kgo.ConsumerGroup("demo"), kgo.ConsumeTopics("orders"))
	if err != nil {
		panic(err)
	}
	for {
		client.PollFetches(context.Background()).EachRecord(func(record *kgo.Record) {
			fmt.Println(record.Partition, record.Offset, string(record.Value))
		})
	}
}
