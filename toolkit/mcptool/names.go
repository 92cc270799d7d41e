package mcptool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"voicebridge/toolkit"
)

// separator is between the server and the tool in an exposed name. Such names are never parsed: the
// tool is found by the value registered under the name.
const separator = "__"

// exposedName returns the name under which models know a server's tool: server__tool, with each
// invalid character replaced by _, and at most 64 long. A name that is too long is cut and marked
// with a hash of the whole name; so is a name that could also arise from another server and tool.
func exposedName(server, tool string) string {
	prefix := toolkit.CleanName(server)
	name := prefix + separator + toolkit.CleanName(tool)
	// With such a prefix "a__b" + "c" and "a" + "b__c", or "a_" + "b" and "a" + "_b", are one name.
	// The configuration guarantees that no two servers have the same prefix.
	ambiguous := strings.Contains(prefix, separator) || strings.HasSuffix(prefix, "_")
	if len(name) > toolkit.MaxName || ambiguous {
		return hashedName(server, tool)
	}
	return name
}

// hashedName returns the name with eight hexadecimal digits of the hash of server and tool.
func hashedName(server, tool string) string {
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	suffix := "_" + hex.EncodeToString(sum[:4])
	name := toolkit.CleanName(server) + separator + toolkit.CleanName(tool)
	return name[:min(len(name), toolkit.MaxName-len(suffix))] + suffix
}

// exposedNames returns the exposed name of each tool of a server. If two tools would have the same
// name ("a.b" and "a_b"), both get the hash, so that the names do not depend on the order.
func exposedNames(server string, tools []string) map[string]string {
	taken := map[string]int{}
	for _, tool := range tools {
		taken[exposedName(server, tool)]++
	}
	names := make(map[string]string, len(tools))
	for _, tool := range tools {
		name := exposedName(server, tool)
		if taken[name] > 1 {
			name = hashedName(server, tool)
		}
		names[tool] = name
	}
	return names
}
