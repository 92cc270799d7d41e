package rtc

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the scheme asks for HMAC-SHA1, which is not broken
	"encoding/base64"
	"strconv"
	"time"
)

// TURNCredential returns a user name and a credential that a TURN server with the same secret accepts until expires
// (coturn: use-auth-secret; the scheme of draft-uberti-behave-turn-rest-00, 2.2). name is for the server's log and may
// be empty.
func TURNCredential(secret, name string, expires time.Time) (username, credential string) {
	username = strconv.FormatInt(expires.Unix(), 10)
	if name != "" {
		username += ":" + name
	}
	sum := hmac.New(sha1.New, []byte(secret))
	sum.Write([]byte(username))
	return username, base64.StdEncoding.EncodeToString(sum.Sum(nil))
}
