// What the meters and the orb of a call share: they draw in the same frames, as few as look alive, and none where nothing would change.

const beatMs = 40;
const drawings = new Set<(now: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Draws at each beat while the page can be seen, until the returned function is called. */
export function atBeats(draw: (now: number) => void): () => void {
  drawings.add(draw);
  timer ??= setInterval(() => {
    if (document.visibilityState === 'visible') drawings.forEach((each) => each(performance.now()));
  }, beatMs);
  return () => {
    drawings.delete(draw);
    if (drawings.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** A level without the noise of a quiet room, which nobody needs to see. */
export function audible(level: number): number {
  return level < 0.1 ? 0 : level;
}

/** The last levels of one side, the newest first. */
export class History {
  levels: number[] = [];

  /** Adds a level and keeps as many as there is room for; false if the picture stays the same. */
  add(level: number, room: number): boolean {
    const before = this.levels;
    this.levels = Array.from({ length: room }, (_, at) => (at === 0 ? level : (before[at - 1] ?? 0)));
    return this.levels.some((each, at) => each !== (before[at] ?? 0));
  }
}
