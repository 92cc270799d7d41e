package session

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"voicebridge/internal/testkit"
)

// TestHeardText estimates what was heard of an answer in many scripts, spoken as fast as people speak them (in characters per
// second; Coupé et al., Science Advances 5, 2019, and the usual rates of captions), before any answer was heard to its end: within
// half of the truth, at four speeds of the voice. Once one was heard, that is known better.
func TestHeardText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		rate float64
	}{
		"English":    {"The library in the old town is open from eight in the morning until late in the evening, and on Sundays as well. ", 15},
		"German":     {"Die Bibliothek in der Altstadt ist von morgens um acht bis spät am Abend geöffnet, und auch am Sonntag. ", 16},
		"Spanish":    {"La biblioteca del casco antiguo abre desde las ocho de la mañana hasta la noche, y los domingos también. ", 17},
		"Vietnamese": {"Thư viện ở phố cổ mở cửa từ tám giờ sáng đến tối muộn, và cả ngày chủ nhật nữa. ", 19},
		"Russian":    {"Библиотека в старом городе открыта с восьми утра до позднего вечера, и по воскресеньям тоже. ", 15},
		"Greek":      {"Η βιβλιοθήκη στην παλιά πόλη είναι ανοιχτή από τις οκτώ το πρωί μέχρι αργά το βράδυ. ", 16},
		"Chinese":    {"老城区的图书馆从早上八点一直开放到深夜，星期天也照常开门，您可以随时带孩子过来看书。", 4.8},
		"Cantonese":  {"舊城區嘅圖書館由朝早八點一直開到夜晚，星期日都照常開門。", 5},
		"Japanese":   {"旧市街にある図書館は、朝の八時から夜遅くまで開いていて、日曜日も利用することができます。", 7.4},
		"Korean":     {"구시가지에 있는 도서관은 아침 여덟 시부터 밤늦게까지 열려 있고 일요일에도 이용할 수 있습니다. ", 6.5},
		"Thai":       {"ห้องสมุดในเมืองเก่าเปิดตั้งแต่แปดโมงเช้าจนถึงดึกและเปิดวันอาทิตย์ด้วย", 14},
		"Hindi":      {"पुराने शहर का पुस्तकालय सुबह आठ बजे से देर रात तक खुला रहता है, और रविवार को भी। ", 13},
		"Arabic":     {"المكتبة في المدينة القديمة مفتوحة من الثامنة صباحا حتى وقت متأخر من المساء، وأيام الأحد أيضا. ", 11},
		"Hebrew":     {"הספרייה בעיר העתיקה פתוחה משמונה בבוקר ועד שעה מאוחרת בערב, וגם בימי ראשון. ", 10},
		"Amharic":    {"በአሮጌው ከተማ ያለው ቤተ መጻሕፍት ከጠዋቱ ሁለት ሰዓት እስከ ምሽት ድረስ ክፍት ነው። ", 7},
		"digits":     {"It opened in 1897, closed in 1944, and was rebuilt in 1962 with 250000 books. ", 10},
	} {
		for _, speed := range []float64{0.5, 1, 1.25, 1.5} {
			t.Run(fmt.Sprint(name, speed), func(t *testing.T) {
				t.Parallel()
				c := beforeAnswer(t)
				c.play(fmt.Sprintf(`up {"type":"session.updated","session":{"type":"realtime","audio":{"output":{"speed":%g}}}}`, speed))
				text := strings.Repeat(tt.text, 4)
				all := time.Duration(float64(utf8.RuneCountInString(text)) / tt.rate / speed * float64(time.Second))
				for n, share := range []float64{0.3, 0.7, 1, 0.5} { // the third is heard to its end
					r := fmt.Sprintf("r%d", n)
					c.answer(r, text)
					played := time.Duration(float64(all) * share)
					c.pass(played.String())
					within := 0.5
					if share == 1 {
						c.play(`up {"type":"output_audio_buffer.stopped","response_id":"` + r + `"}`)
						continue
					}
					if n > 2 {
						within = 0.15
					}
					c.play(fmt.Sprintf(`up {"type":"conversation.item.truncated","item_id":"item_%s","content_index":0,"audio_end_ms":%d}`, r, played.Milliseconds()))
					c.play(`up {"type":"output_audio_buffer.cleared","response_id":"` + r + `"}`)
					heard := c.s.transcript.items["item_"+r].message.meta.HeardText
					if heard == nil || !strings.HasPrefix(text, *heard) {
						t.Fatalf("heard %v", heard)
					}
					truth := float64(utf8.RuneCountInString(text)) * share
					if got := float64(utf8.RuneCountInString(*heard)); math.Abs(got/truth-1) > within {
						t.Errorf("%.0f%% of what was heard of %s: %q", got/truth*100, r, *heard)
					}
				}
			})
		}
	}
}

// TestLetters has the page estimate by the same table how far an answer was spoken: its tests read the same file.
func TestLetters(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../web/ui/test/fixtures/letters.json")
	testkit.Must(t, err)
	var texts []struct {
		Text    string
		Letters float64
	}
	if err := json.Unmarshal(raw, &texts); err != nil || len(texts) < 8 {
		t.Fatalf("%d texts, %v", len(texts), err)
	}
	for _, tt := range texts {
		if got := letters(tt.Text); math.Abs(got-tt.Letters) > 0.01 {
			t.Errorf("%q takes as long as %v Latin letters, want %v", tt.Text, got, tt.Letters)
		}
	}
}

func beforeAnswer(t *testing.T) *scripted {
	t.Helper()
	c := &scripted{t: t, now: epoch, s: newTestState(t, Config{})}
	c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	return c
}

// answer has a response made and begin to be heard.
func (c *scripted) answer(r, text string) {
	c.play(`up {"type":"response.created","response":{"id":"` + r + `","status":"in_progress"}}`)
	c.play(`up {"type":"conversation.item.added","previous_item_id":"before_` + r + `","item":{"id":"item_` + r + `","type":"message","role":"assistant","status":"in_progress"}}`)
	c.play(`up {"type":"output_audio_buffer.started","response_id":"` + r + `"}`)
	c.play(fmt.Sprintf(`up {"type":"response.done","response":{"id":"%s","status":"completed","output":[{"id":"item_%s","type":"message","role":"assistant","status":"completed","content":[{"type":"output_audio","transcript":%q}]}]}}`, r, r, text))
}

// TestHeardShare has an upstream of which it is known how long the sound of an answer is: what was heard is that share of the
// words, however fast they are spoken, and an answer that is truncated at its end is whole.
func TestHeardShare(t *testing.T) {
	t.Parallel()
	const text = "one two three four five six seven eight nine ten"
	for name, tt := range map[string]struct {
		sound         time.Duration // how long it is, told with the end of the sound or with the truncation
		late          bool
		endMS         int
		heard, status string
		text          string
	}{
		"fast":                 {sound: time.Second, endMS: 500, heard: "one two three four five", status: "interrupted"},
		"slow":                 {sound: 20 * time.Second, endMS: 10000, heard: "one two three four five", status: "interrupted"},
		"known late":           {sound: 20 * time.Second, late: true, endMS: 10000, heard: "one two three four five", status: "interrupted"},
		"at its end":           {sound: time.Second, endMS: 1000, status: "completed"},
		"within a packet":      {sound: 1010 * time.Millisecond, endMS: 1000, status: "completed"},
		"behind its end":       {sound: time.Second, endMS: 99999, status: "completed"},
		"not begun":            {sound: time.Second, endMS: 0, heard: "", status: "interrupted"},
		"Chinese":              {sound: 2 * time.Second, endMS: 1000, text: "一二三四五六七八九十", heard: "一二三四五", status: "interrupted"},
		"Chinese with English": {sound: 2 * time.Second, endMS: 1600, text: "我们的 GPT 模型非常快", heard: "我们的 GPT 模型非", status: "interrupted"},
		"no half of a letter":  {sound: 2 * time.Second, endMS: 1000, text: "กี่กี่กี่กี่", heard: "กี่กี่", status: "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := beforeAnswer(t)
			words := text
			if tt.text != "" {
				words = tt.text
			}
			c.answer("r1", words)
			done := UpstreamEvent{Gen: 1, Data: []byte(`{"type":"response.output_audio.done","response_id":"r1","item_id":"item_r1"}`), Sound: tt.sound}
			if !tt.late {
				c.reduce(done)
			}
			c.reduce(UpstreamEvent{Gen: 1, Data: fmt.Appendf(nil, `{"type":"conversation.item.truncated","item_id":"item_r1","content_index":0,"audio_end_ms":%d}`, tt.endMS)})
			c.reduce(done)
			m := c.s.transcript.items["item_r1"].message
			heard := ""
			if m.meta.HeardText != nil {
				heard = *m.meta.HeardText
			}
			if heard != tt.heard || string(m.meta.Status) != tt.status {
				t.Errorf("%s, heard %q", m.meta.Status, heard)
			}
		})
	}
}
