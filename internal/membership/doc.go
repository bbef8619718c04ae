// Package membership says which speakers are alive, what each can serve and which addresses each claims, by gossip among them, without the API
// server.
package membership
