package main

import "testing"

func TestMirrorOf(t *testing.T) {
	for name, tc := range map[string]struct {
		repositories, want, err string
	}{
		"the first archive of Debian": {
			repositories: "Other stable http://other.example/apt/\nDebian stable http://mirror.example/debian/\nDebian stable-updates http://updates.example/debian/\n",
			want:         "http://mirror.example/debian/",
		},
		"not the archive of security updates": {
			repositories: "Debian oldstable-security http://mirror.example/debian-security/\nDebian oldstable http://mirror.example/debian/\n",
			want:         "http://mirror.example/debian/",
		},
		"a machine without": {
			repositories: "Ubuntu noble http://mirror.example/ubuntu/\n",
			err:          "this machine's sources of packages have no archive of Debian: a node's kernel is built from its sources; add one, and run apt-get update",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := mirrorOf(tc.repositories)
			if got != tc.want || message(err) != tc.err {
				t.Errorf("mirror is %q, error %q; want %q, %q", got, message(err), tc.want, tc.err)
			}
		})
	}
}

func TestNewestKernel(t *testing.T) {
	for name, tc := range map[string]struct {
		offered, want, err string
	}{
		"by number, not by letters": {
			offered: "linux-source-7.2 - Linux kernel source\nlinux-source-7.10 - Linux kernel source\nlinux-source-6.19 - Linux kernel source\n",
			want:    "linux-source-7.10",
		},
		"too old": {
			offered: "linux-source-6.12 - Linux kernel source\n",
			err:     `the suite trixie-backports of Debian offers "linux-source-6.12 - Linux kernel source\n": a node's kernel needs sources of Linux 6.16 or newer`,
		},
		"none": {
			err: `the suite trixie-backports of Debian offers "": a node's kernel needs sources of Linux 6.16 or newer`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newestKernel(tc.offered)
			if got != tc.want || message(err) != tc.err {
				t.Errorf("package is %q, error %q; want %q, %q", got, message(err), tc.want, tc.err)
			}
		})
	}
}
