// Package namespace lets a program do something in another network namespace than its own.
package namespace
