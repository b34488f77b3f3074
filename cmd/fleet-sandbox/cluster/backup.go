package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// quietGrace is how long etcd may take to end in good order: what it has not
// written then is missing in the copy.
const quietGrace = 10 * time.Second

// Backup copies everything that the cluster knows into dir, which must not exist,
// and goes on. Requests fail for about a second meanwhile.
func (c *Cluster) Backup(ctx context.Context, dir string) error {
	c.parts[etcd.name].Stop(quietGrace)
	if err := os.CopyFS(dir, os.DirFS(c.data())); err != nil {
		return fmt.Errorf("back up cluster %s: %w", c.cfg.Name, err)
	}
	if err := c.start(etcd); err != nil {
		return err
	}
	return c.waitServing(ctx)
}

// Restore makes the cluster what it was when dir was written by Backup, as people
// do with a backup of etcd: the control plane is stopped and started again. What
// has happened since never was, and resourceVersions are given a second time.
func (c *Cluster) Restore(ctx context.Context, dir string) error {
	parts := []part{controllerManager, scheduler, apiServer, etcd}
	for _, p := range parts {
		c.parts[p.name].Stop(quietGrace)
	}
	if err := os.RemoveAll(c.data()); err != nil {
		return fmt.Errorf("restore cluster %s: %w", c.cfg.Name, err)
	}
	if err := os.CopyFS(c.data(), os.DirFS(dir)); err != nil {
		return fmt.Errorf("restore cluster %s: %w", c.cfg.Name, err)
	}
	if err := c.start(etcd, apiServer); err != nil {
		return err
	}
	if err := c.waitServing(ctx); err != nil {
		return err
	}
	return c.start(controllerManager, scheduler)
}

// data is the folder of etcd.
func (c *Cluster) data() string { return filepath.Join(c.cfg.Dir, "etcd") }
