package main

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/IBM/sarama"
)

func withSarama(bootstrap []string, found outcomes) error {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.ClientID = "sarama"
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	admin, err := sarama.NewClusterAdmin(bootstrap, config)
	if err != nil {
		return err
	}
	defer admin.Close()

	limit := "1000"
	detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"max.message.bytes": &limit}}
	found.add("creates a topic", "", admin.CreateTopic("orders", detail, false))
	found.add("records", produceWithSarama(bootstrap, config, 6, 10), nil)
	found.add("record above max.message.bytes", produceWithSarama(bootstrap, config, 1, 3_000), nil)
	read, err := readWithSarama(bootstrap, config, 6)
	found.add("group reads", read, err)
	offsets, err := admin.ListConsumerGroupOffsets("billing", map[string][]int32{"orders": {0, 1}})
	var committed int64
	if err == nil {
		for _, block := range offsets.Blocks["orders"] {
			committed += max(block.Offset, 0)
		}
	}
	found.add("committed", committed, err)
	administerWithSarama(admin, found)
	return nil
}

func produceWithSarama(bootstrap []string, config *sarama.Config, count, size int) any {
	producer, err := sarama.NewSyncProducer(bootstrap, config)
	if err != nil {
		return err.Error()
	}
	defer producer.Close()
	for range count {
		message := &sarama.ProducerMessage{Topic: "orders", Value: sarama.ByteEncoder(make([]byte, size))}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err.Error()
		}
	}
	return count
}

// A member of a group that reads and commits records.
type reader struct {
	records chan *sarama.ConsumerMessage
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (each *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		each.records <- message
	}
	return nil
}

// Read a number of records as the only member of a group, commit them, and leave.
func readWithSarama(bootstrap []string, config *sarama.Config, wanted int) (int, error) {
	group, err := sarama.NewConsumerGroup(bootstrap, "billing", config)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	member := &reader{make(chan *sarama.ConsumerMessage, wanted)}
	ended := make(chan error, 1)
	go func() { ended <- group.Consume(ctx, []string{"orders"}, member) }()
	read := 0
	for read < wanted && ctx.Err() == nil {
		select {
		case <-member.records:
			read++
		case <-ctx.Done():
		}
	}
	cancel()
	return read, errors.Join(<-ended, group.Close())
}

func administerWithSarama(admin sarama.ClusterAdmin, found outcomes) {
	size := "2000"
	set := map[string]sarama.IncrementalAlterConfigsEntry{
		"message.max.bytes": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &size},
	}
	found.add("alters a broker", "", admin.IncrementalAlterConfig(sarama.BrokerResource, "0", set, false))
	described, err := admin.DescribeConfig(
		sarama.ConfigResource{Type: sarama.BrokerResource, Name: "0", ConfigNames: []string{"message.max.bytes"}},
	)
	values := []string{}
	for _, entry := range described {
		values = append(values, entry.Value, entry.Source.String())
	}
	found.add("describes a broker", values, err)

	client := "sarama"
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Name: client}}
	quota := sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1e6}
	found.add("alters a quota", "", admin.AlterClientQuotas(entity, quota, false))
	filter := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityClientID, MatchType: sarama.QuotaMatchExact, Match: client}}
	quotas, err := admin.DescribeClientQuotas(filter, true)
	rates := []float64{}
	for _, each := range quotas {
		rates = append(rates, each.Values["producer_byte_rate"])
	}
	found.add("describes a quota", rates, err)

	found.add("reassigns", "", admin.AlterPartitionReassignments("orders", [][]int32{{1, 0}, {0, 1}}))
	topics, err := replicas(admin, [][]int32{{1, 0}, {0, 1}})
	found.add("replicas", topics, err)

	resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: "orders", ResourcePatternType: sarama.AclPatternLiteral}
	acl := sarama.Acl{Principal: "User:bob", Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
	found.add("creates an ACL", "", admin.CreateACL(resource, acl))
	acls, err := admin.ListAcls(sarama.AclFilter{
		ResourceType:              sarama.AclResourceTopic,
		ResourcePatternTypeFilter: sarama.AclPatternAny,
		Operation:                 sarama.AclOperationAny,
		PermissionType:            sarama.AclPermissionAny,
	})
	principals := []string{}
	for _, each := range acls {
		for _, acl := range each.Acls {
			principals = append(principals, acl.Principal)
		}
	}
	found.add("lists ACLs", principals, err)
	directories, err := admin.DescribeLogDirs([]int32{0})
	found.add("log directories", len(directories[0]), err)
	found.add("deletes the topic", "", admin.DeleteTopic("orders"))
}

// Return the replicas of each partition, once they are the wanted ones or 10 s are over.
func replicas(admin sarama.ClusterAdmin, wanted [][]int32) ([][]int32, error) {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		topics, err := admin.DescribeTopics([]string{"orders"})
		if err != nil {
			return nil, err
		}
		partitions := topics[0].Partitions
		sort.Slice(partitions, func(i, j int) bool { return partitions[i].ID < partitions[j].ID })
		found := [][]int32{}
		for _, partition := range partitions {
			found = append(found, partition.Replicas)
		}
		if slices.EqualFunc(found, wanted, slices.Equal[[]int32]) || time.Now().After(until) {
			return found, nil
		}
	}
}
