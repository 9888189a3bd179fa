package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const patience = 15 * time.Second

type question struct {
	Call        string   `json:"call"`
	Bootstrap   string   `json:"bootstrap"`
	Topic       string   `json:"topic"`
	Group       string   `json:"group"`
	Partition   int32    `json:"partition"`
	Records     []record `json:"records"`
	Acks        string   `json:"acks"`
	Compression string   `json:"compression"`
	Idempotent  bool     `json:"idempotent"`
	Timestamp   *int64   `json:"timestamp"`
	Start       int64    `json:"start"`
	Wanted      int      `json:"wanted"`
	Committed   bool     `json:"committed"`
	Partitions  int      `json:"partitions"`
	Replicas    int16    `json:"replicas"`
	Offset      int64    `json:"offset"`
	Security    security `json:"security"`

	TransactionalID string `json:"transactional_id"`
	ProducerID      int64  `json:"producer_id"`
	Epoch           int16  `json:"epoch"`

	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    *string           `json:"body"`
	Lines   int               `json:"lines"`
}

type record struct {
	Partition int32  `json:"partition"`
	Value     string `json:"value"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var acks = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

var calls = map[string]func(context.Context, question) (any, error){
	"produce": produce, "read": read, "ends": ends, "at": at,
	"create_topic": createTopic, "delete_topic": deleteTopic, "create_partitions": createPartitions,
	"partitions": partitions, "configs": configs, "nodes": nodes,
	"groups": groups, "members": members, "delete_group": deleteGroup,
	"committed": committed, "commit_for": commitFor, "delete_offset": deleteOffset,
	"transactions": transactions, "transaction": transaction, "producers": producers, "abort": abort,
	"http": request,
}

// answer does what one line asks.
func answer(line string) map[string]any {
	var asked question
	if err := json.Unmarshal([]byte(line), &asked); err != nil {
		return map[string]any{"error": err.Error()}
	}
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := calls[asked.Call](limit, asked)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"answer": result}
}

func connect(asked question, more ...kgo.Opt) (*kgo.Client, error) {
	servers := kgo.SeedBrokers(strings.Split(asked.Bootstrap, ",")...)
	secured, err := asked.Security.options()
	if err != nil {
		return nil, err
	}
	more = append(more, secured...)
	return kgo.NewClient(append(more, servers, kgo.MetadataMinAge(100*time.Millisecond))...)
}

func produce(limit context.Context, asked question) (any, error) {
	config := []kgo.Opt{
		kgo.RequiredAcks(acks[asked.Acks]),
		kgo.ProducerBatchCompression(codecs[asked.Compression]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.AllowAutoTopicCreation(),
	}
	if !asked.Idempotent {
		config = append(config, kgo.DisableIdempotentWrite())
	}
	client, err := connect(asked, config...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := []*kgo.Record{}
	for _, wanted := range asked.Records {
		made := &kgo.Record{Topic: asked.Topic, Partition: wanted.Partition, Value: []byte(wanted.Value)}
		if asked.Timestamp != nil {
			made.Timestamp = time.UnixMilli(*asked.Timestamp)
		}
		records = append(records, made)
	}
	return nil, client.ProduceSync(limit, records...).FirstErr()
}

func read(limit context.Context, asked question) (any, error) {
	from := map[int32]kgo.Offset{asked.Partition: kgo.NewOffset().At(asked.Start)}
	isolation := kgo.ReadUncommitted()
	if asked.Committed {
		isolation = kgo.ReadCommitted()
	}
	where := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: from})
	client, err := connect(asked, where, kgo.FetchIsolationLevel(isolation))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := [][2]any{}
	for len(found) < asked.Wanted {
		fetches := client.PollFetches(limit)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records: %w", len(found), asked.Wanted, err)
		}
		for _, record := range fetches.Records() {
			found = append(found, [2]any{record.Offset, string(record.Value)})
		}
	}
	return found[:asked.Wanted], nil
}

// asAdmin lends an admin client to one call.
func asAdmin[T any](asked question, use func(*kadm.Client) (T, error)) (any, error) {
	client, err := connect(asked)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return use(kadm.NewClient(client))
}

func offset(asked question, listed kadm.ListedOffsets, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	found, _ := listed.Lookup(asked.Topic, asked.Partition)
	return found.Offset, found.Err
}

func ends(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) ([]int64, error) {
		listed, err := admin.ListStartOffsets(limit, asked.Topic)
		first, err := offset(asked, listed, err)
		if err != nil {
			return nil, err
		}
		listed, err = admin.ListEndOffsets(limit, asked.Topic)
		last, err := offset(asked, listed, err)
		return []int64{first, last}, err
	})
}

func at(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (int64, error) {
		listed, err := admin.ListOffsetsAfterMilli(limit, *asked.Timestamp, asked.Topic)
		return offset(asked, listed, err)
	})
}

func createTopic(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		_, err := admin.CreateTopic(limit, int32(asked.Partitions), asked.Replicas, nil, asked.Topic)
		return nil, err
	})
}

func deleteTopic(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		_, err := admin.DeleteTopic(limit, asked.Topic)
		return nil, err
	})
}

func createPartitions(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		made, err := admin.UpdatePartitions(limit, asked.Partitions, asked.Topic)
		if err != nil {
			return nil, err
		}
		return nil, made.Error()
	})
}

func partitions(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (map[string]int, error) {
		listed, err := admin.ListTopics(limit)
		found := map[string]int{}
		for name, topic := range listed {
			found[name] = len(topic.Partitions)
		}
		return found, err
	})
}

func configs(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (map[string]string, error) {
		described, err := admin.DescribeTopicConfigs(limit, asked.Topic)
		if err != nil {
			return nil, err
		}
		topic, err := described.On(asked.Topic, nil)
		if err != nil {
			return nil, err
		}
		found := map[string]string{}
		for _, config := range topic.Configs {
			found[config.Key] = config.MaybeValue()
		}
		return found, topic.Err
	})
}

func nodes(limit context.Context, asked question) (any, error) {
	client, err := connect(asked)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	request := kmsg.NewPtrDescribeClusterRequest()
	response, err := request.RequestWith(limit, client)
	if err != nil {
		return nil, err
	}
	found := []int32{}
	for _, broker := range response.Brokers {
		found = append(found, broker.NodeID)
	}
	return found, nil
}

func groups(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) ([]string, error) {
		listed, err := admin.ListGroups(limit)
		return listed.Groups(), err
	})
}

func members(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		described, err := admin.DescribeGroups(limit, asked.Group)
		if err != nil {
			return nil, err
		}
		group, err := described.On(asked.Group, nil)
		if err != nil {
			return nil, err
		}
		shares := map[string][][2]any{}
		for _, member := range group.Members {
			owned := map[string][]int32{}
			if assignment, ok := member.Assigned.AsConsumer(); ok {
				for _, topic := range assignment.Topics {
					owned[topic.Topic] = topic.Partitions
				}
			}
			shares[member.ClientID] = sorted(owned)
		}
		return map[string]any{"state": group.State, "members": shares}, group.Err
	})
}

func deleteGroup(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		_, err := admin.DeleteGroup(limit, asked.Group)
		return nil, err
	})
}

func committed(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) ([][3]any, error) {
		fetched, err := admin.FetchOffsets(limit, asked.Group)
		if err != nil {
			return nil, err
		}
		found := [][3]any{}
		for _, one := range fetched.Sorted() {
			found = append(found, [3]any{one.Topic, one.Partition, one.At})
		}
		return found, fetched.Error()
	})
}

func commitFor(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		wanted := kadm.Offsets{}
		wanted.AddOffset(asked.Topic, asked.Partition, asked.Offset, -1)
		return nil, admin.CommitAllOffsets(limit, asked.Group, wanted)
	})
}

func deleteOffset(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		unwanted := kadm.TopicsSet{}
		unwanted.Add(asked.Topic, asked.Partition)
		deleted, err := admin.DeleteOffsets(limit, asked.Group, unwanted)
		if err != nil {
			return nil, err
		}
		return nil, deleted.Error()
	})
}

func transactions(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (map[string]string, error) {
		listed, err := admin.ListTransactions(limit, nil, nil)
		found := map[string]string{}
		for name, one := range listed {
			found[name] = one.State
		}
		return found, err
	})
}

func transaction(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		described, err := admin.DescribeTransactions(limit, asked.TransactionalID)
		if err != nil {
			return nil, err
		}
		one, err := described.On(asked.TransactionalID, nil)
		if err != nil {
			return nil, err
		}
		places := map[string][]int32{}
		for _, topic := range one.Topics.Sorted() {
			places[topic.Topic] = topic.Partitions
		}
		return [3]any{one.State, one.TimeoutMillis, sorted(places)}, one.Err
	})
}

func producers(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		wanted := kadm.TopicsSet{}
		wanted.Add(asked.Topic, asked.Partition)
		described, err := admin.DescribeProducers(limit, wanted)
		if err != nil {
			return nil, err
		}
		partition := described[asked.Topic].Partitions[asked.Partition]
		found := [][3]int64{}
		for _, one := range partition.ActiveProducers.Sorted() {
			found = append(found, [3]int64{one.ProducerID, int64(one.ProducerEpoch), one.CurrentTxnStartOffset})
		}
		return found, partition.Err
	})
}

func abort(limit context.Context, asked question) (any, error) {
	return asAdmin(asked, func(admin *kadm.Client) (any, error) {
		unwanted := kadm.TopicsSet{}
		unwanted.Add(asked.Topic, asked.Partition)
		marker := kadm.TxnMarkers{ProducerID: asked.ProducerID, ProducerEpoch: asked.Epoch, Topics: unwanted}
		written, err := admin.WriteTxnMarkers(limit, marker)
		if err != nil {
			return nil, err
		}
		return nil, written[asked.ProducerID].Topics[asked.Topic].Partitions[asked.Partition].Err
	})
}
