package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

// A place is the folders of one sandbox. Builds are shared by all of them.
type place struct {
	Base  string // the state folder
	Run   string // what runs now; removed by down
	Log   string // logs; kept after an accident until the next run
	Lock  string // held by the launcher as long as it lives; it stays with the build
	First int    // port
}

// findPlace returns the folders of the sandbox that begins at a port, in the
// user's cache folder.
func findPlace(first int) (place, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return place{}, fmt.Errorf("find the cache folder: %w", err)
	}
	if first < 1024 || first > 65000 {
		return place{}, fmt.Errorf("--ports %d: want 1024 to 65000", first)
	}
	suffix := ""
	if first != fleet.DefaultFirstPort {
		suffix = fmt.Sprintf("-%d", first)
	}
	base := filepath.Join(cache, "fleet-sandbox")
	return place{
		Base:  base,
		Run:   filepath.Join(base, "run"+suffix),
		Log:   filepath.Join(base, "log"+suffix),
		Lock:  filepath.Join(base, "bin", "sandbox"+suffix+".lock"),
		First: first,
	}, nil
}

func (p place) bin() string        { return filepath.Join(p.Run, "bin") }
func (p place) repository() string { return filepath.Join(p.Run, "repo") }
func (p place) kubeconfig() string { return filepath.Join(p.Run, "kubeconfig") }
func (p place) clusterKubeconfig(name string) string {
	return filepath.Join(p.Run, name, "kubeconfig")
}

// A record is what a running launcher leaves for the other verbs.
type record struct {
	PID        int       `json:"pid"`
	Since      time.Time `json:"since"`
	Address    string    `json:"address"` // of its control server
	Token      string    `json:"token"`   // to be shown there
	Repository string    `json:"repository,omitempty"`
	Kubernetes string    `json:"kubernetes"` // the executable
	Clusters   []string  `json:"clusters"`
}

func (p place) recordFile() string { return filepath.Join(p.Run, "sandbox.json") }

// write leaves the record; other processes see the old one or the new one.
func (p place) write(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	part := p.recordFile() + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return os.Rename(part, p.recordFile())
}

// errNoSandbox is returned where none runs.
var errNoSandbox = errors.New("no sandbox is running: fleet-sandbox up starts one")

// read returns the record of the running launcher, or errNoSandbox.
func (p place) read() (record, error) {
	var r record
	data, err := os.ReadFile(p.recordFile())
	if errors.Is(err, fs.ErrNotExist) || !p.held() {
		return r, errNoSandbox
	}
	if err != nil {
		return r, fmt.Errorf("read record: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read record: %w", err)
	}
	return r, nil
}

// errHeld is returned by take while another process holds the lock.
var errHeld = errors.New("another sandbox runs")

// take takes the lock for this process; the kernel gives it back when the
// process dies.
func (p place) take() (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(p.Lock), 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	f, err := os.OpenFile(p.Lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errHeld
	}
	return func() { _ = f.Close() }, nil
}

// held reports whether some process holds the lock.
func (p place) held() bool {
	release, err := p.take()
	if err != nil {
		return errors.Is(err, errHeld)
	}
	release()
	return false
}

// sizeBytes is what a folder takes on disk.
func sizeBytes(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile
		}
		if info, err := entry.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += stat.Blocks * 512
			}
		}
		return nil
	})
	return sum
}

// short writes a path as people do, with ~ for the home folder.
func short(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "/" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, home+"/"); ok {
		return "~/" + rest
	}
	return path
}
