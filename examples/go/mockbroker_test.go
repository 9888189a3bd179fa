package orders

// A mock Kafka cluster as a child process, and a client of its control API. Needs the standard library alone.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	readyWithin = 20 * time.Second
	waitAtMost  = 5 * time.Second // of the control API's waits
)

// Broker is a running broker and its control API. A request that is refused, or a wait that times out, fails the test.
type Broker struct {
	t                testing.TB
	URL, Token       string
	BootstrapServers string
}

// Record is a record to append. Without Partition the broker chooses one, as a producer does.
type Record struct {
	Key       *string `json:"key,omitempty"`
	Value     string  `json:"value"`
	Partition *int32  `json:"partition,omitempty"`
}

// Rule is a fault rule. Match and Action have the keys of docs/faults.md.
type Rule struct {
	Name       string         `json:"name"`
	Match      map[string]any `json:"match"`
	Occurrence map[string]any `json:"occurrence,omitempty"`
	Action     map[string]any `json:"action"`
}

// Fault is a rule's counters.
type Fault struct {
	Name      string `json:"name"`
	Matched   int    `json:"matched"`
	Applied   int    `json:"applied"`
	Holding   int    `json:"holding"`
	Exhausted bool   `json:"exhausted"`
}

// Group is a consumer group with its committed offsets.
type Group struct {
	ID         string `json:"id"`
	State      string `json:"state"`
	Generation int    `json:"generation"`
	Members    []struct {
		MemberID   string             `json:"member_id"`
		ClientID   string             `json:"client_id"`
		Assignment map[string][]int32 `json:"assignment"`
	} `json:"members"`
	Offsets []struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
		Lag       *int64 `json:"lag"`
	} `json:"offsets"`
}

// Request is a client's request with its response; Fault is the name of the rule that was applied to it, or nil.
type Request struct {
	API      string         `json:"api"`
	ClientID string         `json:"client_id"`
	Request  map[string]any `json:"request"`
	Response map[string]any `json:"response"`
	Fault    *string        `json:"fault"`
}

// StartBroker starts a broker for a test, and stops it when the test ends. The broker also stops when this process dies,
// because that closes its stdin. Options are those of `mockbroker serve`.
func StartBroker(t testing.TB, options ...string) *Broker {
	t.Helper()
	command := os.Getenv("MOCKBROKER")
	if command == "" {
		command = "mockbroker"
	}
	ready := filepath.Join(t.TempDir(), "ready.json")
	words := []string{"serve", "--port", "0", "--http", "0", "--ready-file", ready, "--stop-on-stdin-eof"}
	child := exec.Command(command, append(words, options...)...)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe() // open as long as this process lives
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	t.Cleanup(func() {
		child.Process.Signal(syscall.SIGTERM) // no error if it has ended
		stdin.Close()
		if err := <-ended; err != nil {
			t.Errorf("mockbroker: %v", err)
		}
	})
	giveUp := time.After(readyWithin)
	for {
		if content, err := os.ReadFile(ready); err == nil {
			var addresses struct {
				BootstrapServers string `json:"bootstrap_servers"`
				HTTP             string `json:"http"`
			}
			if err := json.Unmarshal(content, &addresses); err != nil {
				t.Fatal(err)
			}
			token := os.Getenv("MOCKBROKER_HTTP_TOKEN")
			return &Broker{t: t, URL: addresses.HTTP, Token: token, BootstrapServers: addresses.BootstrapServers}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("mockbroker ended before it was ready")
		case <-giveUp:
			t.Fatalf("mockbroker is not ready after %s", readyWithin)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Produce appends records and returns the offset of each.
func (b *Broker) Produce(topic string, records ...Record) []int64 {
	b.t.Helper()
	var answer struct{ Offsets []int64 }
	b.call("POST", "/topics/"+url.PathEscape(topic)+"/records", map[string]any{"records": records}, &answer)
	return answer.Offsets
}

// AddFault adds a rule.
func (b *Broker) AddFault(rule Rule) (fault Fault) {
	b.t.Helper()
	b.call("POST", "/faults", rule, &fault)
	return fault
}

// WaitApplied waits until a rule was applied to this number of requests.
func (b *Broker) WaitApplied(name string, applied int) (fault Fault) {
	b.t.Helper()
	query := fmt.Sprintf("/wait?applied=%d&timeout_ms=%d", applied, waitAtMost.Milliseconds())
	b.call("GET", "/faults/"+url.PathEscape(name)+query, nil, &fault)
	return fault
}

// Group returns a group.
func (b *Broker) Group(id string) (group Group) {
	b.t.Helper()
	b.call("GET", "/groups/"+url.PathEscape(id), nil, &group)
	return group
}

// WaitGroup waits until a group has this state and this number of members.
func (b *Broker) WaitGroup(id, state string, members int) (group Group) {
	b.t.Helper()
	query := fmt.Sprintf("/wait?state=%s&members=%d&timeout_ms=%d", state, members, waitAtMost.Milliseconds())
	b.call("GET", "/groups/"+url.PathEscape(id)+query, nil, &group)
	return group
}

// Requests returns the latest requests to one API.
func (b *Broker) Requests(api string) []Request {
	b.t.Helper()
	var answer struct{ Items []Request }
	b.call("GET", "/requests?api="+url.QueryEscape(api), nil, &answer)
	return answer.Items
}

func (b *Broker) call(method, path string, body, answer any) {
	b.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, b.URL+"/v1"+path, content)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if b.Token != "" {
		request.Header.Set("Authorization", "Bearer "+b.Token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if response.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %s: %s", method, path, response.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		b.t.Fatal(err)
	}
}
