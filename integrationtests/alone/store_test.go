package alone

import (
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// piece is the label of the Secrets with further pieces of a payload.
const piece = "fleet.cattle.io/chunk-of"

// An agent that died between two Secrets of a payload leaves pieces behind, and a
// person may have broken a record: the next agent removes the first, is not stopped
// by the second, and keeps what it has accepted, also alone.
func kept(p *place) {
	p.Start()
	p.Order("kept", harness.Order{Files: files("one"), Options: correcting()})
	p.Order("broken", harness.Order{Files: files("one"), Options: correcting()})
	p.Order("large", harness.Order{
		Files:   append(files("one"), "noise.txt", noise(1_300_000)),
		Options: fleet.BundleDeploymentOptions{ServiceAccount: "later"},
	})
	p.State("kept", fleet.Ready)
	p.State("broken", fleet.Ready)
	p.State("large", fleet.ErrApplied) // accepted in two pieces, and waits for its account
	p.Stop()

	secrets := kube.StoreOf[*corev1.Secret](p.Down.Admin)
	pieces := func() []string {
		list, err := secrets.List(p.Context(), p.Namespace, piece)
		p.Must(err)
		var out []string
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	mine := pieces()
	if len(mine) != 1 {
		p.Fatalf("pieces %v", mine)
	}
	for name, of := range map[string]string{"fleet-store-left-1": "fleet-store-left", strings.TrimSuffix(mine[0], "-1") + "-2": strings.TrimSuffix(mine[0], "-1")} {
		_, err := secrets.Create(p.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: map[string]string{piece: of, fleet.LabelManagerID: "m1"}},
			Type:       fleet.SecretTypeAgentStore, Data: map[string][]byte{"content": []byte("half")},
		})
		p.Must(err)
	}
	list, err := secrets.List(p.Context(), p.Namespace, "")
	p.Must(err)
	for _, s := range list {
		if s.Type == fleet.SecretTypeAgentStore && strings.Contains(string(s.Data["deployment"]), `"name":"broken"`) {
			changed := s.DeepCopy()
			changed.Data["deployment"] = []byte("{")
			_, err := secrets.Patch(p.Context(), s, changed)
			p.Must(err)
		}
	}

	p.Must(p.tcpProxy.Set(wire.Refused))
	p.Start()
	p.Until("what no deployment needs is gone, and no more", func() bool { got := pieces(); return len(got) == 1 && got[0] == mine[0] })
	p.SetData("store-kept", "a", "edited")
	p.Until("the agent works", func() bool { return p.Data("store-kept", "a") == "one" })
	trouble{}.account(p)
	p.Until("a payload of two pieces is deployed alone", func() bool { return p.Data("store-large", "a") == "one" })
	p.Until("and is kept no longer", func() bool { return len(pieces()) == 0 })

	p.Must(p.tcpProxy.Set(wire.None))
	p.State("broken", fleet.Ready)
	p.Until("the broken record is written again", func() bool { _, ok := p.Record("broken"); return ok })
	if p.Data("store-broken", "a") != "one" {
		p.Error("what had the broken record is gone")
	}
}

// noise is text that does not get shorter when it is packed.
func noise(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rand.IntN(len(letters))]
	}
	return string(out)
}
