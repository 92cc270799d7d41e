package opus

import "math"

// concealer continues a sound that has broken off: it repeats its last period, ever more quietly, as appendix I of
// G.711 does.
type concealer struct {
	rate   int
	past   []int16 // the last samples that were heard
	period int     // what is repeated, in samples; 0 while nothing is lost
	lost   int     // samples made so far
	out    []int16
}

const (
	// The periods of voices are 2.5 to 15 ms: 66 to 400 Hz.
	shortestPeriod, longestPeriod = 400, 66 // Hz
	// compared is how much of the sound is looked for in its past, in ms.
	compared = 10
	// steady and fading say how long what is made up keeps its level and when it is silent, in ms.
	steady, fading = 10, 60
	// blended is how long the sound that comes back is blended with what is made up, in ms.
	blended = 5
)

func newConcealer(rate int) concealer {
	return concealer{rate: rate, past: make([]int16, rate/longestPeriod+rate*compared/1000)}
}

// heard takes samples that were not lost, and changes the first ones after a loss, so that they join on without a
// click.
func (c *concealer) heard(pcm []int16) {
	if c.period > 0 {
		n := min(c.rate*blended/1000, len(pcm))
		for i, made := range c.next(n) {
			pcm[i] += int16((int(made) - int(pcm[i])) * (n - i) / n)
		}
		c.period, c.lost = 0, 0
	}
	if len(pcm) < len(c.past) {
		copy(c.past, c.past[len(pcm):])
	}
	copy(c.past[max(0, len(c.past)-len(pcm)):], pcm[max(0, len(pcm)-len(c.past)):])
}

// next makes up the samples that follow.
func (c *concealer) next(samples int) []int16 {
	if c.period == 0 {
		c.period = c.findPeriod()
	}
	c.out = c.out[:0]
	last := c.past[len(c.past)-c.period:]
	from, until := c.rate*steady/1000, c.rate*fading/1000
	for range samples {
		level := max(0, min(until-from, until-c.lost))
		c.out = append(c.out, int16(int(last[c.lost%c.period])*level/(until-from)))
		c.lost++
	}
	return c.out
}

// findPeriod returns by how much the sound has to be shifted to be most like itself.
func (c *concealer) findPeriod() int {
	n := c.rate * compared / 1000
	end := c.past[len(c.past)-n:]
	best, found := math.Inf(-1), c.rate/longestPeriod
	for period := c.rate / shortestPeriod; period <= c.rate/longestPeriod; period++ {
		var product, energy float64
		for i, s := range c.past[len(c.past)-n-period:][:n] {
			product += float64(s) * float64(end[i])
			energy += float64(s) * float64(s)
		}
		if like := product / math.Sqrt(energy+1); like > best {
			best, found = like, period
		}
	}
	return found
}
