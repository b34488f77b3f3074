package disk

import "syscall"

// FreeBytes is how much this process can still write to the disk of a folder.
func FreeBytes(dir string) (free int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(min(s.Bavail, 1<<40)) * s.Bsize, true
}
