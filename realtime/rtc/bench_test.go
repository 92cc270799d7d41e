package rtc

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/srtp/v3"
)

// inFlight is how many packets the benchmarks keep in flight.
const inFlight = 16

// benchPayload has the size of 20 ms of speech at 32 kbit/s.
var benchPayload = make([]byte, 80)

// BenchmarkPass measures our part of one forwarded packet: reading its header, gate, numbers, counters. Nothing is
// encrypted or sent.
func BenchmarkPass(b *testing.B) {
	a := newAPI(b, Config{})
	p, _, err := a.Offer(b.Context(), Handlers{})
	if err != nil {
		b.Fatal(err)
	}
	var flow Flow
	flow.Open()
	r := relay{peer: p, dst: p, flow: &flow}
	packet := marshal(b, withExtension(b, 0xbede, 1, []byte{42}))
	sequence := uint16(0)
	b.ReportAllocs()
	for b.Loop() {
		sequence++
		packet[2], packet[3] = byte(sequence>>8), byte(sequence)
		_ = r.pass(packet)
	}
}

// cpuTime returns the processor time used by the process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pump writes packets to in and waits until each has come out, with inFlight of them on the way, and reports the
// processor time per packet. That includes the generator: compare with BenchmarkDirect.
func pump(b *testing.B, in AudioSink, out <-chan struct{}) {
	b.Helper()
	packet := rtp.Packet{Header: rtp.Header{Version: 2, SSRC: 3}, Payload: benchPayload}
	write := func() {
		packet.SequenceNumber++
		packet.Timestamp += frameStep
		if err := in.WriteRTP(&packet); err != nil {
			b.Fatal(err)
		}
	}
	write() // the first one opens the tracks
	<-out
	lost := time.NewTimer(time.Minute)
	defer lost.Stop()
	for range inFlight {
		write()
	}
	b.ReportAllocs()
	start, n := cpuTime(b), 0
	for b.Loop() {
		select {
		case <-out:
		case <-lost.C:
			b.Fatal("packets are lost")
		}
		write()
		n++
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(n), "cpu-ns/op")
	for range inFlight {
		<-out
	}
}

// leg is a connected pair whose answerer hands its audio to dst.
func leg(ctx context.Context, b *testing.B, wg *sync.WaitGroup, dst AudioSink) *Peer {
	a := newAPI(b, Config{})
	p := newPair(b, a, a).connected(b)
	flow := new(Flow)
	flow.Open()
	wg.Go(func() { _ = p.answerer.Forward(ctx, dst, flow) })
	return p.offerer
}

type counter chan struct{}

func (c counter) WriteRTP(*rtp.Packet) error {
	c <- struct{}{}
	return nil
}

// BenchmarkDirect measures one leg: a packet is sent and received.
func BenchmarkDirect(b *testing.B) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer wg.Wait()
	defer cancel()
	out := make(counter, 2*inFlight)
	pump(b, leg(ctx, b, &wg, out), out)
}

// BenchmarkRelay measures two legs with a Forward between them: a packet is sent, received, sent and received. Subtract
// BenchmarkDirect to get the cost of a relay.
func BenchmarkRelay(b *testing.B) {
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer wg.Wait()
	defer cancel()
	out := make(counter, 2*inFlight)
	pump(b, leg(ctx, b, &wg, leg(ctx, b, &wg, out)), out)
}

// BenchmarkFloor measures the least that a relay must do: receive, decrypt, encrypt and send, with two sockets and
// pion/srtp, plus the generator's send and receive.
func BenchmarkFloor(b *testing.B) {
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Close() })
		return c
	}
	source, near, far, target := listen(), listen(), listen(), listen()
	context := func() *srtp.Context {
		c, err := srtp.CreateContext(make([]byte, 16), make([]byte, 12), srtp.ProtectionProfileAeadAes128Gcm, srtp.SRTPReplayProtection(64))
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	addr := func(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }
	out := make(counter, 2*inFlight)
	var wg sync.WaitGroup
	b.Cleanup(wg.Wait)
	b.Cleanup(func() { _ = near.Close(); _ = target.Close() })
	receive := func(c *net.UDPConn, each func(header *rtp.Header, plain []byte)) {
		opener := context()
		in, plain := make([]byte, readMTU), make([]byte, 0, readMTU)
		for {
			n, _, err := c.ReadFromUDPAddrPort(in)
			if err != nil {
				return
			}
			var h rtp.Header
			if plain, err = opener.DecryptRTP(plain[:0], in[:n], &h); err != nil {
				b.Error(err)
				return
			}
			each(&h, plain)
		}
	}
	wg.Go(func() {
		sealer, sealed := context(), make([]byte, 0, readMTU)
		receive(near, func(h *rtp.Header, plain []byte) {
			var err error
			if sealed, err = sealer.EncryptRTP(sealed[:0], plain, h); err == nil {
				_, err = far.WriteToUDPAddrPort(sealed, addr(target))
			}
			if err != nil {
				b.Error(err)
			}
		})
	})
	wg.Go(func() { receive(target, func(*rtp.Header, []byte) { out <- struct{}{} }) })
	sealer, plain, sealed := context(), make([]byte, readMTU), make([]byte, 0, readMTU)
	pump(b, sinkFunc(func(p *rtp.Packet) error {
		n, err := p.MarshalTo(plain)
		if err != nil {
			return err
		}
		if sealed, err = sealer.EncryptRTP(sealed[:0], plain[:n], nil); err != nil {
			return err
		}
		_, err = source.WriteToUDPAddrPort(sealed, addr(near))
		return err
	}), out)
}

// BenchmarkSetUp connects one pair, both ends in this process.
func BenchmarkSetUp(b *testing.B) {
	a := newAPI(b, Config{})
	start, n := cpuTime(b), 0
	for b.Loop() {
		p := newPair(b, a, a).connected(b)
		closePeer(b, p.offerer)
		closePeer(b, p.answerer)
		n++
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(n), "cpu-ns/op")
}
