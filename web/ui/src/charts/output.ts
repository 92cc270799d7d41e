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

/** Reads a tool's output as a chart; null when it is not one. */
export function readChart(output: unknown): Chart | null {
  if (!isObject(output) || !isObject(output.chartData)) return null;
  const kind = chartKinds.find((known) => known === output.chartType);
  if (!kind || (output.status !== undefined && output.status !== 'success')) return null;
  const data = asObject(output.chartData);
  return {
    kind,
    title: asText(output.title, asText(data.title)),
    description: asText(data.description, asText(output.description)),
    data,
  };
}
