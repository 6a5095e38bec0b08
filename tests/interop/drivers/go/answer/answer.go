// Package answer is the line loop of the drivers that are written in Go: one request in, one answer out (rows.py).
package answer

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
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

	User       string  `json:"user"`
	Password   string  `json:"password"`
	Iterations int32   `json:"iterations"`
	Quota      string  `json:"quota"`
	Rate       float64 `json:"rate"`
	Principal  string  `json:"principal"`
	Login      *Login  `json:"login"`
}

// Login is how the client gets in where the request says so (security.py).
type Login struct {
	CA        string `json:"ca"`
	Identity  string `json:"identity"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Token     string `json:"token"`
}

// TLS returns what the client trusts and shows.
func (login Login) TLS() (*tls.Config, error) {
	pem, err := os.ReadFile(login.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if login.Identity == "" {
		return config, nil
	}
	identity, err := tls.LoadX509KeyPair(login.Identity, login.Identity)
	config.Certificates = []tls.Certificate{identity}
	return config, err
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
