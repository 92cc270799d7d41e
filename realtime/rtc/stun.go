package rtc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/pion/stun/v4"
)

// againAfter is how long an answer to one UDP packet is waited for; then it is sent again (RFC 8489, section 6.2.1).
const againAfter = 500 * time.Millisecond

// PublicAddress asks a STUN server, host:port, at which address what conn sends arrives there (RFC 8489). It tries
// until ctx ends, and then returns its cause.
func PublicAddress(ctx context.Context, conn net.PacketConn, server string) (netip.AddrPort, error) {
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolve STUN server: %w", err)
	}
	request, err := stun.Build(stun.TransactionID, stun.BindingRequest)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("write STUN request: %w", err)
	}
	raw, err := askUntil(ctx, conn, to, request.Raw, func(packet []byte) bool {
		m := stun.Message{Raw: packet}
		return m.Decode() == nil && m.TransactionID == request.TransactionID
	})
	if err != nil {
		return netip.AddrPort{}, err
	}
	answer := stun.Message{Raw: raw}
	var seen stun.XORMappedAddress
	if err := errors.Join(answer.Decode(), seen.GetFrom(&answer)); err != nil {
		return netip.AddrPort{}, fmt.Errorf("read STUN answer: %w", err)
	}
	ip, _ := netip.AddrFromSlice(seen.IP)
	return netip.AddrPortFrom(ip.Unmap(), uint16(seen.Port)), nil
}

// askUntil sends a packet until one arrives that is wanted, or until ctx ends.
func askUntil(
	ctx context.Context, conn net.PacketConn, to net.Addr, packet []byte, wanted func([]byte) bool,
) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) }) // the next read fails at the latest
	defer stop()
	buf := make([]byte, 1500)
	for ctx.Err() == nil {
		if _, err := conn.WriteTo(packet, to); err != nil {
			return nil, err
		}
		if err := conn.SetReadDeadline(time.Now().Add(againAfter)); err != nil {
			return nil, err
		}
		for ctx.Err() == nil {
			n, _, err := conn.ReadFrom(buf)
			if err == nil && wanted(buf[:n]) {
				return buf[:n], nil
			}
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				break
			}
			if errors.Is(err, net.ErrClosed) {
				return nil, err
			}
		}
	}
	return nil, context.Cause(ctx)
}
