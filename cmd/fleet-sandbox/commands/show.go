package commands

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// A document is what up and status print with -o json. Fields are only ever
// added.
type document struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	State      string            `json:"state"` // Starting, Ready or NotReady
	Version    string            `json:"version"`
	StateDir   string            `json:"stateDir"`
	PID        int               `json:"pid"`
	Seconds    seconds           `json:"seconds"`
	Repository *repositoryRecord `json:"repository,omitempty"`
	Clusters   []clusterRecord   `json:"clusters"`
	Faults     []string          `json:"faults,omitempty"`
	Processes  int               `json:"processes"`
}

type repositoryRecord struct {
	URL    string `json:"url"`
	Dir    string `json:"dir,omitempty"`
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}

type clusterRecord struct {
	Manager    string            `json:"manager,omitempty"` // cluster of the manager that says so
	Workspace  string            `json:"workspace"`
	Name       string            `json:"name"`
	State      string            `json:"state"`
	Labels     map[string]string `json:"labels"`
	Bundles    bundleCount       `json:"bundles"`
	Kubeconfig string            `json:"kubeconfig"`
}

type bundleCount struct {
	Ready   int `json:"ready"`
	Desired int `json:"desired"`
}

// document describes the session; snap is the newest look at the fleet.
func (s *session) document(snap fleet.Snapshot) document {
	now := s.facts()
	state, _ := s.state.Load().(string)
	d := document{
		APIVersion: "cli.fleet.cattle.io/v1", Kind: "Sandbox", State: state, Version: version.Version,
		StateDir: s.plan.place.Base, PID: os.Getpid(), Seconds: now.took.rounded(), Clusters: []clusterRecord{},
	}
	if f := s.fleet.Load(); f != nil {
		d.Processes = f.Running()
	}
	if now.repo.url != "" {
		d.Repository = &repositoryRecord{now.repo.url, now.repo.dir, now.repo.branch, now.repo.commit}
	}
	for _, c := range snap.Clusters {
		labels := map[string]string{}
		for key, value := range c.Labels {
			if fleet.LabelText(map[string]string{key: value}) != "-" {
				labels[key] = value
			}
		}
		name := c.Member
		if name == "" {
			name = c.Name
		}
		d.Clusters = append(d.Clusters, clusterRecord{
			Manager: c.Manager, Workspace: c.Workspace, Name: c.Name, State: c.State, Labels: labels,
			Bundles:    bundleCount{c.Ready, c.Desired},
			Kubeconfig: s.plan.place.clusterKubeconfig(name),
		})
	}
	return d
}

// rounded keeps one digit behind the point.
func (s seconds) rounded() seconds {
	round := func(x float64) float64 { return float64(int(x*10+0.5)) / 10 }
	return seconds{round(s.Build), round(s.Start), round(s.FirstReady)}
}

// show prints the result of up; unready is why not everything is Ready.
func (s *session) show(snap fleet.Snapshot, unready error) error {
	if unready == nil {
		s.state.Store("Ready")
		took := s.facts().took
		s.progress.step("deploy", fmt.Sprintf("%s Ready everywhere, %.1fs after the clusters served",
			plural(len(snap.Bundles), "bundle"), took.FirstReady-took.Start))
	} else {
		s.state.Store("NotReady")
		s.progress.step("deploy", fmt.Sprintf("not Ready after %s", s.plan.options.timeout))
	}
	if s.plan.options.output == "json" {
		encoder := json.NewEncoder(s.std.out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(s.document(snap)); err != nil {
			return fmt.Errorf("print document: %w", err)
		}
	} else {
		fmt.Fprintln(s.std.err)
		if err := printTables(s.std.out, snap); err != nil {
			return fmt.Errorf("print tables: %w", err)
		}
		fmt.Fprintln(s.std.err)
	}
	s.printHints()
	if unready != nil {
		fmt.Fprintln(s.std.err, "not Ready: "+s.fleet.Load().Waiting())
	}
	if isDetached() {
		code := 0
		if unready != nil {
			code = exitNotReady
		}
		return letGo(s.plan.place, code)
	}
	return nil
}

// printHead says what is going to happen and what it takes.
func (p plan) printHead(std stdio) {
	minor := "Kubernetes"
	if v, err := p.builder.Version(); err == nil {
		minor += " " + strings.Join(strings.Split(strings.TrimPrefix(v, "v"), ".")[:2], ".")
	}
	clusters := len(p.names()) + 1
	noun := "cluster"
	if clusters != 1 {
		noun += "s"
	}
	fmt.Fprintf(std.err, "fleet-sandbox: a fleet of %s %s %s on this machine\n", number(clusters), minor, noun)
	fmt.Fprintf(std.err, "  takes  %s memory, %s disk, ports %d-%d on 127.0.0.1; no root, no containers\n",
		gibUp(memoryNeeded(clusters)), gibUp(diskNeeded(clusters, false)), p.ports.First, p.ports.Last())
	fmt.Fprintf(std.err, "  lives  in %s; your kubeconfig is neither read nor written\n", short(p.place.Base))
	if list := tiers(p.downstream); len(list) > 0 {
		fmt.Fprintf(std.err, "  tiers  %s\n", strings.Join(list, "; "))
	}
}

// plural is "1 bundle" or "2 bundles".
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// number writes small numbers as words.
func number(n int) string {
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
	if n < len(words) {
		return words[n]
	}
	return strconv.Itoa(n)
}

// gibUp writes bytes in GiB, rounded up.
func gibUp(bytes uint64) string { return fmt.Sprintf("%d GiB", (bytes+(1<<30)-1)>>30) }

// printHints says what can be done now.
func (s *session) printHints() {
	if isDetached() {
		fmt.Fprintln(s.std.err, "Running until fleet-sandbox down, which stops and removes everything. In a shell, here:")
	} else {
		fmt.Fprintln(s.std.err, "Running until Ctrl-C, which stops and removes everything. In a second terminal, here:")
	}
	option := ""
	if s.plan.place.First != fleet.DefaultFirstPort {
		option = fmt.Sprintf("--ports %d ", s.plan.place.First)
	}
	hints := [][2]string{
		{fmt.Sprintf("eval \"$(go run ./cmd/fleet-sandbox %senv)\"", option), "fleet, fleet-sandbox, kubectl; this shell only"},
	}
	if s.facts().repo.dir != "" {
		hints = append(hints, [2]string{`cd "$SANDBOX_REPO"`, "the repository: commit, and it rolls out"})
	}
	hints = append(hints, [2]string{"fleet status -w", "watch it"})
	names := s.plan.names()
	if len(tiers(s.plan.downstream)) > 0 {
		hints = append(hints,
			[2]string{"fleet status --context " + names[0], "what the manager on " + names[0] + " says"},
			[2]string{fmt.Sprintf("fleet-sandbox stop %s/%s", names[0], fleet.Manager), "stop that manager; the one above goes on"})
	}
	if n := len(names); n > 0 {
		last := names[n-1]
		hints = append(hints, [2]string{"fleet-sandbox cut " + last, fmt.Sprintf("take a cluster off the net; heal %s undoes it", last)})
	}
	for _, h := range hints {
		fmt.Fprintf(s.std.err, "  %-40s   %s\n", h[0], h[1])
	}
	fmt.Fprintln(s.std.err, "Five more minutes: docs/tour.md")
}

// stateReady is the state of a fleet in which nothing is wrong.
const stateReady = string(api.Ready)
