package deploy

import (
	"sync"

	"github.com/sirupsen/logrus"
)

// failureLog logs why deployments are not what they should be, each reason once.
type failureLog struct {
	to *logrus.Entry

	mu   sync.Mutex
	last map[string]string // what was logged last, by name of the deployment
}

func newFailureLog(to *logrus.Entry) *failureLog {
	return &failureLog{to: to, last: map[string]string{}}
}

// log logs a failure of a deployment, each reason and message once.
func (l *failureLog) log(s *snapshot, reason, message string) {
	text := s.spec.DeploymentID + reason + message
	l.mu.Lock()
	known := l.last[s.name] == text
	l.last[s.name] = text
	l.mu.Unlock()
	if !known {
		l.to.WithFields(s.logFields()).WithFields(logrus.Fields{"reason": reason, "error": message}).Warn("not deployed")
	}
}

// forget removes what is known of a deployment.
func (l *failureLog) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, name)
}
