package sources

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/hack/measure"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A keep is what Fleet keeps for a bundle, in all clusters.
type keep struct {
	largest  string // object, with its size as JSON
	contents int    // objects that hold the content in the management cluster
	total    int    // KiB of all of them
}

// kept is what there is that was not there before.
func (b *bigBundle) kept(ctx context.Context) (keep, error) {
	now, err := b.objects(ctx)
	if err != nil {
		return keep{}, err
	}
	var k keep
	most := 0
	for uid, o := range now {
		if _, old := b.there[uid]; old {
			continue
		}
		if o.what == "Content" {
			k.contents, k.total = k.contents+1, k.total+o.kib
		}
		if o.kib > most {
			most = o.kib
			k.largest = fmt.Sprintf("%s (%s), %s of 1 MiB", measure.MiB(o.kib), o.what, measure.Share(float64(o.kib), objectLimit))
		}
	}
	return k, nil
}

// An object is of a kind and so large as JSON.
type object struct {
	what string
	kib  int
}

// objects are the objects of all clusters in which Fleet keeps bundles.
func (b *bigBundle) objects(ctx context.Context) (map[types.UID]object, error) {
	found := map[types.UID]object{}
	client := b.fleet.Client()
	errs := []error{add[*api.Content](ctx, found, client, "Content"), add[*api.Bundle](ctx, found, client, "Bundle"),
		add[*api.BundleDeployment](ctx, found, client, "BundleDeployment")}
	for _, m := range b.fleet.Members() {
		client, err := kube.Connect(kube.Config{REST: m.Cluster.REST(), UserAgent: "bench", FieldManager: "bench"})
		if err != nil {
			return nil, err
		}
		errs = append(errs, add[*corev1.Secret](ctx, found, client, "Secret of "+m.Name))
	}
	return found, errors.Join(errs...)
}

func add[P kube.Object](ctx context.Context, found map[types.UID]object, client *kube.Client, what string) error {
	list, err := kube.StoreOf[P](client).List(ctx, "", "")
	if err != nil {
		return err
	}
	for _, obj := range list {
		data, err := json.Marshal(obj)
		if err != nil {
			return fmt.Errorf("measure %s: %w", what, err)
		}
		found[obj.GetUID()] = object{what, (len(data) + 1023) >> 10}
	}
	return nil
}

// databases are those of local and c1, 200 ms after the last write: etcd
// brings its figure up to date with each batch of them, every 100 ms.
func (b *bigBundle) databases(ctx context.Context) (out [2]int, err error) {
	pause(ctx, 200*time.Millisecond)
	for i, cluster := range []string{"local", "c1"} {
		if out[i], err = b.database(ctx, cluster); err != nil {
			return out, err
		}
	}
	return out, nil
}

// inUse is etcd's own figure of what its database holds, older revisions
// included until they are compacted.
const inUse = "etcd_mvcc_db_total_size_in_use_in_bytes"

// database is how much the etcd of a cluster holds, in KiB.
func (b *bigBundle) database(ctx context.Context, cluster string) (int, error) {
	socket := filepath.Join(b.dir, cluster, "etcd:0")
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://etcd/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("ask etcd: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask etcd: %w", err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), inUse+" "); ok {
			n, err := strconv.ParseFloat(text, 64)
			return int(n) >> 10, err
		}
	}
	return 0, fmt.Errorf("ask etcd: %w: no %s", errNoFigure, inUse)
}

// errNoFigure is why something is not in the table.
var errNoFigure = errors.New("it does not say")
