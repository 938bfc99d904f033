// Package server stands in for the server that Go projects embed in their tests: it starts a program instead.
//
// It has only what the projects of this folder use. COMPATIBILITY_SERVER is the program and its arguments, as JSON.
package server

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

const readyTimeout = 30 * time.Second

// Options are those that a test may set; the others have the program's defaults.
type Options struct {
	Host string
	Port int
}

// Server is a running program.
type Server struct {
	address *net.TCPAddr
	process *exec.Cmd
}

// NewServer starts the program and returns when it takes connections.
func NewServer(options *Options) (*Server, error) {
	var command []string
	if err := json.Unmarshal([]byte(os.Getenv("COMPATIBILITY_SERVER")), &command); err != nil {
		return nil, fmt.Errorf("COMPATIBILITY_SERVER: %w", err)
	}
	port := options.Port
	if port <= 0 {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		port = free.Addr().(*net.TCPAddr).Port
		free.Close()
	}
	arguments := append(command[1:], "-a", "127.0.0.1", "-p", strconv.Itoa(port))
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	server := &Server{address, exec.Command(command[0], arguments...)}
	if err := server.process.Start(); err != nil {
		return nil, err
	}
	if !server.ReadyForConnections(readyTimeout) {
		server.Shutdown()
		return nil, fmt.Errorf("%v was not ready within %v", command, readyTimeout)
	}
	return server, nil
}

// Start does nothing: NewServer has started it.
func (server *Server) Start() {}

// Running is true: NewServer returns only servers that run.
func (server *Server) Running() bool { return true }

// Addr is where clients connect.
func (server *Server) Addr() net.Addr { return server.address }

// ReadyForConnections waits until the program greets a client: some clients give up soon after they are connected.
func (server *Server) ReadyForConnections(timeout time.Duration) bool {
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if connection, err := net.Dial("tcp", server.address.String()); err == nil {
			connection.SetReadDeadline(end)
			_, err = connection.Read(make([]byte, 1))
			connection.Close()
			if err == nil {
				return true
			}
		}
	}
	return false
}

// Shutdown ends the program and waits for its end.
func (server *Server) Shutdown() {
	if server.process.ProcessState == nil {
		server.process.Process.Signal(syscall.SIGTERM)
		server.process.Wait()
	}
}

// WaitForShutdown does nothing: Shutdown has waited.
func (server *Server) WaitForShutdown() {}
