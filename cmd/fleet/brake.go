package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var brakeFormats = []string{printer.FormatJSON, printer.FormatYAML}

var selfReviews = authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews")

const suspendText = `Holds back what is new for a repo, bundle or cluster, or with --all for the whole fleet. What is deployed goes on running, is judged
and kept from drifting.

--all puts a brake on that every manager loop obeys and every command shows until fleet resume --all.

Who suspended what, since when and why is shown by fleet status, fleet get and fleet explain.`

const resumeText = `Lets go on what fleet suspend has held back: a repo, bundle or cluster, or with --all the whole fleet.`

// reasonLimit is the longest --reason, in characters.
const reasonLimit = 200

type brakeOptions struct {
	suspend bool
	all     bool
	reason  string
	targets []objectRef
	output  printer.Output
}

// suspendable are the objects that suspend and resume work with.
var suspendable = grammar{kinds: grammarOf("repos", "bundles", "clusters").kinds, many: true}

func newSuspendCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := brakeOptions{suspend: true}
	cmd := &cobra.Command{
		Use: "suspend KIND/NAME...", Short: "Hold back what is new", Long: suspendText,
		Example: "  fleet suspend repo/shops -n fleet-default\n  fleet suspend --all --reason 'incident 4711'",
	}
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for everybody to read; needed with --all")
	o.complete(cmd, g, std)
	return cmd
}

func newResumeCommand(g *globals, std printer.Stdio) *cobra.Command {
	o := brakeOptions{}
	cmd := &cobra.Command{Use: "resume KIND/NAME...", Short: "Go on with what was held back", Long: resumeText}
	o.complete(cmd, g, std)
	return cmd
}

// complete adds what suspend and resume share.
func (o *brakeOptions) complete(cmd *cobra.Command, g *globals, std printer.Stdio) {
	o.output.AddFlag(cmd.Flags(), brakeFormats...)
	cmd.Flags().BoolVar(&o.all, "all", false, "the whole fleet")
	cmd.ValidArgsFunction = g.completeObjects(std, suspendable)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if o.targets, err = suspendable.objects(args); err != nil {
			return err
		}
		if err := o.check(g.namespace); err != nil {
			return err
		}
		if err := g.writing(cmd); err != nil {
			return err
		}
		s, err := g.connectWithin(cmd.Context(), std, o.all)
		if err != nil {
			return err
		}
		if o.all {
			return runBrake(cmd.Context(), *o, s)
		}
		return runSuspend(cmd.Context(), *o, s)
	}
}

func (o brakeOptions) check(workspace string) error {
	if err := o.output.CheckBefore(Suspension{}, brakeFormats...); err != nil {
		return err
	}
	switch {
	case o.all && len(o.targets) > 0:
		return errors.New("--all goes without KIND/NAME")
	case o.all && workspace != "":
		return fmt.Errorf("--all is every workspace: leave out -n; for one workspace name its repos: fleet %s -n %s repo/NAME", o.verb(), workspace)
	case !o.all && len(o.targets) == 0:
		return fmt.Errorf("want %s; or --all", suspendable.forms())
	case o.all && o.suspend && o.reason == "":
		return errors.New("--all needs --reason TEXT: everybody will see the brake and wants to know why")
	case !o.all && utf8.RuneCountInString(o.reason) > reasonLimit:
		return fmt.Errorf("--reason is longer than %d characters", reasonLimit)
	}
	return nil
}

// verb is the word of the command.
func (o brakeOptions) verb() string {
	if o.suspend {
		return "suspend"
	}
	return "resume"
}

// runBrake puts the brake on or takes it off. Both are done already if they
// are so already.
func runBrake(ctx context.Context, o brakeOptions, s *session) error {
	if err := s.managerAbsent(ctx); err != nil {
		return err
	}
	s.std.Note("%s, all workspaces", s.server)
	was, err := o.before(ctx, s)
	if err != nil {
		return err
	}
	is := was
	switch {
	case o.suspend && !was.On:
		at := s.now().UTC().Truncate(time.Second)
		is = view.Brake{On: true, Reason: o.reason, By: s.whoami(ctx), Since: &at}
		err = s.putBrake(ctx, is)
	case !o.suspend && was.On:
		is = view.Brake{}
		err = s.api.Delete(ctx, configMaps, s.system, fleet.ConfigMapBrake)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return reached(s.server, fmt.Errorf("write the brake: %w", err))
	}
	if o.output.Machine() {
		return o.output.Print(s.std, Suspension{Document: printer.NewDocument("Suspension"), Suspended: is.On, Brake: &is}, false)
	}
	switch {
	case o.suspend && was.On:
		printer.Say(s.std.Out, "already %s\n", was.Text(s.now()))
	case o.suspend:
		printer.Say(s.std.Out, "%s\nnothing new is rolled out until: fleet resume --all\n", is.Text(s.now()))
	case was.On:
		printer.Say(s.std.Out, "resumed; was %s\n", was.Text(s.now()))
	default:
		return s.notBraked(ctx)
	}
	return nil
}

// before reads the brake. To resume, the user has to be able to see whether it is on.
func (o brakeOptions) before(ctx context.Context, s *session) (view.Brake, error) {
	was, err := s.brake(ctx)
	if err != nil || o.suspend || was.On {
		return was, err
	}
	if _, err := s.api.Get(ctx, configMaps, s.system, fleet.ConfigMapBrake); apierrors.IsForbidden(err) {
		return was, fmt.Errorf("this user may not read whether the brake is on: %w", err)
	}
	return was, nil
}

// notBraked says that the brake is not on, and which objects are suspended nevertheless,
// with the command that resumes each.
func (s *session) notBraked(ctx context.Context) error {
	all := *s
	all.scope = ""
	f, err := all.look(ctx)
	if apierrors.IsForbidden(err) {
		printer.Say(s.std.Out, "the brake on the whole fleet is not on; this user may not see which objects are suspended\n")
		return nil
	}
	if err != nil {
		return err
	}
	rows := view.PausedObjects(f)
	if len(rows) == 0 {
		printer.Say(s.std.Out, "the brake on the whole fleet is not on, and no object is suspended\n")
		return nil
	}
	printer.Say(s.std.Out, "the brake on the whole fleet is not on; to resume what is suspended by itself:\n")
	for _, p := range rows[:min(len(rows), maxPaused)] {
		printer.Say(s.std.Out, "  %s   (%s %s)\n", resumes(p), p.Label(), p.Text(s.now()))
	}
	if more := len(rows) - maxPaused; more > 0 {
		printer.Say(s.std.Out, "  and %d more: fleet status -o wide\n", more)
	}
	return nil
}

// resumes is what lets an object that is paused go on.
func resumes(p view.PausedObject) string {
	if p.InFile() {
		return "change paused in fleet.yaml"
	}
	ns, name, _ := strings.Cut(p.Name, "/")
	for _, k := range kinds {
		if k.Kind == p.Kind {
			return fmt.Sprintf("fleet resume %s/%s -n %s", k.singular, name, ns)
		}
	}
	return ""
}

// putBrake writes the brake, whether its ConfigMap is there or not.
func (s *session) putBrake(ctx context.Context, b view.Brake) error {
	m := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.system, Name: fleet.ConfigMapBrake},
		Data:       b.Data(),
	}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		return err
	}
	_, err = s.api.Create(ctx, configMaps, &unstructured.Unstructured{Object: raw})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	merge, err := json.Marshal(map[string]any{"data": b.Data()})
	if err != nil {
		return err
	}
	_, err = s.api.Patch(ctx, configMaps, s.system, fleet.ConfigMapBrake, merge)
	return err
}

// whoami is the user's name as the API server knows it, or else as the
// kubeconfig calls it.
func (s *session) whoami(ctx context.Context) string {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": selfReviews.GroupVersion().String(), "kind": "SelfSubjectReview",
	}}
	answer, err := s.api.Create(ctx, selfReviews, review)
	if err == nil {
		if name, _, _ := unstructured.NestedString(answer.Object, "status", "userInfo", "username"); name != "" {
			return name
		}
	}
	return s.user
}

// runSuspend sets paused on objects, as many as it can.
func runSuspend(ctx context.Context, o brakeOptions, s *session) error {
	if err := s.certain(ctx, o.targets); err != nil {
		return err
	}
	s.std.Note("%s, workspace %s", s.server, s.scope)
	if err := allPresent(ctx, o.targets, func(ctx context.Context, ref objectRef) error {
		_, err := s.present(ctx, ref.kind, ref.name)
		return err
	}); err != nil {
		return err
	}
	doc := Suspension{Document: printer.NewDocument("Suspension"), Suspended: o.suspend}
	at := s.now().UTC().Truncate(time.Second)
	pause := view.Pause{Reason: o.reason, Since: &at}
	if o.suspend {
		pause.By = s.whoami(ctx)
	}
	var failed []error
	for _, t := range o.targets {
		done, err := o.one(ctx, s, t, pause)
		if err != nil {
			failed = append(failed, err)
			done.Error = err.Error()
		}
		doc.Objects = append(doc.Objects, done)
		if err == nil && !o.output.Machine() {
			printer.Say(s.std.Out, "%s\n", o.said(done, s.now()))
		}
	}
	if o.output.Machine() {
		if err := o.output.Print(s.std, doc, false); err != nil {
			return err
		}
	}
	return partly(failed, len(o.targets))
}

// partly returns the error of a command for so many objects, some of which failed:
// errPartly where others did not.
func partly(failed []error, of int) error {
	err := errors.Join(failed...)
	if err != nil && len(failed) < of {
		return fmt.Errorf("%w: %w", errPartly, err)
	}
	return err
}

func (o brakeOptions) said(done SuspendedObject, now time.Time) string {
	verb := "resumed"
	if o.suspend {
		verb = "suspended"
	}
	if !done.Changed {
		verb = "was " + verb + " already"
		if !o.suspend {
			verb = "was not suspended"
		}
		if done.Pause != nil {
			verb += "; " + done.Pause.Text(now)
		}
	}
	for _, k := range kinds {
		if k.Kind == done.Kind {
			return fmt.Sprintf("%s %s %s", k.singular, done.Name, verb)
		}
	}
	return done.Name + " " + verb
}

// one sets paused on one object, and notes there who, when and why.
func (o brakeOptions) one(ctx context.Context, s *session, t objectRef, pause view.Pause) (SuspendedObject, error) {
	k, name := t.kind, t.name
	done := SuspendedObject{Kind: k.Kind, Name: s.scope + "/" + name}
	u, err := s.present(ctx, k, name)
	if err != nil {
		return done, err
	}
	if paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused"); paused == o.suspend {
		done.Pause = pauseOf(u)
		return done, nil
	}
	if repo := u.GetLabels()[fleet.LabelRepoName]; k.plural == "bundles" && repo != "" {
		s.std.Note("warning: the next commit of repo %s that changes this bundle sets this anew; fleet suspend repo/%s holds all of it", repo, repo)
	}
	if err := s.merge(ctx, k, name, o.pauseFields(pause)); err != nil {
		return done, err
	}
	done.Changed = true
	if o.suspend {
		done.Pause = &pause
	}
	return done, nil
}

// present reads an object of the workspace that has to be there.
func (s *session) present(ctx context.Context, k kind, name string) (*unstructured.Unstructured, error) {
	u, err := s.api.Get(ctx, k.resource(), s.scope, name)
	if apierrors.IsNotFound(err) {
		return nil, s.absent(ctx, k, name)
	}
	if err != nil {
		return nil, reached(s.server, err)
	}
	return u, nil
}

// allPresent is an error if look finds one of several objects not to be there: then
// nothing is written. One alone is left to the command.
func allPresent(ctx context.Context, refs []objectRef, look func(context.Context, objectRef) error) error {
	if len(refs) < 2 {
		return nil
	}
	var missing []error
	for _, ref := range refs {
		if err := look(ctx, ref); err != nil {
			missing = append(missing, err)
		}
	}
	err := errors.Join(missing...)
	if err != nil && len(missing) < len(refs) {
		return fmt.Errorf("nothing is done: %w", err)
	}
	return err
}

// merge changes some fields of an object of the workspace.
func (s *session) merge(ctx context.Context, k kind, name string, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if _, err := s.api.Patch(ctx, k.resource(), s.scope, name, body); err != nil {
		return reached(s.server, err)
	}
	return nil
}

// absent is the error for an object that is not in the workspace, with where
// it is instead, or the nearest name.
func (s *session) absent(ctx context.Context, k kind, name string) error {
	wide := *s
	wide.scope, wide.narrowed = "", true
	qs, err := wide.wide(ctx, k, "")
	if errors.As(err, new(*notManagementError)) {
		return err
	}
	if err != nil {
		return k.unknown(name, s.scope, nil)
	}
	var here []view.Key
	for _, q := range qs {
		items, err := s.all(ctx, q)
		if err != nil {
			return err
		}
		for _, u := range items {
			if u.GetName() == name {
				return fmt.Errorf("no %s %q in %s; there is one in %s: -n %s", k.singular, name, s.scope, u.GetNamespace(), u.GetNamespace())
			}
			if u.GetNamespace() == s.scope {
				here = append(here, view.Key{Namespace: u.GetNamespace(), Name: u.GetName()})
			}
		}
	}
	return k.unknown(name, s.scope, here)
}
