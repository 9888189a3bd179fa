package orders

// franz-go, whose commit is answered REBALANCE_IN_PROGRESS. Run: go test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bill is the code under test: it bills the records of one poll, then commits, and repeats a commit during a rebalance.
func bill(ctx context.Context, client *kgo.Client) ([]string, error) {
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return nil, err
	}
	var billed []string
	fetches.EachRecord(func(record *kgo.Record) { billed = append(billed, string(record.Value)) })
	for {
		err := client.CommitRecords(ctx, fetches.Records()...)
		if !errors.Is(err, kerr.RebalanceInProgress) {
			return billed, err
		}
	}
}

func TestCommitDuringRebalanceIsRepeated(t *testing.T) {
	broker := StartBroker(t, "--topic", "orders:1", "--set", "group.initial.rebalance.delay.ms=0")
	broker.Produce("orders", Record{Value: "soup"}, Record{Value: "salad"}, Record{Value: "cake"})
	broker.AddFault(Rule{
		Name:       "commit-fails",
		Match:      map[string]any{"api": "OffsetCommit", "group": "billing"},
		Occurrence: map[string]any{"times": 1},
		Action:     map[string]any{"error": "REBALANCE_IN_PROGRESS"},
	})

	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(broker.BootstrapServers, ",")...),
		kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit(),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	billed, err := bill(ctx, client)
	if err != nil {
		t.Fatal(err)
	}

	if fault := broker.WaitApplied("commit-fails", 1); fault.Applied != 1 {
		t.Errorf("the rule was applied to %d requests", fault.Applied)
	}
	if !slices.Equal(billed, []string{"soup", "salad", "cake"}) {
		t.Errorf("billed %v", billed)
	}
	group := broker.WaitGroup("billing", "Stable", 1)
	if group.Generation != 1 { // franz-go joins again when a heartbeat reports a rebalance, not when a commit does
		t.Errorf("generation %d", group.Generation)
	}
	if len(group.Offsets) != 1 || group.Offsets[0].Topic != "orders" || group.Offsets[0].Offset != 3 {
		t.Errorf("committed %+v", group.Offsets)
	}
	commits := broker.Requests("OffsetCommit")
	if len(commits) != 2 || commits[0].Fault == nil || *commits[0].Fault != "commit-fails" || commits[1].Fault != nil {
		t.Errorf("commits: %+v", commits)
	}
}
