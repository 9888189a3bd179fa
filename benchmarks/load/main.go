// Load for a broker: requests, groups and start-up, one JSON line each. The standard library alone; frames are written by hand.
//
//	load requests -addr HOST:PORT -api heartbeat -connections 10 -depth 1 [-pid PID]
//	load group    -addr HOST:PORT -members 200 -heartbeat 100ms
//	load startup  -addr HOST:PORT -rounds 7 -- COMMAND...
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	commands := map[string]func([]string){"requests": requests, "group": group, "startup": startup}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fail("usage: load requests|group|startup [flags]")
	}
	commands[os.Args[1]](os.Args[2:])
}

// report prints a result.
func report(result map[string]any) {
	line, err := json.Marshal(result)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

// fail ends the program with a line on stderr.
func fail(reason ...any) {
	fmt.Fprintln(os.Stderr, reason...)
	os.Exit(1)
}
