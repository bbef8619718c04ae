// Command packaging makes the ways in which Lanyard is installed from the one description in config/: the Helm chart, the OLM bundle and the
// catalogs.
package main
