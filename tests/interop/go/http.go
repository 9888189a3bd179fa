package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
)

// request sends one HTTP request with Go's own client; of a stream, it reads only the first lines with data.
func request(limit context.Context, asked question) (any, error) {
	var body io.Reader
	if asked.Body != nil {
		body = strings.NewReader(*asked.Body)
	}
	wanted, err := http.NewRequestWithContext(limit, asked.Method, asked.URL, body)
	if err != nil {
		return nil, err
	}
	for name, value := range asked.Headers {
		wanted.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(wanted)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if asked.Lines == 0 {
		content, err := io.ReadAll(response.Body)
		return map[string]any{"status": response.StatusCode, "body": string(content)}, err
	}
	var data []string
	for scanner := bufio.NewScanner(response.Body); len(data) < asked.Lines && scanner.Scan(); {
		if strings.HasPrefix(scanner.Text(), "data:") {
			data = append(data, scanner.Text())
		}
	}
	return map[string]any{"status": response.StatusCode, "body": strings.Join(data, "\n")}, nil
}
