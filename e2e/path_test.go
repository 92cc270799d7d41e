package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Of a hundred packets on a path, this many are lost, and this many are overtaken by the
// next.
const (
	lostOf100      = 2
	overtakenOf100 = 2
)

// lossyPath is a bad path between a browser and the program: some packets are lost, and some
// arrive after the one sent next.
type lossyPath struct {
	browserSide *net.UDPConn
	programSide *net.UDPConn
	done        sync.WaitGroup

	mu      sync.Mutex
	rng     *rand.Rand
	browser *net.UDPAddr // where packets come from
}

var candidatePattern = regexp.MustCompile(`(?m)^a=candidate:\S+ 1 udp \d+ (\S+) (\d+) typ host.*$`)

// newLossyPath opens a path to the address in an SDP answer, and returns the answer changed
// to lead to the path instead.
func newLossyPath(answer string, rng *rand.Rand) (*lossyPath, string, error) {
	all := candidatePattern.FindAllStringSubmatch(answer, -1)
	if len(all) == 0 {
		return nil, "", fmt.Errorf("no candidate in %q", answer)
	}
	// Firefox does not go from another address to loopback.
	found := all[max(0, slices.IndexFunc(all, func(m []string) bool { return !net.ParseIP(m[1]).IsLoopback() }))]
	target, err := net.ResolveUDPAddr("udp", net.JoinHostPort(found[1], found[2]))
	if err != nil {
		return nil, "", err
	}
	near, errNear := net.ListenUDP("udp", &net.UDPAddr{IP: target.IP})
	far, errFar := net.DialUDP("udp", nil, target)
	if err := errors.Join(errNear, errFar); err != nil {
		return nil, "", err
	}
	p := &lossyPath{browserSide: near, programSide: far, rng: rng}
	p.done.Go(func() { p.carry(near, true, far.Write) })
	p.done.Go(func() { p.carry(far, false, p.toBrowser) })
	port := near.LocalAddr().(*net.UDPAddr).Port
	candidate := fmt.Sprintf("a=candidate:1 1 udp 2130706431 %s %d typ host", target.IP, port)
	lines := slices.DeleteFunc(strings.Split(answer, "\r\n"), isCandidate)
	for i, line := range lines {
		if strings.HasPrefix(line, "a=ice-ufrag:") {
			lines = slices.Insert(lines, i, candidate)
			break
		}
	}
	return p, strings.Join(lines, "\r\n"), nil
}

func isCandidate(line string) bool { return strings.HasPrefix(line, "a=candidate:") }

// withoutCandidates makes an offer without addresses: the browser is found by the path
// that its packets take.
func withoutCandidates(sdp string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(sdp, "\r\n"), isCandidate), "\r\n")
}

// carry takes packets from one side to the other until the path is closed.
func (p *lossyPath) carry(from *net.UDPConn, browser bool, write func([]byte) (int, error)) {
	buf := make([]byte, 2048)
	var late []byte
	for {
		n, addr, err := from.ReadFromUDP(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the other side has closed its port
		}
		p.mu.Lock()
		if browser {
			p.browser = addr
		}
		chance := p.rng.IntN(100)
		p.mu.Unlock()
		switch {
		case chance < lostOf100:
		case chance < lostOf100+overtakenOf100 && late == nil:
			late = slices.Clone(buf[:n])
		default:
			_, _ = write(buf[:n]) // may be lost, too
			if late != nil {
				_, _ = write(late)
				late = nil
			}
		}
	}
}

func (p *lossyPath) toBrowser(packet []byte) (int, error) {
	p.mu.Lock()
	addr := p.browser
	p.mu.Unlock()
	if addr == nil {
		return 0, nil
	}
	return p.browserSide.WriteToUDP(packet, addr)
}

func (p *lossyPath) close() {
	_ = p.browserSide.Close()
	_ = p.programSide.Close()
	p.done.Wait()
}
