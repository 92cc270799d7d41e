import { asObject, asText, isObject, type Json } from '../base/json';

export const chartKinds = [
  'bar',
  'line',
  'pie',
  'area',
  'scatter',
  'radar',
  'funnel',
  'treemap',
  'sankey',
  'radial-bar',
  'composed',
  'geographic',
  'gauge',
  'calendar-heatmap',
  'ban',
  'table',
] as const;

export type ChartKind = (typeof chartKinds)[number];

/** A chart tool's result, reduced to what the page draws from. */
export interface Chart {
  kind: ChartKind;
  title: string;
  description: string;
  data: Json;
}

// The server's own tools stay far below. Drawing more would stop the page; it is shown as data.
const mostPoints = 5000;
/** How many series or columns of a chart are shown. */
export const mostSeries = 200;

/** Reads a tool's output as a chart; null when it is not one. */
export function readChart(output: unknown): Chart | null {
  if (!isObject(output) || !isObject(output.chartData)) return null;
  const kind = chartKinds.find((known) => known === output.chartType);
  if (!kind || (output.status !== undefined && output.status !== 'success')) return null;
  const data = asObject(output.chartData);
  if (kind !== 'table' && Object.values(data).some((list) => Array.isArray(list) && list.length > mostPoints)) return null;
  return {
    kind,
    title: asText(output.title, asText(data.title)),
    description: asText(data.description, asText(output.description)),
    data,
  };
}
