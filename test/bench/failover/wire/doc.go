// Package wire reads and makes the frames and datagrams of the failover benchmark.
package wire
