/** Measures how loud a stream is. */
export interface Meter {
  /** The current level from 0 (silence) to 1 (as loud as speech gets). */
  level(): number;
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

export function meterOf(context: AudioContext, stream: MediaStream): Meter {
  const source = context.createMediaStreamSource(stream);
  const analyser = context.createAnalyser();
  analyser.fftSize = 2048; // most of what is heard between two looks
  source.connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  return {
    level() {
      analyser.getFloatTimeDomainData(samples);
      let sum = 0;
      for (const sample of samples) sum += sample * sample;
      return levelOf(Math.sqrt(sum / samples.length));
    },
    close() {
      source.disconnect();
    },
  };
}
