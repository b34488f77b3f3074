// Command pause does nothing until it gets a signal. It holds the namespaces of
// a pod together, and stands in for workloads.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
