package speech

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"voicebridge/internal/testkit"
)

// cut cuts a text that comes in pieces.
func cut(pieces ...string) (clauses []Clause) {
	var c Cutter
	for _, p := range pieces {
		clauses = append(clauses, c.Write(p)...)
	}
	return append(clauses, c.Close()...)
}

func texts(clauses []Clause) []string {
	out := []string{}
	for _, c := range clauses {
		if c.Text != "" {
			out = append(out, c.Text)
		}
	}
	return out
}

func TestClauses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":      {"", ""},
		"one word":     {"Yes", "Yes"},
		"sentences":    {"That is all there is. And then some more! Is it?", "That is all there is.|And then some more!|Is it?"},
		"first comma":  {"Well, of course, I can do that, if you like. Shall I, then, do it now?", "Well, of course,|I can do that, if you like.|Shall I, then, do it now?"},
		"short joins":  {"Yes. No. Maybe so. I do not know.", "Yes. No. Maybe so.|I do not know."},
		"number":       {"Pi is about 3.14 and 1,000,000 is a lot of it.", "Pi is about 3.14 and 1,000,000 is a lot of it."},
		"abbreviation": {"We eat fruit there e.g. for lunch. Then we go.", "We eat fruit there e.g. for lunch.|Then we go."},
		"title":        {"I was seen there by Dr. Smith and Mrs. Jones today. It went well.", "I was seen there by Dr. Smith and Mrs. Jones today.|It went well."},
		"initials":     {"It was written by J. R. R. Tolkien in the U.S. Army? No.", "It was written by J. R. R. Tolkien in the U.S. Army?|No."},
		"quotation":    {"She said to me: “Go home now!” He went.", "She said to me:|“Go home now!”|He went."},
		"version":      {"Please install the version 2.x.y from example.com today. It is free.", "Please install the version 2.x.y from example.com today.|It is free."},
		"German":       {"Am 3. Oktober feiern wir, z. B. Äpfel, bei Prof. Müller. Danach gibt es Kaffee.", "Am 3. Oktober feiern wir,|z. B. Äpfel, bei Prof. Müller.|Danach gibt es Kaffee."},
		"French":       {"Qu'est-ce que c'est ? C'est la vie, Mme. Dupont !", "Qu'est-ce que c'est ?|C'est la vie, Mme. Dupont !"},
		"Spanish":      {"¿Qué hora es ahora? ¡Son las tres y media!", "¿Qué hora es ahora?|¡Son las tres y media!"},
		"Russian":      {"Это первое предложение. Это второе!", "Это первое предложение.|Это второе!"},
		"Greek":        {"Καλημέρα σε όλους σας. Τι κάνετε;", "Καλημέρα σε όλους σας.|Τι κάνετε;"},
		"Chinese":      {"好的，没问题，我马上来帮您查一下。今天北京的天气非常好，气温二十度！您还想知道什么？", "好的，没问题，我马上来帮您查一下。|今天北京的天气非常好，气温二十度！|您还想知道什么？"},
		"Japanese":     {"はい、かしこまりました、少々お待ちください。今日の東京の天気は晴れです。「どうぞ。」", "はい、かしこまりました、|少々お待ちください。今日の東京の天気は晴れです。|「どうぞ。」"},
		"Korean":       {"안녕하세요, 저는 비서입니다. 무엇을 도와드릴까요?", "안녕하세요, 저는 비서입니다.|무엇을 도와드릴까요?"},
		"Thai":         {"สวัสดีครับ ผมชื่อสมชาย ยินดีที่ได้รู้จักครับ วันนี้อากาศดี", "สวัสดีครับ ผมชื่อสมชาย|ยินดีที่ได้รู้จักครับ วันนี้อากาศดี"},
		"Arabic":       {"مرحبا بكم في بيتنا، كيف حالكم اليوم؟ نحن بخير والحمد لله.", "مرحبا بكم في بيتنا،|كيف حالكم اليوم؟|نحن بخير والحمد لله."},
		"Hindi":        {"आप का स्वागत है यहाँ। आप कैसे हैं?", "आप का स्वागत है यहाँ।|आप कैसे हैं?"},
		"Hebrew":       {"ברוכים הבאים לביתנו. מה שלומכם?", "ברוכים הבאים לביתנו.|מה שלומכם?"},
		"lines":        {"Apples\nPears\nBananas and cherries\nPlums", "Apples, Pears|Bananas and cherries|Plums"},
		"list":         {"You need:\n\n- two eggs\n- **flour**, and\n* 1.5 litres of milk\n\n1. Stir it.\n2. Bake it well.", "You need: two eggs|flour, and, 1.5 litres of milk|1. Stir it. 2. Bake it well."},
		"headings":     {"# The *first* one\n\nText is `here`.\n\nAnother\n=======\n\n> quoted ~~words~~\n\n***\n\nEnd_of_it", "The first one|Text is here.|Another, quoted words|End of it"},
		"task":         {"- [ ] to do first\n- [x] was done before", "to do first,|was done before"},
		"code":         {"Run this now:\n```sh\nrm -rf /; echo done.\n```\nThat was it.\n~~~\nmore\n```\n~~~\n", "Run this now:|That was it."},
		"code in line": {"```one``` of them is enough. Two are not.", "one of them is enough.|Two are not."},
		"open code":    {"This is an example:\n```go\nfunc main() {}", "This is an example:"},
		"links":        {"See [the *docs*](https://a.b/c_(d) \"T\") and [ref][1] or ![a cat](x.png)! At https://x.org/a?b=1. Or <http://y.z>, www.k.com/, (https://p.q) end.", "See the docs and ref or a cat!|At. Or,, () end."},
		"brackets":     {"It is known [1][2] that [pause:2s] arrays [like [this]] end [^3]. Yes [", "It is known that arrays end.|Yes"},
		"definition":   {"Some words here.\n[1]: https://x.org/\nMore words.", "Some words here.|More words."},
		"table":        {"| Name | Age |\n|:---|---:|\n| Ann | 5 |\n| Bob | -7 |", "Name, Age, Ann,|5, Bob, -7,"},
		"emoji":        {"Great 🎉! Really 👍🏽👨‍👩‍👧 good → yes ✅ 1️⃣ 🇩🇪 20 °C ©.", "Great! Really good yes 1 20 °C ©."},
		"signs":        {"***", ""},
		"minus":        {"-5 degrees\n+49 is Germany\n#1 of all", "-5 degrees, +49 is Germany|#1 of all"},
		"snake":        {"use my_variable_name or 2*3=6 **now**.", "use my variable name or 2 3=6 now."},
		"invalid":      {"It \xff\xfeis \x00a \u200blong\r\nway", "It is a \u200blong|way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, strings.Join(texts(cut(tt.text)), "|"), tt.want, "clauses")
		})
	}
}

func TestLongClauses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want []int
	}{
		"words":  {strings.Repeat("word ", 100), []int{199, 199, 99}},
		"commas": {strings.Repeat("a word, ", 50), []int{15, 79, 79, 79, 79, 63}},
		"Thai":   {strings.Repeat("ก็", 150), []int{200, 100}},
		"one":    {strings.Repeat("x", 450), []int{200, 200, 50}},
		"marks":  {"a" + strings.Repeat("\u0301", 450), []int{200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []int
			for _, text := range texts(cut(tt.text)) {
				got = append(got, utf8.RuneCountInString(text))
			}
			testkit.Equal(t, got, tt.want, "lengths")
		})
	}
}

// TestWhenClausesEnd shows that a clause waits for the next letter, and no longer.
func TestWhenClausesEnd(t *testing.T) {
	t.Parallel()
	var c Cutter
	for _, step := range []struct{ piece, want string }{
		{"It is about 3", ""}, {".", ""}, {"1", ""}, {" or so.", ""}, {" ", ""}, {"“", ""}, {"R", "It is about 3.1 or so."},
		{"ight here and now.” ", ""}, {"\n", "“Right here and now.”"}, {"好的，我马上来帮您查一下。", ""}, {"请", "好的，我马上来帮您查一下。"},
	} {
		testkit.Equal(t, strings.Join(texts(c.Write(step.piece)), "|"), step.want, "after %q", step.piece)
	}
}

// TestSpoken shows where in the text a share of a clause's sound is.
func TestSpoken(t *testing.T) {
	t.Parallel()
	text := "Look **here** now: [Ünï](https://example.com/long) ok. 🎉\n```\ncode\n```\n"
	clauses := cut(text)
	testkit.Equal(t, strings.Join(texts(clauses), "|"), "Look here now:|Ünï ok.", "clauses")
	var got []string
	for _, c := range clauses {
		for _, share := range []float64{0, 0.5, 0.99, 1} {
			got = append(got, text[c.Start:c.Spoken(share)])
		}
	}
	testkit.Equal(t, got, []string{
		"L", "Look **her", "Look **here** now:", "Look **here** now: ",
		"[Ü", "[Ünï](https://example.com/long) ", "[Ünï](https://example.com/long) ok.",
		"[Ünï](https://example.com/long) ok. 🎉\n```\ncode\n```\n",
	}, "spoken")
}

// FuzzCutter cuts texts into pieces: the clauses stay the same, cover the text, and none is too long.
func FuzzCutter(f *testing.F) {
	for _, seed := range []string{
		"Hello there, Dr. Smith. 3.14 is *pi*. [a](http://b.c) and `x`\n```\ny\n```\n", "好的，我来。はい、ね。สวัสดี ครับ",
		"| a | b |\n|---|---|\n- [ ] x\n[[[[(((", "👍🏽👨‍👩‍👧 www. https:// hh ![a](b", strings.Repeat("long words, ", 40), "\xf0\x9f\xff",
	} {
		f.Add(seed, uint16(7))
		f.Add(seed, uint16(0xffff))
	}
	f.Fuzz(func(t *testing.T, text string, cuts uint16) {
		if len(text) > 4096 {
			return
		}
		whole := cut(text)
		var pieces []string
		for rest, n := text, int(cuts); rest != ""; n = n*31 + 7 {
			size := min(len(rest), 1+n&0xffff%9)
			pieces = append(pieces, rest[:size])
			rest = rest[size:]
		}
		got, want := fmt.Sprintf("%+v", cut(pieces...)), fmt.Sprintf("%+v", whole)
		testkit.Equal(t, got, want, "in pieces %q", pieces)
		at := 0
		for i, c := range whole {
			if c.Start != at || c.End < at || utf8.RuneCountInString(c.Text) > maxClause || c.Text == "" && i+1 < len(whole) {
				t.Fatalf("clause %+v after %d", c, at)
			}
			last := at
			for share := 0.0; share <= 1; share += 0.1 {
				if n := c.Spoken(share); n < last || n > c.End {
					t.Fatalf("%f of %+v is spoken up to %d, after %d", share, c, n, last)
				} else {
					last = n
				}
			}
			at = c.End
		}
		testkit.Equal(t, at, len(text), "covered")
	})
}
