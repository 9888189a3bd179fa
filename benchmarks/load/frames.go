package main

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

const clientID = "load"

// writer appends the types of Kafka's protocol to a frame.
type writer struct{ data []byte }

func (w *writer) int8(value int8)   { w.data = append(w.data, byte(value)) }
func (w *writer) int16(value int16) { w.data = binary.BigEndian.AppendUint16(w.data, uint16(value)) }
func (w *writer) int32(value int32) { w.data = binary.BigEndian.AppendUint32(w.data, uint32(value)) }
func (w *writer) int64(value int64) { w.data = binary.BigEndian.AppendUint64(w.data, uint64(value)) }
func (w *writer) null()             { w.int16(-1) }
func (w *writer) noTags()           { w.int8(0) }

func (w *writer) text(value string) {
	w.int16(int16(len(value)))
	w.data = append(w.data, value...)
}

func (w *writer) compactText(value string) {
	w.data = binary.AppendUvarint(w.data, uint64(len(value))+1)
	w.data = append(w.data, value...)
}

func (w *writer) bytes(value []byte) {
	w.int32(int32(len(value)))
	w.data = append(w.data, value...)
}

// begin writes the length, which frame fills in, and the header, whose correlation id setCorrelationID fills in.
func begin(key, version int16, flexible bool) *writer {
	w := &writer{}
	w.int32(0)
	w.int16(key)
	w.int16(version)
	w.int32(0)
	w.text(clientID)
	if flexible {
		w.noTags()
	}
	return w
}

func (w *writer) frame() []byte {
	binary.BigEndian.PutUint32(w.data, uint32(len(w.data)-4))
	return w.data
}

func setCorrelationID(frame []byte, id int32) { binary.BigEndian.PutUint32(frame[8:], uint32(id)) }

// reader reads the types of a response; truncated is set, and values are zero, when there is too little.
type reader struct {
	data      []byte
	truncated bool
}

func (r *reader) next(size int) []byte {
	if size < 0 || size > len(r.data) {
		r.truncated, r.data = true, nil
		return make([]byte, 8)
	}
	found := r.data[:size]
	r.data = r.data[size:]
	return found
}

func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.next(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.next(4))) }

func (r *reader) text() string {
	size := r.int16()
	if size < 0 {
		return ""
	}
	return string(r.next(int(size)))
}

func (r *reader) bytes() []byte {
	size := r.int32()
	if size < 0 {
		return nil
	}
	return r.next(int(size))
}

func apiVersionsV3() []byte {
	w := begin(18, 3, true)
	w.compactText(clientID)
	w.compactText("1")
	w.noTags()
	return w.frame()
}

// metadataV4 asks for the brokers and all topics.
func metadataV4() []byte {
	w := begin(3, 4, false)
	w.int32(-1)
	w.int8(1)
	return w.frame()
}

// metadataV12 asks for one topic by its name.
func metadataV12(topic string) []byte {
	w := begin(3, 12, true)
	w.data = append(w.data, 2)
	w.data = append(w.data, make([]byte, 16)...)
	w.compactText(topic)
	w.noTags()
	w.int8(1)
	w.int8(0)
	w.noTags()
	return w.frame()
}

func findCoordinatorV2(group string) []byte {
	w := begin(10, 2, false)
	w.text(group)
	w.int8(0)
	return w.frame()
}

func heartbeatV3(group string, generation int32, member string) []byte {
	w := begin(12, 3, false)
	w.text(group)
	w.int32(generation)
	w.text(member)
	w.null()
	return w.frame()
}

func joinGroupV5(group, member, topic string) []byte {
	w := begin(11, 5, false)
	w.text(group)
	w.int32(45_000) // session timeout, ms
	w.int32(60_000) // rebalance timeout, ms
	w.text(member)
	w.null()
	w.text("consumer")
	w.int32(1)
	w.text("range")
	w.bytes(subscription(topic))
	return w.frame()
}

// share is what the leader gives to one member.
type share struct {
	member     string
	assignment []byte
}

func syncGroupV3(group string, generation int32, member string, shares []share) []byte {
	w := begin(14, 3, false)
	w.text(group)
	w.int32(generation)
	w.text(member)
	w.null()
	w.int32(int32(len(shares)))
	for _, one := range shares {
		w.text(one.member)
		w.bytes(one.assignment)
	}
	return w.frame()
}

func leaveGroupV1(group, member string) []byte {
	w := begin(13, 1, false)
	w.text(group)
	w.text(member)
	return w.frame()
}

// produceV7 writes one record of so many bytes, with acks=1.
func produceV7(topic string, partition int32, size int) []byte {
	w := begin(0, 7, false)
	w.null()
	w.int16(1)
	w.int32(10_000)
	w.int32(1)
	w.text(topic)
	w.int32(1)
	w.int32(partition)
	w.bytes(batch(make([]byte, size)))
	return w.frame()
}

// subscription is the metadata of a member, ConsumerProtocolSubscription v1.
func subscription(topic string) []byte {
	w := &writer{}
	w.int16(1)
	w.int32(1)
	w.text(topic)
	w.int32(-1)
	w.int32(0)
	return w.data
}

// assignment is ConsumerProtocolAssignment v0.
func assignment(topic string, partitions []int32) []byte {
	w := &writer{}
	w.int16(0)
	if len(partitions) == 0 {
		w.int32(0)
	} else {
		w.int32(1)
		w.text(topic)
		w.int32(int32(len(partitions)))
		for _, partition := range partitions {
			w.int32(partition)
		}
	}
	w.int32(-1)
	return w.data
}

// batch is a record batch of magic 2 with one record.
func batch(value []byte) []byte {
	record := []byte{0, 0, 0, 1} // attributes, both deltas, null key
	record = binary.AppendVarint(record, int64(len(value)))
	record = append(append(record, value...), 0) // no headers
	now := time.Now().UnixMilli()
	checked := &writer{} // what the checksum is of
	checked.int16(0)     // attributes
	checked.int32(0)     // last offset delta
	checked.int64(now)
	checked.int64(now)
	checked.int64(-1) // producer id
	checked.int16(-1) // producer epoch
	checked.int32(-1) // sequence
	checked.int32(1)  // records
	checked.data = append(binary.AppendVarint(checked.data, int64(len(record))), record...)
	head := &writer{}
	head.int64(0)
	head.int32(int32(len(checked.data) + 9))
	head.int32(-1) // leader epoch
	head.int8(2)
	head.int32(int32(crc32.Checksum(checked.data, crc32.MakeTable(crc32.Castagnoli))))
	return append(head.data, checked.data...)
}
