package wire

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"voicebridge/llm"
)

// maxSaid limits how much of an error's texts is searched for what is wrong, in bytes.
const maxSaid = 8 << 10

// Few servers say in a field of their own that a conversation is too long, or that nothing is left to pay for it. Their
// words have in common that something is measured, and that there is too much of it.
var (
	// answerLimits are parameters, which measure the answer.
	answerLimits = regexp.MustCompile(
		`max[_ ]?(output|completion|new|generated)?[_ ]?tokens|(output|completion) tokens`,
	)
	measured = regexp.MustCompile(`context|token|kv[ -]cache|上下文|输入|长度`)
	// sized are measured only in some words, unless these are of others: a part of the request that is not what was
	// said.
	sized = regexp.MustCompile(`prompt|conversation|history|` +
		`(input|message|request|payload|content)s?\b.*\b(length|long|size|large)|` +
		`(length|long|size|large)\b.*\b(input|message|request|payload|content)`)
	others = regexp.MustCompile(`image|\bnames?\b|\btools?\b|function|schema|description|metadata|` +
		`\bids?\b|_id\b|identifier|_key\b`)
	// excess means that there is too much.
	excess = regexp.MustCompile(`exceed|too (long|large|big|many|much)|(long|larg|great|high|bigg|short|small)er|` +
		`overflow|oversize|\bmax|\blimit|at most|\bonly|(more|less) than|up to|reduc|shorten|truncat|<=|> ?\d|` +
		`range of|out of|\bfit|not enough|full|free (space|slot)|context shift|超|过长|过多|最大`)
	// rates are limits of what is sent in a time. A request that is larger than such a limit alone can only be
	// shortened.
	rates = regexp.MustCompile(`per[ _](second|minute|min|hour|day)|rate[ _-]?limit|\b[tr]p[mds]\b|concurren`)

	larger = regexp.MustCompile(`too large|must be reduced|message size`)
	// credit is what pays for requests. Bills are no matter of waiting either, but some call a limit of a minute a
	// quota.
	credit = regexp.MustCompile(`\bcredits?\b|(account|insufficient|negative|your)[ _].{0,16}balance|` +
		`balance.{0,24}(low|insufficient|exhausted|enough|negative)|insufficient[ _](funds|quota)|` +
		`arrear|overdue|spending[ _](limit|cap)|recharge|prepaid|余额|欠费`)
	bills = regexp.MustCompile(`billing|payment|quota`)
)

// kindOfWords returns the kind of a problem by what is said of it, where the server's fields leave that open.
func kindOfWords(kind llm.ErrorKind, status int, said string) llm.ErrorKind {
	words := answerLimits.ReplaceAllString(said, "")
	long := measured.MatchString(words) || sized.MatchString(words) && !others.MatchString(words)
	long = long && excess.MatchString(words)
	switch kind {
	case llm.KindAuth:
		if status != http.StatusUnauthorized && (credit.MatchString(said) || bills.MatchString(said)) {
			return llm.KindQuota
		}
	case llm.KindRate:
		if credit.MatchString(said) {
			return llm.KindQuota
		}
		if long && larger.MatchString(words) {
			return llm.KindTooLong
		}
	case llm.KindBadRequest, llm.KindUnavailable, llm.KindOverloaded:
		if kind != llm.KindOverloaded && credit.MatchString(said) {
			return llm.KindQuota
		}
		inTrouble := status > http.StatusInternalServerError
		if long && !inTrouble && (!rates.MatchString(words) || larger.MatchString(words)) {
			return llm.KindTooLong
		}
	case llm.KindQuota, llm.KindTooLong, llm.KindRefused, llm.KindTimeout:
	}
	return kind
}

// texts returns all texts of an error, but for what validators repeat of the request (pydantic's input).
func texts(body []byte) string {
	var all []string
	var walk func(value any)
	walk = func(value any) {
		switch v := value.(type) {
		case string:
			var inner any // gateways quote the error of another server
			if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &inner) == nil {
				walk(inner)
			} else if len(v) <= maxSaid {
				all = append(all, v)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if key != "input" {
					walk(v[key])
				}
			}
		}
	}
	var value any
	if json.NewDecoder(bytes.NewReader(body)).Decode(&value) == nil {
		walk(value)
	}
	joined := strings.Join(all, " ")
	return joined[:min(len(joined), maxSaid)]
}
