package suspend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// reasonLimit is the longest --reason, in characters.
const reasonLimit = 200

// Options are what the user asks for: the flags and the arguments of the command.
type Options struct {
	Suspend bool
	all     bool
	Reason  string
	targets []cli.ObjectRef
	output  printer.Output
}

// suspendable are the objects that suspend and resume work with.
var suspendable = cli.Grammar{Kinds: cli.GrammarOf("repos", "helmops", "bundles", "clusters").Kinds, Many: true}

// Complete adds what suspend and resume share.
func (o *Options) Complete(cmd *cobra.Command, g *client.Globals, std printer.Stdio) {
	o.output.AddFlag(cmd.Flags(), cli.DocumentFormats...)
	cmd.Flags().BoolVar(&o.all, "all", false, "the whole fleet")
	cmd.ValidArgsFunction = g.CompleteObjects(std, suspendable)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.targets, err = suspendable.ParseObjects(args); err != nil {
			return err
		}
		if err := o.validate(g.Namespace); err != nil {
			return err
		}
		if err := g.Writing(cmd); err != nil {
			return err
		}
		s, err := g.ConnectWithin(cmd.Context(), std, o.all)
		if err != nil {
			return err
		}
		if o.all {
			return setGlobalPause(cmd.Context(), *o, s)
		}
		return runSuspend(cmd.Context(), *o, s)
	}
}

func (o Options) validate(workspace string) error {
	if err := o.output.CheckBefore(Suspension{}, cli.DocumentFormats...); err != nil {
		return err
	}
	switch {
	case o.all && len(o.targets) > 0:
		return errors.New("--all goes without KIND/NAME")
	case o.all && workspace != "":
		return fmt.Errorf("--all is every workspace: leave out -n; for one workspace name its repos: fleet %s -n %s repo/NAME", o.commandWord(), workspace)
	case !o.all && len(o.targets) == 0:
		return fmt.Errorf("want %s; or --all", suspendable.Forms())
	case o.all && o.Suspend && o.Reason == "":
		return errors.New("--all needs --reason TEXT: everybody will see the brake and wants to know why")
	case !o.all && utf8.RuneCountInString(o.Reason) > reasonLimit:
		return fmt.Errorf("--reason is longer than %d characters", reasonLimit)
	}
	return nil
}

// commandWord is the word of the command.
func (o Options) commandWord() string {
	if o.Suspend {
		return "suspend"
	}
	return "resume"
}

// setGlobalPause puts the brake on or takes it off. Both are done already if they
// are so already.
func setGlobalPause(ctx context.Context, o Options, s *client.Session) error {
	if err := s.ManagerAbsent(ctx); err != nil {
		return err
	}
	s.Std.Note("%s, all workspaces", s.Server)
	was, err := o.readGlobalPause(ctx, s)
	if err != nil {
		return err
	}
	is := was
	switch {
	case o.Suspend && !was.On:
		at := s.Now().UTC().Truncate(time.Second)
		is = view.GlobalPause{On: true, Reason: o.Reason, By: s.UserName(ctx), Since: &at}
		err = writeGlobalPause(ctx, s, is)
	case !o.Suspend && was.On:
		is = view.GlobalPause{}
		err = s.API.Delete(ctx, client.ConfigMaps, s.System, fleet.ConfigMapBrake)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return client.DescribeServerError(s.Server, fmt.Errorf("write the brake: %w", err))
	}
	if o.output.IsMachineReadable() {
		return o.output.Print(s.Std, Suspension{Document: printer.NewDocument("Suspension"), Suspended: is.On, Brake: &is}, false)
	}
	switch {
	case o.Suspend && was.On:
		printer.Fprintf(s.Std.Out, "already %s\n", was.Text(s.Now()))
	case o.Suspend:
		printer.Fprintf(s.Std.Out, "%s\nnothing new is rolled out until: fleet resume --all\n", is.Text(s.Now()))
	case was.On:
		printer.Fprintf(s.Std.Out, "resumed; was %s\n", was.Text(s.Now()))
	default:
		return reportNotPaused(ctx, s)
	}
	return nil
}

// readGlobalPause reads the brake. To resume, the user has to be able to see whether it is on.
func (o Options) readGlobalPause(ctx context.Context, s *client.Session) (view.GlobalPause, error) {
	was, err := s.GlobalPause(ctx)
	if err != nil || o.Suspend || was.On {
		return was, err
	}
	if _, err := s.API.Get(ctx, client.ConfigMaps, s.System, fleet.ConfigMapBrake); apierrors.IsForbidden(err) {
		return was, fmt.Errorf("this user may not read whether the brake is on: %w", err)
	}
	return was, nil
}

// reportNotPaused says that the brake is not on, and which objects are suspended nevertheless,
// with the command that resumes each.
func reportNotPaused(ctx context.Context, s *client.Session) error {
	all := *s
	all.Scope = ""
	f, err := all.ReadFleet(ctx)
	if apierrors.IsForbidden(err) {
		printer.Fprintf(s.Std.Out, "the brake on the whole fleet is not on; this user may not see which objects are suspended\n")
		return nil
	}
	if err != nil {
		return err
	}
	rows := view.PausedObjects(f)
	if len(rows) == 0 {
		printer.Fprintf(s.Std.Out, "the brake on the whole fleet is not on, and no object is suspended\n")
		return nil
	}
	printer.Fprintf(s.Std.Out, "the brake on the whole fleet is not on; to resume what is suspended by itself:\n")
	for _, p := range rows[:min(len(rows), client.MaxPaused)] {
		printer.Fprintf(s.Std.Out, "  %s   (%s %s)\n", resumes(p), p.Label(), p.Text(s.Now()))
	}
	if more := len(rows) - client.MaxPaused; more > 0 {
		printer.Fprintf(s.Std.Out, "  and %d more: fleet status -o wide\n", more)
	}
	return nil
}

// resumes is what lets an object that is paused go on.
func resumes(p view.PausedObject) string {
	if p.InFile() {
		return "change paused in fleet.yaml"
	}
	ns, name, _ := strings.Cut(p.Name, "/")
	for _, k := range cli.Kinds {
		if k.Kind == p.Kind {
			return fmt.Sprintf("fleet resume %s/%s -n %s", k.Singular, name, ns)
		}
	}
	return ""
}

// writeGlobalPause writes the brake, whether its ConfigMap is there or not.
func writeGlobalPause(ctx context.Context, s *client.Session, b view.GlobalPause) error {
	m := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.System, Name: fleet.ConfigMapBrake},
		Data:       b.Data(),
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return err
	}
	_, err = s.API.Create(ctx, client.ConfigMaps, &unstructured.Unstructured{Object: raw})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	merge, err := json.Marshal(map[string]any{"data": b.Data()})
	if err != nil {
		return err
	}
	_, err = s.API.Patch(ctx, client.ConfigMaps, s.System, fleet.ConfigMapBrake, merge)
	return err
}

// runSuspend sets paused on objects, as many as it can.
func runSuspend(ctx context.Context, o Options, s *client.Session) error {
	if err := s.RequireUniqueWorkspace(ctx, o.targets); err != nil {
		return err
	}
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	if err := client.AllPresent(ctx, o.targets, func(ctx context.Context, ref cli.ObjectRef) error {
		_, err := s.Present(ctx, ref.Kind, ref.Name)
		return err
	}); err != nil {
		return err
	}
	doc := Suspension{Document: printer.NewDocument("Suspension"), Suspended: o.Suspend}
	at := s.Now().UTC().Truncate(time.Second)
	pause := view.Pause{Reason: o.Reason, Since: &at}
	if o.Suspend {
		pause.By = s.UserName(ctx)
	}
	var failed []error
	for _, t := range o.targets {
		done, err := o.suspendObject(ctx, s, t, pause)
		if err != nil {
			failed = append(failed, err)
			done.Error = err.Error()
		}
		doc.Objects = append(doc.Objects, done)
		if err == nil && !o.output.IsMachineReadable() {
			printer.Fprintf(s.Std.Out, "%s\n", o.doneText(done, s.Now()))
		}
	}
	if o.output.IsMachineReadable() {
		if err := o.output.Print(s.Std, doc, false); err != nil {
			return err
		}
	}
	return cli.PartialError(failed, len(o.targets))
}

func (o Options) doneText(done SuspendedObject, now time.Time) string {
	verb := "resumed"
	if o.Suspend {
		verb = "suspended"
	}
	if !done.Changed {
		verb = "was " + verb + " already"
		if !o.Suspend {
			verb = "was not suspended"
		}
		if done.Pause != nil {
			verb += "; " + done.Pause.Text(now)
		}
	}
	for _, k := range cli.Kinds {
		if k.Kind == done.Kind {
			return fmt.Sprintf("%s %s %s", k.Singular, done.Name, verb)
		}
	}
	return done.Name + " " + verb
}

// suspendObject sets paused on one object, and notes there who, when and why.
func (o Options) suspendObject(ctx context.Context, s *client.Session, t cli.ObjectRef, pause view.Pause) (SuspendedObject, error) {
	k, name := t.Kind, t.Name
	done := SuspendedObject{Kind: k.Kind, Name: s.Scope + "/" + name}
	u, err := s.Present(ctx, k, name)
	if err != nil {
		return done, err
	}
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused == o.Suspend {
		done.Pause = client.PauseOf(u)
		return done, nil
	}
	if repo := u.GetLabels()[fleet.LabelRepoName]; k.Plural == "bundles" && repo != "" {
		s.Std.Note("warning: the next commit of repo %s that changes this bundle sets this anew; fleet suspend repo/%s holds all of it", repo, repo)
	}
	if op := u.GetLabels()[fleet.LabelHelmOpName]; k.Plural == "bundles" && op != "" {
		s.Std.Note("warning: helmop %s sets this again when it next writes this bundle; name the HelmOp: helmop/%s", op, op)
	}
	if err := s.Merge(ctx, k, name, o.pauseFields(pause)); err != nil {
		return done, err
	}
	done.Changed = true
	if o.Suspend {
		done.Pause = &pause
	}
	return done, nil
}
