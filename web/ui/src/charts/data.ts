import { asNumber, asObjects, asText, isObject, type Json } from '../base/json';
import { w } from '../words/charts';
import { textIn } from '../words/texts';
import { formatNumber } from './frame';
import { tableOf, type Table } from './html';
import { mostSeries, type Chart } from './output';

// The data behind a chart, as a table for people.

/** A chart's data in rows and columns; null where it has no such form (the big number). */
export function tableOfChart(chart: Chart): Table | null {
  if (chart.kind === 'table') return tableOf(chart.data);
  const rows = rowsOf(chart);
  const keys = [...new Set(rows.flatMap((row) => [...row.keys()]))].slice(0, mostSeries);
  if (keys.length === 0) return null;
  const values = rows.map((row) => keys.map((key) => cellOf(row.get(key))));
  return {
    columns: keys.map((key, at) => ({ key, label: labelOf(key), numeric: values.some((row) => typeof row[at] === 'number') })),
    rows: values.map((row) => row.map((value) => (typeof value === 'number' ? formatNumber(value) : value))),
    values,
  };
}

const cellOf = (value: unknown) => (typeof value === 'number' ? value : asText(value));

// Maps keep the order of columns, also of those that are named by years.
type Row = Map<string, unknown>;

function rowsOf({ kind, data }: Chart): Row[] {
  const points = asObjects(data.data);
  switch (kind) {
    case 'scatter':
      return points.flatMap(({ name, series }) => asObjects(series).map((point) => new Map(Object.entries({ name, ...point }))));
    case 'sankey': {
      const names = new Map(asObjects(data.nodes).map(({ id, name }) => [id, name]));
      return asObjects(data.links).map((link) => new Map(Object.entries({ ...link, source: names.get(link.source), target: names.get(link.target) })));
    }
    case 'gauge':
      return [new Map(['value', 'unit', 'minValue', 'maxValue'].map((key) => [key, data[key]]))];
    default:
      return points.map(flat);
  }
}

// Lists of series inside a point become columns.
function flat(point: Json): Row {
  const row: Row = new Map();
  for (const [key, value] of Object.entries(point)) {
    if (Array.isArray(value)) {
      for (const entry of asObjects(value)) {
        const name = asText(entry.seriesName, asText(entry.name));
        if (name !== '') row.set(name, asNumber(entry.value) ?? asText(entry.value));
      }
    } else if (!isObject(value)) {
      row.set(key, value);
    }
  }
  return row;
}

/** What a field of the tools is called. Names of series, such as iPhone, stay as they are. */
function labelOf(key: string): string {
  return textIn(w().fields, key) ?? key;
}

/** A table as CSV (RFC 4180). What a spreadsheet would read as a formula is marked as text. */
export function csvOf({ columns, values }: Table): string {
  const quoted = (text: string) => {
    const safe = /^[=+@\t\r]|^-[^\d.]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns.map(({ label }) => label), ...values.map((row) => row.map(String))].map((row) => row.map(quoted).join(',')).join('\r\n') + '\r\n';
}
