package rtc

import (
	"net"
	"testing"
	"time"

	"github.com/pion/transport/v5"
)

// TestNetwork lists the machine's addresses, and again only when the list is old.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := new(network)
	all, err := n.addresses()
	must(t, err)
	own, err := net.InterfaceAddrs()
	must(t, err)
	if len(all) == 0 || len(own) == 0 {
		t.Errorf("addresses %v, the system has %v", all, own)
	}
	marked := &transport.Interface{Interface: net.Interface{Name: "marked"}}
	has := func() bool {
		list, err := n.Interfaces()
		return err == nil && len(list) == 1 && list[0] == marked
	}
	n.interfaces, n.read = []*transport.Interface{marked}, time.Now().Add(time.Hour)
	if !has() {
		t.Error("a list that is young was made again")
	}
	n.read = time.Now().Add(-interfacesAge)
	if has() {
		t.Error("a list that is old was used")
	}
}
