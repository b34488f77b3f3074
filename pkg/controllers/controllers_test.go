package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

func TestConfigValidate(t *testing.T) {
	good := Default()
	good.Identity = "me"
	if err := good.Validate(); err != nil {
		t.Errorf("the default is not valid: %v", err)
	}
	err := Config{LeaderElect: true}.Validate()
	want := "namespace: must be set\nidentity: must be set with leader election\n" +
		"check-in interval: 0s is not above 0\nworkers: 0 is not within 1 to 500"
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("all that is wrong, not just the first\n%s", diff)
	}
}

// Metrics are views of status: an object that is gone has no samples.
func TestStates(t *testing.T) {
	c, err := kube.Connect(kube.Config{REST: &rest.Config{Host: "127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	e := bundle.New(bundle.Config{CheckinInterval: time.Minute}, c, logrus.NewEntry(logrus.New()))
	m := NewMetrics()
	m.Loops(e.Loops()...)
	defer m.Watch(e)()
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app", ResourceVersion: "1",
		Labels: map[string]string{fleet.LabelRepoName: "repo"}}}
	b.Status.Summary = fleet.BundleSummary{Ready: 2, NotReady: 1, DesiredReady: 3}
	b.Status.Display.State = "NotReady"
	e.Table().SetBundle(b)
	want := []string{"fleet_bundle_desired_ready 3", "fleet_bundle_not_ready 1", "fleet_bundle_ready 2", "fleet_bundle_state{NotReady} 1"}
	if diff := cmp.Diff(want, samplesAbove0(t, m)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	e.Table().RemoveBundle(kube.KeyOf(b))
	if got := samplesAbove0(t, m); len(got) != 0 {
		t.Errorf("samples of what is gone: %v", got)
	}
}

// samplesAbove0 are all samples that are not 0, sorted.
func samplesAbove0(t *testing.T, m *Metrics) []string {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if s.GetGauge().GetValue() == 0 {
				continue
			}
			name := f.GetName()
			for _, l := range s.GetLabel() {
				if l.GetName() == "state" {
					name += "{" + l.GetValue() + "}"
				}
			}
			out = append(out, fmt.Sprintf("%s %g", name, s.GetGauge().GetValue()))
		}
	}
	slices.Sort(out)
	return out
}

func TestReportKeys(t *testing.T) {
	var out strings.Builder
	log := logrus.New()
	log.SetOutput(&out)
	log.SetFormatter(&logrus.JSONFormatter{DisableTimestamp: true})
	Report(logrus.NewEntry(log))("bundle", kube.Key{Namespace: "ns", Name: "app"}, fmt.Errorf("no route"))
	want := `{"action":"bundle","bundle":"app","error":"no route","level":"error","msg":"failed, will try again","reason":"Error","workspace":"ns"}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
