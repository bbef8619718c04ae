// Package membership says which speakers are alive and what each can serve, by gossip among them, without the API server.
package membership
