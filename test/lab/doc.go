// Command lab starts a real kubeadm cluster on one Linux machine, in network namespaces of its own, without Docker and without
// downloading anything but Go modules and Debian packages. README.md tells how.
package main
