package kubeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// TestWrite: each entry is a context, the first is current, no other user may
// read the file, and a second Write replaces the first.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	for _, token := range []string{"old", "new"} {
		err := Write(path,
			Entry{Name: "local", Server: "https://127.0.0.1:1", CA: []byte("ca"), Token: token},
			Entry{Name: "c1", Server: "https://127.0.0.1:2", CA: []byte("ca"), ClientCert: []byte("cert"), ClientKey: []byte("key")})
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "local" || config.AuthInfos["local"].Token != "new" || config.Clusters["c1"].Server != "https://127.0.0.1:2" {
		t.Errorf("unexpected kubeconfig %+v", config)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("want mode 0600, got %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("want one file, got %v, %v", entries, err)
	}
}
