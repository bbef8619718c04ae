package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where the backends are: on nodes that survive the fault, so that the address alone is at stake, or on every node.
const (
	survivors = "survivors"
	spread    = "spread"
)

// options are what the command line says.
type options struct {
	lab            lab
	out, version   string
	crds           string
	products       []product
	faults         []fault
	placements     []string
	n, nSilent     int
	nControl, vips int
	summarize      bool
	// costs says that it is measured what the speakers cost instead.
	costs bool
	// pending are how many Services wait for addresses when it is measured instead how long they do.
	pending []int
	// takeover says that it is measured instead what a client sees while Lanyard takes over from MetalLB.
	takeover bool
	// disturbed is how many faults are inflicted at random instead, and seed that of their order.
	disturbed int
	seed      uint64
}

// mostVIPs is how many addresses the pool for many has.
const mostVIPs = 1000

func parseOptions(args []string) (options, error) {
	var o options
	var products, faults, placements, pending string
	set := flag.NewFlagSet("failover", flag.ContinueOnError)
	set.StringVar(&o.lab.program, "lab", "bin/lab", "the lab program")
	set.StringVar(&o.lab.name, "lab-name", "bench", "the name of the lab that is measured")
	set.StringVar(&o.lab.root, "root", ".", "the project's folder")
	set.StringVar(&o.out, "out", "test/bench/results", "the folder for results")
	set.StringVar(&o.version, "version", "", "what is measured, for the results")
	set.StringVar(&o.crds, "metallb-crds", "", "the folder with MetalLB's CRDs")
	set.StringVar(&products, "products", "lanyard", "what is measured: lanyard, metallb")
	set.StringVar(&faults, "faults", names(everyFault), "the faults")
	set.StringVar(&placements, "placements", survivors, "where the backends are: survivors, spread")
	set.IntVar(&o.n, "n", 20, "how often each fault is inflicted")
	set.IntVar(&o.nSilent, "n-silent", 0, "how often the cable is cut silently; 0 is as often as the rest")
	set.IntVar(&o.nControl, "n-control", 3, "how often the negative control is made")
	set.IntVar(&o.vips, "vips", 1, "how many addresses there are")
	set.IntVar(&o.disturbed, "disturb", 0, "inflict so many faults at random instead, and judge who claims the addresses")
	set.Uint64Var(&o.seed, "seed", 1, "the seed of their order")
	set.BoolVar(&o.costs, "costs", false, "measure instead what the speakers cost")
	set.StringVar(&pending, "pending", "", "measure instead how long so many Services wait for addresses; more than one with commas between them")
	set.BoolVar(&o.takeover, "takeover", false, "have Lanyard take over from MetalLB instead, and judge what a client sees")
	set.BoolVar(&o.summarize, "summarize", false, "only sum up the results that are there")
	if err := set.Parse(args); err != nil {
		return o, fmt.Errorf("reading the flags: %w", err)
	}
	if o.nSilent == 0 {
		o.nSilent = o.n
	}
	var errs [5]error
	if pending != "" {
		o.pending, errs[4] = counts(pending)
	}
	o.products, errs[0] = pick(products, everyProduct, func(p product) string { return p.name })
	o.faults, errs[1] = pick(faults, everyFault, func(f fault) string { return f.name })
	o.placements, errs[2] = pick(placements, []string{survivors, spread}, func(s string) string { return s })
	if o.vips < 1 || o.vips > mostVIPs || o.n < 0 || o.nSilent < 0 || o.nControl < 0 {
		errs[3] = fmt.Errorf("--vips is %d, which has to be 1 to %d, and no number may be negative", o.vips, mostVIPs)
	}
	return o, errors.Join(errs[:]...)
}

// pick returns the things that a list names, in the list's order.
func pick[T any](list string, all []T, name func(T) string) ([]T, error) {
	var picked []T
	for _, wanted := range strings.Split(list, ",") {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == wanted })
		if i < 0 {
			var known []string
			for _, t := range all {
				known = append(known, name(t))
			}
			return nil, fmt.Errorf("%q is none of %s", wanted, strings.Join(known, ", "))
		}
		picked = append(picked, all[i])
	}
	return picked, nil
}

// mostPending is how many Services may wait for addresses at once.
const mostPending = 10_000

// counts reads how many Services wait.
func counts(list string) ([]int, error) {
	var all []int
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostPending {
			return nil, fmt.Errorf("--pending has %q, which has to be a number from 1 to %d", text, mostPending)
		}
		all = append(all, n)
	}
	return all, nil
}

// count is how often a fault is inflicted.
func (o options) count(f fault) int {
	switch f.name {
	case silentCut:
		return o.nSilent
	case control:
		return o.nControl
	default:
		return o.n
	}
}

func names(faults []fault) string {
	all := make([]string, len(faults))
	for i, f := range faults {
		all[i] = f.name
	}
	return strings.Join(all, ",")
}
