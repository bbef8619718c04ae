package main

import "testing"

func TestOutdated(t *testing.T) {
	for name, tc := range map[string]struct {
		running, current string
		want             bool
	}{
		"nothing has changed":                                      {running: "1a", current: "1a"},
		"kubeadm wrote another kubeconfig":                         {running: "1a", current: "2b", want: true},
		"kubeadm reset the node: a kubelet without a file goes on": {running: "1a", current: ""},
		"kubelet itself turned the bootstrap file into its own":    {running: "bootstrap 1a", current: "2b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := outdated(tc.running, tc.current); got != tc.want {
				t.Errorf("outdated is %v, want %v", got, tc.want)
			}
		})
	}
}
