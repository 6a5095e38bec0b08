// Package answer is the line loop of the drivers that are written in Go: one request in, one answer out (rows.py).
package answer

import (
	"bufio"
	"encoding/json"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// Within bounds every call of a driver.
const Within = 30 * time.Second

// Asked is a request.
type Asked struct {
	Call              string `json:"call"`
	Bootstrap         string `json:"bootstrap"`
	Topic             string `json:"topic"`
	Count             int    `json:"count"`
	Codec             string `json:"codec"`
	Idempotent        bool   `json:"idempotent"`
	Partitions        int32  `json:"partitions"`
	ReplicationFactor int16  `json:"replication_factor"`
	Setting           string `json:"setting"`
	Value             string `json:"value"`
	TimestampMs       int64  `json:"timestamp_ms"`
	Offset            int64  `json:"offset"`
	Group             string `json:"group"`
}

// Servers returns the addresses of the brokers.
func (asked Asked) Servers() []string { return strings.Split(asked.Bootstrap, ",") }

// Call does what a request asks for.
type Call func(Asked) (any, error)

// Serve answers requests from standard input until it ends; module is the client's, for its version.
func Serve(module string, calls map[string]Call) {
	calls["version"] = func(Asked) (any, error) { return version(module), nil }
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked Asked
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		call, known := calls[asked.Call]
		if !known {
			_ = out.Encode(map[string]any{"absent": ""})
			continue
		}
		value, err := call(asked)
		if err != nil {
			_ = out.Encode(map[string]any{"error": err.Error()})
			continue
		}
		_ = out.Encode(map[string]any{"value": value})
	}
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, one := range info.Deps {
		if one.Path == module {
			return one.Version
		}
	}
	return "unknown"
}
