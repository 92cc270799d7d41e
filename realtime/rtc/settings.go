package rtc

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/webrtc/v4"
)

// Timeouts and parameters of the transports.
const (
	iceDisconnected = 5 * time.Second
	iceFailed       = 4 * time.Second // counted from the disconnection
	iceKeepAlive    = 1500 * time.Millisecond
	stunGather      = 2 * time.Second
	gatherCap       = 3 * time.Second
	dtlsRetransmit  = 100 * time.Millisecond
	dtlsHandshake   = 10 * time.Second
	sctpRTOMax      = 2 * time.Second
	// How many bytes of events may be on their way before the first is acknowledged. To an upstream that is a session
	// with the schemas of its tools; to a browser, whose line may be slow, as much as browsers allow themselves
	// (dcsctp: 10 MTU). With Pion's 4 KB, each further round trip doubles it.
	upstreamWindow, browserWindow = 48 << 10, 12 << 10
	opusPayloadType               = 111
	opusClockRate                 = 48000
	opusFormat                    = "minptime=10;useinbandfec=1"
	channelLabel                  = "oai-events"
)

func opusCapability() webrtc.RTPCodecCapability {
	return webrtc.RTPCodecCapability{
		MimeType: webrtc.MimeTypeOpus, ClockRate: opusClockRate, Channels: 2, SDPFmtpLine: opusFormat,
	}
}

// New makes an API with a DTLS certificate of its own, which lives as long as the process, and binds Config.UDPPort if
// it is set. Errors name the wrong setting or the port that is taken.
func New(cfg Config) (*API, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("check rtc config: %w", err)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	a := &API{
		log: cfg.Logger, peers: map[io.Closer]struct{}{}, leg: browserConfig(cfg.ICEServers),
		network: &network{delay: cfg.Delay, disturb: cfg.Disturb},
		public:  cfg.PublicIPs, stream: cfg.DataChannel, bare: cfg.Bare, opus: opusFormat,
		candidates: candidateRule{browser: true, loopback: cfg.Loopback, public: isPublic(cfg.PublicIPs)},
	}
	if cfg.DTX {
		a.opus += ";usedtx=1" // what we prefer to receive (RFC 7587, 6.1), whatever the offer says
	}
	if err := a.build(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// build makes the certificate, the shared port and the settings of each kind of leg.
func (a *API) build(cfg Config) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make DTLS key: %w", err)
	}
	cert, err := webrtc.GenerateCertificate(key)
	if err != nil {
		return fmt.Errorf("make DTLS certificate: %w", err)
	}
	a.cert = *cert

	if cfg.UDPPort != 0 {
		if a.mux, err = listen(a.network, cfg.UDPPort, cfg.Loopback, a.log); err != nil {
			return err
		}
	}

	a.upstream, a.browser = a.upstreamSettings(cfg), a.browserSettings(cfg)
	return nil
}

// browserConfig returns the configuration of a browser leg.
func browserConfig(servers []ICEServer) (config webrtc.Configuration) {
	for _, s := range servers {
		server := webrtc.ICEServer{URLs: s.URLs, Username: s.Username, Credential: s.Credential}
		config.ICEServers = append(config.ICEServers, server)
	}
	return config
}

// commonSettings returns the settings of both legs.
func (a *API) commonSettings(cfg Config, maxMessage int) webrtc.SettingEngine {
	var s webrtc.SettingEngine
	s.SetNet(a.network)
	s.LoggerFactory = pionLoggers{cfg.Logger}
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetIncludeLoopbackCandidate(cfg.Loopback)
	s.SetICETimeouts(iceDisconnected, iceFailed+cfg.Patience, iceKeepAlive)
	s.SetSTUNGatherTimeout(stunGather)
	// A lost handshake flight costs this much, instead of Pion's second.
	s.SetDTLSRetransmissionInterval(dtlsRetransmit)
	// ICE has already proven the remote's address; a cookie would cost a round trip.
	s.SetDTLSInsecureSkipHelloVerify(true)
	s.SetDTLSConnectContextMaker(func() (context.Context, func()) {
		return context.WithTimeout(context.Background(), dtlsHandshake+cfg.Patience)
	})
	// With no limit Pion announces 1 GiB; a message above the receive window then never completes and blocks the
	// association (RFC 9260, 6.2).
	s.SetSCTPMaxMessageSize(uint32(maxMessage)) // at most 1 MiB
	s.SetSCTPMaxReceiveBufferSize(receiveBufferSize)
	s.EnableSCTPZeroChecksum(true)
	// The descriptions carry SCTP's handshake (draft-hancke-tsvwg-snap), where the other side's does too: the data
	// channel opens two round trips earlier.
	s.EnableSctpSnap(true)
	// The timer doubles with each timeout. With Pion's limit of 60 s, the channel would come back long after the
	// network does.
	s.SetSCTPRTOMax(sctpRTOMax)
	// Otherwise each track costs a goroutine that waits for its first packet, which Pion never sees.
	s.SetFireOnTrackBeforeFirstRTP(true)
	// With our own read loop, an oversized message is dropped without ending the channel, and unsolicited channels cost
	// no goroutine.
	s.DetachDataChannels()
	return s
}

func (a *API) browserSettings(cfg Config) webrtc.SettingEngine {
	s := a.commonSettings(cfg, maxBrowserMessage)
	s.SetSCTPMinCwnd(browserWindow)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6})
	s.SetIPFilter(reachable)
	if a.mux != nil {
		s.SetICEUDPMux(a.mux)
	}
	return s
}

// upstreamSettings allows TCP, because an upstream may answer with passive TCP candidates for networks that block UDP
// (RFC 6544).
func (a *API) upstreamSettings(cfg Config) webrtc.SettingEngine {
	s := a.commonSettings(cfg, maxUpstreamMessage)
	s.SetSCTPMinCwnd(upstreamWindow)
	s.SetNetworkTypes([]webrtc.NetworkType{
		webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6, webrtc.NetworkTypeTCP4, webrtc.NetworkTypeTCP6,
	})
	return s
}

// newPionAPI makes a Pion API that knows Opus only and has no interceptors: those cost a goroutine, a timer and
// allocations for each packet. Lost packets are repeated without them, see repair.go, and one voice stream gains
// nothing from TWCC.
func newPionAPI(settings webrtc.SettingEngine) (*webrtc.API, error) {
	var media webrtc.MediaEngine
	err := media.RegisterCodec(webrtc.RTPCodecParameters{
		RTPCodecCapability: opusCapability(), PayloadType: opusPayloadType,
	}, webrtc.RTPCodecTypeAudio)
	if err != nil {
		return nil, fmt.Errorf("register opus: %w", err)
	}
	return webrtc.NewAPI(
		webrtc.WithMediaEngine(&media),
		webrtc.WithInterceptorRegistry(&interceptor.Registry{}),
		webrtc.WithSettingEngine(settings),
	), nil
}
