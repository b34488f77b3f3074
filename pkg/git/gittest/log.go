package gittest

import (
	"io"
	"log"
)

// discardLog keeps handshake failures that tests provoke out of their output.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
