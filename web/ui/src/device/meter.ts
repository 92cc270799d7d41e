/** Measures how loud a stream is. */
export interface Meter {
  /** The current level from 0 (silence) to 1 (as loud as speech gets). */
  level(): number;
  /** The levels of the last pieces of sound of so many seconds each, oldest first; fewer than were asked for if that is long ago. */
  pieces(count: number, seconds: number): number[];
  close(): void;
}

const quietDb = -60;
const loudDb = -14;

/** Maps a root mean square amplitude to 0…1 on a scale that fits speech. */
export function levelOf(rms: number): number {
  if (rms <= 0) return 0;
  const db = 20 * Math.log10(rms);
  return Math.min(1, Math.max(0, (db - quietDb) / (loudDb - quietDb)));
}

/** The level of samples, from one to another. */
function levelIn(samples: Float32Array, from = 0, to = samples.length): number {
  let sum = 0;
  for (let at = from; at < to; at++) sum += (samples[at] ?? 0) ** 2;
  return levelOf(Math.sqrt(sum / (to - from)));
}

export function meterOf(context: AudioContext, stream: MediaStream): Meter {
  const source = context.createMediaStreamSource(stream);
  const lastSamples = (count: number) => {
    const analyser = context.createAnalyser();
    analyser.fftSize = count;
    source.connect(analyser);
    const samples = new Float32Array(count);
    return () => {
      analyser.getFloatTimeDomainData(samples);
      return samples;
    };
  };
  const now = lastSamples(2048); // most of what is heard between two looks
  let past: typeof now | undefined;
  return {
    level() {
      return levelIn(now());
    },
    pieces(count, seconds) {
      past ??= lastSamples(16_384);
      const samples = past();
      const length = Math.round(seconds * context.sampleRate);
      const first = Math.min(count, Math.floor(samples.length / length));
      return Array.from({ length: first }, (_, at) => levelIn(samples, samples.length - (first - at) * length, samples.length - (first - at - 1) * length));
    },
    close() {
      source.disconnect();
    },
  };
}
