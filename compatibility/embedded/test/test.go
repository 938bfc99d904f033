// Package test stands in for the helpers of nats-server's tests that other projects use.
package test

import "github.com/nats-io/nats-server/v2/server"

// DefaultTestOptions are copied by the tests, which set a port.
var DefaultTestOptions = server.Options{Host: "127.0.0.1", Port: 4222}

// RunServer starts a server and returns when it takes connections; it panics when there is none.
func RunServer(options *server.Options) *server.Server {
	running, err := server.NewServer(options)
	if err != nil {
		panic(err)
	}
	return running
}
