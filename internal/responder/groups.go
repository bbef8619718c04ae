package responder

import "net/netip"

type groups struct{}

func (*groups) join([]netip.Addr) []error { return nil }
func (*groups) leaveAllBut([]netip.Addr)  {}
func (*groups) close()                    {}
