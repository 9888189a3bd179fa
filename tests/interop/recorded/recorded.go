// franz-go: recorded SERVERS POLL_MS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	servers := kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)
	milliseconds, err := strconv.Atoi(os.Args[2])
	check(err)
	poll := time.Duration(milliseconds) * time.Millisecond
	always := context.Background()

	producer, err := kgo.NewClient(servers, kgo.ClientID("shop"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(err)
	for number := 0; number < 6; number++ {
		record := &kgo.Record{Topic: "orders", Partition: int32(number % 2), Value: fmt.Appendf(nil, "order %d", number)}
		check(producer.ProduceSync(always, record).FirstErr())
	}
	producer.Close()

	consumer, err := kgo.NewClient(servers, kgo.ClientID("reader"), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	check(err)
	for found := 0; found < 6; {
		limit, done := context.WithTimeout(always, poll)
		consumer.PollRecords(limit, 2).EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			found++
		})
		done()
	}
	check(consumer.CommitUncommittedOffsets(always))
	consumer.Close()
}
