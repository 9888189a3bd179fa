package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	topic      = "bench"
	partitions = 6   // of the topic
	valueSize  = 100 // bytes of a produced value
	ticks      = 100 // of /proc, in a second
	patience   = 10 * time.Second
)

// requests keeps so many requests of one API in flight, and reports rate, latency and the CPU time of the broker.
func requests(args []string) {
	flags := flag.NewFlagSet("requests", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:9092", "host:port")
	api := flags.String("api", "apiversions", "apiversions|metadata|heartbeat|member|produce; member: a heartbeat of a member")
	connections := flags.Int("connections", 1, "how many")
	depth := flags.Int("depth", 1, "requests in flight on each connection")
	duration := flags.Duration("duration", 3*time.Second, "what is counted")
	warm := flags.Duration("warm", 500*time.Millisecond, "before it is counted")
	pid := flags.Int("pid", 0, "process of the broker, for its CPU time")
	flags.Parse(args)

	load := &load{depth: *depth}
	var running sync.WaitGroup
	for number := range *connections {
		frame := request(*api, *addr, number)
		link, err := dial(*addr)
		if err != nil {
			fail(err)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			defer link.Close()
			load.run(link, frame)
		}()
	}
	time.Sleep(*warm)
	before, begin := cpuSeconds(*pid), time.Now()
	load.counting.Store(true)
	time.Sleep(*duration)
	load.counting.Store(false)
	cpu, took := cpuSeconds(*pid)-before, time.Since(begin).Seconds()
	load.stopping.Store(true)
	wait(&running, patience)

	load.lock.Lock()
	defer load.lock.Unlock()
	count := len(load.latencies)
	sort.Slice(load.latencies, func(a, b int) bool { return load.latencies[a] < load.latencies[b] })
	reason, _ := load.failure.Load().(string)
	report(map[string]any{
		"api": *api, "connections": *connections, "depth": *depth, "seconds": took, "requests": count, "error": reason,
		"rps": float64(count) / took, "p50_us": load.percentile(0.5), "p99_us": load.percentile(0.99),
		"server_cpu_us_per_req": cpu * 1e6 / float64(max(1, count)), "server_cores": cpu / took,
	})
}

// request returns the frame that a connection repeats.
func request(api, addr string, number int) []byte {
	switch api {
	case "apiversions":
		return apiVersionsV3()
	case "metadata":
		return metadataV12(topic)
	case "heartbeat":
		return heartbeatV3("load-none", 1, "nobody")
	case "member":
		name := fmt.Sprintf("load-%d-%d", time.Now().UnixNano(), number)
		link, err := dial(addr)
		if err != nil {
			fail(err)
		}
		one := &member{run: &groupRun{}, link: link, group: name}
		if err := one.join(); err != nil {
			fail("the member did not join:", err)
		}
		return heartbeatV3(name, one.generation, one.id)
	case "produce":
		return produceV7(topic, int32(number%partitions), valueSize)
	}
	fail("unknown api:", api)
	return nil
}

// load is what all connections share.
type load struct {
	depth              int
	counting, stopping atomic.Bool
	failure            atomic.Value
	lock               sync.Mutex
	latencies          []time.Duration
}

// run keeps a connection busy until the load stops, and checks the order of responses.
func (l *load) run(link *connection, frame []byte) {
	var own []time.Duration
	defer func() {
		l.lock.Lock()
		l.latencies = append(l.latencies, own...)
		l.lock.Unlock()
	}()
	out := bufio.NewWriterSize(link, 128<<10)
	times := make([]time.Time, l.depth)
	sent, received := 0, 0
	send := func() {
		setCorrelationID(frame, int32(sent))
		out.Write(frame)
		times[sent%l.depth] = time.Now()
		sent++
	}
	for range l.depth {
		send()
	}
	out.Flush()
	for received < sent {
		id, _, err := link.receive()
		if err == nil && id != int32(received) {
			err = errCorrelation
		}
		if err != nil {
			l.failure.CompareAndSwap(nil, err.Error())
			return
		}
		if l.counting.Load() {
			own = append(own, time.Since(times[received%l.depth]))
		}
		received++
		if !l.stopping.Load() {
			send()
		}
		if link.in.Buffered() < 4 { // no further response has arrived
			out.Flush()
		}
	}
}

// percentile of the sorted latencies, in microseconds.
func (l *load) percentile(part float64) float64 {
	if len(l.latencies) == 0 {
		return 0
	}
	return float64(l.latencies[min(len(l.latencies)-1, int(part*float64(len(l.latencies))))].Nanoseconds()) / 1e3
}

// wait returns when the group is done, or at the end of the time.
func wait(running *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// cpuSeconds returns user and system time of a process (Linux).
func cpuSeconds(pid int) float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return float64(user+system) / ticks
}
