// Package oci makes container images from files, without a container engine.
package oci
