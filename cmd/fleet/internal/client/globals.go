package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
)

// Globals are the flags that every command has.
type Globals struct {
	Kubeconfig string
	Context    string
	Namespace  string
	System     string
	Quiet      bool
	Debug      bool
	Color      printer.ColorMode

	// Plain says that a terminal shows no colours, or that the user wants none.
	Plain bool

	// Ran says that a command began its work, answered that it wrote to stdout.
	Ran, Answered bool

	// DefaultNamespace is where commands that write do so without -n.
	DefaultNamespace string
	Environment      bool           // the Environment names that workspace
	unnamed          *cobra.Command // the command that writes, where the user names no workspace

	// What commands reach beyond themselves; tests put others in their place.
	Dial  func(printer.Stdio) (Access, error)
	Watch func(ctx context.Context, s *Session, of Selection) (FleetWatch, error)
	Now   func() time.Time

	Random func(bytes int) string // a word that cannot be guessed
	Other  func(file, context string) (Access, error)
	Bring  func(ctx context.Context, to Access, objects []*unstructured.Unstructured) error
	Probe  func(ctx context.Context, a Access) diagnose.ServerSeen
	Visit  func(ctx context.Context, url string, ca []byte) *diagnose.ConnectionStep
}

// DefaultSystemNamespace is the manager's namespace where the user names none.
const DefaultSystemNamespace = fleet.NamespaceSystem

// RandomWord returns 2n hex digits that cannot be guessed. They may stand in the name of an
// object, which the capitals of rand.Text may not.
func RandomWord(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Colored reports whether an answer has colours.
func (g *Globals) Colored(terminal bool) bool {
	switch g.Color {
	case printer.ColorAlways:
		return true
	case printer.ColorNever:
		return false
	}
	return terminal && !g.Plain
}
