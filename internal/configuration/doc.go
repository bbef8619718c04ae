// Package configuration is the contract between the manager and the speakers: the last good configuration, as the one YAML
// document in the ConfigMap that both the allocator and every speaker act on.
package configuration
