package rtc

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxUsed is how many candidates of a remote are used: each costs a handful of packets to an address that the remote
// chose.
const maxUsed = 32

// candidateRule says which candidates of a remote are used. The rest are removed from its description, as if the remote
// had not found them. A remote that can reach us is still discovered by its own checks (RFC 8445, 7.3.1.3).
type candidateRule struct {
	// browser restricts candidates to those of a browser: UDP, and no port below 1024, where services listen and
	// browsers never do.
	browser bool
	// loopback allows addresses of this machine.
	loopback bool
	// public leaves out private addresses: from the public internet they lead nowhere, or to our neighbours.
	public bool
}

// carrierNAT is the shared address space of providers (RFC 6598).
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// usable judges the fields of a=candidate (RFC 8839, 5.1): foundation, component, transport, priority, address, port,
// "typ", type.
func (r candidateRule) usable(fields []string) bool {
	port, err := strconv.ParseUint(fields[5], 10, 16)
	if err != nil || port == 0 || fields[1] != "1" {
		return false // component 2 is RTCP, which shares the first one's port
	}
	if r.browser && (port < 1024 || !strings.EqualFold(fields[2], "udp")) {
		return false
	}
	address, err := netip.ParseAddr(fields[4])
	if err != nil {
		return false // an mDNS name, which we do not resolve
	}
	address = address.Unmap()
	switch {
	case address.IsLoopback():
		return r.loopback && !r.public
	case !address.IsGlobalUnicast(): // unspecified, multicast, broadcast, link-local
		return false
	case address.IsPrivate() || carrierNAT.Contains(address):
		return !r.public
	}
	return true
}

// trim removes candidates that are unusable, duplicate or too many, and returns how many it removed.
func (r candidateRule) trim(text string) (trimmed string, dropped int) {
	var out strings.Builder
	out.Grow(len(text))
	seen := make(map[string]bool)
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "a=candidate:")
		if !ok {
			out.WriteString(line)
			continue
		}
		fields := strings.Fields(value)
		if len(fields) < 8 || !r.usable(fields) {
			dropped++
			continue
		}
		path := strings.Join([]string{fields[2], fields[4], fields[5], fields[7]}, " ")
		if seen[path] || len(seen) == maxUsed {
			dropped++
			continue
		}
		seen[path] = true
		out.WriteString(line)
	}
	return out.String(), dropped
}

// hostOf returns the address of a line that is one of our host candidates.
func hostOf(line string) (address netip.Addr, ok bool) {
	value, is := strings.CutPrefix(line, "a=candidate:")
	fields := strings.Fields(value)
	if !is || len(fields) < 8 || fields[7] != "host" {
		return address, false
	}
	address, err := netip.ParseAddr(fields[4])
	return address, err == nil
}

// announced puts public addresses (1:1 NAT) into an answer instead of our own of the same family, one of which stands
// for them. Pion would do so, too, but then has a socket for only one of our addresses, the first, which may be that of
// loopback or of a bridge that no packet from outside reaches.
func announced(answer string, public []string) string {
	if len(public) == 0 {
		return answer
	}
	var own []netip.Addr
	for line := range strings.Lines(answer) {
		if address, ok := hostOf(line); ok {
			own = append(own, address)
		}
	}
	replaced := map[bool]bool{} // families: whether IPv4
	behind := map[netip.Addr][]netip.Addr{}
	for _, text := range public {
		ip := netip.MustParseAddr(text).Unmap() // checked by validate
		local := facing(ip, own)
		replaced[ip.Is4()], behind[local] = true, append(behind[local], ip)
	}
	var out strings.Builder
	for line := range strings.Lines(answer) {
		address, ok := hostOf(line)
		if !ok || !replaced[address.Is4()] {
			out.WriteString(line)
			continue
		}
		for _, ip := range behind[address] {
			out.WriteString(strings.Replace(line, " "+strings.Fields(line)[4]+" ", " "+ip.String()+" ", 1))
		}
	}
	return out.String()
}

// facing returns which of our addresses packets to a public one leave from; if that is not known, one of the same
// family, preferably not loopback.
func facing(public netip.Addr, own []netip.Addr) netip.Addr {
	if conn, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: public.AsSlice(), Port: 9}); err == nil { // sends nothing
		from, _ := netip.AddrFromSlice(conn.LocalAddr().(*net.UDPAddr).IP)
		_ = conn.Close()
		if slices.Contains(own, from.Unmap()) {
			return from.Unmap()
		}
	}
	var found netip.Addr
	for _, address := range own {
		if address.Is4() == public.Is4() && (!found.IsValid() || found.IsLoopback()) {
			found = address
		}
	}
	return found
}

// routes are the local addresses from which a remote's candidates can be reached. Each local candidate costs a socket,
// a goroutine, buffers, and checks with each candidate of the remote.
type routes struct {
	all, v4, v6 bool
	loopback    bool // only loopback
}

// routesTo examines the candidates of a trimmed answer. A remote that names loopback addresses and otherwise only
// addresses of this machine runs here.
func routesTo(answer string, local []net.Addr) (r routes) {
	var own []netip.Addr
	for _, a := range local {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr().Unmap())
		}
	}
	foreign, v4Loopback := false, false
	for line := range strings.Lines(answer) {
		value, ok := strings.CutPrefix(line, "a=candidate:")
		if !ok {
			continue
		}
		address, err := netip.ParseAddr(strings.Fields(value)[4]) // trim has checked it
		if err != nil {
			continue
		}
		address = address.Unmap()
		r.v4, r.v6 = r.v4 || address.Is4(), r.v6 || !address.Is4()
		r.loopback = r.loopback || address.IsLoopback()
		v4Loopback = v4Loopback || (address.IsLoopback() && address.Is4())
		foreign = foreign || (!address.IsLoopback() && !slices.Contains(own, address))
	}
	r.all = !r.v4 && !r.v6
	r.loopback = r.loopback && !foreign
	if r.loopback && v4Loopback {
		r.v6 = false
	}
	return r
}

// allow reports whether a local address is used.
func (r routes) allow(ip net.IP) bool {
	switch v4 := ip.To4() != nil; {
	case r.all:
		return true
	case r.loopback && !ip.IsLoopback():
		return false
	case v4:
		return r.v4
	default:
		return r.v6
	}
}

// isPublic reports whether one of the addresses is reachable from the whole internet.
func isPublic(addresses []string) bool {
	for _, text := range addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		address = address.Unmap()
		if address.IsGlobalUnicast() && !address.IsPrivate() && !carrierNAT.Contains(address) {
			return true
		}
	}
	return false
}
