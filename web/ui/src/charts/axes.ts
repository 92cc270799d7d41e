import { asNumber, asObjects, asText, type Json } from '../base/json';
import { percentage } from '../words/format';
import { formatNumber, formatShort, frame, legend, short, tooltip, type Option } from './frame';
import type { Look } from './look';
import { mostSeries } from './output';

// Charts on two axes: bar, line, area, composed, scatter.

interface Columns {
  labels: string[];
  names: string[];
  /** Value of series s at label l; null where the data has a hole. */
  value: (name: string, at: number) => number | null;
  kind: (name: string) => string;
}

function columnsOf(data: Json): Columns {
  const rows = asObjects(data.data);
  const names: string[] = [];
  const kinds = new Map<string, string>();
  const cells = rows.map((row) => {
    const cell = new Map<string, number | null>();
    for (const entry of asObjects(row.series)) {
      const name = asText(entry.seriesName, 'Series');
      if (!names.includes(name) && names.length < mostSeries) names.push(name);
      if (!kinds.has(name)) kinds.set(name, asText(entry.chartType, 'bar'));
      cell.set(name, asNumber(entry.value) ?? null);
    }
    return cell;
  });
  return {
    labels: rows.map((row) => asText(row.xAxisLabel)),
    names,
    value: (name, at) => cells[at]?.get(name) ?? null,
    kind: (name) => kinds.get(name) ?? 'bar',
  };
}

function grid(names: string[], data: Json): Option {
  return {
    left: 6,
    right: 14,
    top: asText(data.yAxisLabel) ? 34 : 14,
    bottom: (names.length > 1 ? 34 : 6) + (xName(data) ? 22 : 0),
    outerBoundsMode: 'same',
    outerBoundsContain: 'axisLabel',
  };
}

// Bar and line charts call the label field of a point xAxisLabel too; only text
// beside the data is an axis name.
function xName(data: Json): string {
  return asText(data.xAxisLabel);
}

function categoryAxis(look: Look, data: Json, labels: string[], gap: boolean): Option {
  return {
    type: 'category',
    data: labels,
    boundaryGap: gap,
    name: short(xName(data), 60),
    nameLocation: 'middle',
    nameGap: 30,
    nameTextStyle: { color: look.muted },
    axisTick: { show: false },
    axisLine: { lineStyle: { color: look.line } },
    axisLabel: { color: look.muted, hideOverlap: true, formatter: (label: string) => short(label, 18) },
  };
}

function valueAxis(look: Look, data: Json, more: Option = {}): Option {
  return {
    type: 'value',
    // Above the axis and level: it cannot run into the numbers, and reads better.
    name: short(asText(data.yAxisLabel), 40),
    nameLocation: 'end',
    nameGap: 14,
    nameTextStyle: { color: look.muted, align: 'left' },
    splitLine: { lineStyle: { color: look.line } },
    axisLabel: { color: look.muted, formatter: formatShort },
    ...more,
  };
}

function cartesian(look: Look, data: Json, columns: Columns, series: Option[], more: Option = {}): Option {
  const bars = series.some((one) => one.type === 'bar');
  return frame(look, {
    tooltip: tooltip(look, 'axis', { axisPointer: { type: bars ? 'shadow' : 'line', lineStyle: { color: look.muted } } }),
    legend: legend(look, columns.names),
    grid: grid(columns.names, data),
    xAxis: categoryAxis(look, data, columns.labels, bars),
    yAxis: valueAxis(look, data),
    series,
    ...more,
  });
}

function values(columns: Columns, name: string): (number | null)[] {
  return columns.labels.map((_, at) => columns.value(name, at));
}

const barSeries = { type: 'bar', barMaxWidth: 44, itemStyle: { borderRadius: [4, 4, 0, 0] } };
const lineSeries = { type: 'line', showSymbol: false, symbolSize: 7, lineStyle: { width: 2.5 }, connectNulls: true };

export function barOption(data: Json, look: Look): Option {
  const columns = columnsOf(data);
  const series = columns.names.map((name) => ({ ...barSeries, name, data: values(columns, name) }));
  return cartesian(look, data, columns, series);
}

export function lineOption(data: Json, look: Look): Option {
  const columns = columnsOf(data);
  const few = columns.labels.length <= 12;
  const series = columns.names.map((name) => ({ ...lineSeries, showSymbol: few, name, data: values(columns, name) }));
  return cartesian(look, data, columns, series);
}

export function areaOption(data: Json, look: Look): Option {
  const columns = columnsOf(data);
  const kind = asText(data.areaType, 'standard');
  const percent = kind === 'percent';
  const total = columns.labels.map((_, at) =>
    columns.names.reduce((sum, name) => sum + Math.abs(columns.value(name, at) ?? 0), 0),
  );
  const share = (value: number | null, at: number) => {
    if (!percent || value === null) return value;
    const all = total[at] ?? 0;
    return all === 0 ? 0 : (100 * value) / all;
  };
  const series = columns.names.map((name) => ({
    ...lineSeries,
    name,
    stack: kind === 'standard' ? undefined : 'all',
    areaStyle: { opacity: kind === 'standard' ? 0.18 : 0.55 },
    data: values(columns, name).map(share),
  }));
  if (!percent) return cartesian(look, data, columns, series);
  return cartesian(look, data, columns, series, {
    yAxis: valueAxis(look, data, { max: 100, axisLabel: { color: look.muted, formatter: (value: number) => percentage(value) } }),
    tooltip: tooltip(look, 'axis', { valueFormatter: (value: unknown) => (typeof value === 'number' ? percentage(value, 2) : formatNumber(value)) }),
  });
}

export function composedOption(data: Json, look: Look): Option {
  const columns = columnsOf(data);
  const series = columns.names.map((name) => {
    const kind = columns.kind(name);
    const base = kind === 'bar' ? barSeries : lineSeries;
    return { ...base, name, data: values(columns, name), ...(kind === 'area' ? { areaStyle: { opacity: 0.18 } } : {}) };
  });
  return cartesian(look, data, columns, series);
}

interface Point {
  value: number[];
  name: string;
}

const smallestBubble = 8;
const largestBubble = 44;

export function scatterOption(data: Json, look: Look): Option {
  const series = new Map<string, Point[]>();
  for (const row of asObjects(data.data)) {
    for (const entry of asObjects(row.series)) {
      const [x, y] = [asNumber(entry.x), asNumber(entry.y)];
      if (x === undefined || y === undefined) continue;
      const name = asText(entry.seriesName, 'Series');
      const z = asNumber(entry.z);
      const point = { value: z === undefined ? [x, y] : [x, y, z], name: asText(row.name) };
      series.set(name, [...(series.get(name) ?? []), point]);
    }
  }
  const names = [...series.keys()];
  const largest = Math.max(0, ...[...series.values()].flat().map((point) => point.value[2] ?? 0));
  // A bubble's area, not its width, stands for the value.
  const size = (value: number[]) =>
    data.showBubbles === true && largest > 0
      ? Math.max(smallestBubble, largestBubble * Math.sqrt(Math.max(0, value[2] ?? 0) / largest))
      : 10;
  return frame(look, {
    tooltip: tooltip(look, 'item', { formatter: scatterWords }),
    legend: legend(look, names),
    grid: grid(names, data),
    xAxis: valueAxis(look, {}, {
      name: short(xName(data), 60),
      nameLocation: 'middle',
      nameGap: 30,
      nameTextStyle: { color: look.muted },
      scale: true,
    }),
    yAxis: valueAxis(look, data, { scale: true }),
    series: names.map((name) => ({
      type: 'scatter',
      name,
      data: series.get(name),
      symbolSize: size,
      itemStyle: { opacity: 0.78 },
    })),
  });
}

function scatterWords(params: { seriesName?: string; name?: string; value?: number[] }): string {
  const [x, y, z] = params.value ?? [];
  const where = `${formatNumber(x)}, ${formatNumber(y)}${z === undefined ? '' : ` (${formatNumber(z)})`}`;
  return [params.name, params.seriesName, where].filter(Boolean).join('\n');
}
