package rtc

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pion/transport/v5"

	"voicebridge/realtime/media"
)

// setAddresses gives a network one interface with these addresses, all of this machine.
func setAddresses(n *network, addresses ...string) {
	i := transport.NewInterface(net.Interface{Name: "lo", Flags: net.FlagUp | net.FlagLoopback})
	for _, address := range addresses {
		i.AddAddress(&net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(8, 32)})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.interfaces, n.read = []*transport.Interface{i}, time.Now().Add(time.Hour)
}

// TestAddressAppears has the machine change its address, as a VPN that comes up later does, and back: calls get the
// address that it has.
func TestAddressAppears(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	a := newAPI(t, Config{UDPPort: port, Loopback: true})
	for _, address := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.2"} {
		setAddresses(a.network, address)
		p, answer, err := a.Answer(testContext(t), readSDP(t, "chrome_offer.sdp"), media.Handlers{})
		must(t, err)
		closePeer(t, p)
		if want := fmt.Sprintf(" %s %d typ host", address, port); !strings.Contains(answer, want) || strings.Count(answer, want) != strings.Count(answer, "typ host") {
			t.Errorf("answer lacks %q, or has another address:\n%s", want, answer)
		}
	}
}
