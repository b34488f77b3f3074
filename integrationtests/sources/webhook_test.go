package sources

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	sandbox "github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// listen runs a second gitjob, which receives webhooks with the rights of the chart while
// the first one holds the lease. It returns its URL.
func listen(t *testing.T, w *harness.World) string {
	t.Helper()
	dir, address := t.TempDir(), harness.FreeAddress(t)
	path, err := harness.Program(t.Context(), "fleet-controller", dir)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubeconfig")
	hub := harness.ConnectHub(t, w.Local.Cluster)
	token := hub.Account(t, fleet.NamespaceSystem, "gitjob").BearerToken
	if err := os.WriteFile(config, hub.Kubeconfig(token), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "--roles=gitjob", "--kubeconfig="+config, "--namespace="+fleet.NamespaceSystem, "--webhook-address="+address)
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "POD_UID=second-gitjob", sandbox.AllowLoopback}
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("the second gitjob: %v\n%s", err, log.Bytes())
		}
	})
	url := "http://" + address
	w.Until("the second gitjob listens", func() string {
		code, err := send(url, nil, "", "")
		if err != nil || code != http.StatusOK {
			return fmt.Sprintf("%d %v", code, err)
		}
		return ""
	})
	return url
}

// send sends a webhook as GitHub does; without an event it is not from a provider.
func send(url string, body []byte, event, word string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if event != "" {
		mac := hmac.New(sha256.New, []byte(word))
		mac.Write(body)
		req.Header.Set("X-GitHub-Event", event)
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// A push to a repository that is not polled is deployed when the git host announces it, to
// any gitjob. A wrong signature has no effect, and an older commit is not deployed again.
func TestWebhook(t *testing.T) {
	w := harness.Open(t)
	url := listen(t, w)
	hook := secret(t, w, "webhook", corev1.SecretTypeOpaque, map[string]string{"github": canary})
	repo := w.Repository("webhook")
	repo.Write("app/fleet.yaml", "defaultNamespace: webhook-app\n")
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	first := deploy(t, w, repo, func(s *fleet.GitRepoSpec) {
		s.DisablePolling, s.PollingInterval, s.WebhookSecret = true, nil, hook.Name
	})
	repo.EventuallyReady(first, 2)

	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	second := repo.Commit("the second")
	announce := func(commit, word string, want int) {
		t.Helper()
		body := fmt.Appendf(nil, `{"ref": "refs/heads/main", "after": %q, "repository": {"clone_url": %q}}`, commit, repo.URL())
		if code, err := send(url, body, "push", word); err != nil || code != want {
			t.Errorf("want the answer %d, got %d, %v", want, code, err)
		}
	}
	announce(second, "guess", http.StatusUnauthorized)
	if s := repo.GitRepo().Status; s.WebhookCommit != "" || s.Commit != first {
		t.Errorf("a webhook with a wrong signature had an effect: %+v", s)
	}
	announce(second, canary, http.StatusOK)
	repo.EventuallyReady(second, 2)
	harness.Eventually(w, "the second commit", harness.Data(w, w.C1, "webhook-app", "app"), harness.ConfigMapData("two"))
	if s := repo.GitRepo().Status; s.WebhookCommit != second || s.LastWebhookTime.IsZero() {
		t.Errorf("got %+v", s)
	}

	w.Until("the times of the status, which are in seconds, tell what came later", func() string {
		if now := time.Now().Truncate(time.Second); !now.After(repo.GitRepo().Status.LastPollingTime.Time) {
			return now.String()
		}
		return ""
	})
	announce(first, canary, http.StatusOK)
	harness.Eventually(w, "the older commit is given up", func() string { return repo.GitRepo().Status.WebhookCommit }, second)
	if s := repo.GitRepo().Status; s.Commit != second {
		t.Errorf("want commit %s, got %s", second, s.Commit)
	}
	search(t, w, canary)
}
