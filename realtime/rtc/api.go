package rtc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pion/ice/v4"
	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"
)

// Errors on which callers branch.
var (
	// ErrBadSDP says that a session description is malformed, too large or
	// lacks what a secure connection needs (ICE credentials, a fingerprint).
	ErrBadSDP = errors.New("bad SDP")
	// ErrNoOpus says that a session description has no audio section with Opus.
	ErrNoOpus = errors.New("no Opus audio in the SDP")
	// ErrTooLarge says that a message is larger than the remote accepts. The
	// data channel stays usable.
	ErrTooLarge = errors.New("message larger than the remote accepts")
	// ErrOtherPeer says that an offer is not one of the peer connection whose
	// offer came before: it needs a peer of its own.
	ErrOtherPeer = errors.New("offer of another peer connection")
	// ErrClosed says that the peer or the API has ended.
	ErrClosed = errors.New("peer closed")
)

// Limits of the boundary to a remote peer, in bytes.
const (
	// MaxOfferSize is the largest offer that Answer reads.
	MaxOfferSize = 64 << 10
	// MaxAnswerSize is the largest answer that Accept reads.
	MaxAnswerSize = 256 << 10
	// DefaultMaxMessageSize is what a browser leg accepts and announces when
	// Config.MaxMessageSize is 0. Chrome announces the same.
	DefaultMaxMessageSize = 256 << 10
	// HighWater is the buffered amount above which Send waits.
	HighWater = 1 << 20

	lowWater          = HighWater / 2
	receiveBufferSize = 1 << 20
	// maxUpstreamMessage is what an upstream may send: it echoes the session with all
	// tools in it. A message must fit into the receive window with room to spare.
	maxUpstreamMessage = 896 << 10
)

// Config of an API. The zero value serves browsers on the machine's network
// interfaces with ephemeral ports.
type Config struct {
	// UDPPort is the one UDP port that all browser legs share; 0 means an
	// ephemeral port for each. Upstream legs never use it: Pion tells legs on a
	// shared port apart by the remote address alone, and an upstream shows the
	// same few addresses to every call.
	// The port is bound once on each address that the machine has when New
	// runs; addresses that appear later are not served.
	UDPPort int
	// PublicIPs are announced to browsers in place of the local addresses
	// (1:1 NAT). At most one for each of IPv4 and IPv6 makes sense on a machine
	// with one local address of that family.
	// When one of them is reached from the internet, private addresses of browsers
	// are not asked for a connection.
	PublicIPs []string
	// ICEServers are the STUN and TURN servers of the browser leg.
	ICEServers []ICEServer
	// FreshICEServers, when set, is asked for them before each Answer and Restart
	// in their place: for credentials that expire, see TURNCredential. An error is
	// that of the call. It must be safe for concurrent use.
	FreshICEServers func(ctx context.Context) ([]ICEServer, error)
	// Loopback adds loopback candidates on both legs.
	Loopback bool
	// MaxMessageSize is the size in bytes of the largest message that a browser
	// leg's data channel accepts, at most receive-window size (1 MiB); 0 means 256 KiB.
	MaxMessageSize int
	// Logger takes what peers and Pion say; nil discards it.
	Logger *slog.Logger
}

// ICEServer is a STUN or TURN server (RFC 8489, RFC 8656).
type ICEServer struct {
	// URLs such as "stun:stun.example.org:3478" or "turn:…?transport=udp".
	URLs []string
	// Username and Credential are for TURN.
	Username   string
	Credential string
}

func (c Config) validate() error {
	var errs []error
	if c.UDPPort < 0 || c.UDPPort > 65535 {
		errs = append(errs, fmt.Errorf("UDP port %d is not between 0 and 65535", c.UDPPort))
	}
	if c.MaxMessageSize < 0 || c.MaxMessageSize > receiveBufferSize {
		errs = append(errs, fmt.Errorf("max message size %d is not between 0 and %d", c.MaxMessageSize, receiveBufferSize))
	}
	for _, ip := range c.PublicIPs {
		if net.ParseIP(ip) == nil {
			errs = append(errs, fmt.Errorf("public IP %q is not an IP address", ip))
		}
	}
	for _, server := range c.ICEServers {
		errs = append(errs, server.validate())
	}
	return errors.Join(errs...)
}

func (s ICEServer) validate() error {
	var errs []error
	for _, u := range s.URLs {
		if _, err := stun.ParseURI(u); err != nil {
			errs = append(errs, fmt.Errorf("ICE server %q: %w", u, err))
		}
		if turn := strings.HasPrefix(u, "turn"); turn && (s.Username == "" || s.Credential == "") {
			errs = append(errs, fmt.Errorf("ICE server %q needs a user name and a credential", u))
		}
	}
	return errors.Join(errs...)
}

// API makes peers. Its methods may be called concurrently.
type API struct {
	log        *slog.Logger
	maxMessage int
	browser    *webrtc.API
	upstream   webrtc.SettingEngine
	servers    func(context.Context) ([]ICEServer, error) // of the browser leg
	candidates candidateRule                              // for offers
	cert       webrtc.Certificate
	mux        ice.UDPMux
	sources    atomic.Uint32 // remote tracks so far

	mu     sync.Mutex
	closed bool
	peers  map[*Peer]struct{}
}

// New makes an API, with a DTLS certificate of its own that lives as long as
// the process, and binds Config.UDPPort when it is set. Errors name the setting
// that is wrong or the port that is taken.
func New(cfg Config) (*API, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("check rtc config: %w", err)
	}
	if cfg.MaxMessageSize == 0 {
		cfg.MaxMessageSize = DefaultMaxMessageSize
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.FreshICEServers == nil {
		cfg.FreshICEServers = func(context.Context) ([]ICEServer, error) { return cfg.ICEServers, nil }
	}
	a := &API{
		log: cfg.Logger, maxMessage: cfg.MaxMessageSize, peers: map[*Peer]struct{}{}, servers: cfg.FreshICEServers,
		candidates: candidateRule{browser: true, loopback: cfg.Loopback, public: isPublic(cfg.PublicIPs)},
	}
	if err := a.build(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Close ends all peers, joins them and frees the shared port. It is idempotent.
func (a *API) Close() error {
	a.mu.Lock()
	a.closed = true
	peers := make([]*Peer, 0, len(a.peers))
	for p := range a.peers {
		peers = append(peers, p)
	}
	mux := a.mux
	a.mux = nil
	a.mu.Unlock()

	errs := make([]error, len(peers)+1)
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() { errs[i] = p.Close() })
	}
	wg.Wait()
	if mux != nil {
		errs[len(peers)] = mux.Close()
	}
	return errors.Join(errs...)
}

func (a *API) add(p *Peer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrClosed
	}
	a.peers[p] = struct{}{}
	return nil
}

func (a *API) remove(p *Peer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.peers, p)
}
