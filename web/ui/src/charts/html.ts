import { asNumber, asObject, asObjects, asText, isObject, type Json } from '../base/json';
import { formatNumber, withUnit } from './frame';

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
      ? `${asText(comparison.label, 'Compared with')}: ${numberOrText(comparison.value, asText(data.unit))}`
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
  /** Rows that are not shown. */
  more: number;
}

const shownRows = 500;

export function tableOf(data: Json): Table {
  const types = new Map<string, string>();
  const columns = asObjects(data.columns).map((column) => {
    const key = asText(column.key);
    types.set(key, asText(column.type, 'string'));
    return { key, label: asText(column.label, key), numeric: column.type === 'number' };
  });
  const all = asObjects(data.data);
  const rows = all.slice(0, shownRows).map((row) => columns.map(({ key }) => cell(row[key], types.get(key) ?? '')));
  return { columns, rows, more: Math.max(0, all.length - shownRows) };
}

function cell(value: unknown, type: string): string {
  if (value === null || value === undefined) return '';
  if (type === 'number' && typeof value === 'number') return formatNumber(value);
  if (type === 'boolean' && typeof value === 'boolean') return value ? 'Yes' : 'No';
  return isObject(value) || Array.isArray(value) ? JSON.stringify(value) : asText(value);
}
