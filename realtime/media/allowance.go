package media

import "time"

// Allowance bounds what a stream of packets grows into, whatever their timestamps say: it may become as much sound as
// time goes on, and Most at once.
type Allowance struct {
	Most time.Duration

	left time.Duration
	at   time.Time // of the last packet; zero before the first one
}

// Take returns how much there may be of a length of sound that comes with a packet, and takes that from what is left.
// It is to be called for each packet, as what is left grows by the time between them.
func (a *Allowance) Take(now time.Time, length time.Duration) time.Duration {
	if a.at.IsZero() {
		a.left, a.at = a.Most, now
	}
	a.left = min(a.left, a.Most) + max(0, now.Sub(a.at))
	a.at = now
	length = min(length, a.left)
	a.left -= length
	return length
}
