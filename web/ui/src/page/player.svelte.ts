import { addressOf } from '../api/http';

/** Plays what was recorded of calls: one thing at a time. */
export class Player {
  /** The message that is heard, or whose words are heard now in a whole call. */
  message = $state('');
  /** The call that is played as a whole. */
  call = $state('');
  /** Where in the call, in milliseconds. */
  at = $state(0);
  playing = $state(false);
  #audio: HTMLAudioElement | null = null;
  #sounds: { id: string; start: number; end: number }[] = [];

  constructor(private readonly onFailure: (thrown: unknown) => void) {}

  /** Plays one message, or stops it. */
  async hear(threadId: string, id: string): Promise<void> {
    const stop = this.playing && this.message === id && this.call === '';
    this.stop();
    if (stop) return;
    this.message = id;
    await this.#start(`api/threads/${encodeURIComponent(threadId)}/messages/${encodeURIComponent(id)}/audio`, 0);
  }

  /** Plays a call from a moment on, in milliseconds. */
  async play(callId: string, from: number, sounds: { id: string; start: number; end: number }[]): Promise<void> {
    if (this.call === callId && this.#audio) {
      this.#audio.currentTime = from / 1000;
      await this.#audio.play().catch(this.onFailure);
      return;
    }
    this.stop();
    this.call = callId;
    this.at = from;
    this.#sounds = sounds;
    await this.#start(`api/calls/${encodeURIComponent(callId)}/recording?track=both`, from / 1000);
  }

  pause(): void {
    this.#audio?.pause();
  }

  stop(): void {
    this.#audio?.pause();
    this.#audio = null;
    this.message = this.call = '';
    this.at = 0;
    this.playing = false;
    this.#sounds = [];
  }

  async #start(path: string, from: number): Promise<void> {
    const audio = (this.#audio = new Audio(addressOf(path)));
    const mine = (run: () => void) => () => audio === this.#audio && run();
    audio.addEventListener('playing', mine(() => (this.playing = true)));
    audio.addEventListener('pause', mine(() => (this.playing = false)));
    audio.addEventListener('ended', mine(() => this.stop()));
    audio.addEventListener('loadedmetadata', mine(() => from > 0 && (audio.currentTime = from)));
    audio.addEventListener(
      'timeupdate',
      mine(() => {
        if (this.call === '') return;
        this.at = audio.currentTime * 1000;
        this.message = this.#sounds.findLast(({ start, end }) => start <= this.at && this.at < end)?.id ?? '';
      }),
    );
    try {
      await audio.play();
    } catch (thrown) {
      if (audio !== this.#audio) return;
      this.stop();
      this.onFailure(thrown);
    }
  }
}
