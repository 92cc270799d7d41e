import { asNumber, asObject, asObjects, asText, isObject, type Json } from '../base/json';
import { locale } from '../words/language.svelte';
import { w } from '../words/charts';
import { formatNumber, withUnit } from './frame';
import { mostSeries } from './output';

// The two kinds that are HTML: the big number and the table.

export interface Ban {
  value: string;
  trend: { direction: 'up' | 'down' | 'neutral'; text: string } | null;
  comparison: string;
}

function numberOrText(value: unknown, unit: string): string {
  return typeof value === 'number' ? withUnit(formatNumber(value), unit) : withUnit(asText(value, '–'), unit);
}

export function banOf(data: Json): Ban {
  const trend = asObject(data.trend);
  const comparison = asObject(data.comparison);
  const direction = trend.direction === 'up' || trend.direction === 'down' ? trend.direction : 'neutral';
  const change = asNumber(trend.value);
  const trendWords = [change === undefined ? '' : formatNumber(change), asText(trend.label)].filter(Boolean).join(' ');
  return {
    value: numberOrText(data.value, asText(data.unit)),
    trend: isObject(data.trend) ? { direction, text: trendWords } : null,
    comparison: isObject(data.comparison)
      ? `${asText(comparison.label, w().compared)}: ${numberOrText(comparison.value, asText(data.unit))}`
      : '',
  };
}

export interface Column {
  key: string;
  label: string;
  numeric: boolean;
}

export interface Table {
  columns: Column[];
  rows: string[][];
  /** What the cells of the rows are sorted by. */
  values: (string | number)[][];
}

const shownRows = 10_000;

export function tableOf(data: Json): Table {
  const types = new Map<string, string>();
  const columns = asObjects(data.columns).slice(0, mostSeries).map((column) => {
    const key = asText(column.key);
    types.set(key, asText(column.type, 'string'));
    return { key, label: asText(column.label, key), numeric: column.type === 'number' };
  });
  const all = asObjects(data.data);
  const shown = all.slice(0, shownRows);
  const rows = shown.map((row) => columns.map(({ key }) => cell(row[key], types.get(key) ?? '')));
  const values = rows.map((row, at) =>
    row.map((text, i) => {
      const value = shown[at]?.[columns[i]?.key ?? ''];
      return typeof value === 'number' ? value : text;
    }),
  );
  return { columns, rows, values };
}

/** By which column a table is sorted. */
export interface Order {
  column: number;
  down: boolean;
}

/**
 * The indexes of the rows to show, in order: those that contain all words of the search.
 * Equal rows keep their order, empty cells come last in both directions, numbers before texts.
 */
export function arranged({ rows, values }: Table, order: Order | null, search: string): number[] {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [...rows.keys()].filter((at) => {
    const text = (rows[at] ?? []).join('\n').toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
  if (!order) return found;
  const words = new Intl.Collator(locale(), { numeric: true, sensitivity: 'base' });
  const value = (at: number) => values[at]?.[order.column] ?? '';
  return found.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === '' || b === '') return Number(a === '') - Number(b === '');
    return order.down ? -compared(words, a, b) : compared(words, a, b);
  });
}

function compared(words: Intl.Collator, a: string | number, b: string | number): number {
  if (typeof a === 'string' && typeof b === 'string') return words.compare(a, b);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return typeof a === 'number' ? -1 : 1;
}

function cell(value: unknown, type: string): string {
  if (value === null || value === undefined) return '';
  if (type === 'number' && typeof value === 'number') return formatNumber(value);
  if (type === 'boolean' && typeof value === 'boolean') return value ? w().yes : w().no;
  return isObject(value) || Array.isArray(value) ? JSON.stringify(value) : asText(value);
}
