module github.com/nats-io/nats-server/v2

go 1.21
