package webtools

import "voicebridge/toolkit/guard"

// refusal says why something is not done, in words for the model.
type refusal = guard.Refusal

func refuse(format string, args ...any) error { return guard.Refuse(format, args...) }

// newAddresses returns what decides which addresses a model's requests may reach.
func newAddresses(c Config) *guard.Addresses {
	return guard.New(guard.Rules{
		Allow: c.AllowPrefixes, Deny: c.DenyPrefixes, Ports: c.AllowPorts, Own: c.ownAddresses,
	})
}
