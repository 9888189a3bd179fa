package main

import (
	"flag"
	"fmt"
	"sync"
	"time"
)

// Error codes that a member has an answer to.
const (
	none                    = 0
	coordinatorLoading      = 14
	coordinatorNotAvailable = 15
	notCoordinator          = 16
	illegalGeneration       = 22
	unknownMemberID         = 25
	rebalanceInProgress     = 27
	memberIDRequired        = 79
)

// group forms a classic group of scripted members; then one joins, then that one leaves. Each phase ends when all expected
// members have finished SyncGroup in the same generation. A member learns of a rebalance by its next heartbeat, so joining
// and leaving cannot take less than about one heartbeat interval. The broker needs group.initial.rebalance.delay.ms=0.
func group(args []string) {
	flags := flag.NewFlagSet("group", flag.ExitOnError)
	addr := flags.String("addr", "127.0.0.1:9092", "host:port")
	size := flags.Int("members", 10, "how many")
	heartbeat := flags.Duration("heartbeat", 500*time.Millisecond, "heartbeat interval")
	limit := flags.Duration("limit", 2*time.Minute, "how long a phase may take")
	hold := flags.Duration("hold", time.Second, "time between phases")
	flags.Parse(args)

	name := fmt.Sprintf("load-%d", time.Now().UnixNano())
	coordinator, err := coordinator(*addr, name)
	if err != nil {
		fail(err)
	}
	run := &groupRun{synced: map[int32]map[*member]bool{}, failures: map[string]int{}}
	create := func() *member {
		link, err := dial(coordinator)
		if err != nil {
			fail(err)
		}
		return &member{run: run, link: link, group: name, heartbeat: *heartbeat, quit: make(chan struct{})}
	}
	result := map[string]any{"members": *size, "heartbeat_ms": heartbeat.Seconds() * 1e3}
	phase := func(what string, expected int, begin func()) bool {
		done, since := run.expect(expected), time.Now()
		begin()
		select {
		case generation := <-done:
			result[what+"_ms"] = time.Since(since).Seconds() * 1e3
			result[what+"_generation"] = generation
			time.Sleep(*hold)
			return true
		case <-time.After(*limit):
			result["error"] = what + " took longer than " + limit.String()
			return false
		}
	}
	members := make([]*member, *size)
	for number := range members {
		members[number] = create()
	}
	formed := phase("form", *size, func() {
		for _, one := range members {
			go one.live()
		}
	})
	if formed {
		extra := create()
		if phase("join", *size+1, func() { go extra.live() }) {
			phase("leave", *size, func() { close(extra.quit) })
		}
	}
	run.lock.Lock()
	result["failures"] = run.failures
	run.lock.Unlock()
	report(result)
	for _, one := range members {
		close(one.quit)
	}
	time.Sleep(300 * time.Millisecond) // the LeaveGroups are sent
}

// groupRun has the members that have finished SyncGroup in each generation.
type groupRun struct {
	lock     sync.Mutex
	synced   map[int32]map[*member]bool
	expected int
	done     chan int32
	failures map[string]int
}

// expect returns a channel that gets the first generation in which so many members have finished.
func (g *groupRun) expect(members int) chan int32 {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.expected, g.done = members, make(chan int32, 1)
	return g.done
}

func (g *groupRun) finish(generation int32, one *member) {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.synced == nil {
		return // a member on its own
	}
	if g.synced[generation] == nil {
		g.synced[generation] = map[*member]bool{}
	}
	g.synced[generation][one] = true
	if len(g.synced[generation]) == g.expected && g.done != nil {
		g.done <- generation
		g.done = nil
	}
}

func (g *groupRun) fail(err error) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.failures[err.Error()]++
}

// member is a scripted member of a classic group, on a connection of its own.
type member struct {
	run        *groupRun
	link       *connection
	group      string
	heartbeat  time.Duration
	quit       chan struct{}
	id         string
	generation int32
}

// live joins, sends heartbeats, joins again when the group rebalances, and leaves when told to quit.
func (m *member) live() {
	if err := m.beat(); err != nil {
		m.run.fail(err)
	}
}

func (m *member) beat() error {
	if err := m.join(); err != nil {
		return err
	}
	ticker := time.NewTicker(m.heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-m.quit:
			m.link.call(leaveGroupV1(m.group, m.id))
			return m.link.Close()
		case <-ticker.C:
		}
		answer, err := m.link.call(heartbeatV3(m.group, m.generation, m.id))
		if err != nil {
			return err
		}
		answer.int32()
		switch code := answer.int16(); code {
		case none:
			continue
		case unknownMemberID:
			m.id = ""
		case rebalanceInProgress, illegalGeneration, notCoordinator:
		default:
			return fmt.Errorf("heartbeat: error %d", code)
		}
		if err := m.join(); err != nil {
			return err
		}
	}
}

// join repeats JoinGroup and SyncGroup until both succeed.
func (m *member) join() error {
	for {
		shares, joined, err := m.joinGroup()
		if err != nil {
			return err
		}
		if !joined {
			continue
		}
		answer, err := m.link.call(syncGroupV3(m.group, m.generation, m.id, shares))
		if err != nil {
			return err
		}
		answer.int32()
		switch code := answer.int16(); code {
		case none:
			m.run.finish(m.generation, m)
			return nil
		case unknownMemberID:
			m.id = ""
		case rebalanceInProgress, illegalGeneration:
		default:
			return fmt.Errorf("sync: error %d", code)
		}
	}
}

// joinGroup sends one JoinGroup. The leader gets what to hand out: partitions dealt to members in turn.
func (m *member) joinGroup() (shares []share, joined bool, err error) {
	answer, err := m.link.call(joinGroupV5(m.group, m.id, topic))
	if err != nil {
		return nil, false, err
	}
	answer.int32()
	code := answer.int16()
	generation := answer.int32()
	answer.text()
	leader, id := answer.text(), answer.text()
	switch code {
	case none:
	case memberIDRequired:
		m.id = id
		return nil, false, nil
	case unknownMemberID:
		m.id = ""
		return nil, false, nil
	case rebalanceInProgress, coordinatorLoading, coordinatorNotAvailable, notCoordinator:
		time.Sleep(5 * time.Millisecond)
		return nil, false, nil
	default:
		return nil, false, fmt.Errorf("join: error %d", code)
	}
	m.id, m.generation = id, generation
	if leader != id {
		return nil, true, nil
	}
	size := int(answer.int32())
	for number := range size {
		name := answer.text()
		answer.text()
		answer.bytes()
		var dealt []int32
		for partition := number; partition < partitions; partition += size {
			dealt = append(dealt, int32(partition))
		}
		shares = append(shares, share{name, assignment(topic, dealt)})
	}
	return shares, true, nil
}

// coordinator asks until the broker names one.
func coordinator(addr, group string) (string, error) {
	for range 200 {
		link, err := dial(addr)
		if err != nil {
			return "", err
		}
		answer, err := link.call(findCoordinatorV2(group))
		link.Close()
		if err != nil {
			return "", err
		}
		answer.int32()
		code := answer.int16()
		answer.text()
		answer.int32()
		host, port := answer.text(), answer.int32()
		if code == none {
			return fmt.Sprintf("%s:%d", host, port), nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", fmt.Errorf("no coordinator of %s after 10 s", group)
}
