package broken

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// processes are those whose memory and processor time are printed: the manager's, the API
// server with etcd, and this one, which has the servers of the sources.
type processes struct {
	fleet   *fleet.Fleet
	begin   time.Time
	samples []sample
}

// A sample is what each process needs at a moment.
type sample struct {
	at time.Time
	of map[string]need
}

type need struct {
	pid    int
	memory measure.Footprint
	cpu    time.Duration
}

// managers are the manager's processes.
var managers = []string{"fleet-controller", "gitjob", "helmops"}

// measured are the processes that take part: the manager's, and those that store objects.
var measured = append(slices.Clone(managers), "kube-apiserver", "etcd")

const benchmark = "this benchmark" // and the servers of the sources

func newProcesses(f *fleet.Fleet) (*processes, error) {
	p := &processes{fleet: f, begin: time.Now()}
	return p, p.sample()
}

func (p *processes) sample() error {
	s := sample{time.Now(), map[string]need{}}
	pids := map[string]int{benchmark: 0}
	for _, part := range p.fleet.Parts() {
		if part.Cluster == p.fleet.Local.Name && part.PID != 0 && slices.Contains(measured, part.Name) {
			pids[part.Name] = part.PID
		}
	}
	for name, pid := range pids {
		m, err := measure.Memory(pid)
		if err != nil {
			return err
		}
		cpu, err := measure.CPU(pid)
		if err != nil {
			return err
		}
		s.of[name] = need{pid, m, cpu}
	}
	for _, name := range managers {
		if _, runs := s.of[name]; !runs {
			return fmt.Errorf("measure %s: it does not run", name)
		}
	}
	p.samples = append(p.samples, s)
	return nil
}

func (p *processes) names() []string {
	return append(slices.Clone(measured), benchmark)
}

func (p *processes) print() {
	measure.Title("Memory and processor time")
	names := p.names()
	measure.Row(append([]string{"after"}, names...)...)
	measure.Row(append([]string{"---:"}, slices.Repeat([]string{"---:"}, len(names))...)...)
	for i, s := range p.samples {
		cells := []string{s.at.Sub(p.begin).Round(time.Second).String()}
		for _, name := range names {
			n := s.of[name]
			text := fmt.Sprintf("%s (%s)", measure.MiB(n.memory.All), measure.MiB(n.memory.Anonymous))
			if i > 0 {
				last := p.samples[i-1]
				used := (n.cpu - last.of[name].cpu).Seconds() / s.at.Sub(last.at).Minutes()
				text += fmt.Sprintf(", %.1f s a minute", used)
				if n.pid != last.of[name].pid {
					text += ", RESTARTED"
				}
			}
			cells = append(cells, text)
		}
		measure.Row(cells...)
	}
	early, last := p.samples[min(2, len(p.samples)-1)], p.samples[len(p.samples)-1]
	cells := []string{fmt.Sprintf("the last ÷ that after %s", early.at.Sub(p.begin).Round(time.Second))}
	for _, name := range names {
		a, b := early.of[name].memory, last.of[name].memory
		cells = append(cells, fmt.Sprintf("%.2f (%.2f)", float64(b.All)/float64(a.All), float64(b.Anonymous)/float64(a.Anonymous)))
	}
	measure.Row(cells...)
}

// counts is what the servers of each kind were asked for.
func (w *world) counts() map[kind]map[string]int {
	all := map[kind]map[string]int{}
	for _, s := range w.servers {
		if all[s.kind] == nil {
			all[s.kind] = map[string]int{}
		}
		for what, n := range s.counts() {
			all[s.kind][what] += n
		}
	}
	return all
}

func (w *world) printRequests(before, after map[kind]map[string]int) {
	measure.Title("Requests that the servers get")
	classes := []string{asksHeads, asksCommits, asksIndex, asksArchive, asksTags, asksOther}
	measure.Row(append([]string{"servers", "how many", "GitRepos", "HelmOps", "ImageScans"}, classes...)...)
	measure.Row(append([]string{"---"}, slices.Repeat([]string{"---:"}, len(classes)+4)...)...)
	for _, k := range append([]kind{healthy}, brokenKinds()...) {
		servers, objects := 0, map[sort]int{}
		for _, s := range w.servers {
			if s.kind == k {
				servers++
			}
		}
		for _, s := range w.sources {
			if s.server.kind == k {
				objects[s.sort]++
			}
		}
		cells := []string{string(k), fmt.Sprint(servers), fmt.Sprint(objects[gitRepo]), fmt.Sprint(objects[helmOp]), fmt.Sprint(objects[imageScan])}
		for _, class := range classes {
			cells = append(cells, fmt.Sprint(after[k][class]-before[k][class]))
		}
		measure.Row(cells...)
	}
	polled := 0
	for _, s := range w.sources {
		if s.server.kind == healthy && s.sort == gitRepo && s.interval > 0 {
			polled++
		}
	}
	if polled > 0 {
		const every = 15 * time.Second
		per := float64(w.options.Time) / float64(every) * float64(polled)
		fmt.Printf("\n%d polled GitRepos of healthy servers, once in %s: %.0f lists of references expected, besides those for webhooks and fetches.\n", polled, every, per)
	}
}

// part returns the value below which a part of the sorted times is.
func part(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func (s *sender) print() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		return
	}
	slices.Sort(s.took)
	measure.Title(fmt.Sprintf("Webhooks: %.1f answers a second, half within %s, 95 of 100 within %s, all within %s",
		float64(len(s.took))/s.end.Sub(s.begin).Seconds(), measure.Milliseconds(part(s.took, 0.5)), measure.Milliseconds(part(s.took, 0.95)), measure.Milliseconds(s.took[len(s.took)-1])))
	measure.Row("webhooks", "how many", "answers")
	measure.Row("---", "---:", "---")
	for _, what := range []string{isNew, isReplay, isBroken, isWrong, isUnsigned, isUnknown, isGarbage} {
		n, answers := 0, []string(nil)
		for _, code := range slices.Sorted(maps.Keys(s.sent[what])) {
			n += s.sent[what][code]
			answers = append(answers, fmt.Sprintf("%d: %d", code, s.sent[what][code]))
		}
		measure.Row(what, fmt.Sprint(n), strings.Join(answers, ", "))
	}
}

// print prints the delays of healthy sources, and what the objects of broken ones say.
func (w *world) print() {
	w.mu.Lock()
	delays, onTime, scanned := w.delays, w.onTime, w.scanned
	w.counting = false
	w.mu.Unlock()
	measure.Title("From a new commit, version or tag on a healthy server to the Bundle, or to status.latestTag")
	measure.Row("object", "changes", "median", "95 of 100", "largest", fmt.Sprintf("within the interval and %s", slack))
	measure.Row("---", "---:", "---:", "---:", "---:", "---:")
	groups := map[string]bool{}
	for _, s := range w.sources {
		if s.server.kind == healthy {
			groups[s.group()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		times := delays[name]
		if strings.HasPrefix(name, imageScan.String()) && !scanned {
			measure.Row(name, "not scanned", "", "", "", "")
			continue
		}
		if len(times) == 0 {
			measure.Row(name, "0", "", "", "", "")
			continue
		}
		slices.Sort(times)
		measure.Row(name, fmt.Sprint(len(times)), measure.Seconds(part(times, 0.5)), measure.Seconds(part(times, 0.95)),
			measure.Seconds(times[len(times)-1]), measure.Share(float64(onTime[name]), float64(len(times))))
	}
	w.printBroken(scanned)
}

// printBroken prints what the objects of broken sources say at the end.
func (w *world) printBroken(scanned bool) {
	measure.Title("What the objects of broken servers say")
	measure.Row("object", "how many", "say what is wrong", "the slowest after", "Ready is False", "Ready is True", "Ready although never read", "deployments that stay", "say nothing")
	measure.Row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---")
	for _, breaks := range []bool{false, true} {
		for _, object := range []sort{gitRepo, helmOp, imageScan} {
			w.sum(object, breaks).print(object, breaks, scanned || object != imageScan)
		}
	}
}

// words are what the objects of broken sources say.
type words struct {
	all, says, notReady, ready, falsely, deployed int
	slowest                                       time.Duration
	of                                            kind
	silent                                        map[kind]int
}

// sum counts what the objects of a kind say whose sources were broken from the start, or
// broke later.
func (w *world) sum(object sort, breaks bool) words {
	sum := words{silent: map[kind]int{}}
	for _, s := range w.sources {
		if s.server.kind == healthy || s.sort != object || s.breaks != breaks {
			continue
		}
		sum.all++
		sum.deployed += min(1, w.deployed(s))
		s.mu.Lock()
		if s.reportedAt.IsZero() {
			sum.silent[s.server.kind]++
		} else {
			sum.says++
			if took := s.reportedAt.Sub(s.wrongAt); took > sum.slowest {
				sum.slowest, sum.of = took, s.server.kind
			}
		}
		sum.notReady, sum.ready, sum.falsely = sum.notReady+count(s.notReady), sum.ready+count(s.ready), sum.falsely+count(s.falselyReady)
		s.mu.Unlock()
	}
	return sum
}

func (s words) print(object sort, breaks, known bool) {
	name := object.String()
	if breaks {
		name += ", healthy at first"
	}
	if !known {
		measure.Row(name, fmt.Sprint(s.all), "not scanned", "", "", "", fmt.Sprint(s.falsely), "", "")
		return
	}
	deployments, slowest := "", ""
	if breaks && object != imageScan {
		deployments = fmt.Sprint(s.deployed)
	}
	if s.says > 0 {
		slowest = fmt.Sprintf("%s (%s)", measure.Seconds(s.slowest), s.of)
	}
	var silent []string
	for _, k := range brokenKinds() {
		if s.silent[k] > 0 {
			silent = append(silent, fmt.Sprintf("%s: %d", k, s.silent[k]))
		}
	}
	measure.Row(name, fmt.Sprint(s.all), fmt.Sprint(s.says), slowest, fmt.Sprint(s.notReady), fmt.Sprint(s.ready), fmt.Sprint(s.falsely), deployments, strings.Join(silent, ", "))
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
