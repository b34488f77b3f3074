// Command launcher is what fleet-sandbox becomes once it is built.
package main

import "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/commands"

func main() { commands.Main() }
