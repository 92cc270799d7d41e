import type { Word } from '../../words/language.svelte';

// The picture of a call: a disc with the five bars of the page's sign, which move with both voices.

/** How loud both sides are, from 0 to 1. */
export interface Voices {
  you: number;
  assistant: number;
}

export type Rgb = readonly [number, number, number];

export interface Colors {
  /** Of the state. */
  tone: Rgb;
  /** On which the bars are read. */
  on: Rgb;
}

const rest = [0.16, 0.34, 0.52, 0.34, 0.16];
const busy: readonly Word[] = ['connecting', 'permission', 'renewing', 'recovering'];

const css = ([r, g, b]: Rgb, alpha = 1) => `rgb(${r} ${g} ${b} / ${alpha})`;
const wave = (seconds: number, hertz: number, phase = 0) => Math.sin(2 * Math.PI * (seconds * hertz + phase));

/** The share of the orb's height of each bar. */
export function barsOf(word: Word, { you, assistant }: Voices, seconds: number): number[] {
  const loud = word === 'speaking' ? assistant : word === 'hearing' ? you : Math.max(you, assistant);
  return rest.map((height, at) => {
    if (word === 'thinking' || word === 'tool') return 0.12;
    if (busy.includes(word)) return 0.16 + 0.12 * (1 + wave(seconds, 0.8, -at / 5));
    const own = 0.75 + 0.25 * wave(seconds, 2.1 + at * 0.37, at * 0.29);
    return height * (0.55 + 0.04 * wave(seconds, 0.25)) + loud * own * (0.2 + 0.5 * height);
  });
}

/** Paints the orb in a state, `seconds` after it began; a square of `size` pixels. */
export function paintOrb(context: CanvasRenderingContext2D, size: number, word: Word, { tone, on }: Colors, voices: Voices, seconds: number): void {
  const middle = size / 2;
  const loud = Math.max(voices.you, voices.assistant);
  context.clearRect(0, 0, size, size);

  const disc = (radius: number, fill: string | CanvasGradient) => {
    context.fillStyle = fill;
    context.beginPath();
    context.arc(middle, middle, Math.min(middle, radius), 0, 2 * Math.PI);
    context.fill();
  };
  const breath = 0.012 * wave(seconds, word === 'thinking' ? 0.7 : 0.25);
  const radius = middle * (0.74 + breath + 0.06 * loud);

  // Two rings of sound around it.
  disc(middle * (0.86 + 0.14 * loud), css(tone, 0.1));
  disc(middle * (0.8 + 0.12 * loud), css(tone, 0.14));

  const fill = context.createRadialGradient(middle - radius * 0.35, middle - radius * 0.45, radius * 0.1, middle, middle, radius * 1.15);
  const [r, g, b] = tone;
  fill.addColorStop(0, css([r + (255 - r) * 0.42, g + (255 - g) * 0.42, b + (255 - b) * 0.42]));
  fill.addColorStop(1, css(tone));
  disc(radius, fill);

  // What is on its way turns.
  if (word === 'tool' || busy.includes(word)) {
    context.strokeStyle = css(tone);
    context.lineWidth = size * 0.028;
    context.lineCap = 'round';
    const turned = seconds * (word === 'tool' ? 4.2 : 2.4);
    for (const from of word === 'tool' ? [0, Math.PI] : [0, 2.1, 4.2]) {
      context.beginPath();
      context.arc(middle, middle, middle * 0.93, turned + from, turned + from + (word === 'tool' ? 1.9 : 0.9));
      context.stroke();
    }
  }
  if (word === 'approval' || word === 'hearing') {
    context.strokeStyle = css(tone, word === 'hearing' ? 1 : 0.55 + 0.35 * wave(seconds, 0.6));
    context.lineWidth = size * 0.028;
    context.beginPath();
    context.arc(middle, middle, middle * 0.93, 0, 2 * Math.PI);
    context.stroke();
  }
  if (word === 'muted' || word === 'held' || word === 'approval') return; // a sign stands here

  context.fillStyle = css(on);
  const thick = size * 0.052;
  const dots = word === 'thinking' || word === 'tool';
  for (const [at, share] of barsOf(word, voices, seconds).entries()) {
    if (dots && (at === 0 || at === 4)) continue;
    const tall = Math.max(thick, share * size * 0.82);
    const hop = dots ? -size * 0.05 * Math.max(0, wave(seconds, 0.9, -at * 0.16)) : 0;
    context.beginPath();
    context.roundRect(middle + (at - 2) * thick * (dots ? 2.2 : 1.85) - thick / 2, middle - tall / 2 + hop, thick, tall, thick);
    context.fill();
  }
}

/** Reads a colour as browsers compute it: rgb(1, 2, 3). */
export function readRgb(color: string): Rgb {
  const [r = 0, g = 0, b = 0] = (color.match(/[\d.]+/g) ?? []).map(Number);
  return [r, g, b];
}

/** A step of the way from one colour to another. */
export function towards(from: Rgb, to: Rgb, share: number): Rgb {
  const step = (at: 0 | 1 | 2) => from[at] + (to[at] - from[at]) * share;
  return [step(0), step(1), step(2)];
}
