package rtc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"

	"voicebridge/realtime/media"
)

// Errors that callers branch on.
var (
	// ErrBadSDP means that a session description is malformed, too large or lacks what a secure connection needs (ICE
	// credentials, a fingerprint).
	ErrBadSDP = errors.New("bad SDP")
	// ErrNoOpus means that a session description has no audio section with Opus.
	ErrNoOpus = errors.New("no Opus audio in the SDP")
	// ErrOtherPeer means that an offer comes from another peer connection than the one before it: it needs a peer of
	// its own.
	ErrOtherPeer = errors.New("offer of another peer connection")
)

// Limits on what a remote peer may send, in bytes.
const (
	// maxOfferSize is the largest offer that Answer reads.
	maxOfferSize = 64 << 10
	// maxAnswerSize is the largest answer that Accept reads.
	maxAnswerSize = 256 << 10
	// maxBrowserMessage is the largest message that a browser leg accepts and announces. Chrome announces the same.
	maxBrowserMessage = 256 << 10
	// highWater is the buffered amount above which Send waits.
	highWater = 1 << 20

	lowWater          = highWater / 2
	receiveBufferSize = 1 << 20
	// maxUpstreamMessage limits messages from an upstream, which echoes the session with all its tools. A message must
	// fit into the receive window with room to spare.
	maxUpstreamMessage = 896 << 10
)

// Config configures an API. The zero value serves browsers on the machine's network interfaces, with ephemeral ports.
type Config struct {
	// One UDP port for all media of browsers; 0: any.
	//
	// Upstream legs never use it: on a shared port Pion tells legs apart by the remote address alone, and an upstream
	// shows the same few addresses to every call. The port is bound once on each address of the machine, also on
	// those that appear later.
	UDPPort int `yaml:"udp_port" min:"0" max:"65535"`
	// Addresses at which browsers reach this machine, if it is behind NAT.
	//
	// They are announced to browsers instead of the local addresses of the same family (1:1 NAT), with the port of
	// the one that faces the internet. If one of them is reachable from the internet, browsers' private addresses are
	// not tried.
	PublicIPs []string `yaml:"public_ips" format:"ip"`
	// Ask browsers to send next to nothing while the caller is silent (Opus DTX): 5 packets a second in place of 50.
	//
	// The model is sent silence until it has heard that the caller has stopped. docs/measurements.md#silence has
	// figures.
	DTX bool `yaml:"dtx" default:"true"`
	// ICEServers are the STUN and TURN servers of the browser leg.
	ICEServers []ICEServer
	// DataChannel is the stream of the data channel of upstream legs, if the upstream is told it beforehand: both sides
	// then open it by themselves. Zero announces the channel once connected (RFC 8832), as every upstream expects.
	DataChannel uint16
	// Loopback adds loopback candidates on both legs.
	Loopback bool
	// Delay is how long each packet takes on its way out, and on its way in: benchmarks emulate networks with it. It
	// must be 0 with UDPPort.
	Delay time.Duration
	// Disturb says of each packet on a network with a Delay how much longer it takes, or that it is lost. It is
	// called by many goroutines.
	Disturb func(outgoing bool) (later time.Duration, lost bool)
	// Bare sends no packet twice unless it is asked for, as browsers do: for benchmarks.
	Bare bool
	// Patience is added to the 9 s after which a leg without an answer has failed (ICE), and to the 10 s of its
	// handshake (DTLS): for tests, whose processes may have to wait for the processor.
	Patience time.Duration
	// Logger takes the log of peers and of Pion; nil discards it.
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
	if c.Delay < 0 || c.Delay > 0 && c.UDPPort != 0 {
		errs = append(errs, fmt.Errorf("delay %s is negative, or set together with a UDP port", c.Delay))
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

// API makes peers. Its methods are safe for concurrent use.
type API struct {
	log        *slog.Logger
	browser    webrtc.SettingEngine
	upstream   webrtc.SettingEngine
	network    *network
	leg        webrtc.Configuration // of the browser leg
	candidates candidateRule        // for offers
	public     []string             // Config.PublicIPs
	opus       string               // the format of Opus that browsers are asked for
	stream     uint16               // Config.DataChannel
	bare       bool                 // Config.Bare
	cert       webrtc.Certificate
	mux        *sharedPort // nil: a port for each leg

	mu     sync.Mutex
	closed bool
	peers  map[io.Closer]struct{}
}

// Close ends all peers, joins them and frees the shared port. It is idempotent.
func (a *API) Close() error {
	a.mu.Lock()
	a.closed = true
	peers := slices.Collect(maps.Keys(a.peers))
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

func (a *API) add(peer io.Closer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return media.ErrClosed
	}
	a.peers[peer] = struct{}{}
	return nil
}

func (a *API) remove(peer io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.peers, peer)
}
