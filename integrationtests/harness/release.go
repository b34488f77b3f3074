package harness

import (
	"context"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"

	planrelease "github.com/fleetworkspace/fleet/pkg/plan/release"
)

// RewriteRelease gives a stored revision of a Helm release another status, as
// a process leaves it that was killed in the middle of its work.
func RewriteRelease(_ context.Context, client kubernetes.Interface, id planrelease.ID, revision int, status string) error {
	store := storage.Init(driver.NewSecrets(client.CoreV1().Secrets(id.Namespace)))
	r, err := store.Get(id.Name, revision)
	if err != nil {
		return err
	}
	r.Info.Status = release.Status(status)
	return store.Update(r)
}
