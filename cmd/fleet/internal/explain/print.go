package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/explain"
)

// Explanation is what fleet explain prints about one cluster: how it was
// decided.
type Explanation struct {
	printer.Document
	// Bundle is "<workspace>/<name>".
	Bundle string `json:"bundle"`
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// State of the deployment; empty where it is not known, or there is none and
	// there should be none.
	State string `json:"state,omitempty"`
	// StoppedAt is the first link that stops or waits; empty where all is well.
	StoppedAt string `json:"stoppedAt"`
	// Reason is one CamelCase word that programs may compare.
	Reason string `json:"reason,omitempty"`
	// Since is when it began, if that is known; where all is well, since when it
	// is.
	Since *time.Time `json:"since,omitempty"`
	// Message says why, in the words of the objects' status.
	Message string `json:"message,omitempty"`
	// Hints are commands or edits that help.
	Hints []string `json:"hints"`
	// Chain are the ten links, always all of them and in this order: source,
	// bundle, target, policy, pause, rollout, depends, delivered, applied, healthy.
	Chain []ExplanationLink `json:"chain"`
	// Hidden is what the user may not read, as "<resource>" or
	// "<resource> in <namespace>".
	Hidden []string `json:"hidden,omitempty"`
}

// ExplanationLink is one link of an Explanation.
type ExplanationLink struct {
	// Link is its name.
	Link string `json:"link"`
	// Verdict is ok, wait, stop or unknown. Links behind the first that stops or
	// waits are unknown.
	Verdict string `json:"verdict"`
	// Reason is one CamelCase word; left out where the link is ok.
	Reason string `json:"reason,omitempty"`
	// Since is when it began, if that is known.
	Since *time.Time `json:"since,omitempty"`
	// Message says it to a person.
	Message string `json:"message,omitempty"`
	// Details are further lines.
	Details []string `json:"details,omitempty"`
	// Evidence is what the verdict was made of.
	Evidence map[string]any `json:"evidence,omitempty"`
}

// BundleExplanation is what fleet explain prints about a bundle on all
// clusters.
type BundleExplanation struct {
	printer.Document
	// Bundle is "<workspace>/<name>".
	Bundle string `json:"bundle"`
	// Clusters is how many clusters the bundle is meant for.
	Clusters int `json:"clusters"`
	// Ready is on how many of them it is Ready.
	Ready int `json:"ready"`
	// StoppedAt is source or bundle, where one of these stops it for all
	// clusters; Reason, Since, Message and Hints are of that link.
	StoppedAt string `json:"stoppedAt"`
	// Reason is one CamelCase word that programs may compare.
	Reason string `json:"reason,omitempty"`
	// Since is when it began, if that is known.
	Since *time.Time `json:"since,omitempty"`
	// Message says why.
	Message string `json:"message,omitempty"`
	// Hints are commands or edits that help.
	Hints []string `json:"hints"`
	// Source says which version of its chart the bundle's HelmOp stands for; left out
	// for other bundles, and where it is not known.
	Source string `json:"source,omitempty"`
	// Waits is what the rollout waits for, and for whom; left out where it waits
	// for nothing.
	Waits string `json:"waits,omitempty"`
	// Answers are the distinct answers, worst first.
	Answers []ExplanationAnswer `json:"answers"`
	// Hidden is what the user may not read.
	Hidden []string `json:"hidden,omitempty"`
}

// ExplanationAnswer is what is the same for a number of clusters.
type ExplanationAnswer struct {
	// Clusters is their number.
	Clusters int `json:"clusters"`
	// Example is the first of them, "<workspace>/<name>"; empty where it is not
	// known.
	Example string `json:"example"`
	// State of the deployments; empty where there are none and should be none.
	State string `json:"state,omitempty"`
	// StoppedAt is the first link that stops or waits; empty where all is well.
	StoppedAt string `json:"stoppedAt"`
	// Reason is one CamelCase word that programs may compare.
	Reason string `json:"reason,omitempty"`
	// Message is the answer.
	Message string `json:"message"`
}

// MaxAnswers is how many distinct answers are shown, unless -o wide asks for all.
const MaxAnswers = 20

// printExplanation prints an explanation.
func (o Options) printExplanation(s *client.Session, e explain.Explanation) error {
	if o.Output.IsMachineReadable() {
		return o.Output.Print(s.Std, explanation(e), o.Watch)
	}
	now := s.Now()
	p := printer.Paragraph{Out: s.Std.Out, Width: s.Std.Width()}
	if o.Output.IsWide() {
		p.Width = 0
	}
	p.Lines("", e.Headline(now))
	if e.Ready() && !o.All {
		if e.Paused != "" {
			p.Lines("", linkText(e.Link(explain.Pause)))
		}
		for _, text := range e.Warnings {
			p.Lines("warning: ", text)
		}
		return nil
	}
	fmt.Fprintln(p.Out)
	printLinks(p, e)
	if len(e.Hints) > 0 {
		fmt.Fprintln(p.Out)
		hints(p, e.Hints)
	}
	return nil
}

// words before links.
var verdictWords = map[explain.Verdict]string{
	explain.OK: "ok", explain.Wait: "WAIT", explain.Stop: "STOP", explain.Unknown: "?",
}

// printLinks prints the links up to the first that stops, and what runs meanwhile.
func printLinks(p printer.Paragraph, e explain.Explanation) {
	size := len(explain.Healthy)
	behind := false
	var shown []explain.Link
	var words []string
	for _, l := range e.Chain {
		word := verdictWords[l.Verdict]
		if behind {
			if l.Text == "" {
				continue
			}
			word = "now"
		}
		behind = behind || l.Name == e.StoppedAt
		shown, words = append(shown, l), append(words, word)
		size = max(size, len(l.Name))
	}
	for i, l := range shown {
		prefix := fmt.Sprintf("  %-4s  %-*s  ", words[i], size, l.Name)
		p.State = words[i]
		p.Lines(prefix, linkText(l))
		p.State = ""
		for _, d := range l.Details {
			p.Lines(strings.Repeat(" ", len(prefix)), d)
		}
	}
}

// linkText is the text of a link for people.
func linkText(l explain.Link) string { return cmp.Or(l.Screen, cmp.Or(l.Text, "not known")) }

// hints prints what helps, commands below each other.
func hints(p printer.Paragraph, list []explain.Hint) {
	size := 0
	for _, h := range list {
		size = max(size, utf8.RuneCountInString(h.For))
	}
	for _, h := range list {
		printer.Fprintf(p.Out, "%s\n", printer.Pad(h.For+":", size+1)+"  "+h.Do) // never broken: it is there to be copied
	}
}

// printSurvey prints the answer about all clusters.
func (o Options) printSurvey(s *client.Session, v explain.Survey) error {
	if o.Output.IsMachineReadable() {
		return o.Output.Print(s.Std, bundleExplanation(v), o.Watch)
	}
	p := printer.Paragraph{Out: s.Std.Out, Width: s.Std.Width()}
	if o.Output.IsWide() {
		p.Width = 0
	}
	p.Lines("", v.Headline())
	switch {
	case v.StoppedAt != "":
		p.Lines("", "nothing new comes: "+v.Message)
	case v.Message != "" && v.Example.Name != "": // else the headline says it
		p.Lines("", v.Example.Name+": "+v.Message)
		for _, d := range v.Details {
			p.Lines("  ", d)
		}
	}
	if v.Source != "" {
		p.Lines("", v.Source)
	}
	if v.Waits != "" {
		p.Lines("", "rollout: "+v.Waits)
	}
	for _, text := range v.Warnings {
		p.Lines("warning: ", text)
	}
	if len(v.Answers) > 0 {
		fmt.Fprintln(p.Out)
		answers(p, o, v)
	}
	if len(v.Hints) > 0 {
		fmt.Fprintln(p.Out)
		hints(p, v.Hints)
	}
	return nil
}

// answers prints one line for each distinct answer. On a terminal it is the
// answer that is cut, never the name.
func answers(p printer.Paragraph, o Options, v explain.Survey) {
	list, more := v.Answers, 0
	if !o.Output.IsWide() && len(list) > MaxAnswers {
		more = len(list) - MaxAnswers
		list = list[:MaxAnswers]
	}
	const title = "CLUSTERS"
	example := len("EXAMPLE")
	for _, a := range list {
		example = max(example, utf8.RuneCountInString(a.Example.Name))
	}
	room := 0
	if p.Width > 0 {
		room = max(p.Width-len(title)-2*len(printer.Gap)-example, 20)
	}
	t := printer.Table{Out: p.Out, Columns: []printer.Column{{Title: title}, {Title: "ANSWER"}, {Title: "EXAMPLE"}}}
	var rows [][]string
	for _, a := range list {
		rows = append(rows, []string{fmt.Sprintf("%*d", len(title), a.Clusters), printer.Cut(a.Text, room), printer.OrDash(a.Example.Name)})
	}
	t.Print(rows, false)
	if more > 0 {
		fmt.Fprintf(p.Out, "and %d more answers: fleet explain %s -n %s -o wide\n", more, v.Bundle.Name, v.Bundle.Namespace)
	}
}

func explanation(e explain.Explanation) Explanation {
	doc := Explanation{
		Document: printer.NewDocument("Explanation"), Bundle: e.Bundle.String(), Cluster: e.Cluster.String(), State: string(e.State),
		StoppedAt: string(e.StoppedAt), Reason: e.Reason, Since: utc(e.Since), Message: e.Message, Hints: hintTexts(e.Hints), Hidden: hiddenTexts(e.Hidden),
	}
	for _, l := range e.Chain {
		doc.Chain = append(doc.Chain, ExplanationLink{
			Link: string(l.Name), Verdict: string(l.Verdict), Reason: l.Reason, Since: utc(l.Since), Message: l.Text, Details: l.Details, Evidence: l.Evidence,
		})
	}
	return doc
}

func bundleExplanation(v explain.Survey) BundleExplanation {
	doc := BundleExplanation{
		Document: printer.NewDocument("BundleExplanation"), Bundle: v.Bundle.String(), Clusters: v.Clusters, Ready: v.Ready,
		StoppedAt: string(v.StoppedAt), Reason: v.Reason, Since: utc(v.Since), Message: v.Message, Hints: hintTexts(v.Hints), Source: v.Source, Waits: v.Waits,
		Answers: []ExplanationAnswer{}, Hidden: hiddenTexts(v.Hidden),
	}
	for _, a := range v.Answers {
		doc.Answers = append(doc.Answers, ExplanationAnswer{
			Clusters: a.Clusters, Example: strings.TrimPrefix(a.Example.String(), "/"), State: string(a.State), StoppedAt: string(a.StoppedAt), Reason: a.Reason, Message: a.Text,
		})
	}
	return doc
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}

func hintTexts(list []explain.Hint) []string {
	out := make([]string, len(list))
	for i, h := range list {
		out[i] = h.Do
	}
	return out
}

func hiddenTexts(list []explain.Hidden) []string {
	var out []string
	for _, h := range list {
		out = append(out, h.String())
	}
	return out
}
