package main

import (
	"context"
	"errors"
	"slices"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

func withKafkaGo(bootstrap []string, found outcomes) error {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap...), Timeout: 10 * time.Second}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic:             "orders",
		NumPartitions:     2,
		ReplicationFactor: 1,
		ConfigEntries:     []kafka.ConfigEntry{{ConfigName: "max.message.bytes", ConfigValue: "1000"}},
	}}})
	found.add("creates a topic", "", errors.Join(err, errorOf(created)))
	writer := &kafka.Writer{Addr: kafka.TCP(bootstrap...), Topic: "orders", RequiredAcks: kafka.RequireAll, BatchTimeout: time.Millisecond}
	defer writer.Close()
	small := make([]kafka.Message, 6)
	for at := range small {
		small[at].Value = make([]byte, 10)
	}
	found.add("records", len(small), writer.WriteMessages(ctx, small...))
	found.add("record above max.message.bytes", "", innermost(writer.WriteMessages(ctx, kafka.Message{Value: make([]byte, 3_000)})))

	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: bootstrap, GroupID: "billing", Topic: "orders", StartOffset: kafka.FirstOffset, MaxWait: 100 * time.Millisecond,
	})
	read := 0
	for ; read < len(small); read++ {
		message, err := reader.FetchMessage(ctx)
		if err == nil {
			err = reader.CommitMessages(ctx, message)
		}
		if err != nil {
			found.add("group reads", nil, err)
			break
		}
	}
	found.add("group reads", read, reader.Close())
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "billing", Topics: map[string][]int{"orders": {0, 1}}})
	committed := int64(0)
	if err == nil {
		for _, partition := range offsets.Topics["orders"] {
			committed += max(partition.CommittedOffset, 0)
		}
	}
	found.add("committed", committed, err)
	administerWithKafkaGo(ctx, client, found)
	return nil
}

func administerWithKafkaGo(ctx context.Context, client *kafka.Client, found outcomes) {
	altered, err := client.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeBroker,
			ResourceName: "0",
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{
				{Name: "message.max.bytes", Value: "2000", ConfigOperation: kafka.ConfigOperationSet},
			},
		}},
	})
	if err == nil {
		err = altered.Resources[0].Error
	}
	found.add("alters a broker", "", err)
	described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeBroker, ResourceName: "0", ConfigNames: []string{"message.max.bytes"}},
		},
	})
	values := []string{}
	if err == nil {
		for _, entry := range described.Resources[0].ConfigEntries {
			values = append(values, entry.ConfigValue)
		}
	}
	found.add("describes a broker", values, err)

	quotas, err := client.AlterClientQuotas(ctx, &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{{
		Entities: []kafka.AlterClientQuotaEntity{{EntityType: "client-id", EntityName: "kafka-go"}},
		Ops:      []kafka.AlterClientQuotaOps{{Key: "producer_byte_rate", Value: 1e6}},
	}}})
	if err == nil {
		err = quotas.Entries[0].Error
	}
	found.add("alters a quota", "", err)
	set, err := client.DescribeClientQuotas(ctx, &kafka.DescribeClientQuotasRequest{
		Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "client-id", Match: "kafka-go"}},
	})
	rates := []float64{}
	if err == nil {
		for _, entry := range set.Entries {
			for _, value := range entry.Values {
				rates = append(rates, value.Value)
			}
		}
	}
	found.add("describes a quota", rates, err)

	moved, err := client.AlterPartitionReassignments(ctx, &kafka.AlterPartitionReassignmentsRequest{
		Topic: "orders",
		Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{
			{PartitionID: 0, BrokerIDs: []int{1, 0}}, {PartitionID: 1, BrokerIDs: []int{0, 1}},
		},
		Timeout: 5 * time.Second,
	})
	if err == nil {
		err = moved.Error
	}
	found.add("reassigns", "", err)
	placed, err := placedReplicas(ctx, client, [][]int{{1, 0}, {0, 1}})
	found.add("replicas", placed, err)

	acls, err := client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
		Principal:           "User:bob",
		PermissionType:      kafka.ACLPermissionTypeAllow,
		Operation:           kafka.ACLOperationTypeRead,
		ResourceType:        kafka.ResourceTypeTopic,
		ResourcePatternType: kafka.PatternTypeLiteral,
		ResourceName:        "orders",
		Host:                "*",
	}}})
	if err == nil {
		err = acls.Errors[0]
	}
	found.add("creates an ACL", "", err)
	listed, err := client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter:        kafka.ResourceTypeTopic,
		ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation:                 kafka.ACLOperationTypeAny,
		PermissionType:            kafka.ACLPermissionTypeAny,
	}})
	principals := []string{}
	if err == nil {
		for _, resource := range listed.Resources {
			for _, acl := range resource.ACLs {
				principals = append(principals, acl.Principal)
			}
		}
	}
	found.add("lists ACLs", principals, err)
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{"orders"}})
	if err == nil {
		err = deleted.Errors["orders"]
	}
	found.add("deletes the topic", "", err)
}

// Return the error of the first topic that was not created.
func errorOf(response *kafka.CreateTopicsResponse) error {
	if response == nil {
		return nil
	}
	for _, err := range response.Errors {
		if err != nil {
			return err
		}
	}
	return nil
}

// Return the error of the first record, where a call reports one for each.
func innermost(err error) error {
	var each kafka.WriteErrors
	if errors.As(err, &each) {
		return each[0]
	}
	return err
}

// Return the replicas of each partition, once they are the wanted ones or 10 s are over.
func placedReplicas(ctx context.Context, client *kafka.Client, wanted [][]int) ([][]int, error) {
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"orders"}})
		if err != nil {
			return nil, err
		}
		found := make([][]int, len(wanted))
		for _, partition := range metadata.Topics[0].Partitions {
			for _, broker := range partition.Replicas {
				found[partition.ID] = append(found[partition.ID], broker.ID)
			}
		}
		if slices.EqualFunc(found, wanted, slices.Equal[[]int]) || time.Now().After(until) {
			return found, nil
		}
	}
}
