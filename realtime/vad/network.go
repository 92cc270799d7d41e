package vad

import (
	_ "embed" // the weights
	"encoding/binary"
	"math"
	"math/bits"
	"sync"
)

// The network hears 16 kHz, window samples at a time, with context of those before in front of them and pad mirrored
// behind: without the context it hears nothing. Their spectra are its frames.
const (
	hertz   = 16_000
	window  = 512
	context = 64
	pad     = 64
	size    = 256 // of a Fourier transform, hop samples after the one before
	hop     = 128
	bins    = size/2 + 1
	frames  = (context+window+pad-size)/hop + 1
	hidden  = 128 // values that it remembers
)

// silero is the branch for 16 kHz of silero_vad_v6.onnx (npm: @ricky0123/vad-web 0.0.31), float32 in little-endian, in
// the order of its graph: four convolutions, each its weights and then its bias; the LSTM's weights of input and state
// and their biases; the last layer's. The Fourier transform's are not there, as they are its formula.
//
//go:embed silero_v6.bin
var silero []byte

// weights are what all networks share, unchanged.
type weights struct {
	layers      [4]layer
	input       []float32 // of the LSTM: by gate (input, forget, cell, output), row by row
	state, bias []float32
	out         []float32
	outBias     float32
	hann        [size]float32
	cos, sin    [size / 2]float32
}

// layer is a convolution over three frames, of which the first and the last may be missing. A row of its weights is
// that of the first frame, the second and the third.
type layer struct {
	in, out, stride int
	weights, bias   []float32
}

var load = sync.OnceValue(func() *weights {
	all := make([]float32, len(silero)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(silero[4*i:]))
	}
	take := func(n int) (part []float32) {
		part, all = all[:n], all[n:]
		return part
	}
	w := &weights{layers: [4]layer{{in: bins, out: 128, stride: 1}, {in: 128, out: 64, stride: 2},
		{in: 64, out: 64, stride: 2}, {in: 64, out: hidden, stride: 1}}}
	for i := range w.layers {
		l := &w.layers[i]
		l.weights = make([]float32, l.out*3*l.in)
		for n, v := range take(len(l.weights)) {
			row, in, frame := n/3/l.in, n/3%l.in, n%3
			l.weights[(row*3+frame)*l.in+in] = v
		}
		l.bias = take(l.out)
	}
	w.input, w.state, w.bias = take(4*hidden*hidden), take(4*hidden*hidden), take(4*hidden)
	for i, v := range take(4 * hidden) {
		w.bias[i] += v
	}
	w.out, w.outBias = take(hidden), take(1)[0]
	for i := range w.hann {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / size)
		w.hann[i] = float32(0.5 - 0.5*cos)
		if i < len(w.cos) {
			w.cos[i], w.sin[i] = float32(cos), float32(-sin)
		}
	}
	return w
})

// network is Silero's and what it remembers of one stream.
type network struct {
	*weights

	samples     [context + window + pad]float32
	cell, heard [hidden]float32
	gates       [4 * hidden]float32
	re, im      [size]float32
	a, b        [frames * bins]float32 // what layers read and write, frame by frame
}

// step returns the probability that the next samples, a window, are speech.
func (n *network) step(samples []int16) float32 {
	const end = context + window
	copy(n.samples[:context], n.samples[window:end])
	for i, v := range samples[:window] {
		n.samples[context+i] = float32(v) / 32768
	}
	for i := range pad {
		n.samples[end+i] = n.samples[end-2-i]
	}
	for f := range frames {
		n.spectrum(n.samples[f*hop:][:size], n.a[f*bins:][:bins])
	}
	count := n.layers[0].run(n.a[:], n.b[:], frames)
	count = n.layers[1].run(n.b[:], n.a[:], count)
	count = n.layers[2].run(n.a[:], n.b[:], count)
	n.layers[3].run(n.b[:], n.a[:], count)
	n.remember(n.a[:hidden])
	sum := n.outBias
	for i, v := range n.heard {
		sum += n.out[i] * max(v, 0)
	}
	return sigmoid(sum)
}

// spectrum writes the absolute values of the Fourier transform of x.
//
//go:norace
func (n *network) spectrum(x, out []float32) {
	for i, v := range x {
		at := bits.Reverse8(uint8(i))
		n.re[at], n.im[at] = v*n.hann[i], 0
	}
	for half := 1; half < size; half *= 2 {
		for start := 0; start < size; start += 2 * half {
			for k := range half {
				i, j, turn := start+k, start+k+half, k*(size/2/half)
				re := n.re[j]*n.cos[turn] - n.im[j]*n.sin[turn]
				im := n.re[j]*n.sin[turn] + n.im[j]*n.cos[turn]
				n.re[j], n.im[j] = n.re[i]-re, n.im[i]-im
				n.re[i], n.im[i] = n.re[i]+re, n.im[i]+im
			}
		}
	}
	for i := range out {
		out[i] = float32(math.Sqrt(float64(n.re[i]*n.re[i] + n.im[i]*n.im[i])))
	}
}

// run reads so many frames of x and returns how many it wrote to y, of positive values.
func (l *layer) run(x, y []float32, count int) int {
	written := (count-1)/l.stride + 1
	for f := range written {
		// Frames follow one another as they do in a row, so that what meets is in one piece.
		middle := f * l.stride
		first, end := max(middle-1, 0), min(middle+2, count)
		in, skip := x[first*l.in:end*l.in], (first-middle+1)*l.in
		for o := 0; o < l.out; o += 4 {
			sums := dot4(l.weights[o*3*l.in+skip:], 3*l.in, in)
			for i, sum := range sums {
				y[f*l.out+o+i] = max(sum+l.bias[o+i], 0)
			}
		}
	}
	return written
}

// remember is the LSTM: what was heard takes x in.
func (n *network) remember(x []float32) {
	for g := 0; g < len(n.gates); g += 4 {
		now, before := dot4(n.input[g*hidden:], hidden, x), dot4(n.state[g*hidden:], hidden, n.heard[:])
		for i := range now {
			n.gates[g+i] = n.bias[g+i] + now[i] + before[i]
		}
	}
	for i := range hidden {
		in, forget := sigmoid(n.gates[i]), sigmoid(n.gates[hidden+i])
		cell, out := tanh(n.gates[2*hidden+i]), sigmoid(n.gates[3*hidden+i])
		n.cell[i] = forget*n.cell[i] + in*cell
		n.heard[i] = out * tanh(n.cell[i])
	}
}

// dot4 multiplies four rows of a matrix with x. With four sums at once the processor does not wait for one. The race
// detector would make this and spectrum forty times slower, which touch only weights and what is one stream's.
//
//go:norace
func dot4(m []float32, row int, x []float32) [4]float32 {
	var a, b, c, d float32
	n := len(x)
	m0, m1, m2, m3 := m[:n], m[row:][:n], m[2*row:][:n], m[3*row:][:n]
	for i, v := range x {
		a += m0[i] * v
		b += m1[i] * v
		c += m2[i] * v
		d += m3[i] * v
	}
	return [4]float32{a, b, c, d}
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
func tanh(x float32) float32    { return float32(math.Tanh(float64(x))) }
