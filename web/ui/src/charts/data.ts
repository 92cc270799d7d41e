import { asNumber, asObjects, asText, isObject, type Json } from '../base/json';
import { formatNumber } from './frame';
import { tableOf, type Table } from './html';
import { mostSeries, type Chart } from './output';

// The data behind a chart, as a table for people.

/** A chart's data in rows and columns; null where it has no such form (the big number). */
export function tableOfChart({ kind, data }: Chart): Table | null {
  if (kind === 'table') return tableOf(data);
  const rows = rowsOf(data);
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, mostSeries);
  if (keys.length === 0) return null;
  const cell = (value: unknown) => (typeof value === 'number' ? formatNumber(value) : asText(value));
  return {
    columns: keys.map((key) => ({ key, label: labelOf(key), numeric: rows.some((row) => typeof row[key] === 'number') })),
    rows: rows.map((row) => keys.map((key) => cell(row[key]))),
    values: rows.map((row) => keys.map((key) => (typeof row[key] === 'number' ? (row[key] as number) : asText(row[key])))),
  };
}

// The longest list of objects holds the points; lists of series inside a point become columns.
function rowsOf(data: Json): Json[] {
  const lists = Object.values(data).map(asObjects).filter((list) => list.length > 0);
  const longest = lists.reduce<Json[]>((a, b) => (b.length > a.length ? b : a), []);
  return longest.map(flat);
}

function flat(point: Json): Json {
  const row: Json = {};
  for (const [key, value] of Object.entries(point)) {
    if (Array.isArray(value)) {
      for (const entry of asObjects(value)) {
        const name = asText(entry.seriesName, asText(entry.name));
        if (name !== '') row[name] = asNumber(entry.value) ?? asText(entry.value);
      }
    } else if (!isObject(value)) {
      row[key] = value;
    }
  }
  return row;
}

/** xAxisLabel → X axis label. Names of series stay as they are. */
function labelOf(key: string): string {
  if (!/^[a-z][a-zA-Z]*$/.test(key)) return key;
  const words = key.replace(/([A-Z])/g, ' $1').toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A table as CSV (RFC 4180). What a spreadsheet would read as a formula is marked as text. */
export function csvOf({ columns, values }: Table): string {
  const quoted = (text: string) => {
    const safe = /^[=+@\t\r]|^-[^\d.]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns.map(({ label }) => label), ...values.map((row) => row.map(String))].map((row) => row.map(quoted).join(',')).join('\r\n') + '\r\n';
}
