/** The colours and type of a chart, so that it fits the page's theme. */
export interface Look {
  dark: boolean;
  text: string;
  muted: string;
  line: string;
  surface: string;
  /** Fill of map regions and calendar cells without a value. */
  empty: string;
  /** Text on the colour of a series. */
  onSeries: string;
  series: string[];
  font: string;
}

const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

/** The look in the page's colours. read returns one of them by its name in app.css. */
export function lookOf(dark: boolean, read: (name: string) => string): Look {
  return {
    dark,
    text: read('text'),
    muted: read('muted'),
    line: read('line'),
    surface: read('surface'),
    empty: read('soft'),
    onSeries: read('on-series'),
    series: [1, 2, 3, 4, 5, 6, 7, 8].map((n) => read(`series-${n}`)),
    font,
  };
}

/** Reads the page's colours as they are now, below an element. */
export function pageColors(parent: Element): (name: string) => string {
  return (name) => {
    const probe = document.createElement('i');
    probe.style.color = `var(--${name})`;
    parent.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
  };
}

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

/** A colour that a model gave, or the fallback if it is not a plain hex colour. */
export function safeColor(value: unknown, fallback: string): string {
  return typeof value === 'string' && hexColor.test(value) ? value : fallback;
}
