// What sarama and kafka-go do on a cluster of two brokers, one outcome per step: main CLIENT BOOTSTRAP, JSON to stdout.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// The outcome of each step by its name: a value of the client, or the text of its error.
type outcomes map[string]any

func (found outcomes) add(step string, value any, err error) {
	if err != nil {
		value = "error: " + err.Error()
	}
	found[step] = value
}

var clients = map[string]func(bootstrap []string, found outcomes) error{"sarama": withSarama, "kafka-go": withKafkaGo}

func main() {
	found := outcomes{}
	if err := clients[os.Args[1]](strings.Split(os.Args[2], ","), found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
