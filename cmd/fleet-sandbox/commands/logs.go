package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newLogs(std stdio, at locate) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME[/PART]",
		Short: "Print a log, of the running sandbox or the last one",
		Long: "NAME is a cluster: its agent's log, or with local the manager's. NAME/PART is any of its\n" +
			"processes, for example c1/kube-apiserver or local/gitjob.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := at()
			if err != nil {
				return err
			}
			path, err := p.logFile(args[0])
			if err != nil {
				return err
			}
			return printLog(cmd.Context(), path, follow, std.out)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added, until Ctrl-C")
	return cmd
}

// logFile finds the log that NAME or NAME/PART means.
func (p place) logFile(text string) (string, error) {
	name, part, _ := strings.Cut(text, "/")
	if part == "" {
		part = "fleet-agent"
		if name == "local" {
			part = "fleet-controller"
		}
	}
	clusters := entries(p.Log, "")
	if len(clusters) == 0 {
		return "", errors.New("there are no logs: no sandbox has run yet")
	}
	if !slices.Contains(clusters, name) {
		return "", fmt.Errorf("no logs of %q: there is %s", name, list(clusters))
	}
	parts := entries(filepath.Join(p.Log, name), ".log")
	if !slices.Contains(parts, part) {
		return "", fmt.Errorf("no log of %s/%s: there is %s", name, part, list(parts))
	}
	return filepath.Join(p.Log, name, part+".log"), nil
}

// entries lists the names in a folder that end in suffix, without it; folders
// where suffix is empty.
func entries(dir, suffix string) []string {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range found {
		name, ok := strings.CutSuffix(entry.Name(), suffix)
		if ok && entry.IsDir() == (suffix == "") {
			names = append(names, name)
		}
	}
	return names
}

// printLog copies a file, and with follow what is added to it.
func printLog(ctx context.Context, path string, follow bool, out io.Writer) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is gone", path)
	}
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer f.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.Copy(out, f); err != nil {
			return fmt.Errorf("print log: %w", err)
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
