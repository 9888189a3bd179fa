package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const largestFrame = 100 << 20 // bytes

var errCorrelation = errors.New("correlation id mismatch")

// connection is a blocking connection to a broker.
type connection struct {
	net.Conn
	in          *bufio.Reader
	correlation int32
	buffer      []byte
}

func dial(addr string) (*connection, error) {
	socket, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: socket, in: bufio.NewReaderSize(socket, 64<<10)}, nil
}

// receive returns the next response: its correlation id, and its body, which is good until the next call.
func (c *connection) receive() (int32, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < 4 || size > largestFrame {
		return 0, nil, fmt.Errorf("frame length %d is out of range (4-%d)", size, largestFrame)
	}
	if cap(c.buffer) < size {
		c.buffer = make([]byte, size)
	}
	c.buffer = c.buffer[:size]
	if _, err := io.ReadFull(c.in, c.buffer); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(c.buffer)), c.buffer[4:], nil
}

// call sends a request and waits for its response.
func (c *connection) call(frame []byte) (*reader, error) {
	c.correlation++
	setCorrelationID(frame, c.correlation)
	if _, err := c.Write(frame); err != nil {
		return nil, err
	}
	id, body, err := c.receive()
	if err != nil {
		return nil, err
	}
	if id != c.correlation {
		return nil, errCorrelation
	}
	return &reader{data: body}, nil
}
