// franz-go at the test's command: `client member OPTIONS` is a group member, `client transform
// OPTIONS` works in transactions, `client share OPTIONS` is a member of a share group, `client ask`
// answers questions.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

var stdout sync.Mutex

// tell writes one JSON line.
func tell(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	stdout.Lock()
	defer stdout.Unlock()
	fmt.Println(string(text))
}

// lines gives what comes on stdin, and closes at its end.
func lines() <-chan string {
	found := make(chan string)
	go func() {
		defer close(found)
		scanner := bufio.NewScanner(os.Stdin)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			found <- scanner.Text()
		}
	}()
	return found
}

func main() {
	switch os.Args[1] {
	case "member":
		var options options
		if err := json.Unmarshal([]byte(os.Args[2]), &options); err != nil {
			panic(err)
		}
		runMember(options)
	case "transform":
		var asked transforming
		if err := json.Unmarshal([]byte(os.Args[2]), &asked); err != nil {
			panic(err)
		}
		runTransformer(asked)
	case "share":
		var asked sharing
		if err := json.Unmarshal([]byte(os.Args[2]), &asked); err != nil {
			panic(err)
		}
		runSharer(asked)
	case "ask":
		for line := range lines() {
			tell(answer(line))
		}
	}
}
