import { meterOf, type Meter } from './meter';
import { openMicrophone } from './microphone';

/** Listens to a microphone outside a call, so that the user can see whether it hears anything. Nothing of it leaves the page. */
export class MicrophoneTrial {
  on = $state(false);
  #context: AudioContext | null = null;
  #stream: MediaStream | null = null;
  #meter: Meter | null = null;

  /** Opens a microphone (empty: the system's); throws if it cannot be used. */
  async begin(id: string): Promise<void> {
    this.end();
    const context = new AudioContext();
    this.#context = context;
    void context.resume();
    try {
      const stream = await openMicrophone(id);
      if (context !== this.#context) return stream.getTracks().forEach((track) => track.stop());
      this.#stream = stream;
      this.#meter = meterOf(context, stream);
      this.on = true;
    } catch (thrown) {
      this.end();
      throw thrown;
    }
  }

  level(): number {
    return this.#meter?.level() ?? 0;
  }

  end(): void {
    this.on = false;
    this.#meter?.close();
    this.#stream?.getTracks().forEach((track) => track.stop());
    void this.#context?.close();
    this.#meter = this.#stream = this.#context = null;
  }
}

const notes = [523.25, 659.25, 783.99];
const noteSeconds = 0.18;

/** Plays three notes on a loudspeaker (empty: the system's) at a volume from 0 to 1, and returns when they are over. */
export async function playTestSound(speaker: string, volume: number): Promise<void> {
  const context = new AudioContext();
  const audio = new Audio();
  try {
    await context.resume();
    const out = context.createMediaStreamDestination();
    audio.srcObject = out.stream;
    audio.volume = volume;
    if ('setSinkId' in audio && speaker !== '') await audio.setSinkId(speaker).catch(() => undefined); // the system's is used
    await audio.play();
    const begin = context.currentTime + 0.05;
    for (const [at, hertz] of notes.entries()) {
      const [from, note, gain] = [begin + at * noteSeconds, context.createOscillator(), context.createGain()];
      note.frequency.value = hertz;
      gain.gain.setValueAtTime(0, from);
      gain.gain.linearRampToValueAtTime(0.3, from + 0.02);
      gain.gain.exponentialRampToValueAtTime(0.001, from + noteSeconds * 2);
      note.connect(gain).connect(out);
      note.start(from);
      note.stop(from + noteSeconds * 2);
    }
    await new Promise((over) => setTimeout(over, 1000 * noteSeconds * (notes.length + 2)));
  } finally {
    audio.srcObject = null;
    void context.close();
  }
}
