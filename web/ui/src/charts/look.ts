/** The colours and type of a chart, so that it fits the page's theme. */
export interface Look {
  dark: boolean;
  text: string;
  muted: string;
  line: string;
  surface: string;
  /** Fill of map regions and calendar cells without a value. */
  empty: string;
  series: string[];
  font: string;
}

const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

export const lightLook: Look = {
  dark: false,
  text: '#23221f',
  muted: '#6a675f',
  line: '#e4e0d8',
  surface: '#ffffff',
  empty: '#eeebe4',
  series: ['#2f7d6b', '#5a68c8', '#d08a2e', '#b94f62', '#3b8db5', '#8a6bb0', '#7e8c36', '#a5694a'],
  font,
};

export const darkLook: Look = {
  dark: true,
  text: '#ecebe6',
  muted: '#a3a198',
  line: '#363932',
  surface: '#1f211e',
  empty: '#2b2e29',
  series: ['#6cc0a6', '#98a4f2', '#e5b164', '#e58a9a', '#77bfe3', '#bda1e0', '#b7c46b', '#d49b7b'],
  font,
};

const scales: Record<string, [string, string, string]> = {
  blues: ['#d6e6f4', '#5ba3cf', '#10529a'],
  reds: ['#fbd9cb', '#ec6d52', '#9f1d1f'],
  greens: ['#d5eed2', '#5db56b', '#0c5f2c'],
  viridis: ['#fde725', '#21918c', '#440154'],
  github: ['#c6ecc8', '#40b35d', '#1d6b36'],
};

/** Colours from low to high; on dark pages the order turns, so that high stands out. */
export function scaleColors(name: string, look: Look): string[] {
  const colors = scales[name] ?? scales.blues ?? [];
  return look.dark ? [...colors].reverse() : colors;
}

const hexColor = /^#(?:[0-9a-f]{3}|[0-9a-f]{6})$/i;

/** A colour that a model gave, or the fallback when it is not a plain hex colour. */
export function safeColor(value: unknown, fallback: string): string {
  return typeof value === 'string' && hexColor.test(value) ? value : fallback;
}
