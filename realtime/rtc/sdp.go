package rtc

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"
)

// Limits on one session description. Browsers use a tenth of them.
const (
	maxSections   = 16
	maxCandidates = 256
)

// defaultRemoteMessageSize is the most that Pion sends to a remote that names no max-message-size. RFC 8841, 6.1 says
// 65,536; Pion stays one below.
const defaultRemoteMessageSize = 65535

// remoteDescription is what this package needs from a checked session description of the remote.
type remoteDescription struct {
	maxMessageSize int     // bytes; 0 without a data-channel section
	stream         *uint16 // of the data channel, if both sides open it by themselves
	// session and fingerprint identify the peer connection: its description's identity (RFC 9429, 5.2.1) and its
	// certificate's hash.
	session, fingerprint string
	sections             []string // kind and mid of each section
}

// continues reports whether d can follow before in one peer connection.
func (d remoteDescription) continues(before remoteDescription) error {
	if d.session != before.session || d.fingerprint != before.fingerprint {
		return ErrOtherPeer
	}
	// Sections are never removed or reordered (RFC 9429, 5.2.2).
	if len(d.sections) < len(before.sections) || !slices.Equal(d.sections[:len(before.sections)], before.sections) {
		return fmt.Errorf("%w: its sections do not follow those of the offer before", ErrBadSDP)
	}
	return nil
}

// CheckOffer returns ErrBadSDP or ErrNoOpus if Answer could not take the offer. It makes no peer.
func CheckOffer(offer string) error {
	if _, err := checkSDP(offer, maxOfferSize); err != nil {
		return fmt.Errorf("read offer: %w", err)
	}
	return nil
}

// checkSDP parses a remote's session description and rejects with ErrBadSDP or ErrNoOpus one that could not become a
// secure Opus connection. Video and other sections, other codecs and unknown attributes are fine.
func checkSDP(text string, limit int) (remoteDescription, error) {
	var remote remoteDescription
	if len(text) > limit {
		return remote, fmt.Errorf("%w: %d bytes, at most %d are read", ErrBadSDP, len(text), limit)
	}
	if !strings.HasPrefix(text, "v=0") {
		return remote, fmt.Errorf("%w: does not begin with v=0", ErrBadSDP)
	}
	var desc sdp.SessionDescription
	if err := desc.UnmarshalString(text); err != nil {
		return remote, fmt.Errorf("%w: %w", ErrBadSDP, err)
	}
	if n := len(desc.MediaDescriptions); n > maxSections {
		return remote, fmt.Errorf("%w: %d media sections, at most %d are read", ErrBadSDP, n, maxSections)
	}
	remote.session = desc.Origin.Username + " " + strconv.FormatUint(desc.Origin.SessionID, 10)
	opus, candidates := false, 0
	for _, m := range desc.MediaDescriptions {
		mid, _ := m.Attribute("mid")
		remote.sections = append(remote.sections, m.MediaName.Media+" "+mid)
		candidates += countAttributes(m.Attributes, "candidate")
		if !active(m) {
			continue
		}
		fingerprint, err := checkTransport(&desc, m)
		if err != nil {
			return remote, fmt.Errorf("%w: %s section: %w", ErrBadSDP, m.MediaName.Media, err)
		}
		remote.fingerprint = cmp.Or(remote.fingerprint, strings.ToLower(fingerprint))
		switch m.MediaName.Media {
		case "audio":
			opus = opus || hasOpus(m)
		case "application":
			remote.maxMessageSize, remote.stream = messageSize(m), streamOf(m)
		}
	}
	if candidates > maxCandidates {
		return remote, fmt.Errorf("%w: %d candidates, at most %d are read", ErrBadSDP, candidates, maxCandidates)
	}
	if !opus {
		return remote, ErrNoOpus
	}
	return remote, nil
}

// active reports whether a section is in use. Port 0 rejects a section unless it is bundle-only (RFC 9143, 6).
func active(m *sdp.MediaDescription) bool {
	if m.MediaName.Port.Value != 0 {
		return true
	}
	_, bundleOnly := m.Attribute("bundle-only")
	return bundleOnly
}

// checkTransport checks the ICE credentials (RFC 8839, 5.4) and the DTLS fingerprint (RFC 8122, 5) of a section, or of
// the session for all sections, and returns the fingerprint.
func checkTransport(desc *sdp.SessionDescription, m *sdp.MediaDescription) (fingerprint string, err error) {
	attribute := func(key string) string {
		if v, ok := m.Attribute(key); ok {
			return v
		}
		if v, ok := desc.Attribute(key); ok {
			return v
		}
		// The credentials of a bundled section are those of the first one that is in use (RFC 9143, 7.1.3).
		first := slices.IndexFunc(desc.MediaDescriptions, active)
		if _, bundled := desc.Attribute("group"); bundled && first >= 0 {
			v, _ := desc.MediaDescriptions[first].Attribute(key)
			return v
		}
		return ""
	}
	if n := len(attribute("ice-ufrag")); n < 4 || n > 256 {
		return "", errors.New("ice-ufrag is missing or not 4 to 256 characters long")
	}
	if n := len(attribute("ice-pwd")); n < 22 || n > 256 {
		return "", errors.New("ice-pwd is missing or not 22 to 256 characters long")
	}
	fingerprint = attribute("fingerprint")
	return fingerprint, checkFingerprint(fingerprint)
}

// fingerprintSizes are the sizes in bytes of the accepted hashes. MD2, MD5 and SHA-1 are broken, or nearly so (RFC
// 8122, 5).
var fingerprintSizes = map[string]int{"sha-256": 32, "sha-384": 48, "sha-512": 64}

func checkFingerprint(value string) error {
	algorithm, hash, ok := strings.Cut(value, " ")
	if !ok {
		return errors.New("fingerprint is missing")
	}
	size, known := fingerprintSizes[strings.ToLower(algorithm)]
	if !known {
		return errors.New("fingerprint is not of a SHA-2 hash")
	}
	digits := strings.TrimSpace(hash)
	sum, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
	if err != nil || len(sum) != size || len(digits) != 3*size-1 {
		return fmt.Errorf("fingerprint is not %d hexadecimal bytes", size)
	}
	return nil
}

// hasOpus looks for "rtpmap:PT opus/48000/2" (RFC 7587, 7).
func hasOpus(m *sdp.MediaDescription) bool {
	for _, a := range m.Attributes {
		if a.Key != "rtpmap" {
			continue
		}
		pt, codec, ok := strings.Cut(a.Value, " ")
		if !ok || !strings.EqualFold(strings.TrimSpace(codec), "opus/48000/2") {
			continue
		}
		if slices.Contains(m.MediaName.Formats, pt) {
			return true
		}
	}
	return false
}

// messageSize reads a=max-message-size (RFC 8841, 6) as Pion does: no value, a malformed one and 0 ("any size") all
// stand for the default.
func messageSize(m *sdp.MediaDescription) int {
	value, _ := m.Attribute("max-message-size")
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
	if err != nil || n == 0 {
		return defaultRemoteMessageSize
	}
	return int(n) // 32 bits
}

// streamOf reads the stream of the data channel that needs no announcement (RFC 8864, 5.1), nil if there is none.
func streamOf(m *sdp.MediaDescription) *uint16 {
	value, _ := m.Attribute("dcmap")
	value, _, _ = strings.Cut(value, " ") // the rest describes the channel, which is known
	id, err := strconv.ParseUint(value, 10, 16)
	if err != nil || id == 65535 {
		return nil
	}
	return new(uint16(id))
}

// maxInit is the largest INIT chunk that is read, in bytes. Those of browsers take 40.
const maxInit = 2 << 10

// withUsableInit returns a description without an SCTP handshake that is none (draft-hancke-tsvwg-snap): it would end
// the association, while without one SCTP makes its handshake on the wire.
func withUsableInit(text string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "a=sctp-init:"); ok && !isInit(strings.TrimSpace(value)) {
			text = strings.Replace(text, line, "", 1)
		}
	}
	return text
}

// isInit reports whether a value is an INIT chunk (RFC 9260, 3.3.2), whose parameters are not looked at.
func isInit(value string) bool {
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil || len(b) < 20 || len(b) > maxInit || b[0] != 1 {
		return false
	}
	size := binary.BigEndian.Uint16(b[2:])
	tag, window := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	out, in := binary.BigEndian.Uint16(b[12:]), binary.BigEndian.Uint16(b[14:])
	return size >= 20 && int(size) <= len(b) && tag != 0 && window >= 1500 && out != 0 && in != 0
}

func countAttributes(attributes []sdp.Attribute, key string) (n int) {
	for _, a := range attributes {
		if a.Key == key {
			n++
		}
	}
	return n
}
