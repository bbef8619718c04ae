// Package project holds the project to what it says of itself: who imports whom, and what the README's tables explain.
package project
