import { meterOf, type Meter } from '../device/meter';

/** Plays the assistant's voice and measures it. */
export class Speaker {
  #audio: HTMLAudioElement | null = null;
  #meter: Meter | null = null;

  attach(element: HTMLAudioElement): void {
    this.#audio = element;
  }

  hear(stream: MediaStream, context: AudioContext | null): void {
    if (this.#audio) this.#audio.srcObject = stream;
    this.#meter?.close();
    this.#meter = context ? meterOf(context, stream) : null;
  }

  /** Plays; false if the browser requires a click first. */
  async play(): Promise<boolean> {
    try {
      await this.#audio?.play();
      return true;
    } catch (thrown) {
      // Any other failure means that the stream was removed meanwhile.
      return !(thrown instanceof Error && thrown.name === 'NotAllowedError');
    }
  }

  /** Uses a loudspeaker (empty: the system's) at a volume from 0 to 1. */
  use(device: string, volume: number): void {
    if (!this.#audio) return;
    this.#audio.volume = volume;
    // Not every browser lets a page choose; then the system's default is used.
    if ('setSinkId' in this.#audio) this.#audio.setSinkId(device).catch(() => undefined);
  }

  level(): number {
    return this.#meter?.level() ?? 0;
  }

  /** The levels of the last pieces of sound of so many seconds each. */
  pieces(count: number, seconds: number): number[] {
    return this.#meter?.pieces(count, seconds) ?? [];
  }

  rest(): void {
    this.#meter?.close();
    this.#meter = null;
    if (this.#audio) this.#audio.srcObject = null;
  }
}
