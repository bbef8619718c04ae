package controllers

import (
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// toldLevels are how full a pool is when an Event says so, in percent; levelSlack is by how much it has to fall below one before that is said again.
var toldLevels = []int{75, 90, 100}

const levelSlack = 5

// levelOf is how much of a pool's addresses are not available, in percent, rounded down.
func levelOf(u ipam.Usage) int {
	if u.Total.Sign() == 0 {
		return 0
	}
	used := new(big.Int).Sub(u.Total, u.Available)
	return int(used.Mul(used, big.NewInt(100)).Div(used, u.Total).Int64())
}

// reached returns the level that a pool has reached anew, and the one that is said then; 0 is none.
func reached(before, level int) (anew, said int) {
	for _, l := range toldLevels {
		if l <= before && level >= l-levelSlack {
			said = l // it was said, and still holds
		}
	}
	for _, l := range toldLevels {
		if l > said && level >= l {
			anew, said = l, l
		}
	}
	return anew, said
}

// tellOfPools says in Events that pools fill up.
func (r *AddressesReconciler) tellOfPools(cnet *v1alpha1.ClusterNetworking, pools []ipam.Usage) {
	if cnet == nil {
		return
	}
	before := r.levels
	r.levels = make(map[string]int, len(pools))
	for _, p := range pools {
		anew, said := reached(before[p.Pool], levelOf(p))
		r.levels[p.Pool] = said
		if anew > 0 {
			r.recorder.Eventf(cnet, corev1.EventTypeWarning, v1alpha1.ReasonIPPoolFillsUp, "Allocate", "%s", fillsUp(p, anew))
		}
	}
}

func fillsUp(p ipam.Usage, level int) string {
	return fmt.Sprintf("%d %% of pool %s are in use, %s of %s addresses are available: add a range to it in spec.ipPools", level, p.Pool, p.Available, p.Total)
}
