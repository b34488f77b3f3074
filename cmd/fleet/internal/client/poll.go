package client

import (
	"time"
)

// How long the manager may take to make what stands behind a token, and how
// often it is asked.
const (
	TokenTimeout = 30 * time.Second
	TokenPoll    = 200 * time.Millisecond
)

// AskAgain is how old the known state of manager and brake may become while a status is
// watched.
const AskAgain = 10 * time.Second
