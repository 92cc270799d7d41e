const loud = 0.42;
const longEnoughMs = 500;
const shownMs = 4000;

/** Detects that somebody speaks into a muted microphone. */
export class Unheard {
  #since = 0;
  #until = 0;

  /** Takes a level from 0 to 1, and returns whether to warn. A single bang does not count. */
  hear(level: number, now: number): boolean {
    if (level < loud) this.#since = 0;
    else this.#since ||= now;
    if (this.#since > 0 && now - this.#since >= longEnoughMs) this.#until = now + shownMs;
    return now < this.#until;
  }
}
