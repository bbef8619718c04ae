// Package links reads and watches the node's network interfaces by netlink.
package links
