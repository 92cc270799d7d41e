import type { Json } from '../base/json';
import { areaOption, barOption, composedOption, lineOption, scatterOption } from './axes';
import { calendarOption, sankeyOption, treemapOption } from './flow';
import type { Option } from './frame';
import { geoOption } from './geo';
import type { Look } from './look';
import type { Chart, ChartKind } from './output';
import { funnelOption, gaugeOption, pieOption, radarOption, radialBarOption } from './round';

type Build = (data: Json, look: Look) => Option;

/** The kinds that ECharts draws; the other two, ban and table, are HTML. */
export const drawn: Record<Exclude<ChartKind, 'ban' | 'table'>, Build> = {
  bar: barOption,
  line: lineOption,
  area: areaOption,
  composed: composedOption,
  scatter: scatterOption,
  pie: pieOption,
  radar: radarOption,
  funnel: funnelOption,
  gauge: gaugeOption,
  'radial-bar': radialBarOption,
  treemap: treemapOption,
  sankey: sankeyOption,
  'calendar-heatmap': calendarOption,
  geographic: geoOption,
};

/** Turns a chart into an ECharts option; null for the kinds that are HTML. */
export function chartOption(chart: Chart, look: Look): Option | null {
  return chart.kind === 'ban' || chart.kind === 'table' ? null : drawn[chart.kind](chart.data, look);
}
