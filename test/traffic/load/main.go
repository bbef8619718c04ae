// Command load opens connections to a page at a steady rate, and prints what became of them each second, as a line of JSON, until it is
// told to end or its time is over.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lanyard-dev/lanyard/test/traffic"
)

func main() {
	rate := flag.Int("rate", 50, "connections a second")
	length := flag.Duration("for", 10*time.Minute, "the longest time that it goes on")
	flag.Parse()
	if flag.NArg() != 1 || *rate < 1 || *rate > 1000 {
		fmt.Fprintln(os.Stderr, "usage: load [--rate 1..1000] [--for TIME] URL")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *length)
	defer cancel()
	load := traffic.New(flag.Arg(0))
	go func() {
		for each := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				return
			case <-each.C:
				tell(load.Report())
			}
		}
	}()
	tell(load.Run(ctx, *rate))
}

func tell(r traffic.Report) {
	line, err := json.Marshal(r)
	if err != nil { // a report is numbers and text
		panic(err)
	}
	fmt.Println(string(line))
}
