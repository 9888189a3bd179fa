package main

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"time"
)

// startup runs a broker again and again, and reports the time from exec to the first Metadata response that names a broker.
func startup(args []string) {
	flags := flag.NewFlagSet("startup", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:9092", "where the broker listens")
	limit := flags.Duration("limit", time.Minute, "how long a start may take")
	rounds := flags.Int("rounds", 5, "how often")
	flags.Parse(args)
	var found []float64
	for range *rounds {
		took, err := start(flags.Args(), *addr, *limit)
		if err != nil {
			fail(err)
		}
		found = append(found, took.Seconds()*1e3)
		time.Sleep(200 * time.Millisecond)
	}
	report(map[string]any{"rounds_ms": found})
}

// start runs the command until it is ready, and ends it.
func start(command []string, addr string, limit time.Duration) (time.Duration, error) {
	context, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(context, command[0], command[1:]...)
	begin := time.Now()
	if err := process.Start(); err != nil {
		cancel()
		return 0, err
	}
	defer process.Wait()
	defer cancel()
	for !ready(addr) {
		if time.Since(begin) > limit {
			return 0, fmt.Errorf("%s is not ready after %s", command[0], limit)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(begin), nil
}

// ready reports whether a Metadata response names a broker.
func ready(addr string) bool {
	link, err := dial(addr)
	if err != nil {
		return false
	}
	defer link.Close()
	link.SetDeadline(time.Now().Add(2 * time.Second))
	answer, err := link.call(metadataV4())
	if err != nil {
		return false
	}
	answer.int32()
	return answer.int32() > 0 && !answer.truncated
}
