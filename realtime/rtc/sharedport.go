package rtc

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/pion/ice/v4"
)

const sharedPortBuffer = 4 << 20 // bytes

// sharedPort is the one UDP port that all browser legs share; see [Config.UDPPort]. It is bound on each address of
// the machine, because an answer from a wildcard socket may leave from an address other than the one that the browser
// asked. It implements [ice.UDPMux].
type sharedPort struct {
	network  *network
	port     int
	loopback bool
	log      *slog.Logger

	mu     sync.Mutex
	closed bool
	// bound has a socket for each address that the machine has had: an address may come back while calls still use it.
	bound map[netip.Addr]*ice.UDPMuxDefault
}

// listen makes the shared port. An address that appears later is bound when it is first needed.
func listen(network *network, port int, loopback bool, log *slog.Logger) (*sharedPort, error) {
	s := &sharedPort{
		network: network, port: port, loopback: loopback, log: log, bound: make(map[netip.Addr]*ice.UDPMuxDefault),
	}
	found, err := s.bind()
	if err == nil && len(found) == 0 {
		err = errors.New("no network address to bind (loopback needs the loopback setting)")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on UDP port %d: %w", port, err), s.Close())
	}
	return s, nil
}

// reachable reports whether browsers may reach a local address. They never use those of a link, of which every bridge
// and container has one, and which cannot be bound for a second or two after it has appeared.
func reachable(ip net.IP) bool { return !ip.IsLinkLocalUnicast() }

// bind binds the addresses that the machine has now and returns those that are bound.
func (s *sharedPort) bind() (found []net.Addr, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	interfaces, err := s.network.Interfaces()
	for _, i := range interfaces {
		addresses, _ := i.Addrs() // fails only where there are none
		for _, a := range addresses {
			prefix, parseErr := netip.ParsePrefix(a.String())
			ip := prefix.Addr().Unmap()
			unwanted := ip.IsLoopback() && !s.loopback
			if parseErr != nil || i.Flags&net.FlagUp == 0 || unwanted || !reachable(ip.AsSlice()) {
				continue
			}
			mux, bindErr := s.socket(ip)
			switch {
			case bindErr == nil:
				found = append(found, mux.LocalAddr())
			case !errors.Is(bindErr, syscall.EADDRNOTAVAIL): // as an IPv6 address is at first (RFC 4862, 5.4)
				err = errors.Join(err, bindErr)
			}
		}
	}
	return found, err
}

// socket returns the one on an address. s.mu is held.
func (s *sharedPort) socket(ip netip.Addr) (*ice.UDPMuxDefault, error) {
	if mux := s.bound[ip]; mux != nil {
		return mux, nil
	}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip.AsSlice(), Port: s.port})
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadBuffer(sharedPortBuffer) // the kernel may allow less
	_ = conn.SetWriteBuffer(sharedPortBuffer)
	s.bound[ip] = ice.NewUDPMuxDefault(ice.UDPMuxParams{Logger: pionLoggers{s.log}.NewLogger("mux"), UDPConn: conn})
	return s.bound[ip], nil
}

// GetListenAddresses implements [ice.UDPMux]. Pion calls it whenever a peer looks for its candidates.
func (s *sharedPort) GetListenAddresses() []net.Addr {
	found, err := s.bind()
	if err != nil {
		s.log.Warn("UDP port not bound on every address", "port", s.port, "error", err)
	}
	return found
}

func (s *sharedPort) GetConn(ufrag string, local net.Addr) (net.PacketConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if udp, ok := local.(*net.UDPAddr); ok && !s.closed {
		if mux := s.bound[udp.AddrPort().Addr().Unmap()]; mux != nil {
			return mux.GetConn(ufrag, local)
		}
	}
	return nil, net.ErrClosed
}

func (s *sharedPort) RemoveConnByUfrag(ufrag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mux := range s.bound {
		mux.RemoveConnByUfrag(ufrag)
	}
}

func (s *sharedPort) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, mux := range s.bound {
		errs = append(errs, mux.Close())
	}
	return errors.Join(errs...)
}
